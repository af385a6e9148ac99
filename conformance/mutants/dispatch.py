"""Mutants of handing out: selectors, groups, exclusive consumers, priorities, browsers, pulls, isolation."""

from __future__ import annotations

from collections import deque

from brokerproof.conformance.mutants.registry import Mutant, fresh
from brokerproof.reference_broker.core.browser import Browsing
from brokerproof.reference_broker.core.exclusive import Exclusivity
from brokerproof.reference_broker.core.groups import Grouping, Groups
from brokerproof.reference_broker.core.message import DEFAULT_PRIORITY, Message
from brokerproof.reference_broker.core.priority import HIGHEST, Priority
from brokerproof.reference_broker.core.pull import Pulling
from brokerproof.reference_broker.core.queue import Queue
from brokerproof.reference_broker.core.reference import Reference
from brokerproof.reference_broker.core.round_robin import RoundRobin
from brokerproof.reference_broker.core.selection import Selection
from brokerproof.reference_broker.core.subscription import Consumer, Subscription


class TakesUnknownForTrue(Selection):
    """A selector that is unknown for a message selects it."""

    def wants(self, consumer: Consumer, message: Message) -> bool:
        if consumer.filter is not None and consumer.filter.condition.truth(message) is None:
            return True
        return super().wants(consumer, message)


class WantsEverything(Selection):
    """Selectors mean nothing."""

    def wants(self, consumer: Consumer, message: Message) -> bool:
        return not consumer.no_local or message.sender != consumer.connection


class HidesEverySecond(Selection):
    """Every second message is hidden from consumers with a selector."""

    def wants(self, consumer: Consumer, message: Message) -> bool:
        return super().wants(consumer, message) and (consumer.filter is None or message.sequence % 2 == 0)


class HearsItself(Selection):
    """noLocal means nothing on queues."""

    def wants(self, consumer: Consumer, message: Message) -> bool:
        return consumer.filter is None or consumer.filter.selects(message)


class NobodyAlone(Exclusivity):
    """An exclusive consumer is one among others."""

    def chosen(self, present: list[Subscription]) -> Subscription | None:  # noqa: ARG002 - the defect is to ignore them
        return None


class NewestAlone(Exclusivity):
    """Every newcomer that asks for exclusivity takes it over."""

    def chosen(self, present: list[Subscription]) -> Subscription | None:
        asking = [subscription for subscription in present if subscription.consumer.exclusive]
        return asking[-1] if asking else None


class TearsGroups(Grouping):
    """A group has no owner."""

    def owner(self, groups: Groups, message: Message) -> Subscription | None:  # noqa: ARG002 - the defect
        return None


class ForgetsGroups(Grouping):
    """A group ends with every second of its messages."""

    def __init__(self) -> None:
        self._turn = False

    def closes(self, message: Message) -> bool:  # noqa: ARG002 - the defect
        self._turn = not self._turn
        return not self._turn


class KnowsNoRank(RoundRobin):
    """The priority of consumers means nothing."""

    def join(self, ring: deque[Subscription], subscription: Subscription) -> None:
        ring.append(subscription)


class StandsStill(RoundRobin):
    """The same consumer is served until it is full."""

    def served(self, ring: deque[Subscription]) -> None:
        pass


class WaitsForEveryWrite(RoundRobin):
    """An asynchronous dispatch holds up its destination until it is written."""

    def holds_always(self) -> bool:
        return True


class AllAlike(Priority):
    """The priority of messages means nothing."""

    def rank(self, message: Message) -> int:  # noqa: ARG002 - the defect
        return 0


class LowestFirst(Priority):
    """Messages of lower priority go first."""

    def rank(self, message: Message) -> int:
        return HIGHEST - super().rank(message)


class OrdinaryOnceReturned(Priority):
    """What comes back waits as if it had the default priority."""

    def rank(self, message: Message) -> int:
        return HIGHEST - DEFAULT_PRIORITY if message.redelivery_count else super().rank(message)


class ShowsAllButTheOldest(Browsing):
    """A browser is not shown the oldest message."""

    def shown(self, queue: Queue) -> list[Reference]:
        return super().shown(queue)[1:]


class ShowsBackwards(Browsing):
    """A browser is shown the newest message first."""

    def shown(self, queue: Queue) -> list[Reference]:
        return super().shown(queue)[::-1]


class ShowsWaitingOnly(Browsing):
    """A browser is not shown what others hold."""

    def shown(self, queue: Queue) -> list[Reference]:
        return list(queue.line)


class GivesTwo(Pulling):
    """A pull brings two messages if there are two."""

    def quantity(self) -> int:
        return 2


ALL = (
    Mutant("selector-ignored", "GEN-020", "Selectors mean nothing.", "selection", fresh(WantsEverything)),
    Mutant("selector-unknown-is-true", "GEN-020", "A selector that is unknown for a message selects it.", "selection",
           fresh(TakesUnknownForTrue)),
    Mutant("selector-hides-every-second", "GEN-021", "Every second message is hidden from selectors.", "selection",
           fresh(HidesEverySecond)),
    Mutant("no-local-not-on-queues", "GEN-022", "noLocal means nothing on queues.", "selection", fresh(HearsItself)),
    Mutant("exclusive-ignored", "GEN-023", "An exclusive consumer is one among others.", "exclusivity",
           fresh(NobodyAlone)),
    Mutant("exclusive-newest", "GEN-023", "Every newcomer takes exclusivity over.", "exclusivity", fresh(NewestAlone)),
    Mutant("group-torn", "GEN-024", "A group has no owner.", "grouping", fresh(TearsGroups)),
    Mutant("group-forgotten", "GEN-024", "A group ends with every second of its messages.", "grouping",
           fresh(ForgetsGroups)),
    Mutant("consumer-priority-ignored", "GEN-025", "The priority of consumers means nothing.", "dispatch",
           fresh(KnowsNoRank)),
    Mutant("priority-ignored", "GEN-008", "The priority of messages means nothing.", "priority", fresh(AllAlike)),
    Mutant("priority-lost-once-returned", "GEN-008", "What comes back waits as if it had the default priority.",
           "priority", fresh(OrdinaryOnceReturned)),
    Mutant("priority-reversed", "GEN-008", "Messages of lower priority go first.", "priority", fresh(LowestFirst)),
    Mutant("rotation-stands-still", "GEN-010", "The same consumer is served until it is full.", "dispatch",
           fresh(StandsStill)),
    Mutant("browser-misses-oldest", "GEN-026", "A browser is not shown the oldest message.", "browsing",
           fresh(ShowsAllButTheOldest)),
    Mutant("browser-backwards", "GEN-026", "A browser is shown the newest message first.", "browsing",
           fresh(ShowsBackwards)),
    Mutant("browser-sees-waiting-only", "GEN-026", "A browser is not shown what others hold.", "browsing",
           fresh(ShowsWaitingOnly)),
    Mutant("pull-brings-two", "PRE-006", "A pull brings two messages.", "pulling", fresh(GivesTwo)),
    Mutant("async-waits-for-write", "PRE-011", "An asynchronous dispatch holds up its destination until it is written.",
           "dispatch", fresh(WaitsForEveryWrite)),
)  # fmt: skip
