"""Mutants of transactions and of what the counters show of them; the permanent imbalances that real brokers had."""

from __future__ import annotations

from brokerproof.conformance.mutants.registry import Mutant, fresh
from brokerproof.reference_broker.core.acknowledgement import BY_ONE, RANGE, Acknowledgement, Rule
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.deadletter import DeadLetter
from brokerproof.reference_broker.core.destination import POISONED
from brokerproof.reference_broker.core.effects import Effect
from brokerproof.reference_broker.core.events import POISON, REDELIVERED, STANDARD, Ack, Event, Purge
from brokerproof.reference_broker.core.in_flight import Counters, InFlight
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import DEAD_LETTER_QUEUE, Message
from brokerproof.reference_broker.core.redelivery import UNKNOWN, Redelivery
from brokerproof.reference_broker.core.reference import ACK_PENDING
from brokerproof.reference_broker.core.subscription import Consumer, Delivery
from brokerproof.reference_broker.core.transaction import HeldSend, PendingAck, Resolution, Transaction


class SendsAtOnce(Resolution):
    """What is sent in a transaction is visible at once."""

    def holds_sends(self) -> bool:
        return False


class AcknowledgesAtOnce(Resolution):
    """What is acknowledged in a transaction is settled at once."""

    def holds_acknowledgements(self) -> bool:
        return False


class PublishesOnRollback(Resolution):
    """A rollback publishes what was sent."""

    def rolled_back(self, transaction: Transaction) -> tuple[list[PendingAck], list[HeldSend]]:
        return [], transaction.sends


class AcknowledgesOnRollback(Resolution):
    """A rollback settles what was acknowledged."""

    def rolled_back(self, transaction: Transaction) -> tuple[list[PendingAck], list[HeldSend]]:
        return transaction.pending_acks, []


class CommitsOnLoss(Resolution):
    """The loss of a connection commits what it had open."""

    def abandoned(self, transaction: Transaction) -> tuple[list[PendingAck], list[HeldSend]]:
        return transaction.pending_acks, transaction.sends


class LosesLast(Resolution):
    """A commit forgets the last of several sends."""

    def committed(self, transaction: Transaction) -> tuple[list[PendingAck], list[HeldSend]]:
        sends = transaction.sends
        return transaction.pending_acks, sends[:-1] if len(sends) > 1 else sends


class ForgetsTheDeparted(Resolution):
    """A rollback settles what consumers that have left had acknowledged."""

    def rolled_back(self, transaction: Transaction) -> tuple[list[PendingAck], list[HeldSend]]:
        waits = ACK_PENDING
        return [one for one in transaction.pending_acks if any(d.reference.state == waits for d in one.deliveries)], []


class Reverses(Resolution):
    """A commit publishes in reverse order."""

    def committed(self, transaction: Transaction) -> tuple[list[PendingAck], list[HeldSend]]:
        return transaction.pending_acks, transaction.sends[::-1]


class ForgetsAcknowledgements(Resolution):
    """A commit carries out the sends alone."""

    def committed(self, transaction: Transaction) -> tuple[list[PendingAck], list[HeldSend]]:
        return [], transaction.sends


class RejectsAtOnce(Acknowledgement):
    """What is rejected in a transaction is a dead letter at once."""

    def rule(self, kind: int) -> Rule | None:
        if kind == POISON:
            return Rule("POISON", RANGE, POISONED, BY_ONE)
        return super().rule(kind)


class RejectsOnRollback(Resolution):
    """A rollback carries out what was rejected."""

    def rolled_back(self, transaction: Transaction) -> tuple[list[PendingAck], list[HeldSend]]:
        return [one for one in transaction.pending_acks if one.rule.outcome == POISONED], []


class ForgetsRejections(Resolution):
    """A commit leaves what was rejected to its consumer."""

    def committed(self, transaction: Transaction) -> tuple[list[PendingAck], list[HeldSend]]:
        return [one for one in transaction.pending_acks if one.rule.outcome != POISONED], transaction.sends


class DecrementsOnRollback(Resolution):
    """A rollback takes what was acknowledged off the in-flight count (ActiveMQ 5.2.0 to 5.3.0)."""

    def rolled_back(self, transaction: Transaction) -> tuple[list[PendingAck], list[HeldSend]]:
        for pending_ack in transaction.pending_acks:
            for delivery in pending_ack.deliveries:
                delivery.subscription.destination.counters.in_flight -= 1
        return super().rolled_back(transaction)


class ForgetsLevels(InFlight):
    """Resetting the statistics sets the in-flight count to 0, too (ActiveMQ today)."""

    def reset(self, counters: Counters) -> None:
        super().reset(counters)
        counters.in_flight = 0


class KeepsDispatches(InFlight):
    """Resetting the statistics leaves the count of dispatches as it was."""

    def reset(self, counters: Counters) -> None:
        kept = counters.dispatched
        super().reset(counters)
        counters.dispatched = kept
        counters.assigned += kept


class CountsSettlementsTwice(InFlight):
    """Each settlement is booked twice, as duplicates after a failover were (ActiveMQ before 5.3.0)."""

    def settled(self, counters: Counters, count: int) -> None:
        super().settled(counters, count)
        counters.in_flight -= count


class ForgetsWaste(InFlight):
    """What a departure takes off is counted as acknowledged."""

    def left(self, counters: Counters, count: int) -> None:
        super().left(counters, count)
        counters.wasted -= count


class SubtractsUntilWritten(InFlight):
    """A message is taken off the in-flight count before its frame is written, and put on it afterwards, as where a
    protocol converter acknowledges before it writes (ActiveMQ with STOMP ``auto``).
    """

    def assigned(self, counters: Counters, asynchronous: bool) -> None:
        super().assigned(counters, asynchronous)
        counters.in_flight -= 1

    def transmitted(self, counters: Counters) -> None:
        super().transmitted(counters)
        counters.in_flight += 1


class PoisonCountsUp(Broker):
    """A rejection raises the in-flight count instead of lowering it (ActiveMQ 5.2.0 to 5.3.0)."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        before = [destination.counters.removed for destination in self._region.destinations.values()]
        effects = super().handle(event, now)
        if isinstance(event, Ack) and event.kind == POISON:
            for old, destination in zip(before, self._region.destinations.values(), strict=False):
                destination.counters.in_flight += 2 * (destination.counters.removed - old)
        return effects


class PurgesAgain(Broker):
    """The late acknowledgement of a purged message is counted as another one that left the queue."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Purge):
            self._purged = True
        before = [destination.counters.removed for destination in self._region.destinations.values()]
        effects = super().handle(event, now)
        if isinstance(event, Ack) and self._purged:
            for old, destination in zip(before, self._region.destinations.values(), strict=False):
                late = destination.counters.removed - old
                destination.counters.dequeued += late
                destination.counters.size -= late
        return effects

    _purged = False


class ChargesEveryPlace(Broker):
    """A wildcard's consumer that goes is taken off each destination with all that it held (ActiveMQ 5.3.0 to 5.4.1)."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        before = [(one, len(one.dispatched)) for one in self._consumers.values() if one.scattered and self.charges(one)]
        own = {
            subscription.serial: len(subscription.deliveries())
            for consumer, _ in before
            for subscription in consumer.subscriptions
        }
        effects = super().handle(event, now)
        for consumer, held in before:
            if self._consumers.get(consumer.name) is not consumer:
                for subscription in consumer.subscriptions:
                    subscription.destination.counters.in_flight -= held - own[subscription.serial]
        return effects

    def charges(self, consumer: Consumer) -> bool:
        """Whom it does this to."""
        return not consumer.durable


class ChargesEveryTopic(ChargesEveryPlace):
    """The same for durable subscriptions (ActiveMQ since 5.6.0)."""

    def charges(self, consumer: Consumer) -> bool:
        return bool(consumer.durable)


class MarksAll(Redelivery):
    """Everything that comes back is marked, whatever the client said."""

    def mark(self, deliveries: list[Delivery], _last_delivered: int) -> None:
        super().mark(deliveries, UNKNOWN)


class MarksOldest(Redelivery):
    """Of what comes back from a lost connection only the oldest message is marked."""

    def mark(self, deliveries: list[Delivery], last_delivered: int) -> None:
        super().mark(deliveries, 1 if last_delivered == UNKNOWN else last_delivered)


class CountsToOne(Redelivery):
    """A message is marked once; its count stays where it is."""

    def mark(self, deliveries: list[Delivery], last_delivered: int) -> None:
        super().mark(deliveries, last_delivered)
        for delivery in deliveries:
            message = delivery.reference.message
            message.redelivery_count = min(message.redelivery_count, 1)


class RedeliveredSettles(Acknowledgement):
    """An acknowledgement of type REDELIVERED is taken for one of type STANDARD."""

    def rule(self, kind: int) -> Rule | None:
        return super().rule(STANDARD if kind == REDELIVERED else kind)


class ForgetsPoison(DeadLetter):
    """What a client gives up vanishes without a dead letter."""

    def eligible(self, message: Message, source: str, expired: bool) -> bool:
        return expired and super().eligible(message, source, expired)


class OneStrategy(DeadLetter):
    """All dead letters go to the shared queue, whatever a policy entry says."""

    def target(self, source: str, subscriber: str = "") -> str:  # noqa: ARG002 - the defect is to ignore them
        return DEAD_LETTER_QUEUE


class ExcludesNothing(DeadLetter):
    """Whatever dies gets a dead letter."""

    def eligible(self, message: Message, source: str, expired: bool) -> bool:  # noqa: ARG002 - the defect is to ignore them
        return True


ALL = (
    Mutant("transaction-sends-at-once", "GEN-060", "What is sent in a transaction is visible at once.", "transaction",
           fresh(SendsAtOnce), live=True),
    Mutant("transaction-publishes-on-rollback", "GEN-061", "A rollback publishes what was sent.", "transaction",
           fresh(PublishesOnRollback)),
    Mutant("rollback-forgets-the-departed", "GEN-065", "A rollback settles what consumers that left had acknowledged.",
           "transaction", fresh(ForgetsTheDeparted)),
    Mutant("transaction-loses-last", "GEN-062", "A commit forgets the last of several sends.", "transaction",
           fresh(LosesLast)),
    Mutant("transaction-reverses", "GEN-063", "A commit publishes in reverse order.", "transaction", fresh(Reverses)),
    Mutant("transaction-forgets-acknowledgements", "GEN-064", "A commit carries out the sends alone.", "transaction",
           fresh(ForgetsAcknowledgements)),
    Mutant("transaction-acknowledges-on-rollback", "GEN-065", "A rollback settles what was acknowledged.",
           "transaction", fresh(AcknowledgesOnRollback)),
    Mutant("transaction-commits-on-loss", "GEN-066", "The loss of a connection commits what it had open.",
           "transaction", fresh(CommitsOnLoss)),
    Mutant("transaction-acknowledges-at-once", "INF-010", "What is acknowledged in a transaction is settled at once.",
           "transaction", fresh(AcknowledgesAtOnce)),
    Mutant("ledger-rollback-decrements", "INF-010", "A rollback takes acknowledged messages off the in-flight count.",
           "transaction", fresh(DecrementsOnRollback)),
    Mutant("ledger-settles-twice", "INF-001", "Each settlement is booked twice.", "in_flight",
           fresh(CountsSettlementsTwice)),
    Mutant("ledger-poison-counts-up", "INF-001", "A rejection raises the in-flight count.", broker=PoisonCountsUp),
    Mutant("ledger-subtracts-until-written", "INF-008", "A message is off the count until it is written.", "in_flight",
           fresh(SubtractsUntilWritten)),
    Mutant("ledger-charges-every-place", "INF-018", "A departure is charged to each place of the consumer, whole.",
           broker=ChargesEveryPlace),
    Mutant("ledger-charges-every-topic", "INF-011", "The same for durable subscriptions.", broker=ChargesEveryTopic),
    Mutant("ledger-forgets-waste", "INF-019", "Dispatches that came to nothing count as acknowledged.", "in_flight",
           fresh(ForgetsWaste)),
    Mutant("ledger-reset-forgets-levels", "INF-012", "A reset sets the in-flight count to 0.", "in_flight",
           fresh(ForgetsLevels)),
    Mutant("ledger-reset-keeps-dispatches", "INF-020", "A reset leaves the count of dispatches.", "in_flight",
           fresh(KeepsDispatches)),
    Mutant("purge-counts-again", "INF-013", "A late settlement of a purged message is counted out again.",
           broker=PurgesAgain),
    Mutant("redelivery-marks-all", "RDL-009", "What the client was never given is marked, too.", "redelivery",
           fresh(MarksAll)),
    Mutant("redelivery-marks-oldest", "RDL-010", "Of a lost connection's messages only the oldest is marked.",
           "redelivery", fresh(MarksOldest)),
    Mutant("redelivery-counts-to-one", "RDL-016", "A delivery count never exceeds two.", "redelivery",
           fresh(CountsToOne)),
    Mutant("redelivered-settles", "RDL-012", "An acknowledgement of type REDELIVERED settles.", "acknowledgement",
           fresh(RedeliveredSettles)),
    Mutant("poison-forgotten", "RDL-007", "What a client gives up gets no dead letter.", "dead_letter",
           ForgetsPoison),
    Mutant("nacks-of-transactions-at-once", "RDL-030", "A NACK in a transaction acts at once.", "acknowledgement",
           fresh(RejectsAtOnce)),
    Mutant("rollbacks-reject", "RDL-030", "A rollback carries out the NACKs of its transaction.", "transaction",
           fresh(RejectsOnRollback)),
    Mutant("commits-forget-nacks", "RDL-030", "A commit forgets the NACKs of its transaction.", "transaction",
           fresh(ForgetsRejections)),
    Mutant("letters-of-one-strategy", "RDL-017", "All dead letters go to the shared queue.", "dead_letter",
           OneStrategy),
    Mutant("letters-exclude-nothing", "RDL-018", "Whatever dies gets a dead letter.", "dead_letter",
           ExcludesNothing),
)  # fmt: skip
