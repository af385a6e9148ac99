"""A topic with non-durable subscriptions: everybody who is subscribed when a message is published gets it, and
nothing comes back.

Rules:

* A subscription gets what is published after it attached, in order; what its window does not admit yet waits in
  ``pending``, without limit.
* A message that is expired on arrival goes to nobody and counts expired + 1. One that expires in ``pending`` is found
  when its turn comes: expired + 1 and dequeued + 1 for that subscription, one dead-letter copy per publication. There
  is no sweep of topics.
* ``enqueued`` counts publications, ``dequeued`` and ``expired`` count per subscription, ``size`` is always 0.
* A consumer that leaves takes its backlog with it: no redelivery, no dequeue.
* Poison is consumed, a client's expired-ack counts expired + 1; neither makes a dead letter.
* The audience of a delayed message is fixed when it is sent (``delay.py``).

Change together: ``audit.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_broker.core.deadletter import expiry_cause
from reference_broker.core.delay import Scheduled
from reference_broker.core.destination import CLIENT_EXPIRED, Destination
from reference_broker.core.effects import Logged
from reference_broker.core.reference import GONE, Publication, Reference

if TYPE_CHECKING:
    from reference_broker.core.config import DestinationPolicy
    from reference_broker.core.message import Message
    from reference_broker.core.region import Region
    from reference_broker.core.subscription import Delivery, Subscription


class Topic(Destination):
    """One topic."""

    def __init__(self, region: Region, name: str, number: int, policy: DestinationPolicy) -> None:
        super().__init__(region, name, number, policy)
        #: By id, what some subscription still holds or is still scheduled.
        self.live: dict[str, Publication] = {}
        #: Subscriptions to be looked at by the next ``pump``.
        self.stirred: list[Subscription] = []

    def holds(self, message_id: str) -> bool:
        return message_id in self.live

    def refuse_expired(self, message: Message) -> None:
        self.counters.expired += 1
        self.region.report_expired(message, self.name)

    def publish(self, message: Message) -> None:
        self._publish_to(message, list(self.subscriptions.values()))

    def schedule(self, message: Message, due_ns: int) -> None:
        item = Scheduled(message, self, due_ns, list(self.subscriptions.values()))
        self.live[message.message_id] = Publication(0)
        self.counters.scheduled += 1
        self.region.delays.push(item)

    def release(self, item: Scheduled) -> None:
        message = item.message
        self.counters.scheduled -= 1
        del self.live[message.message_id]
        if self.region.is_expired(message):
            self.refuse_expired(message)
            return
        audience = item.audience if item.audience is not None else []
        self._publish_to(message, [s for s in audience if self.subscriptions.get(s.consumer.name) is s])

    def _publish_to(self, message: Message, audience: list[Subscription]) -> None:
        self.counters.enqueued += 1
        if not audience:
            return
        publication = Publication(len(audience))
        self.live[message.message_id] = publication
        size_bytes = self.region.policies.memory.size_bytes(message)
        for subscription in audience:
            subscription.pending.append(Reference(message, self.next_order, size_bytes, publication))
            self._stir(subscription)
        self.next_order += 1
        self.region.wake(self)

    def attach(self, subscription: Subscription) -> None:
        self.subscriptions[subscription.consumer.name] = subscription

    def detach(self, subscription: Subscription, _last_delivered: int) -> None:
        del self.subscriptions[subscription.consumer.name]
        deliveries = subscription.deliveries()
        self.region.policies.ledger.left(self.counters, len(deliveries))
        for delivery in deliveries:
            self._leave(delivery.reference)
        for reference in subscription.pending:
            self._leave(reference)
        subscription.pending.clear()
        if subscription.ready:
            self.stirred.remove(subscription)
        self.region.memory.relieved = True

    def window_opened(self, subscription: Subscription) -> None:
        if subscription.pending:
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
        while pending and region.policies.prefetch.is_open(subscription):
            reference = pending[0]
            if region.is_expired(reference.message):
                pending.popleft()
                self._expire(reference)
                continue
            if not region.policies.memory.admit(region.memory, self, subscription, reference):
                region.block(self)
                self._stir(subscription)
                return
            pending.popleft()
            self.assign(subscription, reference)

    def settle(self, delivery: Delivery, outcome: int) -> None:
        self._leave(delivery.reference)
        self.counters.dequeued += 1
        if outcome == CLIENT_EXPIRED:
            self.counters.expired += 1

    def _expire(self, reference: Reference) -> None:
        message, publication = reference.message, reference.publication
        self._leave(reference)
        self.counters.dequeued += 1
        self.counters.expired += 1
        if publication is not None and not publication.dead_lettered:
            publication.dead_lettered = True
            self.region.dead_letter(message, self.name, expiry_cause(message))

    def _leave(self, reference: Reference) -> None:
        reference.move(GONE)
        self.region.memory.discharge(self, reference)
        publication = reference.publication
        if publication is not None:
            publication.holders -= 1
            if publication.holders == 0:
                del self.live[reference.message.message_id]

    def purge(self) -> None:
        self.region.effects.append(Logged("WARN", __name__, f"{self.name} is a topic; only queues can be purged"))
