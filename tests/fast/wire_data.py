"""Everything that OpenWire can say, from a number: Hypothesis draws the number, because drawing each field of messages
with thirty of them takes longer than the test.
"""

from __future__ import annotations

import random

from hypothesis import strategies as st

from reference_broker.openwire.wire import ids, kinds
from reference_broker.openwire.wire.kinds import Data, Field, Frame, Kind, Throwable
from reference_broker.openwire.wire.primitives import Byte, Char, Float, Long, Short
from reference_broker.openwire.wire.registry import COMMANDS, KINDS

TEXTS = st.sampled_from(["", "a", "\0", "é", "€", "\U0001f600", "\ud83d", "x\0\U0001f600y", "q" * 200]) | st.text(
    max_size=4
)
#: What may stand where a nested structure is wanted: small things, so that frames stay small.
NESTED = [ids.CONNECTION_ID, ids.PRODUCER_ID, ids.CONSUMER_ID, ids.MESSAGE_ID, ids.QUEUE, ids.TEMP_TOPIC]
WORDS = ["", "a", "q", "ID:a-1:1", "\0", "é€", "\U0001f600", "\ud83d", "x\0\U0001f600y", "long " * 50]
TEXTS = st.sampled_from(WORDS) | st.text(max_size=4)
LONGS = [0, 1, -1, 0xFFFF, 0x10000, 0xFFFFFFFF, 1 << 32, 2**63 - 1, -(2**63)]


class Maker:
    """Makes structures; the same ones for the same seed."""

    def __init__(self, seed: int, version: int, *, traces: bool = True, words: list[str] | None = None) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secrets here
        self.version = version
        self.traces = traces
        self.words = words if words is not None else WORDS

    def command(self) -> Data:
        """Anything that can be a frame."""
        return self.data(KINDS[self.random.choice(sorted(COMMANDS))], 2)

    def data(self, kind: Kind, depth: int) -> Data:
        """A structure; a field that the version lacks has its default."""
        return Data(kind, [self.value(f, depth) if f.since <= self.version else f.default for f in kind.fields])

    def value(self, field: Field, depth: int) -> object:
        draw = self.random
        if field.type == kinds.BOOL:
            return draw.random() < 0.5
        if field.type == kinds.I8:
            return draw.randint(-128, 127)
        if field.type == kinds.I32:
            return draw.choice([0, 1, -1, draw.randint(-(2**31), 2**31 - 1)])
        if field.type == kinds.I64:
            return draw.choice([*LONGS, draw.randint(-(2**63), 2**63 - 1)])
        if field.type == kinds.MAGIC:
            return b"ActiveMQ"
        if draw.random() < 0.3:
            return None
        if field.type == kinds.STR:
            return draw.choice(self.words)
        if field.type == kinds.BYTES:
            return draw.randbytes(draw.randint(0, 20))
        if field.type == kinds.ARRAY:
            return [self.nested(depth) for _ in range(draw.randint(0, 2))]
        if field.type == kinds.THROWABLE:
            return self.throwable(2)
        return self.nested(depth)

    def nested(self, depth: int) -> Data | None:
        return self.data(self.random.choice(NESTED), depth - 1) if depth else None

    def throwable(self, depth: int) -> Throwable:
        made = Throwable("java.lang.Exception", self.random.choice([None, *self.words]))
        if self.traces:
            line = Frame("C", "m", self.random.choice([None, "C.java"]), self.random.randint(-1, 99))
            made.frames = [line] * self.random.randint(0, 2)
            made.cause = self.throwable(depth - 1) if depth and self.random.random() < 0.5 else None
        return made


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from(LONGS).map(Long),
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(0, 0xFFFF).map(Char),
    st.floats(width=32, allow_nan=False).map(Float),
    st.floats(allow_nan=False),
    TEXTS,
    st.binary(max_size=9),
)
PRIMITIVES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)
MAPS = st.dictionaries(TEXTS, PRIMITIVES, max_size=4)
