"""A channel to a child: one JSON object per line over a socket, every read and write with a deadline.

Decides: when a peer that does not answer, goes away or talks nonsense is reported, and as what.
Rules: nothing here blocks without a deadline; a line that is not a JSON object is the peer's fault and is shown; lines
that arrived before the peer went away are still given, then `ChannelClosed`.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Mapping
from typing import Any

MAX_LINE_BYTES = 16 * 1024 * 1024
_SHOWN_CHARS = 200


class ChannelError(Exception):
    """Something about the channel to a child; `peer` names the child."""

    def __init__(self, peer: str, text: str) -> None:
        super().__init__(f"{peer}: {text}")
        self.peer = peer


class ChannelClosed(ChannelError):
    """The peer closed its end, usually because its process ended."""


class ChannelTimeout(ChannelError):
    """No whole line came, or none could be written, before the deadline."""


class ChannelGarbage(ChannelError):
    """The peer wrote something that is not one JSON object per line."""


class Channel:
    """Our end of a child's standard input and output."""

    def __init__(self, sock: socket.socket, peer: str) -> None:
        sock.setblocking(False)
        self.peer = peer
        self._socket = sock
        self._buffer = bytearray()
        self._searched = 0
        self._ended = False

    def fileno(self) -> int:
        """For `select` over several children; ask `has_line` first, because a line may already be here."""
        return self._socket.fileno()

    def has_line(self) -> bool:
        """Take in what has arrived, without waiting; whether a whole line (or the end) is here to be read."""
        while not self._ended and self._newline() < 0 and self._take_in():
            pass
        return self._newline() >= 0 or self._ended

    def send(self, message: Mapping[str, Any], timeout_ms: int = 5000) -> None:
        """Write one object as one line; raises `ChannelTimeout` or `ChannelClosed`."""
        left = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        deadline_ns = time.monotonic_ns() + timeout_ms * 1_000_000
        while left:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                self._await(select.POLLOUT, deadline_ns, "reads nothing")
            except OSError as error:
                raise ChannelClosed(self.peer, f"cannot be written to: {error}") from error

    def receive(self, timeout_ms: int) -> dict[str, Any]:
        """The next object, waiting at most that long; 0 means: only what is here."""
        return self.receive_until(time.monotonic_ns() + timeout_ms * 1_000_000)

    def receive_until(self, deadline_ns: int) -> dict[str, Any]:
        """The next object, by a deadline on the monotonic clock; raises the three channel errors."""
        line = self.receive_line(deadline_ns)
        try:
            message = json.loads(line)
        except ValueError as error:
            raise ChannelGarbage(self.peer, f"wrote a line that is not JSON: {_shown(line)}") from error
        if not isinstance(message, dict):
            raise ChannelGarbage(self.peer, f"wrote a line that is not a JSON object: {_shown(line)}")
        return message

    def receive_line(self, deadline_ns: int) -> bytes:
        """The next line without its end, by a deadline on the monotonic clock; for callers with their own decoder."""
        while (end := self._newline()) < 0:
            if self._ended:
                raise ChannelClosed(
                    self.peer, "closed its output" + (f" after {_shown(self._buffer)}" if self._buffer else "")
                )
            if not self._take_in():
                self._await(select.POLLIN, deadline_ns, "wrote no whole line")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def close(self) -> None:
        """Close our end; a child that reads its input sees the end of it."""
        self._socket.close()

    def _newline(self) -> int:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
        return end

    def _take_in(self) -> bool:
        """Read once without waiting; False when nothing was there."""
        try:
            part = self._socket.recv(65536)
        except BlockingIOError:
            return False
        except OSError:
            part = b""  # a reset by a killed child: what came before is still good
        self._ended = not part
        self._buffer += part
        if len(self._buffer) > MAX_LINE_BYTES and self._newline() < 0:
            raise ChannelGarbage(self.peer, f"wrote a line longer than {MAX_LINE_BYTES} bytes: {_shown(self._buffer)}")
        return True

    def _await(self, event: int, deadline_ns: int, lack: str) -> None:
        left_ns = deadline_ns - time.monotonic_ns()
        poller = select.poll()
        poller.register(self._socket, event)
        if left_ns <= 0 or not poller.poll(-(-left_ns // 1_000_000)):
            raise ChannelTimeout(self.peer, f"{lack} before the deadline")


def _shown(data: bytes | bytearray) -> str:
    text = data[:_SHOWN_CHARS].decode(errors="replace")
    return repr(text) + ("…" if len(data) > _SHOWN_CHARS else "")
