"""Identifiers and destinations (openwire.md 8.1). They have no command fields."""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.openwire.wire.kinds import BYTES, CACHED, I32, I64, STR, Field, Kind

CONNECTION_ID: Final = Kind(120, "ConnectionId", Field("value", STR))
SESSION_ID: Final = Kind(121, "SessionId", Field("connectionId", STR), Field("value", I64))
CONSUMER_ID: Final = Kind(122, "ConsumerId", Field("connectionId", STR), Field("sessionId", I64), Field("value", I64))
#: Mind the order: the producer's number comes before the session's.
PRODUCER_ID: Final = Kind(123, "ProducerId", Field("connectionId", STR), Field("value", I64), Field("sessionId", I64))
BROKER_ID: Final = Kind(124, "BrokerId", Field("value", STR))
MESSAGE_ID: Final = Kind(
    110,
    "MessageId",
    Field("textView", STR, 10),
    Field("producerId", CACHED),
    Field("producerSequenceId", I64),
    Field("brokerSequenceId", I64),
)
LOCAL_TRANSACTION_ID: Final = Kind(111, "LocalTransactionId", Field("value", I64), Field("connectionId", CACHED))
XA_TRANSACTION_ID: Final = Kind(
    112,
    "XATransactionId",
    Field("formatId", I32),
    Field("globalTransactionId", BYTES),
    Field("branchQualifier", BYTES),
)
QUEUE: Final = Kind(100, "ActiveMQQueue", Field("physicalName", STR))
TOPIC: Final = Kind(101, "ActiveMQTopic", Field("physicalName", STR))
TEMP_QUEUE: Final = Kind(102, "ActiveMQTempQueue", Field("physicalName", STR))
TEMP_TOPIC: Final = Kind(103, "ActiveMQTempTopic", Field("physicalName", STR))

KINDS: Final[tuple[Kind, ...]] = (
    CONNECTION_ID,
    SESSION_ID,
    CONSUMER_ID,
    PRODUCER_ID,
    BROKER_ID,
    MESSAGE_ID,
    LOCAL_TRANSACTION_ID,
    XA_TRANSACTION_ID,
    QUEUE,
    TOPIC,
    TEMP_QUEUE,
    TEMP_TOPIC,
)
