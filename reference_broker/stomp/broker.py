"""The broker's end of a STOMP connection: frames in, core events out; core effects in, frames out.

This module decides the handshake, who handles which frame, receipts and errors. The frame families have a file each:
``messages.py``, ``subscriptions.py``, ``transactions.py``; ``temporaries.py`` knows the connection's own destinations.

* What is not supported is refused, never ignored: a header that changes the meaning of a frame and is not understood
  ends in ERROR.
* After every ERROR the connection ends, as STOMP 1.2 demands ("ERROR": the server must then close the connection).
  ActiveMQ keeps some of them open.
* Only a frame with a receipt is answered when it succeeds; every frame is when it is refused. One frame may cause
  several events; the last one carries the receipt.
* Names are made from the connection's number and counters, so that the same program gives the same bytes.

Known exception: ``host`` is not looked at: there are no virtual hosts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.effects import Dispatch, Refused
from brokerproof.reference_broker.core.events import Connect, Event
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.inactivity import stomp_periods
from brokerproof.reference_broker.security.identity import Credentials
from brokerproof.reference_broker.session.session import Session, parse_long
from brokerproof.reference_broker.stomp import messages, subscriptions, transactions
from brokerproof.reference_broker.stomp.frames import (
    HEARTBEAT,
    V10,
    VERSIONS,
    Frame,
    StompProtocolError,
    negotiate_version,
)
from brokerproof.reference_broker.stomp.subscriptions import Subscriptions
from brokerproof.reference_broker.stomp.temporaries import Temporaries
from brokerproof.reference_broker.stomp.transactions import Transactions


class BrokerSession(Session):
    """See the module's header."""

    __slots__ = (
        "_messages",
        "_receipts",
        "_requests",
        "client_id",
        "config",
        "subscriptions",
        "temporaries",
        "transactions",
        "version",
    )

    def __init__(self, connection: int, config: BrokerConfig) -> None:
        super().__init__(connection, HEARTBEAT, HEARTBEAT)
        self.config = config
        self.version = V10
        #: What the client called itself in CONNECT; empty if it did not.
        self.client_id = ""
        self.subscriptions = Subscriptions(connection)
        self.temporaries = Temporaries(connection)
        self.transactions = Transactions()
        #: Request number -> the receipt that is owed.
        self._receipts: dict[int, str] = {}
        self._requests = 0
        self._messages = 0

    # -- from the peer

    def receive(self, frame: object, now: Now) -> list[Event]:
        if not isinstance(frame, Frame):
            raise TypeError(f"a STOMP session takes Frame or Heartbeat, not {frame!r}")
        handler = _HANDLERS.get(frame.command)
        try:
            if handler is None:
                raise StompProtocolError(f"command {frame.command!r} is not one that a client may send; see STOMP 1.2")
            if self.connected == (handler is _connect):
                asked = "is sent once, as the first frame" if self.connected else "came before CONNECT; connect first"
                raise StompProtocolError(f"{frame.command} {asked}")
            return handler(self, frame, now)
        except (StompProtocolError, ValueError) as error:
            self._error(str(error), frame.headers.get("receipt", ""))
            return []

    def credentials(self, frame: object) -> Credentials | None:
        if not isinstance(frame, Frame) or _HANDLERS.get(frame.command) is not _connect or self.connected:
            return None
        return Credentials(frame.headers.get("login", ""), frame.headers.get("passcode", ""))

    def reject(self, frame: object, text: str, code: str) -> None:
        self._error(text, frame.headers.get("receipt", "") if isinstance(frame, Frame) else "", code)

    def connect(self, frame: Frame) -> list[Event]:
        """CONNECT."""
        headers = frame.headers
        version = negotiate_version(headers.get("accept-version"))
        if version is None:
            ours = ",".join(VERSIONS)
            self._error(f"accept-version:{headers['accept-version']} has no version of ours; use {ours}", version=ours)
            return []
        sends_ms, wants_ms = self._heart_beat(headers.get("heart-beat"))
        self.version = version
        self.connected = True
        reply = {"version": version, "session": str(self.connection), "server": "brokerproof"}
        if self.config.monitor.read_ms > 0:
            # ActiveMQ promises and asks exactly what the client asked and promised.
            reply["heart-beat"] = f"{wants_ms},{sends_ms}"
            if sends_ms >= 0 and wants_ms >= 0:
                self.periods = stomp_periods(
                    self.config.generation["monitor"], sends_ms, wants_ms, self.config.monitor.heart_beat_grace
                )
        else:
            reply["heart-beat"] = "0,0"
        if self.periods is None:
            self.periods = stomp_periods("classic", 0, 0)
        self.outbox.append(Frame("CONNECTED", reply))
        self.client_id = headers.get("client-id", "")
        return [Connect(self.connection, self.client_id or f"stomp-{self.connection}")]

    def _heart_beat(self, text: str | None) -> tuple[int, int]:
        """(what the client will send, what it wants), in milliseconds."""
        if text is None:
            text = self.config.monitor.default_heart_beat
        parts = text.split(",")
        try:
            sends_ms, wants_ms = (parse_long("heart-beat", part.strip()) for part in parts)
        except ValueError:
            raise StompProtocolError(
                f"Invalid heart-beat header:{text}; send two numbers of milliseconds, as in 1000,1000"
            ) from None
        if (sends_ms < 0 or wants_ms < 0) and self.config.generation["monitor"] != "classic":
            # ActiveMQ accepts them and then has no monitor at all, which the client cannot have meant.
            raise StompProtocolError(
                f"Invalid heart-beat header:{text}; a number is negative, send 0 for no heart-beats"
            )
        return sends_ms, wants_ms

    def disconnect(self, frame: Frame) -> None:
        """DISCONNECT."""
        receipt = frame.headers.get("receipt", "")
        if receipt:
            self.outbox.append(Frame("RECEIPT", {"receipt-id": receipt}))
        self.clean = True
        self.closing = "DISCONNECT"

    def request(self, frame: Frame) -> int:
        """A number for the core to answer, under which the receipt that the frame asked for waits. 0: it asked for
        none, and flow control may stop its sender instead of letting it wait for an answer.
        """
        receipt = frame.headers.get("receipt")
        if receipt is None:
            return 0
        self._requests += 1
        self._receipts[self._requests] = receipt
        return self._requests

    def next_message_id(self) -> str:
        """An id that no other message has."""
        self._messages += 1
        return f"ID-{self.connection}-{self._messages}"

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
        subscription = self.subscriptions.by_consumer.get(dispatch.consumer)
        return None if subscription is None else messages.render(self, subscription, dispatch)

    def no_message(self, consumer: str) -> None:
        subscription = self.subscriptions.by_consumer.get(consumer)
        if subscription is None:
            return
        headers = {"browser": "end", "message-id": "0", "destination": subscription.destination}
        if subscription.identity:
            headers["subscription"] = subscription.identity
        self.outbox.append(Frame("MESSAGE", headers))

    def _error(self, text: str, receipt: str = "", code: str = "", version: str = "") -> None:
        if self.closing:
            return
        # One line and no NUL, whatever the peer sent: before CONNECT no header is escaped.
        line = " ".join(text.split()).replace("\0", "?")[:200]
        headers = {"message": line, "content-type": "text/plain"}
        if receipt:
            headers["receipt-id"] = receipt
        if code:
            headers["code"] = code
        if version:
            headers["version"] = version
        self.outbox.append(Frame("ERROR", headers, text.encode()))
        self.closing = line


def _connect(session: BrokerSession, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    return session.connect(frame)


def _disconnect(session: BrokerSession, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    session.disconnect(frame)
    return []


_HANDLERS: Final[dict[str, Callable[[BrokerSession, Frame, Now], list[Event]]]] = {
    "CONNECT": _connect,
    "STOMP": _connect,
    "DISCONNECT": _disconnect,
    **messages.HANDLERS,
    **subscriptions.HANDLERS,
    **transactions.HANDLERS,
}
