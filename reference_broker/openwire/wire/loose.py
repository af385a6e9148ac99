"""The loose encoding: each field by itself, null flags and booleans as bytes (openwire.md 5.2 to 5.7).

The tight one derives from it: it differs in how flags, longs, texts and nested structures stand in the bytes.
"""

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

#: Type of a field -> the method that writes it, and the one that reads it.
_METHODS: Final[dict[str, str]] = {
    kinds.BOOL: "flag",
    kinds.I8: "i8",
    kinds.I32: "i32",
    kinds.I64: "i64",
    kinds.STR: "text",
    kinds.BYTES: "octets",
    kinds.MAGIC: "magic",
    kinds.OBJECT: "nested",
    kinds.CACHED: "cached",
    kinds.ARRAY: "array",
    kinds.THROWABLE: "throwable",
}


class LooseWriter:
    """Writes the fields of one structure and what is nested in it."""

    __slots__ = ("_cache", "_class", "_traces", "_version", "out")

    def __init__(self, version: int, cache: WriteCache | None, traces: bool) -> None:
        self.out = Writer()
        self._class: type = type(self)
        self._version = version
        self._cache = cache
        self._traces = traces

    def fields(self, data: Data) -> None:
        """All fields of the version, without the type."""
        values = data.values
        for place, write in _plan(self._class, data.kind, self._version):
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
        self.flag(value is not None)
        if value is not None:
            self.out.i32(len(value))
            self.out.raw(value)

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
        self.flag(index == FULL)
        if index == FULL:
            self.out.i16(cache.add(value))
            self.nested(value)
        else:
            self.out.i16(index)

    def array(self, values: list[Data] | None) -> None:
        """Structures, or null."""
        self.flag(values is not None)
        if values is not None:
            self.out.u16(len(values))
            for value in values:
                self.nested(value)

    def throwable(self, value: Throwable | None) -> None:
        """An exception with its causes."""
        self.flag(value is not None)
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

    def magic(self, value: bytes) -> None:
        """The eight bytes of a WireFormatInfo."""
        self.out.raw(value)


class LooseReader:
    """Reads the fields of one structure and what is nested in it."""

    __slots__ = ("_cache", "_class", "_reader", "_traces", "_version", "line_bytes")

    def __init__(self, reader: Reader, version: int, cache: ReadCache | None, traces: bool) -> None:
        self._reader = reader
        self._class: type = type(self)
        #: What a line of a stack trace takes at least.
        self.line_bytes = 7
        self._version = version
        self._cache = cache
        self._traces = traces

    def fields(self, kind: kinds.Kind) -> Data:
        """A structure whose type has been read."""
        self._reader.enter()
        plan = _plan(self._class, kind, self._version)
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
        return self._reader.take(self._reader.i32(), "a byte sequence") if self.flag() else None

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
        if self.flag():
            index = self._reader.i16()
            value = self.nested()
            cache.put(index, value)
            return value
        return cache.get(self._reader.i16())

    def array(self) -> list[Data | None] | None:
        """Structures or null."""
        if not self.flag():
            return None
        count = self._reader.u16()
        self.check_elements(count)
        return [self.nested() for _ in range(count)]

    def check_elements(self, count: int) -> None:
        """Raise ``WireError`` if an array cannot have so many elements."""
        if count > self._reader.left():
            raise WireError(f"an array claims {count} elements in {self._reader.left()} bytes")

    def throwable(self) -> Throwable | None:
        """An exception with its causes, or null."""
        if not self.flag():
            return None
        reader = self._reader
        reader.enter()
        found = Throwable(self.text(), self.text())
        if self._traces:
            count = reader.u16()
            if count * self.line_bytes > reader.left():
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


@cache
def _plan(of: type, kind: kinds.Kind, version: int) -> list[tuple[int, Callable[..., Any]]]:
    """The fields that a version has, in order: their places, and how a writer or a reader of this class treats them."""
    return [(place, getattr(of, _METHODS[field.type])) for place, field in kind.of_version(version)]
