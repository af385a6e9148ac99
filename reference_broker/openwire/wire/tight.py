"""The tight encoding: all booleans and null flags in a bit stream in front, longs shortened (openwire.md 5.8).

Bits and data are written in one walk over the fields, because both follow the same order; only at the end do they take
their places.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from brokerproof.reference_broker.openwire.wire import kinds
from brokerproof.reference_broker.openwire.wire.buffers import BitReader, BitWriter, Reader, Writer
from brokerproof.reference_broker.openwire.wire.cache import FULL, ReadCache, WriteCache
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.kinds import Data, Frame, Throwable
from brokerproof.reference_broker.openwire.wire.loose import kind_of
from brokerproof.reference_broker.openwire.wire.text import decode_text, encode_text

#: Java reads the length of a tight text as a signed short.
TEXT_MAX: Final = 32766


class TightWriter:
    """Writes the fields of one structure and what is nested in it."""

    __slots__ = ("_cache", "_traces", "_version", "bits", "out")

    def __init__(self, version: int, cache: WriteCache | None, traces: bool) -> None:
        self.bits = BitWriter()
        self.out = Writer()
        self._version = version
        self._cache = cache
        self._traces = traces

    def fields(self, data: Data) -> None:
        """All fields of the version, without the type."""
        values = data.values
        for place, write in writing(data.kind, self._version):
            write(self, values[place])

    def flag(self, value: bool) -> None:
        """A boolean."""
        self.bits.put(bool(value))

    def i8(self, value: int) -> None:
        """A byte."""
        self.out.i8(value)

    def i32(self, value: int) -> None:
        """An integer."""
        self.out.i32(value)

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

    def octets(self, value: bytes | None) -> None:
        """Bytes or null."""
        self.bits.put(value is not None)
        if value is not None:
            self.out.i32(len(value))
            self.out.raw(value)

    def raw(self, value: bytes) -> None:
        """Bytes of a fixed count."""
        self.out.raw(value)

    def nested(self, value: Data | None) -> None:
        """A structure with its type, or null."""
        self.bits.put(value is not None)
        if value is None:
            return
        self.out.byte(value.kind.number)
        if value.kind.family == "message":
            self.bits.put(False)  # "cached form": never
        self.fields(value)

    def cached(self, value: Data | None) -> None:
        """A structure, or the index under which it is known."""
        cache = self._cache
        if cache is None:
            self.nested(value)
            return
        index = cache.find(value)
        self.bits.put(index == FULL)
        if index == FULL:
            self.out.i16(cache.add(value))
            self.nested(value)
        else:
            self.out.i16(index)

    def array(self, values: list[Data] | None) -> None:
        """Structures, or null."""
        self.bits.put(values is not None)
        if values is not None:
            self.out.u16(len(values))
            for value in values:
                self.nested(value)

    def throwable(self, value: Throwable | None) -> None:
        """An exception with its causes."""
        self.bits.put(value is not None)
        if value is None:
            return
        self.text(value.type)
        self.text(value.message)
        if self._traces:
            self.out.u16(len(value.frames))
            for frame in value.frames:
                self.text(frame.type)
                self.text(frame.method)
                self.text(frame.file)
                self.out.i32(frame.line)
            self.throwable(value.cause)


class TightReader:
    """Reads the fields of one structure and what is nested in it."""

    __slots__ = ("_bits", "_cache", "_reader", "_traces", "_version")

    def __init__(self, reader: Reader, version: int, cache: ReadCache | None, traces: bool) -> None:
        self._bits = BitReader(reader)
        self._reader = reader
        self._version = version
        self._cache = cache
        self._traces = traces

    def fields(self, kind: kinds.Kind) -> Data:
        """A structure whose type has been read."""
        self._reader.enter()
        plan = reading(kind, self._version)
        if len(plan) == len(kind.fields):
            values = [read(self) for _, read in plan]
        else:
            values = [field.default for field in kind.fields]
            for place, read in plan:
                values[place] = read(self)
        self._reader.leave()
        return Data(kind, values)

    def flag(self) -> bool:
        """A boolean."""
        return self._bits.get()

    def i8(self) -> int:
        """A byte."""
        return self._reader.i8()

    def i32(self) -> int:
        """An integer."""
        return self._reader.i32()

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

    def octets(self) -> bytes | None:
        """Bytes or null."""
        return self._reader.take(self._reader.i32(), "a byte sequence") if self._bits.get() else None

    def magic(self) -> bytes:
        """The eight bytes of a WireFormatInfo."""
        return self._reader.take(8, "the magic")

    def nested(self) -> Data | None:
        """A structure or null."""
        if not self._bits.get():
            return None
        kind = kind_of(self._reader.byte(), self._version)
        if kind.family == "message" and self._bits.get():
            raise WireError(f"{kind.name} comes in its cached form, which nobody writes")
        return self.fields(kind)

    def cached(self) -> Data | None:
        """A structure, or one that is known."""
        cache = self._cache
        if cache is None:
            return self.nested()
        if self._bits.get():
            index = self._reader.i16()
            value = self.nested()
            cache.put(index, value)
            return value
        return cache.get(self._reader.i16())

    def array(self) -> list[Data | None] | None:
        """Structures or null."""
        if not self._bits.get():
            return None
        count = self._reader.u16()
        if count > 8 * len(self._reader.data):
            raise WireError(f"an array claims {count} elements in a frame of {len(self._reader.data)} bytes")
        return [self.nested() for _ in range(count)]

    def throwable(self) -> Throwable | None:
        """An exception with its causes, or null."""
        if not self._bits.get():
            return None
        reader = self._reader
        reader.enter()
        found = Throwable(self.text(), self.text())
        if self._traces:
            count = reader.u16()
            if count * 4 > reader.left():
                raise WireError(f"a stack trace claims {count} lines in {reader.left()} bytes")
            found.frames = [Frame(self.text(), self.text(), self.text(), reader.i32()) for _ in range(count)]
            found.cause = self.throwable()
        reader.leave()
        return found


_WRITE: Final[dict[str, Callable[[TightWriter, Any], None]]] = {
    kinds.BOOL: TightWriter.flag,
    kinds.I8: TightWriter.i8,
    kinds.I32: TightWriter.i32,
    kinds.I64: TightWriter.i64,
    kinds.STR: TightWriter.text,
    kinds.BYTES: TightWriter.octets,
    kinds.MAGIC: TightWriter.raw,
    kinds.OBJECT: TightWriter.nested,
    kinds.CACHED: TightWriter.cached,
    kinds.ARRAY: TightWriter.array,
    kinds.THROWABLE: TightWriter.throwable,
}
_READ: Final[dict[str, Callable[[TightReader], object]]] = {
    kinds.BOOL: TightReader.flag,
    kinds.I8: TightReader.i8,
    kinds.I32: TightReader.i32,
    kinds.I64: TightReader.i64,
    kinds.STR: TightReader.text,
    kinds.BYTES: TightReader.octets,
    kinds.MAGIC: TightReader.magic,
    kinds.OBJECT: TightReader.nested,
    kinds.CACHED: TightReader.cached,
    kinds.ARRAY: TightReader.array,
    kinds.THROWABLE: TightReader.throwable,
}


@cache
def writing(kind: kinds.Kind, version: int) -> list[tuple[int, Callable[[TightWriter, Any], None]]]:
    """The fields that a version has, in order: their places, and how they are written."""
    return [(place, _WRITE[field.type]) for place, field in kind.of_version(version)]


@cache
def reading(kind: kinds.Kind, version: int) -> list[tuple[int, Callable[[TightReader], object]]]:
    """The fields that a version has, in order: their places, and how they are read."""
    return [(place, _READ[field.type]) for place, field in kind.of_version(version)]
