"""A client host in the simulation: its clock, its library, its connection.

The library is the same code that the live agents use (``agents/library.py``); here it gets virtual time and hands
frames to a virtual link.

Rules
* What is observed is recorded when it happens, in the host's name.
* A connection that ends, for whatever reason, ends its consumers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.agents.message import arrival_of, read_body
from brokerproof.conformance.experiment.history import Arrive, Browse, Closed, Crash, Discard, Leave
from brokerproof.conformance.worlds.simulated.agenda import Action, Agenda, Party
from brokerproof.conformance.worlds.simulated.clock import VirtualClock
from brokerproof.conformance.worlds.simulated.framings import Framings
from brokerproof.conformance.worlds.simulated.link import SOME, Ended, Link, Opened
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import TEMP_QUEUE
from brokerproof.reference_broker.session.notice import Closed as GaveUp
from brokerproof.reference_broker.session.notice import Connected, Delivered, Discarded, Empty, Failed, Notice, Receipt

if TYPE_CHECKING:
    from brokerproof.conformance.agents.library import Library
    from brokerproof.conformance.brokers.translation import Names
    from brokerproof.conformance.experiment.state import ClientState, WorldState
    from brokerproof.conformance.worlds.port import Recorder
    from brokerproof.conformance.worlds.simulated.broker import BrokerHost


class HostTick(Action):
    """A client library's timer may be due."""

    __slots__ = ("_connection", "_host")

    def __init__(self, host: ClientHost, connection: int) -> None:
        self._host = host
        self._connection = connection

    def happen(self) -> None:
        self._host.tick(self._connection)

    def party(self) -> Party:
        return self._host


class ClientHost:
    """One client process. Whoever makes it says which broker it uses."""

    broker: BrokerHost

    def __init__(
        self, agenda: Agenda, recorder: Recorder, run: WorldState, state: ClientState, link: Link, names: Names
    ) -> None:
        self.agenda = agenda
        self.recorder = recorder
        self._run = run
        self._names = names
        self.state = state
        self.clock = VirtualClock(state.spec.clock)
        self.link = link
        #: 0: not connected.
        self.connection = 0
        #: The connection after which it calls itself; that of its predecessor if it has come back.
        self.named_after = 0
        self.connected = False
        #: What its hello was refused with.
        self.refusal = ""
        #: The library of the latest connection; None: there was none.
        self.library: Library | None = None
        #: Receipts that have come: name -> "" or the refusal.
        self.answers: dict[str, str] = {}
        #: Browsers: name -> what they look at.
        self.browsing: dict[str, str] = {}
        self._planned_ns = -1

    # -- time

    def now(self) -> Now:
        """This instant on this host."""
        return self.clock.now(self.agenda.now_ns)

    def tick(self, connection: int) -> None:
        """The library's timers. What was planned before an earlier one came is nobody's any more."""
        library = self.library
        if connection != self.connection or self._planned_ns != self.agenda.now_ns or library is None:
            return
        self._planned_ns = -1
        self.agenda.stirred = True
        for notice in library.session.tick(self.agenda.now_ns):
            self.heed(notice)
        self.flush()

    # -- connection

    def dial(self, connection: int) -> None:
        """Open a socket; whoever made the number brings the library that says hello."""
        self.connection = connection
        self.connected = False
        self.refusal = ""
        self.answers = {}
        self._planned_ns = -1
        self.link.clear()

    def hang_up(self) -> None:
        """The socket vanishes; the broker sees its end as soon as the link lets it."""
        if self.connection:
            self.link.to_broker(self.connection, Ended("client gone", self.agenda.now_ns))
            self.forget()

    def forget(self) -> None:
        """The connection is gone."""
        if self.library is not None and self.connection:
            self.library.session.stop()
        self.connection = 0
        self.connected = False
        self.state.transaction = ""

    def fail(self, how: str, evidence: str) -> None:
        """The process ends over what it was sent; its next use is by another one."""
        now_ns, name = self.agenda.now_ns, self.state.name
        self.agenda.stirred = True
        self.recorder.put(Crash, now_ns, now_ns, name, target=name, how=how, evidence=evidence)
        if self.connection:
            self.link.to_broker(self.connection, Ended("client gone", now_ns))
            self.connection = 0
            self.connected = False
            self.state.transaction = ""
            self._lose_consumers(now_ns)

    def greet(self, library: Library, protocol: str) -> None:
        """Say hello over the socket that was opened."""
        self.library = library
        link = self.state.link
        if link.encoded:
            name = f"ID:{self.state.name}-{self.named_after}"
            self.link.framings[self.connection] = Framings(protocol, name, link.slice_bytes, loose=link.loose)
        self.link.to_broker(self.connection, Opened(protocol))
        self.flush()

    def flush(self) -> None:
        """Hand what the library wants to write to the link, and plan its next timer."""
        library = self.library
        if library is None or not self.connection:
            return
        session, now_ns = library.session, self.agenda.now_ns
        frame = session.next_output(now_ns)
        while frame is not None:
            self.link.to_broker(self.connection, frame)
            frame = session.next_output(now_ns)
        # Timers are a monitor's, or a pause before a redelivery.
        due_ns = session.next_due_ns()
        if due_ns is not None and (self._planned_ns < 0 or due_ns < self._planned_ns):
            self._planned_ns = due_ns
            self.agenda.plan(due_ns, HostTick(self, self.connection))

    def has_nothing(self, consumer: str) -> bool:
        """Whether a consumer has nothing to take, and nothing can come at this instant."""
        library, next_ns = self.library, self.agenda.next_ns()
        if library is None or (next_ns is not None and next_ns <= self.agenda.now_ns):
            return False
        return library.is_empty(consumer) and not library.pulls(consumer)

    # -- what the link brings

    def receive(self, connection: int, item: object) -> None:
        """A frame, some bytes of one, or the end of the stream arrived."""
        library = self.library
        if connection != self.connection or library is None:
            return
        agenda = self.agenda
        if isinstance(item, Ended):
            agenda.stirred = True
            idle_ns = library.session.monitor.idle_ns(self.agenda.now_ns)
            self._put(Closed, who="broker", reason=item.reason, link=self.state.name, idle_ns=idle_ns)
            self.forget()
            self._lose_consumers(item.at_ns)
            return
        session, now_ns = library.session, agenda.now_ns
        session.bytes_received(now_ns)
        if item is SOME or session.heard(item, now_ns):
            return
        agenda.stirred = True
        for notice in library.receive(item, self.now()):
            self.heed(notice)
        self.flush()

    def _lose_consumers(self, since_ns: int) -> None:
        if self.state.consumers:
            self.recorder.put(Leave, since_ns, self.agenda.now_ns, self.state.name, result="ok", how="drop")
            self.state.vanish()

    def _put(self, kind: type[Arrive | Browse | Closed | Discard], **fields: object) -> None:
        now_ns = self.agenda.now_ns
        self.recorder.put(kind, now_ns, now_ns, self.state.name, **fields)

    def heed(self, notice: Notice) -> None:
        """The library has found something out."""
        if isinstance(notice, Delivered):
            self._arrived(notice)
        elif isinstance(notice, Receipt):
            self.answers[notice.receipt] = ""
        elif isinstance(notice, Discarded):
            self._discarded(notice)
        elif isinstance(notice, Failed):
            if not self.connected:
                self.refusal = notice.text or "refused"
            elif notice.receipt:
                self.answers[notice.receipt] = notice.text or "refused"
        elif isinstance(notice, Connected):
            self.connected = True
        elif isinstance(notice, Empty):
            self._found_nothing(notice.consumer)
        elif isinstance(notice, GaveUp):
            # This end's monitor closed the connection.
            self._put(Closed, who="client", reason=notice.reason, link=self.state.name, idle_ns=notice.idle_ns)
            self.link.to_broker(self.connection, Ended(notice.reason, self.agenda.now_ns))
            self.forget()
            self._lose_consumers(self.agenda.now_ns)

    def _arrived(self, notice: Delivered) -> None:
        message = read_body(notice.body)
        assert self.library is not None
        if notice.consumer in self.browsing:
            self._browsed(notice.consumer, [message])
            self.library.arrived(notice, message, self.now())
            return
        self.library.arrived(notice, message, self.now())
        told = arrival_of(notice)
        reply_to = told.pop("reply_to")
        if reply_to is not None:
            self._run.hear_of(message, reply_to)
        told["dest"] = self._named(notice.destination)
        told["original_dest"] = self._names.logical(notice.original_destination) or None
        told["message_kind"] = told.pop("kind")
        self._put(Arrive, consumer=notice.consumer, message=message, **told)

    def _named(self, destination: str) -> str:
        """The suite's name of a destination that a message came from."""
        if not destination.startswith(("/temp-queue/", TEMP_QUEUE)):  # as its owner or as others call it
            return self._names.logical(destination)
        told = [dest for dest, address in self._run.temporaries.items() if address == destination]
        return told[0] if told else self._run.destinations.temporary_of(self.state.name)

    def _browsed(self, consumer: str, messages: list[str]) -> None:
        """A browser was shown something, or (nothing) that this was all."""
        dest = self.browsing[consumer]
        self._put(Browse, dest=dest, messages=messages, consumer=consumer, complete=not messages)

    def _found_nothing(self, consumer: str) -> None:
        """The end of a browse, or of a pull that found nothing."""
        assert self.library is not None
        self.library.found_nothing(consumer)
        if consumer in self.browsing:
            self._browsed(consumer, [])

    def _discarded(self, notice: Discarded) -> None:
        """The library threw a message away; what a browser does not want to see stays where it is."""
        assert self.library is not None
        message = self.library.discarded(notice)
        if notice.consumer not in self.browsing:
            self._put(Discard, consumer=notice.consumer, message=message, reason=notice.reason)
