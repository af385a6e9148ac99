"""The registry of steps. The order is part of the format of recorded choices: append, never insert."""

from __future__ import annotations

from conformance.steps.base import Shape, Step
from conformance.steps.consume import Ack, Leave, Nack, Subscribe, Take, Unsubscribe
from conformance.steps.fault import Clock, Resume, Stall
from conformance.steps.operation import Operate, Restart
from conformance.steps.passage import Advance, Counters, Settle
from conformance.steps.protocol import Acknowledge
from conformance.steps.send import Send
from conformance.steps.transaction import Begin, Commit, Rollback
from conformance.steps.visit import Pause, Visit

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
    | Visit
    | Pause
    | Acknowledge
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
    Visit,
    Pause,
    Acknowledge,
)

__all__ = [
    "REGISTRY",
    "Ack",
    "Acknowledge",
    "Advance",
    "AnyStep",
    "Begin",
    "Clock",
    "Commit",
    "Counters",
    "Leave",
    "Nack",
    "Operate",
    "Pause",
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
    "Unsubscribe",
    "Visit",
]
