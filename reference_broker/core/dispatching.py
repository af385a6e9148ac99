"""Who gets what on a plain queue, where everybody may have everything; ``selective_dispatch.py`` decides it elsewhere.

* Consumers with an open window stand in ``queue.ready``, the ring of policy ``dispatch``. A consumer first gets what
  lies aside and it has not refused, then the head of the pending list.
* A message leaves the pending list for a consumer only if it is alive by the broker's clock and memory admits it; the
  pending list never overtakes itself, so a head that memory does not admit holds up the queue for that consumer.
* Nothing is handed out while a synchronous dispatch of the queue is not written (``queue.held``, ``round_robin.py``).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.reference import ASIDE

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.queue import Queue
    from brokerproof.reference_broker.core.reference import Reference
    from brokerproof.reference_broker.core.subscription import Subscription


def pump(queue: Queue) -> None:
    """Hand out what can be handed out."""
    ready = queue.ready
    prefetch = queue.region.policies.prefetch
    queue.region.memory.blocked.pop(queue.name, None)
    refusals = 0  # consumers in a row that could not be given anything
    while refusals < len(ready) and (len(queue.line) or queue.aside) and not queue.held:
        subscription = ready[0]
        reference = take(queue, subscription)
        if reference is None:
            refusals += 1
            ready.rotate(-1)
            continue
        refusals = 0
        queue.assign(subscription, reference)
        if prefetch.is_open(subscription):
            queue.region.policies.dispatch.served(ready)
        else:
            subscription.ready = False
            ready.popleft()


def take(queue: Queue, subscription: Subscription) -> Reference | None:
    """The next message for this consumer, off the pending list, alive and loaded; None if there is none or memory does
    not admit it.
    """
    region = queue.region
    if subscription.offers:
        reference = take_offer(queue, subscription)
        if reference is not None:
            return reference
    line = queue.line
    while len(line):
        stored = not line.loaded
        reference = line.pop_first()
        if region.is_expired(reference.message):
            queue.expire(reference)
            continue
        if not reference.charged:
            if not region.policies.memory.admit(region.memory, queue, subscription, reference):
                line.restore(reference, stored)
                region.block(queue)
                return None
            if stored:
                region.policies.memory.read_ahead(region.memory, queue)
        return reference
    return None


def take_offer(queue: Queue, subscription: Subscription) -> Reference | None:
    """The next message that another consumer discarded as expired and this one has not."""
    region = queue.region
    while subscription.offers:
        order, reference = subscription.offers[0]
        if reference.state == ASIDE:
            if region.is_expired(reference.message):
                del queue.aside[order]
                queue.expire(reference)
            elif region.policies.memory.admit(region.memory, queue, subscription, reference):
                heapq.heappop(subscription.offers)
                del queue.aside[order]
                return reference
            else:
                region.block(queue)
                return None
        heapq.heappop(subscription.offers)
    return None
