"""The STOMP client's session before a foreign broker: what it may leave out or ask for, and what is its fault."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.instant import NS_PER_MS
from brokerproof.reference_broker.inactivity import DocumentedMonitor
from brokerproof.reference_broker.session.notice import Closed, Connected, Delivered, Failed, Receipt
from brokerproof.reference_broker.stomp.client import ClientSession
from brokerproof.reference_broker.stomp.frames import HEARTBEAT, V10, V11, V12, Frame, StompProtocolError


def session() -> ClientSession:
    return ClientSession(DocumentedMonitor("tcp://broker", 0))


def sent(client: ClientSession) -> list[Frame]:
    frames = []
    while (frame := client.next_output(0)) is not None:
        assert isinstance(frame, Frame)
        frames.append(frame)
    return frames


def test_connect_offers_all_versions_and_only_what_was_asked_for() -> None:
    client = session()
    client.connect()
    client.connect(heart_beat_ms=(5, 6), client_id="c", host="h", login="l", passcode="p", versions=(V11,))
    first, second = sent(client)
    assert first.headers == {"accept-version": "1.2,1.1,1.0", "host": "localhost"}
    assert second.headers == {
        "accept-version": "1.1",
        "host": "h",
        "heart-beat": "5,6",
        "client-id": "c",
        "login": "l",
        "passcode": "p",
    }


@pytest.mark.parametrize(
    ("ours", "theirs", "first_due_ms"),
    [
        # The slower of promise and wish in each direction, none if either is 0; R = 2 x incoming, beats every
        # outgoing/2.
        ((1000, 0), "0,3000", 1500),
        ((3000, 0), "0,1000", 1500),
        ((0, 1000), "400,0", 2000),
        ((0, 400), "1000,0", 2000),
        ((1000, 1000), "0,0", None),
        ((0, 0), "1000,1000", None),
        ((1000, 1000), None, None),
    ],
)
def test_heart_beats_are_agreed_as_stomp_says(
    ours: tuple[int, int], theirs: str | None, first_due_ms: int | None
) -> None:
    client = session()
    client.connect(heart_beat_ms=ours)
    headers = {"version": "1.2"} if theirs is None else {"version": "1.2", "heart-beat": theirs}
    client.receive(Frame("CONNECTED", headers), 0)
    assert client.next_due_ns() == (None if first_due_ms is None else first_due_ms * NS_PER_MS)


def test_it_beats_and_gives_up_on_a_silent_broker() -> None:
    client = session()
    client.connect(heart_beat_ms=(1000, 1000))
    sent(client)
    client.receive(Frame("CONNECTED", {"version": "1.2", "heart-beat": "1000,1000"}), 0)
    assert client.tick(1500 * NS_PER_MS) == []
    assert client.next_output(1500 * NS_PER_MS) is HEARTBEAT
    client.bytes_received(1600 * NS_PER_MS)
    assert client.receive(HEARTBEAT, 1600 * NS_PER_MS) == []
    notices = client.tick(3600 * NS_PER_MS)
    closed = notices[-1]
    assert isinstance(closed, Closed)
    assert (closed.reason, closed.idle_ns) == (
        "Channel was inactive for too (>2000) long: tcp://broker",
        2000 * NS_PER_MS,
    )
    assert (client.closed, client.next_output(0), client.next_due_ns()) == (True, None, None)
    assert client.receive(Frame("RECEIPT", {"receipt-id": "late"}), 0) == []


def test_a_broker_that_never_answers_is_given_up() -> None:
    client = session()
    client.connect()
    (closed,) = client.tick(30_000 * NS_PER_MS)
    assert isinstance(closed, Closed)
    assert "no connection attempt made" in closed.reason


def test_a_message_with_nothing_but_the_necessary_headers() -> None:
    client = session()
    headers = {"subscription": "s", "message-id": "m", "destination": "/exchange/x", "x-death": "1"}
    (got,) = client.receive(Frame("MESSAGE", headers, b"b"), 0)
    assert isinstance(got, Delivered)
    assert (got.consumer, got.message_id, got.ack_id, got.destination) == ("s", "m", "m", "/exchange/x")
    assert (got.expiration_ms, got.timestamp_ms, got.priority, got.persistent) == (0, 0, 4, False)
    assert (got.redelivered, got.delivery_count, got.original_destination) == (False, 0, "")
    assert got.properties == {"x-death": "1"}


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("/queue/a", "queue://a"),
        ("/queue/a,/queue/b", "queue://a,queue://b"),
        ("/queue/a,/topic/b", "queue://a,topic://b"),
        ("/exchange/x,y", "/exchange/x,y"),
    ],
)
def test_the_origin_of_a_message_to_several_names_is_those_names(written: str, plain: str) -> None:
    client = session()
    headers = {"subscription": "s", "message-id": "m", "destination": "/queue/a", "original-destination": written}
    (got,) = client.receive(Frame("MESSAGE", headers), 0)
    assert isinstance(got, Delivered)
    assert got.original_destination == plain


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        (V12, {"id": "a1"}),
        (V11, {"message-id": "m", "subscription": "s"}),
        (V10, {"message-id": "m", "subscription": "s"}),
    ],
)
def test_acknowledgements_name_a_delivery_as_the_version_wants(version: str, headers: dict[str, str]) -> None:
    client = session()
    assert [type(n) for n in client.receive(Frame("CONNECTED", {"version": version}), 0)] == [Connected]
    (got,) = client.receive(Frame("MESSAGE", {"subscription": "s", "message-id": "m", "ack": "a1"}), 0)
    assert isinstance(got, Delivered)
    client.ack(got)
    client.nack(got)
    assert [(frame.command, frame.headers) for frame in sent(client)] == [("ACK", headers), ("NACK", headers)]


def test_a_missing_version_is_1_0() -> None:
    client = session()
    client.receive(Frame("CONNECTED", {}), 0)
    assert client.version == V10


def test_receipts_have_names_of_their_own() -> None:
    client = session()
    names = [client.send("queue://q", b"", receipt=True), client.unsubscribe("s", receipt=True)]
    assert len(set(names)) == 2
    assert client.send("queue://q", b"") == ""
    assert [frame.headers.get("receipt") for frame in sent(client)] == [*names, None]
    (receipt,) = client.receive(Frame("RECEIPT", {"receipt-id": names[0]}), 0)
    assert isinstance(receipt, Receipt)
    assert receipt.receipt == names[0]


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (Frame("ERROR", {"message": "no", "receipt-id": "r1", "code": "c"}, b"of what"), ("no: of what", "r1", "c")),
        (Frame("ERROR", {"message": "no"}, b"a.b.Refusal: no\n\tat a.b.C"), ("no", "", "")),
        (Frame("ERROR", {"message": "no"}, b"x" * 300), ("no: " + "x" * 200, "", "")),
        (Frame("ERROR", {"message": "no"}), ("no", "", "")),
        (Frame("ERROR", {}, b"only a body \xff"), ("only a body \ufffd", "", "")),
    ],
)
def test_errors(frame: Frame, text: tuple[str, str, str]) -> None:
    (failed,) = session().receive(frame, 0)
    assert isinstance(failed, Failed)
    assert (failed.text, failed.receipt, failed.code) == text


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (Frame("CONNECTED", {"version": "2.0"}), "chose version:2.0"),
        (Frame("CONNECTED", {"heart-beat": "soon"}), "heart-beat:soon, which is not two numbers"),
        (Frame("MESSAGE", {"expires": "never"}), "expires:never, which is not a number"),
        (Frame("MESSAGE", {"timestamp": ""}), "timestamp:, which is not a number"),
        (Frame("SEND", {}), "'SEND', which only a client may send"),
    ],
)
def test_what_is_the_brokers_fault_says_so(frame: Frame, text: str) -> None:
    with pytest.raises(StompProtocolError) as caught:
        session().receive(frame, 0)
    assert caught.value.text.startswith("the broker ")
    assert text in caught.value.text


def test_only_frames_are_taken() -> None:
    with pytest.raises(TypeError, match="takes Frame or Heartbeat"):
        session().receive(b"MESSAGE", 0)
