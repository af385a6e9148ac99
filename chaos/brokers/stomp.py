"""A few STOMP frames by hand: is a broker serving, and what does its clock show.

Decides: when a broker counts as ready, and how its wall clock is read to the millisecond.
Rules: ready means that the protocol answers, because the port accepts connections earlier; a broker stamps a message
that carries no time stamp with its own clock, and that stamp is the reading. Leaves nothing behind: the queue is
temporary.
Known exceptions: only what these two questions need; the suite's STOMP clients are elsewhere.
"""

from __future__ import annotations

import contextlib
import socket
import time

from brokerproof.chaos.clocks import ClockReading, reading
from brokerproof.chaos.ports import LOOPBACK

CLOCK_TIMEOUT_MS = 3000
_CLOCK_QUEUE = "/temp-queue/brokerproof-clock"


class StompRefused(Exception):
    """The broker answered something else than was asked for."""


class Line:
    """One STOMP connection, just enough of it."""

    def __init__(self, port: int, timeout_ms: int) -> None:
        self._deadline_ns = time.monotonic_ns() + timeout_ms * 1_000_000
        self._socket = socket.create_connection((LOOPBACK, port), timeout=timeout_ms / 1000)
        self._buffer = b""

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, command: str, headers: dict[str, str], body: str = "") -> None:
        """Write one frame."""
        lines = [command, *(f"{name}:{value}" for name, value in headers.items()), "", body]
        self._socket.sendall("\n".join(lines).encode() + b"\0")

    def receive(self, wanted: str) -> dict[str, str]:
        """Headers of the next frame, which must be the wanted one; raises `StompRefused` or `OSError`."""
        while b"\0" not in self._buffer:
            left_ns = self._deadline_ns - time.monotonic_ns()
            if left_ns <= 0:
                raise TimeoutError(f"no {wanted} frame in time")
            self._socket.settimeout(left_ns / 1e9)
            part = self._socket.recv(65536)
            if not part:
                raise ConnectionResetError(f"closed before a {wanted} frame came")
            self._buffer += part
        frame, _, self._buffer = self._buffer.partition(b"\0")
        head = frame.lstrip(b"\r\n").partition(b"\n\n")[0].decode(errors="replace").splitlines()
        if not head or head[0] != wanted:
            raise StompRefused(f"wanted {wanted}, got {frame[:200]!r}")
        return dict(line.partition(":")[::2] for line in reversed(head[1:]))  # the first of a repeated header counts


def handshake(port: int, timeout_ms: int = 2000, version: str = "1.1,1.2") -> str | None:
    """What the broker calls itself, or None if it does not serve yet (as `Process.await_ready` wants it)."""
    with contextlib.suppress(OSError, StompRefused), Line(port, timeout_ms) as line:
        line.send("CONNECT", {"accept-version": version, "host": "localhost"})
        return line.receive("CONNECTED").get("server", "unnamed")
    return None


def clock(port: int, timeout_ms: int = CLOCK_TIMEOUT_MS) -> ClockReading:
    """The broker's wall clock to the millisecond, from the stamp that it puts on a message without one.

    Raises `OSError` or `StompRefused` if the message does not come back.
    """
    with Line(port, timeout_ms) as line:
        line.send("CONNECT", {"accept-version": "1.1,1.2", "host": "localhost"})
        line.receive("CONNECTED")
        line.send("SUBSCRIBE", {"id": "clock", "destination": _CLOCK_QUEUE, "ack": "auto", "receipt": "subscribed"})
        line.receive("RECEIPT")
        t0_ns, real0_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        line.send("SEND", {"destination": _CLOCK_QUEUE}, "clock")
        stamp = line.receive("MESSAGE").get("timestamp", "")
        if not stamp.isdigit():
            raise StompRefused(f"the broker puts no time stamp on messages: {stamp!r}")
        return reading(int(stamp), t0_ns, real0_ms)
