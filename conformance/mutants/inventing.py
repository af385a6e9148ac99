"""Mutants that invent: properties, modes and figures."""

from __future__ import annotations

from brokerproof.conformance.mutants.registry import Mutant
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import RELATIVE_TTL
from brokerproof.reference_broker.core.effects import Counted, Effect
from brokerproof.reference_broker.core.events import Event, Send
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.topic import Topic


class AddsProperty(Broker):
    """Every second message gets a property that nobody sent."""

    _sends = 0

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Send):
            self._sends += 1
            if self._sends % 2 == 0:
                event.message.properties = {**event.message.properties, "hops": 1}
        return super().handle(event, now)


class ForgetsMode(Broker):
    """Every message becomes persistent."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Send):
            event.message.persistent = True
        return super().handle(event, now)


class ForgetsCorrelation(Broker):
    """Delayed messages lose their correlation id."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Send) and event.message.delay_ms > 0:
            event.message.correlation_id = None
        return super().handle(event, now)


class RoundsProperties(Broker):
    """Numbers of more than 32 bits are cut off."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Send):
            held = event.message.properties.items()
            event.message.properties = {
                name: value & 0xFFFFFFFF if type(value) is int and name.endswith("_no") else value
                for name, value in held
            }
        return super().handle(event, now)


class TellsOneMore(Broker):
    """Operators are told one message too many."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        for effect in effects:
            if isinstance(effect, Counted):
                effect.count += 1
        return effects


class Miscounting(Broker):
    """Counts publications wrongly."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        topic = self._region.destinations.get(event.message.destination) if isinstance(event, Send) else None
        if isinstance(topic, Topic) and isinstance(event, Send):
            self.miscount(topic, event)
        return effects

    def miscount(self, topic: Topic, event: Send) -> None:
        """After one of them."""
        raise NotImplementedError


class CountsTwice(Miscounting):
    """A publication counts once for every subscriber beyond the first, too."""

    def miscount(self, topic: Topic, event: Send) -> None:  # noqa: ARG002 - whichever it is
        topic.counters.enqueued += max(0, len(topic.subscriptions) - 1)


class CountsDown(Miscounting):
    """A delayed publication is taken off the count, not added."""

    def miscount(self, topic: Topic, event: Send) -> None:
        if event.message.delay_ms > 0 and topic.counters.scheduled > 0:
            topic.counters.scheduled -= 2


class HoldsTwice(Miscounting):
    """What several subscribers get is in flight once more than they hold it."""

    def miscount(self, topic: Topic, event: Send) -> None:  # noqa: ARG002 - whichever it is
        topic.counters.in_flight += len(topic.subscriptions) > 1


class DequeuesUnread(Miscounting):
    """A publication counts as dequeued at once if nobody is there."""

    def miscount(self, topic: Topic, event: Send) -> None:  # noqa: ARG002 - whichever it is
        topic.counters.dequeued += not topic.subscriptions


class OneMore(Broker):
    """The broker's own size is one more than what is on its destinations."""

    def broker_counters(self) -> dict[str, int]:
        found = super().broker_counters()
        return found | {"size": found["size"] + (found["size"] > 0)}


class CountsForEver(Broker):
    """Consumers are counted when they come, and not when they go."""

    _most: dict[str, int]

    def counters(self, destination: str, now: Now) -> dict[str, int] | None:
        found = super().counters(destination, now)
        if found is not None:
            known = self.__dict__.setdefault("_most", {})
            found["consumers"] = known[destination] = max(known.get(destination, 0), found["consumers"])
        return found


class AddsLife(Broker):
    """Every third message without an expiration gets a time to live by the broker's clock that nobody asked for."""

    _sends = 0

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Send) and event.message.expiration_ms == 0:
            self._sends += 1
            if self._sends % 3 == 0 and RELATIVE_TTL not in event.message.properties:
                event.message.properties = {**event.message.properties, RELATIVE_TTL: 3_600_000}
        return super().handle(event, now)


ALL = (
    Mutant("property-invented", "GEN-130", "Every second message gets a property.", broker=AddsProperty),
    Mutant("life-invented", "GEN-130", "Every third message without an expiration gets one hour.", broker=AddsLife),
    Mutant("topics-in-flight-twice", "INF-022", "Shared publications are in flight once more.", broker=HoldsTwice),
    Mutant("topics-dequeue-unread", "INF-023", "What nobody reads counts as dequeued.", broker=DequeuesUnread),
    Mutant("broker-counts-one-more", "INF-024", "The broker counts one message too many.", broker=OneMore),
    Mutant("consumers-counted-for-ever", "GEN-145", "Consumers that left are counted.", broker=CountsForEver),
    Mutant("mode-forgotten", "GEN-131", "Every message becomes persistent.", broker=ForgetsMode),
    Mutant("correlation-forgotten", "GEN-160", "A delay costs the correlation id.", broker=ForgetsCorrelation),
    Mutant("numbers-cut-off", "GEN-160", "Numbers of more than 32 bits lose some.", broker=RoundsProperties),
    Mutant("operators-told-one-more", "GEN-140", "Operators are told one message too many.", broker=TellsOneMore),
    Mutant("topics-count-twice", "GEN-141", "A publication counts for each subscriber.", broker=CountsTwice),
    Mutant("scheduled-counts-down", "GEN-142", "Delayed publications count downwards.", broker=CountsDown),
)  # fmt: skip
