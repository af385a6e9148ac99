"""The loop of an agent that has its socket to itself: requests on stdin, replies and events on stdout, one connection
to the broker, whose protocol a subclass knows.

It decides nothing about the protocol, which is a library's (``library.py``); it owns the socket, the clock readings and
what waits for a receipt.

Rules
* One thread, one selector loop over stdin and the socket, so nothing that arrives waits for a request to be finished,
  and keep-alives go out in time.
* What asks the broker is answered when the receipt comes; if the connection ends first the answer is ``unknown``.
  ``leave`` says goodbye and waits for nothing.
* A refusal without the name of a request ends the connection; every waiting request is then ``unknown``.
* ``take`` is answered when a message is there or the deadline has passed; a consumer without a prefetch asks the broker
  for one. Of an agent that does not offer it the suite hands out itself what arrives: then it is taken at once.
* The process runs on the host's faked wall clock; nothing but ``wall_ms`` and what a message is stamped with is read
  from it. All its instants are the program's (``own_time.py``), its waits are real.
"""

from __future__ import annotations

import os
import selectors
import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import urlsplit

import msgspec

from brokerproof.conformance.agents import own_time
from brokerproof.conformance.agents.answers import Answers, hello
from brokerproof.conformance.agents.library import RefusedError
from brokerproof.conformance.agents.message import UNTOLD, arrival_of, read_body
from brokerproof.conformance.agents.protocol import (
    NOT_CONNECTED,
    UNSUPPORTED,
    Arrive,
    Browse,
    Closed,
    Discard,
    Fail,
    Hello,
    Partial,
    Quit,
    Request,
    parse_request,
    refused_by_broker,
)
from brokerproof.conformance.agents.secure import secured
from brokerproof.conformance.agents.stamps import (
    ANCILLARY_BYTES,
    Ancillary,
    ArrivalClock,
    ask_for_stamps,
    wall_reading,
)
from brokerproof.conformance.agents.wire import Waiting, Wire
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.history import PROTOCOL_BROKEN, READ_TO_THE_END
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.session import notice
from brokerproof.reference_broker.session.framing import FramingError

CONNECT_TIMEOUT_S = 5.0
_READ_BYTES = 65536
#: An idle loop looks at the socket this often, so that an arrival without a kernel stamp is still known this closely.
_IDLE_MS = 20
#: Of a frame that comes in many pieces so often is told.
_PARTIAL_MS = 100
#: How long after an ERROR that names no frame an answer is waited for.
CLOSES_MS = 2000
#: How long beyond its deadline a take waits for what the broker owes it, as in the simulated world.
OWED_MS = 1000


def acknowledge_now(sock: socket.socket) -> None:
    """Let the kernel acknowledge what came at once. A broker that leaves Nagle's algorithm on sends a receipt behind a
    message only then: 40 ms later otherwise.
    """
    if hasattr(socket, "TCP_QUICKACK"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


class Agent(ABC):
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
        self._wire: Wire | None = None
        self._running = True

    @abstractmethod
    def open(self, request: ops.Connect, sock: socket.socket, address: str) -> Wire:
        """A connection whose library has said hello."""

    def last_of(self, frames: Sequence[object]) -> int:
        """Which frame of a read came last; -1: none is complete."""
        return len(frames) - 1

    # -- the loop

    def run(self) -> None:
        """Serve until ``quit`` or the end of the requests."""
        own_time.follow()
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

    def _answer(self, request: Request) -> None:
        t0_ns = own_time.now_ns()
        try:
            ok = self._perform(request, t0_ns)
        except RefusedError as refusal:
            self.answers.reply(request.id, t0_ns, fail=Fail(refusal.code, str(refusal)))
            return
        if ok is not None:
            self.answers.reply(request.id, t0_ns, ok=ok)
        if isinstance(request.operation, Quit):
            self._running = False

    def _perform(self, request: Request, t0_ns: int) -> dict[str, object] | None:
        """Do it; None: the answer comes later."""
        operation, wire = request.operation, self._wire
        if isinstance(operation, Hello):
            return hello(self.name, self.capabilities)
        if isinstance(operation, ops.ReadCounters):
            return {}
        if isinstance(operation, ops.Connect):
            self._connect(request, operation, t0_ns)
            return None
        if isinstance(operation, Quit | ops.Leave):
            return self._leave(operation)
        if wire is None:
            raise RefusedError(NOT_CONNECTED, "there is no connection; send connect first")
        if isinstance(operation, ops.Take):
            self._take(wire, request, operation, t0_ns)
        else:
            receipt, stamps = wire.library.ask(operation, _now())
            wire.waiting[receipt] = Waiting(request, t0_ns, stamps=stamps)
        self._write(wire)
        return None

    def _take(self, wire: Wire, request: Request, operation: ops.Take, t0_ns: int) -> None:
        if "take" not in self.capabilities:
            raise RefusedError(UNSUPPORTED, f"{self.name} does not know 'take'")
        wire.library.pull(operation.consumer, operation.deadline_ms, _now())
        wire.taking.append((operation.consumer, Waiting(request, t0_ns, deadline_ms=operation.deadline_ms)))

    def _answer_takes(self, wire: Wire, now_ns: int) -> None:
        """Answer the takes that can be answered. What the broker owes is waited for somewhat longer, and may come
        later: its link may be stalled.
        """
        library, left = wire.library, []
        for consumer, waiting in wire.taking:
            message, notices = library.take(consumer, _now())
            for item in notices:
                self._notice(wire, item, wire.heard_ns, now_ns)
            if message is not None or now_ns >= _given_up_ns(wire, consumer, waiting):
                answered = not library.is_owed(consumer)
                self.answers.reply(waiting.id, waiting.t0_ns, ok={"message": message, "answered": answered})
            else:
                left.append((consumer, waiting))
        wire.taking = left

    def _connect(self, request: Request, operation: ops.Connect, t0_ns: int) -> None:
        if self._wire is not None:
            raise RefusedError("connected", "there is a connection already; leave it first")
        url = urlsplit(operation.url)
        host, port = url.hostname or "", url.port or self.default_port
        try:
            sock = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
        except OSError as error:
            raise RefusedError("unreachable", f"{operation.url}: {error}") from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if operation.secure:
            sock = secured(sock, operation)
        else:
            ask_for_stamps(sock)
        sock.setblocking(False)
        wire = self._wire = self.open(operation, sock, f"tcp://{host}:{port}")
        self._selector.register(sock, selectors.EVENT_READ)
        traits = {"traits": msgspec.to_builtins(wire.library.traits)}
        wire.waiting[wire.library.hello] = Waiting(request, t0_ns, also=traits)
        self._write(wire)

    def _leave(self, operation: ops.Leave | Quit) -> dict[str, object]:
        wire = self._wire
        if wire is None:
            return {}
        if isinstance(operation, ops.Leave) and operation.consumer is not None:
            wire.library.detach(operation.consumer)
            self._write(wire)
            return {}
        if isinstance(operation, Quit) or operation.how == "close":
            wire.library.farewell()
            self._write(wire)
        self._forget()
        return {}

    # -- the connection

    def _patience_s(self) -> float:
        """How long the loop may sleep."""
        if self._wire is None:
            return 3600.0
        patience_ns = own_time.rate().span_ns(_IDLE_MS)
        now_ns = own_time.now_ns()
        wire = self._wire
        dues = [waiting.deadline_ns for waiting in wire.waiting.values()]
        dues += [_given_up_ns(wire, consumer, waiting) for consumer, waiting in wire.taking]
        for due_ns in (wire.library.session.next_due_ns(), *dues):
            if due_ns is not None:
                patience_ns = min(patience_ns, max(0, due_ns - now_ns))
        return own_time.real_s(patience_ns)

    def _serve(self, wire: Wire) -> None:
        """Read what is there, run the monitor, write what is due."""
        self._read(wire)
        if self._wire is wire:
            now_ns = own_time.now_ns()
            for item in wire.library.session.tick(now_ns):
                self._notice(wire, item, now_ns, now_ns)
            self._expire(wire, now_ns)
        if self._wire is wire:
            self._answer_takes(wire, own_time.now_ns())
            self._write(wire)

    def _expire(self, wire: Wire, now_ns: int) -> None:
        """Answer requests whose time is over; half a connection is given up."""
        for name, waiting in list(wire.waiting.items()):
            if waiting.deadline_ns <= now_ns:
                del wire.waiting[name]
                if waiting.error is not None:
                    fail = refused_by_broker(waiting.error.code, waiting.error.text)
                    self.answers.reply(waiting.id, waiting.t0_ns, t1_ns=now_ns, fail=fail, stamps=waiting.stamps)
                else:
                    self.answers.reply(waiting.id, waiting.t0_ns, unknown="no answer in time", stamps=waiting.stamps)
                if name == wire.library.hello:
                    self._forget()

    def _read(self, wire: Wire) -> None:
        while self._wire is wire:
            try:
                part, ancillary, _, _ = wire.socket.recvmsg(_READ_BYTES, ANCILLARY_BYTES)
            except BlockingIOError:
                wire.arrivals.nothing_there()
                return
            except OSError as error:
                self._lost(wire, f"connection lost: {error}")
                return
            read_ns = own_time.now_ns()
            if not part:
                self._lost(wire, READ_TO_THE_END)
                return
            acknowledge_now(wire.socket)
            wire.heard_ns = read_ns
            wire.library.session.bytes_received(read_ns)
            self._take_in(wire, part, ancillary, read_ns)

    def _take_in(self, wire: Wire, part: bytes, ancillary: Ancillary, read_ns: int) -> None:
        first_ns, low_ns, high_ns = wire.arrivals.read(self._clock, ancillary, read_ns)
        try:
            frames = wire.framing.feed(part)
            if not frames and read_ns - wire.partial_ns >= own_time.rate().span_ns(_PARTIAL_MS):
                wire.partial_ns = read_ns
                self.answers.say(Partial(t0=read_ns, t1=read_ns))
            last = self.last_of(frames)
            for index, frame in enumerate(frames):
                # Only the last frame is known to have come with the stamped bytes.
                t0_ns = low_ns if index == last else first_ns
                for item in wire.library.receive(frame, Now(read_ns, wall_reading()[0])):
                    self._notice(wire, item, t0_ns, high_ns)
        except FramingError as error:
            self._lost(wire, f"{PROTOCOL_BROKEN}{error.text}")

    def _notice(self, wire: Wire, item: notice.Notice, t0_ns: int, t1_ns: int) -> None:
        """What the session found out."""
        if isinstance(item, notice.Delivered):
            self._arrived(wire, item, t0_ns, t1_ns)
        elif isinstance(item, notice.Empty):
            wire.library.found_nothing(item.consumer)
            if item.consumer in wire.library.browsers:
                self.answers.say(Browse(t0=t0_ns, t1=t1_ns, consumer=item.consumer, complete=True))
        elif isinstance(item, notice.Discarded):
            message, consumer = wire.library.discarded(item), item.consumer
            if consumer not in wire.library.browsers:
                # It is thrown away when its frame's turn comes, which is after all before it were worked on.
                now_ns = own_time.now_ns()
                told = Discard(t0=t0_ns, t1=now_ns, consumer=consumer, message=message, reason=item.reason)
                self.answers.say(told)
        elif isinstance(item, notice.Receipt):
            self._resolve(wire, item.receipt, t1_ns)
        elif isinstance(item, notice.Connected):
            beats: dict[str, object] = {} if item.heart_beat_ms is None else {"heart_beat_ms": item.heart_beat_ms}
            self._resolve(wire, "connect", t1_ns, beats)
        elif isinstance(item, notice.Failed):
            self._failed(wire, item, t1_ns)
        elif isinstance(item, notice.Closed):
            now_ns = own_time.now_ns()
            self.answers.say(Closed(t0=now_ns, t1=now_ns, who="client", reason=item.reason, idle_ns=item.idle_ns))
            self._give_up(wire, item.reason)

    def _arrived(self, wire: Wire, item: notice.Delivered, t0_ns: int, t1_ns: int) -> None:
        message, consumer, library = read_body(item.body), item.consumer, wire.library
        if consumer in library.browsers:
            self.answers.say(Browse(t0=t0_ns, t1=t1_ns, consumer=consumer, message=message))
        else:
            told = arrival_of(item) | dict.fromkeys(library.lacks & UNTOLD)
            self.answers.say(Arrive(t0=t0_ns, t1=t1_ns, consumer=consumer, message=message, **told))
        library.arrived(item, message, _now())
        if "take" not in self.capabilities:
            library.take(consumer, _now())

    def _resolve(self, wire: Wire, receipt: str, t1_ns: int, heard: dict[str, object] | None = None) -> None:
        waiting = wire.waiting.pop(receipt, None)
        if waiting is not None:
            ok = {**(waiting.stamps or {}), **waiting.also, **(heard or {})}
            self.answers.reply(waiting.id, waiting.t0_ns, t1_ns=t1_ns, ok=ok)

    def _failed(self, wire: Wire, item: notice.Failed, t1_ns: int) -> None:
        wire.refusal = item.text
        name = item.receipt or (wire.library.hello if wire.library.hello in wire.waiting else "")
        waiting = wire.waiting.pop(name, None)
        if waiting is not None:
            fail = refused_by_broker(item.code, item.text)
            self.answers.reply(waiting.id, waiting.t0_ns, t1_ns=t1_ns, fail=fail, stamps=waiting.stamps)
            if name == wire.library.hello:
                self._forget()
        elif not item.receipt and len(wire.waiting) == 1:
            # Of what it speaks nobody said. A broker ends the connection now; who does not, will not answer either: in
            # STOMP before 1.2, where it need not, this was the answer.
            (waiting,) = wire.waiting.values()
            waiting.error = None if wire.library.ends_after_error else item
            waiting.deadline_ns = min(waiting.deadline_ns, t1_ns + own_time.rate().span_ns(CLOSES_MS))

    def _write(self, wire: Wire) -> None:
        """Write what the session gives, as far as the socket takes it."""
        if self._wire is not wire:
            return
        now_ns = own_time.now_ns()
        while (frame := wire.library.session.next_output(now_ns)) is not None:
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

    def _lost(self, wire: Wire, reason: str) -> None:
        """The broker's end is gone."""
        now_ns = own_time.now_ns()
        reason = f"{reason} ({wire.refusal})" if wire.refusal else reason
        idle_ns = now_ns - wire.heard_ns
        self.answers.say(Closed(t0=wire.arrivals.earliest_ns, t1=now_ns, who="broker", reason=reason, idle_ns=idle_ns))
        self._give_up(wire, reason)

    def _give_up(self, wire: Wire, reason: str) -> None:
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
        for _, waiting in wire.taking:
            self.answers.reply(waiting.id, waiting.t0_ns, ok={"message": None})
        wire.taking.clear()
        self._selector.unregister(wire.socket)
        wire.library.session.stop()
        wire.socket.close()


def _given_up_ns(wire: Wire, consumer: str, waiting: Waiting) -> int:
    """Until when a take waits."""
    return waiting.deadline_ns + (own_time.rate().span_ns(OWED_MS) if wire.library.is_owed(consumer) else 0)


def _now() -> Now:
    return Now(own_time.now_ns(), wall_reading()[0])
