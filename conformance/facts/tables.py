"""Tables: everything that is known of one run, as rows. Filled by ``recording.py``, tightened by the passes.

Decides what a name means (the kind of a destination) and nothing else. What follows from the rows is asked of the
modules beside this one; ``facts.py`` is what a rule gets.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from brokerproof.conformance.experiment import destinations as names
from brokerproof.conformance.experiment.history import (
    Acknowledge,
    Arrive,
    Begin,
    Browse,
    ClockSample,
    Commit,
    Connect,
    Counters,
    Crash,
    Event,
    Fault,
    Header,
    Operate,
    Pause,
    Phase,
    Poll,
    Probe,
    Subscribe,
    Unsubscribe,
)
from brokerproof.conformance.experiment.history import Send as SendEvent
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.asked import Request
from brokerproof.conformance.facts.clock import Clock
from brokerproof.conformance.facts.epochs import Epoch
from brokerproof.conformance.facts.ledger import Browser
from brokerproof.conformance.facts.mqsc import State
from brokerproof.conformance.facts.policy import Applied, redeliveries_of
from brokerproof.conformance.facts.rows import (
    Client,
    Copy,
    Delivery,
    Destination,
    Reading,
    Send,
    Session,
    Subscription,
    Transaction,
)
from brokerproof.conformance.facts.spans import NEVER, t1_of
from brokerproof.conformance.facts.strains import Strain

#: What moves no message; neither does what a broker tells of itself, which names none. What frees no memory, either.
_STILL: Final = (Counters, ClockSample)
_FILLING: Final = (Connect, SendEvent, Begin)


def kind_of(dest: str, declared: names.Destinations) -> str:
    """What a destination is: what it is declared to be, or what a broker made it."""
    if dest == names.DEAD_LETTERS or (names.is_aside(dest) and not dest.startswith(names.ADVISORIES)):
        return "dead-letters"
    if names.is_aside(dest):
        return "advisory"
    return "pattern" if names.is_pattern(dest) else declared.kind(dest)


def looks_at(browser: Subscribe, dest: Destination) -> bool:
    """Whether a browser is one of this destination."""
    name = browser.dest
    return name == dest.name or (names.is_pattern(name) and dest.pattern == name)


def covers(session: Session, dest: Destination) -> bool:
    """Whether a consumer of a wildcard consumes from a destination."""
    plain = dest.kind not in {"pattern", "dead-letters", "advisory"} and "." not in dest.name
    return plain and dest.pattern == session.dest.name


class Tables:
    """One run's. Rows come in the order of the history."""

    # fmt: off
    __slots__ = ("acknowledges", "advisories", "asked", "blocks", "broker", "broker_readings", "browsers", "browses",
                 "browsings", "charged", "clients", "clock_steps", "clocks", "commits", "copies", "crashes",
                 "declared", "delayed", "deliveries", "destinations", "durable_ends", "epoch", "freed_seq", "ghosts",
                 "header", "limits", "lookers", "managed", "marks", "measured", "mortal", "moved_seq", "moves", "names",
                 "operations", "paged", "pauses", "phase", "phases", "polls", "probes", "queue_readings",
                 "queue_rests", "readings", "redeliveries_max", "rejected", "resets", "restarts", "rests", "rests_ns",
                 "sends", "sent_bytes", "sessions", "settle", "simulated", "strains", "subscriptions", "transactions",
                 "uncommitted", "unnamed", "unproved", "unseen", "unsure", "virtual_queues", "volatile", "wild")
    # fmt: on

    def __init__(self, header: Header) -> None:  # noqa: PLR0915 - one table a line
        self.header = header
        self.names = names.Destinations(header.destinations)
        self.declared = header.declared
        self.managed: list[State] | None = None  # a queue manager's objects, once they were asked for (``managed.py``)
        self.broker = header.broker_host
        #: Virtual time: instants are exact, and a timer cannot act while something is read.
        self.simulated = header.world == "simulated"
        self.redeliveries_max = redeliveries_of(self.declared, simulated=self.simulated)
        self.paged = header.declared.generation.get("memory", "fair") != "fair"  # it reads a page for each waking up
        self.clocks: dict[str, Clock] = {}
        self.marks = marks.Marks()
        self.sends: dict[str, Send] = {}
        self.delayed, self.mortal = list[Send](), list[Send]()
        self.copies: list[Copy] = []
        self.deliveries: list[Delivery] = []
        self.destinations: dict[str, Destination] = {}
        self.sessions: dict[str, Session] = {}
        self.subscriptions: list[Subscription] = []
        self.clients: dict[str, Client] = {}
        self.transactions: dict[str, Transaction] = {}
        #: Of destinations and of the broker, in order; the broker's own; those of queues; of these, at rest.
        self.readings, self.broker_readings = list[Reading](), list[Reading]()
        self.queue_readings, self.queue_rests = list[Reading](), list[Reading]()
        #: What was asked of the broker: all that was not granted, and one that was of each kind and situation.
        self.asked: list[Request] = []
        # -- events that are rows of their own
        self.ghosts: list[Arrive] = []
        self.advisories: list[Arrive] = []
        self.browsers: dict[str, Subscribe] = {}
        self.browses: list[Browse] = []
        #: Browsers that are there, or may be.
        self.lookers: dict[str, Browser] = {}
        self.browsings: list[Browser] = []
        self.polls, self.unseen = list[Poll](), dict[str, int]()  # consumer -> what may have come after calls were over
        self.probes, self.acknowledges = list[Probe](), list[Acknowledge]()
        self.operations: list[Operate] = []
        self.moves: list[Operate] = []  # from the beginning of the pass: what they move may arrive before their answer
        self.measured: list[tuple[Operate, Reading]] = []
        self.limits: list[Operate] = []
        self.resets: list[Operate] = []
        self.durable_ends: list[Unsubscribe] = []
        self.restarts: list[Event] = []
        self.pauses, self.strains = list[Pause](), list[Strain]()
        #: Processes that ended, or hung, and nobody had asked them to.
        self.crashes: list[Crash] = []
        self.clock_steps: list[Fault] = []
        self.phases: dict[str, Phase] = {}
        #: Kinds of faults that were injected without evidence, with the first such event.
        self.unproved: dict[str, Fault] = {}
        # -- the state of the recording pass
        self.phase = ""
        #: A producer may have to wait for room; the last event that was no reading, and the last that may free memory.
        self.blocks, self.moved_seq, self.freed_seq = False, -1, -1
        #: Readings at rest of destinations which that of the broker is to follow; starts of such readings, rising.
        self.settle: list[Reading] = []
        self.rests_ns, self.rests = list[int](), dict[int, int]()  # the last reading of each, by its instant
        self.wild: list[Session] = []
        #: Virtual topic -> the queues that consume from it, where such topics are promised.
        self.virtual_queues: dict[str, list[Destination]] = {}
        #: Rejected messages whose dead letter was not seen yet; bytes that queues are known to keep; bytes ever sent.
        self.rejected = self.charged = self.sent_bytes = 0
        #: Of these copies, those that a restart ends.
        self.volatile: list[Copy] = []
        self.epoch = Epoch()
        #: Transaction -> how its host asked for its commit, which may be still to come in the order of the history.
        self.commits: dict[str, Commit] = {}
        #: What open transactions sent where: messages and bytes of their bodies; destinations where others may have.
        self.uncommitted: dict[str, tuple[int, int]] = {}
        self.unsure, self.unnamed = dict[str, bool](), False  # unnamed: somebody sent what has no name, as bridges do

    # -- rows by name; made when they are first named

    @property
    def rate(self) -> int:
        """How many nanoseconds of the program a machine takes for one of its own; virtual time waits for none."""
        return 0 if self.simulated else max((self.header.rates or {"": 1}).values())

    def destination(self, name: str) -> Destination:
        """The row of a destination."""
        found = self.destinations.get(name)
        if found is None:
            topic, virtual = self.names.is_topic(name), self.names.virtual_topic(name)
            kind = kind_of(name, self.names)
            applied = Applied(self.declared, name, topic=topic, temporary=kind == "temporary")
            found = Destination(name, kind, applied, topic=topic, virtual=virtual)
            self.destinations[name] = found
            if virtual not in {"", name} and "virtual-topics" in self.header.capabilities:
                self.virtual_queues.setdefault(virtual, []).append(found)
                found.timed = self.destination(virtual).timed
            for session in self.wild:
                if covers(session, found):
                    found.sessions.append(session)
                    found.epoch.touched += not session.end
                    found.ledger.departed += session.end != ""
                    kinds = marks.WILDCARD | session.selective
                    self.marks.put(kinds, name, (session.opened[0], NEVER))
        return found

    def note(self, event: Event) -> None:
        """Note what an event may have moved, now that it is recorded."""
        kind = type(event)
        if kind not in _STILL and (kind is not Arrive or event.message):  # type: ignore[attr-defined] # as compared
            self.moved_seq = event.seq
            if kind not in _FILLING:
                self.freed_seq = event.seq

    def begin(self, sends: list[SendEvent], until_ns: int) -> None:
        """Take those that had begun by then from the end: what others do meanwhile may concern the queues that they
        bring into being.
        """
        while sends and sends[-1].t0 < until_ns:
            send = sends.pop()
            if send.result == "unknown" and self.blocks:
                client = self.client(send.host)
                client.unanswered, client.unanswered_ns = True, max(client.unanswered_ns, send.t1)
            for part in self.names.parts(send.dest):
                self.destination(part)

    def dests_of(self, session: Session) -> list[Destination]:
        """Where a consumer consumes from."""
        return [session.dest, *(dest for dest in self.destinations.values() if session.wild and covers(session, dest))]

    def client(self, name: str) -> Client:
        """The row of a client's host."""
        found = self.clients.get(name)
        if found is None:
            found = self.clients[name] = Client(name)
        return found

    def clock(self, host: str) -> Clock:
        """A host's clock, perhaps one that was never read."""
        found = self.clocks.get(host)
        if found is None:
            found = self.clocks[host] = Clock(host)
        return found

    def transaction(self, name: str, host: str) -> Transaction:
        """The row of a transaction."""
        found = self.transactions.get(name)
        if found is None:
            found = self.transactions[name] = Transaction(name, self.client(host))
        return found

    def promises(self, capability: str) -> bool:
        """Whether the broker keeps to what the word says; in virtual time it is our own, which does."""
        return self.simulated or capability in self.header.capabilities

    def may_send_again(self, session: Session) -> bool:
        """Whether the broker may do so with what was acknowledged there in a transaction that was rolled back."""
        return session.traits.leaves_rollbacks and not self.promises("keeps-rolled-back")

    @property
    def throttles(self) -> bool:
        """Producers may have to wait for memory: not in the generation "fair", and nobody knows of other brokers."""
        return self.paged or (not self.simulated and "memory" not in self.declared.generation)

    @property
    def remembers(self) -> bool:
        """Whether persistent messages outlive the broker's process."""
        return self.declared.persistent or "persistent" in self.header.capabilities

    @property
    def broker_clock(self) -> Clock:
        """The one that decides about expiry."""
        return self.clock(self.broker)

    @property
    def drain_seq(self) -> int:
        """The event with which the drain began; later than any if it did not."""
        phase = self.phases.get("drain")
        return phase.seq if phase is not None else NEVER

    @property
    def end_ns(self) -> int:
        """The end of the run; 0 if it never came to that."""
        phase = self.phases.get("end")
        return phase.t0 if phase is not None else 0

    def parts(self, event: SendEvent) -> list[Destination]:
        """The destinations that a message goes to: those that its destination names, and each queue of a virtual topic
        that had a consumer; one twice if it is named, too.
        """
        name = event.dest
        parts = self.names.parts(name)
        found: list[Destination] = []
        for part in parts:
            found.append(self.destination(part))
            queues = self.virtual_queues.get(part, ())
            found += [q for q in queues if q.name in parts or self.attended(q, event.t0)]
        return found

    def attended(self, dest: Destination, at_ns: int) -> bool:
        """Whether a destination had a consumer by then, for certain, since the broker's last start."""
        since_ns = self.restarts[-1].t1 if self.restarts else 0
        return any(session.known and since_ns <= session.opened[1] <= at_ns for session in dest.sessions)

    def may_page(self, dest: Destination) -> bool:
        """Whether there may be more messages than the broker reads at a time; who knows how many an operator moves."""
        return self.paged and (self.gets_moved(dest) or len(dest.copies) > dest.applied.page)

    def gets_moved(self, dest: Destination) -> bool:
        """Whether an operator moves messages there."""
        return any(move.to == dest.name for move in self.moves)

    def restarted(self, t0: int, t1: int) -> bool:
        """Whether the broker was restarted, or may have been, at some instant of ``[t0, t1]``."""
        place = bisect_left(self.restarts, t0, key=t1_of)
        return place < len(self.restarts) and self.restarts[place].t0 <= t1

    def counted_until_ns(self, dest: str) -> int:
        """Until when a destination's counters have not begun anew: with the broker, or because an operator asked."""
        anew = (*self.restarts, *(event for event in self.resets if event.dest in (dest, "")))
        return min((event.t0 for event in anew), default=NEVER)
