"""One consumer of one destination: its window and its list of dispatched messages.

It decides in which order messages are on the list, and finds ranges of it for acknowledgements. Whether the window is
open is the policy ``prefetch``.

Rules:

* The list is in dispatch order, oldest first. Finding by message id, appending, and removing any entry take constant
  time; a range costs its own length.
* ``extension`` widens the window by the messages of which the client said that its application has them (DELIVERED).
* At most one message at a time is on the list without being counted in memory: the reserve (``memory.py``).

Change together: ``prefetch.py``, ``acknowledgement.py``.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reference_broker.core.destination import Destination
    from reference_broker.core.effects import Dispatch
    from reference_broker.core.reference import Reference


class Delivery:
    """One entry of a dispatched list."""

    __slots__ = ("after", "before", "dispatch", "number", "reference", "seen")

    def __init__(self, reference: Reference, dispatch: Dispatch, number: int) -> None:
        self.reference = reference
        #: The effect that carried it: tells a late report about an earlier delivery of the same message from one
        #: about this.
        self.dispatch = dispatch
        #: Position in dispatch order; grows with every assignment.
        self.number = number
        #: The client reported it DELIVERED, so that it widened the window already.
        self.seen = False
        self.before: Delivery | None = None
        self.after: Delivery | None = None


class Dispatched:
    """A consumer's unsettled deliveries: a doubly linked list with an index by message id."""

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
        """Add the newest delivery. Its message id must not be on the list (destinations refuse a second message with
        the same id).
        """
        tail = self.tail
        if tail is None:
            self.head = delivery
        else:
            tail.after = delivery
            delivery.before = tail
        self.tail = delivery
        self.index[delivery.reference.message.message_id] = delivery

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
        del self.index[delivery.reference.message.message_id]

    def between(self, first: str, last: str) -> list[Delivery] | None:
        """The deliveries from ``first`` ("" = the oldest) to ``last``, both inclusive; None if either is not on the
        list or they are reversed.
        """
        end = self.index.get(last)
        delivery = self.head if first == "" else self.index.get(first)
        if end is None or delivery is None or delivery.number > end.number:
            return None
        found = [delivery]
        while delivery is not end:
            delivery = delivery.after
            if delivery is None:
                return None
            found.append(delivery)
        return found


class Subscription:
    """A consumer, as the destination sees it."""

    __slots__ = (
        "auto_ack",
        "connection",
        "consumer",
        "destination",
        "dispatch_async",
        "dispatched",
        "extension",
        "offers",
        "pending",
        "prefetch",
        "ready",
        "reserve",
        "serial",
    )

    def __init__(
        self,
        connection: int,
        consumer: str,
        destination: Destination,
        prefetch: int,
        *,
        dispatch_async: bool,
        auto_ack: bool,
        serial: int,
    ) -> None:
        self.connection = connection
        self.consumer = consumer
        self.destination = destination
        self.prefetch = prefetch
        self.dispatch_async = dispatch_async
        self.auto_ack = auto_ack
        #: Number of this subscription in the broker: a name may come back, this does not.
        self.serial = serial
        self.extension = 0
        self.dispatched = Dispatched()
        #: Queues: whether it stands in the destination's ring of consumers with an open window. Topics: whether it is
        #: due to be looked at.
        self.ready = False
        #: The message that is in flight to it without being counted in memory.
        self.reserve: Reference | None = None
        #: Topics: what was published to it and is not dispatched yet.
        self.pending: deque[Reference] = deque()
        #: Queues: messages that another consumer discarded as expired, as a heap of (order, reference).
        self.offers: list[tuple[int, Reference]] = []
