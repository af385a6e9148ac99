"""Marks: why something is not known, and where: a kind, a destination ("" is all) and a span.

Decides nothing. Rows that lie in a mark's span carry its bit; a rule names the kinds that it can handle, and a row with
another one is dropped by the judge and counted. In sums a mark widens the bounds instead (``tally.py``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from brokerproof.conformance.facts.spans import Span

#: kind -> what it says. The order gives the bits.
KINDS: Final[dict[str, str]] = {
    "restart": "the broker was restarted",
    "operator": "an operator took messages from the destination, or moved some there",
    "wildcard": "a consumer of a wildcard may have got its messages",
    "browser": "a browser looked at it",
    "selective": "a consumer that need not take every message, or keeps others from taking any, was there",
    "priority": "messages of several priorities were sent to it",
    "pause": "a process stood still, or had too little of something",
    "memory": "memory may have been scarce",
    "limit": "an operator changed the memory limits",
    "redelivery": "the broker itself tries rejected messages again",
    "repeated": "it, or what has no name here, was sent there more than once",
    "mqsc": "an operator changed the queue manager",
    "resolved": "a queue's name may have been another one's, or its definition decided what a message did not say",
    "pulled": "a consumer that asks for each message was there",
}
BITS: Final[dict[str, int]] = {kind: 1 << place for place, kind in enumerate(KINDS)}

#: The place of what concerns all destinations together, but not each of them.
WHOLE: Final = "*"

RESTART: Final = BITS["restart"]
MQSC: Final = BITS["mqsc"]
RESOLVED: Final = BITS["resolved"]
OPERATOR: Final = BITS["operator"]
WILDCARD: Final = BITS["wildcard"]
BROWSER: Final = BITS["browser"]
SELECTIVE: Final = BITS["selective"]
PRIORITY: Final = BITS["priority"]
PAUSE: Final = BITS["pause"]
MEMORY: Final = BITS["memory"]
LIMIT: Final = BITS["limit"]
REDELIVERY: Final = BITS["redelivery"]
REPEATED: Final = BITS["repeated"]
PULLED: Final = BITS["pulled"]
#: A consumer's, that may rightly be without a message that waits.
CHOOSING: Final = SELECTIVE | PULLED
ALL: Final = (1 << len(KINDS)) - 1


def but(*kinds: str) -> list[str]:
    """All kinds but some: what a rule can see past."""
    return names(ALL & ~mask(kinds))


def mask(kinds: Iterable[str]) -> int:
    """The bits of some kinds. Raises ``KeyError`` for one that does not exist."""
    bits = 0
    for kind in kinds:
        bits |= BITS[kind]
    return bits


def names(bits: int) -> list[str]:
    """The kinds of some bits."""
    return [kind for kind, bit in BITS.items() if bits & bit]


class Lane:
    """The spans of one kind of mark at one place, by their beginnings."""

    __slots__ = ("_begins", "_latest", "_sorted", "kind", "spans")

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.spans: list[Span] = []
        #: Beginnings, and the latest end of each span or one that began before; up to date if that many are sorted.
        self._begins: list[int] = []
        self._latest: list[int] = []
        self._sorted = 0

    def touches(self, low: int, high: int) -> bool:
        """Whether one of them has an instant of ``[low, high]``."""
        if self._sorted != len(self.spans):
            self._sort()
        place = bisect_right(self._begins, high)
        return place > 0 and self._latest[place - 1] >= low

    def forget(self) -> None:
        """A span has changed."""
        self._sorted = -1

    def _sort(self) -> None:
        ordered = sorted(self.spans)
        self._begins = [begin for begin, _ in ordered]
        self._latest = list(accumulate([end for _, end in ordered], max))
        self._sorted = len(ordered)


class Marks:
    """The marks of one run. ``put`` them while recording, then ask."""

    def __init__(self) -> None:
        #: Place -> its lanes; "" is everywhere.
        self._places: dict[str, dict[int, Lane]] = {}
        #: There are none, so that nobody need ask.
        self.empty = True

    def put(self, kind: int, dest: str, span: Span) -> None:
        """``dest`` "": at all destinations."""
        self.empty = False
        lanes = self._places.setdefault(dest, {})
        if kind not in lanes:
            lanes[kind] = Lane(kind)
        lanes[kind].spans.append(span)

    def end(self, kind: int, dest: str, span: Span, until_ns: int) -> None:
        """One that was put there ends earlier than was known."""
        lane = self._places[dest][kind]
        lane.spans[lane.spans.index(span)] = (span[0], until_ns)
        lane.forget()

    def on(self, dest: str, span: Span) -> int:
        """The bits of all marks on a destination that a span touches."""
        if self.empty:
            return 0
        bits = 0
        low, high = span
        places = self._places
        for place in ("", dest) if dest else ("",):
            lanes = places.get(place)
            if lanes is not None:
                for lane in lanes.values():
                    if lane.touches(low, high):
                        bits |= lane.kind
        return bits

    def spans(self, kind: int, dest: str) -> list[Span]:
        """Where one kind of mark lies on a destination."""
        return [span for lane in self._lanes(dest) if lane.kind & kind for span in lane.spans]

    def _lanes(self, dest: str) -> list[Lane]:
        places = self._places
        return [*places.get("", {}).values(), *(places.get(dest, {}).values() if dest else ())]
