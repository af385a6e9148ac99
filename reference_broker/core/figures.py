"""What an operator reads: the figures of one destination, of the broker, of a durable subscription.

Rules: figures are read, never kept here; what moves them is in ``ledger.py`` and in the rooms of the behaviours. A
figure that does not exist is absent, never 0.

Change together: the management room, ``docs/operation.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_broker.core.queue import Queue

if TYPE_CHECKING:
    from reference_broker.core.destination import Destination
    from reference_broker.core.durable import Durable
    from reference_broker.core.message import Message
    from reference_broker.core.region import Region


def of_destination(destination: Destination, blocked_sends: int) -> dict[str, int]:
    """One destination's counters."""
    counters = destination.counters
    figures = {
        "size": counters.size,
        "in_flight": counters.in_flight,
        "enqueued": counters.enqueued,
        "dequeued": counters.dequeued,
        "dispatched": counters.dispatched,
        "expired": counters.expired,
        "scheduled": counters.scheduled,
        "acknowledged": counters.removed - counters.wasted,
        "wasted": counters.wasted,
        "consumers": len(destination.subscriptions) + destination.onlookers(),
        "memory_bytes": destination.usage.used_bytes,
        "memory_percent": destination.usage.percent(),
        "memory_limit_bytes": destination.usage.limit_bytes,
        "blocked_sends": blocked_sends,
    }
    if not destination.is_queue:
        figures["discarded"] = counters.discarded
    return figures


def on_queue(region: Region, name: str, limit: int) -> list[Message] | None:
    """What is on a queue, in its order, at most ``limit`` (0: all); None if there is no such queue."""
    queue = region.destinations.get(name)
    if not isinstance(queue, Queue):
        return None
    shown = region.policies.browsing.shown(queue)
    return [reference.message for reference in (shown[:limit] if limit > 0 else shown)]


def of_broker(region: Region, connections: int, consumers: int, transactions: int) -> dict[str, int]:
    """The broker's memory and the totals over all destinations."""
    every = [destination.counters for destination in region.destinations.values()]
    return {
        "memory_bytes": region.memory.root.used_bytes,
        "memory_percent": region.memory.root.percent(),
        "size": sum(counters.size for counters in every),
        "in_flight": sum(counters.in_flight for counters in every),
        "enqueued": sum(counters.enqueued for counters in every),
        "dequeued": sum(counters.dequeued for counters in every),
        "dispatched": sum(counters.dispatched for counters in every),
        "expired": sum(counters.expired for counters in every),
        "scheduled": sum(counters.scheduled for counters in every),
        "acknowledged": sum(counters.removed - counters.wasted for counters in every),
        "wasted": sum(counters.wasted for counters in every),
        "transactions": transactions,
        "connections": connections,
        "consumers": consumers,
        "durable_subscriptions": len(region.durables.known),
        "destinations": len(every),
    }


def of_durable(durable: Durable) -> dict[str, int]:
    """One durable subscription: whether a consumer is there, what waits for it, what it holds unsettled."""
    return {
        "active": 0 if durable.consumer is None else 1,
        "pending": sum(len(place.pending) for place in durable.subscriptions),
        "dispatched": sum(len(place.deliveries()) for place in durable.subscriptions),
    }
