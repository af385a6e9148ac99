"""Messages: one list of fields for all kinds of body (openwire.md 8.4)."""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.openwire.wire.kinds import (
    ARRAY,
    BOOL,
    BYTES,
    CACHED,
    COMMAND,
    I8,
    I32,
    I64,
    OBJECT,
    STR,
    Field,
    Kind,
)

FIELDS: Final = (
    *COMMAND,
    Field("producerId", CACHED),
    Field("destination", CACHED),
    Field("transactionId", CACHED),
    Field("originalDestination", CACHED),
    Field("messageId", OBJECT),
    Field("originalTransactionId", CACHED),
    Field("groupID", STR),
    Field("groupSequence", I32),
    Field("correlationId", STR),
    Field("persistent", BOOL),
    Field("expiration", I64),
    Field("priority", I8),
    Field("replyTo", OBJECT),
    Field("timestamp", I64),
    Field("type", STR),
    Field("content", BYTES),
    Field("marshalledProperties", BYTES),
    Field("dataStructure", OBJECT),
    Field("targetConsumerId", CACHED),
    Field("compressed", BOOL),
    Field("redeliveryCounter", I32),
    Field("brokerPath", ARRAY),
    Field("arrival", I64),
    Field("userID", STR),
    Field("recievedByDFBridge", BOOL),
    Field("droppable", BOOL, 2),
    Field("cluster", ARRAY, 3),
    Field("brokerInTime", I64, 3),
    Field("brokerOutTime", I64, 3),
    Field("jMSXGroupFirstForConsumer", BOOL, 10),
)
MESSAGE: Final = Kind(23, "ActiveMQMessage", *FIELDS, family="message")
BYTES_MESSAGE: Final = Kind(24, "ActiveMQBytesMessage", *FIELDS, family="message")
MAP_MESSAGE: Final = Kind(25, "ActiveMQMapMessage", *FIELDS, family="message")
OBJECT_MESSAGE: Final = Kind(26, "ActiveMQObjectMessage", *FIELDS, family="message")
STREAM_MESSAGE: Final = Kind(27, "ActiveMQStreamMessage", *FIELDS, family="message")
TEXT_MESSAGE: Final = Kind(28, "ActiveMQTextMessage", *FIELDS, family="message")
BLOB_MESSAGE: Final = Kind(
    29,
    "ActiveMQBlobMessage",
    *FIELDS,
    Field("remoteBlobUrl", STR),
    Field("mimeType", STR),
    Field("deletedByBroker", BOOL),
    family="message",
    since=3,
)

KINDS: Final[tuple[Kind, ...]] = (
    MESSAGE,
    BYTES_MESSAGE,
    MAP_MESSAGE,
    OBJECT_MESSAGE,
    STREAM_MESSAGE,
    TEXT_MESSAGE,
    BLOB_MESSAGE,
)
