"""One STOMP connection, used step by step: how a broker is asked something, and what may go wrong then."""

from __future__ import annotations

import socket
import time
from collections import deque
from typing import TYPE_CHECKING

from brokerproof.conformance.agents.dialect import Dialect, DialectFraming
from brokerproof.conformance.agents.secure import context_of
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.reference_broker.stomp.frames import Frame, StompProtocolError
from brokerproof.reference_broker.stomp.framing import StompFraming

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.base import Access

CONNECT_MS = 5000
#: How long an answer, or a message that should come, may take.
ANSWER_MS = 3000
#: How long is waited for something that should not come.
ABSENT_MS = 400


class ProbeError(Exception):
    """The broker refused, closed the connection or did not answer a hello. The text shows which request."""

    remedy = "is it running, and are login and passcode right?"


class SpeaksOtherwise(ProbeError):
    """What answers breaks the protocol."""

    remedy = "is that the port of another protocol?"


class NoReceipt(ProbeError):
    """A request went unanswered."""


class NameRefused(ProbeError):
    """The broker refuses what it is sent for a plain queue: its queues are called otherwise, or nobody may use them."""


class NamesWrong(SuiteProblem):
    """Nothing can be asked of a broker before the profile says what its queues are called."""


class Line:
    """One STOMP connection, used step by step."""

    def __init__(self, access: Access, heart_beat: str = "0,0", client_id: str = "") -> None:
        """Connect, as whom and in which words ``access`` says."""
        sock = socket.create_connection((access.host, access.port), timeout=CONNECT_MS / 1000)
        self._socket = context_of(access.ca).wrap_socket(sock, server_hostname=access.secure) if access.secure else sock
        self._framing = StompFraming() if access.names is None else DialectFraming(Dialect(access.names))
        #: Whether each queue has dead letters of its own.
        self.apart = access.names is not None and access.names.apart
        self._frames: deque[Frame] = deque()
        self._receipts = 0
        headers = {
            "accept-version": ",".join(access.versions or ("1.1", "1.2")),
            "host": access.virtual_host or "localhost",
            "heart-beat": heart_beat,
        }
        headers |= {"client-id": client_id} if client_id else {}
        headers |= {"login": access.login, "passcode": access.passcode} if access.login or access.passcode else {}
        self._put(Frame("CONNECT", headers))
        greeting = self._next(ANSWER_MS, "CONNECTED")
        if greeting is None:
            raise ProbeError("the broker does not answer CONNECT")
        self.greeting = greeting.headers

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, command: str, headers: dict[str, str], body: bytes = b"", wait_ms: int = ANSWER_MS) -> None:
        """A request with a receipt. Raises ``NoReceipt`` when none comes."""
        self._receipts += 1
        name = f"r{self._receipts}"
        self._put(Frame(command, {**headers, "receipt": name}, body))
        if self._next(wait_ms, "RECEIPT") is None:
            raise NoReceipt(f"no receipt for {command} {headers}")

    def send(self, dest: str, body: str, **headers: str) -> None:
        """Send one message."""
        self.ask("SEND", {"destination": dest, "content-length": str(len(body)), **headers}, body.encode())

    def subscribe(self, dest: str, ack: str = "auto", **headers: str) -> None:
        """Attach a consumer; one per destination."""
        self.ask("SUBSCRIBE", {"id": dest, "destination": dest, "ack": ack, **headers})

    def message(self, wait_ms: int) -> Frame | None:
        """The next message, if one comes in time."""
        return self._next(wait_ms, "MESSAGE")

    def ended(self, wait_ms: int) -> bool:
        """Whether the broker ends the connection in time, with an ERROR or without."""
        try:
            self._next(wait_ms, "")
        except (ProbeError, OSError):
            return True
        return False

    def _put(self, frame: Frame) -> None:
        self._socket.sendall(self._framing.encode(frame))

    def _next(self, wait_ms: int, command: str) -> Frame | None:
        """The next frame of a kind; others are kept. Raises ``ProbeError`` for ERROR and a closed connection."""
        deadline_ns = time.monotonic_ns() + wait_ms * 1_000_000
        while True:
            for frame in self._frames:
                if frame.command == "ERROR":
                    raise ProbeError(f"the broker answers ERROR: {frame.headers.get('message', frame.body[:200])}")
                if frame.command == command:
                    self._frames.remove(frame)
                    return frame
            left_ns = deadline_ns - time.monotonic_ns()
            if left_ns <= 0:
                return None
            self._socket.settimeout(left_ns / 1e9)
            try:
                part = self._socket.recv(65536)
            except TimeoutError:
                return None
            if not part:
                raise ProbeError(f"the broker closed the connection while {command} was waited for")
            try:
                self._frames += [frame for frame in self._framing.feed(part) if isinstance(frame, Frame)]
            except StompProtocolError as error:
                # What a client should send instead helps nobody here.
                raise SpeaksOtherwise(f"what answers breaks STOMP: {error.text.partition(';')[0]}") from None


class ProbeLine(Line):
    """One that goes on where a receipt is missing: whether there must be one is for the rules, what came of it is
    seen. The next one of that command is waited for less.
    """

    def __init__(self, access: Access, heart_beat: str = "0,0", client_id: str = "") -> None:
        self._unanswered: set[str] = set()
        super().__init__(access, heart_beat, client_id)

    def ask(self, command: str, headers: dict[str, str], body: bytes = b"", wait_ms: int = ANSWER_MS) -> None:
        """A request with a receipt, or without. Raises ``ProbeError`` for a refusal."""
        try:
            super().ask(command, headers, body, ABSENT_MS if command in self._unanswered else wait_ms)
        except NoReceipt:
            self._unanswered.add(command)
