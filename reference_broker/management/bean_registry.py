"""Which beans a broker has at this moment: their names, and how one is found.

* Beans are made when somebody asks; nothing is kept, so the inventory is never out of date.
* One bean with a plain name is found without looking at the others; patterns walk over all of them.
* A destination's bean is there as long as the destination; that of a durable subscription as long as it, with or
  without a consumer; a connection's from its handshake to its end.

Known exception: names whose encoded form differs from what they are (temporary destinations) are found by a walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.matching import split
from brokerproof.reference_broker.core.message import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC
from brokerproof.reference_broker.management.bean import Bean
from brokerproof.reference_broker.management.brokers import BROKER, HEALTH, RUNTIME
from brokerproof.reference_broker.management.clients import (
    CONNECTION,
    CONNECTOR,
    DURABLE,
    QUEUE_CONSUMER,
    TOPIC_CONSUMER,
)
from brokerproof.reference_broker.management.destinations import QUEUE_KIND, TOPIC_KIND
from brokerproof.reference_broker.management.object_names import DOMAIN, ObjectName, ObjectNamePattern, encoded
from brokerproof.reference_broker.management.subscriptions import subscriptions_of
from brokerproof.reference_broker.stomp.broker import BrokerSession as StompSession

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Subscription
    from brokerproof.reference_broker.node import Node
    from brokerproof.reference_broker.session.connection_state import ConnectionState

TYPES: Final = {QUEUE: "Queue", TOPIC: "Topic", TEMP_QUEUE: "TempQueue", TEMP_TOPIC: "TempTopic"}
_PREFIXES: Final = {kind: prefix for prefix, kind in TYPES.items()}


class BeanRegistry:
    """The beans of one node. ``connectors``: name -> where it listens; ``version``: of this broker."""

    node: Node
    started: Now
    connectors: dict[str, str]
    version: str

    def __init__(self, node: Node, clocks: Callable[[], Now], connectors: dict[str, str], version: str) -> None:
        self.node = node
        self.clocks = clocks
        self.started = clocks()
        self.connectors = connectors
        self.version = version
        self._broker = {"type": "Broker", "brokerName": encoded(node.config.name)}

    @property
    def region(self) -> Region:
        """The core's state, to be read."""
        return self.node.broker.region()

    # -- names

    def broker_name(self) -> ObjectName:
        """The broker's own bean."""
        return ObjectName(self._broker)

    def destination_name(self, destination: Destination) -> ObjectName:
        """The bean of a destination."""
        prefix, name = split(destination.name)
        return ObjectName({**self._broker, "destinationType": TYPES[prefix], "destinationName": encoded(name)})

    def destination_references(self, prefix: str) -> list[dict[str, str]]:
        """How other beans refer to all destinations of a kind. Written out, because there may be many."""
        head = f"{DOMAIN}:brokerName={self._broker['brokerName']},destinationName="
        tail = f",destinationType={TYPES[prefix]},type=Broker"
        start = len(prefix)
        return [
            {"objectName": head + encoded(name[start:]) + tail}
            for name in self.region.destinations
            if name.startswith(prefix)
        ]

    def consumer_name(self, subscription: Subscription) -> ObjectName:
        """The bean of a consumer's place at a destination."""
        durable = subscription.durable
        if durable is not None:
            client, consumer = durable.client_id, f"Durable({durable.key})"
        else:
            client, consumer = self.client_id(subscription.consumer.connection), f"ID:{subscription.consumer.name}"
        properties = self.destination_name(subscription.destination).properties
        return ObjectName(
            {**properties, "endpoint": "Consumer", "clientId": encoded(client), "consumerId": encoded(consumer)}
        )

    def client_id(self, connection: int) -> str:
        """What a connection calls itself, or what it is called for want of that."""
        return self.region.connection_registry.client_id(connection) or f"ID:{self.node.config.name}-{connection}"

    def connection_name(self, state: ConnectionState, view: str = "clientId") -> ObjectName:
        """A connection's bean, under its client id or its remote address."""
        shown = self.client_id(state.number) if view == "clientId" else state.address
        connector = self._connector_name(connector_of(state))
        return ObjectName({**connector.properties, "connectionViewType": view, "connectionName": encoded(shown)})

    def _connector_name(self, name: str) -> ObjectName:
        return ObjectName({**self._broker, "connector": "clientConnectors", "connectorName": encoded(name)})

    # -- beans

    def find(self, asked: ObjectNamePattern) -> Bean | None:
        """The bean of a plain name."""
        quick = self._quick(asked.properties)
        if quick is not None and asked.matches(quick.name):
            return quick
        return next((bean for bean in self.all() if asked.matches(bean.name)), None)

    def _quick(self, properties: dict[str, str]) -> Bean | None:
        """The bean that the properties probably mean."""
        prefix = _PREFIXES.get(properties.get("destinationType", ""))
        if prefix is None:
            return next(self._singles()) if len(properties) == len(self._broker) else None
        destination = self.region.destinations.get(prefix + properties.get("destinationName", ""))
        return None if destination is None or "endpoint" in properties else self._destination(destination)

    def all(self) -> Iterator[Bean]:
        """Every bean there is, in a stable order. What happens to the broker meanwhile must not disturb it."""
        yield from self._singles()
        for destination in list(self.region.destinations.values()):
            yield self._destination(destination)
            yield from map(self._consumer, subscriptions_of(destination))
        for name, uri in list(self.connectors.items()):
            yield Bean(self._connector_name(name), CONNECTOR, (name, uri))
        for state in self.connections():
            yield Bean(self.connection_name(state), CONNECTION, state)
            yield Bean(self.connection_name(state, "remoteAddress"), CONNECTION, state)

    def connections(self) -> list[ConnectionState]:
        """The connections that have finished their handshake."""
        return [state for state in self.node.connections() if state.session.connected and not state.closed]

    def _singles(self) -> Iterator[Bean]:
        yield Bean(self.broker_name(), BROKER, None)
        yield Bean(ObjectName({**self._broker, "service": "Health"}), HEALTH, None)
        yield Bean(ObjectName({"type": "Runtime"}, "java.lang"), RUNTIME, None)

    def _destination(self, destination: Destination) -> Bean:
        kind = QUEUE_KIND if destination.is_queue else TOPIC_KIND
        return Bean(self.destination_name(destination), kind, destination)

    def _consumer(self, subscription: Subscription) -> Bean:
        if subscription.durable is not None:
            kind = DURABLE
        else:
            kind = QUEUE_CONSUMER if subscription.destination.is_queue else TOPIC_CONSUMER
        return Bean(self.consumer_name(subscription), kind, subscription)


def connector_of(state: ConnectionState) -> str:
    """The connector of a connection: it is called by what is spoken there, and whether through TLS."""
    spoken = "stomp" if isinstance(state.session, StompSession) else "openwire"
    return f"{spoken}+ssl" if state.address.startswith("ssl://") else spoken
