"""Who has a place at a destination, as an operator sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.queue import Queue
from brokerproof.reference_broker.core.topic import Topic

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.subscription import Subscription


def subscriptions_of(destination: Destination) -> list[Subscription]:
    """Who consumes from a destination or looks at it, and the durable subscriptions that nobody uses now."""
    found = list(destination.subscriptions.values())
    if isinstance(destination, Topic):
        found += [one for one in destination.durables.values() if one.durable is not None and not one.durable.consumer]
    elif isinstance(destination, Queue):
        found += [view.subscription for view in destination.browsers.values()]
    return found
