"""What is heard between a client and a broker: commands of both directions, whatever the two have agreed on."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.openwire.commands import (
    Command,
    ConsumerInfo,
    MessageAck,
    MessageDispatch,
    ProducerMessage,
    Response,
    WireFormatInfo,
    as_dispatch,
)
from brokerproof.reference_broker.openwire.framing import ClientFraming, OpenWireFraming
from brokerproof.reference_broker.openwire.overheard import TO_BROKER, TO_CLIENT, Overheard
from brokerproof.reference_broker.openwire.wire import consumption, ids
from brokerproof.reference_broker.openwire.wire.codec import Codec
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.kinds import Data
from brokerproof.reference_broker.openwire.wire.negotiation import Offer
from brokerproof.reference_broker.session.framing import Limits

QUEUE = "queue://q0.run"


def heard(overheard: Overheard, direction: int, data: bytes, piece: int) -> list[Command]:
    found: list[Command] = []
    for place in range(0, len(data), piece):
        found += overheard.feed(direction, data[place : place + piece])
    return found


@pytest.mark.parametrize("piece", [1, 7, 100_000])
@pytest.mark.parametrize("tight", [True, False])
@pytest.mark.parametrize("cache_size", [0, 1024])
def test_both_directions_are_understood(piece: int, cache_size: int, *, tight: bool) -> None:
    client = ClientFraming(Limits(), "ID:c", Offer(tight=tight, cache_size=cache_size))
    broker = OpenWireFraming(Limits(), Offer())
    overheard = Overheard()
    offers = client.encode(WireFormatInfo()), broker.encode(WireFormatInfo())
    client.feed(offers[1])
    broker.feed(offers[0])
    assert heard(overheard, TO_BROKER, offers[0], piece) == []
    assert heard(overheard, TO_CLIENT, offers[1], piece) == []
    for number in range(1, 4):
        message = Message(f"ID:p:1:1:{number}", QUEUE, b"text", timestamp_ms=7, expiration_ms=9, path=("ID:b",))
        sent = ProducerMessage(message, command_id=number, response_required=True)
        asked = client.encode(ConsumerInfo("bridge-1", QUEUE, 10)) + client.encode(sent)
        consumer, there = heard(overheard, TO_BROKER, asked, piece)
        assert isinstance(consumer, ConsumerInfo)
        assert isinstance(there, ProducerMessage)
        assert (consumer.destination, there.command_id, there.response_required) == (QUEUE, number, True)
        assert (there.message.message_id, there.message.path) == (message.message_id, ("ID:b",))
        given = as_dispatch(message, consumer.consumer_id)
        told = broker.encode(given) + broker.encode(Response(number))
        dispatch, answer = heard(overheard, TO_CLIENT, told, piece)
        assert isinstance(dispatch, MessageDispatch)
        assert isinstance(answer, Response)
        assert (dispatch.consumer_id, dispatch.message_id) == (consumer.consumer_id, message.message_id)
        assert (dispatch.timestamp_ms, dispatch.expiration_ms, answer.correlation_id) == (7, 9, number)
        ack = client.encode(MessageAck("bridge-1", 4, message.message_id, destination=QUEUE))
        (settled,) = heard(overheard, TO_BROKER, ack, piece)
        assert isinstance(settled, MessageAck)
        assert settled.last_message_id == message.message_id


def test_a_bridge_says_what_its_consumer_refuses() -> None:
    filtered = Data(consumption.NETWORK_BRIDGE_FILTER, [Data(ids.BROKER_ID, ["ID:b2"]), 9, 9])
    info = consumption.CONSUMER_INFO.make(
        consumerId=Data(ids.CONSUMER_ID, ["ID:c", 1, 1]),
        destination=Data(ids.QUEUE, ["q0"]),
        additionalPredicate=filtered,
        networkSubscription=True,
    )
    for tight in (True, False):
        frame = Codec(12, tight=tight, cache_size=1024).encode(info)[4:]
        found = Codec(12, tight=tight, cache_size=1024).decode(frame)
        assert found is not None
        assert found["additionalPredicate"] == filtered


def test_what_is_no_frame_is_an_error() -> None:
    with pytest.raises(WireError, match="a frame of"):
        Overheard().feed(TO_BROKER, b"\xff" * 8)
