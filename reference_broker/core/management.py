"""What an operator may do to a running broker: purge, move, remove, limits, statistics.

* An operation answers with ``Counted`` or ``Refused`` (connection 0) if it carries a request number. Whoever asks for a
  destination that does not exist is told so (``unknown-destination``), and nothing is created.
* Purge, move and removal reach what waits; in the generations G0 to G3 only what a forced page-in brings, so a starved
  queue keeps its messages, except when it is removed. A purge takes what is in flight too, a move does not.
* With ``purge = "zeroed"`` (releases up to 5.14.3) the queue then also forgets what a purge did not reach: its metrics
  say 0, nobody gets the messages, and they are there again after a restart.
* A moved message keeps its expiration and priority, begins with no redeliveries, and names the queue that it came from.
  Nobody waits for memory to move one. What the target holds already (by id) stays where it is.
* A queue with consumers is not removed (``destination-in-use``).
* A limit that is lowered bounds what is in flight only when that has been settled; what waits gives way at once under
  ``fair``, never in the generations G0 to G3. A destination without a limit of its own follows the broker's. Raising a
  limit counts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.effects import Counted, Logged, Refused
from brokerproof.reference_broker.core.events import (
    Event,
    GetStaged,
    Move,
    Mqsc,
    Operation,
    Purge,
    RemoveQueue,
    ResetStatistics,
    SetMemoryLimit,
)
from brokerproof.reference_broker.core.matching import fault
from brokerproof.reference_broker.core.mq.mqsc import MqscError
from brokerproof.reference_broker.core.queue import Queue
from brokerproof.reference_broker.core.selector import BadSelector, Selector, parse

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.region import Region

LOGGER = "brokerproof.reference_broker.core.broker"
QUEUE_LOGGER = "org.apache.activemq.broker.region.Queue"


class Management:
    """The operations."""

    __slots__ = ("_region",)

    def __init__(self, region: Region) -> None:
        self._region = region

    def handlers(self) -> dict[type[Event], object]:
        """Event -> its handler, for the broker's table."""
        return {
            GetStaged: self._get_staged,
            Move: self._move,
            Mqsc: self._mqsc,
            Purge: self._purge,
            RemoveQueue: self._remove,
            ResetStatistics: self._reset,
            SetMemoryLimit: self._set_memory_limit,
        }

    def _purge(self, event: Purge) -> None:
        destination = self._find(event)
        if destination is not None:
            self._answer(event, self._emptied(destination))

    def _emptied(self, destination: Destination) -> int:
        """Purge, and say so in the words of ActiveMQ, who says how many there were and not how many are gone."""
        effects = self._region.effects
        counters = destination.counters
        before = counters.dequeued
        what = f"purge of {counters.size} messages"
        destination.purge()
        if destination.is_queue:
            effects.append(Logged("INFO", QUEUE_LOGGER, f"{destination.name} {what}"))
        if counters.size:
            effects.append(
                Logged(
                    "WARN",
                    QUEUE_LOGGER,
                    f"{destination.name} after {what}, message count stats report: {counters.size}",
                )
            )
        return counters.dequeued - before

    def _remove(self, event: RemoveQueue) -> None:
        queue = self._queue(event)
        if queue is None:
            return
        watching = len(queue.subscriptions) + queue.onlookers()
        if watching:
            text = f"{queue.name} has {watching} consumers; close them first"
            self._refuse(event, "destination-in-use", text)
            return
        count = queue.counters.size
        self._emptied(queue)
        self._region.remove(queue)
        self._answer(event, count)

    def _move(self, event: Move) -> None:
        region = self._region
        source = self._queue(event)
        if source is None:
            return
        wrong = fault(event.target) or region.temporaries.missing(event.target)
        if not wrong and event.target == source.name:
            wrong = f"{event.target} is the queue itself; name another destination"
        if wrong:
            self._refuse(event, "bad-destination", wrong)
            return
        try:
            selector = parse(event.selector)
        except BadSelector as error:
            self._refuse(event, "bad-selector", str(error))
            return
        self._answer(event, self._moved(source, region.destination(event.target), selector, event.count))

    def _moved(self, source: Queue, target: Destination, selector: Selector | None, most: int) -> int:
        region = self._region
        region.wake(source)  # what it loads is for consumers, too
        moved = 0
        kept: dict[int, bool] = {}
        while True:
            for reference in [one for one in source.line if one.order not in kept]:
                message = reference.message
                if target.holds(message.message_id) or not (selector is None or selector.selects(message)):
                    kept[reference.order] = True
                    continue
                region.policies.dead_letter.forget(message)
                copy = message.copy_to(target.name)
                copy.redelivery_count = 0
                copy.original_destination = source.name
                region.number(copy)
                if region.policies.timestamping.stamps_moved():
                    region.policies.timestamping.stamp(copy, region.now.wall_ms, False)
                target.publish(copy)
                source.give_away(reference)
                moved += 1
                if moved == most:
                    return moved
            cursor = source.cursor
            if cursor is None or not region.policies.memory.load(region.memory, source, cursor, source.page_size):
                return moved

    def _mqsc(self, event: Mqsc) -> None:
        stage = self._region.stage
        if stage is None:
            self._refuse(event, "unsupported", 'MQSC needs a queue manager; set generation delay = "ibm-mq"')
            return
        try:
            shown = stage.command(event.text)
        except MqscError as error:
            self._refuse(event, "bad-command", str(error))
            return
        for line in shown:
            stage.log(line)
        self._answer(event, len(shown), shown)

    def _get_staged(self, event: GetStaged) -> None:
        stage = self._region.stage
        if stage is None:
            self._refuse(event, "unsupported", 'there is no staging queue; set generation delay = "ibm-mq"')
            return
        (code, text), taken = stage.take(event.principal, event.correlation_id)
        if taken is None:
            self._refuse(event, code, text)
        else:
            self._answer(event, 1)

    def _queue(self, event: Operation) -> Queue | None:
        found = self._find(event)
        if found is None or isinstance(found, Queue):
            return found
        self._refuse(event, "bad-destination", f"{found.name} is a topic; only queues can be moved or removed")
        return None

    def _set_memory_limit(self, event: SetMemoryLimit) -> None:
        region = self._region
        tree = region.memory
        limit_bytes = event.limit_bytes
        if limit_bytes < 0:
            text = f"memory limit {limit_bytes} is negative; give a number of bytes, or 0 for no limit"
            self._refuse(event, "bad-limit", text)
            return
        if event.destination:
            destination = self._find(event)
            if destination is None:
                return
            destination.has_own_limit = limit_bytes > 0
            concerned = [destination]
            self._limit(destination, limit_bytes or tree.root.limit_bytes)
        else:
            tree.root.limit_bytes = limit_bytes
            concerned = [one for one in region.destinations.values() if not one.has_own_limit]
            for one in concerned:
                self._limit(one, limit_bytes)
        tree.lowered = True
        tree.relieved = True
        for one in concerned:
            region.policies.memory.shrink(tree, one)
        self._answer(event, 0)

    def _limit(self, destination: Destination, limit_bytes: int) -> None:
        before = destination.usage.percent()
        destination.usage.limit_bytes = limit_bytes
        if destination.usage.percent() < before:
            self._region.wake(destination)

    def _reset(self, event: ResetStatistics) -> None:
        if event.destination:
            destination = self._find(event)
            chosen = [] if destination is None else [destination]
        else:
            chosen = list(self._region.destinations.values())
        for one in chosen:
            self._region.policies.in_flight.reset(one.counters)
        if chosen or not event.destination:
            self._answer(event, sum(one.counters.size for one in chosen))

    def _find(self, event: Operation) -> Destination | None:
        destination = self._region.destinations.get(event.destination)
        if destination is None:
            text = f"{event.destination} does not exist; {type(event).__name__} ignored"
            self._region.effects.append(Logged("WARN", LOGGER, text))
            self._refuse(event, "unknown-destination", f"{event.destination!r} does not exist; name one that does")
        return destination

    def _refuse(self, event: Operation, code: str, text: str) -> None:
        if event.request:
            self._region.effects.append(Refused(0, event.request, code, text))

    def _answer(self, event: Operation, count: int, shown: list[str] | None = None) -> None:
        if event.request:
            self._region.effects.append(Counted(event.request, count, shown))
