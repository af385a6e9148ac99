"""OpenWire's bytes: the worked examples of the specification, and everything there and back in every version, loose and
tight, with and without caches.
"""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.openwire.wire import connections, consumption, ids, messages, responses
from brokerproof.reference_broker.openwire.wire.codec import Codec, FrameDecoder
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.frame_template import FrameTemplates
from brokerproof.reference_broker.openwire.wire.kinds import Data
from brokerproof.reference_broker.openwire.wire.primitives import Long, decode_map, encode_map
from brokerproof.reference_broker.openwire.wire.registry import KINDS
from tests.fast.reference_broker.openwire.wire_data import Maker
from tests.tools import examples

CONNECTION = ids.CONNECTION_ID.make(value="ID:a-1:1")
NAME = "01 00 08 49 44 3A 61 2D 31 3A 31"
ONE = "00 00 00 00 00 00 00 01"
VERSIONS = (1, 9, 10, 11, 12)


def hexed(text: str) -> bytes:
    return bytes.fromhex(text.replace("\n", " "))


ACK = consumption.MESSAGE_ACK.make(
    commandId=9,
    destination=ids.QUEUE.make(physicalName="Q"),
    consumerId=ids.CONSUMER_ID.make(connectionId="ID:a-1:1", sessionId=1, value=1),
    ackType=2,
    lastMessageId=ids.MESSAGE_ID.make(
        producerId=ids.PRODUCER_ID.make(connectionId="ID:a-1:1", value=1, sessionId=1),
        producerSequenceId=1,
        brokerSequenceId=7,
    ),
    messageCount=1,
)
WIRE_FORMAT = connections.WIRE_FORMAT_INFO.make(
    version=12,
    marshalledProperties=encode_map(
        {
            "MaxInactivityDuration": Long(2000),
            "MaxInactivityDurationInitalDelay": Long(1000),
            "StackTraceEnabled": False,
        }
    ),
)

EXAMPLES: dict[str, tuple[Data, str]] = {
    "E1": (connections.KEEP_ALIVE_INFO.make(), "00 00 00 06 0A 00 00 00 00 00"),
    "E2": (responses.ANSWER.make(correlationId=1), "00 00 00 0A 1E 00 00 00 00 00 00 00 00 01"),
    "E3": (
        WIRE_FORMAT,
        "00 00 00 76 01 41 63 74 69 76 65 4D 51 00 00 00 0C 01 00 00 00 64 00 00 00 03 00 15"
        + b"MaxInactivityDuration".hex()
        + "06 00 00 00 00 00 00 07 D0 00 20"
        + b"MaxInactivityDurationInitalDelay".hex()
        + "06 00 00 00 00 00 00 03 E8 00 11"
        + b"StackTraceEnabled".hex()
        + "01 00",
    ),
    "E4": (
        connections.CONNECTION_INFO.make(
            commandId=1, responseRequired=True, connectionId=CONNECTION, clientId="cli", manageable=True
        ),
        f"00 00 00 22 03 00 00 00 01 01 01 78 {NAME} 01 00 03 63 6C 69 00 00 00 00 01 00 00 00 00",
    ),
    "E5": (
        ACK,
        " ".join(
            (
                f"00 00 00 61 16 00 00 00 09 00 01 64 01 00 01 51 00 01 7A {NAME} {ONE} {ONE} 02 00 01 6E",
                f"00 01 7B {NAME}",
                f"{ONE} {ONE} {ONE} 00 00 00 00 00 00 00 07 00 00 00 01 00",
            )
        ),
    ),
    "E6a": (
        connections.REMOVE_INFO.make(
            commandId=3, responseRequired=True, objectId=CONNECTION, lastDeliveredSequenceId=-2
        ),
        f"00 00 00 1B 0C 00 00 00 03 01 01 78 {NAME} FF FF FF FF FF FF FF FE",
    ),
    "E6b": (connections.SHUTDOWN_INFO.make(commandId=4), "00 00 00 06 0B 00 00 00 04 00"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples(name: str) -> None:
    command, text = EXAMPLES[name]
    codec = Codec(12)
    assert codec.encode(command) == hexed(text)
    assert codec.decode(hexed(text)[4:]) == command


@pytest.mark.parametrize(("answer", "last"), [(False, "00"), (True, "01")])
def test_worked_example_of_the_tight_encoding(answer: bool, last: str) -> None:
    command = connections.KEEP_ALIVE_INFO.make(responseRequired=answer)
    expected = hexed(f"00 00 00 07 0A 01 {last} 00 00 00 00")
    codec = Codec(12, tight=True)
    assert codec.encode(command) == expected
    assert codec.decode(expected[4:]) == command


def test_worked_example_of_the_cache() -> None:
    codec, peer = Codec(12, cache_size=1024), Codec(12, cache_size=1024)
    command = connections.CONNECTION_INFO.make(connectionId=CONNECTION)
    first, second = codec.encode(command), codec.encode(command)
    assert hexed(f"01 00 00 01 78 {NAME}") in first
    assert second[10:13] == hexed("00 00 00")
    assert [peer.decode(frame[4:]) for frame in (first, second)] == [command, command]


@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("cache_size", [0, 1024])
@given(seed=st.integers(0, 2**64), version=st.sampled_from(VERSIONS), traces=st.booleans(), cut=st.integers(0, 10_000))
@settings(max_examples=examples(30), deadline=None)
def test_there_and_back(tight: bool, cache_size: int, seed: int, version: int, traces: bool, cut: int) -> None:
    maker = Maker(seed, version, traces=traces)
    sent = [maker.command() for _ in range(5)]
    mine, theirs = (Codec(version, tight=tight, cache_size=cache_size, stack_traces=traces) for _ in range(2))
    stream = b"".join(mine.encode(command) for command in sent)
    decoder = FrameDecoder()
    frames = decoder.feed(stream[:cut]) + decoder.feed(stream[cut:])
    assert [theirs.decode(frame) for frame in frames] == sent
    assert decoder.buffered_bytes == 0


@pytest.mark.parametrize("tight", [False, True])
def test_a_cache_survives_more_values_than_it_has_places(tight: bool) -> None:
    mine, theirs = (Codec(12, tight=tight, cache_size=150) for _ in range(2))
    for number in [*range(400), *range(390, 410), *range(5)]:
        command = connections.CONNECTION_INFO.make(connectionId=ids.CONNECTION_ID.make(value=f"c{number}"))
        assert theirs.decode(mine.encode(command)[4:]) == command


@given(frame=st.binary(max_size=60), tight=st.booleans(), cache=st.booleans(), version=st.sampled_from(VERSIONS))
@settings(max_examples=examples(100), deadline=None)
def test_whatever_comes_is_a_command_or_a_wire_error(frame: bytes, tight: bool, cache: bool, version: int) -> None:
    codec = Codec(version, tight=tight, cache_size=1024 if cache else 0, stack_traces=True)
    with contextlib.suppress(WireError):
        codec.decode(frame)


@given(
    seed=st.integers(0, 2**64),
    version=st.sampled_from(VERSIONS),
    tight=st.booleans(),
    place=st.floats(0, 0.999),
    byte=st.integers(0, 255),
    keep=st.floats(0, 1),
)
@settings(max_examples=examples(100), deadline=None)
def test_whatever_is_changed_in_a_frame_is_a_command_or_a_wire_error(
    seed: int, version: int, tight: bool, place: float, byte: int, keep: float
) -> None:
    frame = bytearray(Codec(version, tight=tight).encode(Maker(seed, version).command())[4:])
    frame[int(len(frame) * place)] = byte
    with contextlib.suppress(WireError):
        Codec(version, tight=tight).decode(bytes(frame))
    with contextlib.suppress(WireError):
        Codec(version, tight=tight).decode(bytes(frame[: int(len(frame) * keep)]))


@pytest.mark.parametrize("size", ["FF FF FF FF", "80 00 00 00", "7F FF FF FF", "00 00 00 00"])
def test_an_absurd_size_is_refused_at_once_and_for_ever(size: str) -> None:
    decoder = FrameDecoder(1000)
    for _ in range(2):
        with pytest.raises(WireError, match="1 to 1000 are allowed"):
            decoder.feed(hexed(size))
    assert decoder.buffered_bytes == 0


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ("63", "data type 99 is no command"),
        ("78 00", "data type 120 is no command"),
        ("0A 00 00 00 00 00 07", "1 bytes are left behind"),
        ("0A 00 00", "an integer of 4 bytes, but 2 are left"),
        ("03 00 00 00 01 00 01 77", "data type 119 is unknown in version 12"),
        ("0E 00 00 00 01 00 01 FF FF 41", "a text of 65535 bytes, but 1 are left"),
        ("12 00 00 00 01 00 00 00 00 00 00 00 00 00 01 7F FF FF FF", "a byte sequence of 2147483647 bytes"),
    ],
)
def test_what_is_wrong_is_said(frame: str, words: str) -> None:
    with pytest.raises(WireError, match=words):
        Codec(12).decode(hexed(frame))


def test_a_null_command_is_dropped() -> None:
    assert Codec(12).decode(b"\0") is None


def test_nesting_has_an_end() -> None:
    deep: dict[str, object] = {}
    for _ in range(200):
        deep = {"a": deep}
    with pytest.raises(WireError, match="more than 127 levels"):
        decode_map(encode_map(deep))


def test_fields_of_later_versions_are_not_written() -> None:
    info = consumption.CONSUMER_INFO.make(clientId="c", subscriptionName="s")
    old, new = Codec(9).encode(info), Codec(10).encode(info)
    assert len(new) == len(old) + 4
    decoded = Codec(9).decode(old[4:])
    assert decoded is not None
    assert (decoded["clientId"], decoded["subscriptionName"]) == (None, "s")


def test_values_that_openwire_cannot_say_are_refused() -> None:
    with pytest.raises(WireError, match="does not fit into 32 bits"):
        Codec(12).encode(connections.KEEP_ALIVE_INFO.make(commandId=1 << 31))
    with pytest.raises(WireError, match="too long for the tight encoding"):
        Codec(12, tight=True).encode(connections.CONTROL_COMMAND.make(command="x" * 40000))
    with pytest.raises(WireError, match="does not fit into an unsigned short"):
        Codec(12).encode(connections.CONTROL_COMMAND.make(command="x" * 70000))
    with pytest.raises(WireError, match="has no field 'size'"):
        connections.KEEP_ALIVE_INFO.make(size=1)
    with pytest.raises(WireError, match="ProducerAck exists since version 3, not in 1"):
        Codec(1).encode(connections.PRODUCER_ACK.make())
    with pytest.raises(WireError, match="version 13 is not spoken"):
        Codec(13)


def test_numbers_are_unique_and_known() -> None:
    assert {number for number, kind in KINDS.items() if kind.family == "message"} == {1, *range(23, 30)}
    assert messages.TEXT_MESSAGE is KINDS[28]


#: What changes from one message to the next, in a message of every size of longs, texts and bytes.
VARIED: dict[str, list[object]] = {
    "commandId": [0, 9],
    "expiration": [0, 1, 0xFFFF, 0x10000, 0xFFFFFFFF, 1 << 32, -1],
    "correlationId": [None, "", "a", "\0", "é"],
    "content": [None, b"", b"body"],
    "groupSequence": [0, -1],
    "persistent": [False, True],
    "priority": [4, 9],
    "replyTo": [None, ids.QUEUE.make(physicalName="a"), ids.TOPIC.make(physicalName="a")],
    "destination": [None, *(ids.QUEUE.make(physicalName=f"d{number}") for number in range(12))],
    "brokerPath": [None, [ids.BROKER_ID.make(value="b")]],
}


@pytest.mark.parametrize("cache_size", [0, 110])
@given(seed=st.integers(0, 2**64), version=st.sampled_from(VERSIONS))
@settings(max_examples=examples(25), deadline=None)
def test_what_is_alike_is_written_and_read_as_if_it_were_not(cache_size: int, seed: int, version: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - no secrets here
    quick, slow, reader, peer = (Codec(version, tight=True, cache_size=cache_size) for _ in range(4))
    producer = ids.PRODUCER_ID.make(connectionId="p", value=1)
    fields = {name: draw.choice(values) for name, values in VARIED.items()}
    for number in range(40):
        name = draw.choice(list(VARIED))
        fields[name] = draw.choice(VARIED[name])
        message = draw.choice([messages.TEXT_MESSAGE, messages.BYTES_MESSAGE]).make(**fields)
        message["messageId"] = ids.MESSAGE_ID.make(producerId=producer, producerSequenceId=number)
        command = message
        if draw.random() < 0.5:
            command = consumption.MESSAGE_DISPATCH.make(message=message, destination=message["destination"])
        frame = quick.encode(command)
        slow._templates, peer._layouts = FrameTemplates(), {}  # field by field
        assert frame == slow.encode(command)
        assert reader.decode(frame[4:]) == peer.decode(frame[4:]) == command


@given(seed=st.integers(0, 2**64), place=st.floats(0, 0.999), byte=st.integers(0, 255), keep=st.floats(0, 1))
@settings(max_examples=examples(40), deadline=None)
def test_whatever_is_changed_in_a_frame_like_the_last_is_read_the_same_way(
    seed: int, place: float, byte: int, keep: float
) -> None:
    message = Maker(seed, 12).data(messages.TEXT_MESSAGE, 1)
    frame = Codec(12, tight=True).encode(message)[4:]
    damaged = bytearray(frame)
    damaged[2 + frame[1] + int((len(frame) - 2 - frame[1]) * place)] = byte
    for changed in (bytes(damaged), frame[: int(len(frame) * keep)], frame + b"\0"):
        quick = Codec(12, tight=True)
        quick.decode(frame)
        assert outcome(quick, changed) == outcome(Codec(12, tight=True), changed)


def outcome(codec: Codec, frame: bytes) -> object:
    try:
        return codec.decode(frame)
    except WireError as error:
        return str(error)
