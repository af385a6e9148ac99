"""Stalls: periods in which a link held bytes back."""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Fault
from brokerproof.conformance.facts.spans import NEVER, Span


class Stall:
    """A period in which a link held bytes back, and the last sign of life before it in either direction."""

    __slots__ = ("begin", "end", "last_heard_ns", "last_request_ns", "toward")

    def __init__(self, begin: Fault, last_request_ns: int, last_heard_ns: int) -> None:
        self.begin = begin
        self.end: Fault | None = None
        self.toward = begin.toward or "both"
        self.last_request_ns = last_request_ns
        self.last_heard_ns = last_heard_ns

    def span(self) -> Span:
        """From its beginning to its end."""
        return self.begin.t0, self.end.t1 if self.end is not None else NEVER
