"""What an acknowledgement does, once it is known to be valid, and what the end of a write does.

Rules: a delivery leaves the consumer's list and the ledger first, then its destination learns the outcome, then the
window may open. ``ack:auto`` of STOMP settles when the transport has written.

Change together: ``acknowledgement.py`` (which deliveries an acknowledgement means), ``ledger.py``, ``transaction.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_broker.core.acknowledgement import BY_COUNT, BY_ONE, KEPT
from reference_broker.core.destination import CONSUMED

if TYPE_CHECKING:
    from reference_broker.core.acknowledgement import Rule
    from reference_broker.core.events import Transmitted
    from reference_broker.core.region import Region
    from reference_broker.core.subscription import Delivery, Subscription


class Settlements:
    """The way out."""

    __slots__ = ("_region",)

    def __init__(self, region: Region) -> None:
        self._region = region

    def apply(self, subscription: Subscription, rule: Rule, deliveries: list[Delivery]) -> None:
        """Carry an acknowledgement out; ``deliveries`` are on the consumer's list, oldest first."""
        policies = self._region.policies
        destination = subscription.destination
        if rule.outcome != KEPT:
            for delivery in deliveries:
                destination.take_off(subscription, delivery)
                destination.settle(subscription, delivery, rule.outcome)
            if rule.narrows == BY_COUNT:
                policies.prefetch.narrow(subscription, len(deliveries))
            elif rule.narrows == BY_ONE:
                policies.prefetch.narrow(subscription, 1)
            destination.window_opened(subscription)
        elif rule.widens:
            fresh = [delivery for delivery in deliveries if not delivery.seen]
            for delivery in fresh:
                delivery.seen = True
            policies.prefetch.widen(subscription, len(fresh))
            destination.window_opened(subscription)

    def transmitted(self, event: Transmitted, subscription: Subscription | None) -> None:
        """The transport has written a dispatch; ``subscription`` has its consumer's name, if one has."""
        dispatch = event.dispatch
        if not dispatch.asynchronous:
            return  # counted when it was assigned
        region = self._region
        region.policies.ledger.transmitted(region.destinations[dispatch.message.destination].counters)
        if subscription is None or not subscription.auto_ack or event.failed:
            return
        delivery = subscription.dispatched.index.get(dispatch.message.message_id)
        if delivery is None or delivery.dispatch is not dispatch:
            return  # settled meanwhile, or written for an earlier subscription of the same name
        destination = subscription.destination
        destination.take_off(subscription, delivery)
        destination.settle(subscription, delivery, CONSUMED)
        region.policies.prefetch.narrow(subscription, 1)
        destination.window_opened(subscription)
