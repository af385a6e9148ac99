"""The memory rules of ActiveMQ Classic, in the four generations of its releases (seed 002 describes G1).

A queue has a cursor (``cursor.py``) in front of its line, and only what the cursor has handed over can be dispatched.
This module decides when a message is kept in memory on arrival, and when the cursor reads from the store. Nothing here
asks whether a message fits: usage may exceed every limit.

The generations differ in two rules, ``broker_mark`` and ``stop``:

    generation  releases          the cursor has space while ...       a batch read from the store stops
    G0          to 5.8            own usage < mark                     before a read without space
    G1          5.9 to 5.14       own and the broker's usage < mark    when it is full (maxPageSize)
    G2          5.15.0 to 5.15.8  own < mark, the broker's < 100 %     when it is full
    G3          from 5.15.9       as G2                                after a read that left the broker above 90 %

Rules, the same in all of them:
* The message that crosses the mark is kept in memory; the first that finds no space ends the caching, and it returns
  only when the cursor has handed over everything.
* A wake-up of the queue hands over at most one page (``max_page_size``), and none while a page is waiting for a
  consumer already or nobody but browsers consumes. Memory freed by *another* queue is no wake-up, so a starved queue
  sleeps on until something happens to itself; ``wake_on_relief`` repairs that.
* An acknowledgement is two wake-ups, one for the message that goes and one for the place in the window: the second page
  is asked for after the first has been handed out.
* Sweep and browsers read without demand, while no node is at 110 %.
* Non-persistent messages go to temporary files, all of them, when there is no space or the queue reaches 70 %, and are
  read from there without asking. They hold no memory and are never starved.
* ``concurrent_store`` charges a message that is being cached once or twice more while it is written, so the cache ends
  one or two messages earlier.

* A durable subscription has a cursor of its own, with a consumer or without. Persistent messages stay in memory while
  the broker's usage is below the topic's mark, in every generation, and else are read a page at a time, without asking
  whether there is space for the first: it is slowed down, never starved. Its backlog can starve queues.

Known exceptions: each subscription's copy of a message is charged by itself.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.cursor import Cursor
from brokerproof.reference_broker.core.memory import Memory

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.memory import MemoryTree
    from brokerproof.reference_broker.core.queue import Queue
    from brokerproof.reference_broker.core.reference import Reference
    from brokerproof.reference_broker.core.subscription import Subscription

# Which share of the broker's memory may be used while a cursor has space.
NO_BROKER_MARK: Final = -1
OWN_MARK: Final = 0
FULL_PERCENT: Final = 100

# When a batch ends before it is full.
NEVER: Final = "never"
BEFORE_READ_WITHOUT_SPACE: Final = "before a read without space"
AFTER_READ_ABOVE_90: Final = "after a read above 90 %"

#: The mark of the non-persistent half: the policy entry never reaches it.
VOLATILE_MARK_PERCENT: Final = 70
#: No page is read by force while a node is used that much.
FORCE_LIMIT_PERCENT: Final = 110
ABOVE_90_PERCENT: Final = 91


@mypyc_attr(allow_interpreted_subclasses=True)
class PagedMemory(Memory):
    """Policy ``memory``, what G0 to G3 have in common."""

    wakes_on_relief = False
    pages = True
    throttles = True
    disk_stops = True
    broker_mark = FULL_PERCENT
    stop = NEVER
    #: Extra charges per message that is being written while the store is concurrent.
    pending_charges = 2

    def cursor(self, tree: MemoryTree, queue: Queue) -> Cursor | None:
        return Cursor(tree, queue, queue.policy.use_cache)

    def admit(
        self, tree: MemoryTree, destination: Destination, subscription: Subscription, reference: Reference
    ) -> bool:
        tree.charge(destination, reference)
        if subscription.durable is not None:
            self._read_for(tree, destination, subscription)
        return True

    # -- durable subscriptions

    def store_for(self, tree: MemoryTree, topic: Destination, subscription: Subscription, reference: Reference) -> None:
        if not reference.message.persistent:
            return
        if not tree.root.is_below(topic.mark_percent):
            subscription.caching = False
        elif not subscription.caching and topic.policy.use_cache and not subscription.pending:
            subscription.caching = True
        if subscription.caching and topic.policy.use_cache:
            tree.charge(topic, reference)

    def _read_for(self, tree: MemoryTree, topic: Destination, subscription: Subscription) -> None:
        """The first of the backlog was read from the store: so is the rest of its page, as long as there is space."""
        for reference in islice(subscription.pending, 1, topic.page_size):
            if not tree.root.is_below(topic.mark_percent):
                return
            if reference.message.persistent and not reference.charged:
                tree.charge(topic, reference)

    def keeps_uncommitted(self, _tree: MemoryTree, _queue: Queue, _size_bytes: int) -> bool:
        """Always, whatever the mark and the limits say."""
        return True

    def shrink(self, tree: MemoryTree, destination: Destination) -> None:
        """Nothing is evicted for a lower limit."""

    # -- space

    def has_space(self, tree: MemoryTree, queue: Queue, *, volatile: bool = False, pending_bytes: int = 0) -> bool:
        """The cursor's gate, for one of its halves."""
        mark = VOLATILE_MARK_PERCENT if volatile else queue.mark_percent
        if not queue.usage.is_below(mark, pending_bytes):
            return False
        if self.broker_mark == NO_BROKER_MARK:
            return True
        return tree.root.is_below(mark if self.broker_mark == OWN_MARK else self.broker_mark, pending_bytes)

    # -- arrival

    def arrive(self, tree: MemoryTree, queue: Queue, cursor: Cursor, reference: Reference) -> None:
        """A message joins the end of its half of the cursor."""
        if not reference.message.persistent:
            self._spool(tree, queue, cursor, reference)
            return
        pending = self.pending_charges * reference.size_bytes if tree.concurrent_store and cursor.caching else 0
        if not self.has_space(tree, queue, pending_bytes=pending):
            cursor.caching = False
        elif not cursor.caching and queue.policy.use_cache and not cursor.batch and not cursor.store:
            cursor.caching = True
        if cursor.caching:
            cursor.cache(reference)
        else:
            cursor.store.append(reference)

    def _spool(self, tree: MemoryTree, queue: Queue, cursor: Cursor, reference: Reference) -> None:
        if not cursor.temp and self.has_space(tree, queue, volatile=True):
            cursor.keep(reference)
            if queue.usage.is_below(VOLATILE_MARK_PERCENT):
                return
            cursor.flush()
        else:
            cursor.file(reference)

    # -- handing over

    def page_in(self, tree: MemoryTree, queue: Queue, cursor: Cursor) -> bool:
        """The queue was woken: hand over a page. False if it had to stay empty for want of memory."""
        most = min(queue.page_size, len(cursor))
        if queue.policy.lazy_dispatch:
            most = min(most, free_places(queue))
        if most <= 0 or len(queue.line) >= queue.page_size or not has_demand(queue):
            return True
        return self.load(tree, queue, cursor, most) > 0 or self.has_space(tree, queue)

    def load(self, tree: MemoryTree, queue: Queue, cursor: Cursor, most: int, *, expiring: bool = True) -> int:
        """Hand over at most so many messages; give how many left the cursor. Dead ones do not count as handed over if
        ``expiring``.
        """
        region = queue.region
        taken = moved = 0
        while taken < most and len(cursor):
            if cursor.volatile_next():
                reference = cursor.take_volatile()
            else:
                if not cursor.batch:
                    self._read_batch(tree, queue, cursor, most)
                if not cursor.batch:
                    break
                reference = cursor.batch.popleft()
            moved += 1
            if expiring and region.is_expired(reference.message):
                queue.expire(reference)
            else:
                queue.line.hand_over(reference)
                if queue.choices is not None:
                    queue.choices.add(reference)
                taken += 1
        return moved

    def _read_batch(self, tree: MemoryTree, queue: Queue, cursor: Cursor, most: int) -> None:
        """An open gate gives at least one message, and in G1 and G2 as many as were asked for."""
        if not self.has_space(tree, queue):
            return
        for _ in range(min(most, len(cursor.store))):
            if self.stop == BEFORE_READ_WITHOUT_SPACE and not self.has_space(tree, queue):
                return
            cursor.read()
            if self.stop == AFTER_READ_ABOVE_90 and not tree.root.is_below(ABOVE_90_PERCENT):
                return

    def look_ahead(self, tree: MemoryTree, queue: Queue, most: int) -> None:
        """Somebody wants to see messages, consumer or not: the sweep, a browser."""
        cursor = queue.cursor
        if cursor is None or most <= 0:
            return
        for _ in range(1 + len(cursor) // most):
            reached = queue.counters.size - len(cursor)
            if not len(cursor) or (reached and (reached >= most or not self.has_space(tree, queue))):
                return
            if not (queue.usage.is_below(FORCE_LIMIT_PERCENT) and tree.root.is_below(FORCE_LIMIT_PERCENT)):
                self.page_in(tree, queue, cursor)
                return
            self.load(tree, queue, cursor, min(most, len(cursor)))


@mypyc_attr(allow_interpreted_subclasses=True)
class G0Memory(PagedMemory):
    """Generation ``G0``: nothing but the queue's own usage counts."""

    broker_mark = NO_BROKER_MARK
    stop = BEFORE_READ_WITHOUT_SPACE
    pending_charges = 1


@mypyc_attr(allow_interpreted_subclasses=True)
class G1Memory(PagedMemory):
    """Generation ``G1``: the queue's mark holds for the whole broker too."""

    broker_mark = OWN_MARK


@mypyc_attr(allow_interpreted_subclasses=True)
class G2Memory(PagedMemory):
    """Generation ``G2``: the whole broker must not be full."""


@mypyc_attr(allow_interpreted_subclasses=True)
class G3Memory(PagedMemory):
    """Generation ``G3``: and a batch ends when it nearly is."""

    stop = AFTER_READ_ABOVE_90


def has_demand(queue: Queue) -> bool:
    """Whether somebody consumes, and not only looks. A consumer with a full window counts."""
    return any(not subscription.consumer.browser for subscription in queue.subscriptions.values())


def free_places(queue: Queue) -> int:
    """What the windows of all consumers have room for."""
    free = 0
    for subscription in queue.subscriptions.values():
        consumer = subscription.consumer
        free += max(0, consumer.prefetch + consumer.extension - len(consumer.dispatched.index))
    return free
