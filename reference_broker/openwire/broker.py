"""The broker's end of an OpenWire connection, at the level of commands.

Rules
* The broker speaks first: its WireFormatInfo is on the outbox as soon as the socket is there. The monitor starts when
  the client's has been read, with the shorter of both offers; later ones change nothing.
* A KeepAliveInfo that asks for an answer gets one at once, even before the handshake is complete; the answer counts as
  sent data.
* A request is refused with an ExceptionResponse if it asked for a response, else with a ConnectionFault. Neither ends
  the connection. A command that breaks the protocol does.

* A MessagePull and a TransactionInfo BEGIN without a wish for a response are not answered, unless they are refused.

Known exceptions: XA transactions are refused. A consumer whose prefetch the broker's policy has changed to 0 is not
told so (OpenWire: ConsumerControl). What must change together: ``commands.py`` and ``client.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from reference_broker.core.config import BrokerConfig
from reference_broker.core.effects import Dispatch, Refused
from reference_broker.core.events import (
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
from reference_broker.core.instant import Now
from reference_broker.inactivity import negotiate
from reference_broker.openwire.commands import (
    ADD_DESTINATION,
    BEGIN,
    COMMIT_ONE_PHASE,
    REMOVE_DESTINATION,
    ROLLBACK,
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
)
from reference_broker.session import Session


class OpenWireProtocolError(Exception):
    """The *peer* broke the protocol. The text shows the value and the remedy."""


class BrokerSession(Session):
    """See the module's header."""

    __slots__ = ("_client_id", "_config", "_consumers", "_names")

    def __init__(self, connection: int, config: BrokerConfig) -> None:
        super().__init__(connection, KeepAliveInfo(response_required=config.monitor.ask_for_answers))
        self._config = config
        self._client_id = ""
        #: The client's consumer id -> the core's name, and back.
        self._consumers: dict[str, str] = {}
        self._names: dict[str, str] = {}

    # -- from the peer

    def open(self) -> None:
        monitor = self._config.monitor
        self.outbox.append(WireFormatInfo(monitor.read_ms, monitor.initial_delay_ms))

    def receive(self, frame: object, now: Now) -> list[Event]:
        if not isinstance(frame, Command):
            raise TypeError(f"an OpenWire session takes commands, not {frame!r}")
        handler = _HANDLERS.get(type(frame))
        try:
            if handler is None:
                raise OpenWireProtocolError(f"command {type(frame).__name__} is not one that a client may send")
            return handler(self, frame, now)
        except (OpenWireProtocolError, ValueError) as error:
            if frame.response_required:
                self.outbox.append(ExceptionResponse(frame.command_id, str(error)))
                self.closing = str(error)
            else:
                self.fail(str(error))
            return []

    def _wire_format(self, info: WireFormatInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        if self.periods is None:
            mine = self._config.monitor
            offered = (info.max_inactivity_duration_ms, info.max_inactivity_duration_initial_delay_ms)
            if mine.ignore_remote:
                offered = (mine.read_ms, mine.initial_delay_ms)
            self.periods = negotiate(mine.read_ms, mine.initial_delay_ms, *offered)
        return []

    def _connection(self, info: ConnectionInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        if self.periods is None:
            raise OpenWireProtocolError("ConnectionInfo came before WireFormatInfo; send WireFormatInfo first")
        if self.connected:
            raise OpenWireProtocolError("ConnectionInfo is sent once per connection")
        self.connected = True
        self._client_id = info.client_id
        if info.response_required:
            self.outbox.append(Response(info.command_id))
        return [Connect(self.connection, info.client_id)]

    def _consumer(self, info: ConsumerInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(info)
        if info.consumer_id in self._consumers:
            raise OpenWireProtocolError(
                f"consumer {info.consumer_id!r} exists already; remove it first or use another id"
            )
        if info.prefetch < 0:
            raise OpenWireProtocolError(f"prefetch {info.prefetch} is negative; ask for 0 (it pulls) or more")
        if not -128 <= info.priority <= 127:
            raise OpenWireProtocolError(f"consumer priority {info.priority} is no byte; use -128 to 127")
        name = f"{self.connection}.{info.consumer_id}"
        self._consumers[info.consumer_id] = name
        self._names[name] = info.consumer_id
        return [
            Subscribe(
                self.connection,
                name,
                info.destination,
                info.prefetch,
                dispatch_async=info.dispatch_async,
                selector=info.selector,
                no_local=info.no_local,
                exclusive=info.exclusive,
                priority=info.priority,
                browser=info.browser,
                durable=info.subscription_name,
                request=info.command_id if info.response_required else 0,
            )
        ]

    def _remove(self, info: RemoveInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(info)
        name = self._consumers.pop(info.consumer_id, None)
        if name is None:
            raise OpenWireProtocolError(f"consumer {info.consumer_id!r} does not exist on this connection")
        request = info.command_id if info.response_required else 0
        return [Unsubscribe(self.connection, name, last_delivered=info.last_delivered, request=request)]

    def _message(self, command: ProducerMessage, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(command)
        request = command.command_id if command.response_required else 0
        return [Send(self.connection, command.message, transaction=command.transaction, request=request)]

    def _ack(self, ack: MessageAck, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(ack)
        if not DELIVERED <= ack.ack_type <= EXPIRED:
            raise OpenWireProtocolError(f"acknowledgement type {ack.ack_type} is unknown; use 0 to 6")
        request = ack.command_id if ack.response_required else 0
        name = self._consumers.get(ack.consumer_id)
        if name is None:
            # A consumer that has just left may have acknowledgements on the way; ActiveMQ ignores them
            # (activemq-expiry-inflight.md 4.3).
            if request:
                self.outbox.append(Response(request))
            return []
        return [
            Ack(
                self.connection,
                name,
                ack.ack_type,
                ack.last_message_id,
                first=ack.first_message_id,
                destination=ack.destination,
                transaction=ack.transaction,
                cause=ack.poison_cause,
                request=request,
            )
        ]

    def _pull(self, pull: MessagePull, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(pull)
        if pull.timeout_ms < -1:
            raise OpenWireProtocolError(f"pull timeout {pull.timeout_ms} ms is negative; use -1, 0 or more")
        name = self._consumers.get(pull.consumer_id)
        if name is None:
            raise OpenWireProtocolError(f"consumer {pull.consumer_id!r} does not exist on this connection")
        return [Pull(self.connection, name, pull.timeout_ms)]

    def _transaction(self, info: TransactionInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(info)
        kind = _TRANSACTION_STEPS.get(info.kind)
        if kind is None:
            raise OpenWireProtocolError(
                f"transaction step {info.kind} is XA or unknown; use {BEGIN} (begin), {COMMIT_ONE_PHASE} (commit), "
                f"{ROLLBACK} (rollback)"
            )
        return [kind(self.connection, info.transaction, request=info.command_id if info.response_required else 0)]

    def _destination(self, info: DestinationInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        self._check_connected(info)
        kind = _DESTINATION_STEPS.get(info.operation)
        if kind is None:
            raise OpenWireProtocolError(
                f"destination operation {info.operation} is unknown; use {ADD_DESTINATION} (add), "
                f"{REMOVE_DESTINATION} (remove)"
            )
        return [kind(self.connection, info.destination, request=info.command_id if info.response_required else 0)]

    def _remove_subscription(self, info: RemoveSubscriptionInfo, now: Now) -> list[Event]:  # noqa: ARG002 - as above
        self._check_connected(info)
        if info.client_id not in {"", self._client_id}:
            raise OpenWireProtocolError(
                f"client id {info.client_id!r} is not this connection's, {self._client_id!r}; only its own "
                "subscriptions can be removed"
            )
        request = info.command_id if info.response_required else 0
        return [RemoveSubscription(self.connection, info.subscription_name, request=request)]

    def _keep_alive(self, info: KeepAliveInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        if info.response_required:
            if self._config.monitor.use_monitor:
                self.outbox.append(KeepAliveInfo(info.command_id))
            else:
                self.outbox.append(Response(info.command_id))  # without a monitor it is a command like any other
        return []

    def _shutdown(self, info: ShutdownInfo, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        if info.response_required:
            self.outbox.append(Response(info.command_id))
        self.clean = True
        self.closing = "ShutdownInfo"
        return []

    def _check_connected(self, command: Command) -> None:
        if not self.connected:
            raise OpenWireProtocolError(f"{type(command).__name__} came before ConnectionInfo; connect first")

    # -- from the core

    def accepted(self, request: int) -> None:
        if request:
            self.outbox.append(Response(request))

    def refused(self, effect: Refused) -> None:
        if effect.request:
            self.outbox.append(ExceptionResponse(effect.request, effect.text, effect.code))
        else:
            self.outbox.append(ConnectionFault(effect.text, effect.code))

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
        properties = message.properties
        if dispatch.remaining_ttl_ms > 0:
            shown = self._config.relative_ttl_names[:1]
            properties = properties | dict.fromkeys(shown, dispatch.remaining_ttl_ms)
        return MessageDispatch(
            consumer_id,
            message.message_id,
            message.destination,
            message.body,
            redelivery_count=dispatch.redelivery_count,
            expiration_ms=message.shown_expiration_ms(),
            timestamp_ms=message.timestamp_ms,
            persistent=message.persistent,
            priority=message.priority,
            original_destination=message.original_destination,
            properties=properties,
            correlation_id=message.correlation_id,
            reply_to=message.reply_to,
            jms_type=message.jms_type,
            group_id=message.group_id,
            group_sequence=message.group_sequence,
        )

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
