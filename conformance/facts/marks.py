"""Marks: why something is not known, and where: a kind, a destination ("" is all) and a span.

Decides nothing. Rows that lie in a mark's span carry its bit; a rule names the kinds that it can handle, and a row with
another one is dropped by the judge and counted. In sums a mark widens the bounds instead (``tally.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
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
    "transaction": "a transaction whose end is not known may have sent or settled something",
    "unconfirmed": "whether an operation took place is not known",
    "swallowed": "the broker may have settled it by writing it to a consumer that never got it",
    "discarded": "a client library may have thrown it away, unseen",
    "stall": "a link was stalled",
    "pause": "a process stood still",
    "memory": "memory may have been scarce",
    "limit": "an operator changed the memory limits",
    "no-clock": "a clock that decides was never read",
    "redelivery": "the broker itself tries rejected messages again",
    "repeated": "it was sent there more than once",
}
BITS: Final[dict[str, int]] = {kind: 1 << place for place, kind in enumerate(KINDS)}

RESTART: Final = BITS["restart"]
OPERATOR: Final = BITS["operator"]
WILDCARD: Final = BITS["wildcard"]
BROWSER: Final = BITS["browser"]
SELECTIVE: Final = BITS["selective"]
PRIORITY: Final = BITS["priority"]
TRANSACTION: Final = BITS["transaction"]
UNCONFIRMED: Final = BITS["unconfirmed"]
SWALLOWED: Final = BITS["swallowed"]
DISCARDED: Final = BITS["discarded"]
STALL: Final = BITS["stall"]
PAUSE: Final = BITS["pause"]
MEMORY: Final = BITS["memory"]
LIMIT: Final = BITS["limit"]
NO_CLOCK: Final = BITS["no-clock"]
REDELIVERY: Final = BITS["redelivery"]
REPEATED: Final = BITS["repeated"]
ALL: Final = (1 << len(KINDS)) - 1


def mask(kinds: Iterable[str]) -> int:
    """The bits of some kinds. Raises ``KeyError`` for one that does not exist."""
    bits = 0
    for kind in kinds:
        bits |= BITS[kind]
    return bits


def names(bits: int) -> list[str]:
    """The kinds of some bits."""
    return [kind for kind, bit in BITS.items() if bits & bit]


class Marks:
    """The marks of one run. ``put`` them while recording, then ask."""

    __slots__ = ("_everywhere", "_places", "empty")

    def __init__(self) -> None:
        self._places: dict[str, list[tuple[int, Span]]] = {}
        self._everywhere: list[tuple[int, Span]] = []
        #: There are none, so that nobody need ask.
        self.empty = True

    def put(self, kind: int, dest: str, span: Span) -> None:
        """``dest`` "": at all destinations."""
        self.empty = False
        (self._places.setdefault(dest, []) if dest else self._everywhere).append((kind, span))

    def on(self, dest: str, span: Span) -> int:
        """The bits of all marks on a destination that a span touches."""
        bits = 0
        low, high = span
        for kind, (begin, end) in self._everywhere:
            if begin <= high and end >= low:
                bits |= kind
        for kind, (begin, end) in self._places.get(dest, ()):
            if begin <= high and end >= low:
                bits |= kind
        return bits

    def spans(self, kind: int, dest: str) -> list[Span]:
        """Where one kind of mark lies on a destination."""
        both = (*self._everywhere, *self._places.get(dest, ()))
        return [span for bit, span in both if bit == kind]
