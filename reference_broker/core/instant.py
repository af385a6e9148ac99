"""The moment at which the core is asked to act: two clocks, never mixed.

* ``mono_ns`` is elapsed (monotonic) time. Every timer and every *relative* delay runs on it, so a step of the wall
  clock neither releases a message early nor strands it (DESIGN section 5).
* ``wall_ms`` is the broker host's wall clock, milliseconds since the epoch. Expiry and time-stamping are decided by it,
  because clients stamp by wall clock.
* The core never reads a clock. Whoever calls it (the server, the simulation, a test) says what time it is.
"""

from __future__ import annotations

NS_PER_MS = 1_000_000


class Now:
    """One instant on the broker's host: monotonic nanoseconds and wall-clock milliseconds."""

    __slots__ = ("mono_ns", "wall_ms")

    def __init__(self, mono_ns: int, wall_ms: int) -> None:
        self.mono_ns = mono_ns
        self.wall_ms = wall_ms

    def __repr__(self) -> str:
        return f"Now(mono_ns={self.mono_ns}, wall_ms={self.wall_ms})"


def earlier(one_ns: int | None, other_ns: int | None) -> int | None:
    """The earlier of two due times, either of which may not exist."""
    if one_ns is None or (other_ns is not None and other_ns < one_ns):
        return other_ns
    return one_ns
