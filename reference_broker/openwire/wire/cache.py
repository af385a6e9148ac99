"""The object caches of one direction: what has been sent once is sent as an index (openwire.md 5.5).

The writer hands out indexes 0, 1, 2 … cyclically below the negotiated size and finds values by equality; before each
command it gives the oldest up until ``HEADROOM`` places are free. The reader obeys: an index is overwritten by whatever
comes with it.
"""

from __future__ import annotations

from typing import Any, Final

from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.kinds import Data

HEADROOM: Final = 100
#: Indexes are signed shorts.
SIZE_MAX: Final = 16383
#: "Do not store this one."
FULL: Final = -1


class WriteCache:
    """What the other end remembers of what we sent."""

    __slots__ = ("_index", "_next", "_oldest", "_places", "_size", "forgotten", "learnt")

    def __init__(self, size: int) -> None:
        if not HEADROOM < size <= SIZE_MAX:
            raise WireError(f"a cache of {size} places cannot work; use {HEADROOM + 1} to {SIZE_MAX}, or none")
        self._size = size
        self._places: list[Data | None] = [None] * size
        self._index: dict[Data | None, int] = {}
        self._next = 0
        self._oldest = 0
        #: How many values have been remembered, and how many of them given up.
        self.learnt = 0
        self.forgotten = 0

    def sweep(self) -> None:
        """Before a command: make room."""
        while len(self._index) > self._size - HEADROOM:
            victim = self._places[self._oldest]
            if self._index.get(victim) == self._oldest:
                del self._index[victim]
                self.forgotten += 1
            self._oldest = (self._oldest + 1) % self._size

    def knows(self, value: Data | None) -> bool:
        """Whether it is there."""
        return value in self._index

    def find(self, value: Data | None) -> int:
        """Its index, or ``FULL`` if it is not there."""
        return self._index.get(value, FULL)

    def add(self, value: Data | None) -> int:
        """Remember it; its index, or ``FULL``."""
        if len(self._index) >= self._size:
            return FULL
        index = self._next
        self._next = (index + 1) % self._size
        self._places[index] = value
        self._index[value] = index
        self.learnt += 1
        return index


class ReadCache:
    """What we remember of what the other end sent."""

    __slots__ = ("_places",)

    def __init__(self, size: int) -> None:
        self._places: list[Data | None] = [None] * size

    def put(self, index: int, value: Data | None) -> None:
        """A value came with an index."""
        if index == FULL:
            return
        if not 0 <= index < len(self._places):
            raise WireError(f"cache index {index} is outside 0 to {len(self._places) - 1}")
        self._places[index] = value

    def get(self, index: int) -> Data | None:
        """An index came alone."""
        if not 0 <= index < len(self._places):
            raise WireError(f"cache index {index} is outside 0 to {len(self._places) - 1}")
        return self._places[index]

    def resolve(self, row: list[Any], places: list[int]) -> None:
        """Put the values in place of the indexes at these places of a row; read as unsigned, so that none is below 0.
        Raises ``IndexError``.
        """
        known = self._places
        for place in places:
            row[place] = known[row[place]]
