"""A client's end of a STOMP connection: calls in, frames out; frames in, notices out.

Live agents and the simulation use the same class.

* ActiveMQ's header conventions, with absolute ``expires`` and ``timestamp``: the caller tells the client's wall clock.
* Destinations are written ``queue://NAME`` here and ``/queue/NAME`` on the wire.
* A request with ``receipt=True`` gets a name, which is returned and comes back in ``Receipt`` or ``Failed``.
* What a *broker* sends wrongly raises StompProtocolError: here the broker is the culprit.

Known exception: unlike the JMS client it never looks at the expiration of what it receives.
"""

from __future__ import annotations

from brokerproof.reference_broker.core.message import DEFAULT_PRIORITY, Property, property_text
from brokerproof.reference_broker.inactivity import Monitor, stomp_periods
from brokerproof.reference_broker.session.notice import Connected, Delivered, Empty, Failed, Notice, Receipt
from brokerproof.reference_broker.session.session import Client, parse_long
from brokerproof.reference_broker.stomp.frames import (
    HEARTBEAT,
    V10,
    V12,
    VERSIONS,
    Frame,
    StompProtocolError,
    negotiate_version,
    plain_destination,
    stomp_destination,
)
from brokerproof.reference_broker.stomp.headers import MESSAGE_HEADERS

#: How much of an ERROR's body is told, in characters.
_REASON_MAX = 200


class ClientSession(Client):
    """See the module's header.

    ``generation`` is the monitor's, for the periods that follow from the heart-beat header.
    """

    __slots__ = ("_generation", "_receipts", "_sends_ms", "_wants_ms", "version")

    def __init__(self, monitor: Monitor, generation: str = "documented") -> None:
        super().__init__(HEARTBEAT, monitor)
        self._generation = generation
        self._receipts = 0
        self._sends_ms = 0
        self._wants_ms = 0
        #: As negotiated; the best until then.
        self.version = V12

    # -- requests

    def connect(
        self,
        *,
        heart_beat_ms: tuple[int, int] = (0, 0),
        client_id: str = "",
        host: str = "localhost",
        login: str = "",
        passcode: str = "",
        versions: tuple[str, ...] = VERSIONS,
    ) -> None:
        """Say hello. ``heart_beat_ms``: (what we shall send, what we want), 0 is none."""
        self._sends_ms, self._wants_ms = heart_beat_ms
        headers = {"accept-version": ",".join(versions), "host": host}
        if heart_beat_ms != (0, 0):
            headers["heart-beat"] = f"{heart_beat_ms[0]},{heart_beat_ms[1]}"
        optional = {"client-id": client_id, "login": login, "passcode": passcode}
        headers |= {name: value for name, value in optional.items() if value}
        # CONNECT rather than STOMP: a 1.0 server knows no other.
        self.outbox.append(Frame("CONNECT", headers))

    def send(
        self,
        destination: str,
        body: bytes,
        *,
        expiration_ms: int = 0,
        timestamp_ms: int | None = None,
        persistent: bool = False,
        priority: int = DEFAULT_PRIORITY,
        delay_ms: int = 0,
        transaction: str = "",
        group: str = "",
        group_sequence: int = 0,
        reply_to: str = "",
        correlation_id: str = "",
        jms_type: str = "",
        properties: dict[str, Property] | None = None,
        receipt: bool = False,
    ) -> str:
        """Send a message.

        ``expiration_ms`` is absolute, 0 is never; ``timestamp_ms`` None lets the broker stamp; ``delay_ms`` is
        relative. What is "" or 0 is not sent.
        """
        headers = {"destination": stomp_destination(destination), "content-length": str(len(body))}
        if expiration_ms:
            headers["expires"] = str(expiration_ms)
        if timestamp_ms is not None:
            headers["timestamp"] = str(timestamp_ms)
        if persistent:
            headers["persistent"] = "true"
        if priority != DEFAULT_PRIORITY:
            headers["priority"] = str(priority)
        if delay_ms:
            headers["AMQ_SCHEDULED_DELAY"] = str(delay_ms)
        if transaction:
            headers["transaction"] = transaction
        if group:
            headers["JMSXGroupID"] = group
        if group_sequence:
            headers["JMSXGroupSeq"] = str(group_sequence)
        if reply_to:
            headers["reply-to"] = stomp_destination(reply_to)
        if correlation_id:
            headers["correlation-id"] = correlation_id
        if jms_type:
            headers["type"] = jms_type
        if properties:
            headers |= {name: property_text(value) for name, value in properties.items() if name not in headers}
        return self._request("SEND", headers, body, receipt)

    def subscribe(
        self,
        consumer: str,
        destination: str,
        prefetch: int | None = None,
        *,
        ack: str = "auto",
        dispatch_async: bool = True,
        selector: str = "",
        durable: str = "",
        no_local: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        browser: bool = False,
        receipt: bool = False,
    ) -> str:
        """Attach a consumer; ``consumer`` is its id on this connection. ``ack``: auto, client or client-individual.

        ``prefetch`` None leaves it to the broker. ``durable`` is a subscription's name; it needs a client id in
        ``connect``. The end of a browse is the notice ``Empty``.
        """
        headers = {"id": consumer, "destination": stomp_destination(destination), "ack": ack}
        if prefetch is not None:
            headers["activemq.prefetchSize"] = str(prefetch)
        if not dispatch_async:
            headers["activemq.dispatchAsync"] = "false"
        if selector:
            headers["selector"] = selector
        if durable:
            headers["activemq.subscriptionName"] = durable
        if no_local:
            headers["activemq.noLocal"] = "true"
        if exclusive:
            headers["activemq.exclusive"] = "true"
        if priority:
            headers["activemq.priority"] = str(priority)
        if browser:
            headers["browser"] = "true"
        return self._request("SUBSCRIBE", headers, b"", receipt)

    def unsubscribe(self, consumer: str, *, receipt: bool = False) -> str:
        """Detach a consumer."""
        return self._request("UNSUBSCRIBE", {"id": consumer}, b"", receipt)

    def unsubscribe_durable(self, name: str, *, receipt: bool = True) -> str:
        """End a durable subscription of this client id that no consumer uses."""
        # ActiveMQ wants an id although the name alone says what is meant.
        return self._request("UNSUBSCRIBE", {"id": name, "activemq.subscriptionName": name}, b"", receipt)

    def ack(self, delivered: Delivered, *, transaction: str = "", receipt: bool = False) -> str:
        """Acknowledge a delivery; in ``ack:client`` also all earlier ones of its consumer."""
        return self._request("ACK", self._settlement(delivered, transaction), b"", receipt)

    def nack(self, delivered: Delivered, *, transaction: str = "", receipt: bool = False) -> str:
        """Refuse a delivery: ActiveMQ moves it to the dead-letter queue at once (and takes none in transactions)."""
        return self._request("NACK", self._settlement(delivered, transaction), b"", receipt)

    def begin(self, transaction: str, *, receipt: bool = False) -> str:
        """Begin a transaction under a name of ours."""
        return self._request("BEGIN", {"transaction": transaction}, b"", receipt)

    def commit(self, transaction: str, *, receipt: bool = True) -> str:
        """What was sent and acknowledged in the transaction takes effect."""
        return self._request("COMMIT", {"transaction": transaction}, b"", receipt)

    def rollback(self, transaction: str, *, receipt: bool = True) -> str:
        """What was sent and acknowledged in the transaction does not take effect: it can be acknowledged again."""
        return self._request("ABORT", {"transaction": transaction}, b"", receipt)

    def disconnect(self, *, receipt: bool = False) -> str:
        """Say goodbye. Close the socket when the receipt has come."""
        return self._request("DISCONNECT", {}, b"", receipt)

    def _settlement(self, delivered: Delivered, transaction: str) -> dict[str, str]:
        if self.version == V12:
            headers = {"id": delivered.ack_id}
        else:
            headers = {"message-id": delivered.message_id, "subscription": delivered.consumer}
        if transaction:
            headers["transaction"] = transaction
        return headers

    def _request(self, command: str, headers: dict[str, str], body: bytes, receipt: bool) -> str:
        name = ""
        if receipt:
            self._receipts += 1
            name = headers["receipt"] = f"r{self._receipts}"
        self.outbox.append(Frame(command, headers, body))
        return name

    # -- answers

    def receive(self, frame: object, now_ns: int) -> list[Notice]:
        """One decoded frame from the broker."""
        if frame is HEARTBEAT or self.closed:
            return []
        if not isinstance(frame, Frame):
            raise TypeError(f"a STOMP session takes Frame or Heartbeat, not {frame!r}")
        self.monitor.frame_received(now_ns)
        headers = frame.headers
        if frame.command == "MESSAGE":
            if headers.get("browser") == "end" and not frame.body:
                return [Empty(headers.get("subscription", ""))]
            return [self._delivered(frame)]
        if frame.command == "RECEIPT":
            return [Receipt(headers.get("receipt-id", ""))]
        if frame.command == "ERROR":
            return [Failed(_reason(frame), headers.get("receipt-id", ""), headers.get("code", ""))]
        if frame.command == "CONNECTED":
            return [self._connected(headers, now_ns)]
        raise StompProtocolError(f"the broker sent {frame.command!r}, which only a client may send")

    def _connected(self, headers: dict[str, str], now_ns: int) -> Connected:
        version = negotiate_version(headers.get("version", V10))
        if version is None:
            raise StompProtocolError(f"the broker chose version:{headers['version']}, which was not offered")
        self.version = version
        text = headers.get("heart-beat", "0,0")
        try:
            serves_ms, asks_ms = (parse_long("heart-beat", part.strip()) for part in text.split(","))
        except ValueError:
            raise StompProtocolError(f"the broker sent heart-beat:{text}, which is not two numbers") from None
        # STOMP 1.2, "Heart-beating": the slower of promise and wish; none if either is 0.
        incoming = max(self._wants_ms, serves_ms) if self._wants_ms > 0 and serves_ms > 0 else 0
        outgoing = max(self._sends_ms, asks_ms) if self._sends_ms > 0 and asks_ms > 0 else 0
        periods = stomp_periods(self._generation, incoming, outgoing)
        self.monitor.start(now_ns, periods.read_ms, periods.write_ms, periods.initial_delay_ms)
        return Connected(version, (serves_ms, asks_ms))

    def _delivered(self, frame: Frame) -> Delivered:
        headers = frame.headers
        message_id = headers.get("message-id", "")
        return Delivered(
            headers.get("subscription", ""),
            message_id,
            plain_destination(headers.get("destination", "")),
            frame.body,
            expiration_ms=_number(headers, "expires", 0),
            timestamp_ms=_number(headers, "timestamp", 0),
            priority=_number(headers, "priority", DEFAULT_PRIORITY),
            persistent=headers.get("persistent") == "true",
            redelivered=headers.get("redelivered") == "true",
            delivery_count=0,
            original_destination=plain_destination(headers.get("original-destination", "")),
            properties={name: value for name, value in headers.items() if name not in MESSAGE_HEADERS},
            ack_id=headers.get("ack", message_id),
            correlation_id=headers.get("correlation-id", ""),
            reply_to=plain_destination(headers.get("reply-to", "")),
            jms_type=headers.get("type", ""),
            group=headers.get("JMSXGroupID", ""),
            group_sequence=_number(headers, "JMSXGroupSeq", 0),
        )


def _reason(error: Frame) -> str:
    """Why, as the header of an ERROR says in short and its body may in full (STOMP 1.2, "ERROR"); of a trace of many
    lines, which repeats it, nothing.
    """
    short, (full, *_) = error.headers.get("message", ""), error.body.decode(errors="replace").strip().split("\n")
    if not short:
        return full
    return short if short in full or full in short else f"{short}: {full[:_REASON_MAX]}"


def _number(headers: dict[str, str], name: str, default: int) -> int:
    text = headers.get(name)
    if text is None:
        return default
    try:
        return parse_long(name, text)
    except ValueError:
        raise StompProtocolError(f"the broker sent {name}:{text[:40]}, which is not a number of 64 bits") from None
