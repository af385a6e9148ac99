"""Machine: delayed messages are never early, across skews and jumps (seed 004, DLY-001).

Model: when each send began, and its delay, in true time. The broker cannot have accepted a message before its send
began, so an arrival earlier than that plus the delay is early for certain, whatever any clock showed.
"""

from __future__ import annotations

from hypothesis.stateful import initialize

from brokerproof.conformance.experiment.history import Arrive, Event
from brokerproof.conformance.experiment.history import Send as Sent
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import Ack, Advance, Clock, Leave, Send, Settle, Subscribe, Take
from brokerproof.conformance.generate.strategies import frames
from brokerproof.conformance.machines.base import WorldMachine, machine_rules

NS_PER_MS = 1_000_000

_Rules = type("_Rules", (WorldMachine,), machine_rules((Send, Subscribe, Take, Ack, Leave, Clock, Advance, Settle)))


class DelayMachine(_Rules):  # type: ignore[misc, valid-type]  # its rules come from the registry, so the base is made at import
    """See the module's header."""

    promise = "DLY-001"

    def __init__(self) -> None:
        super().__init__()
        self.earliest_ns: dict[str, int] = {}
        self.arrived_ns: dict[str, int] = {}

    @initialize(frame=frames())
    def start(self, frame: Program) -> None:
        """Any frame will do."""
        self.open_world(frame)

    def observe(self, event: Event) -> None:
        if isinstance(event, Sent):
            self.earliest_ns[event.message] = event.t0 + event.delay_ms * NS_PER_MS
            self._compare(event.message)
        elif isinstance(event, Arrive):
            self.arrived_ns.setdefault(event.message, event.t1)
            self._compare(event.message)

    def _compare(self, message: str) -> None:
        arrived_ns = self.arrived_ns.get(message)
        earliest_ns = self.earliest_ns.get(message)
        if arrived_ns is not None and earliest_ns is not None and arrived_ns < earliest_ns:
            early_ms = (earliest_ns - arrived_ns) / NS_PER_MS
            self.broken(f"{message} arrived {early_ms:.3f} ms before its delivery time")
