"""A host that speaks STOMP:

``python -m conformance.agents.stomp_agent``, requests on stdin, replies and events on stdout.

It decides nothing about the protocol, which is ``reference_broker.stomp.client``'s; it owns the socket, the clock
readings and what waits for a receipt.

Rules
* One thread, one selector loop over stdin and the socket, so nothing that arrives waits for a request to be finished,
  and heart-beats go out in time.
* ``send``, ``subscribe``, ``ack`` and ``nack`` ask for a receipt and are answered when it comes; if the connection ends
  first the answer is ``unknown``. ``leave`` says goodbye and waits for nothing.
* The broker's refusal without the name of a request ends the connection; every waiting request is then ``unknown``.
* The process runs on the host's faked wall clock; nothing but ``wall_ms``, ``expires`` and ``timestamp`` is read from
  it.

Known exceptions: a STOMP client never looks at the expiration of what it receives. ``auto`` acknowledgement is the
broker's doing, so it is not seen here.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time
from urllib.parse import urlsplit

from conformance.agents.protocol import (
    FEATURES,
    LIFE,
    PROTOCOL,
    UNSUPPORTED,
    Abort,
    Ack,
    AgentEvent,
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
    Reply,
    Send,
    Subscribe,
    Unsubscribe,
    encode,
    make_body,
    parse_request,
    read_body,
)
from conformance.agents.stamps import ANCILLARY_BYTES, NS_PER_MS, Ancillary, ArrivalClock, ask_for_stamps, wall_reading
from conformance.agents.wire import RefusedError, Stamps, Waiting, Wire
from reference_broker import notice
from reference_broker.core.message import Property
from reference_broker.inactivity import DocumentedMonitor
from reference_broker.stomp.client import ClientSession
from reference_broker.stomp.codec import BEAT
from reference_broker.stomp.codec import encode as encode_frame
from reference_broker.stomp.frames import HEARTBEAT, Frame, StompProtocolError

NAME = "stomp/1"
CAPABILITIES = ["ttl", "delay", "prefetch", "nack", *FEATURES]
CONNECT_TIMEOUT_S = 5.0
_READ_BYTES = 65536
#: An idle loop looks at the socket this often, so that an arrival without a kernel stamp is still known this closely.
_IDLE_MS = 20
_ACKS = {"auto": "auto", "client": "client", "individual": "client-individual"}


class Agent:
    """The process: one host, at most one connection."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests = requests
        self._answers = answers
        self._buffer = bytearray()
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)
        self._clock = ArrivalClock()
        self._wire: Wire | None = None
        #: (consumer, message) -> its latest delivery, which an acknowledgement must name.
        self._deliveries: dict[tuple[str, str], notice.Delivered] = {}
        self._running = True

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

    # -- requests

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
            self._reply(request.id, t0_ns, fail=Fail(refusal.code, str(refusal)))
            return
        if ok is not None:
            self._reply(request.id, t0_ns, ok=ok)
        if isinstance(request, Quit):
            self._running = False

    def _perform(self, request: AnyRequest, t0_ns: int) -> dict[str, object] | None:
        """Do it; None: the answer comes with a receipt."""
        if isinstance(request, Hello):
            return {"agent": NAME, "protocol": PROTOCOL, "capabilities": CAPABILITIES}
        if isinstance(request, Counters):
            return {}
        if isinstance(request, Connect):
            self._connect(request, t0_ns)
            return None
        if isinstance(request, Quit | Leave):
            return self._leave(request)
        wire = self._connected()
        stamps: Stamps | None = None
        if isinstance(request, Send):
            receipt, stamps = self._send(wire.session, request)
        elif isinstance(request, Subscribe):
            receipt = self._subscribe(wire, request)
        elif isinstance(request, Ack | Nack):
            receipt = self._settle(wire.session, request)
        elif isinstance(request, Begin):
            receipt = wire.session.begin(request.tx, receipt=True)
        elif isinstance(request, Commit):
            receipt = wire.session.commit(request.tx)
        elif isinstance(request, Abort):
            receipt = wire.session.rollback(request.tx)
        elif isinstance(request, Unsubscribe):
            receipt = wire.session.unsubscribe_durable(request.durable)
        else:
            raise RefusedError(UNSUPPORTED, f"{NAME} does not know {type(request).__name__.lower()!r}")
        wire.waiting[receipt] = Waiting(request, t0_ns, stamps)
        self._write(wire)
        return None

    def _connected(self) -> Wire:
        if self._wire is None:
            raise RefusedError("not-connected", "there is no connection; send connect first")
        return self._wire

    def _connect(self, request: Connect, t0_ns: int) -> None:
        if self._wire is not None:
            raise RefusedError("connected", "there is a connection already; leave it first")
        url = urlsplit(request.url)
        try:
            sock = socket.create_connection((url.hostname or "", url.port or 61613), timeout=CONNECT_TIMEOUT_S)
        except OSError as error:
            raise RefusedError("unreachable", f"{request.url}: {error}") from None
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ask_for_stamps(sock)
        address = f"tcp://{url.hostname}:{url.port}"
        session = ClientSession(DocumentedMonitor(address, time.monotonic_ns()))
        wire = self._wire = Wire(sock, session)
        self._selector.register(sock, selectors.EVENT_READ)
        session.connect(heart_beat_ms=request.heartbeat_ms, client_id=request.client_id)
        wire.waiting["connect"] = Waiting(request, t0_ns)
        self._write(wire)

    def _send(self, session: ClientSession, request: Send) -> tuple[str, Stamps]:
        wall_ms = wall_reading()[0]
        expiration_ms = wall_ms + request.ttl_ms if request.ttl_ms else 0
        timestamp_ms = {"client": wall_ms, "none": None, "zero": 0}[request.stamp]
        receipt = session.send(
            request.dest,
            make_body(request.message, request.size),
            expiration_ms=expiration_ms,
            timestamp_ms=timestamp_ms,
            persistent=request.persistent,
            priority=request.priority,
            delay_ms=request.delay_ms,
            transaction=request.tx,
            group=request.group,
            properties=_properties(request),
            receipt=True,
        )
        return receipt, {"expiration_ms": expiration_ms, "timestamp_ms": timestamp_ms}

    def _subscribe(self, wire: Wire, request: Subscribe) -> str:
        if request.browser:
            wire.browsers[request.consumer] = True
        return wire.session.subscribe(
            request.consumer,
            request.dest,
            ack=_ACKS[request.ack],
            prefetch=request.prefetch,
            dispatch_async=request.dispatch == "async",
            selector=request.selector,
            durable=request.durable,
            no_local=request.no_local,
            exclusive=request.exclusive,
            priority=request.priority,
            browser=request.browser,
            receipt=True,
        )

    def _settle(self, session: ClientSession, request: Ack | Nack) -> str:
        found = [self._deliveries.get((request.consumer, message)) for message in request.messages]
        known = [delivery for delivery in found if delivery is not None]
        if len(known) != len(found) or not known:
            raise RefusedError(
                "unknown-message", f"not all of {request.messages} were delivered to {request.consumer!r}"
            )
        tx = request.tx if isinstance(request, Ack) else ""
        if isinstance(request, Ack) and request.mode == "cumulative":
            return session.ack(known[-1], transaction=tx, receipt=True)
        settle = session.ack if isinstance(request, Ack) else session.nack
        for delivery in known[:-1]:
            settle(delivery, transaction=tx)
        return settle(known[-1], transaction=tx, receipt=True)

    def _leave(self, request: Leave | Quit) -> dict[str, object]:
        wire = self._wire
        if wire is None:
            return {}
        if isinstance(request, Leave) and request.consumer is not None:
            wire.session.unsubscribe(request.consumer)
            self._write(wire)
            return {}
        if isinstance(request, Quit) or request.how == "close":
            wire.session.disconnect()
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
        due_ns = self._wire.session.next_due_ns()
        for due in [waiting.deadline_ns for waiting in self._wire.waiting.values()]:
            due_ns = due if due_ns is None else min(due_ns, due)
        if due_ns is not None:
            patience_ns = min(patience_ns, max(0, due_ns - now_ns))
        return patience_ns / 1_000_000_000

    def _serve(self, wire: Wire) -> None:
        """Read what is there, run the monitor, write what is due."""
        self._read(wire)
        if self._wire is wire:
            now_ns = time.monotonic_ns()
            for item in wire.session.tick(now_ns):
                self._notice(wire, item, now_ns, now_ns)
            self._expire(wire, now_ns)
        if self._wire is wire:
            self._write(wire)

    def _expire(self, wire: Wire, now_ns: int) -> None:
        """Answer requests whose time is over; half a connection is given up."""
        for name, waiting in list(wire.waiting.items()):
            if waiting.deadline_ns <= now_ns:
                del wire.waiting[name]
                self._reply(waiting.id, waiting.t0_ns, unknown="no answer in time", stamps=waiting.stamps)
                if name == "connect":
                    self._forget()

    def _read(self, wire: Wire) -> None:
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

    def _take_in(self, wire: Wire, part: bytes, ancillary: Ancillary, read_ns: int) -> None:
        low_ns, high_ns = self._clock.interval(ancillary, wire.empty_ns, read_ns)
        try:
            frames = wire.decoder.feed(part)
            # A broker ends a frame with an end of line, which reads as a beat but came with the frame.
            last = max((index for index, frame in enumerate(frames) if frame is not HEARTBEAT), default=-1)
            for index, frame in enumerate(frames):
                # Only the last frame is known to have come with the stamped bytes.
                t0_ns = low_ns if index == last else min(wire.empty_ns, low_ns)
                for item in wire.session.receive(frame, read_ns):
                    self._notice(wire, item, t0_ns, high_ns)
        except StompProtocolError as error:
            self._lost(wire, f"the broker broke the protocol: {error.text}")

    def _notice(self, wire: Wire, item: notice.Notice, t0_ns: int, t1_ns: int) -> None:
        """What the session found out."""
        if isinstance(item, notice.Delivered):
            if item.consumer in wire.browsers:
                self._event(Browse(t0=t0_ns, t1=t1_ns, consumer=item.consumer, message=read_body(item.body)))
            else:
                self._delivered(item, t0_ns, t1_ns)
        elif isinstance(item, notice.Empty):
            if item.consumer in wire.browsers:
                self._event(Browse(t0=t0_ns, t1=t1_ns, consumer=item.consumer, complete=True))
        elif isinstance(item, notice.Receipt):
            self._resolve(wire, item.receipt, t1_ns)
        elif isinstance(item, notice.Connected):
            self._resolve(wire, "connect", t1_ns)
        elif isinstance(item, notice.Failed):
            self._failed(wire, item, t1_ns)
        elif isinstance(item, notice.Closed):
            now_ns = time.monotonic_ns()
            self._event(Closed(t0=now_ns, t1=now_ns, who="client", reason=item.reason, idle_ns=item.idle_ns))
            self._give_up(wire, item.reason)

    def _delivered(self, item: notice.Delivered, t0_ns: int, t1_ns: int) -> None:
        message = read_body(item.body)
        self._deliveries[item.consumer, message] = item
        self._event(
            Arrive(
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
            )
        )

    def _resolve(self, wire: Wire, receipt: str, t1_ns: int) -> None:
        waiting = wire.waiting.pop(receipt, None)
        if waiting is not None:
            self._reply(waiting.id, waiting.t0_ns, t1_ns=t1_ns, ok={**(waiting.stamps or {})})

    def _failed(self, wire: Wire, item: notice.Failed, t1_ns: int) -> None:
        wire.refusal = item.text
        name = item.receipt or ("connect" if "connect" in wire.waiting else "")
        waiting = wire.waiting.pop(name, None)
        if waiting is not None:
            self._reply(waiting.id, waiting.t0_ns, t1_ns=t1_ns, fail=Fail(item.code or "refused", item.text))
            if name == "connect":
                self._forget()

    def _write(self, wire: Wire) -> None:
        """Write what the session gives, as far as the socket takes it."""
        now_ns = time.monotonic_ns()
        while (frame := wire.session.next_output(now_ns)) is not None:
            if frame is HEARTBEAT:
                wire.unsent += BEAT
            elif isinstance(frame, Frame):
                wire.unsent += encode_frame(frame, wire.session.version)
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
        now_ns = time.monotonic_ns()
        reason = f"{reason} ({wire.refusal})" if wire.refusal else reason
        idle_ns = now_ns - wire.heard_ns
        self._event(Closed(t0=wire.empty_ns, t1=now_ns, who="broker", reason=reason, idle_ns=idle_ns))
        self._give_up(wire, reason)

    def _give_up(self, wire: Wire, reason: str) -> None:
        for waiting in wire.waiting.values():
            self._reply(waiting.id, waiting.t0_ns, unknown=reason, stamps=waiting.stamps)
        wire.waiting.clear()
        self._forget()

    def _forget(self) -> None:
        """Let go of the connection; its deliveries can no longer be settled."""
        wire = self._wire
        if wire is None:
            return
        self._wire = None
        self._deliveries.clear()
        self._selector.unregister(wire.socket)
        wire.session.stop()
        wire.socket.close()

    # -- answers

    def _reply(
        self,
        request: int,
        t0_ns: int,
        *,
        t1_ns: int | None = None,
        ok: dict[str, object] | None = None,
        fail: Fail | None = None,
        unknown: str | None = None,
        stamps: Stamps | None = None,
    ) -> None:
        wall_ms, wall_at = wall_reading()
        t1_ns = max(t0_ns, time.monotonic_ns() if t1_ns is None else t1_ns)
        self._put(
            encode(
                Reply(
                    id=request,
                    t0=t0_ns,
                    t1=t1_ns,
                    wall_ms=wall_ms,
                    wall_at=wall_at,
                    ok=ok,
                    fail=fail,
                    unknown=unknown,
                    stamps=stamps,
                )
            )
        )

    def _event(self, event: AgentEvent) -> None:
        self._put(encode(event))

    def _put(self, line: bytes) -> None:
        # Blocking on purpose: the suite reads all the time, and an answer must never be lost.
        while line:
            line = line[os.write(self._answers, line) :]


def _properties(request: Send) -> dict[str, Property] | None:
    properties: dict[str, Property] = {}
    if request.kind:
        properties["kind"] = request.kind
    if request.life_ms:
        properties[LIFE] = request.life_ms
    return properties or None


def main() -> int:
    """Serve stdin and stdout."""
    Agent(sys.stdin.fileno(), sys.stdout.fileno()).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
