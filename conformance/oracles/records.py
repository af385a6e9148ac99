"""Records: what the books keep of messages, deliveries, consumers, hosts, destinations and reads.

Rules: plain records, changed only by ``books.py``. Times are true nanoseconds of the observer. Where the broker's
view can differ from the client's, a record keeps both bounds: ``lost_ns`` is the earliest time at which the broker
may have taken a consumer for gone, ``gone_ns`` the latest, ``NEVER`` where nothing bounds it.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.configuration import DestinationSpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_topic
from brokerproof.conformance.experiment.history import (
    Ack,
    Arrive,
    Closed,
    Connect,
    Counters,
    Discard,
    Event,
    Fault,
    Nack,
    Send,
    Subscribe,
)
from brokerproof.conformance.oracles.lens import is_choosy

#: Later than any instant of a run, and more than any count.
NEVER: Final = 1 << 61

#: How often a JMS client delivers a message, by default, before it gives it up by itself.
JMS_DELIVERIES: Final = 7

# Fates of a delivery.
HELD: Final = 0
SETTLED: Final = 1
DOUBTFUL: Final = 2
RETURNED: Final = 3
#: It arrived at a consumer that had left already: bytes that were on their way.
LATE: Final = 4


class Message:
    """One suite message. ``passages`` are its arrivals in order, except those at the dead-letter queue: ``dead``."""

    __slots__ = ("beyond", "charged", "dead", "epoch", "name", "passages", "poisoned", "send", "steady")

    def __init__(self, name: str) -> None:
        self.name = name
        self.send: Send | None = None
        #: Which of its producer's connections it was sent on.
        self.epoch = 0
        #: A confirmed, persistent queue message that no timer can touch: if nobody holds it, it is waiting.
        self.steady = False
        self.passages: list[Passage] = []
        self.dead: list[Passage] = []
        #: Bytes that it is known to keep on its queue.
        self.charged = 0
        #: When it was accepted, more than a limit had been accepted and not been taken.
        self.beyond = False
        #: A confirmed rejection should have made a dead letter of it, which has not been seen yet.
        self.poisoned = False

    def discarded(self) -> bool:
        """Whether a consumer was seen to call it expired."""
        return any(isinstance(passage.settle, Discard) for passage in self.passages)


class Passage:
    """One arrival of one message at one consumer, and what became of it.

    ``settle`` is the first attempt to settle it, whatever its result, or the next one after a refusal, or a discard
    after the rollback of the first.
    """

    __slots__ = ("consumed", "consumer", "event", "fate", "message", "queue", "rollbacks", "settle")

    def __init__(self, message: Message, consumer: Consumer, event: Arrive, fate: int, queue: Queue) -> None:
        self.message = message
        self.consumer = consumer
        #: Where it came from: a consumer of a wildcard has many.
        self.queue = queue
        self.event = event
        self.fate = fate
        self.consumed = False
        self.settle: Ack | Nack | Discard | None = None
        #: How often it was acknowledged in a transaction that was rolled back.
        self.rollbacks = 0

    def is_latest(self) -> bool:
        """Nobody got the message afterwards."""
        passages = self.message.dead if self.event.dest == DEAD_LETTERS else self.message.passages
        return passages[-1] is self

    def returned(self) -> bool:
        """A consumer that certainly existed left it unsettled."""
        return self.fate == RETURNED and self.consumer.known


class Consumer:
    """One consumer. ``known`` False: its ``subscribe`` is unknown, so perhaps it never existed at the broker."""

    # fmt: off
    __slots__ = ("ack", "auto", "choosy", "close", "doubted", "end", "end_epoch", "ended_ns", "epoch", "gone_ns",
                 "held", "host", "known", "lost_ns", "name", "overdrawn", "passages", "prefetch", "queue", "seen",
                 "subscribe", "sync", "tried")
    # fmt: on

    def __init__(self, name: str, host: Host, queue: Queue, event: Subscribe | None) -> None:
        self.name = name
        self.host = host
        self.queue = queue
        #: A transaction that was rolled back had made room in its window.
        self.overdrawn = False
        self.passages: list[Passage] = []
        #: Suite id -> its latest arrival here.
        self.seen: dict[str, Passage] = {}
        self.held = 0
        self.doubted = 0
        #: Messages that it tried to settle.
        self.tried = 0
        #: "" while it is open, then ``close``, ``drop``, ``kill``, ``closed`` (its connection ended) or ``broker``
        #: (went down).
        self.end = ""
        #: Its host's connection when it came and when it went.
        self.epoch = host.epoch
        self.end_epoch = -1
        #: How its connection was seen to end.
        self.close: Closed | None = None
        self.ended_ns = NEVER
        self.lost_ns = NEVER
        self.gone_ns = NEVER
        self.subscribe = event
        self.describe(event)

    def describe(self, event: Subscribe | None) -> None:
        """Take the options of its ``subscribe``; None: nobody saw it subscribing, so nothing is taken for granted."""
        self.subscribe = event
        self.known = event is not None and event.result == "ok"
        self.prefetch = event.prefetch if event is not None else NEVER
        self.ack = event.ack if event is not None else "client"
        self.sync = event is not None and event.dispatch == "sync"
        #: It may rightly be without a message that waits, whatever its window.
        self.choosy = event is not None and is_choosy(event)
        #: The broker settles each message as it writes it (STOMP's ``auto``); a JMS library's ``auto`` settles later,
        #: by itself.
        self.auto = self.ack == "auto" and self.host.via == "stomp"

    @property
    def opened_ns(self) -> int:
        """Before this it did not exist."""
        return self.subscribe.t0 if self.subscribe is not None else 0


class Stall:
    """A period in which a link held bytes back, and the last sign of life before it in either direction."""

    __slots__ = ("begin", "end", "last_heard_ns", "last_op_ns", "toward")

    def __init__(self, begin: Fault, host: Host) -> None:
        self.begin = begin
        self.end: Fault | None = None
        self.toward = begin.toward or "both"
        self.last_op_ns = host.last_op_ns
        self.last_heard_ns = host.last_heard_ns


class Host:
    """A client's host and its one connection at a time. ``via`` is "" until it is known."""

    # fmt: off
    __slots__ = ("closes", "connected", "connects", "ends", "epoch", "last_heard_ns", "last_op_ns", "name", "open",
                 "stall", "stalls", "via")
    # fmt: on

    def __init__(self, name: str) -> None:
        self.name = name
        self.via = ""
        #: Attempts to connect, whatever their result.
        self.connects: list[Connect] = []
        #: Ends of its connections, as seen at either end.
        self.closes: list[Closed] = []
        #: Ends by its own doing: drops and kills.
        self.ends: list[Event] = []
        #: It has a connection that was not seen to end, or nobody told of any.
        self.connected = True
        #: Rises with every connection and every end of one.
        self.epoch = 0
        self.open: dict[str, Consumer] = {}
        self.stalls: list[Stall] = []
        self.stall: Stall | None = None
        #: When it began to write the last thing that the broker confirmed.
        self.last_op_ns = 0
        #: When the last thing from the broker reached it.
        self.last_heard_ns = 0


class Window:
    """What one open consumer had at a read at rest."""

    __slots__ = ("arrived", "consumer", "doubted", "held", "tried")

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.held = consumer.held
        self.doubted = consumer.doubted
        self.tried = consumer.tried
        self.arrived = len(consumer.passages)

    def open(self) -> bool:
        """The broker has credit for it, for certain, and no reason to keep a message from it."""
        return not self.consumer.choosy and self.room()

    def room(self) -> bool:
        """The broker has credit for it, for certain."""
        return self.consumer.auto or self.held + self.doubted < self.consumer.prefetch


class Read:
    """Counters that were read, and what was known then. ``windows`` is filled at rest, ``waiting`` if one is open."""

    # fmt: off
    __slots__ = (
        "again",
        "arrived",
        "charged_elsewhere",
        "drain",
        "empty",
        "ended",
        "event",
        "held_bytes",
        "kept",
        "most_elsewhere",
        "moved_seq",
        "poisoned",
        "sent_bytes",
        "sent_here_bytes",
        "ticking",
        "uncommitted",
        "uncommitted_bytes",
        "unsure",
        "waiting",
        "windows",
    )
    # fmt: on

    def __init__(self, event: Counters) -> None:
        self.event = event
        self.windows: list[Window] = []
        self.waiting: list[Message] = []
        #: A consumer of this destination had ended.
        self.ended = False
        #: It was read in the drain phase.
        self.drain = False
        #: The broker's own figures: the same settle found nothing on any destination.
        self.empty = False
        #: Arrivals here so far; those of messages that had arrived before.
        self.arrived = 0
        self.again = 0
        #: Rejected messages that are dead letters by now and were not seen yet.
        self.poisoned = 0
        #: Upper bound of the bytes that were ever sent, to all destinations and to this one.
        self.sent_bytes = 0
        self.sent_here_bytes = 0
        #: Lower bound of the bytes that other destinations keep.
        self.charged_elsewhere = 0
        #: The same for the one that keeps most.
        self.most_elsewhere = 0
        #: Messages that this destination is known to keep, and a lower bound of their bytes.
        self.kept = 0
        self.held_bytes = 0
        #: The last event before it that was no read.
        self.moved_seq = -1
        #: Messages with an expiration or a delay were sent here, so a timer may act during the read.
        self.ticking = False
        #: Messages that open transactions have sent here (the broker's own read: anywhere), the bytes of their bodies,
        #: and whether there may be others.
        self.uncommitted = 0
        self.uncommitted_bytes = 0
        self.unsure = False

    def look_at(self, queue: Queue) -> None:
        """Note what is known of its destination."""
        self.ended = queue.ended > 0
        self.arrived = queue.arrived
        self.again = queue.again
        self.sent_here_bytes = queue.sent_bytes
        self.kept = queue.kept
        self.held_bytes = queue.charged
        self.ticking = queue.timed > 0
        if not self.event.at_rest:
            return
        credit = False
        for consumer in queue.open.values():
            window = Window(consumer)
            self.windows.append(window)
            credit = credit or window.room()
        if credit and queue.waiting:
            self.waiting = list(queue.waiting.values())


class Queue:
    """A destination, queue or topic."""

    # fmt: off
    __slots__ = ("again", "arrived", "browsed", "charged", "consumers", "ended", "kept", "limit_bytes", "name", "open",
                 "reads", "sends", "sent_bytes", "timed", "topic", "waiting")
    # fmt: on

    def __init__(self, name: str, limit_bytes: int) -> None:
        self.name = name
        self.topic = is_topic(name)
        #: Its own memory limit; 0: none, or none that is certain.
        self.limit_bytes = limit_bytes
        self.consumers: list[Consumer] = []
        self.open: dict[str, Consumer] = {}
        #: Steady messages that are held by nobody.
        self.waiting: dict[str, Message] = {}
        #: Confirmed sends to a topic, in order.
        self.sends: list[Send] = []
        self.reads: list[Read] = []
        self.ended = 0
        self.timed = 0
        self.arrived = 0
        self.again = 0
        self.browsed = False
        self.charged = 0
        self.kept = 0
        self.sent_bytes = 0

    def is_empty(self, since_seq: int) -> bool:
        """Whether a read at rest after event ``since_seq`` found nothing here, or nothing can be here."""
        if not self.sent_bytes and self.name != DEAD_LETTERS:
            return True
        event = self.reads[-1].event if self.reads else None
        if event is not None and event.at_rest and event.seq > since_seq and not event.scheduled:
            if self.topic:
                return not self.open and (event.scheduled == 0 or not self.timed)
            return event.size == 0 and event.in_flight == 0
        # Nobody read it, but somebody who would take anything holds nothing: that is how dead letters are known to be
        # gone.
        return self.name == DEAD_LETTERS and any(c.known and not c.held and not c.doubted for c in self.open.values())


def fitting(entries: list[DestinationSpec], dest: str) -> list[DestinationSpec]:
    """A broker's policy entries that may apply to a destination: those with its exact name, else all that cover it."""
    covering = [entry for entry in entries if matches(entry.match, dest)]
    return [entry for entry in covering if entry.match == dest] or covering


def own_limit_bytes(entries: list[DestinationSpec], dest: str) -> int:
    """The memory limit that a broker's policy entries give one destination; 0 for none, or when entries compete."""
    limits = [entry.memory_limit_bytes or 0 for entry in fitting(entries, dest)]
    return limits[0] if limits and all(limit == limits[0] for limit in limits) else 0


def pending_limit(entries: list[DestinationSpec], dest: str) -> int:
    """How many messages may wait for a topic's slow subscriber, by the broker's policy entries; -1: any number, or
    entries compete.
    """
    limits = [entry.pending_message_limit for entry in fitting(entries, dest)]
    first = limits[0] if limits else None
    return first if first is not None and all(limit == first for limit in limits) else -1


def is_limited(entries: list[DestinationSpec], dest: str) -> bool:
    """Whether a slow subscriber of the topic may rightly lose messages."""
    return any(entry.pending_message_limit is not None and matches(entry.match, dest) for entry in entries)


def matches(pattern: str, dest: str) -> bool:
    """Whether a policy's ``match`` covers a name: ``*`` is one element, a last ``>`` all that follow."""
    wanted = pattern.split(".")
    given = dest.split(".")
    for index, element in enumerate(wanted):
        if element == ">":
            return True
        if index >= len(given) or element not in {"*", given[index]}:
            return False
    return len(wanted) == len(given)
