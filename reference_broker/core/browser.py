"""Queue browsers: consumers that look at a queue's messages and take none.

* A browser is shown what is on the queue when it comes, in the order of the queue: what waits, what lies aside, what
  others hold unsettled. Of that it is shown, when its turn comes, what is still there, alive by the broker's clock and
  wanted by its selector; at most ``max_browse_page_size`` messages (0: no limit) of each queue. Then it is told that
  there is nothing more (``NoMessage``), once: when it has seen all queues that it names, at once if there are none.
* Its window counts as any other's: what it was shown must be acknowledged. All that its acknowledgements, whatever
  their kind, and its departure do is to lower the in-flight count that showing has raised. ActiveMQ lets a browser's
  expired-ack remove the message itself; here nothing that a browser does touches a message.
* It is no demand: exclusive consumers, groups and the ring know nothing of it. In the generations G0 to G3 of memory it
  sees what is loaded, and loads up to ``max_browse_page_size`` messages to see them.

Exception: what a browser is shown is in memory only as far as the queue holds it there; the copies on their way are not
charged.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.destination import Destination
from brokerproof.reference_broker.core.effects import NoMessage
from brokerproof.reference_broker.core.reference import DROPPED, GONE, Reference

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.queue import Queue
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Consumer, Delivery, Subscription


def place(reference: Reference) -> int:
    """Sort key: the place on the queue."""
    return reference.order


@mypyc_attr(allow_interpreted_subclasses=True)
class Browsing:
    """Policy ``browsing``."""

    def shown(self, queue: Queue) -> list[Reference]:
        """What a browser that comes now may be shown, in order."""
        found = [*queue.line, *queue.aside.values()]
        for subscription in queue.subscriptions.values():
            found += [delivery.reference for delivery in subscription.deliveries()]
        return sorted(found, key=place)

    def settled(self, queue: Queue, original: Reference) -> None:
        """A browser has acknowledged a message: nothing happens to it."""

    def reports_end(self) -> bool:
        """Whether a browser learns that it has seen everything."""
        return True


class BrowserView(Destination):
    """What one browser sees of one queue. It stands where a consumer's destination stands."""

    def __init__(self, queue: Queue, subscription: Subscription) -> None:
        policy = queue.policy
        super().__init__(queue.region, queue.name, queue.number, policy)
        self.queue = queue
        self.counters = queue.counters
        queue.region.policies.memory.look_ahead(queue.region.memory, queue, policy.max_browse_page_size)
        self.subscription = subscription
        self.remaining: deque[Reference] = deque(queue.region.policies.browsing.shown(queue))
        #: How many more it may be shown; below 0: any number.
        self.allowance = policy.max_browse_page_size or -1
        self.ended = False
        #: What it holds: its copy -> the queue's own.
        self.originals: dict[int, Reference] = {}

    def attach(self, subscription: Subscription) -> None:
        subscription.destination = self
        self.subscriptions[subscription.consumer.name] = subscription
        self.window_opened(subscription)

    def window_opened(self, subscription: Subscription) -> None:  # noqa: ARG002 - there is only one
        self.region.wake(self)

    def detach(self, subscription: Subscription, last_delivered: int) -> None:  # noqa: ARG002 - nothing comes back
        del self.subscriptions[subscription.consumer.name]
        del self.queue.browsers[subscription.consumer.name]
        self.region.policies.in_flight.left(self.counters, len(subscription.deliveries()))
        self.ended = True

    def settle(self, delivery: Delivery, outcome: str, cause: str = "") -> None:  # noqa: ARG002 - all outcomes are alike
        self.region.policies.browsing.settled(self.queue, self.originals.pop(delivery.reference.order))

    def redeem(self, delivery: Delivery, outcome: str) -> None:
        """Nothing is kept for a browser that has left."""

    def restore(self, deliveries: list[Delivery]) -> None:
        """Nothing comes back."""

    def pump(self) -> None:
        region, subscription = self.region, self.subscription
        if self.ended:
            return
        while self.remaining and self.allowance and not self.held and region.policies.prefetch.is_open(subscription):
            original = self.remaining.popleft()
            message = original.message
            if original.state in (GONE, DROPPED) or region.is_expired(message):
                continue
            if not self.queue.wants(subscription, message):
                continue
            self.allowance -= 1
            self.originals[original.order] = original
            self.assign(subscription, Reference(message, original.order, original.size_bytes))
        if not (self.remaining and self.allowance):
            self.ended = True
            end_browse(region, subscription.consumer)


def end_browse(region: Region, consumer: Consumer) -> None:
    """A browser has seen one of its queues, or there is none: it is told when it has seen them all."""
    views = [place.destination for place in consumer.subscriptions]
    if consumer.saw_all or not all(isinstance(view, BrowserView) and view.ended for view in views):
        return
    consumer.saw_all = True
    if region.policies.browsing.reports_end():
        region.effects.append(NoMessage(consumer.connection, consumer.name))
