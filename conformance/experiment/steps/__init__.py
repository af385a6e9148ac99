"""The registry of steps. The order is part of the format of recorded choices: append, never insert."""

from __future__ import annotations

from brokerproof.conformance.experiment.steps.base import Step
from brokerproof.conformance.experiment.steps.consume import Ack, Disconnect, Leave, Nack, Subscribe, Take, Unsubscribe
from brokerproof.conformance.experiment.steps.fault import Clock, Cut, Freeze, Reset, Resume, Stall, Thaw
from brokerproof.conformance.experiment.steps.operation import Operate, Restart
from brokerproof.conformance.experiment.steps.parallel import ClientStep, Parallel
from brokerproof.conformance.experiment.steps.probe import Pause, Probe
from brokerproof.conformance.experiment.steps.protocol import Acknowledge
from brokerproof.conformance.experiment.steps.scarcity import Exhaust, Relieve
from brokerproof.conformance.experiment.steps.send import Send
from brokerproof.conformance.experiment.steps.shape import FEATURES, Shape
from brokerproof.conformance.experiment.steps.transaction import Begin, Commit, Rollback
from brokerproof.conformance.experiment.steps.waiting import Advance, Counters, Settle

AnyStep = (
    Send
    | Subscribe
    | Take
    | Ack
    | Nack
    | Leave
    | Clock
    | Stall
    | Resume
    | Advance
    | Settle
    | Counters
    | Begin
    | Commit
    | Rollback
    | Unsubscribe
    | Restart
    | Operate
    | Probe
    | Pause
    | Acknowledge
    | Parallel
    | Cut
    | Reset
    | Freeze
    | Thaw
    | Exhaust
    | Relieve
    | Disconnect
)

REGISTRY: tuple[type[AnyStep], ...] = (
    Send,
    Subscribe,
    Take,
    Ack,
    Nack,
    Leave,
    Clock,
    Stall,
    Resume,
    Advance,
    Settle,
    Counters,
    Begin,
    Commit,
    Rollback,
    Unsubscribe,
    Restart,
    Operate,
    Probe,
    Pause,
    Acknowledge,
    Parallel,
    Cut,
    Reset,
    Freeze,
    Thaw,
    Exhaust,
    Relieve,
    Disconnect,
)

__all__ = [
    "FEATURES",
    "REGISTRY",
    "Ack",
    "Acknowledge",
    "Advance",
    "AnyStep",
    "Begin",
    "ClientStep",
    "Clock",
    "Commit",
    "Counters",
    "Cut",
    "Disconnect",
    "Exhaust",
    "Freeze",
    "Leave",
    "Nack",
    "Operate",
    "Parallel",
    "Pause",
    "Probe",
    "Relieve",
    "Reset",
    "Restart",
    "Resume",
    "Rollback",
    "Send",
    "Settle",
    "Shape",
    "Stall",
    "Step",
    "Subscribe",
    "Take",
    "Thaw",
    "Unsubscribe",
]
