"""One host's wall clock as the time oracles read it: bounds in milliseconds as programs see them, ties decided, jumps
remembered.

It stands on ``wall.WallClocks`` and adds what that cannot know from times alone:

1. *Ties.* In virtual time a clock can jump at the very nanosecond at which something else happens. The order of the
   history decides: what has a smaller ``seq`` than the jump happened before it. An instant that was calculated (a due
   time) has no ``seq``; then both readings are possible.
2. *Speed.* A clock whose samples are exact and agree between its jumps is a list of offsets.
3. *Rounding.* Between samples of a clock that drifts the reading is interpolated in whole nanoseconds, so it may be
   off by ``ROUNDING_NS``.

Programs read whole milliseconds, truncated: a message is expired iff ``floor(wall) > expiration``, that is iff the
wall clock has reached ``expiration + 1 ms``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.history import ClockSample, Fault
    from brokerproof.conformance.oracles.wall import WallClocks

NS_PER_MS = 1_000_000
ROUNDING_NS = 2
#: ``seq`` of an instant that no event has: it may lie on either side of a jump at the same time.
NO_EVENT = -1
#: Offset of a stretch between two jumps that was never sampled.
UNKNOWN_NS = -(2**62)


class Dial:
    """Feed it this host's ``clock_sample`` and ``fault`` events, in order; ask it when the history is complete."""

    __slots__ = (
        "_assumed",
        "_clocks",
        "_drifts",
        "_exact",
        "_jump_seqs",
        "_offsets_ns",
        "_sampled_jumps",
        "_samples_ns",
        "host",
        "jumps_ms",
        "jumps_ns",
        "known",
    )

    def __init__(self, clocks: WallClocks, host: str) -> None:
        self._clocks = clocks
        self.host = host
        self.known = False
        self._exact = True
        self._drifts = False
        #: Wall minus true time before the first jump, between the first and the second, and so on.
        self._offsets_ns: list[int] = [UNKNOWN_NS]
        self._samples_ns: list[int] = []
        #: When it jumped (end of the fault's interval), by how much, and the event.
        self.jumps_ns: list[int] = []
        self.jumps_ms: list[int] = []
        self._jump_seqs: list[int] = []
        #: The last offset is not sampled yet, but follows from the jump; and how many jumps came before the last
        #: sample.
        self._assumed = True
        self._sampled_jumps = 0

    def sample(self, event: ClockSample) -> None:
        """A sample of this host's clock."""
        self.known = True
        self._samples_ns.append((event.t0 + event.t1) // 2)
        self._sampled_jumps = len(self.jumps_ns)
        if event.t0 != event.t1 or event.plus_minus_ns:
            self._exact = False
            return
        offset_ns = event.wall_ms * NS_PER_MS + event.beyond_ns - event.t0
        if self._assumed:
            self._offsets_ns[-1] = offset_ns
            self._assumed = False
        elif self._offsets_ns[-1] != offset_ns:
            self._drifts = True

    def fault(self, event: Fault) -> None:
        """A jump of this host's clock."""
        before_ns = self._offsets_ns[-1]
        jump_ms = event.jump_ms if event.jump_ms is not None else 0
        self.jumps_ns.append(event.t1)
        self.jumps_ms.append(jump_ms)
        self._jump_seqs.append(event.seq)
        self._exact = self._exact and event.t0 == event.t1
        self._offsets_ns.append(before_ns if before_ns == UNKNOWN_NS else before_ns + jump_ms * NS_PER_MS)
        self._assumed = True

    def _is_listed(self) -> bool:
        """Whether the offsets say everything."""
        return self._exact and not self._drifts and UNKNOWN_NS not in self._offsets_ns

    # -- readings

    def bounds_ns(self, t0: int, t1: int, seq: int = NO_EVENT, end_seq: int = NO_EVENT) -> tuple[int, int]:
        """Least and greatest reading at some instant of ``[t0, t1]``. The clock must be ``known``.

        ``seq`` is that of the event that ``t0`` belongs to, ``end_seq`` that of the event that ``t1`` belongs to.
        """
        if self._exact and not self._drifts:
            offsets = self._offsets_ns
            if len(offsets) == 1:
                return t0 + offsets[0], t1 + offsets[0]
            first = self._stretch(t0, seq, bisect_left(self.jumps_ns, t0))
            last = self._stretch(t1, end_seq, bisect_right(self.jumps_ns, t1))
            if last <= first and offsets[first] != UNKNOWN_NS:
                return t0 + offsets[first], t1 + offsets[first]
            if UNKNOWN_NS not in offsets:
                return self._listed_ns(t0, t1, first, last)
        if t1 > t0 and self._stretch(t1, end_seq, 0) < bisect_right(self.jumps_ns, t1) and end_seq != NO_EVENT:
            t1 -= 1  # the event at the end came before the jump of that instant
        return self._sampled_ns(t0, t1)

    def _stretch(self, true_ns: int, seq: int, without_event: int) -> int:
        """Which of the offsets holds for an event: the number of jumps before it."""
        if seq == NO_EVENT:
            return without_event
        jumps = self.jumps_ns
        at = bisect_left(jumps, true_ns)
        while at < len(jumps) and jumps[at] == true_ns and self._jump_seqs[at] < seq:
            at += 1
        return at

    def _listed_ns(self, t0: int, t1: int, first: int, last: int) -> tuple[int, int]:
        """Bounds over several stretches."""
        offsets, jumps = self._offsets_ns, self.jumps_ns
        low, high = t0 + offsets[first], jumps[first] + offsets[first]
        for index in range(first + 1, last + 1):
            low = min(low, jumps[index - 1] + offsets[index])
            high = max(high, (jumps[index] if index < last else t1) + offsets[index])
        return low, high

    def _sampled_ns(self, t0: int, t1: int) -> tuple[int, int]:
        """Bounds of a clock that is known by samples only; ties are left open."""
        low, high = self._clocks.bounds_ns(self.host, t0, t1)
        at = bisect_right(self.jumps_ns, t0) - 1
        if at >= 0 and self.jumps_ns[at] == t0:
            before_low, before_high = self._clocks.bounds_ns(self.host, t0 - 1, t0)
            low, high = min(low, before_low), max(high, before_high)
        shift_ms, least_ms, most_ms = 0, 0, 0  # by jumps that no sample followed
        for index in range(self._sampled_jumps, bisect_right(self.jumps_ns, t1)):
            shift_ms += self.jumps_ms[index]
            least_ms, most_ms = min(least_ms, shift_ms), max(most_ms, shift_ms)
        low, high = low + least_ms * NS_PER_MS, high + most_ms * NS_PER_MS
        return (low - ROUNDING_NS, high + ROUNDING_NS) if self._drifts else (low, high)

    def bounds_ms(self, t0: int, t1: int, seq: int = NO_EVENT, end_seq: int = NO_EVENT) -> tuple[int, int]:
        """The same as a program reads it: whole milliseconds, truncated."""
        low, high = self.bounds_ns(t0, t1, seq, end_seq)
        return low // NS_PER_MS, high // NS_PER_MS

    def earliest_ns(self, from_ns: int, wall_ns: int) -> int | None:
        """A true time, not later than the first at or after ``from_ns`` at which the clock can have read ``wall_ns``
        or more; None if it never did.
        """
        if not self._is_listed():
            return self._earliest_sampled_ns(from_ns, wall_ns)
        offsets, jumps = self._offsets_ns, self.jumps_ns
        start = from_ns
        for index in range(bisect_left(jumps, from_ns), len(offsets)):
            reached = max(start, wall_ns - offsets[index])
            if index == len(jumps) or reached <= jumps[index]:
                return reached
            start = jumps[index]
        return None

    def _earliest_sampled_ns(self, from_ns: int, wall_ns: int) -> int | None:
        edges = self._samples_ns
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
                ahead_ns = max(
                    ahead_ns, self._sampled_ns(end, end)[1] - end, self._sampled_ns(end - 1, end - 1)[1] - end + 1
                )
            reached = max(start, wall_ns - ahead_ns)
            if reached <= end:
                return reached
            start = end
        return None

    # -- jumps

    def jump_between(self, t0: int, t1: int) -> int:
        """0 if it did not jump in ``[t0, t1]``; else a jump in milliseconds: the furthest back if any went back, the
        furthest forward otherwise.
        """
        if not self.jumps_ns:
            return 0
        found = self.jumps_ms[bisect_left(self.jumps_ns, t0) : bisect_right(self.jumps_ns, t1)]
        if not found:
            return 0
        least = min(found)
        return least if least < 0 else max(found)
