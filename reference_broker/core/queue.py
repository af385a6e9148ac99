"""A queue: each message goes to one consumer, first in, first out, and comes back if that consumer leaves without
settling it.

It decides how messages come, go and are counted. The waiting ones stand in a line (``pending_list.py``); who gets what
is decided in ``dispatching.py``, or in ``selective_dispatch.py`` if not everybody may have everything. Beside the
pending list wait ``aside`` (generation ``documented`` of expiry: discarded by a client as expired while the broker's
clock disagrees), ``ack_pending`` (its consumer left, an open transaction decides) and ``scheduled`` (not due yet,
invisible).

* New and due messages join the pending list at its end; what comes back joins its front (policy ``ordering``).
* ``size`` = waiting + aside + ack_pending + in flight. Each message leaves exactly once: consumed, expired, poisoned or
  purged; ``enqueued - dequeued == size``.
* Every operation on one message takes constant time; only the sweep and the purge walk the queue.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.broker_redelivery import DEAD, PROPERTY, VANISHES
from brokerproof.reference_broker.core.browser import BrowserView
from brokerproof.reference_broker.core.deadletter import poison_cause
from brokerproof.reference_broker.core.delay import Scheduled
from brokerproof.reference_broker.core.destination import CLIENT_EXPIRED, CONSUMED, POISONED, Destination
from brokerproof.reference_broker.core.dispatching import pump
from brokerproof.reference_broker.core.instant import NS_PER_MS
from brokerproof.reference_broker.core.pending_list import PendingList
from brokerproof.reference_broker.core.reference import ACK_PENDING, ASIDE, ASSIGNED, DROPPED, GONE, WAITING, Reference
from brokerproof.reference_broker.core.selective_dispatch import SelectiveDispatch, choose, needs_selection

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.config import DestinationPolicy
    from brokerproof.reference_broker.core.cursor import Cursor
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Delivery, Subscription

#: Why a message is dead that came back too often.
_SPENT: Final = poison_cause("it was redelivered as often as redeliveries_max says")


class Queue(Destination):
    """One queue."""

    is_queue = True

    def __init__(self, region: Region, name: str, number: int, policy: DestinationPolicy) -> None:
        super().__init__(region, name, number, policy)
        self.line = PendingList(region.memory, self)
        #: Generations G0 to G3: what the pending list has not been handed yet.
        self.cursor = region.policies.memory.cursor(region.memory, self)
        self.aside: OrderedDict[int, Reference] = OrderedDict()
        self.ack_pending: dict[int, Reference] = {}
        self.scheduled: dict[int, Scheduled] = {}
        #: What purges have hidden (``management.py``); their ids stay taken.
        self.hidden: list[Reference] = []
        #: G0 to G3: an acknowledgement has woken it, which is worth two wake-ups (``paging.py``).
        self.acknowledged = False
        self.ready: deque[Subscription] = deque()
        #: By name, who only looks.
        self.browsers: dict[str, BrowserView] = {}
        self.prioritized = policy.prioritized_messages
        #: How it chooses among its consumers; None: everybody may have everything.
        self.choices: SelectiveDispatch | None = SelectiveDispatch(self) if self.prioritized else None
        #: Ids of all messages here, in whatever state.
        self.live: set[str] = set()
        #: A lower bound of the expirations of what waits or is scheduled; 0: nothing of it can expire.
        self.earliest_ms = 0

    # -- arrival

    def holds(self, message_id: str) -> bool:
        return message_id in self.live

    def refuse_expired(self, message: Message) -> None:
        self.region.report_expired(message, self.name)

    def publish(self, message: Message) -> None:
        region = self.region
        counters = self.counters
        counters.enqueued += 1
        counters.size += 1
        self.live.add(message.message_id)
        memory = region.policies.memory
        size_bytes = memory.size_bytes(message, self.minimum_bytes)
        reference = Reference(message, self.next_order, size_bytes)
        self.next_order += 1
        if region.journal is not None and message.persistent:
            region.journal.added(region, self.name, message, reference.order)
        if self.cursor is None:
            self.line.append(reference, memory.caches(region.memory, self, size_bytes))
            if self.choices is not None:
                self.choices.add(reference)
        else:
            memory.arrive(region.memory, self, self.cursor, reference)
        if message.group_id and self.choices is None:
            self.choices = SelectiveDispatch(self)
        self._note_expiration(message)
        region.wake(self)

    def recover(self, message: Message, order: int) -> None:
        """A message that outlived a restart: it is in the store only, in every generation."""
        self.counters.enqueued += 1
        self.counters.size += 1
        self.live.add(message.message_id)
        size_bytes = self.region.policies.memory.size_bytes(message, self.minimum_bytes)
        reference = Reference(message, order, size_bytes)
        self.next_order = order + 1
        if self.cursor is None:
            self.line.append(reference, cached=False)
            if self.choices is not None:
                self.choices.add(reference)
        else:
            self.cursor.recover(reference)
        if message.group_id and self.choices is None:
            self.choices = SelectiveDispatch(self)
        self._note_expiration(message)
        self.region.wake(self)

    def schedule(self, message: Message, due_ns: int) -> None:
        item = Scheduled(message, self, due_ns, None)
        self.live.add(message.message_id)
        self.scheduled[message.sequence] = item
        self.counters.scheduled += 1
        self._note_expiration(message)
        region = self.region
        if region.journal is not None and message.persistent:
            region.journal.scheduled(region, self.name, message, due_ns)
        self.region.delays.push(item)
        self.region.wake(self)

    def release(self, item: Scheduled) -> None:
        message = item.message
        self._unschedule(item)
        if self.region.is_expired(message):
            self._expire_scheduled(message)
            self.region.wake(self)
        else:
            self.publish(message)

    def withdraw(self, item: Scheduled) -> None:
        self._unschedule(item)
        self._unrecord(item.message)
        self.counters.enqueued += 1
        self.counters.dequeued += 1

    def _unschedule(self, item: Scheduled) -> None:
        item.cancelled = True
        del self.scheduled[item.message.sequence]
        self.counters.scheduled -= 1
        self.live.discard(item.message.message_id)

    def _expire_scheduled(self, message: Message) -> None:
        """It was never visible, but it was accepted: the counts show that it came and went."""
        self.counters.enqueued += 1
        self.counters.dequeued += 1
        self.counters.expired += 1
        self._unrecord(message)
        self.region.report_expired(message, self.name)

    # -- consumers

    def attach(self, subscription: Subscription) -> None:
        if subscription.consumer.browser:
            view = BrowserView(self, subscription)
            self.browsers[subscription.consumer.name] = view
            view.attach(subscription)
            self.region.wake(self)  # what it loads is for consumers, too
            return
        self.subscriptions[subscription.consumer.name] = subscription
        subscription.offers = sorted(item for item in self.aside.items() if self.wants(subscription, item[1].message))
        if self.choices is not None:
            self.choices.join(subscription)
            self.choices.reopen()
        elif needs_selection(subscription.consumer):
            self.choices = SelectiveDispatch(self)
        else:
            self.window_opened(subscription)
        self.region.wake(self)

    def window_opened(self, subscription: Subscription) -> None:
        if not subscription.ready and self.region.policies.prefetch.is_open(subscription):
            if self.choices is None:
                subscription.ready = True
                self.ready.append(subscription)
            elif self.choices.may_receive(subscription):
                subscription.ready = True
                self.region.policies.dispatch.join(self.ready, subscription)
        self.region.wake(self)

    def wants(self, subscription: Subscription, message: Message) -> bool:
        """Whether the consumer wants the message."""
        consumer = subscription.consumer
        return not consumer.selective or self.region.policies.selection.wants(consumer, message)

    def onlookers(self) -> int:
        return len(self.browsers)

    def window_closed(self, subscription: Subscription) -> None:
        if subscription.ready:
            subscription.ready = False
            self.ready.remove(subscription)

    def detach(self, subscription: Subscription, last_delivered: int) -> None:
        region = self.region
        del self.subscriptions[subscription.consumer.name]
        if subscription.ready:
            self.ready.remove(subscription)
        deliveries = subscription.deliveries()
        region.policies.in_flight.left(self.counters, len(deliveries))
        region.policies.redelivery.mark(deliveries, last_delivered)
        returning: list[Reference] = []
        for delivery in deliveries:
            reference = delivery.reference
            reference.reserved = False
            if reference.state == DROPPED:
                self._dead_letter(reference)
            elif delivery.pending_ack is not None:
                reference.move(ACK_PENDING)
                self.ack_pending[reference.order] = reference
                region.memory.discharge(self, reference)
            else:
                returning.append(reference)
        self._put_back(returning)
        if self.choices is not None:
            self.choices.part(subscription)
            self.choices.reopen()
        region.wake(self)

    def _put_back(self, references: list[Reference]) -> None:
        """They come back from a consumer and wait again; one that others have refused waits aside."""
        returning: list[Reference] = []
        for reference in references:
            if self.region.policies.redelivery.is_spent(reference.message.redelivery_count):
                self._leave(reference)
                self.region.dead_letter(reference.message, self.name, _SPENT)
            elif reference.refused_by is not None:
                self._set_aside(reference)
            else:
                reference.move(WAITING)
                reference.returned = True
                returning.append(reference)
                self._note_expiration(reference.message)
        if returning:
            self.region.policies.ordering.put_back(self.line, returning)
            if self.choices is not None:
                for reference in returning:
                    self.choices.add(reference)
        self.region.memory.relieved = True  # what came back can be evicted

    def evict(self) -> bool:
        return self.line.evict()

    def pump(self) -> None:
        if self.cursor is None:
            self._hand_out()
            return
        region = self.region
        paged = region.policies.memory.page_in(region.memory, self, self.cursor)
        self._hand_out()
        if self.acknowledged:
            self.acknowledged = False
            paged = region.policies.memory.page_in(region.memory, self, self.cursor)
            self._hand_out()
        if not paged:
            region.block(self)

    def _hand_out(self) -> None:
        if self.choices is None:
            pump(self)
        else:
            choose(self, self.choices)

    # -- the end of a message

    def settle(self, delivery: Delivery, outcome: str, cause: str = "") -> None:
        reference = delivery.reference
        message = reference.message
        if self.cursor is not None:
            self.acknowledged = True
        if reference.state == DROPPED:
            self._dead_letter(reference)
        elif outcome == CONSUMED:
            self._leave(reference)
            if self.region.stage is not None:
                self.region.stage.report(message, "cod")
        elif outcome == POISONED:
            self._leave(reference)
            self._give_up(message, cause)
        elif outcome == CLIENT_EXPIRED:
            if self.region.policies.expiry.believes_client(message.expiration_ms, self.region.now.wall_ms):
                self.expire(reference)
            else:
                self._refuse(delivery.subscription, reference)

    def _give_up(self, message: Message, cause: str) -> None:
        """A client does not want it, or not any more: it comes again later if the broker redelivers, or is dead."""
        region = self.region
        pause_ms = region.policies.redelivery_plugin.pause_ms(message, self.name)
        if pause_ms == DEAD:
            region.dead_letter(message, self.name, poison_cause(cause))
        elif pause_ms != VANISHES:
            message.redelivery_count += 1
            message.properties = {**message.properties, PROPERTY: pause_ms}  # other copies share the old ones
            region.number(message)
            if pause_ms > 0:
                self.schedule(message, region.now.mono_ns + pause_ms * NS_PER_MS)
            else:
                self.publish(message)

    def redeem(self, delivery: Delivery, outcome: str) -> None:
        del self.ack_pending[delivery.reference.order]
        self._leave(delivery.reference)
        if outcome == POISONED:
            self._give_up(delivery.reference.message, "")

    def restore(self, deliveries: list[Delivery]) -> None:
        references = [delivery.reference for delivery in deliveries]
        for reference in references:
            del self.ack_pending[reference.order]
        self._put_back(references)
        self.region.wake(self)

    def _leave(self, reference: Reference) -> None:
        reference.move(GONE)
        self.live.discard(reference.message.message_id)
        self._unrecord(reference.message)
        self.counters.dequeued += 1
        self.counters.size -= 1
        self.region.memory.discharge(self, reference)

    def _unrecord(self, message: Message) -> None:
        """A message has left for good; the journal must forget it."""
        region = self.region
        if region.journal is not None and message.persistent:
            region.journal.removed(region, self.name, message)

    def _dead_letter(self, reference: Reference) -> None:
        reference.move(GONE)
        self.live.discard(reference.message.message_id)

    def expire(self, reference: Reference) -> None:
        """A message that is in the pending list no longer has expired: there is room on its page."""
        if self.cursor is not None:
            self.acknowledged = True
        self._leave(reference)
        self.counters.expired += 1
        self.region.report_expired(reference.message, self.name)

    def _refuse(self, subscription: Subscription, reference: Reference) -> None:
        """The consumer discarded a message that is alive by our clock: never again to this consumer, welcome to any
        other.
        """
        if reference.refused_by is None:
            reference.refused_by = []
        reference.refused_by.append(subscription.serial)
        self._set_aside(reference)

    def _set_aside(self, reference: Reference) -> None:
        reference.move(ASIDE)
        self.region.memory.discharge(self, reference)
        self.aside[reference.order] = reference
        self._note_expiration(reference.message)
        refused_by = reference.refused_by or []
        for other in self.subscriptions.values():
            if other.serial not in refused_by and self.wants(other, reference.message):
                heapq.heappush(other.offers, (reference.order, reference))

    # -- expiry while waiting

    def wants_sweep(self) -> bool:
        if self.expire_period_ms <= 0:
            return False
        if self.name in self.region.memory.blocked or (self.cursor is not None and len(self.cursor)):
            return True
        return self.earliest_ms > 0 and bool(len(self.line) or self.aside or self.scheduled)

    def sweep(self, now: Now) -> None:
        region = self.region
        region.policies.memory.look_ahead(region.memory, self, self.policy.max_expire_page_size)
        region.wake(self)
        if not region.policies.expiry.is_expired(self.earliest_ms, now.wall_ms):
            return
        self.earliest_ms = 0
        for reference in self.cursor or ():
            self._note_expiration(reference.message)
        for reference in list(self.line):
            if region.is_expired(reference.message):
                self.line.remove(reference)
                self.expire(reference)
            else:
                self._note_expiration(reference.message)
        for order, reference in list(self.aside.items()):
            if region.is_expired(reference.message):
                del self.aside[order]
                self.expire(reference)
            else:
                self._note_expiration(reference.message)
        for item in list(self.scheduled.values()):
            if region.is_expired(item.message):
                self._unschedule(item)
                self._expire_scheduled(item.message)
            else:
                self._note_expiration(item.message)

    def _note_expiration(self, message: Message) -> None:
        expiration_ms = message.expiration_ms
        if expiration_ms > 0 and (self.earliest_ms == 0 or expiration_ms < self.earliest_ms):
            self.earliest_ms = expiration_ms

    # -- management

    def purge(self) -> None:
        for item in list(self.scheduled.values()):
            self.withdraw(item)
        cursor = self.cursor
        self._purge_reached()
        while cursor is not None and len(cursor):
            memory = self.region.policies.memory
            if not memory.load(self.region.memory, self, cursor, self.page_size, expiring=False):
                break
            self._purge_reached()
        if cursor is not None and self.region.policies.memory.zeroes:
            self._hide(cursor)
        self.region.wake(self)

    def _hide(self, cursor: Cursor) -> None:
        """Forget what a purge did not reach: it is in the journal, and on the queue again after a restart."""
        for reference in cursor.clear():
            self.region.memory.discharge(self, reference)
            self.counters.size -= 1
            self.counters.kept_size -= 1  # it came and has not gone
            self.hidden.append(reference)

    def give_away(self, reference: Reference) -> None:
        """A waiting message is moved to another destination."""
        self.line.remove(reference)
        self._leave(reference)

    def dissolve(self) -> None:
        """The queue is removed: what no purge reaches goes too."""
        self.purge()
        for reference in [] if self.cursor is None else self.cursor.clear():
            self._leave(reference)

    def _purge_reached(self) -> None:
        """Purge what is not behind the cursor."""
        for reference in [*self.line, *self.aside.values(), *self.ack_pending.values()]:
            self._leave(reference)
        self.line.clear()
        self.aside.clear()
        self.ack_pending.clear()
        for subscription in self.subscriptions.values():
            for delivery in subscription.deliveries():
                if delivery.reference.state == ASSIGNED:
                    self._drop(delivery.reference)

    def _drop(self, reference: Reference) -> None:
        """Purged in flight: off the counts at once, but its id stays taken until the consumer has settled it."""
        reference.move(DROPPED)
        self._unrecord(reference.message)
        self.counters.dequeued += 1
        self.counters.size -= 1
        self.region.memory.discharge(self, reference)
