"""Mutants that leave messages lying beside consumers that are entitled to them."""

from __future__ import annotations

from brokerproof.conformance.mutants.registry import Mutant, fresh
from brokerproof.reference_broker.core.prefetch import Prefetch
from brokerproof.reference_broker.core.pull import Pulling
from brokerproof.reference_broker.core.queue import Queue
from brokerproof.reference_broker.core.subscription import Subscription


class StarvesSuccessors(Prefetch):
    """Only the first exclusive consumer of a queue is ever served."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def is_open(self, subscription: Subscription) -> bool:
        consumer = subscription.consumer
        if not consumer.exclusive:
            return super().is_open(subscription)
        first = self._first.setdefault(subscription.destination.name, consumer.name)
        return first == consumer.name and super().is_open(subscription)


class StarvesBesideGroups(Prefetch):
    """On a queue with groups only the first consumer is ever served."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def is_open(self, subscription: Subscription) -> bool:
        consumer, dest = subscription.consumer, subscription.destination
        if not isinstance(dest, Queue) or dest.choices is None or consumer.selective or consumer.exclusive:
            return super().is_open(subscription)
        first = self._first.setdefault(dest.name, consumer.name)
        return first == consumer.name and super().is_open(subscription)


class PullsNothing(Pulling):
    """A pull is good for no message."""

    def quantity(self) -> int:
        return 0


ALL = (
    Mutant("exclusive-without-successor", "GEN-120", "Only the first exclusive consumer is ever served.", "prefetch",
           fresh(StarvesSuccessors)),
    Mutant("groups-without-successor", "GEN-121", "Beside groups only the first consumer is served.", "prefetch",
           fresh(StarvesBesideGroups)),
    Mutant("pulls-miss-what-waits", "GEN-122", "A pull is good for no message.", "pulling", fresh(PullsNothing)),
)  # fmt: skip
