"""What a client announces on its connection beside its consumers, sessions and producers, and how all of it ends.

Rules (openwire.md 10.3, 10.5, 10.12)
* A session or producer that is announced again is accepted and changes nothing: a client that comes back over another
  socket repeats what it had.
* Session -1 is there without an announcement. A consumer or producer of another session that is not there is refused.
  Names that are no identifiers of OpenWire (in the simulation) belong to no session.
* A producer of one destination makes it, and is refused at once if it may not send there (as in ActiveMQ): what it
  sends later may ask for no answer.
* A session takes its consumers and producers with it, a connection its sessions. What is removed without being there is
  no error: a client may close twice.
* A message of a producer with a window that asks for no answer takes credit, which the core gives back (ProducerAck)
  when it has dealt with the message.
* What a client tells of its transport (ConnectionControl, ControlCommand, FlushCommand) changes nothing; so is a
  Response, which ActiveMQ's failover transport sends when it comes back.
* A client that comes back announces its consumers with prefetch 0 and resizes them when it is ready (ConsumerControl).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from brokerproof.reference_broker.core.events import (
    AddProducer,
    Disconnect,
    Event,
    Resize,
    Unsubscribe,
)
from brokerproof.reference_broker.core.events import RemoveProducer as ProducerLeft
from brokerproof.reference_broker.openwire.commands import Command, RefusedCommand, Response
from brokerproof.reference_broker.openwire.connections import (
    ConnectionControl,
    ConsumerControl,
    IgnoredCommand,
    ProducerInfo,
    RemoveConnection,
    RemoveProducer,
    RemoveSession,
    SessionInfo,
)
from brokerproof.reference_broker.session.destination_options import plain_name

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message

#: The session that nobody announces.
IMPLICIT: Final = "-1"
#: What a message costs in a window beside its body and properties (ActiveMQ's minimum message size).
OVERHEAD_BYTES: Final = 1024


class ClientState:
    """See the module's header. Dicts instead of sets: their order is that of arrival."""

    __slots__ = ("connection_id", "producers", "returns", "sessions")

    def __init__(self) -> None:
        self.connection_id = ""
        #: It comes back when it loses its socket, and sends again what was not answered.
        self.returns = False
        self.sessions: dict[str, bool] = {}
        self.producers: dict[str, ProducerInfo] = {}

    def missing_session(self, member: str) -> str:
        """The session that a consumer or producer names and nobody has announced; "" if there is none missing."""
        session, separator, _ = member.rpartition(":")
        if not separator or not self.connection_id or session.rpartition(":")[0] != self.connection_id:
            return ""
        if session in self.sessions or session.endswith(":" + IMPLICIT):
            return ""
        return session

    def of_session(self, session: str, names: list[str]) -> list[str]:
        """Those names that belong to a session."""
        return [name for name in names if name.rpartition(":")[0] == session]

    def end_session(self, session: str, connection: int) -> list[Event]:
        """A session goes, with its producers; its consumers are somebody else's business."""
        self.sessions.pop(session, None)
        producers = self.of_session(session, list(self.producers))
        return [event for producer in producers for event in self.remove_producer(producer, connection)]

    def remove_producer(self, producer: str, connection: int) -> list[Event]:
        """A producer goes, and the core hears of it if it had a destination."""
        info = self.producers.pop(producer, None)
        return [ProducerLeft(connection, f"{connection}.{producer}")] if info is not None and info.destination else []

    def clear(self) -> None:
        """The connection goes."""
        self.sessions.clear()
        self.producers.clear()

    def credit_bytes(self, producer: str, message: Message) -> int:
        """What a message takes of its producer's window; 0 if it has none."""
        info = self.producers.get(producer)
        if info is None or info.window_bytes <= 0:
            return 0
        packed = message.packed
        return len(message.body) + (0 if packed is None else len(packed.data)) + OVERHEAD_BYTES


class CommandSession(Protocol):
    """What the handlers below use of the session (``broker.py``)."""

    client_state: ClientState
    connected: bool
    connection: int
    consumers: dict[str, str]

    def respond(self, command: Command) -> None: ...
    def refuse(self, command: Command, code: str, text: str) -> None: ...
    def refuse_unknown_session(self, command: Command, what: str, name: str) -> bool: ...


def _session(session: CommandSession, info: SessionInfo) -> list[Event]:
    session.client_state.sessions.setdefault(info.session_id, True)
    session.respond(info)
    return []


def _producer(session: CommandSession, info: ProducerInfo) -> list[Event]:
    if session.refuse_unknown_session(info, "producer", info.producer_id):
        return []
    known = info.producer_id in session.client_state.producers
    session.client_state.producers.setdefault(info.producer_id, info)
    if known or not info.destination:
        session.respond(info)
        return []
    request = info.command_id if info.response_required else 0
    name = f"{session.connection}.{info.producer_id}"
    return [AddProducer(session.connection, plain_name(info.destination), name, request=request)]


def _remove_producer(session: CommandSession, info: RemoveProducer) -> list[Event]:
    left = session.client_state.remove_producer(info.name, session.connection)
    session.respond(info)
    return left


def _remove_session(session: CommandSession, info: RemoveSession) -> list[Event]:
    client_state = session.client_state
    events = client_state.end_session(info.name, session.connection)
    leaving = client_state.of_session(info.name, list(session.consumers))
    session.respond(info)
    return events + [
        Unsubscribe(session.connection, session.consumers.pop(consumer), last_sequence=info.last_sequence)
        for consumer in leaving
    ]


def _remove_connection(session: CommandSession, info: RemoveConnection) -> list[Event]:
    if info.name != session.client_state.connection_id:
        session.respond(info)
        return []
    session.client_state.clear()
    session.consumers.clear()
    session.connected = False
    session.respond(info)
    return [Disconnect(session.connection, last_sequence=info.last_sequence)]


def _ignore(session: CommandSession, command: Command) -> list[Event]:
    session.respond(command)
    return []


def _resize(session: CommandSession, control: ConsumerControl) -> list[Event]:
    name = session.consumers.get(control.consumer_id)
    if name is None or control.prefetch < 0:
        session.respond(control)
        return []
    request = control.command_id if control.response_required else 0
    return [Resize(session.connection, name, control.prefetch, request=request)]


def _refused_command(session: CommandSession, command: RefusedCommand) -> list[Event]:
    session.refuse(command, "not-offered", command.text)
    return []


#: Commands that need a connection.
HANDLERS: Final[dict[type[Command], Callable[[CommandSession, Any], list[Event]]]] = {
    SessionInfo: _session,
    ProducerInfo: _producer,
    RemoveProducer: _remove_producer,
    RemoveSession: _remove_session,
    RemoveConnection: _remove_connection,
    ConsumerControl: _resize,
    IgnoredCommand: _ignore,
    RefusedCommand: _refused_command,
}
#: Commands that may come before it.
EARLY: Final[dict[type[Command], Callable[[CommandSession, Any], list[Event]]]] = {
    ConnectionControl: _ignore,
    Response: _ignore,
}
