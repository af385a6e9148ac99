"""Mutants of memory: who gets it, what is counted, and what limits mean."""

from __future__ import annotations

from collections.abc import Iterable

from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.destination import Destination
from brokerproof.reference_broker.core.effects import Dispatch, Effect, Refused
from brokerproof.reference_broker.core.events import Event, Send, SetMemoryLimit
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.memory import MINIMUM_MESSAGE_BYTES, Memory, MemoryTree
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.paging import G1Memory
from brokerproof.reference_broker.core.policies import Policies
from brokerproof.reference_broker.core.queue import Queue
from brokerproof.reference_broker.core.records import Record
from brokerproof.reference_broker.core.reference import Reference
from brokerproof.reference_broker.core.subscription import Subscription


class OverLimit(Memory):
    """Everything stays in memory, whatever the limit."""

    def caches(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:  # noqa: ARG002 - the defect is to ignore them
        return not queue.line.stored

    def admit(  # the defect is to ignore who asks
        self, tree: MemoryTree, destination: Destination, _subscription: Subscription, reference: Reference
    ) -> bool:
        tree.charge(destination, reference)
        return True


class IgnoresOwnLimit(Memory):
    """Only the broker's limit counts, a destination's own does not."""

    def _has_space(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:
        return tree.root.is_below(queue.mark_percent) and tree.root.fits(size_bytes)

    def _make_room(self, tree: MemoryTree, destination: Destination, size_bytes: int) -> bool:
        return tree.root.fits(size_bytes) and destination is not None


class Leaks(Memory):
    """Every loaded message leaves a byte behind."""

    def admit(
        self, tree: MemoryTree, destination: Destination, subscription: Subscription, reference: Reference
    ) -> bool:
        admitted = super().admit(tree, destination, subscription, reference)
        if admitted:
            destination.usage.change(1)
        return admitted


class StarvingMemory(G1Memory):
    """The seed's broker: no message is paged in while the whole broker is above the mark."""

    throttles = False


# -- figures


class ForgetsBroker(Memory):
    """The broker's node gets a byte more per message than its destinations."""

    def caches(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:
        tree.root.change(1)
        return super().caches(tree, queue, size_bytes)


class RoundsUp(Broker):
    """Percentages are rounded up."""

    def counters(self, destination: str, now: Now) -> dict[str, int] | None:
        found = super().counters(destination, now)
        if found is not None and found["memory_limit_bytes"]:
            found["memory_percent"] = -(-100 * found["memory_bytes"] // found["memory_limit_bytes"])
        return found


class ChargesTheMinimum(Memory):
    """Bodies and properties cost nothing."""

    def size_bytes(self, message: Message, minimum_bytes: int = MINIMUM_MESSAGE_BYTES) -> int:  # noqa: ARG002 - the defect
        return minimum_bytes


class ChargesInSteps(Memory):
    """What a message costs is rounded up to 64 bytes."""

    def size_bytes(self, message: Message, minimum_bytes: int = MINIMUM_MESSAGE_BYTES) -> int:
        return -(-super().size_bytes(message, minimum_bytes) // 64) * 64


class ReleasesAtDispatch(Broker):
    """A message costs nothing any more as soon as it is dispatched."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        for effect in effects:
            consumer = self._consumers.get(effect.consumer) if isinstance(effect, Dispatch) else None
            for delivery in consumer.dispatched if consumer is not None else ():
                if delivery.dispatch is effect:
                    self._region.memory.discharge(delivery.subscription.destination, delivery.reference)
        return effects


class UnderZero(Memory):
    """Each message that arrives takes a byte off."""

    def caches(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:
        queue.usage.change(-1)
        return super().caches(tree, queue, size_bytes)


class ZeroIsFull(Memory):
    """A limit of 0 is taken for a limit."""

    def _has_space(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:
        return tree.root.limit_bytes > 0 and super()._has_space(tree, queue, size_bytes)

    def _make_room(self, tree: MemoryTree, destination: Destination, size_bytes: int) -> bool:
        return tree.root.limit_bytes > 0 and super()._make_room(tree, destination, size_bytes)


class FirstEntry(Broker):
    """The first policy entry that fits decides, not the most specific one."""

    def __init__(self, config: BrokerConfig, policies: Policies | None = None) -> None:
        entries = config.destinations
        config.destinations = entries[:1]
        super().__init__(config, policies)


class RefusesLarge(Broker):
    """A message that is larger than the broker's memory is refused."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        limit = self._region.memory.root.limit_bytes
        if isinstance(event, Send) and 0 < limit < len(event.message.body):
            return [Refused(event.connection, event.request, "no-space", "the message exceeds the memory limit")]
        return super().handle(event, now)


class IgnoresMark(Memory):
    """Arriving messages stay in memory until it is full."""

    def _has_space(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:
        return queue.usage.fits(size_bytes) and tree.root.fits(size_bytes)


class LoadsWithoutDemand(Memory):
    """The sweep reads into memory whatever fits."""

    def look_ahead(self, tree: MemoryTree, queue: Queue, _most: int) -> None:
        line = queue.line
        while line.stored:
            size_bytes = line.next_stored().size_bytes
            if not (queue.usage.fits(size_bytes) and tree.root.fits(size_bytes)):
                return
            line.page_in()


class StopsLate(Memory):
    """One message more than the mark admits stays in memory."""

    def _has_space(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:
        governing = queue.usage if queue.has_own_limit else tree.root
        late = 100 * (governing.used_bytes - size_bytes) < queue.mark_percent * governing.limit_bytes
        return super()._has_space(tree, queue, size_bytes) or (late and tree.root.fits(size_bytes))


class NeverGivesWay(Memory):
    """A lower limit takes nothing out of memory."""

    def shrink(self, tree: MemoryTree, destination: Destination) -> None:
        """Nothing."""


class SweepsGreedily(Memory):
    """The sweep reads three pages into memory."""

    def look_ahead(self, tree: MemoryTree, queue: Queue, most: int) -> None:
        for _ in range(3 * most):
            if not queue.line.stored or not self._has_space(tree, queue, queue.line.next_stored().size_bytes):
                return
            queue.line.page_in()


class SweepsBlindly(Memory):
    """The sweep reads a page into memory, whatever the mark says."""

    def look_ahead(self, _tree: MemoryTree, queue: Queue, most: int) -> None:
        for _ in range(most):
            if queue.line.stored:
                queue.line.page_in()


class ReadsEverything(Memory):
    """Whoever wants one message gets all that fit read into memory."""

    def read_ahead(self, tree: MemoryTree, queue: Queue) -> None:
        while queue.line.stored and self._has_space(tree, queue, queue.line.next_stored().size_bytes):
            queue.line.page_in()


class ForgetsUncommitted(Memory):
    """What waits for a commit costs nothing."""

    def keeps_uncommitted(self, _tree: MemoryTree, _queue: Queue, _size_bytes: int) -> bool:
        return False


class KeepsRolledBack(Memory):
    """Every message that waits for a commit leaves a byte behind."""

    def keeps_uncommitted(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:
        queue.usage.change(1)
        return super().keeps_uncommitted(tree, queue, size_bytes)


# -- starvation


class StarvesBesideMany(G1Memory):
    """As ActiveMQ's G1, but only if three or more queues hold memory."""

    throttles = False

    def has_space(self, tree: MemoryTree, queue: Queue, *, volatile: bool = False, pending_bytes: int = 0) -> bool:
        holding = [other for other in tree.queues if other.usage.used_bytes]
        return len(holding) < 3 or super().has_space(tree, queue, volatile=volatile, pending_bytes=pending_bytes)


class StarvesDurables(Memory):
    """Durable subscribers get nothing while the broker's memory is above the mark."""

    def admit(
        self, tree: MemoryTree, destination: Destination, subscription: Subscription, reference: Reference
    ) -> bool:
        short = subscription.durable is not None and not tree.root.is_below(destination.mark_percent)
        return not short and super().admit(tree, destination, subscription, reference)


class SleepsOn(Memory):
    """Memory that becomes free wakes nobody who waits for it."""

    wakes_on_relief = False


class Hesitates(Memory):
    """While others hold half of the memory, a consumer gets its message at the second try only."""

    def __init__(self) -> None:
        self._tried: Reference | None = None

    def admit(
        self, tree: MemoryTree, destination: Destination, subscription: Subscription, reference: Reference
    ) -> bool:
        return self._is_second(tree, destination, reference) and super().admit(
            tree, destination, subscription, reference
        )

    def caches(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:
        return not self._pressed(tree, queue) and super().caches(tree, queue, size_bytes)

    def _is_second(self, tree: MemoryTree, destination: Destination, reference: Reference) -> bool:
        if self._tried is reference or not self._pressed(tree, destination):
            return True
        self._tried = reference
        return False

    def _pressed(self, tree: MemoryTree, destination: Destination) -> bool:
        return (tree.root.used_bytes - destination.usage.used_bytes) * 2 >= tree.root.limit_bytes > 0


class KeepsRefused(Broker):
    """A send that is refused for want of memory is kept, and goes through when there is some."""

    def __init__(self, config: BrokerConfig, policies: Policies | None = None) -> None:
        super().__init__(config, policies)
        self._kept: list[Send] = []

    def handle(self, event: Event, now: Now) -> list[Effect]:
        effects = super().handle(event, now)
        if any(isinstance(effect, Refused) and effect.code == "no-space" for effect in effects):
            if isinstance(event, Send):
                self._kept.append(event)
        elif self._kept and self._connections and self._region.memory.root.is_below(100):
            again = self._kept.pop(0)  # its own connection was closed by the refusal
            effects += super().handle(Send(next(iter(self._connections)), again.message), now)
        return effects


class NeverRefuses(Broker):
    """A send that finds no room waits, although it is to be refused."""

    def __init__(self, config: BrokerConfig, policies: Policies | None = None) -> None:
        config.send_fail_if_no_space = False
        for entry in config.destinations:
            entry.send_fail_if_no_space = False
        super().__init__(config, policies)


class OvertakesStore(Memory):
    """A message that arrives stays in memory although others of its queue are in the store only."""

    def caches(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:
        return self._has_space(tree, queue, size_bytes)


class RestoresIntoMemory(Broker):
    """After a restart everything is in memory again at once."""

    def restore(self, records: Iterable[Record], now: Now) -> list[Effect]:
        effects = super().restore(records, now)
        for queue in self._region.memory.queues:
            while queue.line.stored:
                queue.line.page_in()
        return effects


class LimitSticks(Broker):
    """Destinations keep the limit that the broker had when they were created."""

    def handle(self, event: Event, now: Now) -> list[Effect]:
        before = {name: one.usage.limit_bytes for name, one in self._region.destinations.items()}
        effects = super().handle(event, now)
        if isinstance(event, SetMemoryLimit) and not event.destination:
            for name, limit_bytes in before.items():
                self._region.destinations[name].usage.limit_bytes = limit_bytes
        return effects


# -- the disk


class NoStoreLimit(Broker):
    """The store has no limit."""

    def __init__(self, config: BrokerConfig, policies: Policies | None = None) -> None:
        config.store_limit_bytes = 0
        super().__init__(config, policies)


class NoTempLimit(Broker):
    """Temporary files have no limit."""

    def __init__(self, config: BrokerConfig, policies: Policies | None = None) -> None:
        config.temp_limit_bytes = 0
        super().__init__(config, policies)


class StopsAll(Broker):
    """A send is refused while something is full that it does not need."""

    #: What is full, and for whom that is no matter: persistent messages or others.
    figure = "store_percent"
    persistent = False

    def handle(self, event: Event, now: Now) -> list[Effect]:
        concerned = isinstance(event, Send) and event.message.persistent == self.persistent
        if isinstance(event, Send) and concerned and self.broker_counters().get(self.figure, 0) >= 100:
            return [Refused(event.connection, event.request, "no-space", "no space on the disk")]
        return super().handle(event, now)


class StopsPersistent(StopsAll):
    """The same: full temporary files stop persistent messages."""

    figure = "temp_percent"
    persistent = True
