"""What an acknowledgement does, once it is known to be valid, and what the end of a write does.

Rules: a delivery leaves the consumer's list and the in-flight count first, then its destination learns the outcome,
then the window may open. ``ack:auto`` of STOMP settles when the transport has written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.acknowledgement import BY_COUNT, BY_ONE, KEPT
from brokerproof.reference_broker.core.destination import CONSUMED

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.acknowledgement import Rule
    from brokerproof.reference_broker.core.events import Transmitted
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Consumer, Delivery


class Settlements:
    """The way out."""

    __slots__ = ("_region",)

    def __init__(self, region: Region) -> None:
        self._region = region

    def apply(self, consumer: Consumer, rule: Rule, deliveries: list[Delivery], cause: str = "") -> None:
        """Carry an acknowledgement out; ``deliveries`` are on the list, oldest first. ``cause`` is that of poison."""
        prefetch = self._region.policies.prefetch
        if not deliveries:
            return  # all that it means is another's already
        if rule.outcome != KEPT:
            for delivery in deliveries:
                destination = delivery.subscription.destination
                destination.take_off(delivery)
                destination.settle(delivery, rule.outcome, cause)
            if rule.narrows == BY_COUNT:
                prefetch.narrow(consumer, len(deliveries))
            elif rule.narrows == BY_ONE:
                prefetch.narrow(consumer, 1)
            self._reopen(consumer)
        elif rule.widens:
            self.widen(consumer, deliveries)

    def widen(self, consumer: Consumer, deliveries: list[Delivery]) -> None:
        """The window grows by those that have not widened it yet."""
        fresh = [delivery for delivery in deliveries if not delivery.seen]
        for delivery in fresh:
            delivery.seen = True
        self._region.policies.prefetch.widen(consumer, len(fresh))
        self._reopen(consumer)

    def unwiden(self, consumer: Consumer, deliveries: list[Delivery]) -> None:
        """A rollback gives them back to the client, which may report them again: they widen the window no longer."""
        seen = [delivery for delivery in deliveries if delivery.seen]
        for delivery in seen:
            delivery.seen = False
        prefetch = self._region.policies.prefetch
        prefetch.narrow(consumer, len(seen))
        for subscription in consumer.subscriptions:
            if subscription.ready and not prefetch.is_open(subscription):
                subscription.destination.window_closed(subscription)

    def transmitted(self, event: Transmitted, consumer: Consumer | None) -> None:
        """The transport has written a dispatch; ``consumer`` has the name that it was for, if one has."""
        dispatch = event.dispatch
        region = self._region
        if dispatch.holder is not None:
            dispatch.holder.held -= 1
            region.wake(dispatch.holder)
        if not dispatch.asynchronous:
            return  # counted when it was assigned
        if dispatch.counters is not None:
            region.policies.in_flight.transmitted(dispatch.counters)
        if consumer is None or not consumer.auto_ack or event.failed:
            return
        delivery = consumer.dispatched.find(dispatch.message.message_id, dispatch.message.destination)
        if delivery is None or delivery.dispatch is not dispatch or delivery.pending_ack is not None:
            return  # settled meanwhile, or written for an earlier consumer of the same name
        destination = delivery.subscription.destination
        destination.take_off(delivery)
        destination.settle(delivery, CONSUMED)
        region.policies.prefetch.narrow(consumer, 1)
        self._reopen(consumer)

    def _reopen(self, consumer: Consumer) -> None:
        """The window may have opened, for all that it consumes from."""
        for subscription in consumer.in_turn():
            subscription.destination.window_opened(subscription)
