"""The broker's end of a STOMP connection: frames in, core events out; core effects in, frames out.

Rules
* ActiveMQ's header conventions, because its users and its tests speak them: ``expires`` and ``timestamp`` in epoch
  milliseconds, ``persistent:true``, ``AMQ_SCHEDULED_DELAY``, ``activemq.prefetchSize``, ``activemq.dispatchAsync``. All
  other headers of a SEND travel as properties.
* What is not supported is refused, never ignored: a header that changes the meaning of a frame and is not understood
  ends in ERROR.
* After every ERROR the connection ends, as STOMP 1.2 demands ("ERROR": the server must then close the connection).
  ActiveMQ keeps some of them open.
* Every event that can be refused carries a request number, with or without a receipt: otherwise a refused SEND would be
  lost in silence.
* Names are made from the connection's number and counters, so that the same program gives the same bytes.

Known exceptions
* NACK concerns one message also in ``ack:client``, as in ActiveMQ, whose poison acknowledgement names a single message;
  STOMP 1.2 would include the earlier ones.
* ``activemq.dispatchAsync:false`` is honoured, as ActiveMQ did before 5.15.5 (AMQ-7011 made it have no effect).
* ``host``, ``login`` and ``passcode`` are not looked at: there are no virtual hosts and no users yet.

What must change together: ``client.py`` for every header; ``frames.py`` for the commands; ``docs/configuration.md`` for
what an operator can set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from reference_broker.core.config import BrokerConfig
from reference_broker.core.effects import Dispatch, Refused
from reference_broker.core.events import INDIVIDUAL, POISON, STANDARD, Ack, Connect, Event, Send, Subscribe, Unsubscribe
from reference_broker.core.instant import Now
from reference_broker.core.message import DEFAULT_PRIORITY, TOPIC, Message, property_text
from reference_broker.inactivity import stomp_periods
from reference_broker.session import Session, parse_long
from reference_broker.stomp.frames import (
    HEARTBEAT,
    V10,
    V11,
    V12,
    VERSIONS,
    Frame,
    StompProtocolError,
    core_destination,
    negotiate_version,
    stomp_destination,
)

QUEUE_PREFETCH: Final = 1000
TOPIC_PREFETCH: Final = 32767
ACK_MODES: Final = ("auto", "client", "client-individual")

#: Headers of a SEND that are not properties: the frame's own, and those with a field of their own in the message.
_SEND_HEADERS: Final = frozenset(
    {
        "AMQ_SCHEDULED_DELAY",
        "ack",
        "browser",
        "content-length",
        "destination",
        "expires",
        "message-id",
        "original-destination",
        "persistent",
        "priority",
        "receipt",
        "redelivered",
        "subscription",
        "timestamp",
    }
)
#: Headers that would change what a frame means.
_UNSUPPORTED: Final[dict[str, frozenset[str]]] = {
    "SEND": frozenset({"transaction", "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT", "AMQ_SCHEDULED_CRON"}),
    "ACK": frozenset({"transaction"}),
    "NACK": frozenset({"transaction"}),
    "SUBSCRIBE": frozenset(
        {
            "selector",
            "browser",
            "activemq.subscriptionName",
            "durable-subscription-name",
            "activemq.exclusive",
            "activemq.noLocal",
            "activemq.priority",
            "activemq.retroactive",
            "activemq.maximumPendingMessageLimit",
        }
    ),
}
#: Values of those headers that ask for nothing.
_HARMLESS: Final = frozenset({"", "false", "0"})


class _Subscription:
    """One SUBSCRIBE. ``unsettled``: message id -> ack id, in the order of delivery; empty in ``ack:auto``."""

    __slots__ = ("ack_mode", "consumer", "destination", "identity", "unsettled")

    def __init__(self, identity: str, consumer: str, destination: str, ack_mode: str) -> None:
        #: The client's ``id``; empty for a STOMP 1.0 subscription without one.
        self.identity = identity
        self.consumer = consumer
        self.destination = destination
        self.ack_mode = ack_mode
        self.unsettled: dict[str, str] = {}


class BrokerSession(Session):
    """See the module's header."""

    __slots__ = (
        "_acks",
        "_by_consumer",
        "_config",
        "_deliveries",
        "_messages",
        "_receipts",
        "_requests",
        "_subscribed",
        "_subscriptions",
        "version",
    )

    def __init__(self, connection: int, config: BrokerConfig) -> None:
        super().__init__(connection, HEARTBEAT, HEARTBEAT)
        self._config = config
        self.version = V10
        #: Key (id, or destination without one) -> subscription.
        self._subscriptions: dict[str, _Subscription] = {}
        self._by_consumer: dict[str, _Subscription] = {}
        #: Ack id -> (subscription, message id).
        self._acks: dict[str, tuple[_Subscription, str]] = {}
        #: Request number -> the receipt that is owed.
        self._receipts: dict[int, str] = {}
        self._requests = 0
        self._messages = 0
        self._subscribed = 0
        self._deliveries = 0

    # -- from the peer

    def receive(self, frame: object, now: Now) -> list[Event]:
        if not isinstance(frame, Frame):
            raise TypeError(f"a STOMP session takes Frame or Heartbeat, not {frame!r}")
        handler = _HANDLERS.get(frame.command)
        try:
            if handler is None:
                raise StompProtocolError(f"command {frame.command!r} is not one that a client may send; see STOMP 1.2")
            if self.connected == (handler is BrokerSession._connect):
                asked = "is sent once, as the first frame" if self.connected else "came before CONNECT; connect first"
                raise StompProtocolError(f"{frame.command} {asked}")
            unsupported = _UNSUPPORTED.get(frame.command)
            if unsupported is not None and not unsupported.isdisjoint(frame.headers):
                _refuse_unsupported(frame, unsupported)
            return handler(self, frame, now)
        except (StompProtocolError, ValueError) as error:
            self._error(str(error), frame.headers.get("receipt", ""))
            return []

    def _connect(self, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        headers = frame.headers
        version = negotiate_version(headers.get("accept-version"))
        if version is None:
            raise StompProtocolError(
                f"accept-version:{headers['accept-version']} has no version of ours; use one of {', '.join(VERSIONS)}"
            )
        sends_ms, wants_ms = self._heart_beat(headers.get("heart-beat"))
        self.version = version
        self.connected = True
        reply = {"version": version, "session": str(self.connection), "server": "brokerproof"}
        if self._config.monitor.read_ms > 0:
            # ActiveMQ promises and asks exactly what the client asked and promised.
            reply["heart-beat"] = f"{wants_ms},{sends_ms}"
            if sends_ms >= 0 and wants_ms >= 0:
                self.periods = stomp_periods(self._config.generation["monitor"], sends_ms, wants_ms)
        else:
            reply["heart-beat"] = "0,0"
        if self.periods is None:
            self.periods = stomp_periods("classic", 0, 0)
        self.outbox.append(Frame("CONNECTED", reply))
        return [Connect(self.connection, headers.get("client-id") or f"stomp-{self.connection}")]

    def _heart_beat(self, text: str | None) -> tuple[int, int]:
        """(what the client will send, what it wants), in milliseconds."""
        if text is None:
            return 0, 0
        parts = text.split(",")
        try:
            sends_ms, wants_ms = (parse_long("heart-beat", part.strip()) for part in parts)
        except ValueError:
            raise StompProtocolError(
                f"Invalid heart-beat header:{text}; send two numbers of milliseconds, as in 1000,1000"
            ) from None
        if (sends_ms < 0 or wants_ms < 0) and self._config.generation["monitor"] != "classic":
            # ActiveMQ accepts them and then has no monitor at all, which the client cannot have meant.
            raise StompProtocolError(
                f"Invalid heart-beat header:{text}; a number is negative, send 0 for no heart-beats"
            )
        return sends_ms, wants_ms

    def _send(self, frame: Frame, now: Now) -> list[Event]:
        headers = frame.headers
        destination = core_destination(_required(frame, "destination"))
        self._messages += 1
        delay_ms = _number(headers, "AMQ_SCHEDULED_DELAY", 0)
        if delay_ms < 0:
            raise StompProtocolError(f"AMQ_SCHEDULED_DELAY:{delay_ms} is negative; send 0 or more milliseconds")
        message = Message(
            f"ID-{self.connection}-{self._messages}",
            destination,
            frame.body,
            timestamp_ms=_number(headers, "timestamp", now.wall_ms),
            expiration_ms=_number(headers, "expires", 0),
            delay_ms=delay_ms,
            persistent=headers.get("persistent") == "true",
            priority=min(max(_number(headers, "priority", DEFAULT_PRIORITY), 0), 9),
            properties={name: value for name, value in headers.items() if name not in _SEND_HEADERS},
        )
        return [Send(self.connection, message, request=self._request(frame))]

    def _subscribe(self, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        headers = frame.headers
        text = _required(frame, "destination")
        destination = core_destination(text)
        identity = headers.get("id", "") if self.version == V10 else _required(frame, "id")
        key = identity or text
        if key in self._subscriptions:
            raise StompProtocolError(f"subscription {key!r} exists already; unsubscribe it first or use another id")
        ack_mode = headers.get("ack", "auto")
        if ack_mode not in ACK_MODES:
            raise StompProtocolError(f"ack:{ack_mode} is unknown; one of {', '.join(ACK_MODES)}")
        default = TOPIC_PREFETCH if destination.startswith(TOPIC) else QUEUE_PREFETCH
        prefetch = _number(headers, "activemq.prefetchSize", default)
        if prefetch < 0:
            raise StompProtocolError(f"activemq.prefetchSize:{prefetch} is negative; send 1 or more")
        self._subscribed += 1
        consumer = f"{self.connection}.{self._subscribed}"
        subscription = _Subscription(identity, consumer, text, ack_mode)
        self._subscriptions[key] = self._by_consumer[consumer] = subscription
        return [
            Subscribe(
                self.connection,
                consumer,
                destination,
                prefetch,
                dispatch_async=headers.get("activemq.dispatchAsync", "true") != "false",
                auto_ack=ack_mode == "auto",
                request=self._request(frame),
            )
        ]

    def _unsubscribe(self, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        key = frame.headers.get("id", "")
        if not key and self.version == V10:
            key = frame.headers.get("destination", "")
        if not key:
            raise StompProtocolError("UNSUBSCRIBE names no subscription; send the id of its SUBSCRIBE")
        subscription = self._subscriptions.pop(key, None)
        if subscription is None:
            raise StompProtocolError(f"subscription {key!r} does not exist on this connection; subscribe first")
        del self._by_consumer[subscription.consumer]
        for ack_id in subscription.unsettled.values():
            del self._acks[ack_id]
        return [Unsubscribe(self.connection, subscription.consumer, request=self._request(frame))]

    def _ack(self, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        subscription, message_id = self._delivered(frame)
        kind = STANDARD if subscription.ack_mode == "client" else INDIVIDUAL
        unsettled = subscription.unsettled
        if kind == STANDARD:
            for earlier in list(unsettled):
                del self._acks[unsettled.pop(earlier)]
                if earlier == message_id:
                    break
        else:
            del self._acks[unsettled.pop(message_id)]
        return [Ack(self.connection, subscription.consumer, kind, message_id, request=self._request(frame))]

    def _nack(self, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        subscription, message_id = self._delivered(frame)
        del self._acks[subscription.unsettled.pop(message_id)]
        request = self._request(frame)
        return [Ack(self.connection, subscription.consumer, POISON, message_id, first=message_id, request=request)]

    def _delivered(self, frame: Frame) -> tuple[_Subscription, str]:
        """Which delivery an ACK or NACK means.

        STOMP 1.2 names it by ``id``, 1.1 by subscription and message, 1.0 by message alone.
        """
        if self.version == V12:
            ack_id = _required(frame, "id")
            found = self._acks.get(ack_id)
            if found is not None:
                return found
            raise _unknown(frame, ack_id)
        message_id = _required(frame, "message-id")
        if self.version == V11 or "subscription" in frame.headers:
            named = self._subscriptions.get(_required(frame, "subscription"))
            candidates = [named] if named is not None else []
        else:
            candidates = list(self._subscriptions.values())
        for subscription in candidates:
            if message_id in subscription.unsettled:
                return subscription, message_id
        raise _unknown(frame, message_id)

    def _transaction(self, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        raise StompProtocolError(f"{frame.command}: transactions are not supported yet; send without a transaction")

    def _disconnect(self, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG002 - every handler takes the time
        receipt = frame.headers.get("receipt", "")
        if receipt:
            self.outbox.append(Frame("RECEIPT", {"receipt-id": receipt}))
        self.clean = True
        self.closing = "DISCONNECT"
        return []

    def _request(self, frame: Frame) -> int:
        """A number for the core to answer; the receipt that the frame asked for waits under it."""
        self._requests += 1
        receipt = frame.headers.get("receipt")
        if receipt is not None:
            self._receipts[self._requests] = receipt
        return self._requests

    # -- from the core

    def accepted(self, request: int) -> None:
        receipt = self._receipts.pop(request, None)
        if receipt is not None:
            self.outbox.append(Frame("RECEIPT", {"receipt-id": receipt}))

    def refused(self, effect: Refused) -> None:
        self._error(effect.text, self._receipts.pop(effect.request, ""), effect.code)

    def fail(self, text: str, receipt: str = "") -> None:
        self._error(text, receipt)

    def render(self, dispatch: Dispatch) -> Frame | None:
        subscription = self._by_consumer.get(dispatch.consumer)
        if subscription is None:
            return None
        message = dispatch.message
        self._deliveries += 1
        headers = {
            "message-id": message.message_id,
            "destination": stomp_destination(message.destination),
            "expires": str(max(message.expiration_ms, 0)),
            "timestamp": str(message.timestamp_ms),
            "priority": str(message.priority),
            "content-length": str(len(message.body)),
        }
        if subscription.identity:
            headers["subscription"] = subscription.identity
        if message.persistent:
            headers["persistent"] = "true"
        if dispatch.redelivery_count > 0:
            headers["redelivered"] = "true"
        if message.original_destination:
            headers["original-destination"] = stomp_destination(message.original_destination)
        if subscription.ack_mode != "auto":
            ack_id = f"{self.connection}-{self._deliveries}"
            subscription.unsettled[message.message_id] = ack_id
            self._acks[ack_id] = (subscription, message.message_id)
            if self.version == V12:
                headers["ack"] = ack_id
        if message.properties:
            headers |= {
                name: text
                for name, text in ((name, property_text(value)) for name, value in message.properties.items())
                if name not in _SEND_HEADERS and _representable(name, text, self.version)
            }
        if self.version == V10:
            headers = {name: value for name, value in headers.items() if _representable(name, value, V10)}
        return Frame("MESSAGE", headers, message.body)

    def no_message(self, consumer: str) -> None:
        subscription = self._by_consumer.get(consumer)
        if subscription is None:
            return
        headers = {"browser": "end", "message-id": "0", "destination": subscription.destination}
        if subscription.identity:
            headers["subscription"] = subscription.identity
        self.outbox.append(Frame("MESSAGE", headers))

    def _error(self, text: str, receipt: str, code: str = "") -> None:
        if self.closing:
            return
        # One line and no NUL, whatever the peer sent: before CONNECT no header is escaped.
        line = " ".join(text.split()).replace("\0", "?")[:200]
        headers = {"message": line, "content-type": "text/plain"}
        if receipt:
            headers["receipt-id"] = receipt
        if code:
            headers["code"] = code
        self.outbox.append(Frame("ERROR", headers, text.encode()))
        self.closing = line


_HANDLERS: Final[dict[str, Callable[[BrokerSession, Frame, Now], list[Event]]]] = {
    "CONNECT": BrokerSession._connect,
    "STOMP": BrokerSession._connect,
    "SEND": BrokerSession._send,
    "SUBSCRIBE": BrokerSession._subscribe,
    "UNSUBSCRIBE": BrokerSession._unsubscribe,
    "ACK": BrokerSession._ack,
    "NACK": BrokerSession._nack,
    "BEGIN": BrokerSession._transaction,
    "COMMIT": BrokerSession._transaction,
    "ABORT": BrokerSession._transaction,
    "DISCONNECT": BrokerSession._disconnect,
}


def _required(frame: Frame, name: str) -> str:
    value = frame.headers.get(name, "")
    if not value:
        raise StompProtocolError(f"{frame.command} lacks the header {name!r}; add it")
    return value


def _number(headers: dict[str, str], name: str, default: int) -> int:
    text = headers.get(name)
    return default if text is None else parse_long(name, text)


def _refuse_unsupported(frame: Frame, names: frozenset[str]) -> None:
    """Raise for the first header that asks for something that does not exist yet."""
    for name, value in frame.headers.items():
        if name in names and value not in _HARMLESS:
            if name == "transaction":
                raise StompProtocolError(
                    f"{frame.command} {name}:{value}: transactions are not supported yet; send without a transaction"
                )
            raise StompProtocolError(f"{frame.command} {name}:{value} is not supported yet; leave the header out")


def _unknown(frame: Frame, name: str) -> StompProtocolError:
    return StompProtocolError(
        f"Unexpected {frame.command} received for message-id [{name}]; "
        "acknowledge each delivery once, on the connection that got it"
    )


def _representable(name: str, value: str, version: str) -> bool:
    """False for a header that this version cannot write: NUL never, line ends and colons not without escaping."""
    if "\0" in name or "\0" in value or not name:
        return False
    return version != V10 or not ("\n" in name or ":" in name or "\n" in value)
