"""What a queue and a topic have in common: a name, counters, a memory node, the policy entry, its sweep, and the way a
message is put on a consumer's list.

Which message goes where is decided in ``queue.py`` and ``topic.py``.

* A destination never holds two messages with one id (``live``): the broker refuses the second, because an
  acknowledgement could not tell them apart.
* ``pump`` dispatches whatever can be dispatched. Nobody calls it directly: a change of state calls
  ``region.wake(destination)``, and the broker pumps after the event, so that no change happens inside another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.effects import Dispatch
from brokerproof.reference_broker.core.expiry import NOT_ON_HEAP
from brokerproof.reference_broker.core.in_flight import Counters
from brokerproof.reference_broker.core.reference import ASSIGNED
from brokerproof.reference_broker.core.subscription import Delivery

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.config import DestinationPolicy
    from brokerproof.reference_broker.core.delay import Scheduled
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.reference import Reference
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Subscription

# What an acknowledgement does to a message.
CONSUMED: Final = "consumed"
POISONED: Final = "poisoned"
CLIENT_EXPIRED: Final = "expired for its client"


class Destination:
    """Base of ``Queue`` and ``Topic``."""

    is_queue = False

    def __init__(self, region: Region, name: str, number: int, policy: DestinationPolicy) -> None:
        self.region = region
        self.name = name
        #: Order of creation in the broker.
        self.number = number
        self.counters = Counters()
        self.subscriptions: dict[str, Subscription] = {}
        self.expire_period_ms = policy.expire_period_ms
        self.policy = policy
        self.has_own_limit = policy.memory_limit_bytes > 0
        self.minimum_bytes = policy.minimum_message_bytes
        self.mark_percent = policy.high_water_percent or region.config.memory_high_water_percent
        self.page_size = policy.max_page_size or region.config.page_size
        self.usage = region.memory.node(policy.memory_limit_bytes)
        #: Base of the sweep's grid.
        self.created_ns = region.now.mono_ns
        #: A sweep is wanted; the due time of its entry on the heap, wanted or not.
        self.sweep_armed = False
        self.sweep_due_ns = NOT_ON_HEAP
        #: The last ``pump`` ended for want of memory.
        self.starved = False
        #: Writes that it waits for before it gives anybody anything: those of synchronous dispatches.
        self.held = 0
        self.holds_always = region.policies.dispatch.holds_always()
        #: Stands in the region's list of destinations to pump.
        self.awake = False
        #: What is sent to it may go elsewhere as well (``routing.py``).
        self.spreads = region.routing.spreads(name)
        self.next_order = 1

    # -- what happens to it

    def holds(self, message_id: str) -> bool:
        """Whether a message with that id is here, in whatever state."""
        raise NotImplementedError

    def refuse_expired(self, message: Message) -> None:
        """A message arrived expired: nobody gets it."""
        raise NotImplementedError

    def publish(self, message: Message) -> None:
        """A message arrived."""
        raise NotImplementedError

    def recover(self, message: Message, order: int) -> None:
        """A message that outlived a restart takes its place again."""
        self.next_order = order
        self.publish(message)

    def schedule(self, message: Message, due_ns: int) -> None:
        """A message arrived whose delivery time is still to come."""
        raise NotImplementedError

    def withdraw(self, item: Scheduled) -> None:
        """A scheduled message is taken away: it came and went, and nobody saw it."""
        raise NotImplementedError

    def release(self, item: Scheduled) -> None:
        """A scheduled message is due."""
        raise NotImplementedError

    def attach(self, subscription: Subscription) -> None:
        """A consumer comes."""
        raise NotImplementedError

    def detach(self, subscription: Subscription, last_delivered: int) -> None:
        """A consumer goes."""
        raise NotImplementedError

    def settle(self, delivery: Delivery, outcome: str, cause: str = "") -> None:
        """A delivery, already off the consumer's list and the counts, ends with ``outcome``; ``cause``: of poison."""
        raise NotImplementedError

    def redeem(self, delivery: Delivery, outcome: str) -> None:
        """A transaction consumes, or rejects, a message that it kept when its consumer left."""
        raise NotImplementedError

    def restore(self, deliveries: list[Delivery]) -> None:
        """A transaction was rolled back: what it kept when its consumer left waits again."""
        raise NotImplementedError

    def window_opened(self, subscription: Subscription) -> None:
        """The consumer's window may have opened."""
        raise NotImplementedError

    def window_closed(self, subscription: Subscription) -> None:
        """The consumer's window was filled by another destination, or closed because its pull has ended."""

    def onlookers(self) -> int:
        """How many look at it without consuming."""
        return 0

    def purge(self) -> None:
        """The operator empties it."""
        raise NotImplementedError

    def pump(self) -> None:
        """Dispatch what can be dispatched."""
        raise NotImplementedError

    # -- memory and sweep

    def evict(self) -> bool:
        """Page out one waiting message; False if there is none."""
        return False

    def wants_sweep(self) -> bool:
        """Whether a periodic look is worth a timer."""
        return False

    def sweep(self, now: Now) -> None:
        """The periodic look for expired messages."""

    # -- assignment

    def assign(self, subscription: Subscription, reference: Reference) -> None:
        """Put a loaded message on the consumer's list, and on its way."""
        region = self.region
        message = reference.message
        consumer = subscription.consumer
        asynchronous = consumer.dispatch_async
        reference.move(ASSIGNED)
        dispatch = Dispatch(
            consumer.connection, consumer.name, message, message.redelivery_count, asynchronous, self.counters
        )
        if message.ttl_ms > 0:
            dispatch.remaining_ttl_ms = region.policies.relative_ttl.remaining_ms(message, region.now.wall_ms)
        region.dispatches += 1
        delivery = Delivery(subscription, reference, dispatch, region.dispatches)
        consumer.dispatched.append(delivery)
        region.policies.in_flight.assigned(self.counters, asynchronous)
        region.effects.append(dispatch)
        if not asynchronous or self.holds_always:
            dispatch.holder = self
            self.held += 1
        if not consumer.prefetch:
            region.pulls.served(consumer)
        if consumer.auto_ack and not asynchronous:
            self.take_off(delivery)
            self.settle(delivery, CONSUMED)
        if consumer.scattered:
            consumer.turn = subscription.serial
            if not region.policies.prefetch.is_open(subscription):
                for other in consumer.subscriptions:
                    if other is not subscription:
                        other.destination.window_closed(other)

    def take_off(self, delivery: Delivery) -> None:
        """Take one delivery off the consumer's list and the in-flight count, because it is settled."""
        consumer = delivery.subscription.consumer
        consumer.dispatched.remove(delivery)
        reference = delivery.reference
        if reference.reserved:
            reference.reserved = False
            consumer.reserve = None
        self.region.policies.in_flight.settled(self.counters, 1)
