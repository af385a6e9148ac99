"""Statistics by message (ActiveMQ's statisticsBrokerPlugin): who sends to a name below gets metrics as an answer.

* ``ActiveMQ.Statistics.Broker``: one answer about the broker. ``ActiveMQ.Statistics.Destination`` with a name behind it
  (``.NAME``, or without the dot as the plug-in allows), which may be a wildcard: one for each destination of the
  request's own kind that exists. ``ActiveMQ.Statistics.Subscription``: one for each consumer of a destination that is
  not temporary.
* A request is a message to such a name, queue or topic, with a reply-to; it goes no further, never waits for memory,
  and is answered at once, also in a transaction, and whether there is a destination of that name or not. Without a
  reply-to it is a message like any other.
* An answer is a map: type ``Advisory``, not persistent, no expiration, default priority, the request's correlation id
  (none for subscriptions). It goes to the reply-to, unless that is a temporary destination that is gone.
* Names and types of the entries are ActiveMQ's. What this broker has no metric for is absent.

How a map is written is the encoder's (``Encoder``): protocols have different forms for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core import metrics
from brokerproof.reference_broker.core.matching import covers, is_temporary, split
from brokerproof.reference_broker.core.message import QUEUE, TEXT, TOPIC, Message

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Subscription

PREFIX: Final = "ActiveMQ.Statistics."
BROKER: Final = PREFIX + "Broker"
DESTINATION: Final = PREFIX + "Destination"
SUBSCRIPTION: Final = PREFIX + "Subscription"
# Types of entries.
LONG: Final = "long"
INT: Final = "int"
BOOLEAN: Final = "boolean"
STRING: Final = "string"

_TOTALS: Final = (
    ("size", "size"),
    ("enqueueCount", "enqueued"),
    ("dequeueCount", "dequeued"),
    ("dispatchCount", "dispatched"),
    ("expiredCount", "expired"),
    ("inflightCount", "in_flight"),
    ("consumerCount", "consumers"),
    ("memoryUsage", "memory_bytes"),
)
_DISK: Final = (
    ("storeUsage", "store_bytes", LONG),
    ("storeLimit", "store_limit_bytes", LONG),
    ("storePercentUsage", "store_percent", INT),
    ("tempUsage", "temp_bytes", LONG),
    ("tempLimit", "temp_limit_bytes", LONG),
    ("tempPercentUsage", "temp_percent", INT),
)


class Entry:
    """One entry of an answer."""

    __slots__ = ("kind", "name", "value")

    def __init__(self, name: str, kind: str, value: int | str | None) -> None:
        self.name = name
        self.kind = kind
        self.value = value


@mypyc_attr(allow_interpreted_subclasses=True)
class Encoder:
    """How a map becomes a message's body: here one ``name=value`` per line, for want of a protocol."""

    def form(self) -> int:
        """The message's form."""
        return TEXT

    def encode(self, entries: list[Entry]) -> bytes:
        """The body."""
        return "\n".join(f"{entry.name}={entry.value}" for entry in entries).encode()


class Statistics:
    """Answers requests about one region."""

    __slots__ = ("_answered", "_region", "encoder")

    def __init__(self, region: Region) -> None:
        self._region = region
        self._answered = 0
        self.encoder = Encoder()

    def asks(self, message: Message) -> bool:
        """Whether a message is a request."""
        if not message.reply_to:
            return False
        name = split(message.destination)[1]
        return name.startswith((BROKER, DESTINATION, SUBSCRIPTION))

    def answer(self, request: Message) -> None:
        """Send the answers."""
        kind, name = split(request.destination)
        if name.startswith(DESTINATION):
            wanted = (QUEUE if kind == QUEUE else TOPIC) + name[len(DESTINATION) :].removeprefix(".")
            for destination in list(self._region.destinations.values()):
                if destination.name == wanted or covers([wanted], destination.name):
                    self._send(request, self._of_destination(destination), request.correlation_id)
        elif name.startswith(BROKER):
            self._send(request, self._of_broker(), request.correlation_id)
        else:
            for destination in list(self._region.destinations.values()):
                if not is_temporary(destination.name):
                    for subscription in list(destination.subscriptions.values()):
                        self._send(request, self._of_subscription(subscription), None)

    def _send(self, request: Message, entries: list[Entry], correlation_id: str | None) -> None:
        region = self._region
        if region.temporaries.missing(request.reply_to):
            return
        self._answered += 1
        reply = Message(
            f"ID:{region.config.name}-statistics-1:1:1:1:{self._answered}",
            request.reply_to,
            self.encoder.encode(entries),
            timestamp_ms=region.now.wall_ms,
            correlation_id=correlation_id,
            jms_type="Advisory",
            form=self.encoder.form(),
        )
        region.internal_sends.append(reply)

    def _head(self) -> list[Entry]:
        name = self._region.config.name
        return [Entry("brokerName", STRING, name), Entry("brokerId", STRING, f"ID:{name}")]

    def _of_destination(self, destination: Destination) -> list[Entry]:
        found = metrics.of_destination(destination, 0)
        return [
            *self._head(),
            Entry("destinationName", STRING, destination.name),
            *(Entry(name, LONG, found[metric]) for name, metric in _TOTALS),
            Entry("memoryLimit", LONG, found["memory_limit_bytes"]),
            Entry("memoryPercentUsage", INT, found["memory_percent"]),
        ]

    def _of_broker(self) -> list[Entry]:
        region = self._region
        consumers = sum(metrics.consumers_of(one) for one in region.destinations.values())
        found = metrics.of_broker(region, len(region.connection_registry.connections), consumers, 0)
        return [
            *self._head(),
            *(Entry(name, LONG, found[metric]) for name, metric in _TOTALS),
            Entry("memoryLimit", LONG, region.memory.root.limit_bytes),
            Entry("memoryPercentUsage", INT, found["memory_percent"]),
            *(Entry(name, kind, found.get(metric, 0)) for name, metric, kind in _DISK),
        ]

    def _of_subscription(self, subscription: Subscription) -> list[Entry]:
        region = self._region
        consumer = subscription.consumer
        client_id = region.connection_registry.client_id(consumer.connection)
        return [
            *self._head(),
            Entry("destinationName", STRING, split(subscription.destination.name)[1]),
            Entry("clientId", STRING, client_id),
            Entry("connectionId", STRING, f"ID:{consumer.connection}"),
            Entry("sessionId", LONG, -1),
            Entry("selector", STRING, consumer.selector or None),
            Entry("dispatchedQueueSize", LONG, len(subscription.deliveries())),
            Entry("prefetchSize", INT, consumer.prefetch),
            Entry("maximumPendingMessageLimit", INT, metrics.pending_limit(subscription)),
            Entry("exclusive", BOOLEAN, consumer.exclusive),
            Entry("retroactive", BOOLEAN, consumer.retroactive),
            Entry("slowConsumer", BOOLEAN, metrics.is_slow(region, subscription)),
        ]
