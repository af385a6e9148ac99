"""The loop of an agent that has its socket to itself: requests on stdin, replies and events on stdout, one connection
to the broker, whose protocol a subclass knows.

It decides nothing about the protocol, which is a client session's (``session/session.py``); it owns the
socket, the clock readings and what waits for a receipt.

Rules
* One thread, one selector loop over stdin and the socket, so nothing that arrives waits for a request to be finished,
  and keep-alives go out in time.
* What asks the broker is answered when the receipt comes; if the connection ends first the answer is ``unknown``.
  ``leave`` says goodbye and waits for nothing.
* A refusal without the name of a request ends the connection; every waiting request is then ``unknown``.
* The process runs on the host's faked wall clock; nothing but ``wall_ms`` and what a message is stamped with is read
  from it.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar
from urllib.parse import urlsplit
from zlib import crc32

from brokerproof.conformance.agents.answers import Answers, RefusedError
from brokerproof.conformance.agents.protocol import (
    ORIGINAL_ID,
    PROTOCOL,
    UNSUPPORTED,
    Abort,
    Ack,
    AnyRequest,
    Arrive,
    Begin,
    Browse,
    Closed,
    Commit,
    Connect,
    Counters,
    Fail,
    Hello,
    Leave,
    Nack,
    Quit,
    Send,
    Stamps,
    Subscribe,
    Unsubscribe,
    letter_marks,
    parse_request,
    read_body,
)
from brokerproof.conformance.agents.stamps import ANCILLARY_BYTES, NS_PER_MS, Ancillary, ArrivalClock, ask_for_stamps
from brokerproof.conformance.agents.wire import Waiting, Wire
from brokerproof.reference_broker.core.message import TEMP_QUEUE
from brokerproof.reference_broker.session import notice
from brokerproof.reference_broker.session.framing import FramingError

CONNECT_TIMEOUT_S = 5.0
_READ_BYTES = 65536
#: An idle loop looks at the socket this often, so that an arrival without a kernel stamp is still known this closely.
_IDLE_MS = 20

W = TypeVar("W", bound=Wire)


class Agent(ABC, Generic[W]):
    """The process: one host, at most one connection."""

    name: ClassVar[str]
    capabilities: ClassVar[tuple[str, ...]]
    default_port: ClassVar[int]

    def __init__(self, requests: int, answers: int) -> None:
        self._requests = requests
        self.answers = Answers(answers)
        self._buffer = bytearray()
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)
        self._clock = ArrivalClock()
        self._wire: W | None = None
        self._running = True

    # -- what a protocol's agent knows

    @abstractmethod
    def open(self, request: Connect, sock: socket.socket, address: str) -> W:
        """A connection whose session has said hello, with the name of its receipt unless that is ``Connected``."""

    @abstractmethod
    def send(self, wire: W, request: Send) -> tuple[str, Stamps]:
        """Send; returns the receipt's name and what the message was stamped with."""

    @abstractmethod
    def subscribe(self, wire: W, request: Subscribe) -> str:
        """Attach a consumer; returns the receipt's name."""

    @abstractmethod
    def settle(self, wire: W, request: Ack | Nack) -> tuple[str, dict[str, object]]:
        """Settle; returns the receipt's name and what the answer says beyond yes. Raises ``RefusedError``."""

    @abstractmethod
    def detach(self, wire: W, consumer: str) -> None:
        """A consumer says goodbye."""

    @abstractmethod
    def farewell(self, wire: W) -> None:
        """The connection says goodbye."""

    @abstractmethod
    def receive(self, wire: W, frame: object, now_ns: int) -> list[notice.Notice]:
        """Give the session a frame. Raises ``FramingError`` if the broker broke the protocol."""

    def perform(self, wire: W, request: AnyRequest, t0_ns: int) -> dict[str, object] | None:  # noqa: ARG002
        """A request that only this protocol's agent knows; None: the answer comes later."""
        raise RefusedError(UNSUPPORTED, f"{self.name} does not know {type(request).__name__.lower()!r}")

    def last_of(self, frames: Sequence[object]) -> int:
        """Which frame of a read came last; -1: none is complete."""
        return len(frames) - 1

    def arrived(self, wire: W, item: notice.Delivered, message: str) -> None:
        """A message for an application reached this host."""

    def noticed(self, wire: W, item: notice.Notice, t0_ns: int, t1_ns: int) -> None:
        """Something that only this protocol's sessions say."""

    def served(self, wire: W, now_ns: int) -> None:
        """The loop has come round."""

    def due_ns(self, wire: W) -> int | None:  # noqa: ARG002 - for those that have something
        """When ``served`` has something to do, beyond what the session's own timers say."""
        return None

    def forgotten(self, wire: W) -> None:
        """The connection is gone."""

    # -- the loop

    def run(self) -> None:
        """Serve until ``quit`` or the end of the requests."""
        while self._running:
            events = self._selector.select(self._patience_s())
            for key, _ in events:
                if key.fd == self._requests:
                    self._read_requests()
            if self._wire is not None:
                self._serve(self._wire)
        self._forget()
        self._clock.close()

    def _read_requests(self) -> None:
        part = os.read(self._requests, _READ_BYTES)
        if not part:
            self._running = False
        self._buffer += part
        while self._running and (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._answer(parse_request(line))

    def _answer(self, request: AnyRequest) -> None:
        t0_ns = time.monotonic_ns()
        try:
            ok = self._perform(request, t0_ns)
        except RefusedError as refusal:
            self.answers.reply(request.id, t0_ns, fail=Fail(refusal.code, str(refusal)))
            return
        if ok is not None:
            self.answers.reply(request.id, t0_ns, ok=ok)
        if isinstance(request, Quit):
            self._running = False

    def _perform(self, request: AnyRequest, t0_ns: int) -> dict[str, object] | None:
        """Do it; None: the answer comes with a receipt."""
        if isinstance(request, Hello):
            return {"agent": self.name, "protocol": PROTOCOL, "capabilities": list(self.capabilities)}
        if isinstance(request, Counters):
            return {}
        if isinstance(request, Connect):
            self._connect(request, t0_ns)
            return None
        if isinstance(request, Quit | Leave):
            return self._leave(request)
        if self._wire is None:
            raise RefusedError("not-connected", "there is no connection; send connect first")
        wire = self._wire
        answer = self._ask(wire, request, t0_ns)
        self._write(wire)
        return answer

    def _ask(self, wire: W, request: AnyRequest, t0_ns: int) -> dict[str, object] | None:
        """Ask the broker; None: the answer comes with a receipt."""
        stamps: Stamps | None = None
        also: dict[str, object] = {}
        if isinstance(request, Send):
            receipt, stamps = self.send(wire, request)
        elif isinstance(request, Subscribe):
            if request.browser:
                wire.browsers[request.consumer] = True
            receipt = self.subscribe(wire, request)
        elif isinstance(request, Ack | Nack):
            receipt, also = self.settle(wire, request)
        elif isinstance(request, Begin):
            receipt = wire.session.begin(request.tx, receipt=True)
        elif isinstance(request, Commit):
            receipt = wire.session.commit(request.tx)
        elif isinstance(request, Abort):
            receipt = wire.session.rollback(request.tx)
        elif isinstance(request, Unsubscribe):
            receipt = wire.session.unsubscribe_durable(request.durable)
        else:
            return self.perform(wire, request, t0_ns)
        wire.waiting[receipt] = Waiting(request, t0_ns, stamps, also)
        return None

    def _connect(self, request: Connect, t0_ns: int) -> None:
        if self._wire is not None:
            raise RefusedError("connected", "there is a connection already; leave it first")
        url = urlsplit(request.url)
        host, port = url.hostname or "", url.port or self.default_port
        try:
            sock = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
        except OSError as error:
            raise RefusedError("unreachable", f"{request.url}: {error}") from None
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ask_for_stamps(sock)
        wire = self._wire = self.open(request, sock, f"tcp://{host}:{port}")
        self._selector.register(sock, selectors.EVENT_READ)
        wire.waiting[wire.hello] = Waiting(request, t0_ns)
        self._write(wire)

    def _leave(self, request: Leave | Quit) -> dict[str, object]:
        wire = self._wire
        if wire is None:
            return {}
        if isinstance(request, Leave) and request.consumer is not None:
            self.detach(wire, request.consumer)
            self._write(wire)
            return {}
        if isinstance(request, Quit) or request.how == "close":
            self.farewell(wire)
            self._write(wire)
        self._forget()
        return {}

    # -- the connection

    def _patience_s(self) -> float:
        """How long the loop may sleep."""
        if self._wire is None:
            return 3600.0
        patience_ns = _IDLE_MS * NS_PER_MS
        now_ns = time.monotonic_ns()
        wire = self._wire
        dues = [waiting.deadline_ns for waiting in wire.waiting.values()]
        for due_ns in (wire.session.next_due_ns(), self.due_ns(wire), *dues):
            if due_ns is not None:
                patience_ns = min(patience_ns, max(0, due_ns - now_ns))
        return patience_ns / 1_000_000_000

    def _serve(self, wire: W) -> None:
        """Read what is there, run the monitor, write what is due."""
        self._read(wire)
        if self._wire is wire:
            now_ns = time.monotonic_ns()
            for item in wire.session.tick(now_ns):
                self._notice(wire, item, now_ns, now_ns)
            self._expire(wire, now_ns)
        if self._wire is wire:
            self.served(wire, time.monotonic_ns())
            self._write(wire)

    def _expire(self, wire: W, now_ns: int) -> None:
        """Answer requests whose time is over; half a connection is given up."""
        for name, waiting in list(wire.waiting.items()):
            if waiting.deadline_ns <= now_ns:
                del wire.waiting[name]
                self.answers.reply(waiting.id, waiting.t0_ns, unknown="no answer in time", stamps=waiting.stamps)
                if name == wire.hello:
                    self._forget()

    def _read(self, wire: W) -> None:
        while self._wire is wire:
            try:
                part, ancillary, _, _ = wire.socket.recvmsg(_READ_BYTES, ANCILLARY_BYTES)
            except BlockingIOError:
                wire.empty_ns = time.monotonic_ns()
                return
            except OSError as error:
                self._lost(wire, f"connection lost: {error}")
                return
            read_ns = time.monotonic_ns()
            if not part:
                self._lost(wire, "the broker closed the connection")
                return
            wire.heard_ns = read_ns
            wire.session.bytes_received(read_ns)
            self._take_in(wire, part, ancillary, read_ns)

    def _take_in(self, wire: W, part: bytes, ancillary: Ancillary, read_ns: int) -> None:
        low_ns, high_ns = self._clock.interval(ancillary, wire.empty_ns, read_ns)
        try:
            frames = wire.framing.feed(part)
            last = self.last_of(frames)
            for index, frame in enumerate(frames):
                # Only the last frame is known to have come with the stamped bytes.
                t0_ns = low_ns if index == last else min(wire.empty_ns, low_ns)
                for item in self.receive(wire, frame, read_ns):
                    self._notice(wire, item, t0_ns, high_ns)
        except FramingError as error:
            self._lost(wire, f"the broker broke the protocol: {error.text}")

    def _notice(self, wire: W, item: notice.Notice, t0_ns: int, t1_ns: int) -> None:
        """What the session found out."""
        if isinstance(item, notice.Delivered):
            message = read_body(item.body)
            if item.consumer in wire.browsers:
                self.answers.say(Browse(t0=t0_ns, t1=t1_ns, consumer=item.consumer, message=message))
            else:
                self.answers.say(arrive_of(item, message, t0_ns, t1_ns))
            self.arrived(wire, item, message)
        elif isinstance(item, notice.Empty):
            if item.consumer in wire.browsers:
                self.answers.say(Browse(t0=t0_ns, t1=t1_ns, consumer=item.consumer, complete=True))
            else:
                self.noticed(wire, item, t0_ns, t1_ns)
        elif isinstance(item, notice.Receipt):
            self._resolve(wire, item.receipt, t1_ns)
        elif isinstance(item, notice.Connected):
            self._resolve(wire, "connect", t1_ns)
        elif isinstance(item, notice.Failed):
            self._failed(wire, item, t1_ns)
        elif isinstance(item, notice.Closed):
            now_ns = time.monotonic_ns()
            self.answers.say(Closed(t0=now_ns, t1=now_ns, who="client", reason=item.reason, idle_ns=item.idle_ns))
            self._give_up(wire, item.reason)
        else:
            self.noticed(wire, item, t0_ns, t1_ns)

    def _resolve(self, wire: W, receipt: str, t1_ns: int) -> None:
        waiting = wire.waiting.pop(receipt, None)
        if waiting is not None:
            ok = {**(waiting.stamps or {}), **waiting.also}
            self.answers.reply(waiting.id, waiting.t0_ns, t1_ns=t1_ns, ok=ok)

    def _failed(self, wire: W, item: notice.Failed, t1_ns: int) -> None:
        wire.refusal = item.text
        name = item.receipt or (wire.hello if wire.hello in wire.waiting else "")
        waiting = wire.waiting.pop(name, None)
        if waiting is not None:
            self.answers.reply(waiting.id, waiting.t0_ns, t1_ns=t1_ns, fail=Fail(item.code or "refused", item.text))
            if name == wire.hello:
                self._forget()

    def _write(self, wire: W) -> None:
        """Write what the session gives, as far as the socket takes it."""
        if self._wire is not wire:
            return
        now_ns = time.monotonic_ns()
        while (frame := wire.session.next_output(now_ns)) is not None:
            wire.unsent += wire.framing.encode(frame)
        try:
            while wire.unsent:
                del wire.unsent[: wire.socket.send(wire.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            # What the broker wrote before it closed is still to be read; the read finds the end of the stream.
            wire.unsent.clear()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if wire.unsent else 0)
        if self._selector.get_key(wire.socket).events != wanted:
            self._selector.modify(wire.socket, wanted)

    def _lost(self, wire: W, reason: str) -> None:
        """The broker's end is gone."""
        now_ns = time.monotonic_ns()
        reason = f"{reason} ({wire.refusal})" if wire.refusal else reason
        idle_ns = now_ns - wire.heard_ns
        self.answers.say(Closed(t0=wire.empty_ns, t1=now_ns, who="broker", reason=reason, idle_ns=idle_ns))
        self._give_up(wire, reason)

    def _give_up(self, wire: W, reason: str) -> None:
        for waiting in wire.waiting.values():
            self.answers.reply(waiting.id, waiting.t0_ns, unknown=reason, stamps=waiting.stamps)
        wire.waiting.clear()
        self._forget()

    def _forget(self) -> None:
        """Let go of the connection; its deliveries can no longer be settled."""
        wire = self._wire
        if wire is None:
            return
        self._wire = None
        self.forgotten(wire)
        self._selector.unregister(wire.socket)
        wire.session.stop()
        wire.socket.close()


def arrive_of(item: notice.Delivered, message: str, t0_ns: int, t1_ns: int) -> Arrive:
    """The event that tells of an arrival."""
    expiration_ms, cause = letter_marks(item.properties) if item.original_destination else (None, None)
    return Arrive(
        t0=t0_ns,
        t1=t1_ns,
        consumer=item.consumer,
        message=message,
        redelivered=item.redelivered,
        delivery_count=item.delivery_count or None,
        expiration_ms=item.expiration_ms,
        timestamp_ms=item.timestamp_ms,
        original_dest=item.original_destination or None,
        dest=item.destination or None,
        kind=str(item.properties.get("kind", "")) or None,
        group=item.group or None,
        priority=item.priority,
        body=crc32(item.body),
        original_expiration_ms=expiration_ms,
        cause=cause,
        original_id=str(item.properties.get(ORIGINAL_ID, "")) or None,
        reply_to=item.reply_to if item.reply_to.startswith(TEMP_QUEUE) else None,
    )
