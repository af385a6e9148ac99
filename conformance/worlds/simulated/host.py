"""A client host in the simulation: its clock, its library, its connection.

The library is the same code that the live agents use (``reference_broker.stomp.client``,
``reference_broker.openwire.client``); here it gets virtual time and hands frames to a virtual link. Two subclasses hide
what differs: ``StompHost`` and ``JmsHost``.

Rules:

* A host connects when it is first used and again after its connection was lost.
* What is observed is recorded when it happens, in the host's name.
* A connection that ends, for whatever reason, ends its consumers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar
from zlib import crc32

from brokerproof.conformance.agents.protocol import ORIGINAL_ID, letter_marks, number_in
from brokerproof.conformance.brokers.translation import logical
from brokerproof.conformance.experiment.destinations import temporary_of
from brokerproof.conformance.experiment.history import Arrive, Browse, Closed, Discard, Leave
from brokerproof.conformance.worlds.base import NotOfferedError
from brokerproof.conformance.worlds.simulated.agenda import Action
from brokerproof.conformance.worlds.simulated.clock import VirtualClock
from brokerproof.conformance.worlds.simulated.link import Ended, Link, Opened
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import TEMP_QUEUE
from brokerproof.reference_broker.openwire.requests import DELIVERY_TIME
from brokerproof.reference_broker.session.notice import Closed as GaveUp
from brokerproof.reference_broker.session.notice import Connected, Delivered, Discarded, Empty, Failed, Notice, Receipt

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.state import ClientState, ConsumerState
    from brokerproof.conformance.experiment.steps.consume import Subscribe
    from brokerproof.conformance.experiment.steps.protocol import Acknowledge
    from brokerproof.conformance.experiment.steps.send import Send
    from brokerproof.conformance.worlds.simulated.stage import Stage
    from brokerproof.reference_broker.session.session import Client

#: How long a host waits for an answer before the result is unknown.
REQUEST_NS = 1_000_000_000
#: Separates the suite's message id from the padding in a body.
BODY_END = b"|"


class HostTick(Action):
    """A client library's timer may be due."""

    __slots__ = ("_connection", "_host")

    def __init__(self, host: ClientHost, connection: int) -> None:
        self._host = host
        self._connection = connection

    def happen(self) -> None:
        self._host.tick(self._connection)


class Stamps:
    """What a producer put on a message."""

    __slots__ = ("body", "delivery_ms", "expiration_ms", "timestamp_ms")

    def __init__(
        self, expiration_ms: int, timestamp_ms: int | None, body: bytes, delivery_ms: int | None = None
    ) -> None:
        self.expiration_ms = expiration_ms
        self.timestamp_ms = timestamp_ms
        self.delivery_ms = delivery_ms
        #: CRC-32 of the body.
        self.body = crc32(body)


class ClientHost(ABC):
    """One client process."""

    protocol: ClassVar[str]

    def __init__(self, world: Stage, state: ClientState) -> None:
        self.world = world
        self.state = state
        self.clock = VirtualClock(state.spec.clock)
        self.link = Link(world, state.name, state.link.latency_us, state.link.bytes_per_second)
        #: 0: not connected.
        self.connection = 0
        #: The connection after which it calls itself; that of its predecessor if it has come back.
        self.named_after = 0
        self.connected = False
        self.session: Client | None = None
        #: Receipts that have come: name -> "" or the refusal.
        self.answers: dict[str, str] = {}
        #: Browsers: name -> what they look at. Pulls that the broker has not answered.
        self.browsing: dict[str, str] = {}
        self.asking: dict[str, bool] = {}
        self._planned_ns = -1

    # -- time

    def now(self) -> Now:
        """This instant on this host."""
        true_ns = self.world.agenda.now_ns
        return Now(true_ns, self.clock.wall_ms(true_ns))

    def tick(self, connection: int) -> None:
        """The library's timers."""
        self._planned_ns = -1
        session = self.session
        if connection != self.connection or session is None:
            return
        for notice in session.tick(self.world.agenda.now_ns):
            self._notice(notice)
        self.flush()

    # -- connection

    def dial(self, *, returning: bool = False) -> None:
        """Open a socket and say hello, ``returning`` under the name of the connection before."""
        self.connection = self.world.next_connection()
        if not returning:
            self.named_after = self.connection
        self.connected = False
        self.answers = {}
        self._planned_ns = -1
        self.link.clear()
        self.link.to_broker(self.connection, Opened(self.protocol))
        self.session = self.make_session()
        self.flush()

    @abstractmethod
    def make_session(self) -> Client:
        """A new library session that has said hello."""

    def hang_up(self) -> None:
        """The socket vanishes; the broker sees its end as soon as the link lets it."""
        if self.connection == 0:
            return
        self.link.to_broker(self.connection, Ended("client gone", self.world.agenda.now_ns))
        self._forget()

    def redial(self) -> None:
        """The socket is dead, which nobody but this host has noticed; its library opens another."""
        self._forget()
        self.dial(returning=True)

    def repeat(self) -> str:
        """Send the last message again; returns the receipt's name."""
        raise NotOfferedError(f"a library of {self.protocol} sends nothing again")

    def _forget(self) -> None:
        if self.session is not None:
            self.session.stop()
        self.connection = 0
        self.connected = False
        self.session = None
        self.state.transaction = ""

    def client_id(self) -> str:
        """What the host calls itself: the same on every connection if durable subscriptions hang on it."""
        return self.state.name if self.world.state.durable else f"{self.state.name}-{self.named_after}"

    def flush(self) -> None:
        """Hand what the library wants to write to the link, and plan its next timer."""
        session = self.session
        if session is None:
            return
        now_ns = self.world.agenda.now_ns
        frame = session.next_output(now_ns)
        while frame is not None:
            self.link.to_broker(self.connection, frame)
            frame = session.next_output(now_ns)
        # Timers are a monitor's, or a pause before a redelivery.
        due_ns = session.next_due_ns()
        if due_ns is not None and (self._planned_ns < 0 or due_ns < self._planned_ns):
            self._planned_ns = due_ns
            self.world.agenda.plan(due_ns, HostTick(self, self.connection))

    # -- what the link brings

    def receive(self, connection: int, item: object) -> None:
        """A frame, or the end of the stream, arrived."""
        session = self.session
        if connection != self.connection or session is None:
            return
        if isinstance(item, Ended):
            self._ended(item)
            return
        session.bytes_received(self.world.agenda.now_ns)
        for notice in self.feed(item):
            self._notice(notice)
        self.flush()

    def bytes_arrived(self, connection: int) -> None:
        """Some bytes of a frame arrived."""
        if connection == self.connection and self.session is not None:
            self.session.bytes_received(self.world.agenda.now_ns)

    @abstractmethod
    def feed(self, frame: object) -> list[Notice]:
        """Give a frame to the library."""

    def _ended(self, end: Ended) -> None:
        """The broker closed this connection."""
        now_ns = self.world.agenda.now_ns
        recorder = self.world.recorder
        idle_ns = self.session.monitor.idle_ns(now_ns) if self.session is not None else None
        event = Closed(
            recorder.next_seq(), now_ns, now_ns, self.state.name, "broker", end.reason, self.state.name, idle_ns
        )
        recorder.record(event)
        self._forget()
        self._consumers_gone(end.at_ns)

    def _consumers_gone(self, since_ns: int) -> None:
        if not self.state.consumers:
            return
        recorder = self.world.recorder
        leave = Leave(recorder.next_seq(), since_ns, self.world.agenda.now_ns, self.state.name, "ok", "drop")
        recorder.record(leave)
        self.state.vanish()
        self.forget_consumers()

    @abstractmethod
    def forget_consumers(self) -> None:
        """All consumers are gone."""

    def _notice(self, notice: Notice) -> None:
        if isinstance(notice, Delivered):
            if notice.consumer in self.browsing:
                self._browsed(notice)
            else:
                self._arrived(notice)
        elif isinstance(notice, Receipt):
            self.answers[notice.receipt] = ""
        elif isinstance(notice, Discarded):
            self.record_discard(notice)
        elif isinstance(notice, Failed):
            if notice.receipt:
                self.answers[notice.receipt] = notice.text or "refused"
        elif isinstance(notice, Connected):
            self.connected = True
        elif isinstance(notice, Empty):
            self._empty(notice.consumer)
        elif isinstance(notice, GaveUp):
            self._gave_up(notice)

    def _gave_up(self, notice: GaveUp) -> None:
        """This end's monitor closed the connection."""
        now_ns = self.world.agenda.now_ns
        recorder = self.world.recorder
        event = Closed(
            recorder.next_seq(),
            now_ns,
            now_ns,
            self.state.name,
            "client",
            notice.reason,
            self.state.name,
            notice.idle_ns,
        )
        recorder.record(event)
        self.link.to_broker(self.connection, Ended(notice.reason, now_ns))
        self._forget()
        self._consumers_gone(now_ns)

    def _arrived(self, notice: Delivered) -> None:
        now_ns = self.world.agenda.now_ns
        recorder = self.world.recorder
        message = suite_id(notice.body)
        if notice.reply_to.startswith(TEMP_QUEUE):  # as others call it
            self.world.state.hear_of(message, notice.reply_to)
        self.keep(notice, message)
        event = Arrive(
            recorder.next_seq(),
            now_ns,
            now_ns,
            self.state.name,
            notice.consumer,
            message,
            self._named(notice.destination),
            notice.redelivered,
            notice.delivery_count or None,
            notice.expiration_ms,
            notice.timestamp_ms,
            logical(notice.original_destination) or None,
            str(notice.properties.get("kind", "")) or None,
            notice.group or None,
            notice.priority,
            crc32(notice.body),
            *(letter_marks(notice.properties) if notice.original_destination else (None, None)),
            str(notice.properties.get(ORIGINAL_ID, "")) or None,
            number_in(notice.properties, DELIVERY_TIME),
        )
        recorder.record(event)

    def _named(self, destination: str) -> str:
        """The suite's name of a destination that a message came from."""
        if not is_temporary_address(destination):
            return logical(destination)
        told = (dest for dest, address in self.world.state.temporaries.items() if address == destination)
        return next(told, temporary_of(self.state.name))

    def _browsed(self, notice: Delivered) -> None:
        """A browser was shown a message."""
        self.record_browse(notice.consumer, [suite_id(notice.body)], complete=False)
        self.let_go(notice)

    def _empty(self, consumer: str) -> None:
        """The end of a browse, or of a pull that found nothing."""
        self.asking.pop(consumer, None)
        if consumer in self.browsing:
            self.record_browse(consumer, [], complete=True)

    def record_browse(self, consumer: str, messages: list[str], *, complete: bool) -> None:
        """A browser saw something."""
        now_ns = self.world.agenda.now_ns
        recorder = self.world.recorder
        dest = self.browsing[consumer]
        recorder.record(
            Browse(recorder.next_seq(), now_ns, now_ns, self.state.name, dest, messages, consumer, complete)
        )

    @abstractmethod
    def let_go(self, notice: Delivered) -> None:
        """A browser has seen a message and need not keep it."""

    @abstractmethod
    def ask(self, consumer: ConsumerState, deadline_ms: int) -> None:
        """The application begins to wait for a message; a pull consumer must ask the broker for one."""

    def pulls(self, consumer: ConsumerState) -> bool:  # noqa: ARG002 - only some libraries know the like
        """Whether this consumer gets nothing that it has not asked for."""
        return False

    def asks(self, consumer: ConsumerState) -> bool:
        """Whether the broker owes this consumer the answer to a pull."""
        return consumer.name in self.asking

    @abstractmethod
    def keep(self, notice: Delivered, message: str) -> None:
        """Remember an arrival until the application takes it."""

    def record_discard(self, notice: Discarded) -> None:
        """The library threw a message away; what a browser does not want to see stays where it is."""
        if notice.consumer in self.browsing:
            return
        now_ns = self.world.agenda.now_ns
        recorder = self.world.recorder
        message = self.suite_id_of(notice.message_id)
        event = Discard(recorder.next_seq(), now_ns, now_ns, self.state.name, notice.consumer, message, notice.reason)
        recorder.record(event)

    @abstractmethod
    def suite_id_of(self, message_id: str) -> str:
        """The suite's id of a message that arrived here."""

    # -- what the application does

    @abstractmethod
    def send(self, destination: str, message: str, step: Send) -> tuple[str, Stamps]:
        """Write a message; returns the receipt's name and the stamps."""

    @abstractmethod
    def subscribe(self, consumer: str, destination: str, step: Subscribe) -> str:
        """Attach a consumer; returns the receipt's name."""

    @abstractmethod
    def unsubscribe(self, consumer: str) -> None:
        """Detach a consumer without waiting."""

    @abstractmethod
    def take(self, consumer: ConsumerState) -> str | None:
        """The next message for the application, by its suite id; None when there is none now."""

    @abstractmethod
    def ack(self, consumer: ConsumerState, upto: int) -> tuple[str, list[str]]:
        """Acknowledge; returns the receipt's name and the suite ids that it covers."""

    @abstractmethod
    def nack(self, consumer: ConsumerState, message: str) -> str:
        """Reject one message, outside of any transaction; returns the receipt's name."""

    def acknowledge(self, consumer: ConsumerState, step: Acknowledge) -> tuple[str, list[str]]:
        """Send an acknowledgement of any type; returns the receipt's name and the suite ids in its range."""
        raise NotOfferedError(f"{self.protocol} knows no acknowledgement of type {step.type} ({consumer.name})")

    @abstractmethod
    def library(self) -> Client:
        """The library session of the latest connection."""

    def begin(self, transaction: str) -> str:
        """Begin a transaction; returns the receipt's name."""
        return self._asked(self.library().begin(transaction, receipt=True))

    def commit(self, transaction: str) -> str:
        """Commit; returns the receipt's name."""
        return self._asked(self.library().commit(transaction))

    def rollback(self, transaction: str) -> str:
        """Roll back; returns the receipt's name."""
        return self._asked(self.library().rollback(transaction))

    def unsubscribe_durable(self, name: str) -> str:
        """End a durable subscription; returns the receipt's name."""
        return self._asked(self.library().unsubscribe_durable(name))

    def _asked(self, receipt: str) -> str:
        self.flush()
        return receipt


def is_temporary_address(destination: str) -> bool:
    """Whether it is a temporary queue, as its owner or as others call it."""
    return destination.startswith(("/temp-queue/", TEMP_QUEUE))


def body_of(message: str, size: int) -> bytes:
    """A body of about ``size`` bytes that carries the suite's message id."""
    return (
        message.encode().ljust(max(0, size - 1), b".") + BODY_END
        if size > len(message)
        else message.encode() + BODY_END
    )


def suite_id(body: bytes) -> str:
    """The suite's message id in a body; the whole body when it is not ours."""
    return body.partition(BODY_END)[0].rstrip(b".").decode("utf-8", "replace")
