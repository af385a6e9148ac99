"""Mutants of time-stamping where it must not act, cannot, or acts again."""

from __future__ import annotations

from brokerproof.conformance.mutants.clocks import stamping
from brokerproof.conformance.mutants.registry import Mutant
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.timestamping import Stamping, wrap_int64


class StampsBridged(Stamping):
    """What came over a bridge is stamped, whatever the configuration says."""

    def stamp(self, message: Message, wall_ms: int, network: bool) -> None:  # noqa: ARG002 - the defect
        super().stamp(message, wall_ms, False)


class Overflows(Stamping):
    """A sum that does not fit becomes a time near the present."""

    def stamp(self, message: Message, wall_ms: int, network: bool) -> None:
        life_ms = message.expiration_ms - message.timestamp_ms
        super().stamp(message, wall_ms, network)
        if message.timestamp_ms == wall_ms and life_ms > 0 and wrap_int64(life_ms + wall_ms) < 0:
            message.expiration_ms = wall_ms + 3_600_000


class RestampsMoved(Stamping):
    """A move does the opposite of what is configured."""

    def stamps_moved(self) -> bool:
        return not super().stamps_moved()


ALL = (
    Mutant("stamp-bridged", "TSP-013", "What came over a bridge is stamped.", "timestamping", stamping(StampsBridged)),
    Mutant("stamp-overflows", "TSP-015", "A time to live that overflows becomes an hour.", "timestamping",
           stamping(Overflows)),
    Mutant("stamp-moved-otherwise", "TSP-016", "A move does the opposite of what is configured.", "timestamping",
           stamping(RestampsMoved)),
)  # fmt: skip
