"""Who is served next among a queue's consumers with open windows.

* Round robin. The ring holds the consumers whose window is open; its front is served and goes to the back. A consumer
  whose window opens joins at the back.
* Consumers of higher priority stand before all of lower priority, which get only what the former cannot take or do not
  want (``selective_dispatch.py``).
* Dispatch isolation (seed 003): an asynchronous dispatch is left to the consumer's connection, and the next consumer is
  served at once. After a synchronous one the destination gives nobody anything until the write is done, so a consumer
  that does not read holds up all the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from collections import deque

    from brokerproof.reference_broker.core.subscription import Subscription


@mypyc_attr(allow_interpreted_subclasses=True)
class RoundRobin:
    """Policy ``dispatch``."""

    def served(self, ring: deque[Subscription]) -> None:
        """The consumer at the front of the ring got a message and can take more."""
        ring.rotate(-1)

    def holds_always(self) -> bool:
        """Whether a destination waits for every write, not only for that of a synchronous dispatch."""
        return False

    def join(self, ring: deque[Subscription], subscription: Subscription) -> None:
        """A consumer takes its place among those of its priority, behind them."""
        priority = subscription.consumer.priority
        if not ring or ring[-1].consumer.priority >= priority:
            ring.append(subscription)
            return
        at = 0
        while ring[at].consumer.priority >= priority:
            at += 1
        ring.insert(at, subscription)
