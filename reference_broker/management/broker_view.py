"""One node as its beans show it: its state, to be read, and what each thing in it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.matching import split
from brokerproof.reference_broker.core.message import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC
from brokerproof.reference_broker.management.object_names import DOMAIN, ObjectName, encoded
from brokerproof.reference_broker.stomp.broker import BrokerSession as StompSession

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Subscription
    from brokerproof.reference_broker.node import Node
    from brokerproof.reference_broker.session.connection_state import ConnectionState

TYPES: Final = {QUEUE: "Queue", TOPIC: "Topic", TEMP_QUEUE: "TempQueue", TEMP_TOPIC: "TempTopic"}


class BrokerView:
    """See the module's header. ``connectors``: name -> where it listens; ``version``: of this broker."""

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
        #: What is in the name of every bean of the broker.
        self.properties = {"type": "Broker", "brokerName": encoded(node.config.name)}

    @property
    def region(self) -> Region:
        """The core's state, to be read."""
        return self.node.broker.region()

    def connections(self) -> list[ConnectionState]:
        """The connections that have finished their handshake."""
        return [state for state in self.node.connections() if state.session.connected and not state.closed]

    def broker_name(self) -> ObjectName:
        """The broker's own bean."""
        return ObjectName(self.properties)

    def destination_name(self, destination: Destination) -> ObjectName:
        """The bean of a destination."""
        prefix, name = split(destination.name)
        return ObjectName({**self.properties, "destinationType": TYPES[prefix], "destinationName": encoded(name)})

    def destination_references(self, prefix: str) -> list[dict[str, str]]:
        """How other beans refer to all destinations of a kind. Written out, because there may be many."""
        head = f"{DOMAIN}:brokerName={self.properties['brokerName']},destinationName="
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
        connector = self.connector_name(connector_of(state))
        return ObjectName({**connector.properties, "connectionViewType": view, "connectionName": encoded(shown)})

    def connector_name(self, name: str) -> ObjectName:
        """The bean of a connector."""
        return ObjectName({**self.properties, "connector": "clientConnectors", "connectorName": encoded(name)})


def connector_of(state: ConnectionState) -> str:
    """The connector of a connection: it is called by what is spoken there, and whether through TLS."""
    spoken = "stomp" if isinstance(state.session, StompSession) else "openwire"
    return f"{spoken}+ssl" if state.address.startswith("ssl://") else spoken
