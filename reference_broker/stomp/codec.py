"""STOMP 1.0, 1.1 and 1.2 as bytes: an incremental decoder and an encoder.

It decides what is a frame; what a frame means is decided by the sessions.

* The decoder takes any chunking of the same bytes and gives the same frames and the same error. After an error it is
  finished.
* It follows the version by itself: a CONNECT (STOMP) sets the one that the broker's session will choose, a CONNECTED
  the one that the broker has chosen. Until then it reads 1.0. Both ends of a connection so agree without being told.
* Escapes: none in CONNECT and CONNECTED (STOMP 1.2, "Value Encoding") nor in 1.0; ``\\n \\c \\\\`` in 1.1; ``\\r`` as
  well in 1.2. Any other is an error.
* White space around names and values belongs to them from 1.1 on. 1.0 and CONNECT are trimmed, because the 1.0
  specification itself writes blanks there.
* A line ends with LF; in 1.0 and 1.2, and in CONNECT and CONNECTED, with LF or CR LF. Between frames both are
  heart-beats in every version.
* Headers that have arrived as a whole and hold nothing special (escapes, CR, repetitions, anything wrong) are read at
  once; all others line by line. That is for speed alone: whatever the quick way gives, the slow way would give.
* Everything has a limit, and nothing is allocated for what a peer merely claims: the buffer holds only what has
  arrived.

Known exception: a CR at the end of a 1.1 header is part of it, as that version has no escape for it.
"""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.session.framing import Limits
from brokerproof.reference_broker.stomp.frames import (
    BODY_COMMANDS,
    CLIENT_COMMANDS,
    HEARTBEAT,
    SERVER_COMMANDS,
    UNESCAPED_COMMANDS,
    V10,
    V11,
    V12,
    Frame,
    Heartbeat,
    StompProtocolError,
    negotiate_version,
)

_COMMANDS: Final = CLIENT_COMMANDS | SERVER_COMMANDS
_UNESCAPE: Final = {"n": "\n", "c": ":", "\\": "\\"}
_UNESCAPE_12: Final = {**_UNESCAPE, "r": "\r"}
_ESCAPE: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", ":": "\\c"})
_ESCAPE_12: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", ":": "\\c", "\r": "\\r"})
#: Whose headers may be read at once.
_QUICK: Final = _COMMANDS - UNESCAPED_COMMANDS
_LONGEST_COMMAND: Final = max(len(command) for command in _COMMANDS)
#: In place of a content-length: headers are still being read; the body ends at the first NUL.
_IN_HEADERS: Final = -2
_TO_NUL: Final = -1
_LF: Final = 0x0A
_CR: Final = 0x0D
#: A heart-beat's bytes.
BEAT: Final = b"\n"


class FrameDecoder:
    """Bytes in, frames out. One per direction of a connection."""

    __slots__ = ("_body_bytes", "_buffer", "_command", "_count", "_failed", "_headers", "_limits",
                 "_position", "_scanned", "version")  # fmt: skip

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits if limits is not None else Limits()
        self._buffer = bytearray()
        #: Start of what is not consumed yet.
        self._position = 0
        #: No end of line (in a header) or NUL (in a body) lies between ``_position`` and here.
        self._scanned = 0
        #: The command of the frame in progress; empty between frames.
        self._command = ""
        self._headers: dict[str, str] = {}
        self._count = 0
        #: The length of its body, or _IN_HEADERS or _TO_NUL.
        self._body_bytes = _IN_HEADERS
        self._failed = False
        #: As negotiated by the frames seen so far.
        self.version = V10

    @property
    def buffered_bytes(self) -> int:
        """What has arrived of the frame in progress."""
        return len(self._buffer) - self._position

    def feed(self, data: bytes) -> list[Frame | Heartbeat]:
        """Take the next bytes and give what they complete.

        Raises StompProtocolError for malformed or oversized input; its ``frames`` are those completed before it by the
        same bytes.
        """
        frames: list[Frame | Heartbeat] = []
        if self._failed:
            raise StompProtocolError("the stream is broken already; open a new connection")
        self._buffer += data
        try:
            while self._step(frames):
                pass
        except StompProtocolError as error:
            self._failed = True
            error.frames = frames
            raise
        if self._position:
            del self._buffer[: self._position]
            self._scanned -= self._position
            self._position = 0
        return frames

    def _step(self, frames: list[Frame | Heartbeat]) -> bool:
        """Consume one command line, header line, heart-beat or body; False when more bytes are needed."""
        if not self._command:
            return self._read_start(frames)
        if self._body_bytes == _IN_HEADERS:
            return self._read_header()
        return self._read_body(frames)

    # -- between frames

    def _read_head(self) -> bool:
        """Consume the command and the headers of a frame at once; False if the slow way has to look at them, and then
        nothing has happened.
        """
        start, limits = self._position, self._limits
        end = self._buffer.find(b"\n\n", start, start + limits.max_header_bytes)
        if end < 0:
            return False
        try:
            text = self._buffer[start:end].decode("utf-8")
            command, *lines = text.split("\n")
            headers = dict([line.split(":", 1) for line in lines])
        except ValueError:  # not UTF-8, or a line without a colon
            return False
        if (
            command not in _QUICK
            or len(headers) != len(lines)
            or len(lines) > limits.max_headers
            or "" in headers
            or (self.version == V10 and text.split() != [command, *lines])
            or _needs_a_look(text)
        ):
            return False
        self._command = command
        self._headers = headers
        self._consume(end + 2)
        self._body_bytes = self._content_length()
        return True

    def _read_start(self, frames: list[Frame | Heartbeat]) -> bool:
        buffer, start = self._buffer, self._position
        if start >= len(buffer):
            return False
        if buffer[start] == _LF:
            self._consume(start + 1)
            frames.append(HEARTBEAT)
            return True
        if buffer[start] == _CR:
            if start + 1 >= len(buffer):
                return False
            if buffer[start + 1] != _LF:
                raise StompProtocolError("a CR between frames is not followed by LF; end lines with LF or CR LF")
            self._consume(start + 2)
            frames.append(HEARTBEAT)
            return True
        if self._read_head():
            return True
        end = self._line_end(_LONGEST_COMMAND + 1, "command")
        if end < 0:
            return False
        line = bytes(buffer[start:end])
        # CONNECT may end in CR LF in every version.
        if line.endswith(b"\r") and (self.version != V11 or line[:-1].decode("ascii", "replace") in UNESCAPED_COMMANDS):
            line = line[:-1]
        command = line.decode("ascii", "replace")
        if command not in _COMMANDS:
            raise StompProtocolError(f"command {_shown(line)} is unknown; send a STOMP frame")
        self._command = command
        self._consume(end + 1)
        return True

    # -- headers

    def _read_header(self) -> bool:
        end = self._line_end(self._limits.max_header_bytes, "header")
        if end < 0:
            return False
        line = bytes(self._buffer[self._position : end])
        self._consume(end + 1)
        plain = self._command in UNESCAPED_COMMANDS
        if line.endswith(b"\r") and (plain or self.version != V11):
            line = line[:-1]
        if not line:
            self._body_bytes = self._content_length()
            return True
        self._count += 1
        if self._count > self._limits.max_headers:
            raise self._error(f"more than {self._limits.max_headers} headers; send fewer")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            raise self._error(f"header {_shown(line)} is not UTF-8; encode headers as UTF-8") from None
        name, colon, value = text.partition(":")
        if plain or self.version == V10:
            name, value = name.strip(), value.strip()
        elif "\\" in text:
            table = _UNESCAPE_12 if self.version == V12 else _UNESCAPE
            name, value = self._unescape(name, table), self._unescape(value, table)
        if not colon or not name:
            raise self._error(f"header {_shown(line)} has no name before a colon; write name:value")
        self._headers.setdefault(name, value)
        return True

    def _unescape(self, text: str, table: dict[str, str]) -> str:
        parts = text.split("\\")
        out = [parts[0]]
        index = 1
        while index < len(parts):
            part = parts[index]
            if not part and index + 1 < len(parts):
                # Two backslashes in a row: the second one is the escaped character.
                out.append("\\" + parts[index + 1])
                index += 2
                continue
            if not part or part[0] not in table:
                escape = repr("\\" + part[:1])
                raise self._error(f"escape {escape} does not exist in STOMP {self.version}; see Value Encoding")
            out.append(table[part[0]] + part[1:])
            index += 1
        return "".join(out)

    def _content_length(self) -> int:
        """The length of the body that follows; _TO_NUL if it ends at the first NUL."""
        text = self._headers.get("content-length")
        if text is None:
            return _TO_NUL
        if not (text.isascii() and text.isdigit() and len(text) <= 19):
            raise self._error(f"content-length:{text[:40]} is not a length; send a number of bytes, 0 or more")
        length = int(text)
        self._check_body(length)
        return length

    # -- body

    def _read_body(self, frames: list[Frame | Heartbeat]) -> bool:
        buffer, start = self._buffer, self._position
        if self._body_bytes == _TO_NUL:
            end = buffer.find(0, self._scanned)
            self._check_body((end if end >= 0 else len(buffer)) - start)
            if end < 0:
                self._scanned = len(buffer)
                return False
        else:
            end = start + self._body_bytes
            if end >= len(buffer):
                return False
            if buffer[end] != 0:
                raise self._error(
                    f"no NUL follows the {self._body_bytes} bytes of content-length; count the body's bytes"
                )
        frame = Frame(self._command, self._headers, bytes(buffer[start:end]))
        self._consume(end + 1)
        self._follow_version(frame)
        self._command = ""
        self._headers = {}
        self._count = 0
        self._body_bytes = _IN_HEADERS
        frames.append(frame)
        return True

    def _check_body(self, length: int) -> None:
        if length and self._command not in BODY_COMMANDS and self.version != V10:
            raise self._error("it has a body; only SEND, MESSAGE and ERROR may have one")
        if length > self._limits.max_body_bytes:
            raise self._error(f"the body is larger than {self._limits.max_body_bytes} bytes; send smaller messages")

    def _follow_version(self, frame: Frame) -> None:
        if frame.command == "CONNECTED":
            self.version = negotiate_version(frame.headers.get("version", V10)) or V10
        elif frame.command in UNESCAPED_COMMANDS:
            self.version = negotiate_version(frame.headers.get("accept-version")) or V10

    # -- bytes

    def _line_end(self, limit: int, what: str) -> int:
        """Where the line at the present position ends; -1: not yet.

        A line longer than ``limit`` bytes is an error as soon as that is certain.
        """
        buffer, start = self._buffer, self._position
        end = buffer.find(_LF, self._scanned)
        stop = end if end >= 0 else len(buffer)
        nul = buffer.find(0, self._scanned, stop)
        if nul >= 0:
            stop = nul
        if stop - start > limit:
            if not self._command:
                raise self._error(
                    f"{_shown(bytes(buffer[start : start + limit]))} begins no command; send a STOMP frame"
                )
            shown = _shown(bytes(buffer[start : start + limit]))
            raise self._error(f"the {what} line {shown} is longer than {limit} bytes; send shorter lines")
        if nul >= 0:
            raise self._error(
                f"NUL inside the {what} line {_shown(bytes(buffer[start:nul]))}; end the headers with an empty line"
            )
        if end < 0:
            self._scanned = len(buffer)
        return end

    def _consume(self, end: int) -> None:
        self._position = self._scanned = end

    def _error(self, text: str) -> StompProtocolError:
        where = f"{self._command}: " if self._command else ""
        return StompProtocolError(where + text, receipt=self._headers.get("receipt", ""))


def encode(frame: Frame, version: str = V12) -> bytes:
    """The frame's bytes. A body without content-length gets one, so that it may contain NUL.

    Raises ValueError for what the version cannot write: NUL in a header; without escaping also ends of line, and colons
    in names. An unpaired surrogate, which JMS has and UTF-8 lacks, becomes "?", as Java writes it.
    """
    headers = frame.headers
    if frame.body and "content-length" not in headers:
        headers = {**headers, "content-length": str(len(frame.body))}
    count = len(headers)
    head = "\n".join([frame.command, *[f"{name}:{value}" for name, value in headers.items()]])
    # Exactly one colon and one end of line for each: nothing in it needs an escape, or is wrong.
    if head.count(":") != count or head.count("\n") != count or "" in headers or _needs_a_look(head):
        head = _escaped(frame.command, headers, version)
    return f"{head}\n\n".encode("utf-8", "replace") + frame.body + b"\0"


def _needs_a_look(text: str) -> bool:
    """Whether headers hold anything that means more than itself, or nothing at all."""
    return "\\" in text or "\r" in text or "\0" in text


def _escaped(command: str, headers: dict[str, str], version: str) -> str:
    """Command and headers, of which some need a closer look."""
    plain = version == V10 or command in UNESCAPED_COMMANDS
    table = _ESCAPE_12 if version == V12 else _ESCAPE
    lines = [command]
    for name, value in headers.items():
        if "\0" in name or "\0" in value or not name:
            raise ValueError(f"header {name!r}:{value!r} is empty or contains NUL, which STOMP cannot write; remove it")
        if not plain:
            lines.append(f"{name.translate(table)}:{value.translate(table)}")
        elif "\n" in name or ":" in name or "\n" in value:
            raise ValueError(f"header {name!r}:{value!r} needs escapes, which {command} in STOMP {version} lacks")
        else:
            lines.append(f"{name}:{value}")
    return "\n".join(lines)


def _shown(line: bytes) -> str:
    """The beginning of a line, for a message."""
    return repr(line[:40].decode("utf-8", "replace"))
