"""What an operator reads: the metrics of one destination, of the broker, of a durable subscription.

Rules: metrics are read, never kept here; what moves them is in ``in_flight.py`` and in the rooms of the behaviours. A
metric that does not exist is absent, never 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.queue import Queue

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.durable import Durable
    from brokerproof.reference_broker.core.in_flight import Counters
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Subscription


#: What the counters of a destination tell, by the name of the metric; the broker's totals are the sums.
COUNTED: Final[dict[str, Callable[[Counters], int]]] = {
    "size": lambda counters: counters.size,
    "in_flight": lambda counters: counters.in_flight,
    "enqueued": lambda counters: counters.enqueued,
    "dequeued": lambda counters: counters.dequeued,
    "dispatched": lambda counters: counters.dispatched,
    "expired": lambda counters: counters.expired,
    "scheduled": lambda counters: counters.scheduled,
    "acknowledged": lambda counters: counters.removed - counters.wasted,
    "wasted": lambda counters: counters.wasted,
}


def of_destination(destination: Destination, blocked_sends: int) -> dict[str, int]:
    """One destination's counters."""
    counters = destination.counters
    metrics = {
        **{name: count(counters) for name, count in COUNTED.items()},
        "consumers": consumers_of(destination),
        "memory_bytes": destination.usage.used_bytes,
        "memory_percent": destination.usage.percent(),
        "memory_limit_bytes": destination.usage.limit_bytes,
        "blocked_sends": blocked_sends,
    }
    if not destination.is_queue:
        metrics["discarded"] = counters.discarded
    return metrics


def consumers_of(destination: Destination) -> int:
    """How many consume from a destination, or look at it."""
    return len(destination.subscriptions) + destination.onlookers()


def total(region: Region, metric: str) -> int:
    """One of ``COUNTED``, over all destinations."""
    count = COUNTED[metric]
    return sum(count(destination.counters) for destination in region.destinations.values())


def on_queue(region: Region, name: str, limit: int) -> list[Message] | None:
    """What is on a queue, in its order, at most ``limit`` (0: all); None if there is no such queue."""
    queue = region.destinations.get(name)
    if not isinstance(queue, Queue):
        return None
    shown = region.policies.browsing.shown(queue)
    return [reference.message for reference in (shown[:limit] if limit > 0 else shown)]


def of_broker(region: Region, connections: int, consumers: int, transactions: int) -> dict[str, int]:
    """The broker's memory, its disk if that has limits, and the totals over all destinations."""
    return {
        "memory_bytes": region.memory.root.used_bytes,
        "memory_percent": region.memory.root.percent(),
        **{name: total(region, name) for name in COUNTED},
        "transactions": transactions,
        "connections": connections,
        "consumers": consumers,
        "durable_subscriptions": len(region.durables.known),
        "destinations": len(region.destinations),
        **of_disk(region),
    }


def of_disk(region: Region) -> dict[str, int]:
    """The store and the temporary files, as far as they have limits."""
    found: dict[str, int] = {}
    for name, usage in (("store", None if region.store is None else region.store.usage), ("temp", region.memory.temp)):
        if usage is not None:
            found[f"{name}_bytes"] = usage.used_bytes
            found[f"{name}_percent"] = usage.percent()
            found[f"{name}_limit_bytes"] = usage.limit_bytes
    return found


def is_slow(region: Region, subscription: Subscription) -> bool:
    """Whether a consumer is slow now: its window, of more than one message, is full, and more is waiting."""
    consumer = subscription.consumer
    if consumer.prefetch <= 1 or region.policies.prefetch.is_open(subscription):
        return False
    if subscription.destination.is_queue:
        return subscription.destination.counters.size > subscription.destination.counters.in_flight
    return len(subscription.pending) > consumer.prefetch


def pending_limit(subscription: Subscription) -> int:
    """How many messages may wait for a slow subscriber, as it is shown: its own limit, or its destination's; 0: any."""
    return subscription.consumer.pending_limit or max(subscription.destination.policy.pending_message_limit, 0)


def of_durable(durable: Durable) -> dict[str, int]:
    """One durable subscription: whether a consumer is there, what waits for it, what it holds unsettled."""
    return {
        "active": 0 if durable.consumer is None else 1,
        "pending": sum(len(place.pending) for place in durable.subscriptions),
        "dispatched": sum(len(place.deliveries()) for place in durable.subscriptions),
    }
