"""Mutants of routing: durable subscriptions, wildcards, noLocal."""

from __future__ import annotations

from collections import deque

from brokerproof.reference_broker.core.acknowledgement import Acknowledgement, Rule
from brokerproof.reference_broker.core.attachment import Coverage
from brokerproof.reference_broker.core.backlog import Backlog
from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.destination import Destination
from brokerproof.reference_broker.core.durable import Durability, Durable
from brokerproof.reference_broker.core.events import Subscribe
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.reference import Reference
from brokerproof.reference_broker.core.routing import FanOut
from brokerproof.reference_broker.core.selection import Selection
from brokerproof.reference_broker.core.subscription import Consumer, Delivery, Subscription


class Asleep(Durability):
    """A durable subscription keeps nothing while nobody is connected to it."""

    def keeps(self, subscription: Subscription, message: Message) -> bool:
        durable = subscription.durable
        return durable is not None and durable.consumer is not None and super().keeps(subscription, message)


class ReturnsLast(Durability):
    """What a durable subscriber left unsettled goes behind what was never handed out."""

    def put_back(self, pending: deque[Reference], references: list[Reference]) -> None:
        pending.extend(references)


class ReturnsNothing(Durability):
    """What a durable subscriber left unsettled is lost."""

    def returns(self, reference: Reference) -> bool:  # noqa: ARG002 - whatever it is
        return False


class ForgetsMarks(Durability):
    """What a durable subscriber left unsettled comes again as if nobody had had it."""

    def returns(self, reference: Reference) -> bool:
        reference.message.redelivery_count = 0
        return super().returns(reference)


class NeverChanges(Durability):
    """A subscriber that asks for another selector or noLocal gets the old subscription."""

    def is_changed(self, durable: Durable, event: Subscribe) -> bool:
        return durable.asked != event.destination


class ForgetsSettlement(Acknowledgement):
    """A durable subscription forgets the last message that was acknowledged."""

    def select(
        self, consumer: Consumer, rule: Rule, first: str, last: str, destination: str = ""
    ) -> list[Delivery] | None:
        found = super().select(consumer, rule, first, last, destination)
        return found[:-1] if found and consumer.durable else found


class EvictsNewest(Backlog):
    """A slow subscriber loses the newest message instead of the oldest."""

    def evict(self, pending: deque[Reference]) -> Reference:
        return pending.pop()


class Hoards(Backlog):
    """The backlog of a slow subscriber may be twice as long."""

    def limit(self, policy: DestinationPolicy, prefetch: int) -> int:
        return 2 * super().limit(policy, prefetch)


class OwnVoice(Selection):
    """noLocal means nothing."""

    def wants(self, consumer: Consumer, message: Message) -> bool:
        return consumer.filter is None or consumer.filter.selects(message)


class ComesFirst(Coverage):
    """A wildcard does not cover what is created after its consumer came."""

    def joins(self, destination: Destination) -> bool:
        return destination.number < 0


class CoversAll(Coverage):
    """A wildcard covers destinations of every kind."""

    def covers(self, patterns: list[str], name: str) -> bool:
        return bool(patterns) and bool(name)


class NamesNothing(FanOut):
    """Copies do not say what was asked for."""

    def copy(self, message: Message, target: str) -> Message:
        return message.copy_to(target)


class NamesItself(FanOut):
    """Copies name the queue that they are on."""

    def copy(self, message: Message, target: str) -> Message:
        copy = message.copy_to(target)
        copy.original_destination = target
        return copy
