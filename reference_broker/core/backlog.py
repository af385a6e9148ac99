"""The backlog of a topic's subscriber that is too slow: how long it may be, and who is thrown out.

Rules (ActiveMQ's pending message limit strategies and its default eviction strategy):
* The limit counts what waits beyond the consumer's window: a constant, or so many times its prefetch (rounded down). -1
  is no limit, 0 keeps nothing. Durable subscriptions have none. A consumer's own limit (0: none) only lowers it.
* When more waits than that, one expired message is taken out first, if there is one; then the oldest go.
* What is thrown out counts ``discarded``, not dequeued, and becomes a dead letter, one per publication.
* A slow subscriber never holds up a publisher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from collections import deque

    from brokerproof.reference_broker.core.config import DestinationPolicy
    from brokerproof.reference_broker.core.reference import Reference
    from brokerproof.reference_broker.core.subscription import Consumer


def discard_cause(consumer: Consumer) -> str:
    """The text with which ActiveMQ explains that a slow subscriber lost a message."""
    return f"java.lang.Throwable: TopicSubDiscard. ID:{consumer.name}"


@mypyc_attr(allow_interpreted_subclasses=True)
class Backlog:
    """Policy ``backlog``."""

    def limit(self, policy: DestinationPolicy, prefetch: int) -> int:
        """How many messages may wait for a subscriber with that prefetch."""
        if policy.pending_message_limit_multiplier >= 0:
            return int(policy.pending_message_limit_multiplier * prefetch)
        return policy.pending_message_limit

    def limit_of(self, policy: DestinationPolicy, consumer: Consumer) -> int:
        """The same, where the consumer may have asked for less."""
        limit = self.limit(policy, consumer.prefetch)
        own = consumer.pending_limit
        return own if own > 0 and (limit < 0 or own < limit) else limit

    def evict(self, pending: deque[Reference]) -> Reference:
        """Take the message out that goes first; there is one."""
        return pending.popleft()
