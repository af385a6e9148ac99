"""STOMP's headers for JMS's features, from both ends: what travels with a message, and what a consumer asks for.

Method: as ``test_stomp_broker.py``; where JMS is the other end, an OpenWire client reads what STOMP has sent, or the
other way round.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from brokerproof.reference_broker.session.notice import Failed, Receipt
from brokerproof.reference_broker.stomp import consuming
from brokerproof.reference_broker.stomp.codec import FrameDecoder, encode
from brokerproof.reference_broker.stomp.frames import V10, V11, V12, VERSIONS, Frame
from brokerproof.reference_broker.stomp.headers import MESSAGE_HEADERS
from tests.fast.reference_broker.node.wire_pair import Pair
from tests.fast.reference_broker.stomp.test_broker import DLQ, connected, inject, written

FIELDS = {
    "group": "g1",
    "group_sequence": 3,
    "reply_to": "queue://answers",
    "correlation_id": "c:1",
    "jms_type": "order",
}


def told(pair: Pair, connection: int) -> list[dict[str, object]]:
    return [{name: getattr(got, name) for name in FIELDS} for got in pair.delivered(connection)]


# -- what travels with a message


@pytest.mark.parametrize("version", [V11, V12])
def test_jms_fields_travel_from_stomp_to_stomp_and_to_jms(version: str) -> None:
    pair, client = connected(version)
    client.subscribe("s", "topic://t")
    pair.jms(2).subscribe("c", "topic://t")
    pair.run()
    client.send("topic://t", b"x", properties={"kind": "a"}, **FIELDS)  # type: ignore[arg-type]
    pair.run()
    assert told(pair, 1) == told(pair, 2) == [FIELDS]
    assert [got.properties for got in pair.delivered(1)] == [{"kind": "a"}]
    assert [got.properties for got in pair.delivered(2)] == [{"kind": "a"}]


def test_jms_fields_travel_from_jms_to_stomp() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "queue://q")
    jms = pair.jms(2)
    jms.send("queue://q", b"x", pair.now(2), **FIELDS)  # type: ignore[arg-type]
    pair.run()
    assert told(pair, 1) == [FIELDS]
    (frame,) = written(pair, "MESSAGE")
    assert frame.headers["reply-to"] == "/queue/answers"
    assert (frame.headers["JMSXGroupID"], frame.headers["JMSXGroupSeq"], frame.headers["type"]) == ("g1", "3", "order")


def test_what_a_message_does_not_have_is_not_written() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "queue://q")
    client.send("queue://q", b"x")
    pair.run()
    (frame,) = written(pair, "MESSAGE")
    assert not {"correlation-id", "reply-to", "type", "JMSXGroupID", "JMSXGroupSeq", "browser"} & set(frame.headers)


def test_a_property_that_is_named_like_a_header_of_the_frame_is_not_written() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "queue://q")
    pair.jms(2).send("queue://q", b"", pair.now(2), properties={"browser": "end", "kind": "a"})
    pair.run()
    assert [got.properties for got in pair.delivered(1)] == [{"kind": "a"}]


@pytest.mark.parametrize("version", VERSIONS)
def test_texts_that_stomp_cannot_write_harm_nobody(version: str) -> None:
    """JMS has NUL and unpaired surrogates; a consumer's frame must be written all the same."""
    pair, client = connected(version)
    client.subscribe("s", "queue://>")
    bad = "a\0b\ud800"
    fields = {"group": bad, "reply_to": "queue://\0\ud800", "correlation_id": bad, "jms_type": bad}
    pair.jms(2).send("queue://q\0\ud800", b"x", pair.now(2), properties={bad: "1", "n": bad, "m": "\ud800"}, **fields)
    pair.run()
    (frame,) = written(pair, "MESSAGE")
    read = FrameDecoder()
    read.version = version
    (got,) = read.feed(encode(frame, version))
    assert isinstance(got, Frame)
    assert [got.headers[name] for name in ("correlation-id", "reply-to", "m")] == ["a?b?", "/queue/??", "?"]
    assert got.headers["destination"] == "/queue/q??"


@pytest.mark.parametrize("headers", [{}, {"correlation-id": ""}, {"correlation-id": "c"}])
def test_an_empty_correlation_id_arrives_as_empty(headers: dict[str, str]) -> None:
    pair, client = connected(V12)
    client.subscribe("c", "queue://q", ack="auto")
    pair.run()
    inject(pair, "SEND", {"destination": "/queue/q", **headers})
    (frame,) = written(pair, "MESSAGE")
    assert {name: value for name, value in frame.headers.items() if name == "correlation-id"} == headers


def test_a_dead_letter_keeps_them() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "queue://q", ack="client")
    client.subscribe("d", DLQ)
    client.send("queue://q", b"x", persistent=True, **FIELDS)  # type: ignore[arg-type]
    pair.run()
    client.nack(pair.delivered()[0])
    pair.run()
    assert told(pair, 1) == [FIELDS, FIELDS]


# -- what a consumer asks for


def test_a_selector_chooses() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "topic://t", selector="kind = 'a'")
    pair.run()
    for kind in ("a", "b", "a"):
        client.send("topic://t", kind.encode(), properties={"kind": kind})
    pair.run()
    assert pair.bodies() == [b"a", b"a"]


def test_a_bad_selector_is_refused_with_its_code() -> None:
    pair = Pair()
    client = pair.stomp()
    name = client.subscribe("s", "queue://q", selector="kind = ", receipt=True)
    pair.run()
    (failed,) = pair.of(1, Failed)
    assert isinstance(failed, Failed)
    assert (failed.receipt, failed.code) == (name, "bad-selector")
    assert len(pair.closes) == 1


def test_no_local_keeps_a_connection_s_own_messages_away() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "topic://t", no_local=True)
    pair.run()
    client.send("topic://t", b"mine")
    pair.stomp(2).send("topic://t", b"theirs")
    pair.run()
    assert pair.bodies() == [b"theirs"]


def test_an_exclusive_consumer_gets_everything() -> None:
    pair = Pair()
    pair.stomp().subscribe("s", "queue://q")
    pair.stomp(2).subscribe("s", "queue://q", exclusive=True)
    pair.run()
    producer = pair.stomp(3)
    for _ in range(4):
        producer.send("queue://q", b"x")
    pair.run()
    assert (len(pair.bodies(1)), len(pair.bodies(2))) == (0, 4)


def test_a_consumer_of_higher_priority_is_served_first() -> None:
    pair = Pair()
    pair.stomp().subscribe("s", "queue://q", 2, ack="client")
    pair.stomp(2).subscribe("s", "queue://q", 2, ack="client", priority=5)
    pair.run()
    producer = pair.stomp(3)
    for number in range(3):
        producer.send("queue://q", b"%d" % number)
    pair.run()
    assert (pair.bodies(2), pair.bodies(1)) == ([b"0", b"1"], [b"2"])


@pytest.mark.parametrize("ack", ["client", "client-individual"])
@pytest.mark.parametrize("version", [V10, V11, V12])
def test_a_wildcard_consumer_settles_each_copy_of_a_message(version: str, ack: str) -> None:
    pair, client = connected(version)
    client.subscribe("s", "queue://q.*", ack=ack)
    jms = pair.jms(2)
    copy = jms.send("queue://q.a", b"x", pair.now(2))
    jms.send("queue://q.b", b"x", pair.now(2)).message_id = copy.message_id
    pair.run()
    first, second = pair.delivered()
    assert [first.destination, second.destination] == ["queue://q.a", "queue://q.b"]
    client.ack(second)
    pair.run()
    # Versions that name the message alone cannot say which copy: the oldest is meant.
    sizes = [pair.counter("size", name) for name in ("queue://q.a", "queue://q.b")]
    assert sizes == ([0, 0] if ack == "client" and version == V12 else [1, 0] if version == V12 else [0, 1])
    client.ack(first) if sum(sizes) else None
    pair.run()
    assert [pair.counter("size", name) for name in ("queue://q.a", "queue://q.b")] == [0, 0]
    assert not pair.closes


def test_a_composite_destination_is_written_part_by_part() -> None:
    pair = Pair()
    client = pair.stomp()
    inject(pair, "SUBSCRIBE", {"id": "s", "destination": "/queue/a, /topic/b,c"})
    for destination in ("queue://a", "topic://b", "topic://c", "queue://c"):
        client.send(destination, destination.encode())
    pair.run()
    assert pair.bodies() == [b"queue://a", b"topic://b", b"topic://c"]


# -- durable subscriptions


def test_a_durable_subscription_collects_while_its_client_is_away() -> None:
    pair = Pair()
    client = pair.stomp(client_id="me")
    client.subscribe("s", "topic://t", durable="d", ack="client")
    pair.run()
    client.disconnect()
    pair.run()
    producer = pair.stomp(2)
    producer.send("topic://t", b"1", persistent=True)
    pair.run()
    again = pair.stomp(3, client_id="me")
    again.subscribe("s", "topic://t", durable="d", ack="client")
    pair.run()
    assert pair.bodies(3) == [b"1"]


def test_a_durable_subscription_ends_when_its_client_says_so_and_not_before() -> None:
    pair = Pair()
    client = pair.stomp(client_id="me")
    client.subscribe("s", "topic://t", durable="d")
    client.unsubscribe("s")
    name = client.unsubscribe_durable("d")
    pair.run()
    assert [notice.receipt for notice in pair.of(1, Receipt)] == [name]  # type: ignore[attr-defined]
    pair.stomp(2).send("topic://t", b"1", persistent=True)
    pair.run()
    client.subscribe("s", "topic://t", durable="d")
    pair.run()
    assert pair.bodies() == []
    client.unsubscribe_durable("d")
    pair.run()
    (failed,) = pair.of(1, Failed)
    assert isinstance(failed, Failed)
    assert failed.code == "durable-in-use"


def test_an_unknown_durable_subscription_is_refused() -> None:
    pair = Pair()
    client = pair.stomp(client_id="me")
    name = client.unsubscribe_durable("none")
    pair.run()
    (failed,) = pair.of(1, Failed)
    assert isinstance(failed, Failed)
    assert (failed.receipt, failed.code) == (name, "unknown-subscription")


def test_stomp_and_jms_share_a_durable_subscription() -> None:
    pair = Pair()
    jms = pair.jms(1)
    jms.subscribe("c", "topic://t", durable="d")
    pair.run()
    jms.disconnect()
    pair.run()
    pair.stomp(2).send("topic://t", b"1")
    pair.run()
    client = pair.stomp(3, client_id="jms1")
    client.subscribe("s", "topic://t", durable="d")
    pair.run()
    assert pair.bodies(3) == [b"1"]


# -- what older versions do not have


def test_version_1_0_has_no_nack_and_no_browser() -> None:
    pair, client = connected(V10)
    client.outbox.append(Frame("NACK", {"message-id": "1", "receipt": "r9"}))
    pair.run()
    assert pair.closes[0][1].reason == "NACK does not exist in STOMP 1.0; connect with accept-version:1.1,1.2"
    pair, client = connected(V10)
    client.subscribe("s", "queue://q", browser=True)
    pair.run()
    assert pair.closes[0][1].reason == "browser:true needs STOMP 1.1; connect with accept-version:1.1,1.2"


# -- the page that lists them


def documented(frame: str) -> set[str]:
    """The headers that ``docs/stomp.md`` lists for a frame."""
    page = Path(__file__).parents[4] / "docs" / "stomp.md"
    rows = [line.split("|") for line in page.read_text(encoding="utf-8").splitlines() if line.count("|") == 4]
    return {name for row in rows if frame in row[1] for name in re.findall("`([^`]+)`", row[2])}


def test_the_page_lists_the_headers_that_are_understood() -> None:
    own = {"destination", "id", "receipt", "content-length", "message-id"}
    of_messages = MESSAGE_HEADERS - own
    assert documented("SEND") | documented("MESSAGE") == of_messages
    source = Path(consuming.__file__).read_text(encoding="utf-8")
    named = set(re.findall(r'headers(?:\.get\(|, )"([^"]+)"', source)) - own - {"subscription", "transaction"}
    assert documented("SUBSCRIBE") == named


def test_1_0_unsubscribes_by_destination_what_had_an_id() -> None:
    """STOMP 1.0 demands a destination, or the id if the SUBSCRIBE had one."""
    pair, _ = connected(V10)
    inject(pair, "SUBSCRIBE", {"destination": "/queue/q", "id": "s"})
    inject(pair, "UNSUBSCRIBE", {"destination": "/queue/q"})
    assert (pair.counter("consumers"), pair.closes) == (0, [])


@pytest.mark.parametrize(("number", "got"), [("5", [b"x"]), ("3", []), ("five", [])])
def test_a_selector_reads_the_texts_of_stomp_as_numbers(number: str, got: list[bytes]) -> None:
    """STOMP has no other properties than texts; ActiveMQ converts them, unless a text is compared with a text."""
    pair, _ = connected(V12)
    inject(pair, "SUBSCRIBE", {"id": "s", "destination": "/queue/q", "selector": "n > 3 AND n <> '7'"})
    inject(pair, "SEND", {"destination": "/queue/q", "n": number}, b"x")
    assert (pair.bodies(), pair.closes) == (got, [])
