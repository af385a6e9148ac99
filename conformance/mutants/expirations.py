"""Mutants of how messages come to their ends: marks and batches, sends of unknown result, expiry and its traces."""

from __future__ import annotations

from brokerproof.conformance.mutants import time_to_live
from brokerproof.conformance.mutants.clocks import DropsSpent, ForgetsOriginOfSpent, SilentOnLosses, expiry, stamping
from brokerproof.conformance.mutants.registry import Mutant, fresh
from brokerproof.conformance.mutants.storage import NeverRemoves
from brokerproof.reference_broker.core.advisory import AdvisoryPolicy
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.broker_redelivery import VANISHES, RedeliveryPlugin
from brokerproof.reference_broker.core.browser import Browsing
from brokerproof.reference_broker.core.config import INDIVIDUAL_STRATEGY, BrokerConfig, BrokerRedelivery
from brokerproof.reference_broker.core.deadletter import DeadLetter
from brokerproof.reference_broker.core.effects import Accepted, Dispatch, Effect, Refused
from brokerproof.reference_broker.core.events import (
    EXPIRED,
    POISON,
    Ack,
    Disconnect,
    Event,
    Send,
    Subscribe,
    Unsubscribe,
)
from brokerproof.reference_broker.core.expiry import Expiry
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import TOPIC, Message
from brokerproof.reference_broker.core.queue import Queue
from brokerproof.reference_broker.core.redelivery import Redelivery
from brokerproof.reference_broker.core.reference import WAITING, Reference
from brokerproof.reference_broker.core.routing import FanOut, Routing
from brokerproof.reference_broker.core.subscription import Delivery
from brokerproof.reference_broker.core.temporary import Ownership
from brokerproof.reference_broker.core.timestamping import Stamping


class Unmarked(int):
    """A count that is never above anything: sessions do not mark it."""

    def __gt__(self, other: int) -> bool:
        return False


class CountsInSilence(Redelivery):
    """Redeliveries are counted, and not marked."""

    def mark(self, deliveries: list[Delivery], last_delivered: int) -> None:
        super().mark(deliveries, last_delivered)
        for delivery in deliveries:
            message = delivery.reference.message
            message.redelivery_count = Unmarked(message.redelivery_count)


class LimitLess(Redelivery):
    """It gives a message up one redelivery too early."""

    def is_spent(self, count: int) -> bool:
        return super().is_spent(count + 1)


class LimitMore(Redelivery):
    """The same, too late."""

    def is_spent(self, count: int) -> bool:
        return super().is_spent(count - 1)


class Watcher(Broker):
    """Base of mutants that remember what a connection did."""

    def __init__(self, config: BrokerConfig, policies: object = None) -> None:
        super().__init__(config, policies)  # type: ignore[arg-type]  # what a factory is given
        #: Connection -> its consumers, and the last message that it sent.
        self.consumers_of: dict[int, list[str]] = {}
        self.last_sent: dict[int, Message] = {}
        #: Consumer -> the id that was dispatched to it last.
        self.last_given: dict[str, str] = {}

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Subscribe):
            self.consumers_of.setdefault(event.connection, []).append(event.consumer)
        elif isinstance(event, Send):
            self.last_sent[event.connection] = event.message
        effects = self.instead(event, now)
        for effect in effects:
            if isinstance(effect, Dispatch):
                self.last_given[effect.consumer] = effect.message.message_id
        return effects

    def instead(self, event: Event, now: Now) -> list[Effect]:
        """What the broker does."""
        return super().handle(event, now)


class MarksOneConsumer(Watcher):
    """A connection that goes marks the messages of its first consumer alone."""

    def instead(self, event: Event, now: Now) -> list[Effect]:
        effects: list[Effect] = []
        if isinstance(event, Disconnect):
            for consumer in self.consumers_of.pop(event.connection, [])[1:]:
                effects += super().instead(Unsubscribe(event.connection, consumer, last_delivered=-1), now)
        return effects + super().instead(event, now)


class PoisonsTheBatch(Watcher):
    """What a client gives up takes everything with it that the client was given after it."""

    def instead(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Ack) and event.kind == POISON and event.consumer in self.last_given:
            last = self.last_given[event.consumer]
            event = Ack(event.connection, event.consumer, POISON, last, first=event.first, request=event.request)
        return super().instead(event, now)


class TakesItTwice(Watcher):
    """The last message of a connection that ends is taken for lost, too, and taken once more."""

    def instead(self, event: Event, now: Now) -> list[Effect]:
        effects: list[Effect] = []
        if isinstance(event, Disconnect):
            last = self.last_sent.pop(event.connection, None)
            if last is not None:
                again = last.copy_to(last.destination)
                again.message_id += "-again"
                effects = super().instead(Send(event.connection, again), now)
                effects = [effect for effect in effects if not isinstance(effect, Accepted)]
        return effects + super().instead(event, now)


class DequeuesShort(Broker):
    """What expired is not counted as dequeued."""

    def counters(self, destination: str, now: Now) -> dict[str, int] | None:
        found = super().counters(destination, now)
        if found is not None:
            found["dequeued"] -= found["expired"]
        return found


class CountsTwice(Broker):
    """Every expiry is counted twice."""

    def counters(self, destination: str, now: Now) -> dict[str, int] | None:
        found = super().counters(destination, now)
        if found is not None:
            found["expired"] *= 2
        return found


class HidesTheDead(Broker):
    """Topics count no expiry."""

    def counters(self, destination: str, now: Now) -> dict[str, int] | None:
        found = super().counters(destination, now)
        if found is not None and destination.startswith(TOPIC):
            found["expired"] = 0
        return found


class ExpiresInFlight(Watcher):
    """What expires while a consumer has it is taken away from that consumer."""

    def __init__(self, config: BrokerConfig, policies: object = None) -> None:
        super().__init__(config, policies)
        self._given: dict[tuple[int, str, str], int] = {}

    def instead(self, event: Event, now: Now) -> list[Effect]:
        effects: list[Effect] = []
        for (connection, consumer, message_id), expiration_ms in list(self._given.items()):
            if 0 < expiration_ms < now.wall_ms:
                del self._given[connection, consumer, message_id]
                effects += super().instead(Ack(connection, consumer, EXPIRED, message_id, first=message_id), now)
        effects = [effect for effect in effects if not isinstance(effect, Refused)]
        effects += super().instead(event, now)
        for effect in effects:
            if isinstance(effect, Dispatch):
                key = (effect.connection, effect.consumer, effect.message.message_id)
                self._given[key] = effect.message.expiration_ms
        return effects


class DiesAgain(DeadLetter):
    """What expires on the dead-letter queue gets a letter there."""

    def loops(self, source: str, target: str) -> bool:  # noqa: ARG002 - the defect
        return False


class LetsVanish(DeadLetter):
    """What a topic's subscriber loses alive gets no letter."""

    def eligible(self, message: Message, source: str, expired: bool) -> bool:
        return (expired or not source.startswith(TOPIC)) and super().eligible(message, source, expired)


class TakesWhatItLooksAt(Browsing):
    """What a browser acknowledges expires."""

    def settled(self, queue: Queue, original: Reference) -> None:
        if original.state == WAITING:
            queue.line.remove(original)
            queue.expire(original)


class OneLook(Expiry):
    """What two looks have found expired is not found again: one durable subscription hides it from the next."""

    def __init__(self) -> None:
        self._found: dict[int, int] = {}

    def is_expired(self, expiration_ms: int, wall_ms: int) -> bool:
        if not super().is_expired(expiration_ms, wall_ms):
            return False
        self._found[expiration_ms] = self._found.get(expiration_ms, 0) + 1
        return self._found[expiration_ms] <= 2


class CutsBodies(Broker):
    """A body loses its last byte on the way in."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Send):
            event.message.body = event.message.body[:-1]
        return super().handle(event, now)


class LosesProperties(Broker):
    """Properties that are texts are lost on the way in."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Send):
            properties = event.message.properties
            event.message.properties = {key: value for key, value in properties.items() if not isinstance(value, str)}
        return super().handle(event, now)


class BelievesHeaders(Broker):
    """A property that is called like the delivery count is taken for it."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Send):
            count = event.message.properties.pop("JMSXDeliveryCount", None)
            if count is not None:
                event.message.redelivery_count = int(count) - 1
        return super().handle(event, now)


class SilentLetters(DeadLetter):
    """A dead letter does not say when it expired."""

    def copy(self, message: Message, source: str, cause: str, target: str, wall_ms: int) -> Message:
        letter = super().copy(message, source, cause, target, wall_ms)
        letter.properties.pop("originalExpiration", None)
        return letter


class Mumbles(DeadLetter):
    """A dead letter does not say why it died."""

    def copy(self, message: Message, source: str, cause: str, target: str, wall_ms: int) -> Message:
        letter = super().copy(message, source, cause, target, wall_ms)
        letter.properties.pop("dlqDeliveryFailureCause", None)
        return letter


class WholeSeconds(Stamping):
    """Expirations are cut to whole seconds."""

    def stamp(self, message: Message, wall_ms: int, network: bool) -> None:
        message.expiration_ms -= message.expiration_ms % 1000
        super().stamp(message, wall_ms, network)


class OneBox(DeadLetter):
    """The dead letters of all destinations that should have a queue of their own lie on the first one's."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config)
        self._first = ""

    def target(self, source: str, subscriber: str = "") -> str:
        target = super().target(source, subscriber)
        if self.strategy(source).strategy != INDIVIDUAL_STRATEGY or target == source:
            return target
        self._first = self._first or target
        return self._first


class AcceptsAll(DeadLetter):
    """Where each source has a queue of its own, every message gets a dead letter."""

    def eligible(self, message: Message, source: str, expired: bool) -> bool:
        own = self.strategy(source).strategy == INDIVIDUAL_STRATEGY
        return own or super().eligible(message, source, expired)


class ForgetsBacklogs(DeadLetter):
    """What expires on a topic gets no dead letter."""

    def eligible(self, message: Message, source: str, expired: bool) -> bool:
        return super().eligible(message, source, expired) and not (expired and source.startswith(TOPIC))


class Unspoken(AdvisoryPolicy):
    """Nobody is told what expired."""

    def advises_expired(self, source: str) -> bool:  # noqa: ARG002 - the defect
        return False


class Anonymous(AdvisoryPolicy):
    """Advisories do not say which message expired."""

    def original_id(self, message: Message) -> str:  # noqa: ARG002 - the defect
        return ""


class HalfThePause(RedeliveryPlugin):
    """The pause before a redelivery by the broker is half as long."""

    def pause_ms(self, message: Message, source: str) -> int:
        pause_ms = super().pause_ms(message, source)
        return pause_ms // 2 if pause_ms > 0 else pause_ms


class TooLate(RedeliveryPlugin):
    """A redelivery by the broker comes three seconds later."""

    def pause_ms(self, message: Message, source: str) -> int:
        pause_ms = super().pause_ms(message, source)
        return pause_ms + 3000 if pause_ms > 0 else pause_ms


class DropsEarly(RedeliveryPlugin):
    """What is rejected for the second time vanishes."""

    def pause_ms(self, message: Message, source: str) -> int:
        pause_ms = super().pause_ms(message, source)
        return VANISHES if pause_ms > 0 and message.redelivery_count == 1 else pause_ms


class NeverGivesUp(RedeliveryPlugin):
    """The broker redelivers once more than it may."""

    def pause_ms(self, message: Message, source: str) -> int:
        message.redelivery_count -= 1
        pause_ms = super().pause_ms(message, source)
        message.redelivery_count += 1
        return pause_ms


class ForgetsPauses(RedeliveryPlugin):
    """Pauses do not grow."""

    def next_ms(self, policy: BrokerRedelivery, message: Message) -> int:  # noqa: ARG002 - the defect
        return policy.initial_redelivery_delay_ms


class ForgetsLastCopy(FanOut):
    """Of several destinations the last one gets no copy."""

    def targets(self, routing: Routing, asked: str) -> list[str]:
        found = super().targets(routing, asked)
        return found[:-1] if len(found) > 1 else found


class CopiesTwice(FanOut):
    """The first destination gets its copy twice, under another id."""

    def targets(self, routing: Routing, asked: str) -> list[str]:
        found = super().targets(routing, asked)
        return [found[0], *found] if len(found) > 1 else found

    def copy(self, message: Message, target: str) -> Message:
        copy = super().copy(message, target)
        self._count += 1
        copy.message_id += f"-{self._count}"
        return copy

    def __init__(self) -> None:
        self._count = 0


class LeavesACopy(Broker):
    """What is refused for several destinations reaches the first of them when consumers have made room."""

    def __init__(self, config: BrokerConfig, policies: object = None) -> None:
        super().__init__(config, policies)  # type: ignore[arg-type]  # what a factory is given
        self._left: list[Message] = []

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        if isinstance(event, Ack) and self._left:
            copied = super().handle(Send(event.connection, self._left[0]), now)
            if not any(isinstance(effect, Refused) for effect in copied):
                self._left.pop(0)
                effects += [effect for effect in copied if not isinstance(effect, Accepted)]
        elif isinstance(event, Send) and any(isinstance(effect, Refused) for effect in effects):
            first, several, _ = event.message.destination.partition(",")
            if several:
                self._left.append(event.message.copy_to(first))
        return effects


class OpenToAll(Ownership):
    """Everybody may consume from a temporary destination."""

    def may_consume(self, owner: int, connection: int) -> bool:  # noqa: ARG002 - the defect
        return True


class LivesOn(Ownership):
    """A temporary destination stays when its connection goes."""

    def ends(self, owner: int, connection: int) -> bool:  # noqa: ARG002 - the defect
        return False


# fmt: off
ALL = (
    Mutant("count-without-mark", "RDL-008", "Redeliveries are counted, and not marked.", "redelivery",
           fresh(CountsInSilence)),
    Mutant("loss-marks-one-consumer", "RDL-011", "A connection that goes marks what its first consumer had.",
           broker=MarksOneConsumer),
    Mutant("poison-takes-the-batch", "RDL-013", "What is given up takes with it what came after it.",
           broker=PoisonsTheBatch),
    Mutant("send-taken-twice", "GEN-012", "The last message of a connection that ends is taken once more.",
           broker=TakesItTwice),
    Mutant("expired-not-dequeued", "EXP-013", "What expired is not counted as dequeued.", broker=DequeuesShort),
    Mutant("topic-hides-the-dead", "EXP-028", "Topics count no expiry.", broker=HidesTheDead),
    Mutant("expired-counted-twice", "EXP-014", "Every expiry is counted twice.", broker=CountsTwice),
    Mutant("expired-in-flight", "EXP-016", "What expires is taken away from the consumer that has it.",
           broker=ExpiresInFlight),
    Mutant("topic-lets-vanish", "RDL-027", "What a topic's subscriber loses alive gets no letter.", "dead_letter",
           LetsVanish),
    Mutant("letter-dies-again", "EXP-017", "What expires on the dead-letter queue gets a letter there.", "dead_letter",
           DiesAgain),
    Mutant("browser-takes", "EXP-018", "What a browser acknowledges expires.", "browsing", fresh(TakesWhatItLooksAt)),
    Mutant("expired-for-one-durable", "EXP-019", "What one durable subscription lets die the next one gets.", "expiry",
           expiry(OneLook)),
    Mutant("backlog-dies-unseen", "EXP-026", "What expires on a topic gets no dead letter.", "dead_letter",
           ForgetsBacklogs),
    Mutant("backlogs-not-swept", "EXP-027", "What waits in the backlogs of a topic is not swept.",
           broker=time_to_live.SweepsQueuesOnly),
    Mutant("body-cut", "GEN-011", "A body loses its last byte.", broker=CutsBodies),
    Mutant("properties-lost", "GEN-011", "Properties that are texts are lost.", broker=LosesProperties),
    Mutant("letter-without-expiration", "EXP-015", "A dead letter does not say when it expired.", "dead_letter",
           SilentLetters),
    Mutant("letter-without-cause", "EXP-015", "A dead letter does not say why it died.", "dead_letter",
           Mumbles),
    Mutant("expiration-in-seconds", "EXP-023", "Expirations are cut to whole seconds.", "timestamping",
           stamping(WholeSeconds)),
    Mutant("count-forged", "RDL-015", "A property that is called like the delivery count is taken for it.",
           broker=BelievesHeaders),
    Mutant("letters-in-one-box", "RDL-021", "Dead letters of all sources lie on the first one's queue.", "dead_letter",
           OneBox),
    Mutant("own-letters-for-all", "RDL-022", "Where each source has a queue of its own, nothing is excluded.",
           "dead_letter", AcceptsAll),
    Mutant("expiry-untold", "EXP-020", "No advisory tells what expired.", "advisories", Unspoken),
    Mutant("expiry-anonymous", "EXP-020", "Advisories do not say which message expired.", "advisories",
           Anonymous),
    Mutant("redelivery-half-the-pause", "RDL-023", "The pause before a redelivery by the broker is half as long.",
           "redelivery_plugin", HalfThePause),
    Mutant("redelivery-pauses-alike", "RDL-023", "Pauses between redeliveries by the broker do not grow.",
           "redelivery_plugin", ForgetsPauses),
    Mutant("redelivery-too-late", "RDL-025", "A redelivery by the broker comes three seconds later.",
           "redelivery_plugin", TooLate),
    Mutant("redelivery-vanishes", "RDL-025", "What is rejected for the second time vanishes.", "redelivery_plugin",
           DropsEarly),
    Mutant("redelivery-once-more", "RDL-024", "The broker redelivers once more than it may.", "redelivery_plugin",
           NeverGivesUp),
    Mutant("redelivery-limit-one-less", "RDL-026", "A limit of redeliveries is one less than promised.", "redelivery",
           lambda config: LimitLess(config.redeliveries_max)),
    Mutant("redelivery-limit-one-more", "RDL-026", "A limit of redeliveries is one more than promised.", "redelivery",
           lambda config: LimitMore(config.redeliveries_max)),
    Mutant("redelivery-limit-drops", "RDL-028", "What has reached the limit of redeliveries vanishes.", "dead_letter",
           DropsSpent),
    Mutant("redelivery-limit-forgets-origin", "RDL-028", "The letter of what has reached the limit names no origin.",
           "dead_letter", ForgetsOriginOfSpent),
    Mutant("letters-without-a-cause", "RDL-029", "Dead letters of what did not expire do not say why.", "dead_letter",
           SilentOnLosses),
    Mutant("virtual-topic-forgets-a-queue", "GEN-048", "The last queue of a virtual topic gets no copy.", "routing",
           fresh(ForgetsLastCopy)),
    Mutant("composite-forgets-a-name", "GEN-049", "The last of several names gets no copy.", "routing",
           fresh(ForgetsLastCopy)),
    Mutant("composite-copies-twice", "GEN-049", "The first of several names gets two copies.", "routing",
           fresh(CopiesTwice)),
    Mutant("composite-half-refused", "GEN-049", "What was refused for several names comes to the first.",
           broker=LeavesACopy),
    Mutant("temporary-open-to-all", "GEN-047", "Everybody may consume from a temporary destination.", "temporary",
           fresh(OpenToAll)),
    Mutant("temporary-lives-on", "GEN-047", "A temporary destination stays when its connection goes.", "temporary",
           fresh(LivesOn)),
    Mutant("journal-remembers-settled", "GEN-007", "What was settled comes back after a restart.", "journal",
           fresh(NeverRemoves)),
)
# fmt: on
