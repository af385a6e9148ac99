"""A topic: everybody who is subscribed when a message is published gets it.

* A subscription gets what is published after it attached, in order; what its window does not admit yet waits in
  ``pending``, without limit unless the policy entry sets one (``backlog.py``).
* A message that is expired on arrival goes to nobody and counts expired + 1. One that expires in ``pending`` is found
  when its turn comes: expired + 1 and dequeued + 1 for that subscription, one dead-letter copy per publication. The
  sweep looks at the backlogs of durable subscriptions, of those with a consumer only if the broker is told to
  (``enable_message_expiration_on_active_durable_subs``).
* ``enqueued`` counts publications, ``dequeued`` and ``expired`` count per subscription, ``size`` is always 0.
* A consumer that leaves takes its backlog with it: no redelivery, no dequeue; that of a durable subscription stays
  (``durable.py``).
* Poison is consumed, a client's expired-ack counts expired + 1; neither makes a dead letter, except for a durable
  subscription.
* A consumer with a selector or noLocal gets only what it wants (``selection.py``).
* A retroactive subscriber gets first what the topic remembers (``retention.py``).
* The audience of a delayed message is fixed when it is sent (``delay.py``).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.backlog import discard_cause
from brokerproof.reference_broker.core.deadletter import expiry_cause, poison_cause
from brokerproof.reference_broker.core.delay import Scheduled
from brokerproof.reference_broker.core.destination import CLIENT_EXPIRED, CONSUMED, Destination
from brokerproof.reference_broker.core.effects import Logged
from brokerproof.reference_broker.core.reference import ACK_PENDING, GONE, WAITING, Publication, Reference
from brokerproof.reference_broker.core.retention import Archive

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.config import DestinationPolicy
    from brokerproof.reference_broker.core.durable import Durable
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Delivery, Subscription


class Topic(Destination):
    """One topic."""

    def __init__(self, region: Region, name: str, number: int, policy: DestinationPolicy) -> None:
        super().__init__(region, name, number, policy)
        #: By id, what some subscription still holds or is still scheduled.
        self.live: dict[str, Publication] = {}
        #: Subscriptions to be looked at by the next ``pump``.
        self.stirred: list[Subscription] = []
        #: Durable subscriptions by key, with a consumer or without.
        self.durables: dict[str, Subscription] = {}
        #: Whether the policy entry limits backlogs.
        self.limited = policy.pending_message_limit >= 0 or policy.pending_message_limit_multiplier >= 0
        #: What it remembers for subscribers that come late; None: nothing.
        self.archive = Archive(policy.recovery) if policy.recovery is not None else None
        #: Whether the sweep looks at durable subscriptions that have a consumer.
        self.sweeps_active = region.config.enable_message_expiration_on_active_durable_subs
        #: A lower bound of the expirations in the backlogs that are swept; 0: nothing there can expire.
        self.earliest_ms = 0

    def holds(self, message_id: str) -> bool:
        return message_id in self.live

    def refuse_expired(self, message: Message) -> None:
        self.counters.expired += 1
        self.region.report_expired(message, self.name)

    def publish(self, message: Message) -> None:
        if self.archive is not None:
            self.region.policies.retention.keep(self.archive, message, self.region.now)
        self._publish_to(message, self.audience(message))

    def tell(self, subscription: Subscription, message: Message) -> None:
        """A message for one subscription alone."""
        self._publish_to(message, [subscription])

    def schedule(self, message: Message, due_ns: int) -> None:
        self.schedule_for(message, due_ns, self.audience(message))

    def schedule_for(self, message: Message, due_ns: int, audience: list[Subscription]) -> None:
        """Schedule a message for those who matched it."""
        self.live[message.message_id] = Publication(0)
        self.counters.scheduled += 1
        region = self.region
        if region.journal is not None and message.persistent and (holders := holders_of(audience)):
            region.journal.scheduled(region, self.name, message, due_ns, holders)
        region.delays.push(Scheduled(message, self, due_ns, audience))

    def recover_for(self, message: Message, order: int, due_ns: int, holders: tuple[str, ...]) -> None:
        """A message that outlived a restart, for the durable subscriptions that wait for it; ``due_ns`` 0: at once."""
        audience = [self.durables[key] for key in holders if key in self.durables]
        if due_ns:
            self.schedule_for(message, due_ns, audience)
        else:
            self.next_order = max(self.next_order, order)
            self._publish_to(message, audience, recovered=True)

    def withdraw(self, item: Scheduled) -> None:
        item.cancelled = True
        self.counters.scheduled -= 1
        del self.live[item.message.message_id]
        region = self.region
        if region.journal is not None and item.message.persistent and holders_of(item.audience or []):
            region.journal.removed(region, self.name, item.message)

    def release(self, item: Scheduled) -> None:
        message = item.message
        self.counters.scheduled -= 1
        del self.live[message.message_id]
        audience = item.audience
        region = self.region
        if region.is_expired(message):
            if region.journal is not None and message.persistent and holders_of(audience or []):
                region.journal.removed(region, self.name, message)
            self.refuse_expired(message)
            return
        if audience is None or not self.region.policies.delay.fixes_audience():
            audience = self.audience(message)
        if self.archive is not None:
            region.policies.retention.keep(self.archive, message, region.now)
        self._publish_to(message, [subscription for subscription in audience if self.has(subscription)])

    def audience(self, message: Message) -> list[Subscription]:
        """Who gets a message that is sent now."""
        keeps = self.region.policies.durable.keeps
        audience = [subscription for subscription in self.subscriptions.values() if subscription.durable is None]
        audience += [subscription for subscription in self.durables.values() if keeps(subscription, message)]
        return [one for one in audience if not one.consumer.selective or self._wants(one, message)]

    def has(self, subscription: Subscription) -> bool:
        """Whether a subscription is still there."""
        if subscription.durable is not None:
            return self.durables.get(subscription.durable.key) is subscription
        return self.subscriptions.get(subscription.consumer.name) is subscription

    def _wants(self, subscription: Subscription, message: Message) -> bool:
        durable = subscription.durable
        if durable is not None:
            sender = self.region.connection_registry.client_id(message.sender)
            if durable.absent.no_local and sender == durable.client_id:
                return False
            return self.region.policies.selection.wants(durable.absent, message)
        return self.region.policies.selection.wants(subscription.consumer, message)

    def _publish_to(self, message: Message, audience: list[Subscription], *, recovered: bool = False) -> None:
        self.counters.enqueued += 1
        if not audience:
            return
        publication = Publication(len(audience))
        self.live[message.message_id] = publication
        region = self.region
        if region.journal is not None and message.persistent and (holders := holders_of(audience)):
            region.journal.added(region, self.name, message, self.next_order, holders)
        size_bytes = region.policies.memory.size_bytes(message, self.minimum_bytes)
        temp = region.memory.temp
        pages = region.policies.memory.pages
        for subscription in audience:
            reference = Reference(message, self.next_order, size_bytes, publication)
            if pages and subscription.durable is not None and not recovered:
                region.policies.memory.store_for(region.memory, self, subscription, reference)
            subscription.pending.append(reference)
            if temp is not None:
                region.memory.spool(reference, stored=subscription.durable is not None and message.persistent)
            if subscription.durable is None:
                self._stir(subscription)
            else:
                self._note(reference)
                if subscription.durable.consumer is not None:
                    self._stir(subscription)
        self.next_order += 1
        self.region.wake(self)

    # -- consumers

    def attach(self, subscription: Subscription) -> None:
        consumer = subscription.consumer
        self.subscriptions[consumer.name] = subscription
        if subscription.durable is not None:
            self.window_opened(subscription)
        elif consumer.retroactive and self.archive is not None:
            self._recall(subscription, self.archive)

    def _recall(self, subscription: Subscription, archive: Archive) -> None:
        """A subscriber comes late and gets what is remembered."""
        region = self.region
        for message in region.policies.retention.recall(archive, region.now):
            wanted = not subscription.consumer.selective or self._wants(subscription, message)
            if region.is_expired(message) or not wanted:
                continue
            publication = self.live.setdefault(message.message_id, Publication(0))
            publication.holders += 1
            size_bytes = region.policies.memory.size_bytes(message, self.minimum_bytes)
            reference = Reference(message, self.next_order, size_bytes, publication)
            self.next_order += 1
            subscription.pending.append(reference)
            if region.memory.temp is not None:
                region.memory.spool(reference, stored=False)
        self.window_opened(subscription)

    def detach(self, subscription: Subscription, last_delivered: int) -> None:
        del self.subscriptions[subscription.consumer.name]
        deliveries = subscription.deliveries()
        self.region.policies.in_flight.left(self.counters, len(deliveries))
        if subscription.durable is not None:
            self._suspend(subscription, deliveries, last_delivered)
            return
        for delivery in deliveries:
            self._leave(subscription, delivery.reference)
        self._abandon(subscription)

    def adopt(self, subscription: Subscription, durable: Durable) -> None:
        """A durable subscription collects from here from now on."""
        subscription.durable = durable
        self.durables[durable.key] = subscription

    def forget(self, durable: Durable) -> None:
        """A durable subscription without a consumer ends, with its backlog."""
        self._abandon(self.durables.pop(durable.key))

    def _suspend(self, subscription: Subscription, deliveries: list[Delivery], last_delivered: int) -> None:
        """A durable subscription loses its consumer: what is in flight to it comes back."""
        region = self.region
        for delivery in deliveries:
            # The marks of one subscription are none of the others' business.
            delivery.reference.message = delivery.reference.message.copy_to(self.name)
        region.policies.redelivery.mark(deliveries, last_delivered)
        returning: list[Reference] = []
        for delivery in deliveries:
            reference = delivery.reference
            reference.reserved = False
            region.memory.discharge(self, reference)
            if delivery.pending_ack is not None:
                reference.move(ACK_PENDING)
                subscription.ack_pending[reference.order] = reference
            else:
                returning.append(reference)
        if subscription.durable is not None:
            subscription.consumer = subscription.durable.absent
        self._put_back(subscription, returning)
        self.earliest_ms = 1  # the next sweep finds out
        region.wake(self)

    def _put_back(self, subscription: Subscription, references: list[Reference]) -> None:
        """They come back to a durable subscription and wait again."""
        rules = self.region.policies.durable
        kept: list[Reference] = []
        for reference in references:
            if rules.returns(reference):
                reference.move(WAITING)
                kept.append(reference)
                self.region.memory.spool(reference, stored=reference.message.persistent)
                self._note(reference)
            else:
                self._leave(subscription, reference)
        rules.put_back(subscription.pending, kept)

    def redeem(self, delivery: Delivery, outcome: str) -> None:
        del delivery.subscription.ack_pending[delivery.reference.order]
        self.settle(delivery, outcome)

    def restore(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            subscription = delivery.subscription
            del subscription.ack_pending[delivery.reference.order]
            self._put_back(subscription, [delivery.reference])
            self.window_opened(subscription)

    def _abandon(self, subscription: Subscription) -> None:
        for reference in [*subscription.pending, *subscription.ack_pending.values()]:
            self._leave(subscription, reference)
        subscription.pending.clear()
        subscription.ack_pending.clear()

    # -- dispatching

    def window_opened(self, subscription: Subscription) -> None:
        if subscription.pending and (subscription.durable is None or subscription.durable.consumer is not None):
            self._stir(subscription)
            self.region.wake(self)

    def _stir(self, subscription: Subscription) -> None:
        if not subscription.ready:
            subscription.ready = True
            self.stirred.append(subscription)

    def pump(self) -> None:
        stirred = self.stirred
        self.stirred = []
        self.region.memory.blocked.pop(self.name, None)
        for subscription in stirred:
            subscription.ready = False
            self._serve(subscription)

    def _serve(self, subscription: Subscription) -> None:
        region = self.region
        pending = subscription.pending
        while pending and not self.held and region.policies.prefetch.is_open(subscription):
            reference = pending[0]
            if region.is_expired(reference.message):
                pending.popleft()
                self._expire(subscription, reference)
                continue
            loaded = reference.charged or region.policies.memory.admit(region.memory, self, subscription, reference)
            if not loaded:
                region.block(self)
                self._stir(subscription)
                break
            pending.popleft()
            self.assign(subscription, reference)
        if self.held and pending:
            self._stir(subscription)
        if pending and subscription.durable is None and (self.limited or subscription.consumer.pending_limit):
            self._limit(subscription)

    def _limit(self, subscription: Subscription) -> None:
        """Throw out what waits beyond the limit of a slow subscriber."""
        region = self.region
        rules = region.policies.backlog
        pending = subscription.pending
        limit = rules.limit_of(self.policy, subscription.consumer)
        if limit >= 0 and self.held:  # what has room in its window waits for another subscriber's writer only
            limit += subscription.consumer.prefetch
        if limit < 0 or len(pending) <= limit:
            return
        for reference in pending:
            if region.is_expired(reference.message):
                pending.remove(reference)
                self._expire(subscription, reference)
                break
        while len(pending) > limit:
            reference = rules.evict(pending)
            self._leave(subscription, reference)
            self.counters.discarded += 1
            self._dead_letter(subscription, reference, discard_cause(subscription.consumer), expired=False)

    # -- the end of a message

    def settle(self, delivery: Delivery, outcome: str, cause: str = "") -> None:
        subscription, reference = delivery.subscription, delivery.reference
        self._leave(subscription, reference)
        self.counters.dequeued += 1
        if outcome == CLIENT_EXPIRED:
            self.counters.expired += 1
        if subscription.durable is not None and outcome != CONSUMED:
            self._dead_letter(subscription, reference, poison_cause(cause), expired=outcome == CLIENT_EXPIRED)

    def _expire(self, subscription: Subscription, reference: Reference) -> None:
        self._leave(subscription, reference)
        self.counters.dequeued += 1
        self.counters.expired += 1
        self._dead_letter(subscription, reference, "", expired=True)

    def _dead_letter(self, subscription: Subscription, reference: Reference, cause: str, *, expired: bool) -> None:
        """One dead letter per publication, unless each durable subscription has its own dead-letter queue; an advisory
        for each expiry.
        """
        self._send_dead_letter(subscription, reference, cause, expired=expired)
        if expired:
            self.region.advise_expired(reference.message, self.name)

    def _send_dead_letter(self, subscription: Subscription, reference: Reference, cause: str, *, expired: bool) -> None:
        subscriber = "" if subscription.durable is None else subscription.durable.key
        dead_letters = self.region.policies.dead_letter
        publication = reference.publication
        if publication is None or (publication.dead_lettered and not dead_letters.per_subscriber(self.name)):
            return
        publication.dead_lettered = True
        if expired:
            cause = expiry_cause(reference.message)
        self.region.dead_letter(reference.message, self.name, cause, expired=expired, subscriber=subscriber)

    def _leave(self, subscription: Subscription, reference: Reference) -> None:
        reference.move(GONE)
        region, durable = self.region, subscription.durable
        if region.journal is not None and durable is not None and reference.message.persistent:
            region.journal.removed(region, self.name, reference.message, durable.key)
        self.region.memory.discharge(self, reference)
        publication = reference.publication
        if publication is not None:
            publication.holders -= 1
            if publication.holders == 0:
                del self.live[reference.message.message_id]

    # -- expiry while no consumer is there

    def _note(self, reference: Reference) -> None:
        """A message joins the backlog of a durable subscription."""
        expiration_ms = reference.message.expiration_ms
        if expiration_ms > 0 and (self.earliest_ms == 0 or expiration_ms < self.earliest_ms):
            self.earliest_ms = expiration_ms

    def _swept(self) -> list[Subscription]:
        """The durable subscriptions at whose backlogs the sweep looks."""
        found: list[Subscription] = []
        for subscription in self.durables.values():
            durable = subscription.durable
            if subscription.pending and (self.sweeps_active or (durable is not None and durable.consumer is None)):
                found.append(subscription)
        return found

    def wants_sweep(self) -> bool:
        return self.expire_period_ms > 0 and self.earliest_ms > 0 and bool(self._swept())

    def sweep(self, now: Now) -> None:
        region = self.region
        region.wake(self)
        if not region.policies.expiry.is_expired(self.earliest_ms, now.wall_ms):
            return
        self.earliest_ms = 0
        for subscription in self._swept():
            kept = subscription.pending
            subscription.pending = deque()
            for reference in kept:
                if region.is_expired(reference.message):
                    self._expire(subscription, reference)
                else:
                    subscription.pending.append(reference)
                    self._note(reference)

    def purge(self) -> None:
        self.region.effects.append(Logged("WARN", __name__, f"{self.name} is a topic; only queues can be purged"))


def holders_of(audience: list[Subscription]) -> tuple[str, ...]:
    """The durable subscriptions among those that get a message, by key."""
    return tuple(subscription.durable.key for subscription in audience if subscription.durable is not None)
