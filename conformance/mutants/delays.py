"""Mutants of what a broker takes to be delayed, and of how it releases it."""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.mutants.registry import Mutant, PolicyMaker, fresh
from brokerproof.conformance.mutants.routing import Asleep
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.delay import MAX_DELAY_MS, NEGATIVE, TOO_LONG, UNSUPPORTED, Delay
from brokerproof.reference_broker.core.effects import Effect, NoMessage
from brokerproof.reference_broker.core.events import Event, Send, Tick
from brokerproof.reference_broker.core.instant import NS_PER_MS, Now
from brokerproof.reference_broker.core.message import Message, Property
from brokerproof.reference_broker.core.pending_list import PendingList
from brokerproof.reference_broker.core.policies import Policies
from brokerproof.reference_broker.core.queue import Queue
from brokerproof.reference_broker.core.redelivery import Ordering
from brokerproof.reference_broker.core.reference import Reference
from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.openwire.requests import DELIVERY_TIME

#: How late what is held up comes.
LATE_NS: Final = 10_000 * NS_PER_MS
#: What each waiting message costs a release that walks over all of them.
STEP_NS: Final = 20 * NS_PER_MS


class Forgiving(Delay):
    """Base of those that take what they should refuse."""

    forgiven = ""

    def refusal(self, message: Message, now: Now) -> str:
        code = super().refusal(message, now)
        return "" if code == self.forgiven else code


class Wraps(Forgiving):
    """A negative delay is read without its sign."""

    forgiven = NEGATIVE

    def remaining_ms(self, message: Message, now: Now) -> int:
        remaining_ms = super().remaining_ms(message, now)
        return remaining_ms % (1 << 32) if remaining_ms < 0 else remaining_ms


class IgnoresMaximum(Forgiving):
    """What is too long is taken."""

    forgiven = TOO_LONG


class IgnoresSupport(Forgiving):
    """Delays are taken though they are switched off, and ignored, as ActiveMQ does."""

    forgiven = UNSUPPORTED

    def remaining_ms(self, message: Message, now: Now) -> int:
        return 0 if not self.supported else super().remaining_ms(message, now)


def configured(policy: type[Delay]) -> PolicyMaker:
    """A maker for mutants that know what the configuration allows."""

    def make(config: BrokerConfig) -> object:
        made = policy()
        made.supported = config.delay_support
        made.max_ms = config.max_delay_ms or MAX_DELAY_MS
        return made

    return make


class Walks(Delay):
    """Every message that was scheduled before makes a release later."""

    def __init__(self) -> None:
        self._scheduled = 0

    def due_ns(self, remaining_ms: int, now: Now) -> int:
        self._scheduled += 1
        return super().due_ns(remaining_ms, now) + self._scheduled * STEP_NS


class WaitsAfterReturn(Ordering):
    """What comes back from a consumer waits for its delay again."""

    def put_back(self, line: PendingList, references: list[Reference]) -> None:
        queue = line.owner
        kept = []
        for reference in references:
            message = reference.message
            if not message.delay_ms or not isinstance(queue, Queue):
                kept.append(reference)
                continue
            queue.counters.enqueued -= 1
            queue.counters.size -= 1
            queue.region.memory.discharge(queue, reference)
            queue.schedule(message, queue.region.now.mono_ns + message.delay_ms * NS_PER_MS)
        super().put_back(line, kept)


class Doubles(Broker):
    """A delayed message that is not persistent is kept twice."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        if isinstance(event, Send) and event.message.delay_ms > 0 and not event.message.persistent:
            again = event.message.copy_to(event.message.destination)
            again.message_id += "-again"
            effects += super().handle(Send(event.connection, again), now)
        return effects


class HeldUp(Broker):
    """While a queue is over its memory limit no release takes place anywhere."""

    def next_due_ns(self) -> int | None:
        due_ns = super().next_due_ns()
        return due_ns if due_ns is None or not self._jammed() else due_ns + LATE_NS

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Tick) and self._jammed():
            now = Now(now.mono_ns - LATE_NS, now.wall_ms)
        return super().handle(event, now)

    def _jammed(self) -> bool:
        return any(
            0 < destination.usage.limit_bytes < destination.counters.size * 1024
            for destination in self._region.destinations.values()
        )


class MovesDeliveryTime(Delay):
    """What a receiver reads is a millisecond off."""

    def remaining_ms(self, message: Message, now: Now) -> int:
        asked = message.properties.get(DELIVERY_TIME)
        if isinstance(asked, int):
            message.properties[DELIVERY_TIME] = asked + 1
        return super().remaining_ms(message, now)


class KeepsPreset(ClientSession):
    """A library that sends the delivery time that its application has set on the message."""

    def with_delivery_time(
        self, properties: dict[str, Property] | None, delay_ms: int, deliver_at_ms: int, wall_ms: int
    ) -> dict[str, Property] | None:
        if properties and DELIVERY_TIME in properties:
            return properties
        return super().with_delivery_time(properties, delay_ms, deliver_at_ms, wall_ms)


class Oversleeps(Broker):
    """After a pause of the process everything is five seconds late."""

    def __init__(self, config: BrokerConfig, policies: Policies | None = None) -> None:
        super().__init__(config, policies)
        self._until_ns = 0

    def next_due_ns(self) -> int | None:
        due_ns = super().next_due_ns()
        return due_ns if due_ns is None else max(due_ns, self._until_ns)

    def handle(self, event: Event, now: Now) -> list[Effect]:
        due_ns = super().next_due_ns()
        if isinstance(event, Tick) and due_ns is not None and not self._until_ns and due_ns + NS_PER_MS < now.mono_ns:
            self._until_ns = now.mono_ns + LATE_NS // 2
        if isinstance(event, Tick) and now.mono_ns < self._until_ns:
            return []
        return super().handle(event, now)


class KeepsCredit(Broker):
    """A pull that ended with nothing leaves its credit behind: the next message comes unasked."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        for effect in effects:
            consumer = self._consumers.get(effect.consumer) if isinstance(effect, NoMessage) else None
            if consumer is not None and not consumer.prefetch:
                consumer.extension = 1
                for subscription in consumer.subscriptions:
                    subscription.destination.window_opened(subscription)
        return effects


ALL = (
    Mutant("pull-keeps-credit", "DLY-011", "A pull that ended with nothing leaves its credit.", broker=KeepsCredit),
    Mutant("delivery-time-1ms-off", "DLY-013", "A receiver reads a delivery time that is 1 ms off.", "delay",
           fresh(MovesDeliveryTime)),
    Mutant("delivery-time-preset", "DLY-014", "A library sends what the application had set.",
           jms_client=KeepsPreset),
    Mutant("delay-oversleeps", "DLY-027", "After a pause of the process releases are late.", broker=Oversleeps),
    Mutant("delay-forgets-absent", "DLY-021", "A durable subscription without a consumer is no audience.", "durable",
           fresh(Asleep)),
    Mutant("delay-twice", "DLY-025", "A delayed message that is not persistent is kept twice.", broker=Doubles),
    Mutant("delay-negative-wraps", "DLY-029", "A negative delay is read without its sign.", "delay", fresh(Wraps)),
    Mutant("delay-maximum-ignored", "DLY-030", "A delay beyond the maximum is taken.", "delay",
           configured(IgnoresMaximum)),
    Mutant("delay-unsupported-taken", "DLY-031", "Delays are ignored where they are switched off.", "delay",
           configured(IgnoresSupport)),
    Mutant("delay-held-up-by-full", "DLY-034", "A full queue stops all releases.", broker=HeldUp),
    Mutant("delay-slower-with-many", "DLY-035", "Every waiting message makes a release later.", "delay", fresh(Walks)),
    Mutant("delay-again-after-return", "DLY-036", "What comes back waits for its delay again.", "ordering",
           fresh(WaitsAfterReturn)),
)  # fmt: skip
