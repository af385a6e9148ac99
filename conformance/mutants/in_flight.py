"""Mutants of in-flight counts, prefetch, redelivery, order, and the inactivity monitor."""

from __future__ import annotations

from brokerproof.reference_broker.core.acknowledgement import Acknowledgement, Rule
from brokerproof.reference_broker.core.deadletter import DeadLetter
from brokerproof.reference_broker.core.in_flight import Counters, InFlight
from brokerproof.reference_broker.core.message import QUEUE, Message
from brokerproof.reference_broker.core.pending_list import PendingList
from brokerproof.reference_broker.core.prefetch import Prefetch
from brokerproof.reference_broker.core.redelivery import Ordering, Redelivery
from brokerproof.reference_broker.core.reference import Reference
from brokerproof.reference_broker.core.subscription import Consumer, Delivery, Subscription


class ForgetsClose(InFlight):
    """A consumer that leaves keeps its unsettled messages in flight."""

    def left(self, counters: Counters, count: int) -> None:
        counters.removed += count


class CountsAtAssign(InFlight):
    """An asynchronous dispatch is counted twice: when it is assigned and when it is written."""

    def assigned(self, counters: Counters, asynchronous: bool) -> None:
        super().assigned(counters, asynchronous)
        if asynchronous:
            counters.in_flight += 1


class SubtractsEarly(InFlight):
    """A synchronous dispatch is taken off the counts before it is put on them."""

    def assigned(self, counters: Counters, asynchronous: bool) -> None:
        counters.assigned += 1
        if not asynchronous:
            counters.dispatched += 1
            counters.in_flight -= 1


class ForgetsDequeue(InFlight):
    """Settled messages are not counted as dequeued: every other one is put back on the account."""

    def settled(self, counters: Counters, count: int) -> None:
        super().settled(counters, count)
        counters.dequeued -= 1


class LosesAcknowledgements(InFlight):
    """Of what is acknowledged one is not counted as such."""

    def settled(self, counters: Counters, count: int) -> None:
        super().settled(counters, count)
        counters.removed -= 1


class UncountsDispatch(InFlight):
    """The dispatch count falls when a consumer leaves."""

    def left(self, counters: Counters, count: int) -> None:
        super().left(counters, count)
        counters.dispatched -= count


class SubtractsAgain(InFlight):
    """A departure is booked five times too often."""

    def left(self, counters: Counters, count: int) -> None:
        super().left(counters, count)
        counters.in_flight -= 5 * count


class OneMore(Prefetch):
    """One message more than the window allows."""

    def is_open(self, subscription: Subscription) -> bool:
        consumer = subscription.consumer
        return len(consumer.dispatched.index) - consumer.extension <= consumer.prefetch


class OneLess(Prefetch):
    """Windows of more than one message are never filled."""

    def is_open(self, subscription: Subscription) -> bool:
        held = len(subscription.consumer.dispatched.index) - subscription.consumer.extension
        return held < max(1, subscription.consumer.prefetch - 1)


class Grudging(Prefetch):
    """Acknowledgements open fewer slots than they settle: a window that was full is only half as wide afterwards."""

    def __init__(self) -> None:
        self._full: dict[str, bool] = {}

    def is_open(self, subscription: Subscription) -> bool:
        held = len(subscription.consumer.dispatched.index) - subscription.consumer.extension
        if held >= subscription.consumer.prefetch:
            self._full[subscription.consumer.name] = True
        width = subscription.consumer.prefetch
        if self._full.get(subscription.consumer.name, False):
            width = max(1, width // 2)
        return held < width


class CountsWaiting(Prefetch):
    """Messages that wait for their delivery time take slots of every window."""

    def is_open(self, subscription: Subscription) -> bool:
        waiting = subscription.destination.counters.scheduled
        return (
            len(subscription.consumer.dispatched.index) - subscription.consumer.extension + waiting
            < subscription.consumer.prefetch
        )


class FirstOnly(Prefetch):
    """On a topic only the first subscription is served."""

    def is_open(self, subscription: Subscription) -> bool:
        destination = subscription.destination
        if not destination.is_queue and next(iter(destination.subscriptions.values())) is not subscription:
            return False
        return super().is_open(subscription)


class MarksNothing(Redelivery):
    """Redelivered messages are not marked."""

    def mark(self, deliveries: list[Delivery], last_delivered: int) -> None:
        """Forget it."""


class ForgetsReturn(Ordering):
    """Messages that come back are lost."""

    def put_back(self, line: PendingList, references: list[Reference]) -> None:
        super().put_back(line, references[1:])


class ReturnsReversed(Ordering):
    """Messages that come back stand in reverse order."""

    def put_back(self, line: PendingList, references: list[Reference]) -> None:
        waiting = line.take_returned()
        waiting.extend(reversed(references))
        line.put_first(waiting)


class RoundsAcknowledgement(Acknowledgement):
    """An acknowledgement of a range settles all but its last message."""

    def select(
        self, consumer: Consumer, rule: Rule, first: str, last: str, destination: str = ""
    ) -> list[Delivery] | None:
        found = super().select(consumer, rule, first, last, destination)
        return found[:-1] if found is not None and len(found) > 1 else found


class PoisonVanishes(DeadLetter):
    """A rejected message gets no dead letter."""

    def eligible(self, message: Message, source: str, expired: bool) -> bool:
        return super().eligible(message, source, expired) and message.expiration_ms > 0


class DeadLettersAstray(DeadLetter):
    """Dead letters go to the first queue instead of the dead-letter queue."""

    def target(self, source: str, subscriber: str = "") -> str:  # noqa: ARG002 - the defect is to ignore them
        return QUEUE + "q0"
