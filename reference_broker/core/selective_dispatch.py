"""Who gets what on a queue where not everybody may have everything: selectors, noLocal, exclusive consumers, message
groups, consumer priorities, message priorities. ``dispatching.py`` does the plain case.

* Consumers are asked by priority, equals in turn. Each gets the first waiting message that it may have: first by
  message priority if the queue has ``prioritized_messages`` (else all are equal), then by place on the queue. Here a
  message that comes back takes its old place again, so that an unwanted neighbour changes no order.
* A message that one consumer may not have hides nothing from it: under ``fair`` it looks past it as far as the queue
  goes. The generations of ActiveMQ look no further than what is loaded.
* Nobody looks at a message twice in vain. Consumers with the same filter share a *stream*: the places of the messages
  that they want, first at the front; the filter is evaluated once per message and stream. A message of an owned group
  leaves the streams for its owner's *share*, and comes back if the group becomes free.
* Streams and shares are hints: what is in no line any more is skipped when its turn comes. They are rebuilt when they
  are mostly hints of the past. What came back is asked about again, because a departure marks it as redelivered.
* A queue begins to choose when the first consumer or message asks for it, and ends when nothing asks for it and nothing
  waits.

Exception: a message that lies aside (``queue.py``) is offered to whoever wants it, whatever its group.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.dispatching import take_offer
from brokerproof.reference_broker.core.groups import Groups

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.queue import Queue
    from brokerproof.reference_broker.core.reference import Reference
    from brokerproof.reference_broker.core.subscription import Consumer, Subscription

#: A key is a place on the queue below a rank, so that smaller is sooner.
PLACE_BITS: Final = 48
PLACE_MASK: Final = (1 << PLACE_BITS) - 1
#: The filter of a consumer that is not selective. Its stream stays without listeners too: building it takes long.
EVERYTHING: Final = ("", -1)
#: So many hints of the past are always allowed.
SLACK: Final = 64


class Stream:
    """What consumers with the same filters may have, by key. ``representative`` is one of them."""

    __slots__ = ("keys", "representative")

    def __init__(self, representative: Subscription, keys: list[int]) -> None:
        self.representative = representative
        self.keys = keys


class Share:
    """What one consumer may have: its stream, and what its groups keep for it alone."""

    __slots__ = ("keys", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.keys: list[int] = []


def filter_key(consumer: Consumer) -> tuple[str, int]:
    """What tells one stream from another."""
    return consumer.selector if consumer.filter is not None else "", consumer.connection if consumer.no_local else -1


def needs_selection(consumer: Consumer) -> bool:
    """Whether a queue must choose because of this consumer."""
    return consumer.selective or consumer.exclusive or consumer.priority != 0


class SelectiveDispatch:
    """How one queue chooses."""

    __slots__ = ("exclusive", "groups", "queue", "shares", "streams")

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.streams: dict[tuple[str, int], Stream] = {}
        #: By serial number of the subscription.
        self.shares: dict[int, Share] = {}
        self.groups = Groups()
        self.exclusive: Subscription | None = None
        for subscription in queue.subscriptions.values():
            self.join(subscription)
        self.reopen()

    # -- consumers

    def join(self, subscription: Subscription) -> None:
        """A consumer comes."""
        name = filter_key(subscription.consumer)
        stream = self.streams.get(name)
        if stream is None:
            line, wants = self.queue.line, self.queue.wants
            keys = sorted(self.key(one) for one in line if wants(subscription, one.message))
            stream = self.streams[name] = Stream(subscription, keys)
        self.shares[subscription.serial] = Share(stream)

    def part(self, subscription: Subscription) -> None:
        """A consumer goes; it is off the queue's list already."""
        share = self.shares.pop(subscription.serial)
        stream = share.stream
        heir = next(
            (one for one in self.queue.subscriptions.values() if self.shares[one.serial].stream is stream), None
        )
        if heir is not None:
            stream.representative = heir
        elif filter_key(subscription.consumer) != EVERYTHING:
            del self.streams[filter_key(subscription.consumer)]
        self.free(self.queue.region.policies.grouping.freed(self.groups, subscription))

    def reopen(self) -> None:
        """The consumers have changed: see who may be given anything, and who is asked first."""
        queue = self.queue
        policies = queue.region.policies
        present = list(queue.subscriptions.values())
        self.exclusive = policies.exclusivity.chosen(present)
        waiting = list(queue.ready)
        waiting += [one for one in present if not one.ready and policies.prefetch.is_open(one)]
        queue.ready.clear()
        for subscription in waiting:
            subscription.ready = self.may_receive(subscription)
            if subscription.ready:
                policies.dispatch.join(queue.ready, subscription)

    def may_receive(self, subscription: Subscription) -> bool:
        """Whether the queue gives this consumer anything at all."""
        return self.exclusive is None or self.exclusive is subscription

    def is_over(self) -> bool:
        """Whether nothing asks for choosing any more."""
        queue = self.queue
        return not (
            len(queue.line)
            or (queue.cursor is not None and len(queue.cursor))
            or self.groups.by_id
            or queue.prioritized
            or any(needs_selection(subscription.consumer) for subscription in queue.subscriptions.values())
        )

    # -- messages

    def key(self, reference: Reference) -> int:
        """Sooner is smaller."""
        rank = self.queue.region.policies.priority.rank(reference.message) if self.queue.prioritized else 0
        return (rank << PLACE_BITS) | reference.order

    def add(self, reference: Reference) -> None:
        """A message waits from now on."""
        key = self.key(reference)
        limit = 2 * len(self.queue.line) + SLACK
        for stream in self.streams.values():
            if self.queue.wants(stream.representative, reference.message):
                heapq.heappush(stream.keys, key)
                if len(stream.keys) > limit:
                    self._tidy(stream.keys)

    def _tidy(self, keys: list[int]) -> None:
        """Forget what waits no longer."""
        keys[:] = [key for key in dict.fromkeys(keys) if self.queue.line.find(key & PLACE_MASK) is not None]
        heapq.heapify(keys)

    def take(self, subscription: Subscription) -> Reference | None:
        """The next message for this consumer, off the pending list, alive and loaded; None if there is none or memory
        does not admit it.
        """
        queue = self.queue
        region = queue.region
        share = self.shares[subscription.serial]
        while True:
            keys = share.stream.keys
            if share.keys and (not keys or share.keys[0] <= keys[0]):
                keys = share.keys
            if not keys:
                return None
            reference = queue.line.find(keys[0] & PLACE_MASK)
            if reference is None:
                heapq.heappop(keys)
            elif region.is_expired(reference.message):
                heapq.heappop(keys)
                queue.line.remove(reference)
                queue.expire(reference)
            elif reference.returned and not queue.wants(subscription, reference.message):
                heapq.heappop(keys)
            elif not self._is_for(subscription, share, reference.message, keys):
                continue
            elif not self._admit(subscription, reference):
                return None
            else:
                heapq.heappop(keys)
                return self._hand_over(subscription, reference)

    def _is_for(self, subscription: Subscription, share: Share, message: Message, keys: list[int]) -> bool:
        """Whether the message at the front of ``keys`` is for this consumer; if its group says that it is for
        another, it goes there.
        """
        if not message.group_id:
            return True
        owner = self.queue.region.policies.grouping.owner(self.groups, message)
        if owner is None or owner is subscription:
            if keys is not share.keys or self.queue.wants(subscription, message):
                return True
            heapq.heappop(keys)  # it waits for the end of the group
            return False
        key = heapq.heappop(keys)
        group = self.groups.by_id.get(message.group_id)
        if group is not None and key not in group.claimed:
            group.claimed[key] = None
            heapq.heappush(self.shares[owner.serial].keys, key)
        return False

    def _admit(self, subscription: Subscription, reference: Reference) -> bool:
        queue = self.queue
        region = queue.region
        if reference.charged:
            return True
        if not region.policies.memory.admit(region.memory, queue, subscription, reference):
            region.block(queue)
            return False
        return True

    def _hand_over(self, subscription: Subscription, reference: Reference) -> Reference:
        queue = self.queue
        message = reference.message
        queue.line.remove(reference)
        if message.group_id:
            group = self.groups.by_id.get(message.group_id)
            if group is not None:
                group.claimed.pop(self.key(reference), None)
            self.free(queue.region.policies.grouping.given(self.groups, message, subscription))
        return reference

    def free(self, names: list[str]) -> None:
        """Groups belong to nobody any more: what they kept is for everybody again."""
        for name in names:
            for key in self.groups.by_id.pop(name).claimed:
                reference = self.queue.line.find(key & PLACE_MASK)
                if reference is not None:
                    self.add(reference)


def choose(queue: Queue, choices: SelectiveDispatch) -> None:
    """Hand out what can be handed out."""
    region = queue.region
    policies = region.policies
    region.memory.blocked.pop(queue.name, None)
    ready = queue.ready
    at = 0
    while at < len(ready) and (len(queue.line) or queue.aside) and not queue.held:
        subscription = ready[at]
        reference = take_offer(queue, subscription) if subscription.offers else None
        if reference is None:
            reference = choices.take(subscription)
        if reference is None:
            at += 1
            continue
        queue.assign(subscription, reference)
        del ready[at]
        subscription.ready = policies.prefetch.is_open(subscription)
        if subscription.ready:
            policies.dispatch.join(ready, subscription)
        at = 0
    if choices.is_over():
        queue.choices = None
