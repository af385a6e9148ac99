"""A message to oneself over OpenWire: the exchange by which ``clocks`` measures a broker that speaks no STOMP.

Rules
* The broker says in each message when it came in (``brokerInTime``): that is its clock. One that does not say it is
  measured by expiry.
* The destination is a temporary queue, which goes with the connection. Nothing is acknowledged.
* No monitor: the exchange takes a second. Loose encoding, no caches: there is nothing to save.
"""

from __future__ import annotations

import secrets
import socket
from typing import TYPE_CHECKING, Final

from brokerproof.conformance.brokers.line import ANSWER_MS, CONNECT_MS, ProbeError
from brokerproof.reference_broker.openwire.wire.codec import Codec, FrameDecoder
from brokerproof.reference_broker.openwire.wire.connections import (
    CONNECTION_ERROR,
    CONNECTION_INFO,
    DESTINATION_INFO,
    PRODUCER_INFO,
    SESSION_INFO,
    WIRE_FORMAT_INFO,
)
from brokerproof.reference_broker.openwire.wire.consumption import CONSUMER_INFO, MESSAGE_DISPATCH
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.ids import (
    CONNECTION_ID,
    CONSUMER_ID,
    MESSAGE_ID,
    PRODUCER_ID,
    SESSION_ID,
    TEMP_QUEUE,
)
from brokerproof.reference_broker.openwire.wire.kinds import Data
from brokerproof.reference_broker.openwire.wire.messages import MESSAGE
from brokerproof.reference_broker.openwire.wire.negotiation import Agreement, Offer, read_offer
from brokerproof.reference_broker.openwire.wire.responses import ANSWER, EXCEPTION_RESPONSE

if TYPE_CHECKING:
    from types import TracebackType

#: Temporary queues are added by this DestinationInfo.
_ADD: Final = 0
_PREFETCH: Final = 1000
_PRIORITY: Final = 4


class OpenWireExchange:
    """``Exchange`` over one OpenWire connection. Raises ``ProbeError`` and ``OSError``."""

    def __init__(self, host: str, port: int, credentials: tuple[str, str] | None = None) -> None:
        self._socket = socket.create_connection((host, port), timeout=CONNECT_MS / 1000)
        self._codec = Codec()
        self._decoder = FrameDecoder()
        self._frames: list[bytes] = []
        #: What arrived while an answer was waited for.
        self._early: list[Data] = []
        self._commands = 0
        self._name = f"ID:brokerproof-clocks-{secrets.token_hex(4)}:1"
        try:
            self._greet()
            self._introduce(credentials)
        except (WireError, ProbeError) as error:
            self._socket.close()
            raise ProbeError(f"no OpenWire: {error}") from None
        except OSError:
            self._socket.close()
            raise

    def __enter__(self) -> OpenWireExchange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def __call__(self, timestamp_ms: int | None, expiration_ms: int) -> tuple[int, int] | None:
        self._send("probe", timestamp_ms or 0, expiration_ms)
        if expiration_ms:
            # If the probe is dead, what was sent after it comes first.
            self._send("after", 0, 0)
        found = self._arrived()
        if expiration_ms:
            if found["correlationId"] == "after":
                return None
            self._arrived()
        shown = found["timestamp"] if timestamp_ms is not None else found["brokerInTime"]
        return _number(shown), _number(found["expiration"])

    # -- the connection

    def _greet(self) -> None:
        mine = Offer(tight=False, cache_size=0, read_ms=0, initial_delay_ms=0)
        self._socket.sendall(self._codec.encode(mine.info()))
        hello = self._next()
        if hello.kind is not WIRE_FORMAT_INFO:
            raise ProbeError(f"the broker begins with {hello.kind.name}")
        self._codec = Agreement(mine, read_offer(hello)).codec()

    def _introduce(self, credentials: tuple[str, str] | None) -> None:
        user, password = credentials if credentials is not None else (None, None)
        connection = CONNECTION_ID.make(value=self._name)
        self._session = SESSION_ID.make(connectionId=self._name, value=1)
        self._producer = PRODUCER_ID.make(connectionId=self._name, value=1, sessionId=1)
        self._queue = TEMP_QUEUE.make(physicalName=f"{self._name}:1")
        self._ask(
            CONNECTION_INFO.make(
                connectionId=connection,
                clientId=self._name,
                userName=user,
                password=password,
                clientMaster=True,
            )
        )
        self._ask(DESTINATION_INFO.make(connectionId=connection, destination=self._queue, operationType=_ADD))
        self._ask(SESSION_INFO.make(sessionId=self._session))
        self._ask(PRODUCER_INFO.make(producerId=self._producer))
        self._ask(
            CONSUMER_INFO.make(
                consumerId=CONSUMER_ID.make(connectionId=self._name, sessionId=1, value=1),
                destination=self._queue,
                prefetchSize=_PREFETCH,
                dispatchAsync=True,
            )
        )

    # -- messages and requests

    def _send(self, mark: str, timestamp_ms: int, expiration_ms: int) -> None:
        self._ask(
            MESSAGE.make(
                producerId=self._producer,
                destination=self._queue,
                messageId=MESSAGE_ID.make(producerId=self._producer, producerSequenceId=self._commands),
                correlationId=mark,
                timestamp=timestamp_ms,
                expiration=expiration_ms,
                priority=_PRIORITY,
            )
        )

    def _ask(self, command: Data) -> None:
        """Send a command, and wait for the answer; what arrives meanwhile is kept."""
        self._commands += 1
        command["commandId"] = self._commands
        command["responseRequired"] = True
        self._socket.sendall(self._codec.encode(command))
        while True:
            found = self._next()
            if found.kind is EXCEPTION_RESPONSE:
                raise ProbeError(f"{command.kind.name} is refused: {found['exception']!r}")
            if found.kind is ANSWER and found["correlationId"] == self._commands:
                return
            self._early.append(found)

    def _arrived(self) -> Data:
        """The message of the next dispatch."""
        while True:
            found = self._early.pop(0) if self._early else self._next()
            message = found["message"] if found.kind is MESSAGE_DISPATCH else None
            if isinstance(message, Data):
                return message

    def _next(self) -> Data:
        """The next command of the broker."""
        try:
            return self._read()
        except WireError as error:
            raise ProbeError(f"what the broker writes cannot be read: {error}") from None

    def _read(self) -> Data:
        while True:
            while self._frames:
                found = self._codec.decode(self._frames.pop(0))
                if found is not None and found.kind is CONNECTION_ERROR:
                    raise ProbeError(f"the broker gives the connection up: {found['exception']!r}")
                if found is not None:
                    return found
            self._socket.settimeout(ANSWER_MS / 1000)
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                raise ProbeError("the broker does not answer") from None
            if not data:
                raise ProbeError("the broker closed the connection")
            self._frames += self._decoder.feed(data)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
