"""Virtual wall clocks: a constant offset, a rate error, and steps.

True time is the simulation's own count of nanoseconds. A host's wall clock is ``EPOCH + true + offset + drift``; a jump
changes the offset at one instant; one that stands still shows the same until it goes on. The host's monotonic clock
*is* true time: skewing a wall clock must never disturb a timer (DESIGN section 5).
"""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import ClockSpec
from brokerproof.reference_broker.core.instant import Now

NS_PER_MS = 1_000_000
#: True time 0 on a perfect wall clock: 2026-11-21T00:00:00Z in milliseconds.
EPOCH_MS = 1_795_219_200_000


class VirtualClock:
    """One host's wall clock."""

    def __init__(self, spec: ClockSpec) -> None:
        self._base_ns = (EPOCH_MS + spec.offset_ms) * NS_PER_MS
        self._drift_ppm = spec.drift_ppm
        #: What a broker that takes local time for time (a planted defect) is wrong by.
        self.mistaken_ms = 0
        #: What it shows as long as it stands still.
        self._stands_ns: int | None = None
        #: What it showed last, unless it was changed since: one instant is asked for often.
        self._latest: Now | None = None

    def now(self, true_ns: int) -> Now:
        """This instant on its host."""
        latest = self._latest
        if latest is None or latest.mono_ns != true_ns:
            latest = self._latest = Now(true_ns, self.wall_ns(true_ns) // NS_PER_MS + self.mistaken_ms)
        return latest

    def wall_ns(self, true_ns: int) -> int:
        """Wall time in nanoseconds since the epoch."""
        if self._stands_ns is not None:
            return self._stands_ns
        drift_ppm = self._drift_ppm
        return self._base_ns + true_ns + (true_ns * drift_ppm // 1_000_000 if drift_ppm else 0)

    def wall_ms(self, true_ns: int) -> int:
        """Wall time as programs read it: whole milliseconds, truncated."""
        return self.wall_ns(true_ns) // NS_PER_MS

    def jump(self, jump_ms: int) -> None:
        """Step the clock."""
        self._base_ns += jump_ms * NS_PER_MS
        self._latest = None

    def freeze(self, true_ns: int) -> None:
        """Stand still."""
        self._stands_ns = self.wall_ns(true_ns)
        self._latest = None

    def thaw(self) -> None:
        """Go on as if it had not."""
        self._stands_ns = None
        self._latest = None
