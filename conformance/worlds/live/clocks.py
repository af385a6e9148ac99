"""Wall clocks of the live world's hosts: offsets, drift, samples.

Rules
* A sample is what the process itself says its clock shows; never what it was told to show.
* A drifting clock is a staircase of small steps (``chaos.clocks``), so its samples are uncertain by one step more.
* Agents' clocks are read to the nanosecond (the reply says when the millisecond began), brokers' to the millisecond
  that they tell.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from brokerproof.chaos.clocks import DRIFT_STEP_US, ClockFile, DriftingClock
from brokerproof.chaos.rates import REAL, Rate

if TYPE_CHECKING:
    from brokerproof.chaos.clocks import ClockReading
    from brokerproof.conformance.agents.protocol import Reply
    from brokerproof.conformance.experiment.configuration import ClockSpec

NS_PER_MS = 1_000_000
#: How near a clock must be to where it was put, to count as being there.
TOLERANCE_MS = 50


class Sample(Struct, eq=False):
    """One reading: the clock showed ``wall_ms`` and ``beyond_ns``, give or take ``plus_minus_ns``.

    When: within ``[t0, t1]`` on the program's monotonic clock.
    """

    wall_ms: int
    t0_ns: int
    t1_ns: int
    plus_minus_ns: int = 0
    beyond_ns: int = 0

    def offset_ms(self, real_offset_ns: int) -> int:
        """How far the clock is from real time; ``real_offset_ns`` is real wall time minus monotonic time."""
        middle_ns = (self.t0_ns + self.t1_ns) // 2
        return self.wall_ms - (middle_ns + real_offset_ns) // NS_PER_MS


def of_reply(reply: Reply) -> Sample:
    """What an agent's reply says. Without an interval of its own the reading lies somewhere in the reply's."""
    if reply.wall_at is None:
        return _truncated(reply.wall_ms, reply.t0, reply.t1, NS_PER_MS)
    return Sample(reply.wall_ms, reply.wall_at[0], reply.wall_at[1])


def of_reading(found: ClockReading, rate: Rate = REAL) -> Sample:
    """What a broker said, at instants of the machine."""
    return _truncated(found.wall_ms, rate.of_ns(found.t0_ns), rate.of_ns(found.t1_ns), found.resolution_ms * NS_PER_MS)


def _truncated(wall_ms: int, t0_ns: int, t1_ns: int, resolution_ns: int) -> Sample:
    """A reading without its fraction: the middle of what it can have been."""
    return Sample(wall_ms, t0_ns, t1_ns, resolution_ns // 2, resolution_ns // 2)


def real_offset_ns() -> int:
    """This process's own wall clock minus its monotonic clock; the runner is never faked."""
    return time.time_ns() - time.monotonic_ns()


class HostClock:
    """Where a host's clock is meant to be: an offset that faults change, and a rate error that ticks carry out."""

    def __init__(self, spec: ClockSpec, file: ClockFile | None, now_ns: int) -> None:
        self.offset_ms = spec.offset_ms
        self.drift_ppm = spec.drift_ppm
        self.file = file
        #: When a sample was last recorded.
        self.sampled_ns = -1
        self._drifting: DriftingClock | None = None
        #: What it shows while it stands still, and since when it does.
        self._stands_us: int | None = None
        self.stopped_ns = 0
        self.restart(now_ns)

    @property
    def uncertainty_ns(self) -> int:
        """What the staircase adds to a sample."""
        return DRIFT_STEP_US * 1000 if self.drift_ppm else 0

    def restart(self, now_ns: int) -> None:
        """From now on drift counts from the present offset."""
        self._drifting = None
        if self.drift_ppm and self.file is not None:
            self._drifting = DriftingClock(self.file, self.offset_ms, self.drift_ppm, now_ns)

    def step(self, jump_ms: int, now_ns: int) -> None:
        """Jump. Raises ``BadOffset`` when that leaves what a clock can show."""
        self.offset_ms = self.now_offset_ms() + jump_ms
        if self.file is not None:
            self.file.set_offset_ms(self.offset_ms)
        self.restart(now_ns)

    def move(self, file: ClockFile | None, now_ns: int) -> None:
        """The host has a new process, with a clock file of its own."""
        self.offset_ms = self.now_offset_ms()
        self.file = file
        if self._stands_us is None:
            self.restart(now_ns)
        elif file is not None:
            file.stand_at_us(self._stands_us)

    def freeze(self, wall_us: int, now_ns: int) -> None:
        """Stand still, showing this; the drift pauses with it."""
        self.offset_ms = self.now_offset_ms()
        self._stands_us, self.stopped_ns, self._drifting = wall_us, now_ns, None
        if self.file is not None:
            self.file.stand_at_us(wall_us)

    def thaw(self, now_ns: int) -> None:
        """Go on as if it had not stood still, but for the drift of that time."""
        self._stands_us = None
        if self.file is not None:
            self.file.set_offset_ms(self.offset_ms)
        self.restart(now_ns)

    def tick(self, now_ns: int) -> None:
        """Carry out the drift."""
        if self._drifting is not None:
            self._drifting.tick(now_ns)

    def next_tick_ns(self) -> int | None:
        """When that is wanted again."""
        return None if self._drifting is None else self._drifting.next_tick_ns()

    def now_offset_ms(self) -> int:
        """The offset that the file has now, drift included, rounded down to milliseconds."""
        return self.offset_ms if self.file is None else self.file.offset_us // 1000
