"""Texts, primitive maps, message bodies and the negotiation of OpenWire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.reference_broker.openwire.wire import messages
from brokerproof.reference_broker.openwire.wire.body import decode_body, encode_body
from brokerproof.reference_broker.openwire.wire.connections import WIRE_FORMAT_INFO
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.kinds import Kind
from brokerproof.reference_broker.openwire.wire.negotiation import Agreement, Offer, read_offer
from brokerproof.reference_broker.openwire.wire.packed import PackedProperties
from brokerproof.reference_broker.openwire.wire.primitives import Float, Long, Short, decode_map, encode_map
from brokerproof.reference_broker.openwire.wire.text import decode_text, encode_text
from tests.fast.reference_broker.openwire.wire_data import MAPS, PRIMITIVES, TEXTS


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a", "61"),
        ("\0", "C080"),
        ("é", "C3A9"),
        ("€", "E282AC"),
        ("\U0001f600", "EDA0BDEDB880"),
        ("\ud83d", "EDA0BD"),
        ("x\0\U0001f600", "78C080EDA0BDEDB880"),
    ],
)
def test_modified_utf8(text: str, data: str) -> None:
    assert encode_text(text).hex().upper() == data
    assert decode_text(bytes.fromhex(data)) == text


@given(TEXTS)
def test_every_text_comes_back_and_holds_no_byte_0(text: str) -> None:
    data = encode_text(text)
    assert b"\0" not in data
    # Two lone surrogates that meet are the character that they spell.
    assert decode_text(data) == text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def test_plain_utf8_is_understood() -> None:
    assert decode_text("\U0001f600".encode()) == "\U0001f600"
    with pytest.raises(WireError, match="not modified UTF-8 at byte 1"):
        decode_text(b"a\xff")


@given(MAPS)
def test_maps_come_back(values: dict[str, object]) -> None:
    again = decode_map(encode_map(values))
    assert encode_map(again) == encode_map(values)
    assert list(again) == [decode_text(encode_text(key)) for key in values]


def test_the_tags_are_the_protocols() -> None:
    values = {"d": 1.0, "f": Float(1.0), "s": Short(1), "i": 1, "l": Long(1), "big": 1 << 40}
    data = encode_map(values)
    # key length, key, tag
    found = {key: data[data.index(b"\0" + bytes((len(key),)) + key.encode()) + 2 + len(key)] for key in values}
    assert found == {"d": 7, "f": 8, "s": 4, "i": 5, "l": 6, "big": 6}


def test_a_long_text_has_the_long_form() -> None:
    short, long = encode_map({"t": "x" * 8190}), encode_map({"t": "x" * 8191})
    assert (short[7], long[7]) == (9, 13)
    assert decode_map(long) == {"t": "x" * 8191}


@pytest.mark.parametrize("value", [object(), {1, 2}, 1 << 70])
def test_what_is_no_primitive_is_refused(value: object) -> None:
    with pytest.raises(WireError):
        encode_map({"a": value})


BODIES: list[tuple[Kind, st.SearchStrategy[object]]] = [
    (messages.TEXT_MESSAGE, st.text()),
    (messages.BYTES_MESSAGE, st.binary()),
    (messages.OBJECT_MESSAGE, st.binary()),
    (messages.MAP_MESSAGE, MAPS),
    (messages.STREAM_MESSAGE, st.lists(PRIMITIVES, max_size=4)),
]


@given(data=st.data(), compress=st.booleans())
def test_bodies_come_back(data: st.DataObject, compress: bool) -> None:
    kind, strategy = data.draw(st.sampled_from(BODIES))
    body = data.draw(strategy)
    message = kind.make(content=encode_body(kind, body, compress=compress), compressed=compress)
    assert encode_body(kind, decode_body(message)) == encode_body(kind, body)


def test_empty_bodies() -> None:
    assert decode_body(messages.TEXT_MESSAGE.make()) is None
    assert decode_body(messages.TEXT_MESSAGE.make(content=b"\xff\xff\xff\xff")) is None
    assert encode_body(messages.TEXT_MESSAGE, "") == b"\0\0\0\0"
    assert encode_body(messages.MESSAGE, None) is None
    with pytest.raises(WireError, match="has no body"):
        encode_body(messages.MESSAGE, "x")


def test_a_compressed_body_does_not_grow_without_limit() -> None:
    content = encode_body(messages.TEXT_MESSAGE, "x" * 100_000, compress=True)
    assert content is not None
    message = messages.TEXT_MESSAGE.make(content=content, compressed=True)
    with pytest.raises(WireError, match="inflates to more than 1000"):
        decode_body(message, limit=1000)
    for bad in (content[:-5], b"junk"):
        with pytest.raises(WireError):
            decode_body(messages.TEXT_MESSAGE.make(content=bad, compressed=True))


def test_offers_are_read_as_they_were_written() -> None:
    offer = Offer(version=11, tight=False, cache_size=0, read_ms=5, initial_delay_ms=6, frame_max=7, host="h")
    again = read_offer(offer.info())
    assert [getattr(again, name) for name in Offer.__slots__] == [getattr(offer, name) for name in Offer.__slots__]


@pytest.mark.parametrize(
    ("mine", "theirs", "name", "agreed"),
    [
        (Offer(), Offer(version=9), "version", 9),
        (Offer(), Offer(version=5), "version", 1),
        (Offer(), Offer(version=99), "version", 12),
        (Offer(), Offer(tight=False), "tight", False),
        (Offer(), Offer(stack_traces=False), "stack_traces", False),
        (Offer(cache_size=500), Offer(), "cache_size", 500),
        (Offer(cache_size=0), Offer(), "cache_size", 0),
        (Offer(), Offer(cache_size=50), "cache_size", 0),
        (Offer(frame_max=10), Offer(frame_max=20), "frame_max", 10),
        (Offer(frame_max=10), Offer(frame_max=0), "frame_max", 10),
    ],
)
def test_negotiation(mine: Offer, theirs: Offer, name: str, agreed: object) -> None:
    assert getattr(Agreement(mine, theirs), name) == agreed
    assert getattr(Agreement(theirs, mine), name) == agreed


def test_bad_offers() -> None:
    with pytest.raises(WireError, match="magic"):
        read_offer(WIRE_FORMAT_INFO.make(magic=b"ActiveMX", version=12))
    with pytest.raises(WireError, match="version 0 is below 1"):
        read_offer(WIRE_FORMAT_INFO.make(version=0))
    wrong = encode_map({"MaxInactivityDuration": 30000})
    with pytest.raises(WireError, match="must be long"):
        read_offer(WIRE_FORMAT_INFO.make(version=12, marshalledProperties=wrong))
    nothing = read_offer(WIRE_FORMAT_INFO.make(version=12))
    assert (nothing.tight, nothing.cache_size, nothing.read_ms) == (False, 0, 0)


@pytest.mark.parametrize(
    "data",
    [encode_map({"one": 1, "null": None, "list": [1], "long": Long(2)}), b"\0\0\0\2\0\1a\5\0\0\0\1", b"\xff" * 6],
)
def test_properties_that_nobody_changed_are_handed_on_as_they_came(data: bytes) -> None:
    packed = PackedProperties(data)
    assert packed.repacked(packed.unpack()) is data
    assert packed.repacked(dict(packed.unpack())) is data


@pytest.mark.parametrize("change", [{"one": True}, {"one": 2}, {"new": 1}, {}])
def test_what_the_broker_changed_joins_what_only_a_consumer_understands(change: dict[str, int]) -> None:
    packed = PackedProperties(encode_map({"one": 1, "list": [1], "two": 2}))
    properties = {**packed.unpack(), **change}
    if not change:
        del properties["two"]
    written = decode_map(packed.repacked(properties))
    assert repr(written) == repr(
        {"one": properties["one"], "list": [1], **{n: v for n, v in properties.items() if n != "one"}}
    )
