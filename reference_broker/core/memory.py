"""Memory: what is charged, what stays in the store only, and who gets memory when it is short (seed 002).

The usage tree has one root (the broker's limit) and one node per destination. Percentages are floored; a limit of 0 is
no limit.

What is charged (``size_bytes``): a minimum (``minimum_message_bytes`` of the policy entry; 1024, as in ActiveMQ), plus
the body, plus names and values of the properties, packed ones as they came. A queue's message is charged while it is
held in memory: from its arrival if it is cached, else from page-in, until it is settled, expired, purged or evicted.
Dispatching releases nothing. What is sent in a transaction is charged until its end (``transaction.py``).

Every message of a queue is store-backed in this release, non-persistent ones too (they are spooled), so a message that
is not in memory is never lost and can be read again. A topic's backlog is spooled as well; its messages are charged
while in flight. Limits of the store and of temporary files are in ``disk.py``.

Policy ``memory``, generation ``fair`` (ours); ActiveMQ's, ``G0`` to ``G3``, are in ``paging.py``:

* An arriving message is cached while the limit that governs its destination (its own, or the broker's) is used below
  the high-water mark, nothing of the queue is in the store only, and it fits. A consumer with an open window and a
  backlog always gets a message in: if there is no room, waiting messages are evicted from memory, newest first, of the
  destination itself when its own limit is short, of the largest holder when the broker's is. What is in flight is never
  evicted; if all memory is in flight, or the message is larger than the limit, the consumer gets *one* message from its
  reserve, which is not charged. **Bounds:** usage never exceeds a limit; really held is at most the limit plus one
  message per consumer. A queue held up for want of memory is tried again as soon as any memory becomes free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.cursor import Cursor
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.queue import Queue
    from brokerproof.reference_broker.core.reference import Reference
    from brokerproof.reference_broker.core.subscription import Subscription

MINIMUM_MESSAGE_BYTES = 1024
#: What a property costs that is not a text.
NUMBER_BYTES = 8


class Usage:
    """A node of the usage tree. ``limit_bytes`` 0: unlimited. ``room``: what there is none of when it is full."""

    __slots__ = ("limit_bytes", "parent", "room", "used_bytes")

    def __init__(self, limit_bytes: int, parent: Usage | None, room: str = "memory") -> None:
        self.limit_bytes = limit_bytes
        self.room = room
        self.parent = parent
        self.used_bytes = 0

    def change(self, delta_bytes: int) -> None:
        """Charge (> 0) or discharge (< 0) this node and its ancestors."""
        self.used_bytes += delta_bytes
        if self.parent is not None:
            self.parent.used_bytes += delta_bytes

    def percent(self) -> int:
        """Floor of 100 * usage / limit; 0 without a limit."""
        return 100 * self.used_bytes // self.limit_bytes if self.limit_bytes else 0

    def is_below(self, percent: int, pending_bytes: int = 0) -> bool:
        """Whether less than that share of the limit is used, with what is not charged yet."""
        return not self.limit_bytes or 100 * (self.used_bytes + pending_bytes) < percent * self.limit_bytes

    def fits(self, size_bytes: int) -> bool:
        """Whether the limit holds after charging so much more."""
        return not self.limit_bytes or self.used_bytes + size_bytes <= self.limit_bytes


class MemoryTree:
    """The broker's memory: the root node, who might give memory back, and who waits for some."""

    __slots__ = ("blocked", "concurrent_store", "lowered", "queues", "relieved", "root", "temp")

    def __init__(self, limit_bytes: int, *, concurrent_store: bool, temp_limit_bytes: int = 0) -> None:
        self.root = Usage(limit_bytes, None)
        #: Temporary files (``disk.py``); None: they have no limit and are not counted.
        self.temp = Usage(temp_limit_bytes, None, "room in temporary files") if temp_limit_bytes > 0 else None
        #: G0 to G3: messages that are being written are charged more than once.
        self.concurrent_store = concurrent_store
        #: All queues, oldest first.
        self.queues: list[Queue] = []
        #: Destinations that had a consumer and a message for it, but no memory; in the order in which they met that.
        self.blocked: dict[str, Destination] = {}
        #: A limit was lowered at run time: what is in flight may exceed it.
        self.lowered = False
        #: Memory became free, or could now be evicted, since blocked destinations were last looked at.
        self.relieved = False

    def node(self, limit_bytes: int) -> Usage:
        """A destination's node; without a limit of its own it inherits the broker's."""
        return Usage(limit_bytes if limit_bytes > 0 else self.root.limit_bytes, self.root)

    def charge(self, destination: Destination, reference: Reference) -> None:
        """Count a message that was loaded."""
        reference.charged = True
        destination.usage.change(reference.size_bytes)
        if self.temp is not None:
            self.unspool(reference)

    def discharge(self, destination: Destination, reference: Reference) -> None:
        """Uncount a message that leaves memory, if it was counted."""
        if reference.charged:
            reference.charged = False
            destination.usage.change(-reference.size_bytes)
            self.relieved = True
        elif self.temp is not None:
            self.unspool(reference)

    def orphan(self, destination: Destination) -> None:
        """A destination is gone. What transactions still hold for it is charged to nobody from now on."""
        self.root.used_bytes -= destination.usage.used_bytes
        destination.usage.parent = None

    # -- temporary files

    def spool(self, reference: Reference, *, stored: bool) -> None:
        """A message that waits, not charged, is in a temporary file unless it is ``stored``."""
        if self.temp is not None and not stored:
            reference.spooled = True
            self.temp.change(reference.size_bytes)

    def unspool(self, reference: Reference) -> None:
        """It leaves the temporary files, if it was there."""
        if self.temp is not None and reference.spooled:
            reference.spooled = False
            self.temp.change(-reference.size_bytes)


@mypyc_attr(allow_interpreted_subclasses=True)
class Memory:
    """Policy ``memory``, generation ``fair``."""

    wakes_on_relief = True
    #: Whether queues have a cursor that hands over pages.
    pages = False
    #: Whether producers wait while memory is full.
    throttles = False
    #: Whether a purge hides what it cannot reach until the next restart (``purge = "zeroed"``).
    zeroes = False
    #: Whether a send that waits for the disk stops its connection even if it is confirmed.
    disk_stops = False

    def cursor(self, tree: MemoryTree, queue: Queue) -> Cursor | None:  # noqa: ARG002 - for generations that have one
        """The cursor of a new queue; None: everything stands in its line."""
        return None

    def size_bytes(self, message: Message, minimum_bytes: int = MINIMUM_MESSAGE_BYTES) -> int:
        """What the message costs in memory."""
        size = minimum_bytes + len(message.body)
        if message.opened is None:
            return size if message.packed is None else size + len(message.packed.data)
        for name, value in message.properties.items():
            size += len(name) + (len(value) if isinstance(value, str) else NUMBER_BYTES)
        return size

    def arrive(self, tree: MemoryTree, queue: Queue, cursor: Cursor, reference: Reference) -> None:
        """G0 to G3: a message joins the cursor."""
        raise NotImplementedError

    def page_in(self, tree: MemoryTree, queue: Queue, cursor: Cursor) -> bool:
        """G0 to G3: the queue was woken, its cursor hands over a page."""
        raise NotImplementedError

    def load(self, tree: MemoryTree, queue: Queue, cursor: Cursor, most: int, *, expiring: bool = True) -> int:
        """G0 to G3: its cursor hands over so many messages, consumer or not."""
        raise NotImplementedError

    def has_space(self, tree: MemoryTree, queue: Queue, *, volatile: bool = False, pending_bytes: int = 0) -> bool:  # noqa: ARG002 - generations ask
        """Whether a message could be read into memory for a consumer now: always, somebody gives way."""
        return True

    def caches(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:
        """Whether an arriving message of that size stays in memory."""
        return not queue.line.stored and self._has_space(tree, queue, size_bytes)

    def keeps_uncommitted(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:
        """Whether a message of that size that waits for its commit stays in memory."""
        return self._has_space(tree, queue, size_bytes)

    def admit(
        self, tree: MemoryTree, destination: Destination, subscription: Subscription, reference: Reference
    ) -> bool:
        """Load a message that is about to be assigned to ``subscription``; False if it must wait for memory."""
        if self._make_room(tree, destination, reference.size_bytes):
            tree.charge(destination, reference)
            return True
        if subscription.consumer.reserve is None:
            subscription.consumer.reserve = reference
            reference.reserved = True
            tree.unspool(reference)
            return True
        return False

    def store_for(self, tree: MemoryTree, topic: Destination, subscription: Subscription, reference: Reference) -> None:
        """G0 to G3: a message is about to join the backlog of a durable subscription."""
        raise NotImplementedError

    def read_ahead(self, tree: MemoryTree, queue: Queue) -> None:
        """A message was read from the store: read the rest of its page, as far as nobody has to give way."""
        for _ in range(1, queue.page_size):
            if not queue.line.stored or not self._has_space(tree, queue, queue.line.next_stored().size_bytes):
                return
            queue.line.page_in()

    def look_ahead(self, tree: MemoryTree, queue: Queue, most: int) -> None:
        """The sweep or a browser wants to see waiting messages: they need not be in memory for that."""

    def shrink(self, tree: MemoryTree, destination: Destination) -> None:
        """A limit was lowered: what waits gives way at once, what is in flight when it is settled."""
        while not destination.usage.fits(0) and destination.evict():
            pass
        while not tree.root.fits(0):
            victim = self.victim(tree)
            if victim is None or not victim.evict():
                return

    def _has_space(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:
        own = queue.usage
        governing = own if queue.has_own_limit else tree.root
        return governing.is_below(queue.mark_percent) and own.fits(size_bytes) and tree.root.fits(size_bytes)

    def _make_room(self, tree: MemoryTree, destination: Destination, size_bytes: int) -> bool:
        own, root = destination.usage, tree.root
        if own.fits(size_bytes) and root.fits(size_bytes):
            return True
        if 0 < own.limit_bytes < size_bytes or 0 < root.limit_bytes < size_bytes:
            return False
        while not own.fits(size_bytes):
            if not destination.evict():
                return False
        while not root.fits(size_bytes):
            victim = self.victim(tree)
            if victim is None or not victim.evict():
                return False
        return True

    def victim(self, tree: MemoryTree) -> Queue | None:
        """The queue that gives way: of those that hold waiting messages the largest, then the oldest."""
        chosen: Queue | None = None
        for queue in tree.queues:
            if queue.line.loaded and (chosen is None or queue.usage.used_bytes > chosen.usage.used_bytes):
                chosen = queue
        return chosen
