"""Taps: plain TCP forwarders that count what passes, put on both sides of whatever is to be proven.

Decides: what counts as a byte that arrived and left, and when a connection ended by whose doing.
Rules: a tap adds no fault of its own, unless its rate is limited. It reads at most one buffer ahead (so that a peer who
cannot be written to is felt by the other, as on a real line), passes on the end of a stream as an end and a reset as a
reset, and never joins or drops bytes. Counts are of bytes read from one socket and of bytes that the kernel took for
the other, on the runner's monotonic clock.
Known exceptions: the connection to the target is made when a client connects, so a client sees a reset, not a refusal,
when the target is down.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from brokerproof.chaos.ports import LOOPBACK

BUFFER_BYTES = 65536
# What a limited tap reads at once lasts about so long, and what the kernel keeps for it is about so much.
SLICE_MS = 10
LATE_NS = 50_000_000
LIMITED_BYTES = 16384
MARKS = 4096
_RESET = struct.pack("ii", 1, 0)  # linger for no time: closing sends a reset, not an end


@dataclass(frozen=True)
class End:
    """A connection's first sign of its end, as the tap saw it: which side, how, and when (monotonic)."""

    connection: int
    side: str  # "near" (whoever connected) or "far" (the target)
    how: str  # "end" (the stream ended), "reset", or "refused" (the target did not accept)
    at_ns: int


class Mark(NamedTuple):
    """A piece was read: when, how much had been read then of all connections, and of which one it was."""

    at_ns: int
    total: int
    connection: int


@dataclass
class Flow:
    """One direction through a tap, of all its connections: totals, and a mark for each piece that was read."""

    read_bytes: int = 0
    written_bytes: int = 0
    marks: deque[Mark] = field(default_factory=lambda: deque(maxlen=MARKS))


class _Pipe:
    """One direction of one connection: from a socket through a small buffer to the other.

    At a rate, what was received waits in ``inbox`` until its time has come, and counts as read then. It is received in
    large pieces: read in small ones, a socket with a small buffer opens its window only when it is empty, and whoever
    fills it asks for that after seconds.
    """

    def __init__(self, number: int, source: socket.socket, sink: socket.socket, flow: Flow, rate: int) -> None:
        self.number = number
        self.rate = rate
        self.free_ns = 0  # until when what was read last is on its way, at this rate
        self.source = source
        self.sink = sink
        self.flow = flow
        self.inbox = bytearray()
        self.buffer = bytearray()
        self.closed = False  # nothing more is to be received
        self.ended = False  # the source gave its end
        self.finished = False  # and the sink was told

    def wants_read(self) -> bool:
        return not self.closed and len(self.buffer) < BUFFER_BYTES and len(self.inbox) < LIMITED_BYTES // 2

    def due(self) -> bool:
        """Whether something that was received may go on by now."""
        return bool(self.inbox or (self.closed and not self.ended)) and time.monotonic_ns() >= self.free_ns

    def take(self) -> None:
        """Read what is there; raises `OSError` when the source is broken."""
        if self.wants_read():
            with contextlib.suppress(BlockingIOError):
                part = self.source.recv(BUFFER_BYTES - len(self.buffer))
                self.closed = not part
                self.inbox += part
        while self.due() and not self.ended:
            if not self.inbox:
                self.ended = True
                return
            part = bytes(self.inbox[: max(1, self.rate * SLICE_MS // 1000) if self.rate else None])
            del self.inbox[: len(part)]
            now_ns = time.monotonic_ns()
            if self.rate:  # a thread that comes late makes up for a little
                self.free_ns = max(self.free_ns, now_ns - LATE_NS) + len(part) * 1_000_000_000 // self.rate
            self.buffer += part
            self.flow.read_bytes += len(part)
            self.flow.marks.append(Mark(now_ns, self.flow.read_bytes, self.number))

    def give(self) -> None:
        """Write what can be written, and the end after the last byte; raises `OSError` when the sink is broken."""
        if self.buffer:
            with contextlib.suppress(BlockingIOError):
                count = self.sink.send(self.buffer)
                del self.buffer[:count]
                self.flow.written_bytes += count
        if self.ended and not self.buffer and not self.finished:
            self.finished = True
            self.sink.shutdown(socket.SHUT_WR)


class _Connection:
    """Two sockets and the two pipes between them."""

    def __init__(self, number: int, near: socket.socket, far: socket.socket, tap: Tap) -> None:
        self.number = number
        self.near = near
        self.far = far
        self.out = _Pipe(number, near, far, tap.out, tap.bytes_per_second)
        self.back = _Pipe(number, far, near, tap.back, tap.bytes_per_second)
        self.connected = False
        self.end_noted = False

    def interest(self, sock: socket.socket) -> int:
        """What to wait for at one of the two sockets."""
        if not self.connected:
            return selectors.EVENT_WRITE if sock is self.far else 0
        reading, writing = (self.out, self.back) if sock is self.near else (self.back, self.out)
        wanted = selectors.EVENT_READ if reading.wants_read() else 0
        return wanted | (selectors.EVENT_WRITE if writing.buffer else 0)


class Tap:
    """A forwarder from a loopback port of its own to a target, in a thread of its own. A context manager."""

    def __init__(self, target_port: int, target_host: str = LOOPBACK) -> None:
        self.target_port = target_port
        # A name is looked up once, here: the thread must not wait for it.
        self._target = (socket.gethostbyname(target_host), target_port)
        self.out = Flow()
        self.back = Flow()
        self.ends: deque[End] = deque(maxlen=MARKS)
        self.opened = 0
        # With "near" or "far" here, an end that comes from that side is passed on as a reset (see `LinkProxy.reset`).
        self.harden_side: str | None = None
        # Of connections from now on, in each direction; 0: as many as there are.
        self.bytes_per_second = 0
        self._listener = socket.create_server((LOOPBACK, 0), backlog=128)
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake_read, self._wake_write = socket.socketpair()
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._connections: set[_Connection] = set()
        self._thread = threading.Thread(target=self._run, name=f"tap-{self.port}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Tap:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def open_connections(self) -> int:
        """How many connections are not yet ended on both sides."""
        return len(self._connections)

    def close(self) -> None:
        """End all connections and the thread."""
        if self._thread.is_alive():
            self._wake_write.send(b"x")
            self._thread.join(5)

    def _run(self) -> None:
        try:
            while True:
                limited = self.bytes_per_second and self._connections
                for key, events in self._selector.select(SLICE_MS / 1000 if limited else None):
                    if key.fileobj is self._wake_read:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    else:
                        self._serve(key.data, key.fileobj, events)  # type: ignore[arg-type]  # we register sockets only
                for connection in list(self._connections) if limited else ():
                    for sock, pipe in ((connection.near, connection.out), (connection.far, connection.back)):
                        if pipe.due():
                            self._serve(connection, sock, selectors.EVENT_READ)
        finally:
            for connection in list(self._connections):
                self._drop(connection)
            for sock in (self._listener, self._wake_read, self._wake_write):
                sock.close()
            self._selector.close()

    def _accept(self) -> None:
        try:
            near, _ = self._listener.accept()
        except OSError:
            return  # it went away again
        far = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        for sock in (near, far):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.bytes_per_second:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LIMITED_BYTES)
        self.opened += 1
        connection = _Connection(self.opened, near, far, self)
        self._connections.add(connection)
        # A refusal can be known at once, and then the socket forgets it.
        if far.connect_ex(self._target) in {0, errno.EINPROGRESS}:
            self._watch(connection)
        else:
            self._fail(connection, "far", "refused")

    def _watch(self, connection: _Connection) -> None:
        """Bring the selector's idea of a connection up to date (a socket without interest must not be registered)."""
        for sock in (connection.near, connection.far):
            wanted = connection.interest(sock)
            known = self._selector.get_map().get(sock)
            if known is None and wanted:
                self._selector.register(sock, wanted, connection)
            elif known is not None and not wanted:
                self._selector.unregister(sock)
            elif known is not None and known.events != wanted:
                self._selector.modify(sock, wanted, connection)

    def _serve(self, connection: _Connection, sock: socket.socket, events: int) -> None:
        if connection not in self._connections:
            return  # dropped earlier in the same round
        if not connection.connected:
            if connection.far.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._fail(connection, "far", "refused")
                return
            connection.connected = True
        near = sock is connection.near
        side, other = ("near", "far") if near else ("far", "near")
        reading, writing = (connection.out, connection.back) if near else (connection.back, connection.out)
        try:
            if events & selectors.EVENT_READ:
                reading.take()
            if events & selectors.EVENT_WRITE:
                writing.give()
        except OSError:
            self._fail(connection, side, "reset")
            return
        if reading.ended:
            self._note(connection, side, "end")
            if self.harden_side == side:
                self._drop(connection, reset=True)
                return
        try:
            reading.give()
        except OSError:
            self._fail(connection, other, "reset")
            return
        if connection.out.finished and connection.back.finished:
            self._drop(connection)
        else:
            self._watch(connection)

    def _note(self, connection: _Connection, side: str, how: str) -> None:
        """Remember the first sign of a connection's end; what follows from it is our own doing."""
        if not connection.end_noted:
            connection.end_noted = True
            self.ends.append(End(connection.number, side, how, time.monotonic_ns()))

    def _fail(self, connection: _Connection, side: str, how: str) -> None:
        self._note(connection, side, how)
        self._drop(connection, reset=True)

    def _drop(self, connection: _Connection, *, reset: bool = False) -> None:
        self._connections.discard(connection)
        for sock in (connection.near, connection.far):
            with contextlib.suppress(KeyError):
                self._selector.unregister(sock)
            if reset:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            sock.close()
