"""The broker's end of an OpenWire connection, at the level of commands.

* The broker speaks first: its WireFormatInfo is on the outbox as soon as the socket is there. The monitor starts when
  the client's has been read, with the shorter of both offers; later ones change nothing.
* A KeepAliveInfo that asks for an answer gets one at once, even before the handshake is complete; the answer counts as
  sent data.
* A request is refused with an ExceptionResponse if it asked for a response, else with a ConnectionFault. Neither ends
  the connection. A command that breaks the protocol does.

* What is refused without having asked for a response spoils the transaction that it was to be a part of: nobody waits
  there who could decide what becomes of the rest, so the commit is refused, and the transaction rolled back.
* A commit that is refused is a rollback: JMS clients forget the transaction.
* Without ``responseRequired`` nothing is answered unless it is refused. Deleting a destination that is not there is no
  error: a JMS client may do so twice.

Known exceptions: XA transactions are refused. BrokerInfo and ConsumerControl are written only where there are bytes
between both ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.advisory import Advisory
from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.connection_registry import IN_USE as CLIENT_ID_IN_USE
from brokerproof.reference_broker.core.effects import Dispatch, Granted, Refused
from brokerproof.reference_broker.core.events import (
    DELIVERED,
    EXPIRED,
    Ack,
    AddDestination,
    Begin,
    Commit,
    Connect,
    Event,
    Pull,
    RemoveDestination,
    RemoveSubscription,
    Rollback,
    Send,
    Subscribe,
    Unsubscribe,
)
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.matching import is_wild
from brokerproof.reference_broker.inactivity import negotiate
from brokerproof.reference_broker.openwire.client_state import EARLY, HANDLERS, ClientState
from brokerproof.reference_broker.openwire.commands import (
    ADD_DESTINATION,
    BEGIN,
    COMMIT_ONE_PHASE,
    REMOVE_DESTINATION,
    ROLLBACK,
    XA,
    Command,
    ConnectionFault,
    ConnectionInfo,
    ConsumerInfo,
    DestinationInfo,
    EmptyDispatch,
    ExceptionResponse,
    KeepAliveInfo,
    MessageAck,
    MessageDispatch,
    MessagePull,
    ProducerMessage,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    ShutdownInfo,
    TransactionInfo,
    WireFormatInfo,
    as_dispatch,
)
from brokerproof.reference_broker.openwire.connections import BrokerInfo, ConsumerControl, ProducerAck
from brokerproof.reference_broker.openwire.wire.negotiation import VERSION_MIN, VERSION_MODERN, is_spoken
from brokerproof.reference_broker.security.identity import Credentials
from brokerproof.reference_broker.session.destination_options import BadOption, apply_options, split_options
from brokerproof.reference_broker.session.session import Session


class OpenWireProtocolError(Exception):
    """The *peer* broke the protocol. The text shows the value and the remedy."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BrokerSession(Session):
    """See the module's header."""

    __slots__ = ("_asked", "_client_id", "_config", "_names", "_spoilt", "_wired", "client_state", "consumers")

    def __init__(self, connection: int, config: BrokerConfig) -> None:
        super().__init__(connection, KeepAliveInfo(response_required=config.monitor.ask_for_answers))
        self._config = config
        self._client_id = ""
        #: The client's consumer id -> the core's name, and back.
        self.consumers: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self.client_state = ClientState()
        #: There are bytes between both ends.
        self._wired = False
        #: Requests that wait: consumers that are not there yet, by their ids; "" for the deletion of a destination.
        self._asked: dict[int, str] = {}
        #: Open transactions that have lost a part, and why.
        self._spoilt: dict[str, str] = {}

    # -- from the peer

    def open(self) -> None:
        monitor = self._config.monitor
        self.outbox.append(WireFormatInfo(monitor.read_ms, monitor.initial_delay_ms))

    def receive(self, frame: object, now: Now) -> list[Event]:
        if not isinstance(frame, Command):
            raise TypeError(f"an OpenWire session takes commands, not {frame!r}")
        kind = type(frame)
        handler = _HANDLERS.get(kind)
        try:
            if handler is not None:
                return handler(self, frame, now)
            if kind in HANDLERS:
                self._check_connected(frame)
                return HANDLERS[kind](self, frame)
            if kind in EARLY:
                return EARLY[kind](self, frame)
            raise OpenWireProtocolError(f"command {kind.__name__} is not one that a client may send")
        except (OpenWireProtocolError, ValueError) as error:
            if frame.response_required:
                self.outbox.append(ExceptionResponse(frame.command_id, str(error)))
                self.closing = str(error)
            else:
                self.fail(str(error))
            return []

    def is_idle(self, frame: object) -> bool:
        return type(frame) is KeepAliveInfo and not frame.response_required and self._config.monitor.use_monitor

    def credentials(self, frame: object) -> Credentials | None:
        if not isinstance(frame, ConnectionInfo) or self.periods is None or self.connected:
            return None
        return Credentials(frame.user_name, frame.password)

    def reject(self, frame: object, text: str, code: str) -> None:
        self.refuse(frame if isinstance(frame, Command) else Command(), code, text)
        self.closing = text

    def _wire_format(self, info: WireFormatInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        if info.version and not is_spoken(info.version):
            raise OpenWireProtocolError(
                f"OpenWire version {info.version} is not spoken here; use {VERSION_MIN}, or a client that speaks "
                f"{VERSION_MODERN} or later"
            )
        if self.periods is None:
            mine = self._config.monitor
            offered = (info.max_inactivity_duration_ms, info.max_inactivity_duration_initial_delay_ms)
            if mine.ignore_remote:
                offered = (mine.read_ms, mine.initial_delay_ms)
            self.periods = negotiate(mine.read_ms, mine.initial_delay_ms, *offered)
            self._wired = info.version > 0
            if self._wired:
                self.outbox.append(BrokerInfo(f"ID:{self._config.name}", self._config.name))
        return []

    def _connection(self, info: ConnectionInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        if self.periods is None:
            raise OpenWireProtocolError("ConnectionInfo came before WireFormatInfo; send WireFormatInfo first")
        if self.connected:
            raise OpenWireProtocolError("ConnectionInfo is sent once per connection")
        if info.connection_id and not info.client_id:
            self.reject(info, "the client id is missing; every connection needs one", "no-client-id")
            return []
        self.connected = True
        self._client_id = info.client_id
        self.client_state.connection_id = info.connection_id
        self.client_state.returns = info.fault_tolerant or info.failover_reconnect
        return [
            Connect(
                self.connection,
                info.client_id,
                identity=info.connection_id,
                exclusive=bool(info.connection_id),
                request=info.command_id if info.response_required else 0,
                user=info.user_name,
            )
        ]

    def _consumer(self, info: ConsumerInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(info)
        if info.consumer_id in self.consumers:
            self.respond(info)  # it comes back over another socket and repeats what it had
            return []
        if self.refuse_unknown_session(info, "consumer", info.consumer_id):
            return []
        if info.prefetch < 0:
            raise OpenWireProtocolError(f"prefetch {info.prefetch} is negative; ask for 0 (it pulls) or more")
        if not -128 <= info.priority <= 127:
            raise OpenWireProtocolError(f"consumer priority {info.priority} is no byte; use -128 to 127")
        try:
            destination, options = split_options(info.destination)
        except BadOption as bad:
            self.refuse(info, "bad-option", str(bad))
            return []
        name = f"{self.connection}.{info.consumer_id}"
        self.consumers[info.consumer_id] = name
        self._names[name] = info.consumer_id
        if info.response_required:
            self._asked[info.command_id] = info.consumer_id
        event = Subscribe(
            self.connection,
            name,
            destination,
            info.prefetch,
            dispatch_async=info.dispatch_async,
            selector=info.selector,
            no_local=info.no_local,
            exclusive=info.exclusive,
            priority=info.priority,
            browser=info.browser,
            durable=info.subscription_name,
            retroactive=info.retroactive,
            pending_limit=info.pending_limit,
            request=info.command_id if info.response_required else 0,
        )
        apply_options(event, options)
        return [event]

    def _remove(self, info: RemoveInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(info)
        name = self.consumers.pop(info.consumer_id, None)
        if name is None:
            self._refuse_unknown(info, info.consumer_id)
            return []
        request = info.command_id if info.response_required else 0
        return [
            Unsubscribe(
                self.connection,
                name,
                last_sequence=info.last_sequence,
                request=request,
            )
        ]

    def _refuse_unknown(self, command: Command, consumer_id: str) -> None:
        text = f"consumer {consumer_id!r} does not exist on this connection; subscribe first"
        self.refuse(command, "unknown-consumer", text)

    # -- answers of this session alone

    def respond(self, command: Command) -> None:
        """Yes, if somebody waits for it."""
        if command.response_required:
            self.outbox.append(Response(command.command_id))

    def refuse(self, command: Command, code: str, text: str) -> None:
        """No, to one command; the connection goes on."""
        if command.response_required:
            self.outbox.append(ExceptionResponse(command.command_id, text, code))
        else:
            self.outbox.append(ConnectionFault(text, code))

    def refuse_unknown_session(self, command: Command, what: str, name: str) -> bool:
        """Whether a consumer or producer names a session that is not there; then it has been refused."""
        missing = self.client_state.missing_session(name)
        if missing:
            text = f"{what} {name} belongs to session {missing}, which is not there; begin it first"
            self.refuse(command, "unknown-session", text)
        return bool(missing)

    # -- messages

    def _message(self, command: ProducerMessage, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(command)
        request = command.command_id if command.response_required else 0
        credit_bytes = number = 0
        producer = command.producer_id
        if producer:
            if producer not in self.client_state.producers:
                text = f"producer {producer} is not there; announce it first"
                self.refused(Refused(self.connection, request, "unknown-producer", text, command.transaction))
                return []
            if not request:
                credit_bytes = self.client_state.credit_bytes(producer, command.message)
            if self.client_state.returns and command.message.persistent and not command.transaction:
                number = command.number
        return [
            Send(
                self.connection,
                command.message,
                network=command.network,
                transaction=command.transaction,
                request=request,
                producer=producer,
                credit_bytes=credit_bytes,
                number=number,
            )
        ]

    def _ack(self, ack: MessageAck, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(ack)
        if not DELIVERED <= ack.ack_type <= EXPIRED:
            raise OpenWireProtocolError(f"acknowledgement type {ack.ack_type} is unknown; use 0 to 6")
        request = ack.command_id if ack.response_required else 0
        name = self.consumers.get(ack.consumer_id)
        if name is None:
            # A consumer that has just left may have acknowledgements on the way; ActiveMQ ignores them
            # (activemq-expiry-inflight.md 4.3).
            self.respond(ack)
            return []
        return [
            Ack(
                self.connection,
                name,
                ack.ack_type,
                ack.last_message_id,
                first=ack.first_message_id,
                # The consumer's own, if it consumes from several: then any copy is meant.
                destination="" if is_wild(ack.destination) or "," in ack.destination else ack.destination,
                transaction=ack.transaction,
                cause=ack.poison_cause,
                request=request,
            )
        ]

    def _pull(self, pull: MessagePull, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(pull)
        if pull.timeout_ms < -1:
            raise OpenWireProtocolError(f"pull timeout {pull.timeout_ms} ms is negative; use -1, 0 or more")
        name = self.consumers.get(pull.consumer_id)
        if name is None:
            self._refuse_unknown(pull, pull.consumer_id)
            return []
        request = pull.command_id if pull.response_required else 0
        return [Pull(self.connection, name, pull.timeout_ms, request=request)]

    def _transaction(self, info: TransactionInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(info)
        kind = _TRANSACTION_STEPS.get(info.kind)
        distributed = info.transaction.startswith(XA)
        if kind is None or distributed:
            text = (
                f"transaction step {info.kind} is XA or unknown; use {BEGIN} (begin), {COMMIT_ONE_PHASE} (commit), "
                f"{ROLLBACK} (rollback)"
            )
            self.refuse(info, "not-offered", f"{text} in a local transaction" if distributed else text)
            return []
        why = self._spoilt.pop(info.transaction, "")
        if why and kind is Commit:
            text = f"transaction {info.transaction} is rolled back, because a part of it was refused: {why}"
            self.refuse(info, "rolled-back", text)
            return [Rollback(self.connection, info.transaction)]
        request = info.command_id if info.response_required else 0
        if kind is Commit:
            return [Commit(self.connection, info.transaction, request=request, ends=True)]
        return [kind(self.connection, info.transaction, request=request)]

    def _destination(self, info: DestinationInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(info)
        kind = _DESTINATION_STEPS.get(info.operation)
        if kind is None:
            raise OpenWireProtocolError(
                f"destination operation {info.operation} is unknown; use {ADD_DESTINATION} (add), "
                f"{REMOVE_DESTINATION} (remove)"
            )
        request = info.command_id if info.response_required else 0
        if request and kind is RemoveDestination:
            self._asked[request] = ""
        return [kind(self.connection, info.destination, request=request)]

    def _remove_subscription(self, info: RemoveSubscriptionInfo, now: Now) -> list[Event]:  # noqa: ARG002 - as above
        self._check_connected(info)
        if info.client_id not in {"", self._client_id}:
            text = f"client id {info.client_id!r} is not this connection's, {self._client_id!r}"
            self.refuse(info, "unknown-subscription", f"{text}; only its own subscriptions can be removed")
            return []
        request = info.command_id if info.response_required else 0
        return [RemoveSubscription(self.connection, info.subscription_name, request=request)]

    def _keep_alive(self, info: KeepAliveInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        if not self._config.monitor.use_monitor:
            self.respond(info)  # without a monitor it is a command like any other
        elif info.response_required:
            self.outbox.append(KeepAliveInfo(info.command_id))
        return []

    def _shutdown(self, info: ShutdownInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self.respond(info)
        self.closing = "ShutdownInfo"
        return []

    def _check_connected(self, command: Command) -> None:
        if not self.connected:
            raise OpenWireProtocolError(f"{type(command).__name__} came before ConnectionInfo; connect first")

    # -- from the core

    def accepted(self, request: int) -> None:
        if request:
            if self._asked:
                self._asked.pop(request, None)
            self.outbox.append(Response(request))

    def refused(self, effect: Refused) -> None:
        missing = self._asked.pop(effect.request, None)
        if missing:
            del self.consumers[missing]
        elif missing is not None and effect.code == "unknown-destination":
            self.outbox.append(Response(effect.request))
            return
        if effect.request:
            self.outbox.append(ExceptionResponse(effect.request, effect.text, effect.code))
        else:
            self.outbox.append(ConnectionFault(effect.text, effect.code))
            if effect.transaction and effect.code != "unknown-transaction":
                self._spoilt.setdefault(effect.transaction, effect.text)
        if effect.code == CLIENT_ID_IN_USE:
            self.connected = False
            self.closing = effect.text

    def credited(self, producer: str, size_bytes: int) -> None:
        self.outbox.append(ProducerAck(producer, size_bytes))

    def granted(self, effect: Granted) -> None:
        consumer_id = self._names.get(effect.consumer)
        if self._wired and consumer_id is not None:
            self.outbox.append(ConsumerControl(consumer_id, effect.prefetch, effect.destination))

    def fail(self, text: str, receipt: str = "") -> None:  # noqa: ARG002 - OpenWire has no receipts
        if not self.closing:
            self.outbox.append(ConnectionFault(text))
            self.closing = text

    def render(self, dispatch: Dispatch) -> MessageDispatch | None:
        # Also for a consumer that has left: ActiveMQ writes what is in its outbox, and the client throws it away.
        consumer_id = self._names.get(dispatch.consumer)
        if consumer_id is None:
            return None
        message = dispatch.message
        written = as_dispatch(message, consumer_id)
        written.redelivery_count = dispatch.redelivery_count
        written.expiration_ms = message.shown_expiration_ms()
        written.original_destination = message.original_destination
        written.sequence = message.sequence
        if dispatch.remaining_ttl_ms > 0:
            shown = self._config.relative_ttl_names[:1]
            written.opened = message.properties | dict.fromkeys(shown, dispatch.remaining_ttl_ms)
        if isinstance(message, Advisory):
            written.about = message.data_structure
        return written

    def no_message(self, consumer: str) -> None:
        consumer_id = self._names.get(consumer)
        if consumer_id is not None:
            self.outbox.append(EmptyDispatch(consumer_id))


_TRANSACTION_STEPS: Final[dict[int, type[Begin]]] = {BEGIN: Begin, COMMIT_ONE_PHASE: Commit, ROLLBACK: Rollback}
_DESTINATION_STEPS: Final[dict[int, type[AddDestination]]] = {
    ADD_DESTINATION: AddDestination,
    REMOVE_DESTINATION: RemoveDestination,
}
# A handler takes the command that it is registered for, which the type of a table cannot say.
_HANDLERS: Final[dict[type[Command], Callable[[BrokerSession, Any, Now], list[Event]]]] = {
    WireFormatInfo: BrokerSession._wire_format,
    ConnectionInfo: BrokerSession._connection,
    ConsumerInfo: BrokerSession._consumer,
    RemoveInfo: BrokerSession._remove,
    ProducerMessage: BrokerSession._message,
    MessageAck: BrokerSession._ack,
    MessagePull: BrokerSession._pull,
    TransactionInfo: BrokerSession._transaction,
    DestinationInfo: BrokerSession._destination,
    RemoveSubscriptionInfo: BrokerSession._remove_subscription,
    KeepAliveInfo: BrokerSession._keep_alive,
    ShutdownInfo: BrokerSession._shutdown,
}
