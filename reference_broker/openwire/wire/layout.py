"""How a tight frame lies, to read the next one of its kind at once.

The booleans in front of a tight frame say what is null, how long each long is, and what is known to the cache. So two
frames with the same type and booleans have the same numbers at the same places, but for the lengths of their texts and
bytes. So what ``tight.py`` has read once is surveyed, and the next one like it is read in a few calls.

* A layout reads what ``tight.py`` reads, or it gives up (None); then ``tight.py`` reads the frame, or says what is
  wrong with it. So it needs no errors of its own, and no checks beyond those that keep it inside the frame.
* The types of nested structures are data, not booleans: they are compared.
* What fills the cache, arrays and exceptions have no layout.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

from brokerproof.reference_broker.openwire.wire import kinds
from brokerproof.reference_broker.openwire.wire.buffers import BitReader, Reader
from brokerproof.reference_broker.openwire.wire.cache import ReadCache
from brokerproof.reference_broker.openwire.wire.kinds import Data, Kind
from brokerproof.reference_broker.openwire.wire.loose import kind_of
from brokerproof.reference_broker.openwire.wire.text import decode_text

#: A count of booleans from here on takes more than a byte.
LONG_COUNT: Final = 64
#: What stands in no frame, at these places of every frame's row.
_CONSTANTS: Final[list[object]] = [None, False, True, 0]
_NULL, _FALSE, _TRUE, _ZERO = range(4)


def _octets(data: bytes) -> object:
    return data


def _plain_text(data: bytes) -> object:
    return data.decode("latin-1")


class Layout:
    """Frames of one type with the same booleans.

    A frame's numbers, texts and bytes are put in a row, behind the constants; a structure takes its values from there
    and joins the row, those inside it before itself.
    """

    __slots__ = ("_cached", "_runs", "_start", "_structures", "_types")

    def __init__(self, survey: _Survey, top: int) -> None:
        self._start = survey.start
        #: Numbers in a row, their size, and how the text or bytes behind them, which the last one counts, are read.
        self._runs = [
            (run := struct.Struct(">" + form), run.size, convert)
            for form, convert in [*survey.runs, (survey.form, None)]
        ]
        self._types = survey.types
        self._cached = survey.cached
        end = survey.count
        self._structures = [
            (kind, _taker([end + ~place if place < 0 else place for place in places]))
            for kind, places in survey.structures
        ]
        assert top == ~(len(self._structures) - 1), "the whole comes last"

    def read(self, frame: bytes, cache: ReadCache | None) -> Data | None:
        """The command; None: the frame is another one after all."""
        position = self._start
        row = _CONSTANTS.copy()
        try:
            for run, size, convert in self._runs:
                numbers = run.unpack_from(frame, position)
                position += size
                row += numbers
                if convert is not None:
                    end = position + numbers[-1]
                    if not position <= end <= len(frame):
                        return None
                    row.append(convert(frame[position:end]))
                    position = end
            if position != len(frame):
                return None
            for place, number in self._types:
                if row[place] != number:
                    return None
            if cache is not None:
                cache.resolve(row, self._cached)
        except (struct.error, ValueError, IndexError):
            return None
        for kind, take in self._structures:
            row.append(Data(kind, list(take(row))))
        found = row[-1]
        return found if isinstance(found, Data) else None


def survey(frame: bytes, version: int, *, caches: bool) -> Layout | None:
    """The layout of a frame that ``tight.py`` has read; None: it has none."""
    found = _Survey(frame, version, caches)
    try:
        top = found.structure(kind_of(frame[0], version))
    except _NoLayout:
        return None
    return Layout(found, top)


def _taker(places: list[int]) -> Callable[[list[object]], Any]:
    if len(places) == 1:
        return itemgetter(slice(places[0], places[0] + 1))
    return itemgetter(*places)


class _NoLayout(Exception):
    """Something in the frame does not follow from its booleans."""


class _Survey:
    """A walk over the fields of one frame. A place below 0 is that of a structure: ``~n`` is the n-th one."""

    __slots__ = ("_bits", "_caches", "_reader", "_version", "cached", "count", "form", "runs", "start",
                 "structures", "types")  # fmt: skip

    def __init__(self, frame: bytes, version: int, caches: bool) -> None:
        self._reader = Reader(frame, 1)
        self._bits = BitReader(self._reader)
        self._version = version
        self._caches = caches
        self.start = self._reader.position
        self.count = len(_CONSTANTS)
        self.form = ""
        self.runs: list[tuple[str, Callable[[bytes], object]]] = []
        self.types: list[tuple[int, int]] = []
        self.cached: list[int] = []
        self.structures: list[tuple[Kind, list[int]]] = []

    def structure(self, kind: Kind) -> int:
        places = [_default(field.type) for field in kind.fields]
        for place, field in kind.of_version(self._version):
            places[place] = self._field(field.type)
        self.structures.append((kind, places))
        return ~(len(self.structures) - 1)

    def _field(self, kind: str) -> int:
        bits = self._bits
        if kind == kinds.BOOL:
            return _TRUE if bits.get() else _FALSE
        if kind in _FORMS:
            return self._number(_FORMS[kind])
        if kind == kinds.I64:
            first, second = bits.get(), bits.get()
            if first:
                return self._number("q" if second else "I")
            return self._number("H") if second else _ZERO
        if kind == kinds.CACHED and self._caches:
            if bits.get():
                raise _NoLayout
            self.cached.append(self.count)
            return self._number("H")
        if not bits.get():
            return _NULL
        if kind == kinds.STR:
            return self._piece("H", _plain_text if bits.get() else decode_text)
        if kind == kinds.BYTES:
            return self._piece("i", _octets)
        if kind in {kinds.OBJECT, kinds.CACHED}:
            return self._nested()
        raise _NoLayout

    def _nested(self) -> int:
        number = self._reader.data[self._reader.position]
        self.types.append((self._number("B"), number))
        kind = kind_of(number, self._version)
        if kind.family == "message":
            self._bits.get()
        return self.structure(kind)

    def _number(self, form: str) -> int:
        self._reader.position += struct.calcsize(">" + form)
        self.form += form
        self.count += 1
        return self.count - 1

    def _piece(self, form: str, convert: Callable[[bytes], object]) -> int:
        reader = self._reader
        start = reader.position
        self._number(form)
        reader.position += int.from_bytes(reader.data[start : reader.position], "big")
        self.runs.append((self.form, convert))
        self.form = ""
        self.count += 1
        return self.count - 1


#: The fields that are numbers wherever they stand.
_FORMS: Final = {kinds.I8: "b", kinds.I32: "i"}


def _default(kind: str) -> int:
    """What a field says that the version does not have."""
    if kind == kinds.BOOL:
        return _FALSE
    if kind == kinds.MAGIC:
        raise _NoLayout
    return _ZERO if kind in {kinds.I8, kinds.I32, kinds.I64} else _NULL
