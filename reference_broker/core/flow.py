"""Producer flow control: what happens to a send that finds no space (6 of the notes).

Three things can be full: memory, in the generations G0 to G3 (``paging.py``); the store and temporary files, in every
generation, if they have a limit (``disk.py``).

* Memory is full for a destination if its node, or the broker's, is at 100 % or above. The broker's concerns every
  destination, also topics and destinations that nobody has used yet.
* The store is full for a persistent message at the share of its limit that the policy entry says
  (``store_high_water_percent``), for a topic only if it has durable subscriptions, for a name that stands for several
  destinations if it is for one of them. Temporary files are full, at their limit, for any other message, and for a
  publication that subscribers without a store would wait for.
* Memory asks only destinations whose policy entry has ``producer_flow_control``, and lets delayed messages pass; the
  disk asks all. What the broker itself sends (dead letters, moved messages) never waits.
* A send that finds no space is refused at once (code ``no-space``, if ``send_fail_if_no_space``; never for a network
  bridge), or it waits.
* Waiting: a confirmed send is answered later, and nothing else of its connection waits, except that in G0 to G3 who
  waits for the disk stops reading altogether. An unconfirmed one stops its connection in any case (``Throttled``):
  nothing more is read from it until the send went through; unless its producer has a window, which ends by itself,
  because it gets its credit back (``Credited``) only when the send went through or was refused.
* A sender that asks for answers and waits for none of them has no end by itself: when more than ``CONFIRMED_MAX`` of
  its sends wait, its connection is stopped as well, or it would fill the memory that there is not.
* Waiting sends of a destination go through first come, first served, as soon as there is space, at the beginning of its
  dispatch at the latest; but nobody waits for somebody who waits for something else: each has a line for persistent
  messages and one for others, and two more for those that are delayed. They were stamped when they arrived. One that
  has expired meanwhile expires; one whose transaction was rolled back is refused (none is committed while one of its
  sends waits); one whose message id was used meanwhile is refused.
* With ``send_fail_if_no_space_after_ms`` a send to a queue waits no longer than that; then it is refused.
* A sender that goes leaves its waiting sends behind, and they go through (as measured); in a transaction they fail.

Generation ``fair`` holds no send for want of memory: a message that arrives needs none.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count
from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.effects import Credited, Logged, Refused, Throttled
from brokerproof.reference_broker.core.instant import NS_PER_MS
from brokerproof.reference_broker.core.matching import is_queue, policy_for
from brokerproof.reference_broker.core.topic import Topic

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.arrival import Arrivals
    from brokerproof.reference_broker.core.config import DestinationPolicy
    from brokerproof.reference_broker.core.events import Send
    from brokerproof.reference_broker.core.memory import Usage
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.region import Region

NO_SPACE = "no-space"
FULL_PERCENT = 100
LOGGER = "org.apache.activemq.broker.region.Queue"
#: Sends of one connection that may wait while it goes on.
CONFIRMED_MAX = 250


class BlockedSend:
    """A send that waits for space."""

    __slots__ = ("ended", "event", "kind", "number", "stops")

    def __init__(self, event: Send, number: int, *, stops: bool) -> None:
        self.event = event
        #: Sends are numbered in the order in which they began to wait.
        self.number = number
        self.kind = kind_of(event)
        #: Nothing is read from its connection meanwhile.
        self.stops = stops
        #: It went through or was refused.
        self.ended = False


def kind_of(event: Send) -> tuple[bool, bool]:
    """Sends to one destination that are of one kind wait for the same: they are persistent or not, delayed or not."""
    return event.message.persistent, is_delayed(event.message)


def is_delayed(message: Message) -> bool:
    """Whether a delay is asked for; then the message needs no memory yet."""
    return message.delay_ms != 0 or message.deliver_at_ms != 0


class FlowControl:
    """All sends that wait."""

    __slots__ = ("_deadlines", "_of_connection", "_region", "_serial", "_totals", "stopped", "waiting")

    def __init__(self, region: Region) -> None:
        self._region = region
        self._serial = count()
        #: (due time, number, send)
        self._deadlines: list[tuple[int, int, BlockedSend]] = []
        #: How many sends have had to wait since the start, by destination.
        self._totals: dict[str, int] = {}
        #: Connection -> how many of its sends wait.
        self._of_connection: dict[int, int] = {}
        #: By destination, then by kind, oldest first; no empty ones.
        self.waiting: dict[str, dict[tuple[bool, bool], deque[BlockedSend]]] = {}
        #: Connection -> how many of its sends stop it.
        self.stopped: dict[int, int] = {}

    # -- a send arrives

    def withholds(self, event: Send, arrivals: Arrivals) -> bool:
        """Whether a send finds no space: then it fails at once, or it waits."""
        full = self.obstacle(event)
        if full is None:
            return False
        fails = self._policy(event.message.destination).send_fail_if_no_space
        fails = self._region.config.send_fail_if_no_space if fails is None else fails
        if fails and not event.network:
            self._fail(event, full)
        else:
            arrivals.take_over(event.message, network=event.network)
            self._wait(event, full)  # where it goes, which an alias decides
        return True

    def _fail(self, event: Send, full: Usage | None) -> None:
        name = event.message.destination
        figures = "" if full is None else f" ({full.used_bytes} of {full.limit_bytes} bytes are used)"
        room = "room" if full is None else full.room
        text = (
            f"javax.jms.ResourceAllocationException: no {room} for a message to {name}{figures}; "
            "consume or purge what is there, or raise the limit"
        )
        refuse(self._region, event, NO_SPACE, text)

    def _wait(self, event: Send, full: Usage) -> None:
        region = self._region
        name = event.message.destination
        disk = full in (self._store_usage(), region.memory.temp)
        windowless = not event.request and not event.credit_bytes
        waiting_now = self._of_connection[event.connection] = self._of_connection.get(event.connection, 0) + 1
        stops = windowless or (disk and region.policies.memory.disk_stops) or waiting_now > CONFIRMED_MAX
        waiting = BlockedSend(event, next(self._serial), stops=stops)
        lines = self.waiting.get(name)
        if lines is None:
            lines = self.waiting[name] = {}
            text = f"no {full.room}; producers of {name} will be throttled until messages have been consumed"
            region.effects.append(Logged("INFO", LOGGER, text))
        line = lines.get(waiting.kind)
        if line is None:
            line = lines[waiting.kind] = deque()
        line.append(waiting)
        self._totals[name] = self.total(name) + 1
        after_ms = self._policy(name).send_fail_if_no_space_after_ms
        after_ms = region.config.send_fail_if_no_space_after_ms if after_ms is None else after_ms
        if after_ms > 0 and is_queue(name):
            heapq.heappush(self._deadlines, (region.now.mono_ns + after_ms * NS_PER_MS, waiting.number, waiting))
        if event.number:
            region.duplicate_detection.waits(event.producer, event.number)
        if waiting.stops:
            stopped = self.stopped.get(event.connection, 0)
            self.stopped[event.connection] = stopped + 1
            if not stopped:
                region.effects.append(Throttled(event.connection, True))

    # -- the wait ends

    def count(self, name: str) -> int:
        """How many sends wait for a destination."""
        lines = self.waiting.get(name)
        return 0 if lines is None else sum(len(line) for line in lines.values())

    def awaits(self, connection: int, transaction: str) -> bool:
        """Whether a send waits that is to be a part of that transaction."""
        events = [waiting.event for lines in self.waiting.values() for line in lines.values() for waiting in line]
        return any(event.connection == connection and event.transaction == transaction for event in events)

    def total(self, name: str) -> int:
        """How many sends to a destination have had to wait so far."""
        return self._totals.get(name, 0)

    def ready(self) -> Send | None:
        """The next send that can go through; it waits no longer. None: there is none."""
        for lines in self.waiting.values():
            first: BlockedSend | None = None
            for line in lines.values():
                waiting = line[0]
                if (first is None or waiting.number < first.number) and self.obstacle(waiting.event) is None:
                    first = waiting
            if first is not None:
                return self._end(first).event
        return None

    def expire(self) -> None:
        """Refuse the sends that have waited too long."""
        while (due_ns := self.next_due_ns()) is not None and due_ns <= self._region.now.mono_ns:
            late = self._end(heapq.heappop(self._deadlines)[2]).event
            self._fail(late, self.obstacle(late))

    def next_due_ns(self) -> int | None:
        """When the next send will have waited too long."""
        deadlines = self._deadlines
        while deadlines:
            due_ns, _, waiting = deadlines[0]
            if not waiting.ended:
                return due_ns
            heapq.heappop(deadlines)
        return None

    def _end(self, waiting: BlockedSend) -> BlockedSend:
        event = waiting.event
        name = event.message.destination
        waiting.ended = True
        lines = self.waiting[name]
        line = lines[waiting.kind]
        line.remove(waiting)  # the first of its line, or nearly
        if not line:
            del lines[waiting.kind]
            if not lines:
                del self.waiting[name]
        self._of_connection[event.connection] -= 1
        if not self._of_connection[event.connection]:
            del self._of_connection[event.connection]
        if waiting.stops:
            self.stopped[event.connection] -= 1
            if not self.stopped[event.connection]:
                del self.stopped[event.connection]
                self._region.effects.append(Throttled(event.connection, False))
        return waiting

    # -- what can be full

    def obstacle(self, event: Send) -> Usage | None:
        """What has no space for a send; None: it can go through."""
        message = event.message
        region = self._region
        if region.statistics is not None and region.statistics.asks(message):
            return None
        if region.policies.memory.throttles and not is_delayed(message):
            full = self._full_memory(message.destination)
            if full is not None:
                return full
        temp = region.memory.temp
        temp_full = temp is not None and not temp.is_below(FULL_PERCENT)
        if temp_full and (not message.persistent or self._spools(message.destination)):
            return temp
        if not message.persistent:
            return None
        store = self._store_usage()
        return store if store is not None and self._fills(store, message.destination) else None

    def _full_memory(self, name: str) -> Usage | None:
        """The first that is full of the destinations that a name stands for (a copy for each, or for none), or the
        broker's.
        """
        region = self._region
        for target in self._targets(name):
            known = region.destinations.get(target)
            if known is not None and known.policy.producer_flow_control and not known.usage.is_below(FULL_PERCENT):
                return known.usage
        if self._policy(name).producer_flow_control and not region.memory.root.is_below(FULL_PERCENT):
            return region.memory.root
        return None

    def _fills(self, store: Usage, name: str) -> bool:
        """Whether the store is full for one of the destinations that a name stands for, and gets a message there."""
        region = self._region
        for target in self._targets(name):
            topic = region.destinations.get(target)
            stored = is_queue(target) or (isinstance(topic, Topic) and len(topic.durables) > 0)
            if stored and not store.is_below(self._policy(target).store_high_water_percent):
                return True
        return False

    def _spools(self, name: str) -> bool:
        """Whether the name stands for a topic with subscribers that are not durable: their backlog is in no store."""
        topics = [self._region.destinations.get(target) for target in self._targets(name)]
        return any(
            subscription.durable is None
            for topic in topics
            if isinstance(topic, Topic)
            for subscription in topic.subscriptions.values()
        )

    def _targets(self, name: str) -> list[str]:
        """The destinations that a name stands for."""
        region = self._region
        known = region.destinations.get(name)
        return region.policies.routing.targets(region.routing, name) if known is None or known.spreads else [name]

    def _store_usage(self) -> Usage | None:
        store = self._region.store
        return None if store is None else store.usage

    def _policy(self, name: str) -> DestinationPolicy:
        known = self._region.destinations.get(name)
        return known.policy if known is not None else policy_for(name, self._region.config.destinations)


def is_needed(region: Region) -> bool:
    """Whether a send may ever find no space."""
    return region.policies.memory.throttles or region.store is not None or region.memory.temp is not None


def give_credit(region: Region, event: Send) -> None:
    """The broker has dealt with a message: its producer's window is free again by so much."""
    region.effects.append(Credited(event.connection, event.producer, event.credit_bytes))


def refuse(region: Region, event: Send, code: str, text: str) -> None:
    """A send is refused; so it takes nothing of a window either."""
    region.effects.append(Refused(event.connection, event.request, code, text, event.transaction))
    if event.credit_bytes:
        give_credit(region, event)
    if event.number and event.connection in region.connection_registry.connections:
        region.duplicate_detection.answered(event.producer, event.number)
