"""What the beans of consumers, connections and connectors show.

Known exceptions: counters of single consumers (EnqueueCounter, DispatchedCounter, DequeueCounter, ConsumedCount) are
not kept, so that a message costs nothing for them; the session's number is always -1, as ActiveMQ shows it of STOMP.
``SlowConsumer`` is judged now, not remembered: the window, of more than one message, is full and more is waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core import metrics
from brokerproof.reference_broker.core.matching import is_temporary, split
from brokerproof.reference_broker.core.subscription import Subscription
from brokerproof.reference_broker.management.bean import BOOLEAN, INT, LONG, NAME, NAMES, STRING, Attribute, Json, Kind

if TYPE_CHECKING:
    from brokerproof.reference_broker.management.broker_view import BrokerView
    from brokerproof.reference_broker.session.connection_state import ConnectionState

FULL_PERCENT: Final = 100
_NO_SESSION: Final = -1


def _is_active(subscription: Subscription) -> bool:
    return subscription.durable is None or subscription.durable.consumer is not None


def _held(subscription: Subscription) -> int:
    """How many messages of this destination the consumer has not settled."""
    return len(subscription.deliveries())


def _connection(view: BrokerView, subscription: Subscription) -> Json:
    state = view.node.connection_state(subscription.consumer.connection)
    return None if state is None else view.connection_name(state).reference()


def _user_of(state: ConnectionState | None) -> Json:
    """Who somebody proved to be; None: nobody was asked."""
    return None if state is None or state.identity is None else state.identity.user


def _is_slow(view: BrokerView, subscription: Subscription) -> Json:
    return metrics.is_slow(view.region, subscription)


def _plain(kind: str, read: Callable[[Subscription], Json]) -> Attribute:
    """An attribute that needs nothing but the subscription."""

    def attribute(_view: BrokerView, subscription: Subscription) -> Json:
        return read(subscription)

    return Attribute(kind, attribute)


_CONSUMER: Final[dict[str, Attribute]] = {
    "Active": _plain(BOOLEAN, _is_active),
    "ClientId": Attribute(STRING, lambda view, one: view.client_id(one.consumer.connection)),
    "Connection": Attribute(NAME, _connection),
    "ConnectionId": _plain(STRING, lambda one: f"ID:{one.consumer.connection}"),
    "DestinationName": _plain(STRING, lambda one: split(one.destination.name)[1]),
    "DestinationQueue": _plain(BOOLEAN, lambda one: one.destination.is_queue),
    "DestinationTemporary": _plain(BOOLEAN, lambda one: is_temporary(one.destination.name)),
    "DestinationTopic": _plain(BOOLEAN, lambda one: not one.destination.is_queue),
    "DispatchAsync": _plain(BOOLEAN, lambda one: one.consumer.dispatch_async),
    "DispatchedQueueSize": _plain(INT, _held),
    "Durable": _plain(BOOLEAN, lambda one: one.durable is not None),
    "Exclusive": _plain(BOOLEAN, lambda one: one.consumer.exclusive),
    "MaximumPendingMessageLimit": _plain(INT, metrics.pending_limit),
    "MessageCountAwaitingAcknowledge": _plain(INT, _held),
    "Network": _plain(BOOLEAN, lambda _: False),
    "NoLocal": _plain(BOOLEAN, lambda one: one.consumer.no_local),
    "PendingQueueSize": _plain(INT, lambda one: len(one.pending)),
    "PrefetchSize": _plain(INT, lambda one: one.consumer.prefetch),
    "Priority": _plain("byte", lambda one: one.consumer.priority),
    "Retroactive": _plain(BOOLEAN, lambda one: one.consumer.retroactive),
    "Selector": _plain(STRING, lambda one: one.consumer.selector or None),
    "SessionId": _plain(LONG, lambda _: _NO_SESSION),
    "SlowConsumer": Attribute(BOOLEAN, _is_slow),
    "SubscriptionId": _plain(LONG, lambda one: one.serial),
    "SubscriptionName": _plain(STRING, lambda one: one.consumer.durable or None),
    "UserName": Attribute(STRING, lambda view, one: _user_of(view.node.connection_state(one.consumer.connection))),
}

QUEUE_CONSUMER: Final = Kind("org.apache.activemq.broker.jmx.SubscriptionView", _CONSUMER)
TOPIC_CONSUMER: Final = Kind(
    "org.apache.activemq.broker.jmx.TopicSubscriptionView",
    {**_CONSUMER, "MaximumPendingQueueSize": _plain(INT, lambda one: one.destination.policy.pending_message_limit)},
)
#: The cursor of a durable subscription shows the broker's memory.
DURABLE: Final = Kind(
    "org.apache.activemq.broker.jmx.DurableSubscriptionView",
    {
        **_CONSUMER,
        "ClientId": _plain(STRING, lambda one: "" if one.durable is None else one.durable.client_id),
        "CursorFull": Attribute(BOOLEAN, lambda view, _: view.region.memory.root.percent() >= FULL_PERCENT),
        "CursorMemoryUsage": Attribute(LONG, lambda view, _: view.region.memory.root.used_bytes),
        "CursorPercentUsage": Attribute(INT, lambda view, _: view.region.memory.root.percent()),
    },
)


def _consumers(view: BrokerView, state: ConnectionState) -> Json:
    return [
        view.consumer_name(subscription).reference()
        for consumer in view.node.broker.consumers(state.number)
        for subscription in consumer.subscriptions
    ]


CONNECTION: Final = Kind(
    "org.apache.activemq.broker.jmx.ConnectionView",
    {
        "Active": Attribute(BOOLEAN, lambda _view, state: not state.closed),
        "Blocked": Attribute(BOOLEAN, lambda _view, state: state.blocked),
        "ClientId": Attribute(STRING, lambda view, state: view.client_id(state.number)),
        "Connected": Attribute(BOOLEAN, lambda _view, state: state.session.connected),
        "Consumers": Attribute(NAMES, _consumers),
        "DispatchQueueSize": Attribute(INT, lambda _view, state: len(state.session.outbox)),
        "RemoteAddress": Attribute(STRING, lambda _view, state: state.address),
        "UserName": Attribute(STRING, lambda _view, state: _user_of(state)),
    },
)

CONNECTOR: Final = Kind(
    "org.apache.activemq.broker.jmx.ConnectorView",
    {"StatisticsEnabled": Attribute(BOOLEAN, lambda _view, _: True)},
)
