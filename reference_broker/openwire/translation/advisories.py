"""What an advisory is about, as the command that ActiveMQ puts into it (openwire.md 9.2): the message that expired, or
the ConsumerInfo, ConnectionInfo, DestinationInfo or RemoveInfo that tells of a coming or going.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.connection_registry import (
    ConnectionAdvisory,
    ConsumerAdvisory,
    DestinationAdvisory,
)
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.openwire.commands import ADD_DESTINATION, REMOVE_DESTINATION
from brokerproof.reference_broker.openwire.translation.names import (
    FOREIGN,
    connection_data,
    consumer_data,
    destination_data,
    destination_name,
)
from brokerproof.reference_broker.openwire.wire import connections, consumption, ids
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.kinds import Data

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
        who = _consumer(about.name)
        if about.gone:
            return connections.REMOVE_INFO.make(objectId=who, lastDeliveredSequenceId=-2)
        return consumption.CONSUMER_INFO.make(
            consumerId=who, destination=destination_data(about.destination), prefetchSize=about.prefetch
        )
    if isinstance(about, ConnectionAdvisory):
        connection = connection_data(about.identity or about.client_id)
        if about.gone:
            return connections.REMOVE_INFO.make(objectId=connection, lastDeliveredSequenceId=-2)
        return connections.CONNECTION_INFO.make(connectionId=connection, clientId=about.client_id, clientMaster=True)
    return None


def _owner(temporary: str) -> str:
    """The connection that a temporary destination is named after."""
    name = destination_name(destination_data(temporary)).partition("://")[2]
    return name.rpartition(":")[0]


def _consumer(name: str) -> Data:
    """A consumer by the core's name for it, ``connection.consumer``; another protocol's has no numbers."""
    own = name.partition(".")[2]
    try:
        return consumer_data(own)
    except WireError:
        return Data(ids.CONSUMER_ID, [name, FOREIGN, FOREIGN])
