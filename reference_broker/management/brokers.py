"""What the beans of the broker as a whole show: Broker, Health, Runtime.

Attributes have ActiveMQ's names; ``Generation`` is ours alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core import metrics
from brokerproof.reference_broker.core.events import RemoveQueue, ResetStatistics, SetMemoryLimit
from brokerproof.reference_broker.core.instant import NS_PER_MS
from brokerproof.reference_broker.core.message import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC
from brokerproof.reference_broker.management.bean import (
    BOOLEAN,
    INT,
    LONG,
    MAP,
    NAMES,
    STRING,
    VOID,
    Attribute,
    BeanOperation,
    Json,
    Kind,
    OperationRefused,
)
from brokerproof.reference_broker.management.browsing import browse
from brokerproof.reference_broker.management.subscriptions import subscriptions_of

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.subscription import Subscription
    from brokerproof.reference_broker.management.broker_view import BrokerView

SECOND_MS: Final = 1000
_STATUS: Final = {True: "Good", False: "Storage refuses messages"}


def uptime_ms(view: BrokerView) -> int:
    """How long the broker has been running."""
    return (view.clocks().mono_ns - view.started.mono_ns) // NS_PER_MS


def as_bytes(value: Json) -> int:
    """A new limit. Raises ``ValueError``."""
    return whole_number(value, "bytes")


def whole_number(value: Json, of: str) -> int:
    """A number as JSON has it, or as text. Raises ``ValueError``."""
    try:
        if not isinstance(value, bool) and isinstance(value, int | str):
            return int(value)
    except ValueError:
        pass
    raise ValueError(f"{value!r} is not a number of {of}")


def queue_name(value: Json) -> str:
    """A queue, as the broker calls it. Raises ``OperationRefused``."""
    if not isinstance(value, str) or not value:
        raise OperationRefused(
            "java.lang.IllegalArgumentException", f"{value!r} is not the name of a queue; write it as a text"
        )
    return QUEUE + value


def _total(metric: str) -> Attribute:
    return Attribute(LONG, lambda view, _: metrics.total(view.region, metric))


def disk(metric: str, kind: str = LONG) -> Attribute:
    """What there is of the store, or of temporary files; 0 while they have no limit."""
    return Attribute(kind, lambda view, _: metrics.of_disk(view.region).get(metric, 0))


def _destinations(prefix: str) -> Attribute:
    return Attribute(NAMES, lambda view, _: view.destination_references(prefix))


def _subscribers(prefix: str, chosen: Callable[[Subscription], bool]) -> Attribute:
    def names(view: BrokerView, _: None) -> Json:
        return [
            view.consumer_name(subscription).reference()
            for destination in view.region.destinations.values()
            if destination.name.startswith(prefix)
            for subscription in subscriptions_of(destination)
            if chosen(subscription)
        ]

    return Attribute(NAMES, names)


def _is_volatile(subscription: Subscription) -> bool:
    return subscription.durable is None


def _is_used(subscription: Subscription) -> bool:
    return subscription.durable is not None and subscription.durable.consumer is not None


def _is_unused(subscription: Subscription) -> bool:
    return subscription.durable is not None and subscription.durable.consumer is None


def _memory_percent(view: BrokerView, _: None) -> Json:
    return view.region.memory.root.percent()


def _browse_queue(view: BrokerView, _: None, arguments: Sequence[Json]) -> Json:
    return browse(view, queue_name(arguments[0]))


def _health(view: BrokerView) -> list[Json]:
    code, text = view.region.storage_trouble
    return [{"healthId": code, "level": "error", "message": text, "resource": "storage"}] if code else []


BROKER: Final = Kind(
    "org.apache.activemq.broker.jmx.BrokerView",
    {
        "BrokerId": Attribute(STRING, lambda view, _: f"ID:{view.node.config.name}"),
        "BrokerName": Attribute(STRING, lambda view, _: view.node.config.name),
        "BrokerVersion": Attribute(STRING, lambda view, _: view.version),
        "CurrentConnectionsCount": Attribute(INT, lambda view, _: len(view.connections())),
        "DurableTopicSubscribers": _subscribers(TOPIC, _is_used),
        "Generation": Attribute(MAP, lambda view, _: dict(view.node.config.generation)),
        "InactiveDurableTopicSubscribers": _subscribers(TOPIC, _is_unused),
        "MemoryLimit": Attribute(
            LONG,
            lambda view, _: view.region.memory.root.limit_bytes,
            lambda _view, _, value: SetMemoryLimit("", as_bytes(value)),
        ),
        "MemoryPercentUsage": Attribute(INT, _memory_percent),
        "Persistent": Attribute(BOOLEAN, lambda view, _: view.node.config.persistent),
        "QueueSubscribers": _subscribers(QUEUE, _is_volatile),
        "Queues": _destinations(QUEUE),
        "Slave": Attribute(BOOLEAN, lambda _view, _: False),
        "StatisticsEnabled": Attribute(BOOLEAN, lambda _view, _: True),
        "StoreLimit": disk("store_limit_bytes"),
        "StorePercentUsage": disk("store_percent", INT),
        "TempLimit": disk("temp_limit_bytes"),
        "TempPercentUsage": disk("temp_percent", INT),
        "TemporaryQueueSubscribers": _subscribers(TEMP_QUEUE, _is_volatile),
        "TemporaryQueues": _destinations(TEMP_QUEUE),
        "TemporaryTopicSubscribers": _subscribers(TEMP_TOPIC, _is_volatile),
        "TemporaryTopics": _destinations(TEMP_TOPIC),
        "TopicSubscribers": _subscribers(TOPIC, _is_volatile),
        "Topics": _destinations(TOPIC),
        "TotalConsumerCount": Attribute(LONG, lambda view, _: view.region.connection_registry.consumers()),
        "TotalDequeueCount": _total("dequeued"),
        "TotalEnqueueCount": _total("enqueued"),
        "TotalMessageCount": _total("size"),
        "TransportConnectors": Attribute(MAP, lambda view, _: dict(view.connectors)),
        "Uptime": Attribute(STRING, lambda view, _: f"{uptime_ms(view) / SECOND_MS:.3f} seconds"),
        "UptimeMillis": Attribute(LONG, lambda view, _: uptime_ms(view)),
    },
    {
        "browseQueue": [BeanOperation([STRING], "[Ljavax.management.openmbean.CompositeData;", _browse_queue)],
        "removeQueue": [
            BeanOperation([STRING], VOID, lambda _view, _, given: RemoveQueue(queue_name(given[0])), lenient=True)
        ],
        "resetStatistics": [BeanOperation([], VOID, lambda _view, _, _given: ResetStatistics(""))],
    },
)

HEALTH: Final = Kind(
    "org.apache.activemq.broker.jmx.HealthView",
    {"CurrentStatus": Attribute(STRING, lambda view, _: _STATUS[not _health(view)])},
    {
        "healthList": [BeanOperation([], "java.util.List", lambda view, _, _given: _health(view))],
        "healthStatus": [BeanOperation([], STRING, lambda view, _, _given: _STATUS[not _health(view)])],
    },
)

RUNTIME: Final = Kind(
    "sun.management.RuntimeImpl",
    {
        "StartTime": Attribute(LONG, lambda view, _: view.started.wall_ms),
        "Uptime": Attribute(LONG, lambda view, _: uptime_ms(view)),
    },
)
