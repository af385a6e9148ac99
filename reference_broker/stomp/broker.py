"""The broker's end of a STOMP connection: frames in, core events out; core effects in, frames out.

This module decides the handshake, who handles which frame, receipts and errors. The frame families have a file each:
``messages.py``, ``consuming.py``, ``transactions.py``; they act on ``session_state.py``.

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

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.effects import Dispatch, Refused
from brokerproof.reference_broker.core.events import Connect, Event
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.inactivity import stomp_periods
from brokerproof.reference_broker.security.identity import Credentials
from brokerproof.reference_broker.session.session import Session, parse_long
from brokerproof.reference_broker.stomp import consuming, messages, transactions
from brokerproof.reference_broker.stomp.frames import (
    HEARTBEAT,
    VERSIONS,
    Frame,
    StompProtocolError,
    negotiate_version,
)
from brokerproof.reference_broker.stomp.session_state import SessionState


@mypyc_attr(allow_interpreted_subclasses=True)
class BrokerSession(Session):
    """See the module's header."""

    __slots__ = ("state",)

    def __init__(self, connection: int, config: BrokerConfig) -> None:
        super().__init__(connection, HEARTBEAT, HEARTBEAT)
        self.state = SessionState(connection, config, self.outbox)

    # -- from the peer

    def receive(self, frame: object, now: Now) -> list[Event]:
        if not isinstance(frame, Frame):
            raise TypeError(f"a STOMP session takes Frame or Heartbeat, not {frame!r}")
        handler = _HANDLERS.get(frame.command)
        try:
            if handler is not None and self.connected:
                return handler(self.state, frame, now)
            return self._handshake(frame)
        except (StompProtocolError, ValueError) as error:
            self._error(str(error), frame.headers.get("receipt", ""))
            return []

    def _handshake(self, frame: Frame) -> list[Event]:
        """The connection begins or ends; or the frame may not come now."""
        command = frame.command
        if command in _CONNECT and not self.connected:
            return self.connect(frame)
        if command == "DISCONNECT" and self.connected:
            self.disconnect(frame)
            return []
        if command in _CONNECT or command == "DISCONNECT" or command in _HANDLERS:
            asked = "is sent once, as the first frame" if self.connected else "came before CONNECT; connect first"
            raise StompProtocolError(f"{command} {asked}")
        raise StompProtocolError(f"command {command!r} is not one that a client may send; see STOMP 1.2")

    def credentials(self, frame: object) -> Credentials | None:
        if not isinstance(frame, Frame) or frame.command not in _CONNECT or self.connected:
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
        self.state.version = version
        self.connected = True
        reply = {"version": version, "session": str(self.connection), "server": "brokerproof"}
        if self.state.config.monitor.read_ms > 0:
            # ActiveMQ promises and asks exactly what the client asked and promised.
            reply["heart-beat"] = f"{wants_ms},{sends_ms}"
            if sends_ms >= 0 and wants_ms >= 0:
                self.periods = stomp_periods(
                    self.state.config.generation["monitor"],
                    sends_ms,
                    wants_ms,
                    self.state.config.monitor.heart_beat_grace,
                )
        else:
            reply["heart-beat"] = "0,0"
        if self.periods is None:
            self.periods = stomp_periods("classic", 0, 0)
        self.outbox.append(Frame("CONNECTED", reply))
        self.state.client_id = headers.get("client-id", "")
        name = self.state.client_id or f"stomp-{self.connection}"
        return [Connect(self.connection, name, user=headers.get("login", ""))]

    def _heart_beat(self, text: str | None) -> tuple[int, int]:
        """(what the client will send, what it wants), in milliseconds."""
        if text is None:
            text = self.state.config.monitor.default_heart_beat
        parts = text.split(",")
        try:
            sends_ms, wants_ms = (parse_long("heart-beat", part.strip()) for part in parts)
        except ValueError:
            raise StompProtocolError(
                f"Invalid heart-beat header:{text}; send two numbers of milliseconds, as in 1000,1000"
            ) from None
        if (sends_ms < 0 or wants_ms < 0) and self.state.config.generation["monitor"] != "classic":
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
        self.closing = "DISCONNECT"

    # -- from the core

    def accepted(self, request: int) -> None:
        self.state.accepted(request)

    def refused(self, effect: Refused) -> None:
        self._error(effect.text, self.state.take_receipt(effect.request) or "", effect.code)

    def fail(self, text: str, receipt: str = "") -> None:
        self._error(text, receipt)

    def render(self, dispatch: Dispatch) -> Frame | None:
        subscription = self.state.subscriptions.by_consumer.get(dispatch.consumer)
        return None if subscription is None else messages.render(self.state, subscription, dispatch)

    def no_message(self, consumer: str) -> None:
        subscription = self.state.subscriptions.by_consumer.get(consumer)
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


_CONNECT: Final = ("CONNECT", "STOMP")
_HANDLERS: Final[dict[str, Callable[[SessionState, Frame, Now], list[Event]]]] = {
    **messages.HANDLERS,
    **consuming.HANDLERS,
    **transactions.HANDLERS,
}
