"""The waiting messages of a queue, in the order in which they will be dispatched.

The pending list has two parts: ``loaded`` (what came back from consumers, then what is in memory) and ``stored`` (what
is in the store only and must be loaded before it can go anywhere). It decides the order; ``memory.py`` decides what is
loaded, ``dispatching.py`` who gets what. In the generations G0 to G3 only what the cursor has handed over stands here,
all of it loaded.

* What arrives joins at the end: of ``loaded`` if it is cached, else of ``stored``; nothing is cached while something
  before it is stored only. What comes back joins the front.
* Every operation on one message takes constant time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.memory import MemoryTree
    from brokerproof.reference_broker.core.reference import Reference


class PendingList:
    """See the module's header. ``owner`` is the destination whose memory node is charged."""

    __slots__ = ("loaded", "owner", "stored", "tree")

    def __init__(self, tree: MemoryTree, owner: Destination) -> None:
        self.tree = tree
        self.owner = owner
        self.loaded: OrderedDict[int, Reference] = OrderedDict()
        self.stored: OrderedDict[int, Reference] = OrderedDict()

    def __len__(self) -> int:
        return len(self.loaded) + len(self.stored)

    def __iter__(self) -> Iterator[Reference]:
        yield from self.loaded.values()
        yield from self.stored.values()

    def append(self, reference: Reference, cached: bool) -> None:
        """A message arrived."""
        if cached:
            self.tree.charge(self.owner, reference)
            self.loaded[reference.order] = reference
        else:
            self.stored[reference.order] = reference
            self.tree.spool(reference, stored=reference.message.persistent)

    def hand_over(self, reference: Reference) -> None:
        """The cursor of G0 to G3 has a message for the pending list; it is in memory."""
        self.loaded[reference.order] = reference

    def pop_first(self) -> Reference:
        """Take the head out of the pending list; there must be one. What it is charged stays charged."""
        return (self.loaded or self.stored).popitem(last=False)[1]

    def restore(self, reference: Reference, stored: bool) -> None:
        """Put the head back that was just taken out."""
        part = self.stored if stored else self.loaded
        part[reference.order] = reference
        part.move_to_end(reference.order, last=False)

    def first(self) -> Reference | None:
        """The head of the pending list, loaded or not; None if nobody waits."""
        for part in (self.loaded, self.stored):
            if part:
                return next(iter(part.values()))
        return None

    def find(self, order: int) -> Reference | None:
        """The message with that place on the queue; None if it does not wait."""
        return self.loaded.get(order) or self.stored.get(order)

    def remove(self, reference: Reference) -> None:
        """Take a message out of the pending list, wherever it stands. What it is charged stays charged."""
        if self.loaded.pop(reference.order, None) is None:
            del self.stored[reference.order]

    def clear(self) -> None:
        """Take everything out."""
        self.loaded.clear()
        self.stored.clear()

    # -- what came back

    def take_returned(self) -> list[Reference]:
        """Remove what came back earlier from the front of the list, and give it, also what had to give way in memory
        since.
        """
        taken: list[Reference] = []
        while self.loaded:
            order, reference = self.loaded.popitem(last=False)
            if not reference.returned:
                self.loaded[order] = reference
                self.loaded.move_to_end(order, last=False)
                break
            taken.append(reference)
        while not self.loaded and self.stored:
            order, reference = self.stored.popitem(last=False)
            if not reference.returned:
                self.stored[order] = reference
                self.stored.move_to_end(order, last=False)
                break
            taken.append(reference)
        return taken

    def put_first(self, references: list[Reference]) -> None:
        """Put messages at the front of the pending list, in the order given."""
        for reference in reversed(references):
            self.loaded[reference.order] = reference
            self.loaded.move_to_end(reference.order, last=False)

    def put_last(self, references: list[Reference]) -> None:
        """Put messages at the end of the list, in the order given. No rule of ours does so; defects planted by tests
        do.
        """
        for reference in references:
            self.tree.discharge(self.owner, reference)
            self.stored[reference.order] = reference
            self.tree.spool(reference, stored=reference.message.persistent)

    # -- paging

    def next_stored(self) -> Reference:
        """The first message of the pending list that is not in memory; there must be one."""
        return next(iter(self.stored.values()))

    def page_in(self) -> Reference:
        """Load the first message of the pending list that is not in memory; there must be one."""
        order, reference = self.stored.popitem(last=False)
        self.tree.charge(self.owner, reference)
        self.loaded[order] = reference
        return reference

    def evict(self) -> bool:
        """Page out the last message that is in memory; False if there is none."""
        if not self.loaded:
            return False
        order, reference = self.loaded.popitem(last=True)
        self.tree.discharge(self.owner, reference)
        self.tree.spool(reference, stored=reference.message.persistent)
        self.stored[order] = reference
        self.stored.move_to_end(order, last=False)
        return True
