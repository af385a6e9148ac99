"""The STOMP codec: what is written is read back in every version and chunking; what is malformed is refused at once.

Method: round trips and chunkings are properties over generated frames and damaged bytes; every rule of the
specification has a row in the malformed table.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.session.framing import Limits
from brokerproof.reference_broker.stomp.codec import BEAT, FrameDecoder, encode
from brokerproof.reference_broker.stomp.frames import (
    HEARTBEAT,
    V10,
    V11,
    V12,
    VERSIONS,
    Frame,
    Heartbeat,
    StompProtocolError,
)
from tests.tools import examples

RESERVED = {"content-length", "version", "accept-version"}
anything = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
escaped_name = anything.filter(lambda text: text and text not in RESERVED)
# Without escapes a line end has no spelling, and the reader trims.
plain_value = anything.filter(lambda text: "\n" not in text and text == text.strip())
plain_name = plain_value.filter(lambda text: text and ":" not in text and text not in RESERVED)


def frames(version: str) -> st.SearchStrategy[Frame]:
    """Frames that this version can write; only SEND, MESSAGE and ERROR have a body."""
    names, values = (plain_name, plain_value) if version == V10 else (escaped_name, anything)
    headers = st.dictionaries(names, values, max_size=5)
    bodied = st.builds(Frame, st.sampled_from(["SEND", "MESSAGE", "ERROR"]), headers, st.binary(max_size=60))
    bare = st.builds(Frame, st.sampled_from(["SUBSCRIBE", "ACK", "RECEIPT", "DISCONNECT"]), headers)
    hello = st.builds(Frame, st.just("CONNECTED"), st.dictionaries(plain_name, plain_value, max_size=3))
    return st.one_of(bodied, bare, hello.map(lambda frame: _with(frame, "version", version)))


def _with(frame: Frame, name: str, value: str) -> Frame:
    return Frame(frame.command, {**frame.headers, name: value}, frame.body)


def _expected(item: Frame | Heartbeat) -> Frame | Heartbeat:
    """What the encoder adds."""
    if isinstance(item, Frame) and item.body:
        return _with(item, "content-length", str(len(item.body)))
    return item


def decoder_for(version: str, limits: Limits | None = None) -> FrameDecoder:
    decoder = FrameDecoder(limits)
    decoder.feed(encode(Frame("CONNECTED", {"version": version})))
    assert decoder.version == version
    return decoder


def outcome(decoder: FrameDecoder, chunks: list[bytes]) -> tuple[list[Frame | Heartbeat], str]:
    """All frames that the chunks give, and the text of the error that ends them (empty: none)."""
    got: list[Frame | Heartbeat] = []
    for chunk in chunks:
        try:
            got += decoder.feed(chunk)
        except StompProtocolError as error:
            return got + error.frames, error.text
    return got, ""


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
@settings(max_examples=examples(25), deadline=None)
def test_what_is_written_is_read_back(version: str, data: st.DataObject) -> None:
    sent = data.draw(st.lists(st.one_of(frames(version), st.just(HEARTBEAT)), max_size=5))
    wire = b"".join(BEAT if isinstance(item, Heartbeat) else encode(item, version) for item in sent)
    places = data.draw(st.lists(st.integers(0, 2000), max_size=8))
    got, error = outcome(decoder_for(version), cut(wire, places))
    assert error == ""
    assert got == [_expected(item) for item in sent]


@given(
    start=st.lists(frames(V12), max_size=3),
    damage=st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3)), max_size=3),
    tail=st.binary(max_size=30),
    places=st.lists(st.integers(0, 600), max_size=12),
)
@settings(deadline=None)
@example(start=[], damage=[], tail=b"SUBSCRIBE\n\n" + b"x" * 30, places=[12])
@example(start=[], damage=[], tail=b"SEND\na:" + b"b" * 70 + b"\0\n", places=[40, 72, 77])
@example(start=[], damage=[], tail=b"SEND\n\n" + b"x" * 70 + b"\0", places=[76])
@example(start=[], damage=[], tail=b"ABCDEFGHIJKLMNOP\n", places=list(range(17)))
def test_any_chunking_gives_the_same_frames_and_the_same_error(
    start: list[Frame], damage: list[tuple[int, bytes]], tail: bytes, places: list[int]
) -> None:
    wire = bytearray(b"".join(encode(frame) for frame in start) + tail)
    for place, junk in damage:
        at = place % (len(wire) + 1)
        wire[at : at + len(junk)] = junk
    limits = Limits(max_headers=4, max_header_bytes=64, max_body_bytes=64)
    whole = outcome(decoder_for(V12, limits), [bytes(wire)])
    assert outcome(decoder_for(V12, limits), cut(bytes(wire), places)) == whole
    assert outcome(decoder_for(V12, limits), [bytes([byte]) for byte in wire]) == whole


LINES = st.text(st.sampled_from("ab:\\\\n \r\0\t\u00a0"), max_size=6) | st.sampled_from(
    ["content-length:1", "content-length:x", "receipt:r", "a:b", "a:c", "a:" + "b" * 40, ":v", "n:", "a:b:c"]
)


@given(
    version=st.sampled_from(VERSIONS),
    command=st.sampled_from(["SEND", "ACK", "CONNECT", "HELLO", ""]),
    lines=st.lists(LINES, max_size=6),
    tail=st.sampled_from([b"", b"x", b"\0", b"x\0", b"\0\n"]),
)
@settings(max_examples=examples(50), deadline=None)
def test_headers_that_come_as_a_whole_are_read_as_if_they_came_line_by_line(
    version: str, command: str, lines: list[str], tail: bytes
) -> None:
    wire = "\n".join([command, *lines, "", ""]).encode() + tail
    limits = Limits(max_headers=4, max_header_bytes=64, max_body_bytes=64)
    whole = outcome(decoder_for(version, limits), [wire])
    assert outcome(decoder_for(version, limits), [bytes([byte]) for byte in wire]) == whole


MALFORMED = [
    # version, bytes, what the error must show
    (V12, b"HELLO\n\n\0", "'HELLO' is unknown"),
    (V12, b"send\n\n\0", "'send' is unknown"),
    (V12, b"GET / HTTP/1.1\r\n", "'GET / HTTP/1' begins no command"),
    (V12, b"\0", "NUL inside the command line"),
    (V12, b"SEND\0", "NUL inside the command line 'SEND'"),
    (V12, b"\rSEND\n", "a CR between frames"),
    (V12, b"SEND\nno-colon\n\n\0", "'no-colon' has no name before a colon"),
    (V12, b"SEND\n:value\n\n\0", "':value' has no name before a colon"),
    (V12, b"SEND\na:b\0", "NUL inside the header line 'a:b'"),
    (V12, b"SEND\na:\\t\n\n\0", r"escape '\\t' does not exist in STOMP 1.2"),
    (V12, b"SEND\na:b\\\n\n\0", r"escape '\\' does not exist"),
    (V11, b"SEND\na:\\r\n\n\0", r"escape '\\r' does not exist in STOMP 1.1"),
    (V11, b"SEND\r\n\r\n\0", "is unknown"),
    (V12, b"SEND\na:\xff\n\n\0", "is not UTF-8"),
    (V12, b"SEND\ncontent-length:x\n\n\0", "content-length:x is not a length"),
    (V12, b"SEND\ncontent-length:-1\n\n\0", "content-length:-1 is not a length"),
    (V12, b"SEND\ncontent-length:1_0\n\n\0", "content-length:1_0 is not a length"),
    (V12, "SEND\ncontent-length:\u0663\n\n\0".encode(), "is not a length"),
    (V12, b"SEND\ncontent-length:2\n\nabc\0", "no NUL follows the 2 bytes"),
    (V12, b"SEND\ncontent-length:999999999999999\n\n", "larger than 100 bytes"),
    (V12, b"SEND\n\n" + b"x" * 101, "larger than 100 bytes"),
    (V12, b"SUBSCRIBE\nid:1\n\nbody\0", "only SEND, MESSAGE and ERROR may have one"),
    (V11, b"ACK\ncontent-length:1\n\nx\0", "only SEND, MESSAGE and ERROR may have one"),
    (V12, b"SEND\n" + b"a:b\n" * 5 + b"\n\0", "more than 4 headers"),
    (V12, b"SEND\na:" + b"b" * 100, "longer than 64 bytes"),
]


@pytest.mark.parametrize(("version", "wire", "shown"), MALFORMED)
def test_malformed_input_is_refused_with_value_and_remedy(version: str, wire: bytes, shown: str) -> None:
    decoder = decoder_for(version, Limits(max_headers=4, max_header_bytes=64, max_body_bytes=100))
    with pytest.raises(StompProtocolError) as caught:
        decoder.feed(wire)
    assert shown in caught.value.text
    assert "; " in caught.value.text, "no remedy"
    with pytest.raises(StompProtocolError, match="broken already"):
        decoder.feed(b"SEND\n\n\0")


def test_the_error_carries_the_receipt_and_the_frames_before_it() -> None:
    decoder = decoder_for(V12)
    with pytest.raises(StompProtocolError) as caught:
        decoder.feed(b"\nSEND\na:1\n\n\0SEND\nreceipt:r7\nbroken\n\n\0")
    assert caught.value.frames == [HEARTBEAT, Frame("SEND", {"a": "1"})]
    assert caught.value.receipt == "r7"


def test_a_claimed_size_is_neither_waited_for_nor_allocated() -> None:
    decoder = decoder_for(V12, Limits(max_body_bytes=10**12))
    assert decoder.feed(b"SEND\ncontent-length:1000000000000\n\nabc") == []
    assert decoder.buffered_bytes == 3


def test_of_a_repeated_header_the_first_counts() -> None:
    assert decoder_for(V12).feed(b"SEND\na:1\na:2\n\n\0") == [Frame("SEND", {"a": "1"})]


def test_carriage_returns_end_lines_in_1_0_too_where_nothing_else_could_be_meant() -> None:
    """Blanks around everything are cut off there, and so somebody at a terminal can try it."""
    wire = b"SEND\r\na: 1\r\n\r\nb\0\r\n"
    assert decoder_for(V10).feed(wire) == [Frame("SEND", {"a": "1"}, b"b"), HEARTBEAT]


def test_carriage_returns_end_lines_in_1_2_and_belong_to_values_in_1_1() -> None:
    assert decoder_for(V12).feed(b"SEND\r\na:1\r\n\r\nb\0\r\n") == [Frame("SEND", {"a": "1"}, b"b"), HEARTBEAT]
    assert decoder_for(V11).feed(b"SEND\na:1\r\n\n\0") == [Frame("SEND", {"a": "1\r"})]


def test_connect_is_not_unescaped_and_sets_the_version() -> None:
    decoder = FrameDecoder()
    wire = b"CONNECT\r\naccept-version:1.0,1.1\r\npasscode: a\\c:b\r\n\r\n\0SEND\na:\\c\n\n\0"
    assert decoder.feed(wire) == [
        Frame("CONNECT", {"accept-version": "1.0,1.1", "passcode": "a\\c:b"}),
        Frame("SEND", {"a": ":"}),
    ]
    assert decoder.version == V11


@pytest.mark.parametrize(
    ("accepted", "version"), [(None, V10), ("1.0", V10), ("1.1,1.0", V11), ("1.2 , 1.1", V12), ("9.9", V10)]
)
def test_the_decoder_follows_the_version(accepted: str | None, version: str) -> None:
    decoder = FrameDecoder()
    headers = {} if accepted is None else {"accept-version": accepted}
    decoder.feed(encode(Frame("STOMP", headers)))
    assert decoder.version == version


def test_1_0_has_no_escapes_and_is_trimmed() -> None:
    assert decoder_for(V10).feed(b"SEND\ndestination: /queue/a\\n \n\n\0") == [
        Frame("SEND", {"destination": "/queue/a\\n"})
    ]


@pytest.mark.parametrize(
    ("frame", "version"),
    [
        (Frame("SEND", {"a": "x\0"}), V12),
        (Frame("SEND", {"": "x"}), V12),
        (Frame("SEND", {"a": "x\ny"}), V10),
        (Frame("SEND", {"a:b": "x"}), V10),
        (Frame("CONNECT", {"login": "a\nadmin:true"}), V12),
    ],
)
def test_what_cannot_be_written_is_an_error_of_ours(frame: Frame, version: str) -> None:
    with pytest.raises(ValueError, match="header"):
        encode(frame, version)
