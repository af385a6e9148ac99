"""The registry of steps. The order is part of the format of recorded choices: append, never insert."""

from __future__ import annotations

from conformance.steps.base import Shape, Step
from conformance.steps.consume import Ack, Leave, Nack, Subscribe, Take
from conformance.steps.fault import Clock, Resume, Stall
from conformance.steps.passage import Advance, Counters, Settle
from conformance.steps.send import Send

AnyStep = Send | Subscribe | Take | Ack | Nack | Leave | Clock | Stall | Resume | Advance | Settle | Counters

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
)

__all__ = [
    "REGISTRY",
    "Ack",
    "Advance",
    "AnyStep",
    "Clock",
    "Counters",
    "Leave",
    "Nack",
    "Resume",
    "Send",
    "Settle",
    "Shape",
    "Stall",
    "Step",
    "Subscribe",
    "Take",
]
