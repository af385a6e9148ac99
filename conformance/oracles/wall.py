"""Wall clocks of all hosts, reconstructed from ``clock_sample`` events, with bounds.

A sample says: at the middle of ``[t0, t1]`` the wall clock read ``wall_ms``, give or take ``plus_minus_ns`` and half
the interval. Between two samples of a host the clock is taken to have run evenly, unless a ``fault`` event of kind
``clock`` for that host lies between them: then it jumped at an unknown instant, and the bounds cover both sides. Worlds
sample before and after every jump, so that window is narrow. After the last sample the last known rate goes on.

Ask only when the history is complete up to the next sample (oracles do so in ``conclude``): a later sample can narrow
or widen what an earlier one says.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from brokerproof.conformance.experiment.history import ClockSample, Fault

NS_PER_MS = 1_000_000
#: A clock that is not sampled again may run off by this much (parts per million): quartz is better.
RATE_PPM_MAX = 200


class HostClock:
    """Samples of one host, in order of true time."""

    __slots__ = ("error_ns", "jumps_ns", "offset_ns", "times_ns")

    def __init__(self) -> None:
        self.times_ns: list[int] = []
        #: Wall clock minus true time at each sample.
        self.offset_ns: list[int] = []
        self.error_ns: list[int] = []
        #: True times at which a jump was recorded (end of the fault's interval).
        self.jumps_ns: list[int] = []

    def add(self, event: ClockSample) -> None:
        """Take a sample into account."""
        middle = (event.t0 + event.t1) // 2
        self.times_ns.append(middle)
        self.offset_ns.append(event.wall_ms * NS_PER_MS + event.beyond_ns - middle)
        self.error_ns.append(event.plus_minus_ns + (event.t1 - event.t0) // 2)

    def bounds_ns(self, true_ns: int) -> tuple[int, int]:
        """Least and greatest wall time (nanoseconds since the epoch) at a true time."""
        after = bisect_right(self.times_ns, true_ns)
        if after == 0:
            return self._extrapolate(0, true_ns)
        before = after - 1
        first = bisect_left(self.times_ns, true_ns)
        if first < before:  # sampled before and after a jump at this very instant of virtual time
            readings = [self._extrapolate(index, true_ns) for index in range(first, after)]
            return min(low for low, _ in readings), max(high for _, high in readings)
        if self.times_ns[before] == true_ns or after == len(self.times_ns):
            return self._extrapolate(before, true_ns)
        if self._jumped(self.times_ns[before], self.times_ns[after]):
            low_0, high_0 = self._extrapolate(before, true_ns)
            low_1, high_1 = self._extrapolate(after, true_ns)
            return min(low_0, low_1), max(high_0, high_1)
        span = self.times_ns[after] - self.times_ns[before]
        change = self.offset_ns[after] - self.offset_ns[before]
        offset = self.offset_ns[before] + change * (true_ns - self.times_ns[before]) // span
        error = max(self.error_ns[before], self.error_ns[after])
        return true_ns + offset - error, true_ns + offset + error

    def _extrapolate(self, index: int, true_ns: int) -> tuple[int, int]:
        away = abs(true_ns - self.times_ns[index])
        error = self.error_ns[index]
        if error or len(self.times_ns) == 1:
            error += away * RATE_PPM_MAX // 1_000_000 if error else 0
        wall = true_ns + self.offset_ns[index] + self._drift_ns(index, true_ns)
        return wall - error, wall + error

    def _drift_ns(self, index: int, true_ns: int) -> int:
        """After the last sample: how far the rate between the last two carries the clock away.

        0 elsewhere, after a jump, and where samples have errors: two noisy samples close together would make any rate.
        """
        if index == 0 or index != len(self.times_ns) - 1 or true_ns <= self.times_ns[index]:
            return 0
        if self.error_ns[index] or self.error_ns[index - 1]:
            return 0
        span = self.times_ns[index] - self.times_ns[index - 1]
        if span == 0 or self._jumped(self.times_ns[index - 1], self.times_ns[index]):
            return 0
        return (self.offset_ns[index] - self.offset_ns[index - 1]) * (true_ns - self.times_ns[index]) // span

    def _jumped(self, start_ns: int, end_ns: int) -> bool:
        return bisect_right(self.jumps_ns, end_ns) > bisect_right(self.jumps_ns, start_ns - 1)


class WallClocks:
    """The clocks of all hosts of one run."""

    __slots__ = ("_hosts",)

    def __init__(self) -> None:
        self._hosts: dict[str, HostClock] = {}

    def sample(self, event: ClockSample) -> None:
        """Feed a ``clock_sample``."""
        clock = self._hosts.get(event.host)
        if clock is None:
            clock = self._hosts[event.host] = HostClock()
        clock.add(event)

    def fault(self, event: Fault) -> None:
        """Feed a ``fault``; only clock faults matter."""
        if event.fault == "clock" and event.target is not None:
            self._hosts.setdefault(event.target, HostClock()).jumps_ns.append(event.t1)

    def known(self, host: str) -> bool:
        """Whether anything is known of this host's clock."""
        clock = self._hosts.get(host)
        return clock is not None and bool(clock.times_ns)

    def bounds_ns(self, host: str, t0_ns: int, t1_ns: int) -> tuple[int, int]:
        """Least and greatest wall time (ns since the epoch) that ``host`` can have shown at some instant of ``[t0,
        t1]``. Raises ``KeyError`` if unknown.
        """
        clock = self._hosts[host]
        low_0, high_0 = clock.bounds_ns(t0_ns)
        if t1_ns == t0_ns:
            return low_0, high_0
        low_1, high_1 = clock.bounds_ns(t1_ns)
        low = min(low_0, low_1)
        high = max(high_0, high_1)
        for index in range(bisect_left(clock.times_ns, t0_ns), bisect_right(clock.times_ns, t1_ns)):
            wall = clock.times_ns[index] + clock.offset_ns[index]
            low = min(low, wall - clock.error_ns[index])
            high = max(high, wall + clock.error_ns[index])
        return low, high
