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
    from brokerproof.reference_broker.management.bean_registry import BeanRegistry

SECOND_MS: Final = 1000
_STATUS: Final = {True: "Good", False: "Storage refuses messages"}


def uptime_ms(inventory: BeanRegistry) -> int:
    """How long the broker has been running."""
    return (inventory.clocks().mono_ns - inventory.started.mono_ns) // NS_PER_MS


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
    return Attribute(LONG, lambda inventory, _: metrics.total(inventory.region, metric))


def disk(metric: str, kind: str = LONG) -> Attribute:
    """What there is of the store, or of temporary files; 0 while they have no limit."""
    return Attribute(kind, lambda inventory, _: metrics.of_disk(inventory.region).get(metric, 0))


def _destinations(prefix: str) -> Attribute:
    return Attribute(NAMES, lambda inventory, _: inventory.destination_references(prefix))


def _subscribers(prefix: str, chosen: Callable[[Subscription], bool]) -> Attribute:
    def names(inventory: BeanRegistry, _: None) -> Json:
        return [
            inventory.consumer_name(subscription).reference()
            for destination in inventory.region.destinations.values()
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


def _memory_percent(inventory: BeanRegistry, _: None) -> Json:
    return inventory.region.memory.root.percent()


def _browse_queue(inventory: BeanRegistry, _: None, arguments: Sequence[Json]) -> Json:
    return browse(inventory, queue_name(arguments[0]))


def _health(inventory: BeanRegistry) -> list[Json]:
    code, text = inventory.region.storage_trouble
    return [{"healthId": code, "level": "error", "message": text, "resource": "storage"}] if code else []


BROKER: Final = Kind(
    "org.apache.activemq.broker.jmx.BrokerView",
    {
        "BrokerId": Attribute(STRING, lambda inventory, _: f"ID:{inventory.node.config.name}"),
        "BrokerName": Attribute(STRING, lambda inventory, _: inventory.node.config.name),
        "BrokerVersion": Attribute(STRING, lambda inventory, _: inventory.version),
        "CurrentConnectionsCount": Attribute(INT, lambda inventory, _: len(inventory.connections())),
        "DurableTopicSubscribers": _subscribers(TOPIC, _is_used),
        "Generation": Attribute(MAP, lambda inventory, _: dict(inventory.node.config.generation)),
        "InactiveDurableTopicSubscribers": _subscribers(TOPIC, _is_unused),
        "MemoryLimit": Attribute(
            LONG,
            lambda inventory, _: inventory.region.memory.root.limit_bytes,
            lambda _inventory, _, value: SetMemoryLimit("", as_bytes(value)),
        ),
        "MemoryPercentUsage": Attribute(INT, _memory_percent),
        "Persistent": Attribute(BOOLEAN, lambda inventory, _: inventory.node.config.persistent),
        "QueueSubscribers": _subscribers(QUEUE, _is_volatile),
        "Queues": _destinations(QUEUE),
        "Slave": Attribute(BOOLEAN, lambda _inventory, _: False),
        "StatisticsEnabled": Attribute(BOOLEAN, lambda _inventory, _: True),
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
        "TotalConsumerCount": Attribute(LONG, lambda inventory, _: inventory.region.connection_registry.consumers()),
        "TotalDequeueCount": _total("dequeued"),
        "TotalEnqueueCount": _total("enqueued"),
        "TotalMessageCount": _total("size"),
        "TransportConnectors": Attribute(MAP, lambda inventory, _: dict(inventory.connectors)),
        "Uptime": Attribute(STRING, lambda inventory, _: f"{uptime_ms(inventory) / SECOND_MS:.3f} seconds"),
        "UptimeMillis": Attribute(LONG, lambda inventory, _: uptime_ms(inventory)),
    },
    {
        "browseQueue": [BeanOperation([STRING], "[Ljavax.management.openmbean.CompositeData;", _browse_queue)],
        "removeQueue": [
            BeanOperation([STRING], VOID, lambda _inventory, _, given: RemoveQueue(queue_name(given[0])), lenient=True)
        ],
        "resetStatistics": [BeanOperation([], VOID, lambda _inventory, _, _given: ResetStatistics(""))],
    },
)

HEALTH: Final = Kind(
    "org.apache.activemq.broker.jmx.HealthView",
    {"CurrentStatus": Attribute(STRING, lambda inventory, _: _STATUS[not _health(inventory)])},
    {
        "healthList": [BeanOperation([], "java.util.List", lambda inventory, _, _given: _health(inventory))],
        "healthStatus": [BeanOperation([], STRING, lambda inventory, _, _given: _STATUS[not _health(inventory)])],
    },
)

RUNTIME: Final = Kind(
    "sun.management.RuntimeImpl",
    {
        "StartTime": Attribute(LONG, lambda inventory, _: inventory.started.wall_ms),
        "Uptime": Attribute(LONG, lambda inventory, _: uptime_ms(inventory)),
    },
)
