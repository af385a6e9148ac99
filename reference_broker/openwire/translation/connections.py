"""Connections, sessions, producers, transactions and destinations (openwire.md 8.2).

Known exceptions: a client's BrokerInfo (only network bridges send one), ControlCommand and FlushCommand mean nothing
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from brokerproof.reference_broker.openwire import connections
from brokerproof.reference_broker.openwire.commands import (
    LAST_DELIVERED_UNKNOWN,
    Command,
    ConnectionInfo,
    DestinationInfo,
    KeepAliveInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    ShutdownInfo,
    TransactionInfo,
)
from brokerproof.reference_broker.openwire.translation.names import (
    connection_data,
    connection_text,
    data_of,
    destination_name,
    flag,
    number,
    producer_data,
    producer_text,
    session_data,
    session_text,
    text,
    transaction_text,
)
from brokerproof.reference_broker.openwire.wire import connections as kinds
from brokerproof.reference_broker.openwire.wire import ids
from brokerproof.reference_broker.openwire.wire.kinds import Data, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.reference_broker.openwire.translation.context import Context


# -- from the wire


def _read_connection(_context: Context, data: Data) -> Command:
    return ConnectionInfo(
        text(data["clientId"]),
        connection_id=connection_text(data["connectionId"]),
        user_name=text(data["userName"]),
        password=text(data["password"]),
        failover_reconnect=flag(data["failoverReconnect"]),
        fault_tolerant=flag(data["faultTolerant"]),
        manageable=flag(data["manageable"]),
    )


def _read_session(_context: Context, data: Data) -> Command:
    return connections.SessionInfo(session_text(data["sessionId"]))


def _read_producer(_context: Context, data: Data) -> Command:
    destination = destination_name(data["destination"])
    return connections.ProducerInfo(producer_text(data["producerId"]), destination, number(data["windowSize"]))


def _read_transaction(_context: Context, data: Data) -> Command:
    return TransactionInfo(transaction_text(data["transactionId"]), number(data["type"]))


def _read_destination(_context: Context, data: Data) -> Command:
    return DestinationInfo(destination_name(data["destination"]), number(data["operationType"]))


def _read_subscription_end(_context: Context, data: Data) -> Command:
    return RemoveSubscriptionInfo(text(data["subcriptionName"]), client_id=text(data["clientId"]))


def _read_removal(context: Context, data: Data) -> Command:
    who = data_of(data["objectId"], ids.CONNECTION_ID, ids.SESSION_ID, ids.CONSUMER_ID, ids.PRODUCER_ID)
    # Before version 5 there is no field for it, and 0 would mean the first message of all.
    last = number(data["lastDeliveredSequenceId"]) if context.version >= 5 else LAST_DELIVERED_UNKNOWN
    if who.kind is ids.CONSUMER_ID:
        name = context.consumer_name(who)
        context.forget(name)
        return RemoveInfo(name, last_sequence=last)
    if who.kind is ids.PRODUCER_ID:
        return connections.RemoveProducer(producer_text(who), last)
    if who.kind is ids.SESSION_ID:
        return connections.RemoveSession(session_text(who), last)
    return connections.RemoveConnection(connection_text(who), last)


def _read_broker(_context: Context, data: Data) -> Command:
    broker_id = data["brokerId"]
    return connections.BrokerInfo(
        text(broker_id.values[0]) if isinstance(broker_id, Data) else "",
        text(data["brokerName"]),
        text(data["brokerURL"]),
    )


def _read_control(_context: Context, data: Data) -> Command:
    return connections.ConnectionControl(flag(data["faultTolerant"]))


def _read_producer_ack(_context: Context, data: Data) -> Command:
    return connections.ProducerAck(producer_text(data["producerId"]), number(data["size"]))


def _read_remark(_context: Context, data: Data) -> Command:
    return connections.IgnoredCommand(data.kind.name)


# -- to the wire


def _write_connection(context: Context, info: ConnectionInfo) -> Data:
    return kinds.CONNECTION_INFO.make(
        connectionId=connection_data(info.connection_id or context.connection_id),
        clientId=info.client_id,
        userName=info.user_name or None,
        password=info.password or None,
        manageable=info.manageable,
        clientMaster=True,
        failoverReconnect=info.failover_reconnect,
        faultTolerant=info.fault_tolerant,
    )


def _write_session(_context: Context, info: connections.SessionInfo) -> Data:
    return kinds.SESSION_INFO.make(sessionId=session_data(info.session_id))


def _write_producer(context: Context, info: connections.ProducerInfo) -> Data:
    return kinds.PRODUCER_INFO.make(
        producerId=producer_data(info.producer_id),
        destination=context.destination(info.destination),
        windowSize=info.window_bytes,
    )


def _write_transaction(context: Context, info: TransactionInfo) -> Data:
    return kinds.TRANSACTION_INFO.make(
        connectionId=connection_data(context.connection_id),
        transactionId=context.transaction(info.transaction),
        type=info.kind,
    )


def _write_destination(context: Context, info: DestinationInfo) -> Data:
    return kinds.DESTINATION_INFO.make(
        connectionId=connection_data(context.connection_id),
        destination=context.destination(info.destination),
        operationType=info.operation,
    )


def _write_subscription_end(context: Context, info: RemoveSubscriptionInfo) -> Data:
    return kinds.REMOVE_SUBSCRIPTION_INFO.make(
        connectionId=connection_data(context.connection_id),
        subcriptionName=info.subscription_name,
        clientId=info.client_id,
    )


def _write_consumer_end(context: Context, info: RemoveInfo) -> Data:
    # 0 is no number of a message here; on the wire it would be the first of all.
    last = info.last_sequence or -1
    return kinds.REMOVE_INFO.make(objectId=context.consumer(info.consumer_id), lastDeliveredSequenceId=last)


def _write_removal(_context: Context, info: connections.Removal) -> Data:
    who = _REMOVED[type(info)](info.name)
    return kinds.REMOVE_INFO.make(objectId=who, lastDeliveredSequenceId=info.last_sequence)


_REMOVED: Final[dict[type[connections.Removal], Callable[[str], Data]]] = {
    connections.RemoveProducer: producer_data,
    connections.RemoveSession: session_data,
    connections.RemoveConnection: connection_data,
}


def _write_broker(_context: Context, info: connections.BrokerInfo) -> Data:
    return kinds.BROKER_INFO.make(
        brokerId=Data(ids.BROKER_ID, [info.broker_id]), brokerURL=info.url or None, brokerName=info.name
    )


def _write_control(_context: Context, info: connections.ConnectionControl) -> Data:
    return kinds.CONNECTION_CONTROL.make(connectedBrokers="", reconnectTo="", faultTolerant=info.fault_tolerant)


def _write_producer_ack(_context: Context, ack: connections.ProducerAck) -> Data:
    return kinds.PRODUCER_ACK.make(producerId=producer_data(ack.producer_id), size=ack.size)


def _write_keep_alive(_context: Context, _info: KeepAliveInfo) -> Data:
    return kinds.KEEP_ALIVE_INFO.make()


def _write_shutdown(_context: Context, _info: ShutdownInfo) -> Data:
    return kinds.SHUTDOWN_INFO.make()


def _read_keep_alive(_context: Context, _data: Data) -> Command:
    return KeepAliveInfo()


def _read_shutdown(_context: Context, _data: Data) -> Command:
    return ShutdownInfo()


READERS: Final[dict[Kind, Callable[[Context, Data], Command]]] = {
    kinds.BROKER_INFO: _read_broker,
    kinds.CONNECTION_INFO: _read_connection,
    kinds.SESSION_INFO: _read_session,
    kinds.PRODUCER_INFO: _read_producer,
    kinds.TRANSACTION_INFO: _read_transaction,
    kinds.DESTINATION_INFO: _read_destination,
    kinds.REMOVE_SUBSCRIPTION_INFO: _read_subscription_end,
    kinds.KEEP_ALIVE_INFO: _read_keep_alive,
    kinds.SHUTDOWN_INFO: _read_shutdown,
    kinds.REMOVE_INFO: _read_removal,
    kinds.CONTROL_COMMAND: _read_remark,
    kinds.FLUSH_COMMAND: _read_remark,
    kinds.CONNECTION_CONTROL: _read_control,
    kinds.PRODUCER_ACK: _read_producer_ack,
}
WRITERS: Final[dict[type[Command], Callable[[Context, Any], Data]]] = {
    ConnectionInfo: _write_connection,
    connections.SessionInfo: _write_session,
    connections.ProducerInfo: _write_producer,
    TransactionInfo: _write_transaction,
    DestinationInfo: _write_destination,
    RemoveSubscriptionInfo: _write_subscription_end,
    RemoveInfo: _write_consumer_end,
    connections.RemoveProducer: _write_removal,
    connections.RemoveSession: _write_removal,
    connections.RemoveConnection: _write_removal,
    connections.BrokerInfo: _write_broker,
    connections.ConnectionControl: _write_control,
    connections.ProducerAck: _write_producer_ack,
    KeepAliveInfo: _write_keep_alive,
    ShutdownInfo: _write_shutdown,
}
