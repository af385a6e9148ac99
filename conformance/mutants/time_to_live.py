"""Mutants of times to live and waits: relative ones, late acknowledgements, steps, what surrounds a delay."""

from __future__ import annotations

from brokerproof.conformance.mutants.registry import PolicyMaker
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.deadletter import DeadLetter
from brokerproof.reference_broker.core.delay import Delay
from brokerproof.reference_broker.core.effects import Accepted, Effect
from brokerproof.reference_broker.core.events import EXPIRED, INDIVIDUAL, STANDARD, Ack, Commit, Event, Rollback, Send
from brokerproof.reference_broker.core.expiry import Expiry
from brokerproof.reference_broker.core.instant import NS_PER_MS, Now
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.time_to_live import RelativeTtl
from brokerproof.reference_broker.core.timestamping import Stamping
from brokerproof.reference_broker.core.topic import Topic


def lifetime(policy: type[RelativeTtl]) -> PolicyMaker:
    """A maker for mutants of broker-relative times to live."""

    def make(config: BrokerConfig) -> object:
        return policy(config.relative_ttl_names)

    return make


class ByProducerClock(RelativeTtl):
    """The relative life counts from the producer's timestamp."""

    def expiration_ms(self, message: Message, ceiling_ms: int, wall_ms: int) -> int:
        return super().expiration_ms(message, ceiling_ms, message.timestamp_ms or wall_ms)


class LivesOneLonger(RelativeTtl):
    """The relative life is one millisecond longer."""

    def expiration_ms(self, message: Message, ceiling_ms: int, wall_ms: int) -> int:
        return super().expiration_ms(message, ceiling_ms, wall_ms) + 1


class Shown(RelativeTtl):
    """Consumers are told the expiration that the broker computed."""

    def expiration_ms(self, message: Message, ceiling_ms: int, wall_ms: int) -> int:
        expiration_ms = super().expiration_ms(message, ceiling_ms, wall_ms)
        message.ttl_ms = 0
        return expiration_ms


class ExpiresLateAcks(Broker):
    """An acknowledgement that comes after the expiration expires the message instead of consuming it."""

    def __init__(self, config: BrokerConfig, policies: object = None) -> None:
        super().__init__(config, policies)  # type: ignore[arg-type]  # what a factory is given
        self._sent: dict[str, Message] = {}

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Send):
            self._sent[event.message.message_id] = event.message
        elif isinstance(event, Ack) and event.kind in (STANDARD, INDIVIDUAL) and not event.transaction:
            message = self._sent.get(event.last)
            if message is not None and 0 < message.expiration_ms < now.wall_ms:
                event = Ack(
                    event.connection, event.consumer, EXPIRED, event.last, first=event.last, request=event.request
                )
        return super().handle(event, now)


class SleepsAfterStepBack(Expiry):
    """After a step back of the wall clock the sweep sleeps for the length of the step, as ActiveMQ's timer does."""

    def __init__(self) -> None:
        self._latest_ms = 0
        self._asleep_ms = 0

    def is_expired(self, expiration_ms: int, wall_ms: int) -> bool:
        self._asleep_ms = max(self._asleep_ms, self._latest_ms - wall_ms)
        self._latest_ms = max(self._latest_ms, wall_ms)
        return super().is_expired(expiration_ms, wall_ms)

    def next_sweep_ns(self, created_ns: int, period_ms: int, mono_ns: int) -> int:
        return super().next_sweep_ns(created_ns, period_ms, mono_ns) + self._asleep_ms * 1000 * NS_PER_MS


class SweepsQueuesOnly(Broker):
    """What waits in the backlogs of a topic is not swept."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        topic = self._region.destinations.get(event.message.destination) if isinstance(event, Send) else None
        if isinstance(topic, Topic):
            topic.expire_period_ms = 0
        return effects


class LeavesDead(Stamping):
    """A message whose own stamps call it dead is not stamped: nothing is rescued."""

    def stamp(self, message: Message, wall_ms: int, network: bool) -> None:
        if not 0 < message.expiration_ms < wall_ms:
            super().stamp(message, wall_ms, network)


class Unordered(Delay):
    """Every other delayed message is released three milliseconds later."""

    def __init__(self) -> None:
        self._count = 0

    def due_ns(self, remaining_ms: int, now: Now) -> int:
        self._count += 1
        return super().due_ns(remaining_ms, now) + (3 * NS_PER_MS if self._count % 2 else 0)


class RestampsWaiting(Delay):
    """A delayed message gets a timestamp of the future, one millisecond off."""

    def remaining_ms(self, message: Message, now: Now) -> int:
        remaining_ms = super().remaining_ms(message, now)
        if remaining_ms > 0 and message.timestamp_ms > 0:
            message.timestamp_ms += 1
        return remaining_ms


class FromCommit(Broker):
    """In a transaction the delay counts from the commit."""

    def __init__(self, config: BrokerConfig, policies: object = None) -> None:
        super().__init__(config, policies)  # type: ignore[arg-type]  # what a factory is given
        self._held: dict[tuple[int, str], list[Message]] = {}

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Send) and event.transaction and event.message.delay_ms:
            self._held.setdefault((event.connection, event.transaction), []).append(event.message)
            return [Accepted(event.connection, event.request)]
        effects: list[Effect] = []
        if isinstance(event, Commit | Rollback):
            for message in self._held.pop((event.connection, event.transaction), []):
                if isinstance(event, Commit):
                    effects += super().handle(Send(event.connection, message), now)
        return effects + super().handle(event, now)


class OutsideTransaction(Broker):
    """A delayed message is no part of its transaction."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Send) and event.transaction and event.message.delay_ms:
            event = Send(event.connection, event.message, network=event.network, request=event.request)
        return super().handle(event, now)


class AtRelease(Delay):
    """Whoever is subscribed at the release gets the message."""

    def fixes_audience(self) -> bool:
        return False


class AbsoluteEarly(Delay):
    """An absolute delivery time comes one millisecond early."""

    def remaining_ms(self, message: Message, now: Now) -> int:
        remaining_ms = super().remaining_ms(message, now)
        return remaining_ms if message.delay_ms else remaining_ms - 1


class DelayAsExpiration(Delay):
    """A delayed message expires a millisecond after it is due."""

    def remaining_ms(self, message: Message, now: Now) -> int:
        remaining_ms = super().remaining_ms(message, now)
        if remaining_ms > 0 and message.expiration_ms <= 0:
            message.expiration_ms = now.wall_ms + remaining_ms + 1
        return remaining_ms


class CountsOneMore(Broker):
    """One scheduled message too many is reported."""

    def counters(self, destination: str, now: Now) -> dict[str, int] | None:
        found = super().counters(destination, now)
        if found is not None and found["scheduled"]:
            found["scheduled"] += 1
        return found


class Disguised(DeadLetter):
    """A dead letter does not say where it came from."""

    def copy(self, message: Message, source: str, cause: str, target: str, wall_ms: int) -> Message:
        letter = super().copy(message, source, cause, target, wall_ms)
        letter.original_destination = ""
        return letter


class LeftEarly(Delay):
    """After a restart a delayed message is released two milliseconds early."""

    def left_ms(self, due_wall_ms: int, accepted_wall_ms: int, now: Now) -> int:
        return max(0, super().left_ms(due_wall_ms, accepted_wall_ms, now) - 2)


class WaitsAgain(Delay):
    """After a restart the delay begins again."""

    def left_ms(self, due_wall_ms: int, accepted_wall_ms: int, now: Now) -> int:  # noqa: ARG002 - the defect
        return due_wall_ms - accepted_wall_ms


class ForgetsOverdue(Delay):
    """What became due while the broker was down waits for ten more seconds."""

    def left_ms(self, due_wall_ms: int, accepted_wall_ms: int, now: Now) -> int:
        left_ms = super().left_ms(due_wall_ms, accepted_wall_ms, now)
        return left_ms if left_ms > 1 else 10_000
