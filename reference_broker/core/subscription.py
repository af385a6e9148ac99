"""A consumer, its subscriptions at destinations, its window, and the order of its list of dispatched messages.

Whether the window is open is the policy ``prefetch``.

* A consumer has one window and one list, over all destinations that it consumes from.
* The list is in dispatch order, oldest first. Each operation takes constant time; a range costs its length.
* Copies of one message on several destinations have one id, so a consumer of several may hold it more than once. An
  acknowledgement that names the destination as well means that copy, without it the oldest on the list.
* ``extension`` widens the window by the messages of which the client said that its application has them (DELIVERED).
* At most one message at a time is on the list without being counted in memory: the reserve (``memory.py``).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.reference import ASSIGNED, DROPPED
from brokerproof.reference_broker.core.selector import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.durable import Durable
    from brokerproof.reference_broker.core.effects import Dispatch
    from brokerproof.reference_broker.core.events import Subscribe
    from brokerproof.reference_broker.core.reference import Reference
    from brokerproof.reference_broker.core.selector import Selector
    from brokerproof.reference_broker.core.transaction import PendingAck


class Delivery:
    """One entry of a dispatched list."""

    __slots__ = ("after", "before", "dispatch", "key", "number", "pending_ack", "reference", "seen", "subscription")

    def __init__(self, subscription: Subscription, reference: Reference, dispatch: Dispatch, number: int) -> None:
        self.subscription = subscription
        self.reference = reference
        #: The effect that carried it: tells a late report about an earlier delivery of the same message from one
        #: about this.
        self.dispatch = dispatch
        #: Position in dispatch order; grows with every assignment of the broker.
        self.number = number
        #: Its name in the list's index.
        self.key = reference.message.message_id
        #: The client reported it DELIVERED, so that it widened the window already.
        self.seen = False
        #: The acknowledgement in an open transaction that speaks for it.
        self.pending_ack: PendingAck | None = None
        self.before: Delivery | None = None
        self.after: Delivery | None = None

    def is_held(self) -> bool:
        """Whether the consumer still has it, for one that a transaction has ack_pending."""
        return self.reference.state in (ASSIGNED, DROPPED)


class Dispatched:
    """A consumer's unsettled deliveries: a doubly linked list with an index by message id; a copy that came while
    another was on the list is indexed by its destination's name as well.
    """

    __slots__ = ("head", "index", "tail")

    def __init__(self) -> None:
        self.head: Delivery | None = None
        self.tail: Delivery | None = None
        self.index: dict[str, Delivery] = {}

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[Delivery]:
        delivery = self.head
        while delivery is not None:
            yield delivery
            delivery = delivery.after

    def append(self, delivery: Delivery) -> None:
        """Add the newest delivery."""
        tail = self.tail
        if tail is None:
            self.head = delivery
        else:
            tail.after = delivery
            delivery.before = tail
        self.tail = delivery
        if delivery.key in self.index:
            delivery.key = copy_key(delivery.key, delivery.subscription.destination.name)
        self.index[delivery.key] = delivery

    def remove(self, delivery: Delivery) -> None:
        """Take one delivery off the list."""
        before, after = delivery.before, delivery.after
        if before is None:
            self.head = after
        else:
            before.after = after
        if after is None:
            self.tail = before
        else:
            after.before = before
        del self.index[delivery.key]

    def find(self, message_id: str, destination: str = "") -> Delivery | None:
        """The delivery of that message, from that destination ("": the oldest); None if it is not on the list."""
        found = self.index.get(message_id)
        if found is not None and (not destination or found.subscription.destination.name == destination):
            return found
        if destination:
            return self.index.get(copy_key(message_id, destination))
        if len(self.index) and self.head is not None and self.head.subscription.consumer.scattered:
            for delivery in self:
                if delivery.reference.message.message_id == message_id:
                    return delivery
        return None

    def between(self, first: str, last: str, destination: str = "") -> list[Delivery] | None:
        """The deliveries from ``first`` ("" = the oldest) to ``last``, both inclusive; None if either is not on the
        list or they are reversed. ``destination`` says which copy of ``last`` is meant.
        """
        end = self.find(last, destination)
        if first == last and end is not None:
            return [end]
        delivery = self.head if first == "" else self.find(first)
        if end is None or delivery is None or delivery.number > end.number:
            return None
        found = [delivery]
        while delivery is not end:
            delivery = delivery.after
            if delivery is None:
                return None
            found.append(delivery)
        return found


def copy_key(message_id: str, destination: str) -> str:
    """The index entry of a copy. Names of destinations hold no line feed."""
    return f"{message_id}\n{destination}"


class Consumer:
    """One consumer: what it asked for, its window, and what it owes an answer for."""

    __slots__ = ("auto_ack", "browser", "connection", "dispatch_async", "dispatched", "durable", "exclusive", "extends",
                 "extension", "filter", "name", "no_local", "patterns", "pending_limit", "prefetch", "priority",
                 "reserve", "retroactive", "saw_all", "scattered", "selective", "selector",
                 "subscriptions", "turn")  # fmt: skip

    def __init__(self, event: Subscribe, prefetch: int, extends: bool) -> None:
        self.connection = event.connection
        self.name = event.consumer
        #: Messages that may be on the list; 0: it pulls.
        self.prefetch = prefetch
        self.dispatch_async = event.dispatch_async
        self.auto_ack = event.auto_ack
        #: The text of the selector ("" is none), and the selector. Raises ``BadSelector``.
        self.selector = event.selector
        self.filter: Selector | None = parse(event.selector) if event.selector else None
        self.no_local = event.no_local
        #: It does not want everything.
        self.selective = self.filter is not None or event.no_local
        self.exclusive = event.exclusive
        self.priority = event.priority
        self.browser = event.browser
        #: It was told that there is nothing more to browse.
        self.saw_all = False
        self.retroactive = event.retroactive
        self.pending_limit = event.pending_limit
        #: Name of the durable subscription; "" is none.
        self.durable = event.durable
        #: Its places at destinations, one each: a plain name has one, a wildcard as many as match.
        self.subscriptions: list[Subscription] = []
        #: It has several places. Serial number of the one that was served last.
        self.scattered = False
        self.turn = 0
        #: The wildcards that it named.
        self.patterns: list[str] = []
        self.extension = 0
        #: Whether DELIVERED acknowledgements move ``extension``; not while it pulls.
        self.extends = extends
        self.dispatched = Dispatched()
        #: The message that is in flight to it without being counted in memory.
        self.reserve: Reference | None = None

    def in_turn(self) -> list[Subscription]:
        """Its places, beginning after the one that was served last."""
        if not self.scattered:
            return self.subscriptions
        later = [subscription for subscription in self.subscriptions if subscription.serial > self.turn]
        return later + [subscription for subscription in self.subscriptions if subscription.serial <= self.turn]


class Subscription:
    """A consumer's place at one destination."""

    __slots__ = ("ack_pending", "caching", "consumer", "destination", "durable", "offers", "pending",
                 "ready", "serial")  # fmt: skip

    def __init__(self, consumer: Consumer, destination: Destination, serial: int) -> None:
        self.consumer = consumer
        self.destination = destination
        #: The durable subscription that it belongs to; it outlives the consumer.
        self.durable: Durable | None = None
        #: Number of this subscription in the broker: a name may come back, this does not.
        self.serial = serial
        #: Queues: whether it stands in the destination's ring of consumers with an open window. Topics: whether it is
        #: due to be looked at.
        self.ready = False
        #: Topics: what was published to it and is not dispatched yet.
        self.pending: deque[Reference] = deque()
        #: Durable: what open transactions of consumers that left decide about, by order.
        self.ack_pending: dict[int, Reference] = {}
        #: Durable, G0 to G3: whether what arrives stays in memory.
        self.caching = True
        #: Queues: messages that another consumer discarded as expired, as a heap of (order, reference).
        self.offers: list[tuple[int, Reference]] = []

    def deliveries(self) -> list[Delivery]:
        """What the consumer holds of this destination, oldest first."""
        held = list(self.consumer.dispatched)
        if len(self.consumer.subscriptions) > 1:
            return [delivery for delivery in held if delivery.subscription is self]
        return held
