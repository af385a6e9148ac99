"""Mutants of acknowledgement types and of what they do to windows."""

from __future__ import annotations

from brokerproof.conformance.mutants.in_flight import ForgetsClose
from brokerproof.conformance.mutants.registry import Mutant, fresh
from brokerproof.reference_broker.core.acknowledgement import RANGE, RULES, Acknowledgement, Rule
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.browser import Browsing
from brokerproof.reference_broker.core.config import DURABLE_TOPIC_PREFETCH, QUEUE_PREFETCH, DestinationPolicy
from brokerproof.reference_broker.core.destination import CLIENT_EXPIRED, POISONED
from brokerproof.reference_broker.core.effects import Accepted, Effect
from brokerproof.reference_broker.core.events import REDELIVERED, STANDARD, Event, Subscribe
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import QUEUE
from brokerproof.reference_broker.core.prefetch import Prefetch
from brokerproof.reference_broker.core.queue import Queue
from brokerproof.reference_broker.core.reference import Reference
from brokerproof.reference_broker.core.subscription import Consumer, Delivery, Subscription


class BelievesRedelivered(Acknowledgement):
    """REDELIVERED settles what it names."""

    def rule(self, kind: int) -> Rule | None:
        return RULES[STANDARD] if kind == REDELIVERED else super().rule(kind)


class TakesThePrefix(Acknowledgement):
    """On a topic an INDIVIDUAL acknowledgement without a first id settles everything before it, as ActiveMQ's does."""

    def select(
        self, consumer: Consumer, rule: Rule, first: str, last: str, destination: str = ""
    ) -> list[Delivery] | None:
        topic = bool(consumer.subscriptions) and not consumer.subscriptions[0].destination.is_queue
        if rule.name == "INDIVIDUAL" and not first and topic:
            return consumer.dispatched.between("", last, destination)
        return super().select(consumer, rule, first, last, destination)


class GoesToTheEnd(Acknowledgement):
    """POISON and EXPIRED with a wrong last id take the rest of the list, as ActiveMQ does."""

    def select(
        self, consumer: Consumer, rule: Rule, first: str, last: str, destination: str = ""
    ) -> list[Delivery] | None:
        found = super().select(consumer, rule, first, last, destination)
        if found is None and rule.scope == RANGE and rule.outcome in (POISONED, CLIENT_EXPIRED):
            start = consumer.dispatched.head if not first else consumer.dispatched.find(first)
            found = []
            while start is not None:
                found.append(start)
                start = start.after
        return found


class WidensTooMuch(Prefetch):
    """DELIVERED opens one slot more than it reports."""

    def widen(self, consumer: Consumer, count: int) -> None:
        super().widen(consumer, count + 1)


class NeverNarrows(Prefetch):
    """A window that DELIVERED has widened stays so."""

    def narrow(self, consumer: Consumer, count: int) -> None:
        """Forget it."""


class HalvesDefault(Prefetch):
    """The default windows are half as wide."""

    def granted(self, event: Subscribe, entry: DestinationPolicy) -> int:
        granted = super().granted(event, entry)
        return granted // 2 if granted in (QUEUE_PREFETCH, DURABLE_TOPIC_PREFETCH) else granted


class PolicyAlways(Prefetch):
    """The policy's prefetch replaces any that a consumer asks for."""

    def granted(self, event: Subscribe, entry: DestinationPolicy) -> int:
        changed = entry.queue_prefetch != QUEUE_PREFETCH and event.destination.startswith(QUEUE)
        return entry.queue_prefetch if changed else super().granted(event, entry)


class StallsOnTopics(Prefetch):
    """A subscriber of several topics gets no more than its prefetch, ever: nothing frees a slot."""

    def __init__(self) -> None:
        #: Consumer -> the numbers of its deliveries so far.
        self._given: dict[str, dict[int, bool]] = {}

    def is_open(self, subscription: Subscription) -> bool:
        consumer = subscription.consumer
        if not consumer.scattered or consumer.durable or subscription.destination.is_queue:
            return super().is_open(subscription)
        given = self._given.setdefault(consumer.name, {})
        for delivery in consumer.dispatched:
            given[delivery.number] = True
        return len(given) < consumer.prefetch


class AnswersLate(Broker):
    """The receipt of a SUBSCRIBE comes after the messages that it causes."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        if isinstance(event, Subscribe):
            answers = [effect for effect in effects if isinstance(effect, Accepted)]
            return [effect for effect in effects if not isinstance(effect, Accepted)] + answers
        return effects


class NeverSynchronous(Broker):
    """Nobody gets synchronous dispatch (ActiveMQ since 5.15.5, over STOMP)."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        if isinstance(event, Subscribe):
            event.dispatch_async = True
        return super().handle(event, now)


class BrowserDequeues(Browsing):
    """What a browser has acknowledged counts as dequeued."""

    def settled(self, queue: Queue, original: Reference) -> None:  # noqa: ARG002 - the defect is in the counting
        queue.counters.dequeued += 1


ALL = (
    Mutant("prefetch-default-halved", "PRE-004", "The default windows are half as wide.", "prefetch",
           fresh(HalvesDefault)),
    Mutant("prefetch-policy-always", "PRE-008", "The policy's prefetch replaces any.", "prefetch",
           fresh(PolicyAlways)),
    Mutant("stomp-always-asynchronous", "PRE-007", "Nobody gets synchronous dispatch.", broker=NeverSynchronous),
    Mutant("receipt-after-messages", "PRE-009", "The receipt of a SUBSCRIBE comes late.", broker=AnswersLate),
    Mutant("rollback-keeps-window-wide", "PRE-010", "A rollback leaves the window wide.", "prefetch",
           fresh(NeverNarrows)),
    Mutant("topic-wildcard-stalls", "INF-016", "A subscriber of several topics gets its prefetch and no more.",
           "prefetch", fresh(StallsOnTopics)),
    Mutant("browser-close-not-booked", "INF-014", "A browser that goes takes nothing off the count.", "in_flight",
           fresh(ForgetsClose)),
    Mutant("browser-dequeues", "INF-014", "What a browser has seen counts as dequeued.", "browsing",
           fresh(BrowserDequeues)),
    Mutant("ack-believes-redelivered", "INF-009", "REDELIVERED settles.", "acknowledgement",
           fresh(BelievesRedelivered)),
    Mutant("ack-individual-takes-prefix", "INF-015", "On a topic INDIVIDUAL settles everything before it.",
           "acknowledgement", fresh(TakesThePrefix)),
    Mutant("ack-goes-to-the-end", "INF-017", "POISON with a wrong last id takes the rest of the list.",
           "acknowledgement", fresh(GoesToTheEnd)),
    Mutant("prefetch-widens-too-much", "PRE-005", "DELIVERED opens a slot too many.", "prefetch",
           fresh(WidensTooMuch)),
    Mutant("prefetch-never-narrows", "PRE-005", "A widened window stays so.", "prefetch", fresh(NeverNarrows)),
)  # fmt: skip
