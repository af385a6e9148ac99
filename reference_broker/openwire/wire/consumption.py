"""Commands about consumers, dispatch and acknowledgement (openwire.md 8.2)."""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.openwire.wire.kinds import (
    ARRAY,
    BOOL,
    CACHED,
    COMMAND,
    I8,
    I32,
    I64,
    OBJECT,
    STR,
    THROWABLE,
    Field,
    Kind,
)

CONSUMER_INFO: Final = Kind(
    5,
    "ConsumerInfo",
    *COMMAND,
    Field("consumerId", CACHED),
    Field("browser", BOOL),
    Field("destination", CACHED),
    Field("prefetchSize", I32),
    Field("maximumPendingMessageLimit", I32),
    Field("dispatchAsync", BOOL),
    Field("selector", STR),
    Field("clientId", STR, 10),
    Field("subscriptionName", STR),
    Field("noLocal", BOOL),
    Field("exclusive", BOOL),
    Field("retroactive", BOOL),
    Field("priority", I8),
    Field("brokerPath", ARRAY),
    Field("additionalPredicate", OBJECT),
    Field("networkSubscription", BOOL),
    Field("optimizedAcknowledge", BOOL),
    Field("noRangeAcks", BOOL),
    Field("networkConsumerPath", ARRAY, 4),
)
CONSUMER_CONTROL: Final = Kind(
    17,
    "ConsumerControl",
    *COMMAND,
    Field("destination", OBJECT, 6),
    Field("close", BOOL),
    Field("consumerId", OBJECT),
    Field("prefetch", I32),
    Field("flush", BOOL, 2),
    Field("start", BOOL, 2),
    Field("stop", BOOL, 2),
)
MESSAGE_PULL: Final = Kind(
    20,
    "MessagePull",
    *COMMAND,
    Field("consumerId", CACHED),
    Field("destination", CACHED),
    Field("timeout", I64),
    Field("correlationId", STR, 3),
    Field("messageId", OBJECT, 3),
    since=2,
)
MESSAGE_DISPATCH: Final = Kind(
    21,
    "MessageDispatch",
    *COMMAND,
    Field("consumerId", CACHED),
    Field("destination", CACHED),
    Field("message", OBJECT),
    Field("redeliveryCounter", I32),
)
MESSAGE_ACK: Final = Kind(
    22,
    "MessageAck",
    *COMMAND,
    Field("destination", CACHED),
    Field("transactionId", CACHED),
    Field("consumerId", CACHED),
    Field("ackType", I8),
    Field("firstMessageId", OBJECT),
    Field("lastMessageId", OBJECT),
    Field("messageCount", I32),
    Field("poisonCause", THROWABLE, 7),
)
MESSAGE_DISPATCH_NOTIFICATION: Final = Kind(
    90,
    "MessageDispatchNotification",
    *COMMAND,
    Field("consumerId", CACHED),
    Field("destination", CACHED),
    Field("deliverySequenceId", I64),
    Field("messageId", OBJECT),
)
#: No command: what a bridge's consumer refuses. Before version 10 its fields stood in another order.
NETWORK_BRIDGE_FILTER: Final = Kind(
    91,
    "NetworkBridgeFilter",
    Field("networkBrokerId", CACHED),
    Field("messageTTL", I32),
    Field("consumerTTL", I32),
    since=10,
)
#: No command: what a durable subscription is.
SUBSCRIPTION_INFO: Final = Kind(
    55,
    "SubscriptionInfo",
    Field("clientId", STR),
    Field("destination", CACHED),
    Field("selector", STR),
    Field("subcriptionName", STR),
    Field("subscribedDestination", OBJECT, 3),
    Field("noLocal", BOOL, 11),
)

KINDS: Final[tuple[Kind, ...]] = (
    CONSUMER_INFO,
    CONSUMER_CONTROL,
    MESSAGE_PULL,
    MESSAGE_DISPATCH,
    MESSAGE_ACK,
    MESSAGE_DISPATCH_NOTIFICATION,
    NETWORK_BRIDGE_FILTER,
    SUBSCRIPTION_INFO,
)
