"""Everything that OpenWire can say, from a number: Hypothesis draws the number, because drawing each field of messages
with thirty of them takes longer than the test.
"""

from __future__ import annotations

import random

from hypothesis import strategies as st

from brokerproof.reference_broker.openwire.wire import connections, consumption, ids, kinds, messages
from brokerproof.reference_broker.openwire.wire.kinds import Data, Field, Frame, Kind, Throwable
from brokerproof.reference_broker.openwire.wire.primitives import Byte, Char, Float, Long, Short
from brokerproof.reference_broker.openwire.wire.registry import COMMANDS, KINDS

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

    def __init__(self, seed: int, version: int, *, traces: bool = True) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secrets here
        self.version = version
        self.traces = traces
        self.words = WORDS
        #: Of exceptions.
        self.messages: list[str | None] = [None, *WORDS]

    def command(self) -> Data:
        """Anything that can be a frame."""
        known = [KINDS[number] for number in sorted(COMMANDS)]
        return self.data(self.random.choice([kind for kind in known if kind.since <= self.version]), 2)

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
        made = Throwable("java.lang.Exception", self.random.choice(self.messages))
        if self.traces:
            line = Frame("C", "m", self.random.choice([None, "C.java"]), self.random.randint(-1, 99))
            made.frames = [line] * self.random.randint(0, 2)
            made.cause = self.throwable(depth - 1) if depth and self.random.random() < 0.5 else None
        return made


#: Which kinds Java's classes take in which field.
DESTINATIONS = [ids.QUEUE, ids.TOPIC, ids.TEMP_QUEUE, ids.TEMP_TOPIC]
JAVA_TYPES: dict[str, list[Kind]] = {
    "brokerId": [ids.BROKER_ID],
    "brokerPath": [ids.BROKER_ID],
    "cluster": [ids.BROKER_ID],
    "connectionId": [ids.CONNECTION_ID],
    "consumerId": [ids.CONSUMER_ID],
    "networkConsumerPath": [ids.CONSUMER_ID],
    "targetConsumerId": [ids.CONSUMER_ID],
    "sessionId": [ids.SESSION_ID],
    "producerId": [ids.PRODUCER_ID],
    "messageId": [ids.MESSAGE_ID],
    "firstMessageId": [ids.MESSAGE_ID],
    "lastMessageId": [ids.MESSAGE_ID],
    "transactionId": [ids.LOCAL_TRANSACTION_ID, ids.XA_TRANSACTION_ID],
    "originalTransactionId": [ids.LOCAL_TRANSACTION_ID, ids.XA_TRANSACTION_ID],
    "destination": DESTINATIONS,
    "originalDestination": DESTINATIONS,
    "replyTo": DESTINATIONS,
    "objectId": [ids.CONNECTION_ID, ids.SESSION_ID, ids.CONSUMER_ID, ids.PRODUCER_ID],
    "message": [messages.TEXT_MESSAGE, messages.MAP_MESSAGE],
    "dataStructure": [connections.CONNECTION_INFO, ids.MESSAGE_ID],
    "data": [ids.XA_TRANSACTION_ID, consumption.SUBSCRIPTION_INFO],
    "peerBrokerInfos": [connections.BROKER_INFO],
}


class JavaMaker(Maker):
    """Only what Java's command classes can hold: a value of the right kind in each place, names that stay as they are,
    priorities from 0 to 9.
    """

    def __init__(self, seed: int, version: int, *, traces: bool = True) -> None:
        super().__init__(seed, version, traces=traces)
        self.messages = [*WORDS]  # null is more than its writer can take

    def data(self, kind: Kind, depth: int) -> Data:
        made = super().data(kind, depth)
        if kind is ids.LOCAL_TRANSACTION_ID:  # in a cache it is looked up by all its parts
            made["connectionId"] = ids.CONNECTION_ID.make(value="ID:a-1:1")
        elif kind is ids.MESSAGE_ID:
            made["producerId"] = ids.PRODUCER_ID.make(connectionId="ID:a-1:1", value=1)
        elif kind is ids.XA_TRANSACTION_ID:
            made["globalTransactionId"], made["branchQualifier"] = b"g", b"b"
        elif kind is consumption.SUBSCRIPTION_INFO and self.version >= 3:  # Java puts one for the other
            made["subscribedDestination"] = made["destination"]
        elif kind is consumption.CONSUMER_INFO and made["networkConsumerPath"] == []:  # none and null are one to it
            made["networkConsumerPath"] = None
        elif kind is messages.BLOB_MESSAGE:  # it has a default of its own
            made["mimeType"] = "text/plain"
        return made

    def value(self, field: Field, depth: int) -> object:
        if field.name == "physicalName":
            return self.random.choice(["q", "A.b", "ID:a-1:1:1"])
        if field.name == "priority":
            return self.random.randint(0, 9)
        if field.name == "marshalledProperties":
            return None
        if field.type == kinds.STR and field.name in ("value", "connectionId"):
            return self.random.choice(["ID:a-1:1", "x", "é"])
        if field.name in JAVA_TYPES and field.type in (kinds.OBJECT, kinds.CACHED):
            absent = depth <= 0 or self.random.random() < 0.3
            return None if absent else self.data(self.random.choice(JAVA_TYPES[field.name]), depth - 1)
        if field.type == kinds.ARRAY:
            if depth <= 0 or self.random.random() < 0.3:
                return None
            kind = self.random.choice(JAVA_TYPES[field.name])
            return [self.data(kind, depth - 1) for _ in range(self.random.randint(0, 2))]
        if field.type in (kinds.OBJECT, kinds.CACHED):
            return None
        return super().value(field, depth)


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
