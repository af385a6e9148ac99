"""Primitive maps and lists: message properties, map bodies, the options of a WireFormatInfo (openwire.md 6).

Python values and their tags: ``None`` 0, ``bool`` 1, ``int`` 5 (6 if it needs more than 32 bits), ``float`` 7, ``str``
9 (13 from 8191 UTF-16 units), ``bytes`` 10, ``dict`` 11, ``list`` 12. The types that Python does not tell apart are
written as the wrappers ``Byte``, ``Char``, ``Short``, ``Long``, ``Float``, and read as these, so that what was read is
written again byte for byte (but for the long form of a short text).
"""

from __future__ import annotations

import struct
from typing import Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.openwire.wire.buffers import Reader, Writer
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.text import decode_text, encode_text

_DOUBLE: Final = struct.Struct(">d")
_FLOAT: Final = struct.Struct(">f")
#: From so many UTF-16 units on a text has the long form.
LONG_TEXT: Final = 8191


@mypyc_attr(native_class=False)
class Byte(int):
    """Tag 2: 8 bits."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Char(int):
    """Tag 3: a UTF-16 unit, as its number."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Short(int):
    """Tag 4: 16 bits."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Long(int):
    """Tag 6: 64 bits, also where fewer would do."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Float(float):
    """Tag 8: single precision."""

    __slots__ = ()


Value = object


def encode_map(values: dict[str, Value] | None) -> bytes:
    """A map with its count; None is the null map."""
    writer = Writer()
    _write_map(writer, values)
    return bytes(writer.data)


def decode_map(data: bytes) -> dict[str, Value]:
    """The map in ``data``; the null map is empty. Raises ``WireError``, also for bytes that are left."""
    reader = Reader(data)
    found = _read_map(reader)
    if reader.left():
        raise WireError(f"{reader.left()} bytes are left behind a map of {len(found)} entries")
    return found


def write_value(writer: Writer, value: Value) -> None:
    """A value with its tag."""
    for kind, tag, write in _WRITERS:
        if isinstance(value, kind):
            if tag >= 0:
                writer.byte(tag)
            write(writer, value)
            return
    raise WireError(f"{value!r} ({type(value).__name__}) is no primitive of OpenWire")


def read_value(reader: Reader) -> Value:
    """A value with its tag."""
    tag = reader.byte()
    if tag >= len(_READERS):
        raise WireError(f"tag {tag} is no primitive of OpenWire; 0 to {len(_READERS) - 1} are")
    return _READERS[tag](reader)


# -- writing


def _write_map(writer: Writer, values: dict[str, Value] | None) -> None:
    if values is None:
        writer.i32(-1)
        return
    writer.i32(len(values))
    for key, value in values.items():
        _write_short_text(writer, key)
        write_value(writer, value)


def _write_short_text(writer: Writer, text: str) -> None:
    data = encode_text(text)
    writer.u16(len(data))
    writer.raw(data)


def _null(writer: Writer, value: Value) -> None:
    """Nothing follows the tag."""


def _bool(writer: Writer, value: Value) -> None:
    writer.bool(value is True)


def _i8(writer: Writer, value: Value) -> None:
    writer.i8(_int(value))


def _u16(writer: Writer, value: Value) -> None:
    writer.u16(_int(value))


def _i16(writer: Writer, value: Value) -> None:
    writer.i16(_int(value))


def _i64(writer: Writer, value: Value) -> None:
    writer.i64(_int(value))


def _plain_int(writer: Writer, value: Value) -> None:
    number = _int(value)
    if -(1 << 31) <= number < 1 << 31:
        writer.byte(5)
        writer.i32(number)
    else:
        writer.byte(6)
        writer.i64(number)


def _int(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _single(writer: Writer, value: Value) -> None:
    try:
        writer.raw(_FLOAT.pack(value))
    except OverflowError:
        raise WireError(f"{value!r} does not fit into a float; write it as a double") from None


def _double(writer: Writer, value: Value) -> None:
    writer.raw(_DOUBLE.pack(value))


def _text(writer: Writer, value: Value) -> None:
    text = str(value)
    data = encode_text(text)
    if len(text.encode("utf-16-be", "surrogatepass")) // 2 < LONG_TEXT:
        writer.byte(9)
        writer.u16(len(data))
    else:
        writer.byte(13)
        writer.i32(len(data))
    writer.raw(data)


def _bytes(writer: Writer, value: Value) -> None:
    data = value if isinstance(value, bytes) else b""
    writer.i32(len(data))
    writer.raw(data)


def _map(writer: Writer, value: Value) -> None:
    _write_map(writer, value if isinstance(value, dict) else None)


def _list(writer: Writer, value: Value) -> None:
    items = value if isinstance(value, list) else []
    writer.i32(len(items))
    for item in items:
        write_value(writer, item)


#: (Python type, tag or -1: the writer puts it, writer). The first that fits counts: subclasses stand before int.
_WRITERS: Final = (
    (type(None), 0, _null),
    (bool, 1, _bool),
    (Byte, 2, _i8),
    (Char, 3, _u16),
    (Short, 4, _i16),
    (Long, 6, _i64),
    (int, -1, _plain_int),
    (Float, 8, _single),
    (float, 7, _double),
    (str, -1, _text),
    (bytes, 10, _bytes),
    (dict, 11, _map),
    (list, 12, _list),
)


# -- reading


def _read_map(reader: Reader) -> dict[str, Value]:
    count = reader.i32()
    if count < 0:
        return {}
    # An entry has at least a length and a tag.
    if count * 3 > reader.left():
        raise WireError(f"a map claims {count} entries in {reader.left()} bytes")
    reader.enter()
    found: dict[str, Value] = {}
    for _ in range(count):
        key = decode_text(reader.take(reader.u16(), "a key"))
        found[key] = read_value(reader)
    reader.leave()
    return found


def _read_list(reader: Reader) -> list[Value]:
    count = reader.i32()
    if count < 0 or count > reader.left():
        raise WireError(f"a list claims {count} entries in {reader.left()} bytes")
    reader.enter()
    found = [read_value(reader) for _ in range(count)]
    reader.leave()
    return found


def _read_null(_reader: Reader) -> Value:
    return None


def _read_byte(reader: Reader) -> Value:
    return Byte(reader.i8())


def _read_char(reader: Reader) -> Value:
    return Char(reader.u16())


def _read_short(reader: Reader) -> Value:
    return Short(reader.i16())


def _read_long(reader: Reader) -> Value:
    return Long(reader.i64())


def _read_double(reader: Reader) -> Value:
    return float(_DOUBLE.unpack(reader.take(8, "a double"))[0])


def _read_float(reader: Reader) -> Value:
    return Float(_FLOAT.unpack(reader.take(4, "a float"))[0])


def _read_text(reader: Reader) -> Value:
    return decode_text(reader.take(reader.u16(), "a text"))


def _read_bytes(reader: Reader) -> Value:
    return reader.take(reader.i32(), "a byte array")


def _read_long_text(reader: Reader) -> Value:
    return decode_text(reader.take(reader.i32(), "a long text"))


_READERS: Final = (
    _read_null,
    Reader.bool,
    _read_byte,
    _read_char,
    _read_short,
    Reader.i32,
    _read_long,
    _read_double,
    _read_float,
    _read_text,
    _read_bytes,
    _read_map,
    _read_list,
    _read_long_text,
)
