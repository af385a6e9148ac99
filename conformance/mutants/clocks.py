"""Mutants of time: expiry, time-stamping, delivery delay. Each class overrides one decision of one policy."""

from __future__ import annotations

from brokerproof.conformance.mutants.registry import PolicyMaker
from brokerproof.reference_broker.core.config import BrokerConfig, TimeStamping
from brokerproof.reference_broker.core.deadletter import DeadLetter
from brokerproof.reference_broker.core.delay import Delay
from brokerproof.reference_broker.core.expiry import DocumentedExpiry, Expiry
from brokerproof.reference_broker.core.instant import NS_PER_MS, Now
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.timestamping import ClassicStamping, Stamping

#: Far beyond the end of any run: about three years.
NEVER_MS = 100_000_000_000

#: The last instant that a message can name.
LONG_MAX = 2**63 - 1


class NotStrict(Expiry):
    """Expired at the very millisecond of the expiration already."""

    def is_expired(self, expiration_ms: int, wall_ms: int) -> bool:
        return 0 < expiration_ms <= wall_ms


class LateByOne(Expiry):
    """Alive one millisecond too long."""

    def is_expired(self, expiration_ms: int, wall_ms: int) -> bool:
        return 0 < expiration_ms < wall_ms - 1


class Immortal(Expiry):
    """Nothing ever expires."""

    def is_expired(self, expiration_ms: int, wall_ms: int) -> bool:  # noqa: ARG002 - the defect is to ignore them
        return False


class NoSweep(Expiry):
    """The sweep comes so late that it never comes."""

    def next_sweep_ns(self, created_ns: int, period_ms: int, mono_ns: int) -> int:
        return super().next_sweep_ns(created_ns, period_ms, mono_ns) + NEVER_MS * NS_PER_MS


class Believing(Expiry):
    """A client's expired-ack expires the message whatever the generation says."""


class Unbelieving(DocumentedExpiry):
    """A client's expired-ack is doubted whatever the generation says."""


def opposite(config: BrokerConfig) -> object:
    """The policy that treats a client's expired-ack the other way than the generation asks."""
    return Believing() if config.generation["expiry"] == "documented" else Unbelieving()


def expiry(policy: type[Expiry]) -> PolicyMaker:
    """A maker that keeps the generation's view of expired-acks."""

    def make(config: BrokerConfig) -> object:
        if config.generation["expiry"] != "documented":
            return policy()
        return type(policy.__name__, (policy, DocumentedExpiry), {})()

    return make


class ForgetsCopy(DeadLetter):
    """No dead letter at all."""

    def eligible(self, message: Message, source: str, expired: bool) -> bool:  # noqa: ARG002 - the defect is to ignore them
        return False


class DropsSpent(DeadLetter):
    """What has reached the limit gets no letter."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config)
        self._most = config.redeliveries_max

    def eligible(self, message: Message, source: str, expired: bool) -> bool:
        spent = 0 <= self._most < message.redelivery_count
        return not spent and super().eligible(message, source, expired)


class ForgetsOriginOfSpent(DeadLetter):
    """What has reached the limit gets a letter that does not say where it comes from."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config)
        self._most = config.redeliveries_max

    def copy(self, message: Message, source: str, cause: str, target: str, wall_ms: int) -> Message:
        letter = super().copy(message, source, cause, target, wall_ms)
        if 0 <= self._most < message.redelivery_count:
            letter.original_destination = ""
        return letter


class SilentOnLosses(DeadLetter):
    """A dead letter says why it died if it expired, and otherwise nothing."""

    def copy(self, message: Message, source: str, cause: str, target: str, wall_ms: int) -> Message:
        letter = super().copy(message, source, cause, target, wall_ms)
        if "Expired" not in cause:
            letter.properties.pop("dlqDeliveryFailureCause", None)
        return letter


class KeepsExpiration(DeadLetter):
    """The dead letter keeps the expiration that killed it."""

    def copy(self, message: Message, source: str, cause: str, target: str, wall_ms: int) -> Message:
        letter = super().copy(message, source, cause, target, wall_ms)
        letter.expiration_ms = message.expiration_ms
        return letter


class RestampedByOne(DeadLetter):
    """The dead letter's timestamp is one millisecond later than the message's."""

    def copy(self, message: Message, source: str, cause: str, target: str, wall_ms: int) -> Message:
        letter = super().copy(message, source, cause, target, wall_ms)
        letter.timestamp_ms += 1
        return letter


class Stamped(Stamping):
    """Base of the mutants of the plug-in: changes what ``stamp`` left behind."""

    def stamp(self, message: Message, wall_ms: int, network: bool) -> None:
        before = message.timestamp_ms, message.expiration_ms
        super().stamp(message, wall_ms, network)
        if (message.timestamp_ms, message.expiration_ms) != before:
            self.spoil(message, wall_ms)

    def spoil(self, message: Message, wall_ms: int) -> None:
        """Damage a message that was stamped."""
        raise NotImplementedError


class GivesLife(Stamping):
    """A message without an expiration gets one of a second, although nobody asked for it."""

    def stamp(self, message: Message, wall_ms: int, network: bool) -> None:
        super().stamp(message, wall_ms, network)
        if message.expiration_ms <= 0:
            message.expiration_ms = wall_ms + 1000


class MarksFirst(Stamping):
    """Every message looks redelivered from the beginning."""

    def stamp(self, message: Message, wall_ms: int, network: bool) -> None:
        message.redelivery_count = 1
        super().stamp(message, wall_ms, network)


class ExtendsLife(Stamped):
    """A re-stamped message lives ten minutes longer than it was allowed to."""

    def spoil(self, message: Message, wall_ms: int) -> None:  # noqa: ARG002 - only the expiration is damaged
        if message.expiration_ms > 0:
            message.expiration_ms = min(message.expiration_ms + 600_000, LONG_MAX)


class StampsBehind(Stamped):
    """The timestamp is one millisecond before the broker's time."""

    def spoil(self, message: Message, wall_ms: int) -> None:
        message.timestamp_ms = wall_ms - 1


class ShortensLife(Stamped):
    """The re-stamped time to live is one millisecond short."""

    def spoil(self, message: Message, wall_ms: int) -> None:  # noqa: ARG002 - only the expiration is damaged
        if message.expiration_ms > 1:
            message.expiration_ms -= 1


class ForgetsFutureOnly(Stamping):
    """``futureOnly`` is ignored: expirations are lowered."""

    def stamp(self, message: Message, wall_ms: int, network: bool) -> None:
        whole = self.settings
        if whole is None:
            return
        self.settings = TimeStamping(
            ttl_ceiling_ms=whole.ttl_ceiling_ms,
            zero_expiration_override_ms=whole.zero_expiration_override_ms,
            process_network_messages=whole.process_network_messages,
        )
        super().stamp(message, wall_ms, network)
        self.settings = whole


class NoCeiling(Stamping):
    """``ttlCeiling`` is ignored."""

    def ttl_ms(self, message: Message, settings: TimeStamping) -> int:
        if message.expiration_ms > 0:
            return message.expiration_ms - message.timestamp_ms
        return settings.zero_expiration_override_ms


class NoOverride(Stamping):
    """``zeroExpirationOverride`` is ignored."""

    def ttl_ms(self, message: Message, settings: TimeStamping) -> int:
        return super().ttl_ms(message, settings) if message.expiration_ms > 0 else 0


class StampsUnstamped(Stamping):
    """Also messages without a timestamp are stamped."""

    def applies(self, message: Message, network: bool) -> bool:  # noqa: ARG002 - the defect is to ignore them
        return self.settings is not None

    def ttl_ms(self, message: Message, settings: TimeStamping) -> int:
        return max(1, super().ttl_ms(message, settings))


class StampsWithoutPlugin(Stamping):
    """Without the plug-in the timestamp is replaced all the same."""

    def stamp(self, message: Message, wall_ms: int, network: bool) -> None:
        if self.settings is None and message.timestamp_ms > 0:
            message.timestamp_ms = wall_ms
        super().stamp(message, wall_ms, network)


class RescuesDead(Stamping):
    """A message that was expired for its own producer gets a new life."""

    def ttl_ms(self, message: Message, settings: TimeStamping) -> int:
        ttl_ms = super().ttl_ms(message, settings)
        return 60_000 if message.expiration_ms > 0 >= ttl_ms else ttl_ms


class ActsOnEqual(Stamping):
    """Under ``futureOnly`` the timestamp is replaced although the new expiration is not later."""

    def stamp(self, message: Message, wall_ms: int, network: bool) -> None:
        applies, settings = self.applies(message, network), self.settings
        before = message.timestamp_ms, message.expiration_ms
        super().stamp(message, wall_ms, network)
        untouched = (message.timestamp_ms, message.expiration_ms) == before
        if untouched and settings is not None and settings.future_only and applies:
            message.timestamp_ms = wall_ms


class AsClassic(ClassicStamping):
    """``futureOnly`` as ActiveMQ reads it, whatever the generation says."""


class BackByOne(Stamping):
    """``futureOnly`` moves the timestamp of a message without an expiration back by one millisecond."""

    def stamp_forward(self, message: Message, ttl_ms: int, wall_ms: int) -> None:
        mortal = message.expiration_ms > 0
        sent_ms = message.timestamp_ms
        super().stamp_forward(message, ttl_ms, wall_ms)
        if not mortal and message.timestamp_ms == sent_ms:
            message.timestamp_ms -= 1


class RoomyCeiling(Stamping):
    """Under ``futureOnly`` the ceiling is one millisecond too high."""

    def ttl_ms(self, message: Message, settings: TimeStamping) -> int:
        ttl_ms = super().ttl_ms(message, settings)
        capped = settings.future_only and 0 < settings.ttl_ceiling_ms < message.expiration_ms - message.timestamp_ms
        return ttl_ms + 1 if capped else ttl_ms


class EarlyByOne(Delay):
    """Released one millisecond before it is due."""

    def due_ns(self, remaining_ms: int, now: Now) -> int:
        return super().due_ns(remaining_ms, now) - NS_PER_MS


class FromProducerClock(Delay):
    """The delay counts from the producer's timestamp, by the broker's clock."""

    def remaining_ms(self, message: Message, now: Now) -> int:
        remaining_ms = super().remaining_ms(message, now)
        if remaining_ms > 0 and message.timestamp_ms > 0:
            return message.timestamp_ms + remaining_ms - now.wall_ms
        return remaining_ms


class Ignored(Delay):
    """Delays are ignored."""

    def remaining_ms(self, message: Message, now: Now) -> int:  # noqa: ARG002 - the defect is to ignore them
        return 0


class Late(Delay):
    """Released five seconds after it is due."""

    def due_ns(self, remaining_ms: int, now: Now) -> int:
        return super().due_ns(remaining_ms, now) + 5000 * NS_PER_MS


class Lost(Delay):
    """A delayed message is never released."""

    def due_ns(self, remaining_ms: int, now: Now) -> int:
        return super().due_ns(remaining_ms, now) + NEVER_MS * NS_PER_MS


class RestartsLife(Delay):
    """The time to live begins at the release."""

    def remaining_ms(self, message: Message, now: Now) -> int:
        remaining_ms = super().remaining_ms(message, now)
        if remaining_ms > 0 and message.expiration_ms > 0:
            message.expiration_ms += remaining_ms
        return remaining_ms


class Shuffles(Delay):
    """Every third plain message is held for two milliseconds."""

    def __init__(self) -> None:
        self._count = 0

    def remaining_ms(self, message: Message, now: Now) -> int:
        remaining_ms = super().remaining_ms(message, now)
        if remaining_ms > 0:
            return remaining_ms
        self._count += 1
        return 0 if self._count % 3 else 2


class InSingleFile(Delay):
    """A delayed message waits for all delayed messages that were accepted before it."""

    def __init__(self) -> None:
        self._last_ns = 0

    def due_ns(self, remaining_ms: int, now: Now) -> int:
        self._last_ns = max(self._last_ns, super().due_ns(remaining_ms, now))
        return self._last_ns


class HoldsPlain(Delay):
    """Plain messages wait behind delayed ones."""

    def __init__(self) -> None:
        self._until_ns = 0

    def remaining_ms(self, message: Message, now: Now) -> int:
        remaining_ms = super().remaining_ms(message, now)
        if remaining_ms > 0:
            self._until_ns = max(self._until_ns, now.mono_ns + remaining_ms * NS_PER_MS)
            return remaining_ms
        return max(0, (self._until_ns - now.mono_ns) // NS_PER_MS)


class ByWallClock(Delay):
    """A release is set by the wall clock that the broker showed at its first delayed message: later steps move it."""

    def __init__(self) -> None:
        self._offset_ns: int | None = None

    def due_ns(self, remaining_ms: int, now: Now) -> int:
        offset_ns = now.wall_ms * NS_PER_MS - now.mono_ns
        if self._offset_ns is None:
            self._offset_ns = offset_ns
        stepped_ns = offset_ns - self._offset_ns
        return max(now.mono_ns, super().due_ns(remaining_ms, now) - stepped_ns)


def stamping(policy: type[Stamping]) -> PolicyMaker:
    """A maker for mutants of the plug-in."""

    def make(config: BrokerConfig) -> object:
        return policy(config.timestamping)

    return make
