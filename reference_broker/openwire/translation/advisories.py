"""What an advisory is about, as the command that ActiveMQ puts into it (openwire.md 9.2): the message that expired, or
the ConsumerInfo, ProducerInfo, ConnectionInfo, DestinationInfo or RemoveInfo that tells of a coming or going.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.connection_registry import (
    ConnectionAdvisory,
    ConsumerAdvisory,
    DestinationAdvisory,
    ProducerAdvisory,
)
from brokerproof.reference_broker.core.message import TEMP_QUEUE, TEMP_TOPIC, Message
from brokerproof.reference_broker.openwire.commands import ADD_DESTINATION, REMOVE_DESTINATION
from brokerproof.reference_broker.openwire.translation.names import (
    FOREIGN,
    connection_data,
    consumer_data,
    destination_data,
    destination_name,
    producer_data,
)
from brokerproof.reference_broker.openwire.wire import connections, consumption, ids
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.kinds import Data, Kind

if TYPE_CHECKING:
    from collections.abc import Callable


def data_structure(about: object, write_message: Callable[[Message], Data]) -> Data | None:
    """The structure of what an advisory is about; None for nothing."""
    if isinstance(about, Message):
        return write_message(about)
    if isinstance(about, DestinationAdvisory):
        return connections.DESTINATION_INFO.make(
            connectionId=connection_data(_owner(about.destination)),
            destination=destination_data(about.destination),
            operationType=REMOVE_DESTINATION if about.gone else ADD_DESTINATION,
        )
    if isinstance(about, ConsumerAdvisory):
        who = _named(about.name, consumer_data, ids.CONSUMER_ID)
        if about.gone:
            return connections.REMOVE_INFO.make(objectId=who, lastDeliveredSequenceId=-2)
        return consumption.CONSUMER_INFO.make(
            consumerId=who,
            destination=destination_data(about.destination),
            prefetchSize=about.prefetch,
            selector=about.selector or None,
        )
    if isinstance(about, ProducerAdvisory):
        who = _named(about.name, producer_data, ids.PRODUCER_ID)
        if about.gone:
            return connections.REMOVE_INFO.make(objectId=who, lastDeliveredSequenceId=-2)
        return connections.PRODUCER_INFO.make(producerId=who, destination=destination_data(about.destination))
    if isinstance(about, ConnectionAdvisory):
        connection = connection_data(about.identity or about.client_id)
        if about.gone:
            return connections.REMOVE_INFO.make(objectId=connection, lastDeliveredSequenceId=-2)
        return connections.CONNECTION_INFO.make(connectionId=connection, clientId=about.client_id, clientMaster=True)
    return None


def _owner(destination: str) -> str:
    """The connection that a temporary destination is named after; "" for others, which are the broker's."""
    if not destination.startswith((TEMP_QUEUE, TEMP_TOPIC)):
        return ""
    name = destination_name(destination_data(destination)).partition("://")[2]
    return name.rpartition(":")[0]


def _named(name: str, structure: Callable[[str], Data], kind: Kind) -> Data:
    """A consumer or producer by the core's name for it, ``connection.name``; another protocol's has no numbers."""
    try:
        return structure(name.partition(".")[2])
    except WireError:
        return Data(kind, [name, FOREIGN, FOREIGN])
