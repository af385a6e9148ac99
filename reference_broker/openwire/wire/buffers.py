"""Reading and writing: bytes with bounds, and the stream of booleans of the tight encoding.

* Nothing is read beyond the end of the frame, and nothing is allocated because a length claims it: a length is compared
  with what is left first.
* Booleans of the tight encoding fill bytes from the lowest bit; their count of bytes comes first (openwire.md 5.8).
"""

from __future__ import annotations

import struct

from brokerproof.reference_broker.openwire.wire.errors import WireError

_BYTE = struct.Struct(">b")
_SHORT = struct.Struct(">h")
_USHORT = struct.Struct(">H")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
#: The digits of 0 and 1.
_DIGITS = bytes.maketrans(b"\0\1", b"01")
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
        return self._number(_SHORT, "a short")

    def u16(self) -> int:
        """Two bytes, unsigned."""
        return self._number(_USHORT, "a length")

    def i32(self) -> int:
        """Four bytes, signed."""
        return self._number(_INT, "an integer")

    def i64(self) -> int:
        """Eight bytes, signed."""
        return self._number(_LONG, "a long")

    def _number(self, form: struct.Struct, what: str) -> int:
        try:
            value: int = form.unpack_from(self.data, self.position)[0]
        except struct.error:
            raise WireError(f"{what} of {form.size} bytes, but {self.left()} are left in the frame") from None
        self.position += form.size
        return value

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
        self._pack(_BYTE, value)

    def i16(self, value: int) -> None:
        """Two bytes, signed."""
        self._pack(_SHORT, value)

    def u16(self, value: int) -> None:
        """Two bytes, unsigned."""
        if not 0 <= value <= 0xFFFF:
            raise WireError(f"{value} does not fit into an unsigned short")
        self.data += _USHORT.pack(value)

    def i32(self, value: int) -> None:
        """Four bytes, signed."""
        self._pack(_INT, value)

    def i64(self, value: int) -> None:
        """Eight bytes, signed."""
        self._pack(_LONG, value)

    def raw(self, value: bytes) -> None:
        """Bytes as they are."""
        self.data += value

    def _pack(self, form: struct.Struct, value: int) -> None:
        try:
            self.data += form.pack(value)
        except struct.error:
            raise WireError(f"{value} does not fit into {8 * form.size} bits") from None


class BitWriter:
    """The booleans of a tight frame in progress."""

    __slots__ = ("_flags", "put")

    def __init__(self) -> None:
        self._flags: list[bool] = []
        #: One more. The list's own method: a frame of a message has forty of them.
        self.put = self._flags.append

    def finish(self) -> bytes:
        """Count and bits."""
        flags = self._flags
        size = (len(flags) + 7) // 8
        # The first flag is the lowest bit of the first byte: read backwards, they are one binary number.
        bits = int(bytes(flags[::-1]).translate(_DIGITS), 2).to_bytes(size, "little") if flags else b""
        if size < 64:
            head = bytes((size,))
        elif size < 256:
            head = bytes((0xC0, size))
        elif size <= 0x7FFF:
            head = b"\x80" + _SHORT.pack(size)
        else:
            raise WireError(f"{size} bytes of booleans do not fit into a frame")
        return head + bits


class BitReader:
    """The booleans of a tight frame."""

    __slots__ = ("_flags", "_position")

    def __init__(self, reader: Reader) -> None:
        size = reader.byte()
        if size == 0xC0:
            size = reader.byte()
        elif size == 0x80:
            size = reader.i16()
        elif size >= 64:
            raise WireError(f"the count of booleans begins with {size:#04x}; less than 0x40, 0xc0 or 0x80 was expected")
        number = int.from_bytes(reader.take(size, "booleans"), "little")
        #: "0" and "1", the first flag last.
        self._flags = f"{number:0{8 * size}b}" if size else ""
        self._position = 0

    def get(self) -> bool:
        """The next one."""
        self._position -= 1
        try:
            return self._flags[self._position] == "1"
        except IndexError:
            raise WireError(f"the frame has {len(self._flags) // 8} bytes of booleans and needs more") from None
