"""Commands about connections, sessions, producers, transactions and destinations (openwire.md 8.2)."""

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
    MAGIC,
    OBJECT,
    STR,
    THROWABLE,
    Field,
    Kind,
)

#: The first frame in each direction; the same in all versions, always loose.
WIRE_FORMAT_INFO: Final[Kind] = Kind(
    1,
    "WireFormatInfo",
    Field("magic", MAGIC),
    Field("version", I32),
    Field("marshalledProperties", BYTES),
    family="message",
)
BROKER_INFO: Final = Kind(
    2,
    "BrokerInfo",
    *COMMAND,
    Field("brokerId", CACHED),
    Field("brokerURL", STR),
    Field("peerBrokerInfos", ARRAY),
    Field("brokerName", STR),
    Field("slaveBroker", BOOL),
    Field("masterBroker", BOOL),
    Field("faultTolerantConfiguration", BOOL),
    Field("duplexConnection", BOOL, 2),
    Field("networkConnection", BOOL, 2),
    Field("connectionId", I64, 2),
    Field("brokerUploadUrl", STR, 3),
    Field("networkProperties", STR, 3),
)
CONNECTION_INFO: Final = Kind(
    3,
    "ConnectionInfo",
    *COMMAND,
    Field("connectionId", CACHED),
    Field("clientId", STR),
    Field("password", STR),
    Field("userName", STR),
    Field("brokerPath", ARRAY),
    Field("brokerMasterConnector", BOOL),
    Field("manageable", BOOL),
    Field("clientMaster", BOOL, 2),
    Field("faultTolerant", BOOL, 6),
    Field("failoverReconnect", BOOL, 6),
    Field("clientIp", STR, 8),
)
SESSION_INFO: Final = Kind(4, "SessionInfo", *COMMAND, Field("sessionId", CACHED))
PRODUCER_INFO: Final = Kind(
    6,
    "ProducerInfo",
    *COMMAND,
    Field("producerId", CACHED),
    Field("destination", CACHED),
    Field("brokerPath", ARRAY),
    Field("dispatchAsync", BOOL, 2),
    Field("windowSize", I32, 3),
)
#: ``type``: 0 begin, 1 prepare, 2 commit in one phase, 3 in two, 4 rollback, 5 recover, 6 forget, 7 end.
TRANSACTION_INFO: Final = Kind(
    7, "TransactionInfo", *COMMAND, Field("connectionId", CACHED), Field("transactionId", CACHED), Field("type", I8)
)
#: ``operationType``: 0 add, 1 remove.
DESTINATION_INFO: Final = Kind(
    8,
    "DestinationInfo",
    *COMMAND,
    Field("connectionId", CACHED),
    Field("destination", CACHED),
    Field("operationType", I8),
    Field("timeout", I64),
    Field("brokerPath", ARRAY),
)
#: The misspelling is the protocol's.
REMOVE_SUBSCRIPTION_INFO: Final = Kind(
    9,
    "RemoveSubscriptionInfo",
    *COMMAND,
    Field("connectionId", CACHED),
    Field("subcriptionName", STR),
    Field("clientId", STR),
)
KEEP_ALIVE_INFO: Final = Kind(10, "KeepAliveInfo", *COMMAND)
SHUTDOWN_INFO: Final = Kind(11, "ShutdownInfo", *COMMAND)
REMOVE_INFO: Final = Kind(
    12, "RemoveInfo", *COMMAND, Field("objectId", CACHED), Field("lastDeliveredSequenceId", I64, 5)
)
CONTROL_COMMAND: Final = Kind(14, "ControlCommand", *COMMAND, Field("command", STR))
FLUSH_COMMAND: Final = Kind(15, "FlushCommand", *COMMAND)
CONNECTION_ERROR: Final = Kind(
    16, "ConnectionError", *COMMAND, Field("exception", THROWABLE), Field("connectionId", OBJECT)
)
CONNECTION_CONTROL: Final = Kind(
    18,
    "ConnectionControl",
    *COMMAND,
    Field("close", BOOL),
    Field("exit", BOOL),
    Field("faultTolerant", BOOL),
    Field("resume", BOOL),
    Field("suspend", BOOL),
    Field("connectedBrokers", STR, 6),
    Field("reconnectTo", STR, 6),
    Field("rebalanceConnection", BOOL, 6),
    Field("token", BYTES, 8),
)
PRODUCER_ACK: Final = Kind(19, "ProducerAck", *COMMAND, Field("producerId", OBJECT), Field("size", I32), since=3)

KINDS: Final[tuple[Kind, ...]] = (
    WIRE_FORMAT_INFO,
    BROKER_INFO,
    CONNECTION_INFO,
    SESSION_INFO,
    PRODUCER_INFO,
    TRANSACTION_INFO,
    DESTINATION_INFO,
    REMOVE_SUBSCRIPTION_INFO,
    KEEP_ALIVE_INFO,
    SHUTDOWN_INFO,
    REMOVE_INFO,
    CONTROL_COMMAND,
    FLUSH_COMMAND,
    CONNECTION_ERROR,
    CONNECTION_CONTROL,
    PRODUCER_ACK,
)
