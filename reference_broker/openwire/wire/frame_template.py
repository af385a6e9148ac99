"""What tight frames that are alike have in common, to write the next one at once.

Most fields of a message are those of the one before it: a template holds their bytes; integers, longs, texts and bytes
are filled in.

* A template writes what ``tight.py`` writes, byte for byte, or it gives up (None); then ``tight.py`` writes the frame,
  or says what is wrong with it.
* It writes structures that say the same in every field but those: null stays null, a long keeps its length.
* What it holds of the cache is true until the cache gives something up.
* Arrays, exceptions and texts beyond ASCII have no template.
"""

from __future__ import annotations

import struct
from operator import itemgetter
from typing import Any, Final

from brokerproof.reference_broker.openwire.wire import kinds
from brokerproof.reference_broker.openwire.wire.cache import WriteCache
from brokerproof.reference_broker.openwire.wire.kinds import Data, Kind
from brokerproof.reference_broker.openwire.wire.tight import TEXT_MAX, TightWriter

#: From, below, and how it is written: a long by its size.
_LONGS: Final = ((1, 1 << 16, "H"), (1 << 16, 1 << 32, "I"), (1 << 32, 1 << 63, "q"))
#: FrameTemplates that one connection keeps of one type.
_KEPT_MAX: Final = 8
#: After so many structures in a row that no template fits, only one in so many is looked at for another template.
_PATIENCE: Final = 16


class FrameTemplates:
    """Those of one connection, by type; the one that was used last is tried first."""

    __slots__ = ("_forgotten", "_kept", "_learnt", "_misses")

    def __init__(self) -> None:
        self._kept: dict[int, list[FrameTemplate]] = {}
        self._misses = 0
        #: What the cache had given up when they were made, and what it knew before the last command.
        self._forgotten = 0
        self._learnt = 0

    def encode(self, command: Data, cache: WriteCache | None) -> bytes | None:
        """The frame; None: no template fits."""
        if cache is not None:
            self._learnt = cache.learnt
            if cache.forgotten != self._forgotten:
                self._forgotten = cache.forgotten
                self._kept.clear()
        kept = self._kept.get(command.kind.number)
        if kept is None:
            return None
        for place, template in enumerate(kept):
            frame = template.encode(command)
            if frame is not None:
                self._misses = 0
                if place:
                    kept.insert(0, kept.pop(place))
                return frame
        return None

    def learn(self, command: Data, frame: bytes, version: int, cache: WriteCache | None) -> None:
        """No template fitted, and this is what ``tight.py`` wrote. What the cache learnt from comes once only."""
        if cache is not None and cache.learnt != self._learnt:
            return
        self._misses += 1
        if self._misses > _PATIENCE and self._misses % _PATIENCE:
            return
        try:
            template = FrameTemplate(command, frame, version, cache)
        except _NoTemplate:
            return
        kept = self._kept.setdefault(command.kind.number, [])
        kept.insert(0, template)
        del kept[_KEPT_MAX:]


class _NoTemplate(Exception):
    """Something in the structure is not for templates."""


class FrameTemplate:
    """A structure's values stand in a row, and behind them those of the structures in it; then what is not in them."""

    __slots__ = ("_constants", "_fixed_bytes", "_inner", "_longs", "_pieces", "_runs", "_same", "_values")

    def __init__(self, command: Data, frame: bytes, version: int, cache: WriteCache | None) -> None:
        walk = _Walk(version, cache)
        bits_end = 6 + frame[5]
        if frame[5] >= 64:
            raise _NoTemplate
        walk.constant(frame[4:bits_end])
        walk.structure(command, 0, len(command.values))
        self._inner = walk.inner
        self._longs = walk.longs
        self._pieces = walk.pieces
        self._same = itemgetter(*walk.same)
        row = list(command.values)
        for place, _ in self._inner:
            inner = row[place]
            assert isinstance(inner, Data)
            row += inner.values
        self._values = self._same(row)
        self._constants = walk.constants
        # Behind the values: the constants, the lengths of the pieces, the size of the whole.
        ends = (len(row), len(row) + len(walk.constants))
        total = ends[1] + len(walk.pieces)
        places = [[place if kind == _VALUE else ends[kind - 1] + place for _, kind, place in run] for run in walk.runs]
        forms = [">" + "".join(form for form, _, _ in run) for run in walk.runs]
        places[0].insert(0, total)
        forms[0] = ">i" + forms[0][1:]
        self._runs = [(struct.Struct(form).pack, itemgetter(*run)) for form, run in zip(forms, places, strict=True)]
        self._fixed_bytes = sum(map(struct.calcsize, forms)) - 4

    def encode(self, command: Data) -> bytes | None:
        """The frame; None: it does not fit."""
        row = command.values.copy()
        for place, kind in self._inner:
            inner = row[place]
            if not isinstance(inner, Data) or inner.kind is not kind:
                return None
            row += inner.values
        if self._same(row) != self._values:
            return None
        for place, low, high in self._longs:
            value: Any = row[place]
            if not low <= value < high:
                return None
        pieces = [b""]
        size = self._fixed_bytes
        row += self._constants
        for place, is_text in self._pieces:
            piece = _piece(row[place], is_text=is_text)
            if piece is None:
                return None
            size += len(piece)
            row.append(len(piece))
            pieces.append(piece)
        row.append(size)
        frame = []
        try:
            for (pack, take), piece in zip(self._runs, pieces, strict=True):
                frame.append(piece)
                frame.append(pack(*take(row)))
        except struct.error:
            return None
        return b"".join(frame)


def _piece(value: object, *, is_text: bool) -> bytes | None:
    if not is_text:
        return value if isinstance(value, bytes) else None
    if isinstance(value, str) and value.isascii() and len(value) <= TEXT_MAX and "\0" not in value:
        return value.encode("ascii")
    return None


#: What a place in a run counts from.
_VALUE, _CONSTANT, _LENGTH = range(3)


class _Walk:
    """A walk over the values of one structure, in the order in which they are written."""

    __slots__ = ("_cache", "_count", "_version", "constants", "inner", "longs", "pieces", "runs", "same")

    def __init__(self, version: int, cache: WriteCache | None) -> None:
        self._version = version
        self._cache = cache
        self._count = 0
        self.same: list[int] = []
        self.longs: list[tuple[int, int, int]] = []
        self.inner: list[tuple[int, Kind]] = []
        self.pieces: list[tuple[int, bool]] = []
        self.constants: list[bytes] = []
        #: The numbers between two pieces: how they are written, and where they stand in the row.
        self.runs: list[list[tuple[str, int, int]]] = [[]]

    def structure(self, data: Data, start: int, count: int) -> None:
        self._count += count
        for place, field in data.kind.of_version(self._version):
            self._field(field.type, data.values[place], start + place)

    def _field(self, kind: str, value: object, place: int) -> None:
        if kind == kinds.I32:
            self._slot("i", _VALUE, place)
        elif kind == kinds.I64 and value != 0 and isinstance(value, int):
            for low, high, form in _LONGS:
                if low <= value < high:
                    self.longs.append((place, low, high))
                    self._slot(form, _VALUE, place)
                    return
            raise _NoTemplate
        elif kind == kinds.STR and value is not None:
            if _piece(value, is_text=True) is None:
                raise _NoTemplate
            self._piece_slot("H", place, is_text=True)
        elif kind == kinds.BYTES and value is not None:
            self._piece_slot("i", place, is_text=False)
        elif kind == kinds.OBJECT and isinstance(value, Data):
            self.inner.append((place, value.kind))
            self.constant(bytes((value.kind.number,)))
            self.structure(value, self._count, len(value.values))
        else:
            self.same.append(place)
            self._write(kind, value)

    def _write(self, kind: str, value: object) -> None:
        """What stays as it is."""
        writer = TightWriter(self._version, self._cache, traces=False)
        if kind == kinds.I8 and isinstance(value, int):
            writer.out.i8(value)
        elif kind == kinds.CACHED and (value is None or isinstance(value, Data)):
            if self._cache is not None and not self._cache.knows(value):
                raise _NoTemplate
            writer.cached(value)
        elif value is not None and kind not in {kinds.BOOL, kinds.I64}:
            raise _NoTemplate
        self.constant(bytes(writer.out.data))

    def constant(self, data: bytes) -> None:
        if not data:
            return
        run = self.runs[-1]
        if run and run[-1][1] == _CONSTANT:
            run.pop()
            data = self.constants.pop() + data
        self._add_constant(data)

    def _add_constant(self, data: bytes) -> None:
        self.constants.append(data)
        self._slot(f"{len(data)}s", _CONSTANT, len(self.constants) - 1)

    def _slot(self, form: str, kind: int, place: int) -> None:
        self.runs[-1].append((form, kind, place))

    def _piece_slot(self, form: str, place: int, *, is_text: bool) -> None:
        self.pieces.append((place, is_text))
        self._slot(form, _LENGTH, len(self.pieces) - 1)
        self.runs.append([])
        # Two at least: a single place is taken differently.
        self._add_constant(b"")
        self._add_constant(b"")
