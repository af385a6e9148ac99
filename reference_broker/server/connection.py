"""One socket of the edge: bytes to the node, frames from it.

It decides when bytes are written, when they are read and when a socket is closed, nothing else.

* Frames are popped only while the kernel takes all that was written before (write buffer limit 0), and no more than
  ``BATCH_BYTES`` before the kernel is asked again: one call for many small frames. So, but for that little, a message
  counts as transmitted when it has left this process, and a stalled reader shows in the in-flight count instead of in
  this process's memory.
* Reading stops, for one reason or several: flow control or an unchecked password (the node says so), more messages than
  the rate allows, or too many answers that the peer does not read. The last is what keeps a peer that only writes from
  filling the memory; messages that wait for a consumer do not count, their number is bounded by its prefetch.
* After an error the socket is half-closed and what the peer still sends is thrown away for a second: closing at once
  would reset the connection and could destroy the error before the peer has read it. TLS does the same with its
  close_notify. A monitor's close is immediate and sends nothing.
* While the rate holds a peer's frames back, its silence is ours: the monitor is told so.

Known exception: TLS keeps up to 64 KiB in this process before it says that the kernel takes no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from brokerproof.reference_broker.core.instant import NS_PER_MS
from brokerproof.reference_broker.server.clocks import read_clocks, real_s
from brokerproof.reference_broker.server.listener import LINGER_S, Listener
from brokerproof.reference_broker.server.protocols import FRAMINGS, is_keep_alive, is_message
from brokerproof.reference_broker.server.rate_limit import TokenBucket
from brokerproof.reference_broker.session.detection import AUTO, Detector
from brokerproof.reference_broker.session.framing import Framing, FramingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.server.edge import Edge
    from brokerproof.reference_broker.session.connection_state import ConnectionState

#: Frames are written together until they have so many bytes.
BATCH_BYTES: Final = 16384
#: What the kernel keeps of what was written and not taken, about (ActiveMQ's socketBufferSize): what lies there counts
#: as sent, and by itself it would keep megabytes.
SOCKET_BYTES: Final = 65536
#: Answers that may wait for a peer that does not read; the rest of what was read at once comes on top.
ANSWERS_MAX: Final = 250
#: How long a peer that is too fast is left alone at most, until its monitor hears of it.
_NAP_S: Final = 0.1
# Why nothing is read.
FLOW: Final = 1
RATE: Final = 2
ANSWERS: Final = 4


class Connection(asyncio.Protocol):
    """One socket."""

    def __init__(self, edge: Edge, listener: Listener) -> None:
        self._edge = edge
        self._listener = listener
        self._number = edge.next_number()
        self._detector: Detector | None = None
        self._framing: Framing | None = None
        #: The socket was too many: it is closed and the node never hears of it.
        self._refused = False
        self._paused = False
        self._ending = False
        self._stopped = 0
        #: From how many frames on the outbox is searched for answers.
        self._search_at = ANSWERS_MAX
        rate = edge.settings.max_messages_per_second
        self._meter = TokenBucket(rate) if rate else None
        #: What the meter holds back.
        self._held: deque[object] = deque()
        self._broken: FramingError | None = None
        self._watched = edge.settings.max_idle_ms > 0
        #: If that is watched: when the last frame passed that was no keep-alive, in either direction.
        self.active_ns = 0
        self._transport: asyncio.Transport | None = None

    # -- from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Of uvloop's transports not all are subclasses of asyncio's.
        self._transport = made = cast("asyncio.Transport", transport)
        full = self._edge.is_full() or self._listener.is_full()
        self._listener.open += 1
        host, port = made.get_extra_info("peername")[:2]
        secure = made.get_extra_info("ssl_object") is not None
        address = f"{'ssl' if secure else 'tcp'}://{host}:{port}"
        if full:
            self._refused = self._ending = True
            self._edge.refuse_connection(address)
            made.abort()
            return
        # TLS pauses from the limit on, plain sockets above it.
        made.set_write_buffer_limits(high=int(secure))
        if (own := made.get_extra_info("socket")) is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        now = read_clocks()
        self.active_ns = now.mono_ns
        self._edge.connections[self._number] = self
        protocol = self._listener.listening.protocol
        if protocol == AUTO:
            self._detector = Detector()
        else:
            self._framing = FRAMINGS[protocol](self._listener.limits)
        self._edge.node.connect(self._number, protocol, now, address)
        self._edge.flush(now)

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        node = self._edge.node
        now = read_clocks()
        node.bytes_received(self._number, now)
        try:
            framing = self._framing
            if framing is None:
                framing, data = self._detect(data, now)
            if framing is not None:
                self._receive(framing.feed(data), now)
        except FramingError as error:
            self._receive(error.frames, now)
            self._break(error, now)
        self._edge.flush(now)
        state = node.connection_state(self._number)
        if state is not None and state.waiting() > self._search_at:
            self._search(state)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        self._ending = True
        self._listener.open -= 1
        if self._refused:
            return
        now = read_clocks()
        self._held.clear()
        self._edge.connections.pop(self._number, None)
        self._edge.node.disconnect(self._number, now)
        self._edge.flush(now)

    def pause_writing(self) -> None:
        self._paused = True
        # Whoever writes plans the next tick when it is done.
        self._edge.node.write_blocked(self._number, read_clocks())

    def resume_writing(self) -> None:
        self._paused = False
        now = read_clocks()
        self._edge.node.write_resumed(self._number)
        self.drain(now)
        self._edge.flush(now)

    # -- from the node

    def drain(self, now: Now) -> None:
        """Write what waits, as long as the kernel takes it."""
        node, framing, transport = self._edge.node, self._framing, self._transport
        if framing is None or transport is None:
            return
        encode = framing.encode
        frame: object | None = True
        while frame is not None and not self._paused:
            batch: list[bytes] = []
            size = 0
            try:
                while size < BATCH_BYTES and (frame := node.next_output(self._number, now)) is not None:
                    if self._watched and not is_keep_alive(frame):
                        self.active_ns = now.mono_ns
                    data = encode(frame)
                    size += len(data)
                    batch.append(data)
            except FramingError as error:
                node.protocol_error(self._number, error.text, now)
            if batch:
                transport.write(b"".join(batch))
        if frame is None:
            self._search_at = ANSWERS_MAX
            self._go_on(ANSWERS)

    def finish(self, now: Now, *, at_once: bool) -> None:
        """The node has given the connection up."""
        self._ending = True
        self._held.clear()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if at_once:
            transport.abort()
            return
        # Only a few control frames can be left; they go out even to a reader that is slow. One that cannot be written
        # keeps neither the others back nor the socket open.
        framing = self._framing
        while (frame := self._edge.node.next_output(self._number, now)) is not None:
            with contextlib.suppress(FramingError):
                if framing is not None:
                    transport.write(framing.encode(frame))
        self._go_on(FLOW | RATE | ANSWERS)
        if transport.can_write_eof():
            transport.write_eof()
        else:
            transport.close()
        asyncio.get_running_loop().call_later(LINGER_S, transport.abort)

    def throttle(self, *, blocked: bool) -> None:
        """The node stops a peer by not reading what it sends, or lets it go on."""
        if blocked:
            self._stop(FLOW)
        else:
            self._go_on(FLOW)

    def abort(self) -> None:
        """Cut the socket."""
        if self._transport is not None:
            self._transport.abort()

    # -- inside

    def _detect(self, data: bytes, now: Now) -> tuple[Framing | None, bytes]:
        """The framing, as soon as it is known, and all bytes so far."""
        detector = self._detector
        if detector is None:
            raise RuntimeError(f"connection {self._number} has neither a framing nor a detector")
        protocol = detector.feed(data)
        if protocol is None:
            return None, b""
        self._detector = None
        self._framing = FRAMINGS[protocol](self._listener.limits)
        self._edge.node.protocol_detected(self._number, protocol, now)
        return self._framing, detector.data

    def _receive(self, frames: Sequence[object], now: Now) -> None:
        if self._meter is not None:
            self._held.extend(frames)
            self._pass_on(self._meter, now)
            return
        node = self._edge.node
        for frame in frames:
            if self._watched and not is_keep_alive(frame):
                self.active_ns = now.mono_ns
            node.receive(self._number, frame, now)

    def _break(self, error: FramingError, now: Now) -> None:
        """The bytes are no frames; that is said after the frames before have been worked on."""
        if self._held:
            self._broken = error
        else:
            self._edge.node.protocol_error(self._number, error.text, now, error.receipt)

    def _pass_on(self, meter: TokenBucket, now: Now) -> None:
        """Work on what is held back, as fast as the rate allows."""
        while self._held:
            frame = self._held[0]
            if is_message(frame) and (wait_ns := meter.wait_ns(now.mono_ns)):
                self._stop(RATE)
                asyncio.get_running_loop().call_later(min(real_s(wait_ns), _NAP_S), self._wake, meter)
                return
            self._held.popleft()
            if self._watched and not is_keep_alive(frame):
                self.active_ns = now.mono_ns
            self._edge.node.receive(self._number, frame, now)
        self._go_on(RATE)
        if self._broken is not None:
            error, self._broken = self._broken, None
            self._break(error, now)

    def _wake(self, meter: TokenBucket) -> None:
        if self._ending:
            return
        now = read_clocks()
        self._edge.node.bytes_received(self._number, now)
        self._pass_on(meter, now)
        self._edge.flush(now)

    def _search(self, state: ConnectionState) -> None:
        """Too much waits: is it answers, which the peer could ask for without end?"""
        if state.answers() > ANSWERS_MAX:
            self._stop(ANSWERS)
        else:
            self._search_at = state.waiting() + ANSWERS_MAX

    def _stop(self, reason: int) -> None:
        if not self._stopped and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._stopped |= reason

    def _go_on(self, reason: int) -> None:
        if not self._stopped:
            return
        self._stopped &= ~reason
        if not self._stopped and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def is_idle(self, now: Now, limit_ms: int) -> bool:
        """Whether nothing but keep-alives has passed for so long."""
        return not self._ending and now.mono_ns - self.active_ns > limit_ms * NS_PER_MS
