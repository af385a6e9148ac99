"""Reading and writing: bytes with bounds, and the stream of booleans of the tight encoding.

Rules
* Nothing is read beyond the end of the frame, and nothing is allocated because a length claims it: a length is compared
  with what is left first.
* Booleans of the tight encoding fill bytes from the lowest bit; their count of bytes comes first (openwire.md 5.8).
"""

from __future__ import annotations

import struct

from reference_broker.openwire.wire.errors import WireError

_SHORT = struct.Struct(">h")
_USHORT = struct.Struct(">H")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
#: Nested objects, maps, lists and causes of exceptions.
DEPTH_MAX = 127


class Reader:
    """The content of one frame, from the front. ``depth`` is how deep the reader is nested at the moment."""

    __slots__ = ("data", "depth", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position
        self.depth = 0

    def left(self) -> int:
        """Bytes that are not read yet."""
        return len(self.data) - self.position

    def take(self, count: int, what: str) -> bytes:
        """The next ``count`` bytes."""
        if count < 0 or count > len(self.data) - self.position:
            raise WireError(f"{what} of {count} bytes, but {self.left()} are left in the frame")
        start = self.position
        self.position = start + count
        return self.data[start : self.position]

    def byte(self) -> int:
        """An unsigned byte."""
        if self.position >= len(self.data):
            raise WireError("the frame ends where a byte was expected")
        value = self.data[self.position]
        self.position += 1
        return value

    def bool(self) -> bool:
        """A byte that is not 0."""
        return self.byte() != 0

    def i8(self) -> int:
        """A signed byte."""
        value = self.byte()
        return value - 256 if value > 127 else value

    def i16(self) -> int:
        """Two bytes, signed."""
        return int(_SHORT.unpack(self.take(2, "a short"))[0])

    def u16(self) -> int:
        """Two bytes, unsigned."""
        return int(_USHORT.unpack(self.take(2, "a length"))[0])

    def i32(self) -> int:
        """Four bytes, signed."""
        return int(_INT.unpack(self.take(4, "an integer"))[0])

    def i64(self) -> int:
        """Eight bytes, signed."""
        return int(_LONG.unpack(self.take(8, "a long"))[0])

    def enter(self) -> None:
        """One level deeper."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise WireError(f"the frame is nested more than {DEPTH_MAX} levels deep")

    def leave(self) -> None:
        """One level up."""
        self.depth -= 1


class Writer:
    """A frame's content in progress."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def byte(self, value: int) -> None:
        """An unsigned byte."""
        self.data.append(value)

    def bool(self, value: bool) -> None:
        """A boolean of the loose encoding."""
        self.data.append(1 if value else 0)

    def i8(self, value: int) -> None:
        """A signed byte."""
        self._check(value, 8)
        self.data.append(value & 0xFF)

    def i16(self, value: int) -> None:
        """Two bytes, signed."""
        self._check(value, 16)
        self.data += _SHORT.pack(value)

    def u16(self, value: int) -> None:
        """Two bytes, unsigned."""
        if not 0 <= value <= 0xFFFF:
            raise WireError(f"{value} does not fit into an unsigned short")
        self.data += _USHORT.pack(value)

    def i32(self, value: int) -> None:
        """Four bytes, signed."""
        self._check(value, 32)
        self.data += _INT.pack(value)

    def i64(self, value: int) -> None:
        """Eight bytes, signed."""
        self._check(value, 64)
        self.data += _LONG.pack(value)

    def raw(self, value: bytes) -> None:
        """Bytes as they are."""
        self.data += value

    @staticmethod
    def _check(value: int, bits: int) -> None:
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise WireError(f"{value} does not fit into {bits} bits")


class BitWriter:
    """The booleans of a tight frame in progress."""

    __slots__ = ("_bits", "_count")

    def __init__(self) -> None:
        self._bits = bytearray()
        self._count = 0

    def put(self, value: bool) -> None:
        """One more."""
        place = self._count & 7
        if place == 0:
            self._bits.append(0)
        if value:
            self._bits[-1] |= 1 << place
        self._count += 1

    def finish(self) -> bytes:
        """Count and bits."""
        size = len(self._bits)
        if size < 64:
            head = bytes((size,))
        elif size < 256:
            head = bytes((0xC0, size))
        elif size <= 0x7FFF:
            head = b"\x80" + _SHORT.pack(size)
        else:
            raise WireError(f"{size} bytes of booleans do not fit into a frame")
        return head + bytes(self._bits)


class BitReader:
    """The booleans of a tight frame."""

    __slots__ = ("_bits", "_position")

    def __init__(self, reader: Reader) -> None:
        size = reader.byte()
        if size == 0xC0:
            size = reader.byte()
        elif size == 0x80:
            size = reader.i16()
        elif size >= 64:
            raise WireError(f"the count of booleans begins with {size:#04x}; less than 0x40, 0xc0 or 0x80 was expected")
        self._bits = reader.take(size, "booleans")
        self._position = 0

    def get(self) -> bool:
        """The next one."""
        index, place = self._position >> 3, self._position & 7
        if index >= len(self._bits):
            raise WireError(f"the frame has {len(self._bits)} bytes of booleans and needs more")
        self._position += 1
        return self._bits[index] >> place & 1 == 1
