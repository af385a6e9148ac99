"""Exclusive consumers: which of a queue's consumers gets everything while the others stand by.

Rules (ActiveMQ's): among the exclusive consumers of a queue the one with the highest priority, of equals the one that
came first, gets everything that the queue hands out. A newcomer takes over only with a strictly higher priority. When
it leaves, the next one takes over; with the last one exclusivity ends. What others hold already stays theirs. A message
that the exclusive consumer does not want waits. Browsers look on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.subscription import Subscription


@mypyc_attr(allow_interpreted_subclasses=True)
class Exclusivity:
    """Policy ``exclusivity``."""

    def chosen(self, present: list[Subscription]) -> Subscription | None:
        """Who gets everything; ``present`` are the queue's consumers, oldest first. None: all share."""
        chosen: Subscription | None = None
        for subscription in present:
            consumer = subscription.consumer
            if consumer.exclusive and (chosen is None or consumer.priority > chosen.consumer.priority):
                chosen = subscription
        return chosen
