"""Consumers, dispatch and acknowledgement (openwire.md 8.2).

Known exceptions: a consumer's ``optimizedAcknowledge`` and ``noRangeAcks`` are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from brokerproof.reference_broker.openwire import connections
from brokerproof.reference_broker.openwire.commands import (
    Command,
    ConsumerInfo,
    EmptyDispatch,
    MessageAck,
    MessageDispatch,
    MessagePull,
    ProducerMessage,
    as_dispatch,
)
from brokerproof.reference_broker.openwire.translation.messages import core_message, read_message, written_message
from brokerproof.reference_broker.openwire.translation.names import (
    data_of,
    destination_name,
    flag,
    message_data,
    message_text,
    number,
    producer_data,
    text,
    transaction_text,
)
from brokerproof.reference_broker.openwire.wire import consumption as kinds
from brokerproof.reference_broker.openwire.wire import ids, messages
from brokerproof.reference_broker.openwire.wire.kinds import Data, Kind, Throwable

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.reference_broker.openwire.translation.context import Context


# -- from the wire


def _read_consumer(context: Context, data: Data) -> Command:
    return ConsumerInfo(
        context.consumer_name(data["consumerId"]),
        destination_name(data["destination"]),
        number(data["prefetchSize"]),
        dispatch_async=flag(data["dispatchAsync"]),
        selector=text(data["selector"]),
        subscription_name=text(data["subscriptionName"]),
        no_local=flag(data["noLocal"]),
        exclusive=flag(data["exclusive"]),
        priority=number(data["priority"]),
        browser=flag(data["browser"]),
        retroactive=flag(data["retroactive"]),
        pending_limit=number(data["maximumPendingMessageLimit"]),
    )


def _read_control(context: Context, data: Data) -> Command:
    return connections.ConsumerControl(
        context.consumer_name(data["consumerId"]), number(data["prefetch"]), destination_name(data["destination"])
    )


def _read_pull(context: Context, data: Data) -> Command:
    return MessagePull(context.consumer_name(data["consumerId"]), number(data["timeout"]))


def _read_ack(context: Context, data: Data) -> Command:
    cause = data["poisonCause"]
    return MessageAck(
        context.consumer_name(data["consumerId"]),
        number(data["ackType"]),
        message_text(data["lastMessageId"]),
        first_message_id=message_text(data["firstMessageId"]),
        message_count=number(data["messageCount"]),
        destination=destination_name(data["destination"]),
        transaction=transaction_text(data["transactionId"]),
        poison_cause=(cause.message or cause.type or "") if isinstance(cause, Throwable) else "",
    )


def _read_message(_context: Context, data: Data) -> Command:
    return read_message(data)


def _read_dispatch(context: Context, data: Data) -> Command:
    consumer = context.consumer_name(data["consumerId"])
    if data["message"] is None:
        return EmptyDispatch(consumer)
    message = data_of(data["message"], *messages.KINDS)
    found = core_message(message)
    message_id = message["messageId"]
    dispatch = as_dispatch(found, consumer)
    dispatch.redelivery_count = number(data["redeliveryCounter"])
    dispatch.original_destination = destination_name(message["originalDestination"])
    dispatch.sequence = number(message_id["brokerSequenceId"]) if isinstance(message_id, Data) else 0
    return dispatch


# -- to the wire


def _write_consumer(context: Context, info: ConsumerInfo) -> Data:
    return kinds.CONSUMER_INFO.make(
        consumerId=context.consumer(info.consumer_id),
        destination=context.destination(info.destination),
        prefetchSize=info.prefetch,
        dispatchAsync=info.dispatch_async,
        selector=info.selector or None,
        subscriptionName=info.subscription_name or None,
        noLocal=info.no_local,
        exclusive=info.exclusive,
        priority=info.priority,
        browser=info.browser,
        retroactive=info.retroactive,
        maximumPendingMessageLimit=info.pending_limit,
    )


def _write_control(context: Context, info: connections.ConsumerControl) -> Data:
    return kinds.CONSUMER_CONTROL.make(
        consumerId=context.consumer(info.consumer_id),
        prefetch=info.prefetch,
        destination=context.destination(info.destination),
    )


def _write_pull(context: Context, pull: MessagePull) -> Data:
    return kinds.MESSAGE_PULL.make(
        consumerId=context.consumer(pull.consumer_id),
        destination=context.destination(pull.destination),
        timeout=pull.timeout_ms,
    )


def _write_ack(context: Context, ack: MessageAck) -> Data:
    producers = context.renderer.producers
    first = ack.first_message_id
    cause = Throwable("java.lang.Throwable", ack.poison_cause) if ack.poison_cause else None
    return kinds.MESSAGE_ACK.make(
        destination=context.destination(ack.destination),
        transactionId=context.transaction(ack.transaction),
        consumerId=context.consumer(ack.consumer_id),
        ackType=ack.ack_type,
        firstMessageId=message_data(first, 0, None, producers) if first else None,
        lastMessageId=message_data(ack.last_message_id, 0, None, producers),
        messageCount=ack.message_count,
        poisonCause=cause,
    )


def _write_message(context: Context, command: ProducerMessage) -> Data:
    data = context.renderer.message(written_message(command.message))
    data["transactionId"] = context.transaction(command.transaction)
    if command.network and command.message.path:
        data["producerId"] = producer_data(command.producer_id)  # the bridge's, though the message id is another's
    elif command.network:
        # Whoever it was that passed it on: a broker only asks whether somebody did.
        data["brokerPath"] = [Data(ids.BROKER_ID, [context.connection_id])]
    return data


def _write_dispatch(context: Context, dispatch: MessageDispatch) -> Data:
    return Data(
        kinds.MESSAGE_DISPATCH,
        [
            0,
            False,
            context.consumer(dispatch.consumer_id),
            context.destination(dispatch.destination),
            context.renderer.message(dispatch),
            dispatch.redelivery_count,
        ],
    )


def _write_empty(context: Context, dispatch: EmptyDispatch) -> Data:
    return kinds.MESSAGE_DISPATCH.make(consumerId=context.consumer(dispatch.consumer_id))


READERS: Final[dict[Kind, Callable[[Context, Data], Command]]] = {
    kinds.CONSUMER_INFO: _read_consumer,
    kinds.CONSUMER_CONTROL: _read_control,
    kinds.MESSAGE_PULL: _read_pull,
    kinds.MESSAGE_ACK: _read_ack,
    kinds.MESSAGE_DISPATCH: _read_dispatch,
    **dict.fromkeys(messages.KINDS, _read_message),
}
WRITERS: Final[dict[type[Command], Callable[[Context, Any], Data]]] = {
    ConsumerInfo: _write_consumer,
    connections.ConsumerControl: _write_control,
    MessagePull: _write_pull,
    MessageAck: _write_ack,
    ProducerMessage: _write_message,
    MessageDispatch: _write_dispatch,
    EmptyDispatch: _write_empty,
}
