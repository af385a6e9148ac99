"""Rows: what the tables of facts hold of messages, copies, deliveries, sessions, clients, destinations, readings.

Plain records, filled by ``recording.py`` and the passes. Times are true nanoseconds of the observer. Where the broker's
view can differ from the client's, a row keeps both bounds. ``event`` is what was recorded, verbatim.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.destinations import ALL_QUEUES, ALL_TOPICS
from brokerproof.conformance.experiment.history import (
    Abort,
    Ack,
    Arrive,
    Browse,
    Closed,
    Commit,
    Connect,
    Consume,
    Counters,
    Discard,
    Event,
    Fault,
    Nack,
    Operate,
    Subscribe,
    Unsubscribe,
)
from brokerproof.conformance.experiment.history import Send as SendEvent
from brokerproof.conformance.experiment.traits import UNKNOWN, Traits
from brokerproof.conformance.facts.epochs import Epoch
from brokerproof.conformance.facts.ledger import Ledger
from brokerproof.conformance.facts.policy import Applied
from brokerproof.conformance.facts.spans import NEVER, Span, touches
from brokerproof.conformance.facts.stalls import Stall
from brokerproof.conformance.facts.traits import choice_of

# What became of a delivery.
HELD: Final = 0  # its session has it, unsettled
SETTLED: Final = 1
DOUBTFUL: Final = 2  # it may be settled
RETURNED: Final = 3  # its session ended before it was settled
LATE: Final = 4  # it arrived at a session that had left already: bytes that were on their way


class Transaction:
    """A local transaction of one host. ``committed``: None where its end is not known."""

    __slots__ = ("acks", "client", "committed", "end", "lost", "marks", "mixed", "name", "sends", "settled", "tried")

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self.client = client
        self.sends: list[Send] = []
        self.acks: list[Ack | Nack] = []
        #: The deliveries that were acknowledged in it, for certain.
        self.settled: list[Delivery] = []
        #: Those whose acknowledgement in it was refused, or has an unknown result.
        self.tried: list[Delivery] = []
        self.end: Commit | Abort | None = None
        #: Its host's connection went before it ended: it is rolled back.
        self.lost: Event | None = None
        self.committed: bool | None = None
        self.mixed = False  # it refused something, or rejected a message
        self.marks = 0


class Send:
    """One message, as its producer sent it. ``confirmed``: the broker has taken it over, for certain (outside of a
    transaction, or committed); ``refused``: it has not. ``accepted``: when it did, if it did.
    """

    # fmt: off
    __slots__ = ("accepted", "after_seq", "client", "confirmed", "connection", "copies", "copy", "delayed", "dest",
                 "event", "marks", "message", "mortal", "refused", "seen", "still_seq", "timed", "transaction")
    # fmt: on

    def __init__(self, event: SendEvent, client: Client, dest: Destination) -> None:
        self.event = event
        self.message = event.message
        self.client = client
        self.dest = dest
        self.connection = 0  # which of its host's it was sent on
        self.after_seq = self.still_seq = -1  # the last event before it that may have freed memory, or changed anything
        self.delayed = event.delay_ms != 0 or event.deliver_at_ms is not None  # a negative delay is a wish, too
        self.mortal = event.expiration_ms > 0 or event.life_ms > 0
        self.timed = event.timed()
        self.transaction: Transaction | None = None
        self.confirmed = event.result == "ok" and event.tx is None
        self.refused = event.result == "fail" and not event.again  # of two sends the second answer is told
        self.accepted: Span = (event.t0, event.t1 if self.confirmed else NEVER)
        #: Its copies, one per queue or subscription that may have got it; the first one.
        self.copies: dict[str, Copy] = {}
        self.copy: Copy | None = None
        self.seen: Event | None = None  # the first sight of it anywhere: nobody can see what was not accepted
        self.marks = 0

    def arrivals(self) -> list[Delivery]:
        """Of all its copies, those of dead letters after those of their copy."""
        if (copy := self.copy) is not None and len(self.copies) == 1 and not copy.dead_letters:
            return copy.deliveries
        return [delivery for copy in self.copies.values() for delivery in (*copy.deliveries, *copy.dead_letters)]


class Copy:
    """A message on one queue, or of one subscription to a topic."""

    # fmt: off
    __slots__ = ("accepted_beyond", "called_expired", "charged", "dead_letter_due", "dead_letters", "deliveries",
                 "dest", "holder", "marks", "rejected", "send", "steady", "subscription")
    # fmt: on

    def __init__(self, send: Send, holder: str, dest: Destination, subscription: Subscription | None) -> None:
        self.send = send
        #: The queue's name, or the subscription's.
        self.holder = holder
        self.dest = dest
        self.subscription = subscription
        #: Its arrivals in order, but for those of its dead letters: ``dead_letters``.
        self.deliveries: list[Delivery] = []
        self.dead_letters: list[Delivery] = []
        #: A message that a queue has for certain and no timer can touch: if nobody holds it, it is waiting.
        self.steady = False
        #: Bytes that it is known to keep on its queue; when it was accepted, more than a limit had been.
        self.charged = 0
        self.accepted_beyond = False
        #: Somebody tried to reject it, or it was delivered so often that its broker may do that itself.
        self.rejected = False
        #: A confirmed rejection should have made a dead letter of it, which has not been seen yet.
        self.dead_letter_due = False
        #: The program itself has called it expired, past the library and its clock.
        self.called_expired = False
        self.marks = 0

    @property
    def message(self) -> str:
        """The suite's id."""
        return self.send.message

    def discards(self) -> list[Discard]:
        """What libraries said they threw away, in order; of two copies of a message they do not say which."""
        return [event for delivery in self.deliveries for event in delivery.settlements if isinstance(event, Discard)]


class Delivery:
    """One arrival of one copy, and what became of it.

    ``settlement`` is the first attempt to settle it, whatever its result, or the next one after a refusal, or a discard
    after the rollback of the first. ``assigned``: when the broker gave it to its session.
    """

    # fmt: off
    __slots__ = ("assigned", "consumed", "copy", "dest", "event", "given", "marks", "place", "pledged", "requeued",
                 "rollbacks", "send", "session", "settlement", "settlements", "state", "transaction", "undone_ns")
    # fmt: on

    def __init__(self, copy: Copy, dest: Destination, session: Session, event: Arrive, state: int) -> None:
        self.copy = copy
        self.send = copy.send
        #: Where it came from: a dead-letter queue, another queue by an operator's hand, one of a wildcard's.
        self.dest = dest
        self.session = session
        self.event = event
        self.state = state
        #: How many arrivals its session had before.
        self.place = len(session.deliveries)
        #: The last time that the application was given it, and how often that happened.
        self.consumed: Consume | None = None
        self.given = 0
        self.settlement: Ack | Nack | Discard | None = None
        #: All attempts, in order.
        self.settlements: list[Ack | Nack | Discard] = []
        #: The open transaction that settled it last.
        self.transaction: Transaction | None = None
        #: Acknowledged in a transaction that is open, and counted in the ledger as such.
        self.pledged = False
        #: How often it was acknowledged in a transaction that was rolled back; since when its broker may send it again.
        self.rollbacks, self.requeued, self.undone_ns = 0, False, NEVER
        self.assigned: Span = (max(copy.send.event.t0, session.opened[0]), event.t1)
        self.marks = 0

    @property
    def settled(self) -> Span | None:
        """When the broker took its settlement, if it did; None: nobody tried, or it was refused."""
        if self.session.auto:
            return self.assigned[0], NEVER
        settlement = self.settlement
        if settlement is None or self.state not in {SETTLED, DOUBTFUL}:
            return None
        answered = not isinstance(settlement, Discard) and settlement.result == "ok" and settlement.tx is None
        return settlement.t0, settlement.t1 if self.state == SETTLED and answered else NEVER

    @property
    def is_dead_letter(self) -> bool:
        """It arrived from a dead-letter queue, where it was not sent to or, by its own word, died."""
        dest = self.dest
        died_here = self.event.original_dest == dest.name and all(one.op != "move" for one in dest.purges)
        return dest.kind == "dead-letters" and (dest is not self.copy.dest or died_here)

    @property
    def is_moved(self) -> bool:
        """An operator may have brought it to where it arrived from."""
        return self.dest is not self.copy.dest and any(operation.op == "move" for operation in self.copy.dest.purges)

    def is_latest(self) -> bool:
        """Nobody got the copy, or its dead letter, afterwards."""
        arrivals = self.copy.dead_letters if self.is_dead_letter else self.copy.deliveries
        return arrivals[-1] is self

    def returned(self) -> bool:
        """A session that certainly existed left it unsettled."""
        return self.state == RETURNED and self.session.known


class Subscription:
    """Who is owed copies of a topic's messages: a durable subscription from its beginning to its end, or the one
    session of a consumer that is not durable. ``doubtful``: nobody knows when it began or ended. ``sure_ns``: it was
    there until then, for certain.
    """

    __slots__ = ("again", "begin", "client", "doubtful", "durable", "end", "ended", "name", "sessions", "sure_ns")

    def __init__(self, name: str, client: Client, begin: Subscribe | None, *, doubtful: bool) -> None:
        self.name = name
        self.client = client
        self.begin = begin
        self.durable = begin.durable if begin is not None else ""
        self.doubtful = doubtful
        #: Another one of its name had ended before.
        self.again = False
        #: What ended it: an ``unsubscribe``, or another subscription of the same name.
        self.end: Subscribe | Unsubscribe | None = None
        self.ended = False
        self.sure_ns = NEVER
        self.sessions: list[Session] = []


class Session:
    """One consumer's stay. ``known`` False: its ``subscribe`` has an unknown result, so perhaps it never was.

    ``lost_ns``: the earliest time at which the broker may have taken it for gone; ``gone_ns``: by then it has.
    """

    # fmt: off
    __slots__ = ("ack", "auto", "client", "closed", "connection", "deliveries", "dest", "doubted", "end",
                 "end_connection", "ended_ns", "event", "freed_ns", "gone_ns", "held", "known", "least", "leave",
                 "lost_ns", "marks", "name", "opened", "overdrawn", "prefetch", "resent", "rooms_ns", "seen",
                 "selective", "subscription", "sync", "tried", "twins", "uncertain", "undone", "wild")
    # fmt: on

    def __init__(self, name: str, client: Client, dest: Destination, event: Subscribe | None) -> None:
        self.name = name
        self.client = client
        self.dest = dest
        #: Of a wildcard: it is a consumer of every destination that the pattern covers.
        self.wild = False
        self.subscription: Subscription | None = None
        self.deliveries: list[Delivery] = []
        #: Message -> its latest delivery here.
        self.seen: dict[str, Delivery] = {}
        #: Messages of which it got more than one copy: which of them a settlement means, nobody can say.
        self.twins: dict[str, bool] = {}
        self.held = 0
        self.doubted = 0
        #: Of those that it holds: acknowledged in transactions that were rolled back.
        self.undone = 0
        #: Messages that it tried to settle; its broker has sent some again after a rollback.
        self.tried, self.resent = 0, False
        #: A transaction that was rolled back had made room in its window.
        self.overdrawn = False
        #: "" while it is open, then ``close``, ``drop``, ``kill``, ``closed`` (its connection ended) or ``broker``.
        self.end = ""
        self.leave: Event | None = None
        #: How its connection was seen to end.
        self.closed: Closed | None = None
        #: The broker may have ended it at any time.
        self.uncertain = False
        #: Its host's connection when it came and when it went.
        self.connection = client.connection
        self.end_connection = -1
        self.ended_ns = NEVER
        self.lost_ns = NEVER
        self.gone_ns = NEVER
        #: Times before which a slot of its window cannot have been freed, one per message that it settled, sorted.
        self.freed_ns: list[int] = []
        #: Readings at rest of its destination at which it had room, rising.
        self.rooms_ns: list[int] = []
        self.marks = 0
        self.describe_by(event)

    def describe_by(self, event: Subscribe | None) -> None:
        """Take the options of its ``subscribe``; None: nobody saw it subscribing, so nothing is taken for granted."""
        self.event = event
        self.known = event is not None and event.result == "ok"
        self.prefetch = self.least = event.prefetch if event is not None else NEVER
        self.ack = event.ack if event is not None else "client"
        self.sync = event is not None and event.dispatch == "sync"
        #: Its marks, if it may rightly be without a message that waits, or others because of it, whatever its window.
        self.selective = 0 if event is None else choice_of(event)
        #: The broker settles each message as it writes it.
        self.auto = self.ack == "auto" and self.client.traits.settles_on_write
        self.opened: Span = (event.t0, event.t1) if event is not None else (0, NEVER)

    @property
    def traits(self) -> Traits:
        """What its client's library does."""
        return self.client.traits

    def durable(self) -> bool:
        """Whether it serves a durable subscription."""
        return self.event is not None and bool(self.event.durable)


class Client:
    """A client's host and its one connection at a time."""

    # fmt: off
    __slots__ = ("behind", "busy", "closes", "connected", "connection", "connects", "ends", "goodbyes",
                 "last_heard_ns", "last_request_ns", "name", "open", "refused_ns", "resets", "stall", "stalls",
                 "suspected", "traits", "transaction", "unanswered", "unanswered_ns", "uploads", "via")
    # fmt: on

    def __init__(self, name: str) -> None:
        self.name = name
        self.traits: Traits = UNKNOWN
        #: The transport by name, for texts and for rules about a transport itself.
        self.via = ""
        #: Attempts to connect, whatever their result; ends as seen at either end; ends by its own doing.
        self.connects: list[Connect] = []
        self.closes: list[Closed] = []
        self.ends: list[Event] = []
        #: Ends by the network, and what said that there would be one.
        self.resets: list[Fault] = []
        self.connected = True  # not seen to end, or nobody told of any
        #: Rises with every connection and every end of one.
        self.connection = 0
        self.open: dict[str, Session] = {}
        self.stalls: list[Stall] = []
        self.stall: Stall | None = None
        #: When a slow link was busy with so much that what followed was late; with what the client sent alone.
        self.busy, self.uploads = list[Span](), list[Span]()
        #: The broker may have closed the connection during a stall.
        self.suspected = False
        self.transaction: Transaction | None = None
        #: Sessions that said goodbye on this connection, which the broker may not have read yet.
        self.goodbyes: list[Session] = []
        #: A message of its was not answered in time: the broker may read no further until it takes that; it left so.
        self.unanswered = self.behind = False
        self.unanswered_ns = 0  # until then one goes unanswered that it had begun to send
        #: When it began to write the last thing that the broker confirmed; when the last thing from there reached it.
        self.last_request_ns = self.last_heard_ns = 0
        self.refused_ns = NEVER  # the first request since then that was refused: its connection may have been closed

    def stalled(self, t0: int, t1: int) -> bool:
        """Whether its link was stalled, or a slow one busy for long, at any instant of ``[t0, t1]``."""
        spans = [stall.span() for stall in self.stalls]
        return touches(self.busy, (t0, t1)) or any(low <= t1 and high >= t0 for low, high in spans)


class Window:
    """What one open session had at a reading at rest."""

    __slots__ = ("arrived", "doubted", "held", "session", "tried", "undone")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.held = session.held
        self.doubted = session.doubted
        self.undone = session.undone
        self.tried = session.tried
        self.arrived = len(session.deliveries)

    def room(self) -> bool:
        """The broker has credit for it, for certain."""
        return self.session.auto or self.held + self.doubted < self.session.least

    def open(self) -> bool:
        """The same, and it has no reason to leave any message."""
        return not self.session.selective and self.room()


class Reading:
    """Counters that were read, and what was known then. ``dest`` None: the broker's own. ``windows`` is filled at
    rest, ``wild`` with those of wildcard consumers, ``waiting`` if one of them all has room.
    """

    # fmt: off
    __slots__ = ("again", "arrived", "at_rest", "base", "before", "charged", "charged_elsewhere", "dest", "drain",
                 "empty", "ended", "epoch", "event", "idle", "kept", "ledger", "marks", "most_elsewhere", "moved_seq",
                 "parts", "rejected", "restarts", "sent_bytes", "sent_here_bytes", "timed", "uncommitted",
                 "uncommitted_bytes", "unsure", "waiting", "wild", "windows")
    # fmt: on

    def __init__(self, event: Counters, dest: Destination | None) -> None:
        self.event = event
        self.dest = dest
        self.at_rest = event.at_rest
        self.windows: list[Window] = []
        self.wild: list[Window] = []
        self.waiting: list[Copy] = []
        self.epoch = dest.epoch.copy() if dest is not None else Epoch()
        self.ledger = dest.ledger.copy() if dest is not None else Ledger()
        #: The one of this destination before it; the one at rest before it, if its totals are of the same stretch.
        self.before: Reading | None = None
        self.base: Reading | None = None
        #: It was read in the drain phase. The last event before it that was no reading.
        self.drain = False
        self.moved_seq = -1
        #: The broker's own: the same settle found nothing on any destination; destinations that nobody reads, and that
        #: are known to be empty.
        self.empty = False
        self.idle = 0
        #: The broker's own at rest: those of destinations in the same settle.
        self.parts: list[Reading] = []
        #: Of its destination: a session had ended; arrivals, and those of copies that had arrived before; messages that
        #: a timer may act on; messages that it is known to keep, and a lower bound of their bytes.
        self.ended = False
        self.arrived = 0
        self.again = 0
        self.timed = 0
        self.kept = 0
        self.charged = 0
        #: Rejected messages that are dead letters by now and were not seen yet.
        self.rejected = 0
        #: Upper bounds of the bytes that were ever sent: to all destinations, to this one. Lower bounds of what other
        #: destinations keep: all of them, the one that keeps most.
        self.sent_bytes = 0
        self.sent_here_bytes = 0
        self.charged_elsewhere = 0
        self.most_elsewhere = 0
        #: What open transactions have sent here (the broker's: anywhere): messages, bytes; there may be others.
        self.uncommitted = 0
        self.uncommitted_bytes = 0
        self.unsure = False
        #: How often the broker had been restarted: its totals begin anew.
        self.restarts = 0
        self.marks = 0

    @property
    def destination(self) -> Destination:
        """Whose they are; not of the broker's own."""
        assert self.dest is not None
        return self.dest

    @property
    def span(self) -> Span:
        """When."""
        return self.event.t0, self.event.t1


class Destination:
    """A queue or a topic. ``kind``: ``queue``, ``topic``, ``temporary``, ``composite``, ``virtual``, ``dead-letters``,
    ``advisory`` or ``pattern``.
    """

    # fmt: off
    __slots__ = ("again", "applied", "arrived", "browsed", "charged", "copies", "ended", "epoch", "grouped", "kept",
                 "kind", "ledger", "name", "open", "over_ns", "pattern", "priorities", "purges", "readings", "rested",
                 "sends", "sent_bytes", "sessions", "subscriptions", "taken_ns", "timed", "topic", "virtual", "waiting")
    # fmt: on

    def __init__(self, name: str, kind: str, applied: Applied, *, topic: bool, virtual: str) -> None:
        self.name = name
        self.kind = kind
        self.topic = topic
        #: The virtual topic that it is, or that it consumes from; "" for all others.
        self.virtual = virtual
        #: The pattern that covers it; brokers give virtual topics and their queues names of several elements.
        plain = not virtual and kind not in {"temporary", "composite"}
        self.pattern = "" if not plain else ALL_TOPICS if topic else ALL_QUEUES
        self.applied = applied
        self.ledger = Ledger()
        self.epoch = Epoch(fed=kind == "queue" and bool(virtual))
        self.sessions: list[Session] = []
        self.open: dict[str, Session] = {}
        self.subscriptions: list[Subscription] = []
        #: What was sent to it, whatever the result; the copies that are or were here, in order of acceptance.
        self.sends: list[Send] = []
        self.copies: list[Copy] = []
        #: Steady copies that are held by nobody.
        self.waiting: dict[str, Copy] = {}
        self.readings: list[Reading] = []
        #: The last one at rest.
        self.rested: Reading | None = None
        self.browsed: list[Browse] = []
        #: It got messages of groups, each of which waits for its own consumer.
        self.grouped = False
        self.ended = 0
        self.timed = 0
        #: When of each of those that it had it had gone for certain, sorted (``tally.py``); None: nobody has asked.
        self.over_ns: list[int] | None = None
        self.arrived = self.again = 0
        self.charged = self.kept = 0
        self.sent_bytes = 0
        self.priorities: dict[int, bool] = {}
        #: Requests of operators that took messages from here, or moved some here.
        self.purges: list[Operate] = []
        #: What was accepted until then may be gone by their doing.
        self.taken_ns = -1
