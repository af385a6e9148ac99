"""The cursor of a queue in the generations G0 to G3: everything that the queue has not been handed yet.

``paging.py`` decides what is in memory and what is read when. Only what has been handed to the pending list
(``pending_list.py``) can be dispatched. Generation ``fair`` has no cursor.

* Two halves. Persistent messages: the ``batch`` (in memory, charged), then the ``store``. Others: ``spool`` (in memory,
  charged), then ``temp`` (in temporary files). Each half is FIFO.
* A half that has something to give keeps giving until it is empty, then it is the other's turn (``turn``). So no order
  is promised between persistent and non-persistent messages.
* While ``store`` holds something nothing arrives in ``batch``, or it would overtake; so ``spool`` and ``temp``.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.memory import MemoryTree
    from brokerproof.reference_broker.core.reference import Reference


class Cursor:
    """See the module's header. ``owner`` is the destination whose memory node is charged."""

    __slots__ = ("batch", "caching", "owner", "spool", "store", "temp", "tree", "volatile_turn")

    def __init__(self, tree: MemoryTree, owner: Destination, caching: bool) -> None:
        self.tree = tree
        self.owner = owner
        #: Whether arriving persistent messages stay in memory.
        self.caching = caching
        self.batch: deque[Reference] = deque()
        self.store: deque[Reference] = deque()
        self.spool: deque[Reference] = deque()
        self.temp: deque[Reference] = deque()
        #: The half that gave last; the persistent one is asked first.
        self.volatile_turn = True

    def __len__(self) -> int:
        return len(self.batch) + len(self.store) + len(self.spool) + len(self.temp)

    def __iter__(self) -> Iterator[Reference]:
        yield from self.batch
        yield from self.store
        yield from self.spool
        yield from self.temp

    # -- arrival

    def cache(self, reference: Reference) -> None:
        """A persistent message stays in memory."""
        self.tree.charge(self.owner, reference)
        self.batch.append(reference)

    def keep(self, reference: Reference) -> None:
        """A non-persistent message stays in memory."""
        self.tree.charge(self.owner, reference)
        self.spool.append(reference)

    def recover(self, reference: Reference) -> None:
        """A persistent message was found in the store at the start."""
        self.caching = False
        self.store.append(reference)

    def flush(self) -> None:
        """All non-persistent messages go to the temporary files."""
        for reference in self.spool:
            self.tree.discharge(self.owner, reference)
            self.tree.spool(reference, stored=False)
        self.temp.extend(self.spool)
        self.spool.clear()

    def file(self, reference: Reference) -> None:
        """A non-persistent message goes to the temporary files, after all others."""
        self.flush()
        self.temp.append(reference)
        self.tree.spool(reference, stored=False)

    # -- handing over

    def volatile_next(self) -> bool:
        """Whose turn it is: True for the non-persistent half. Somebody must have a message."""
        buffered = self.spool or self.temp if self.volatile_turn else self.batch
        if not buffered:
            self.volatile_turn = not self.volatile_turn
            if not (self.spool or self.temp if self.volatile_turn else self.batch or self.store):
                self.volatile_turn = not self.volatile_turn
        return self.volatile_turn

    def read(self) -> None:
        """Read the next persistent message from the store; there must be one."""
        reference = self.store.popleft()
        self.tree.charge(self.owner, reference)
        self.batch.append(reference)

    def take_volatile(self) -> Reference:
        """Hand over the next non-persistent message; there must be one."""
        if self.spool:
            return self.spool.popleft()
        reference = self.temp.popleft()
        self.tree.charge(self.owner, reference)
        return reference

    def clear(self) -> list[Reference]:
        """Take everything out; what it is charged stays charged."""
        everything = list(self)
        for part in (self.batch, self.store, self.spool, self.temp):
            part.clear()
        return everything
