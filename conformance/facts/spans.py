"""Spans: instants that were not observed, as bounds; comparisons in three values (contracts, section 4).

A span is (earliest, latest) in true nanoseconds. ``NEVER`` is later than any instant of a run and more than any count.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import Final

Span = tuple[int, int]
NEVER: Final = 1 << 61
NS_PER_MS: Final = 1_000_000
NS_PER_HOUR: Final = 3_600_000 * NS_PER_MS
#: When an event began, and when it had ended: what events are sorted and searched by.
t0_of: Final = attrgetter("t0")
t1_of: Final = attrgetter("t1")


def before(one: Span, other: Span) -> bool | None:
    """Whether ``one`` is the earlier instant: for certain, certainly not, or None."""
    if one[1] < other[0]:
        return True
    return False if one[0] >= other[1] else None


def ms(true_ns: int) -> str:
    """An instant or a duration for a text."""
    return "never" if true_ns >= NEVER else f"{true_ns / NS_PER_MS:.3f} ms"


def touches(apart: list[Span], span: Span) -> bool:
    """Whether a span touches one of those that are apart and rising."""
    place = bisect_right(apart, (span[1], NEVER))
    return place > 0 and apart[place - 1][1] >= span[0]
