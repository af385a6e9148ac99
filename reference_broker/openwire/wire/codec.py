"""Frames: bytes to commands and back, with what both ends have agreed on.

* The first frame in each direction is a WireFormatInfo with every option off; ``Codec()`` is set so. Then the owner
  replaces it by one with the negotiated options.
* A frame is a size and so many bytes, exactly one command. A size that is negative or above the limit is an error at
  once.
* A null command (type 0) is dropped.
* ``decode`` and ``FrameDecoder.feed`` raise ``WireError`` and nothing else, whatever the bytes are. After an error the
  connection is useless.

Frames that are alike are read and written at once in the tight encoding (``layout.py``, ``frame_template.py``); the
others, and errors, by ``tight.py`` and ``loose.py``.
"""

from __future__ import annotations

import struct
from typing import Final

from brokerproof.reference_broker.openwire.wire.buffers import Reader
from brokerproof.reference_broker.openwire.wire.cache import ReadCache, WriteCache
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.frame_template import FrameTemplates
from brokerproof.reference_broker.openwire.wire.kinds import VERSION_MAX, Data
from brokerproof.reference_broker.openwire.wire.layout import LONG_COUNT, Layout, survey
from brokerproof.reference_broker.openwire.wire.loose import LooseReader, LooseWriter, kind_of
from brokerproof.reference_broker.openwire.wire.registry import COMMANDS
from brokerproof.reference_broker.openwire.wire.tight import TightReader, TightWriter

_SIZE: Final = struct.Struct(">i")
#: As ActiveMQ's distributed configuration has it.
FRAME_MAX: Final = 104_857_600
#: Layouts that one connection remembers; all are forgotten when there are more.
LAYOUTS_MAX: Final = 64


class Codec:
    """One direction of writing and one of reading. ``cache_size`` 0: no caches."""

    __slots__ = ("_layouts", "_reads", "_templates", "_tight", "_traces", "_version", "_writes")

    def __init__(
        self, version: int = 1, *, tight: bool = False, cache_size: int = 0, stack_traces: bool = False
    ) -> None:
        if not 1 <= version <= VERSION_MAX:
            raise WireError(f"version {version} is not spoken here; 1 to {VERSION_MAX} are")
        self._version = version
        self._tight = tight
        self._traces = stack_traces
        self._writes = WriteCache(cache_size) if cache_size else None
        self._reads = ReadCache(cache_size) if cache_size else None
        self._templates = FrameTemplates()
        #: By what such frames begin with: type and booleans. None: they have no layout.
        self._layouts: dict[bytes, Layout | None] = {}

    def encode(self, command: Data) -> bytes:
        """A frame, with its size. Raises ``WireError`` for a value that OpenWire cannot say."""
        if command.kind.since > self._version:
            raise WireError(f"{command.kind.name} exists since version {command.kind.since}, not in {self._version}")
        if self._writes is not None:
            self._writes.sweep()
        if self._tight:
            return self._encode_tight(command)
        loose = LooseWriter(self._version, self._writes, self._traces)
        loose.fields(command)
        return _frame(command, bytes(loose.out.data))

    def _encode_tight(self, command: Data) -> bytes:
        frame = self._templates.encode(command, self._writes)
        if frame is None:
            tight = TightWriter(self._version, self._writes, self._traces)
            tight.fields(command)
            frame = _frame(command, tight.bits.finish() + bytes(tight.out.data))
            self._templates.learn(command, frame, self._version, self._writes)
        return frame

    def decode(self, frame: bytes) -> Data | None:
        """The command in a frame without its size; None for the null command. Raises ``WireError``."""
        if self._tight and len(frame) > 1:
            return self._decode_tight(frame)
        return self._decode(frame)

    def _decode_tight(self, frame: bytes) -> Data | None:
        beginning = frame[: 2 + frame[1]]
        layout = self._layouts.get(beginning)
        if layout is not None:
            found = layout.read(frame, self._reads)
            if found is not None:
                return found
        found = self._decode(frame)
        if found is not None and frame[1] < LONG_COUNT and beginning not in self._layouts:
            if len(self._layouts) >= LAYOUTS_MAX:
                self._layouts.clear()
            self._layouts[beginning] = survey(frame, self._version, caches=self._reads is not None)
        return found

    def _decode(self, frame: bytes) -> Data | None:
        reader = Reader(frame)
        number = reader.byte()
        if number == 0:
            command = None
        elif number not in COMMANDS:
            raise WireError(f"data type {number} is no command")
        else:
            reads = TightReader if self._tight else LooseReader
            kind = kind_of(number, self._version)
            command = reads(reader, self._version, self._reads, self._traces).fields(kind)
        if reader.left():
            raise WireError(f"{reader.left()} bytes are left behind a command of type {number}")
        return command


def _frame(command: Data, body: bytes) -> bytes:
    return _SIZE.pack(1 + len(body)) + bytes((command.kind.number,)) + body


class FrameDecoder:
    """Bytes in, frames out. Holds at most one frame that is not complete."""

    __slots__ = ("_buffer", "_failed", "limit")

    def __init__(self, limit: int = FRAME_MAX) -> None:
        self._buffer = bytearray()
        self._failed = ""
        self.limit = limit

    @property
    def buffered_bytes(self) -> int:
        """What has arrived of the frame in progress."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete now, without their sizes. Raises ``WireError``; then for ever."""
        if self._failed:
            raise WireError(self._failed)
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        start = 0
        while len(buffer) - start >= 4:
            size = int(_SIZE.unpack_from(buffer, start)[0])
            if not 0 < size <= self.limit:
                self._failed = f"a frame of {size} bytes; 1 to {self.limit} are allowed"
                buffer.clear()
                raise WireError(self._failed)
            if len(buffer) - start - 4 < size:
                break
            frames.append(bytes(buffer[start + 4 : start + 4 + size]))
            start += 4 + size
        if start:
            del buffer[:start]
        return frames
