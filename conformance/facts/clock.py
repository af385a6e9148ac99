"""Wall clocks: what each host's clock can have read at a true instant, from ``clock_sample`` events and jumps.

Rules
* A sample says: at the middle of ``[t0, t1]`` the clock read ``wall_ms``, give or take ``plus_minus_ns`` and half the
  interval. Between two samples it ran evenly, unless a fault ``clock`` lies between them: then bounds cover both sides.
* *Ties.* In virtual time a clock can jump at the very nanosecond at which something else happens; the order of the
  history decides. A calculated instant has no ``seq``: then both readings are possible.
* A clock whose samples are exact and agree between its jumps is a list of offsets; one that drifts is interpolated.
* A clock that stands still shows what it showed when it stopped, give or take the errors of its samples, until it goes
  on; it counts as one that went back for as long.
* Programs read whole milliseconds, truncated: something is past ``expiration`` from ``expiration + 1 ms`` on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from brokerproof.conformance.experiment.history import ClockSample, Fault
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, Span

#: A clock that is not sampled again may run off by this much (parts per million): quartz is better.
RATE_PPM: Final = 200
#: Between samples of a clock that drifts the reading is interpolated in whole nanoseconds.
ROUNDING_NS: Final = 2
#: ``seq`` of an instant that no event has: it may lie on either side of a jump at the same time.
NO_EVENT: Final = -1
_UNKNOWN_NS: Final = -(1 << 62)


class Clock:
    """One host's. Feed it samples and jumps in the order of the history, then ask."""

    def __init__(self, host: str) -> None:
        self.host = host
        #: Samples: their true times, wall minus true time, and how far that may be off.
        self._times_ns: list[int] = []
        self._offsets_ns: list[int] = []
        self._errors_ns: list[int] = []
        #: Jumps: when (end of the fault's interval), by how much, which event.
        self.jumps_ns: list[int] = []
        self.jumps_ms: list[int] = []
        self._jump_seqs: list[int] = []
        #: Wall minus true time before the first jump, between the first and the second, and so on.
        self._stretches_ns: list[int] = [_UNKNOWN_NS]
        #: When it stood still: the span of each stop, that of its end, and how many samples came before.
        self._standing: list[tuple[Span, Span, int]] = []
        self._exact = True
        self._drifts = False
        #: The last stretch is not sampled yet, but follows from the jump; how many jumps came before the last sample.
        self._assumed = True
        self._sampled_jumps = 0

    @property
    def known(self) -> bool:
        """Whether it was ever read."""
        return bool(self._times_ns)

    def sample(self, event: ClockSample) -> None:
        """It was read."""
        middle = (event.t0 + event.t1) // 2
        offset_ns = event.wall_ms * NS_PER_MS + event.beyond_ns - middle
        self._times_ns.append(middle)
        self._offsets_ns.append(offset_ns)
        self._errors_ns.append(event.plus_minus_ns + (event.t1 - event.t0) // 2)
        self._sampled_jumps = len(self.jumps_ns)
        if event.t0 != event.t1 or event.plus_minus_ns:
            self._exact = False
        elif self._assumed:
            self._stretches_ns[-1] = offset_ns
            self._assumed = False
        elif self._stretches_ns[-1] != offset_ns:
            self._drifts = True

    def jump(self, event: Fault) -> None:
        """It was stepped, stopped, or goes on."""
        jump_ms = event.jump_ms if event.jump_ms is not None else 0
        if event.how == "freeze":
            self._standing.append(((event.t0, event.t1), (NEVER, NEVER), len(self._times_ns)))
            self._drifts = True  # nothing follows from an offset
        elif event.how == "thaw" and self._standing:
            stop, _, samples = self._standing[-1]
            self._standing[-1] = (stop, (event.t0, event.t1), samples)
        last_ns = self._stretches_ns[-1]
        self.jumps_ns.append(event.t1)
        self.jumps_ms.append(jump_ms)
        self._jump_seqs.append(event.seq)
        self._exact = self._exact and event.t0 == event.t1
        self._stretches_ns.append(last_ns if last_ns == _UNKNOWN_NS else last_ns + jump_ms * NS_PER_MS)
        self._assumed = True

    # -- readings

    def bounds_ns(self, t0: int, t1: int, seq: int = NO_EVENT, end_seq: int = NO_EVENT) -> Span:
        """Least and greatest reading (nanoseconds since the epoch) at some instant of ``[t0, t1]``; it must be
        ``known``. ``seq`` and ``end_seq`` are those of the events that ``t0`` and ``t1`` belong to.
        """
        if self._exact and not self._drifts:
            stretches = self._stretches_ns
            if len(stretches) == 1:
                return t0 + stretches[0], t1 + stretches[0]
            first = self._stretch(t0, seq, bisect_left(self.jumps_ns, t0))
            last = self._stretch(t1, end_seq, bisect_right(self.jumps_ns, t1))
            if last <= first and stretches[first] != _UNKNOWN_NS:
                return t0 + stretches[first], t1 + stretches[first]
            if _UNKNOWN_NS not in stretches:
                return self._over_stretches(t0, t1, first, last)
        if t1 > t0 and end_seq != NO_EVENT and self._stretch(t1, end_seq, 0) < bisect_right(self.jumps_ns, t1):
            t1 -= 1  # the event at the end came before the jump of that instant
        return self._sampled_ns(t0, t1)

    def bounds_ms(self, t0: int, t1: int, seq: int = NO_EVENT, end_seq: int = NO_EVENT) -> Span:
        """The same as a program reads it: whole milliseconds, truncated."""
        low, high = self.bounds_ns(t0, t1, seq, end_seq)
        return low // NS_PER_MS, high // NS_PER_MS

    def _stretch(self, true_ns: int, seq: int, without_event: int) -> int:
        """Which stretch holds for an event: the number of jumps before it."""
        if seq == NO_EVENT:
            return without_event
        jumps = self.jumps_ns
        at = bisect_left(jumps, true_ns)
        while at < len(jumps) and jumps[at] == true_ns and self._jump_seqs[at] < seq:
            at += 1
        return at

    def _over_stretches(self, t0: int, t1: int, first: int, last: int) -> Span:
        stretches, jumps = self._stretches_ns, self.jumps_ns
        low, high = t0 + stretches[first], jumps[first] + stretches[first]
        for index in range(first + 1, last + 1):
            low = min(low, jumps[index - 1] + stretches[index])
            high = max(high, (jumps[index] if index < last else t1) + stretches[index])
        return low, high

    def _sampled_ns(self, t0: int, t1: int) -> Span:
        """Bounds of a clock that is known by samples only; ties are left open."""
        low, high = self._between_ns(t0, t1)
        at = bisect_right(self.jumps_ns, t0) - 1
        if at >= 0 and self.jumps_ns[at] == t0:
            before_low, before_high = self._between_ns(t0 - 1, t0)
            low, high = min(low, before_low), max(high, before_high)
        shift_ms, least_ms, most_ms = 0, 0, 0  # by jumps that no sample followed
        for index in range(self._sampled_jumps, bisect_right(self.jumps_ns, t1)):
            shift_ms += self.jumps_ms[index]
            least_ms, most_ms = min(least_ms, shift_ms), max(most_ms, shift_ms)
        low, high = low + least_ms * NS_PER_MS, high + most_ms * NS_PER_MS
        for stop, end, samples in self._standing:
            if stop[0] <= t1 and end[1] >= t0:
                shown_low, shown_high = self._stopped_at_ns(stop[1], samples)
                if t0 > stop[1] and t1 < end[0]:
                    return shown_low, shown_high
                low, high = min(low, shown_low), max(high, shown_high)
        return (low - ROUNDING_NS, high + ROUNDING_NS) if self._drifts else (low, high)

    def _stopped_at_ns(self, stopped_ns: int, samples: int) -> Span:
        """What it shows while it stands still, by the first sample that was taken then."""
        # In virtual time it may have been read, and stepped, at the very instant of its stop, before that.
        first = max(samples, bisect_left(self._times_ns, stopped_ns))
        index = min(first, len(self._times_ns) - 1)
        wall, error = self._times_ns[index] + self._offsets_ns[index], self._errors_ns[index]
        return wall - error, wall + error

    def _between_ns(self, t0: int, t1: int) -> Span:
        low_0, high_0 = self._at_ns(t0)
        if t1 == t0:
            return low_0, high_0
        low_1, high_1 = self._at_ns(t1)
        low, high = min(low_0, low_1), max(high_0, high_1)
        for index in range(bisect_left(self._times_ns, t0), bisect_right(self._times_ns, t1)):
            wall = self._times_ns[index] + self._offsets_ns[index]
            low = min(low, wall - self._errors_ns[index])
            high = max(high, wall + self._errors_ns[index])
        return low, high

    def _at_ns(self, true_ns: int) -> Span:
        times, offsets, errors = self._times_ns, self._offsets_ns, self._errors_ns
        after = bisect_right(times, true_ns)
        if after == 0:
            return self._extrapolated(0, true_ns)
        last = after - 1
        first = bisect_left(times, true_ns)
        if first < last:  # sampled before and after a jump at this very instant of virtual time
            readings = [self._extrapolated(index, true_ns) for index in range(first, after)]
            return min(low for low, _ in readings), max(high for _, high in readings)
        if times[last] == true_ns or after == len(times):
            return self._extrapolated(last, true_ns)
        if self._jumped(times[last], times[after]):
            low_0, high_0 = self._extrapolated(last, true_ns)
            low_1, high_1 = self._extrapolated(after, true_ns)
            return min(low_0, low_1), max(high_0, high_1)
        change = offsets[after] - offsets[last]
        offset = offsets[last] + change * (true_ns - times[last]) // (times[after] - times[last])
        error = max(errors[last], errors[after])
        return true_ns + offset - error, true_ns + offset + error

    def _extrapolated(self, index: int, true_ns: int) -> Span:
        error = self._errors_ns[index]
        if error:
            error += abs(true_ns - self._times_ns[index]) * RATE_PPM // 1_000_000
        wall = true_ns + self._offsets_ns[index] + self._drift_ns(index, true_ns)
        return wall - error, wall + error

    def _drift_ns(self, index: int, true_ns: int) -> int:
        """After the last sample: how far the rate between the last two carries the clock away. 0 elsewhere, after a
        jump, and where samples have errors: two noisy samples close together would make any rate.
        """
        times = self._times_ns
        if index == 0 or index != len(times) - 1 or true_ns <= times[index]:
            return 0
        span = times[index] - times[index - 1]
        if self._errors_ns[index] or self._errors_ns[index - 1] or span == 0:
            return 0
        if self._jumped(times[index - 1], times[index]):
            return 0
        return (self._offsets_ns[index] - self._offsets_ns[index - 1]) * (true_ns - times[index]) // span

    def _jumped(self, start_ns: int, end_ns: int) -> bool:
        return bisect_right(self.jumps_ns, end_ns) > bisect_right(self.jumps_ns, start_ns - 1)

    # -- the other way round

    def earliest_ns(self, from_ns: int, wall_ns: int) -> int | None:
        """A true time, not later than the first at or after ``from_ns`` at which it can have read ``wall_ns`` or more;
        None if it never did.
        """
        stretches, jumps = self._stretches_ns, self.jumps_ns
        if not self._exact or self._drifts or _UNKNOWN_NS in stretches:
            return self._earliest_sampled_ns(from_ns, wall_ns)
        start = from_ns
        for index in range(bisect_left(jumps, from_ns), len(stretches)):
            reached = max(start, wall_ns - stretches[index])
            if index == len(jumps) or reached <= jumps[index]:
                return reached
            start = jumps[index]
        return None

    def _earliest_sampled_ns(self, from_ns: int, wall_ns: int) -> int | None:
        unsampled = self.jumps_ns[self._sampled_jumps :]
        edges = [*self._times_ns, *unsampled] if unsampled else self._times_ns
        start = from_ns
        for index in range(bisect_right(edges, from_ns), len(edges) + 1):
            end = edges[index] if index < len(edges) else None
            low_ns, high_ns = self._sampled_ns(start, start)
            if high_ns >= wall_ns:
                return start
            ahead_ns = high_ns - start
            if end is None:
                return max(start, wall_ns - ahead_ns - (high_ns - low_ns) - 1)
            if end > start:
                last_ns = max(self._sampled_ns(end, end)[1], self._sampled_ns(end - 1, end - 1)[1] + 1)
                ahead_ns = max(ahead_ns, last_ns - end)
            reached = max(start, wall_ns - ahead_ns)
            if reached <= end:
                return reached
            start = end
        return None

    def set_back_ns(self, t0: int, t1: int) -> int:
        """How far it went back in ``[t0, t1]``, all in all; standing still is going back."""
        if not self.jumps_ns:
            return 0
        found = self.jumps_ms[bisect_left(self.jumps_ns, t0) : bisect_right(self.jumps_ns, t1)]
        return sum(max(0, -jump_ms) for jump_ms in found) * NS_PER_MS + sum(self._stood_ns(t0, t1))

    def _stood_ns(self, t0: int, t1: int) -> list[int]:
        """For how long it stood still in ``[t0, t1]``, each time that it did."""
        stood_ns = (min(t1, until_ns) - max(t0, since_ns) for (since_ns, _), (_, until_ns), _ in self._standing)
        return [stood for stood in stood_ns if stood > 0]

    def jump_between(self, t0: int, t1: int) -> int:
        """0 if it did not jump in ``[t0, t1]``; else a jump in milliseconds: the furthest back if any went back, the
        furthest forward otherwise. Standing still is going back.
        """
        if not self.jumps_ns:
            return 0
        if stood_ns := self._stood_ns(t0, t1):
            return -max(1, max(stood_ns) // NS_PER_MS)
        found = self.jumps_ms[bisect_left(self.jumps_ns, t0) : bisect_right(self.jumps_ns, t1)]
        if not found:
            return 0
        least = min(found)
        return least if least < 0 else max(found)
