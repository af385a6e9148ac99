"""What a data structure of OpenWire is: a number, a name, and its fields in order, each with its type and the version
that brought it.

The tables (``ids.py``, ``connections.py``, ``consumption.py``, ``messages.py``, ``responses.py``) are lists of these;
both directions and both encodings follow from them. A structure on its way is a ``Data``.
"""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.openwire.wire.errors import WireError

VERSION_MAX: Final = 12

# Field types. What stands behind a colon in the tables is for readers: on the wire any structure may come.
BOOL: Final = "bool"
I8: Final = "i8"
I32: Final = "i32"
I64: Final = "i64"
STR: Final = "str"
BYTES: Final = "bytes"
MAGIC: Final = "magic"
OBJECT: Final = "obj"
CACHED: Final = "cobj"
ARRAY: Final = "arr"
THROWABLE: Final = "thr"

#: What a field has that the version does not know, and a new structure that is told nothing.
_DEFAULTS: Final[dict[str, object]] = {
    BOOL: False,
    I8: 0,
    I32: 0,
    I64: 0,
    STR: None,
    BYTES: None,
    MAGIC: b"ActiveMQ",
    OBJECT: None,
    CACHED: None,
    ARRAY: None,
    THROWABLE: None,
}


class Field:
    """One field: ``since`` is the first version that has it on the wire."""

    __slots__ = ("default", "name", "since", "type")

    def __init__(self, name: str, kind: str, since: int = 1) -> None:
        self.name = name
        self.type = kind
        self.since = since
        self.default = _DEFAULTS[kind]


#: Every command begins with these.
COMMAND: Final = (Field("commandId", I32), Field("responseRequired", BOOL))
RESPONSE: Final = (*COMMAND, Field("correlationId", I32))


class Kind:
    """One data structure. ``family`` "message" marks those that have the bit of the cached form in tight encoding;
    ``since`` is the first version that knows it.
    """

    __slots__ = ("_defaults", "_of_version", "family", "fields", "index", "name", "number", "since")

    def __init__(self, number: int, name: str, *fields: Field, family: str = "", since: int = 1) -> None:
        self.number = number
        self.name = name
        self.fields = fields
        self.family = family
        self.since = since
        #: Field name -> its place among the values.
        self.index = {field.name: place for place, field in enumerate(fields)}
        self._defaults = [field.default for field in fields]
        self._of_version: dict[int, list[tuple[int, Field]]] = {}

    def of_version(self, version: int) -> list[tuple[int, Field]]:
        """(place, field) of the fields that a version has, in order."""
        found = self._of_version.get(version)
        if found is None:
            found = [(place, field) for place, field in enumerate(self.fields) if field.since <= version]
            self._of_version[version] = found
        return found

    def make(self, **values: object) -> Data:
        """A structure with these values and defaults for the rest. Raises ``WireError`` for a field that it lacks."""
        made = Data(self, self._defaults.copy())
        for name, value in values.items():
            made[name] = value
        return made

    def __repr__(self) -> str:
        return f"Kind({self.number}, {self.name!r})"


class Data:
    """One structure: its kind and its values, in the order of the kind's fields."""

    __slots__ = ("kind", "text", "values")

    def __init__(self, kind: Kind, values: list[object]) -> None:
        self.kind = kind
        self.values = values
        #: What a translation has made of an identifier or destination, which comes again and again from the cache.
        self.text: str | None = None

    def __getitem__(self, name: str) -> object:
        place = self.kind.index.get(name)
        return self.values[place if place is not None else self._place(name)]

    def __setitem__(self, name: str, value: object) -> None:
        self.values[self._place(name)] = value
        self.text = None

    def _place(self, name: str) -> int:
        place = self.kind.index.get(name)
        if place is None:
            raise WireError(f"{self.kind.name} has no field {name!r}; it has {', '.join(self.kind.index)}")
        return place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Data) and self.kind is other.kind and self.values == other.values

    def __hash__(self) -> int:
        return hash((self.kind.number, tuple(map(_hashable, self.values))))

    def __repr__(self) -> str:
        pairs = zip(self.kind.fields, self.values, strict=True)
        shown = [f"{field.name}={value!r}" for field, value in pairs if value != field.default]
        return f"{self.kind.name}({', '.join(shown)})"


class Frame:
    """One line of a stack trace."""

    __slots__ = ("file", "line", "method", "type")

    def __init__(self, kind: str | None, method: str | None, file: str | None, line: int) -> None:
        self.type = kind
        self.method = method
        self.file = file
        self.line = line

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def _all(self) -> tuple[object, ...]:
        return self.type, self.method, self.file, self.line


class Throwable:
    """A Java exception as it travels: class, message, and, where that was negotiated, stack trace and cause."""

    __slots__ = ("cause", "frames", "message", "type")

    def __init__(
        self, kind: str | None, message: str | None, frames: list[Frame] | None = None, cause: Throwable | None = None
    ) -> None:
        self.type = kind
        self.message = message
        self.frames = frames if frames is not None else []
        self.cause = cause

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Throwable) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash((self.type, self.message))

    def __repr__(self) -> str:
        return f"Throwable({self.type!r}, {self.message!r})"

    def _all(self) -> tuple[object, ...]:
        return self.type, self.message, self.frames, self.cause


def _hashable(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
