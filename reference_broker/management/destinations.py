"""What the beans of queues and topics show, and what an operator may do to them.

Attributes have ActiveMQ's names. Ours alone: ``ScheduledMessageCount`` (delayed messages, not part of the size),
``WastedDispatchCount`` (dispatches that came to nothing because the consumer left) and ``AcknowledgedCount``.

Known exceptions: ``ForwardCount`` and ``DuplicateFromStoreCount`` are 0, because there are no bridges and no store that
duplicates. Temporary files are the broker's as a whole, so every destination shows the same share of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core import metrics
from brokerproof.reference_broker.core.events import Move, Operation, Purge, ResetStatistics, SetMemoryLimit
from brokerproof.reference_broker.core.matching import split
from brokerproof.reference_broker.core.message import QUEUE
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
)
from brokerproof.reference_broker.management.brokers import as_bytes, disk, whole_number
from brokerproof.reference_broker.management.browsing import browse
from brokerproof.reference_broker.management.subscriptions import subscriptions_of

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.queue import Queue
    from brokerproof.reference_broker.management.broker_view import BrokerView

COMPOSITES: Final = "[Ljavax.management.openmbean.CompositeData;"
FULL_PERCENT: Final = 100
_PREFIXES: Final = ("queue://", "topic://")


def _metric(name: str) -> Attribute:
    """One of the core's counters."""
    count = metrics.COUNTED[name]
    return Attribute(LONG, lambda _view, destination: count(destination.counters))


def _reset(_view: BrokerView, destination: Destination, _given: Sequence[Json]) -> Operation:
    return ResetStatistics(destination.name)


def _subscriptions(view: BrokerView, destination: Destination) -> Json:
    return [view.consumer_name(one).reference() for one in subscriptions_of(destination)]


def _sends_blocked(view: BrokerView, destination: Destination) -> Json:
    flow = view.region.flow
    return 0 if flow is None else flow.total(destination.name)


def _page_size(view: BrokerView, destination: Destination) -> Json:
    del view
    return destination.page_size


_COMMON: Final[dict[str, Attribute]] = {
    "AcknowledgedCount": _metric("acknowledged"),
    "AlwaysRetroactive": Attribute(BOOLEAN, lambda _view, _destination: False),
    "BlockedSends": Attribute(LONG, _sends_blocked),
    "ConsumerCount": Attribute(LONG, lambda _view, destination: metrics.consumers_of(destination)),
    "DequeueCount": _metric("dequeued"),
    "DispatchCount": _metric("dispatched"),
    "DuplicateFromStoreCount": Attribute(LONG, lambda _view, _destination: 0),
    "EnqueueCount": _metric("enqueued"),
    "ExpiredCount": _metric("expired"),
    "ForwardCount": Attribute(LONG, lambda _view, _destination: 0),
    "InFlightCount": _metric("in_flight"),
    "MaxPageSize": Attribute(INT, _page_size),
    "MemoryLimit": Attribute(
        LONG,
        lambda _view, destination: destination.usage.limit_bytes,
        lambda _view, destination, value: SetMemoryLimit(destination.name, as_bytes(value)),
    ),
    "MemoryPercentUsage": Attribute(INT, lambda _view, destination: destination.usage.percent()),
    "MemoryUsageByteCount": Attribute(LONG, lambda _view, destination: destination.usage.used_bytes),
    "MemoryUsagePortion": Attribute("float", lambda _view, _destination: 1.0),
    "Name": Attribute(STRING, lambda _view, destination: split(destination.name)[1]),
    "Options": Attribute(STRING, lambda _view, _destination: ""),
    "PrioritizedMessages": Attribute(BOOLEAN, lambda _view, destination: destination.policy.prioritized_messages),
    "ProducerFlowControl": Attribute(BOOLEAN, lambda _view, destination: destination.policy.producer_flow_control),
    "QueueSize": _metric("size"),
    "ScheduledMessageCount": _metric("scheduled"),
    "SlowConsumerStrategy": Attribute("javax.management.ObjectName", lambda _view, _destination: None),
    "Subscriptions": Attribute(NAMES, _subscriptions),
    "TempUsagePercentUsage": disk("temp_percent", INT),
    "UseCache": Attribute(BOOLEAN, lambda _view, destination: destination.policy.use_cache),
    "WastedDispatchCount": _metric("wasted"),
}


# -- queues


def _has_space(view: BrokerView, queue: Queue, _given: Sequence[Json]) -> Json:
    """Whether the cursor could read a message into memory now: the decisive metric when a consumer gets nothing."""
    region = view.region
    return region.policies.memory.has_space(region.memory, queue)


def _caches(_view: BrokerView, queue: Queue) -> Json:
    return queue.cursor.caching if queue.cursor is not None else not queue.line.stored


def _groups(view: BrokerView, queue: Queue) -> Json:
    if queue.choices is None:
        return {}
    owned = queue.choices.groups.by_id
    return {name: view.consumer_name(group.owner).properties["consumerId"] for name, group in owned.items()}


def _cursor_size(_view: BrokerView, queue: Queue, _given: Sequence[Json]) -> Json:
    return len(queue.line) if queue.cursor is None else len(queue.cursor)


def _buffered(_view: BrokerView, queue: Queue, _given: Sequence[Json]) -> Json:
    cursor = queue.cursor
    return bool(queue.line.loaded) if cursor is None else bool(cursor.batch or cursor.spool)


def _move_matching(_view: BrokerView, queue: Queue, given: Sequence[Json]) -> Operation:
    count = max(whole_number(given[2], "messages"), 0) if len(given) > 2 else 0
    return Move(queue.name, _target(given[1]), selector=_selector(given[0]), count=count)


def _move_one(_view: BrokerView, queue: Queue, given: Sequence[Json]) -> Operation:
    return Move(queue.name, _target(given[1]), selector=f"JMSMessageID = {_quoted(given[0])}", count=1)


def _target(given: Json) -> str:
    """Where to: a queue's name, or a destination as clients write it."""
    name = "" if given is None else str(given)
    return name if name.startswith(_PREFIXES) else QUEUE + name


def _selector(given: Json) -> str:
    return "" if given is None else str(given)


def _quoted(given: Json) -> str:
    return "'" + str(given).replace("'", "''") + "'"


def _purge(_view: BrokerView, queue: Queue, _given: Sequence[Json]) -> Operation:
    return Purge(queue.name)


QUEUE_KIND: Final = Kind(
    "org.apache.activemq.broker.jmx.QueueView",
    {
        **_COMMON,
        "CacheEnabled": Attribute(BOOLEAN, _caches),
        "CursorFull": Attribute(BOOLEAN, lambda _view, queue: queue.usage.percent() >= FULL_PERCENT),
        "CursorMemoryUsage": Attribute(LONG, lambda _view, queue: queue.usage.used_bytes),
        "CursorPercentUsage": Attribute(INT, lambda _view, queue: queue.usage.percent()),
        "MaxBrowsePageSize": Attribute(INT, lambda _view, queue: queue.policy.max_browse_page_size),
        "MessageGroups": Attribute(MAP, _groups),
        "Paused": Attribute(BOOLEAN, lambda _view, _queue: False),
    },
    {
        "browse": [
            BeanOperation([], COMPOSITES, lambda view, queue, _: browse(view, queue.name)),
            BeanOperation(
                [STRING],
                COMPOSITES,
                lambda view, queue, given: browse(view, queue.name, _selector(given[0])),
            ),
        ],
        "cursorSize": [BeanOperation([], INT, _cursor_size)],
        "doesCursorHaveMessagesBuffered": [BeanOperation([], BOOLEAN, _buffered)],
        "doesCursorHaveSpace": [BeanOperation([], BOOLEAN, _has_space)],
        "moveMatchingMessagesTo": [
            BeanOperation([STRING, STRING], INT, _move_matching, counts=True),
            BeanOperation([STRING, STRING, INT], INT, _move_matching, counts=True),
        ],
        "moveMessageTo": [BeanOperation([STRING, STRING], BOOLEAN, _move_one, counts=True)],
        "purge": [BeanOperation([], VOID, _purge)],
        "resetStatistics": [BeanOperation([], VOID, _reset)],
    },
)

TOPIC_KIND: Final = Kind(
    "org.apache.activemq.broker.jmx.TopicView", _COMMON, {"resetStatistics": [BeanOperation([], VOID, _reset)]}
)
