"""The loose encoding: each field by itself, null flags and booleans as bytes (openwire.md 5.2 to 5.7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from brokerproof.reference_broker.openwire.wire import kinds
from brokerproof.reference_broker.openwire.wire.buffers import Reader, Writer
from brokerproof.reference_broker.openwire.wire.cache import FULL, ReadCache, WriteCache
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.kinds import Data, Frame, Throwable
from brokerproof.reference_broker.openwire.wire.registry import KINDS
from brokerproof.reference_broker.openwire.wire.text import decode_text, encode_text


class LooseWriter:
    """Writes the fields of one structure and what is nested in it."""

    __slots__ = ("_cache", "_traces", "_version", "out")

    def __init__(self, version: int, cache: WriteCache | None, traces: bool) -> None:
        self.out = Writer()
        self._version = version
        self._cache = cache
        self._traces = traces

    def fields(self, data: Data) -> None:
        """All fields of the version, without the type."""
        values = data.values
        for place, write in writing(data.kind, self._version):
            write(self, values[place])

    def text(self, value: str | None) -> None:
        """A text or null."""
        out = self.out
        out.bool(value is not None)
        if value is not None:
            data = encode_text(value)
            out.u16(len(data))
            out.raw(data)

    def octets(self, value: bytes | None) -> None:
        """Bytes or null."""
        out = self.out
        out.bool(value is not None)
        if value is not None:
            out.i32(len(value))
            out.raw(value)

    def nested(self, value: Data | None) -> None:
        """A structure with its type, or null."""
        self.out.bool(value is not None)
        if value is not None:
            self.out.byte(value.kind.number)
            self.fields(value)

    def cached(self, value: Data | None) -> None:
        """A structure, or the index under which it is known."""
        cache = self._cache
        if cache is None:
            self.nested(value)
            return
        index = cache.find(value)
        self.out.bool(index == FULL)
        if index == FULL:
            self.out.i16(cache.add(value))
            self.nested(value)
        else:
            self.out.i16(index)

    def array(self, values: list[Data] | None) -> None:
        """Structures, or null."""
        self.out.bool(values is not None)
        if values is not None:
            self.out.u16(len(values))
            for value in values:
                self.nested(value)

    def throwable(self, value: Throwable | None) -> None:
        """An exception with its causes."""
        out = self.out
        out.bool(value is not None)
        if value is None:
            return
        self.text(value.type)
        self.text(value.message)
        if self._traces:
            out.u16(len(value.frames))
            for frame in value.frames:
                self.text(frame.type)
                self.text(frame.method)
                self.text(frame.file)
                out.i32(frame.line)
            self.throwable(value.cause)

    # Numbers stand in ``out``; the table wants functions of the writer.

    def flag(self, value: bool) -> None:
        """A boolean."""
        self.out.bool(value)

    def i8(self, value: int) -> None:
        """A byte."""
        self.out.i8(value)

    def i32(self, value: int) -> None:
        """An integer."""
        self.out.i32(value)

    def i64(self, value: int) -> None:
        """A long."""
        self.out.i64(value)

    def raw(self, value: bytes) -> None:
        """Bytes of a fixed count."""
        self.out.raw(value)


class LooseReader:
    """Reads the fields of one structure and what is nested in it."""

    __slots__ = ("_cache", "_reader", "_traces", "_version")

    def __init__(self, reader: Reader, version: int, cache: ReadCache | None, traces: bool) -> None:
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

    def text(self) -> str | None:
        """A text or null."""
        reader = self._reader
        return decode_text(reader.take(reader.u16(), "a text")) if reader.bool() else None

    def octets(self) -> bytes | None:
        """Bytes or null."""
        reader = self._reader
        return reader.take(reader.i32(), "a byte sequence") if reader.bool() else None

    def nested(self) -> Data | None:
        """A structure or null."""
        if not self._reader.bool():
            return None
        return self.fields(kind_of(self._reader.byte(), self._version))

    def cached(self) -> Data | None:
        """A structure, or one that is known."""
        cache = self._cache
        if cache is None:
            return self.nested()
        if self._reader.bool():
            index = self._reader.i16()
            value = self.nested()
            cache.put(index, value)
            return value
        return cache.get(self._reader.i16())

    def array(self) -> list[Data | None] | None:
        """Structures or null."""
        if not self._reader.bool():
            return None
        count = self._reader.u16()
        if count > self._reader.left():
            raise WireError(f"an array claims {count} elements in {self._reader.left()} bytes")
        return [self.nested() for _ in range(count)]

    def throwable(self) -> Throwable | None:
        """An exception with its causes, or null."""
        reader = self._reader
        if not reader.bool():
            return None
        reader.enter()
        found = Throwable(self.text(), self.text())
        if self._traces:
            count = reader.u16()
            if count * 7 > reader.left():
                raise WireError(f"a stack trace claims {count} lines in {reader.left()} bytes")
            found.frames = [Frame(self.text(), self.text(), self.text(), reader.i32()) for _ in range(count)]
            found.cause = self.throwable()
        reader.leave()
        return found

    def flag(self) -> bool:
        """A boolean."""
        return self._reader.bool()

    def i8(self) -> int:
        """A byte."""
        return self._reader.i8()

    def i32(self) -> int:
        """An integer."""
        return self._reader.i32()

    def i64(self) -> int:
        """A long."""
        return self._reader.i64()

    def magic(self) -> bytes:
        """The eight bytes of a WireFormatInfo."""
        return self._reader.take(8, "the magic")


def kind_of(number: int, version: int) -> kinds.Kind:
    """The kind of a type number. Raises ``WireError`` for one that the version does not know."""
    kind = KINDS.get(number)
    if kind is None or kind.since > version:
        raise WireError(f"data type {number} is unknown in version {version}")
    return kind


_WRITE: Final[dict[str, Callable[[LooseWriter, Any], None]]] = {
    kinds.BOOL: LooseWriter.flag,
    kinds.I8: LooseWriter.i8,
    kinds.I32: LooseWriter.i32,
    kinds.I64: LooseWriter.i64,
    kinds.STR: LooseWriter.text,
    kinds.BYTES: LooseWriter.octets,
    kinds.MAGIC: LooseWriter.raw,
    kinds.OBJECT: LooseWriter.nested,
    kinds.CACHED: LooseWriter.cached,
    kinds.ARRAY: LooseWriter.array,
    kinds.THROWABLE: LooseWriter.throwable,
}
_READ: Final[dict[str, Callable[[LooseReader], object]]] = {
    kinds.BOOL: LooseReader.flag,
    kinds.I8: LooseReader.i8,
    kinds.I32: LooseReader.i32,
    kinds.I64: LooseReader.i64,
    kinds.STR: LooseReader.text,
    kinds.BYTES: LooseReader.octets,
    kinds.MAGIC: LooseReader.magic,
    kinds.OBJECT: LooseReader.nested,
    kinds.CACHED: LooseReader.cached,
    kinds.ARRAY: LooseReader.array,
    kinds.THROWABLE: LooseReader.throwable,
}


@cache
def writing(kind: kinds.Kind, version: int) -> list[tuple[int, Callable[[LooseWriter, Any], None]]]:
    """The fields that a version has, in order: their places, and how they are written."""
    return [(place, _WRITE[field.type]) for place, field in kind.of_version(version)]


@cache
def reading(kind: kinds.Kind, version: int) -> list[tuple[int, Callable[[LooseReader], object]]]:
    """The fields that a version has, in order: their places, and how they are read."""
    return [(place, _READ[field.type]) for place, field in kind.of_version(version)]
