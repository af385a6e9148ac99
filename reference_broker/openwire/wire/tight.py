"""The tight encoding: all booleans and null flags in a bit stream in front, longs shortened (openwire.md 5.8).

Bits and data are written in one walk over the fields, because both follow the same order; only at the end do they take
their places.
"""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.openwire.wire.buffers import BitReader, BitWriter, Reader
from brokerproof.reference_broker.openwire.wire.cache import ReadCache, WriteCache
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.kinds import Data
from brokerproof.reference_broker.openwire.wire.loose import LooseReader, LooseWriter, kind_of
from brokerproof.reference_broker.openwire.wire.text import decode_text, encode_text

#: Java reads the length of a tight text as a signed short.
TEXT_MAX: Final = 32766


class TightWriter(LooseWriter):
    """Writes the fields of one structure and what is nested in it."""

    __slots__ = ("bits",)

    def __init__(self, version: int, cache: WriteCache | None, traces: bool) -> None:
        super().__init__(version, cache, traces)
        self.bits = BitWriter()

    def flag(self, value: bool) -> None:
        """A boolean."""
        self.bits.put(bool(value))

    def i64(self, value: int) -> None:
        """A long in as few bytes as it needs."""
        short, medium = 0 <= value < 1 << 16, 0 <= value < 1 << 32
        self.bits.put(not short)
        self.bits.put(value != 0 and (short or not medium))
        if value == 0:
            return
        if short:
            self.out.u16(value)
        elif medium:
            self.out.raw(value.to_bytes(4, "big"))
        else:
            self.out.i64(value)

    def text(self, value: str | None) -> None:
        """A text or null."""
        self.bits.put(value is not None)
        if value is None:
            return
        plain = value.isascii() and "\0" not in value
        self.bits.put(plain)
        data = encode_text(value)
        if len(data) > TEXT_MAX:
            raise WireError(f"a text of {len(data)} bytes is too long for the tight encoding; {TEXT_MAX} are possible")
        self.out.u16(len(data))
        self.out.raw(data)

    def nested(self, value: Data | None) -> None:
        """A structure with its type, or null."""
        self.bits.put(value is not None)
        if value is None:
            return
        self.out.byte(value.kind.number)
        if value.kind.family == "message":
            self.bits.put(False)  # "cached form": never
        self.fields(value)


class TightReader(LooseReader):
    """Reads the fields of one structure and what is nested in it."""

    __slots__ = ("_bits",)

    def __init__(self, reader: Reader, version: int, cache: ReadCache | None, traces: bool) -> None:
        super().__init__(reader, version, cache, traces)
        self._bits = BitReader(reader)
        self.line_bytes = 4

    def flag(self) -> bool:
        """A boolean."""
        return self._bits.get()

    def i64(self) -> int:
        """A long."""
        first, second = self._bits.get(), self._bits.get()
        if first:
            return self._reader.i64() if second else int.from_bytes(self._reader.take(4, "a long"), "big")
        return self._reader.u16() if second else 0

    def text(self) -> str | None:
        """A text or null."""
        if not self._bits.get():
            return None
        plain = self._bits.get()
        data = self._reader.take(self._reader.u16(), "a text")
        return data.decode("latin-1") if plain else decode_text(data)

    def nested(self) -> Data | None:
        """A structure or null."""
        if not self._bits.get():
            return None
        kind = kind_of(self._reader.byte(), self._version)
        if kind.family == "message" and self._bits.get():
            raise WireError(f"{kind.name} comes in its cached form, which nobody writes")
        return self.fields(kind)

    def check_elements(self, count: int) -> None:
        """Raise ``WireError`` if an array cannot have so many elements, which may be but bits."""
        if count > 8 * len(self._reader.data):
            raise WireError(f"an array claims {count} elements in a frame of {len(self._reader.data)} bytes")
