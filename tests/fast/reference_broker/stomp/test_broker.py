"""STOMP from both ends at once, in all three versions; and what is wrong ends in ERROR and a close, every time.

Method: the real core behind a node, the real client session in front, frames passed by hand where a client would not
send them.
"""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig, Monitor
from brokerproof.reference_broker.session.notice import Connected, Failed, Receipt
from brokerproof.reference_broker.stomp.client import ClientSession
from brokerproof.reference_broker.stomp.frames import V10, V11, V12, VERSIONS, Frame
from tests.fast.reference_broker.node.wire_pair import WALL_MS, Pair

DLQ = "queue://ActiveMQ.DLQ"


def inject(pair: Pair, command: str, headers: dict[str, str], body: bytes = b"", connection: int = 1) -> None:
    """A frame that the client's session would not have written."""
    pair.clients[connection].outbox.append(Frame(command, headers, body))
    pair.run()


def written(pair: Pair, command: str, connection: int = 1) -> list[Frame]:
    return [f for _, f in pair.frames[connection] if isinstance(f, Frame) and f.command == command]


def connected(version: str) -> tuple[Pair, ClientSession]:
    pair = Pair()
    client = pair.stomp(connect=False)
    client.connect(versions=(version,))
    pair.run()
    assert client.version == version
    return pair, client


# -- CONNECT


@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
def test_the_best_common_version_is_chosen(command: str) -> None:
    pair = Pair()
    pair.stomp(connect=False)
    inject(pair, command, {"accept-version": "1.0,1.1,3.0"})
    (frame,) = written(pair, "CONNECTED")
    assert frame.headers == {"version": "1.1", "session": "1", "server": "brokerproof", "heart-beat": "0,0"}
    assert [notice.version for notice in pair.notices[1] if isinstance(notice, Connected)] == ["1.1"]


@pytest.mark.parametrize(
    ("asked", "answer"), [("0,0", "0,0"), ("1000,0", "0,1000"), ("500, 2000", "2000,500"), ("0,7", "7,0")]
)
def test_heart_beats_are_answered_mirrored(asked: str, answer: str) -> None:
    pair = Pair()
    pair.stomp(connect=False)
    inject(pair, "CONNECT", {"accept-version": "1.2", "heart-beat": asked})
    assert written(pair, "CONNECTED")[0].headers["heart-beat"] == answer


def test_an_operator_can_switch_heart_beats_off() -> None:
    pair = Pair(BrokerConfig(monitor=Monitor(read_ms=0)))
    pair.stomp(heart_beat_ms=(100, 100))
    assert written(pair, "CONNECTED")[0].headers["heart-beat"] == "0,0"
    pair.frozen.add(1)
    pair.advance(60_000)
    assert pair.closes == []
    assert pair.beats(1) == []


def test_classic_echoes_a_negative_heart_beat_and_then_has_no_monitor() -> None:
    pair = Pair(BrokerConfig(generation={"monitor": "classic"}))
    pair.stomp(connect=False)
    inject(pair, "CONNECT", {"heart-beat": "-5,100"})
    assert written(pair, "CONNECTED")[0].headers["heart-beat"] == "100,-5"
    pair.advance(60_000)
    assert (pair.closes, pair.beats(1)) == ([], [])


# -- messages


def test_every_header_of_a_send_arrives() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "queue://q", ack="client")
    client.send(
        "queue://q",
        b"\0body",
        expiration_ms=WALL_MS + 5000,
        timestamp_ms=WALL_MS - 7,
        persistent=True,
        priority=7,
        properties={"colour": "re:d\nblue", "content-type": "text/plain"},
    )
    pair.run()
    (got,) = pair.delivered()
    assert (got.consumer, got.destination, got.body) == ("s", "queue://q", b"\0body")
    assert (got.expiration_ms, got.timestamp_ms) == (WALL_MS + 5000, WALL_MS - 7)
    assert (got.persistent, got.priority, got.redelivered, got.original_destination) == (True, 7, False, "")
    assert got.properties == {"colour": "re:d\nblue", "content-type": "text/plain"}
    assert (got.message_id, got.ack_id) == ("ID-b-1-1", "1-1")


def test_what_a_send_leaves_out() -> None:
    """No timestamp: the broker's clock. No expiration: 0. Not persistent: no header at all."""
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "topic://t")
    client.send("topic://t", b"x")
    pair.run()
    (frame,) = written(pair, "MESSAGE")
    assert frame.headers == {
        "message-id": "ID-b-1-1",
        "destination": "/topic/t",
        "expires": "0",
        "timestamp": str(WALL_MS),
        "priority": "4",
        "content-length": "1",
        "subscription": "s",
    }


@pytest.mark.parametrize(("sent", "got"), [("-3", 0), ("0", 0), ("12", 9), ("9", 9)])
def test_priority_is_clamped(sent: str, got: int) -> None:
    pair = Pair()
    pair.stomp().subscribe("s", "queue://q")
    inject(pair, "SEND", {"destination": "/queue/q", "priority": sent})
    assert pair.delivered()[0].priority == got


def test_a_relative_delay_is_kept() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "queue://q")
    client.send("queue://q", b"late", delay_ms=1500)
    pair.advance(1499)
    assert pair.bodies() == []
    pair.advance(1)
    assert pair.bodies() == [b"late"]


def test_a_property_cannot_pose_as_a_header_of_the_broker() -> None:
    pair = Pair()
    pair.stomp().subscribe("s", "queue://q", ack="client")
    spoof = {"subscription": "other", "message-id": "fake", "redelivered": "true", "ack": "fake"}
    inject(pair, "SEND", {"destination": "/queue/q", **spoof})
    (got,) = pair.delivered()
    assert (got.consumer, got.message_id, got.redelivered, got.ack_id) == ("s", "ID-b-1-1", False, "1-1")


def test_neither_can_a_property_of_a_jms_client() -> None:
    pair = Pair()
    pair.stomp().subscribe("s", "queue://q", ack="client")
    spoof = {"subscription": "other", "redelivered": "true", "ack": "fake", "colour": "red", "nul": "\0"}
    pair.jms(2).send("queue://q", b"x", pair.now(), properties=spoof)
    pair.run()
    (got,) = pair.delivered()
    assert (got.consumer, got.redelivered, got.ack_id, got.properties) == ("s", False, "1-1", {"colour": "red"})


def test_properties_that_1_0_cannot_write_are_left_out_for_a_1_0_consumer() -> None:
    pair, client = connected(V10)
    client.subscribe("s", "queue://q")
    producer = pair.stomp(2)
    producer.send("queue://q", b"x", properties={"ok": "1", "two\nlines": "2", "a:b": "3", "c": "4\n5"})
    pair.run()
    assert pair.delivered()[0].properties == {"ok": "1"}


# -- subscriptions


def test_the_receipt_of_subscribe_comes_before_the_first_message() -> None:
    pair = Pair()
    client = pair.stomp()
    client.send("queue://q", b"waiting")
    client.subscribe("s", "queue://q", receipt=True)
    pair.run()
    assert [f.command for _, f in pair.frames[1] if isinstance(f, Frame)] == ["CONNECTED", "RECEIPT", "MESSAGE"]


def test_receipts_answer_every_command() -> None:
    pair = Pair()
    client = pair.stomp()
    names = [client.send("queue://q", b"x", receipt=True), client.send("queue://q", b"y", receipt=True)]
    names.append(client.subscribe("s", "queue://q", ack="client-individual", receipt=True))
    pair.run()
    first, second = pair.delivered()
    names += [client.ack(second, receipt=True), client.nack(first, receipt=True)]
    names += [client.unsubscribe("s", receipt=True), client.disconnect(receipt=True)]
    pair.run()
    assert [notice.receipt for notice in pair.notices[1] if isinstance(notice, Receipt)] == names
    assert [close.reason for _, close in pair.closes] == ["DISCONNECT"]


@pytest.mark.parametrize(("destination", "default"), [("queue://q", 1000), ("topic://q", 32767)])
def test_default_prefetch(destination: str, default: int) -> None:
    pair = Pair(BrokerConfig(memory_limit_bytes=0))
    client = pair.stomp()
    client.subscribe("s", destination, ack="client")
    for _ in range(default + 5):
        client.send(destination, b"")
    pair.run()
    assert len(pair.delivered()) == default


def test_prefetch_bounds_what_is_outstanding() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "queue://q", ack="client", prefetch=2)
    for body in (b"1", b"2", b"3", b"4"):
        client.send("queue://q", body)
    pair.run()
    assert pair.bodies() == [b"1", b"2"]
    client.ack(pair.delivered()[0])
    pair.run()
    assert pair.bodies() == [b"1", b"2", b"3"]


@pytest.mark.parametrize(("asynchronous", "in_flight"), [(True, 0), (False, 1)])
def test_synchronous_dispatch_counts_before_the_write(asynchronous: bool, in_flight: int) -> None:
    pair = Pair()
    consumer = pair.stomp()
    consumer.subscribe("s", "queue://q", ack="client", dispatch_async=asynchronous)
    pair.run()
    pair.stalled.add(1)
    pair.stomp(2).send("queue://q", b"x")
    pair.run()
    assert pair.counter("in_flight") == in_flight
    pair.stalled.clear()
    pair.run()
    assert pair.counter("in_flight") == 1


def test_auto_settles_when_the_message_is_written() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "queue://q", prefetch=1)
    for body in (b"1", b"2", b"3"):
        client.send("queue://q", body)
    pair.run()
    assert pair.bodies() == [b"1", b"2", b"3"]
    assert (pair.counter("size"), pair.counter("in_flight"), pair.counter("dequeued")) == (0, 0, 3)


def test_a_message_for_a_subscription_that_has_left_is_dropped_but_counted() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "queue://q", ack="client")
    pair.run()
    pair.stalled.add(1)
    for _ in range(3):
        client.send("queue://q", b"x")
    client.unsubscribe("s")
    pair.run()
    assert pair.counter("in_flight") == -3
    pair.stalled.clear()
    pair.run()
    assert (pair.counter("in_flight"), pair.counter("size"), pair.bodies()) == (0, 3, [])


def test_unsubscribe_returns_what_is_unsettled_as_redelivered() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "queue://q", ack="client")
    client.send("queue://q", b"x")
    pair.run()
    client.unsubscribe("s")
    client.subscribe("s", "queue://q", ack="client")
    pair.run()
    assert [(got.body, got.redelivered) for got in pair.delivered()] == [(b"x", False), (b"x", True)]
    client.ack(pair.delivered()[1])
    pair.run()
    assert (pair.counter("size"), pair.closes) == (0, [])


def test_1_0_subscribes_and_unsubscribes_by_destination() -> None:
    pair, _ = connected(V10)
    inject(pair, "SUBSCRIBE", {"destination": "/queue/q"})
    inject(pair, "SEND", {"destination": "/queue/q"}, b"x")
    assert pair.bodies() == [b"x"]
    assert "subscription" not in written(pair, "MESSAGE")[0].headers
    inject(pair, "UNSUBSCRIBE", {"destination": "/queue/q"})
    assert pair.counter("consumers") == 0


# -- acknowledgements


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("mode", "left"), [("client", [b"3"]), ("client-individual", [b"1", b"3"])])
def test_acknowledgements(version: str, mode: str, left: list[bytes]) -> None:
    pair, client = connected(version)
    client.subscribe("s", "queue://q", ack=mode)
    for body in (b"1", b"2", b"3"):
        client.send("queue://q", body)
    pair.run()
    client.ack(pair.delivered()[1])
    pair.run()
    assert pair.counter("size") == len(left)
    client.unsubscribe("s")
    client.subscribe("again", "queue://q")
    pair.run()
    assert pair.bodies()[3:] == left


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cumulative_acknowledgement_leaves_the_later_ones(version: str) -> None:
    pair, client = connected(version)
    client.subscribe("s", "queue://q", ack="client")
    for body in (b"1", b"2", b"3"):
        client.send("queue://q", body)
    pair.run()
    for number in (1, 2):
        client.ack(pair.delivered()[number])
        pair.run()
    assert (pair.counter("size"), pair.closes) == (0, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_an_acknowledgement_after_unsubscribe_changes_nothing_and_ends_nothing(version: str) -> None:
    """A client's threads may cross: one has unsubscribed, another still acknowledges what it has got."""
    pair, client = connected(version)
    client.subscribe("s", "queue://q", ack="client")
    client.send("queue://q", b"x")
    pair.run()
    client.unsubscribe("s")
    client.ack(pair.delivered()[0], receipt=True)
    pair.run()
    assert pair.closes == []
    assert len(written(pair, "RECEIPT")) == 1
    assert pair.counter("size") == 1
    client.ack(pair.delivered()[0])
    pair.run()
    assert "Unexpected ACK" in pair.closes[0][1].reason, "each delivery once"


def test_1_0_acknowledges_without_naming_the_subscription() -> None:
    pair, client = connected(V10)
    client.subscribe("s", "queue://q", ack="client")
    client.send("queue://q", b"x")
    pair.run()
    inject(pair, "ACK", {"message-id": pair.delivered()[0].message_id})
    assert (pair.counter("size"), pair.closes) == (0, [])


@pytest.mark.parametrize("version", [V11, V12])
def test_nack_moves_one_message_to_the_dead_letter_queue(version: str) -> None:
    pair, client = connected(version)
    client.subscribe("s", "queue://q", ack="client")
    client.subscribe("d", DLQ)
    for body in (b"1", b"2"):
        client.send("queue://q", body, persistent=True)
    pair.run()
    client.nack(pair.delivered()[1])
    pair.run()
    dead_letter = pair.delivered()[2]
    assert (dead_letter.consumer, dead_letter.body, dead_letter.destination) == ("d", b"2", DLQ)
    assert dead_letter.original_destination == "queue://q"
    assert pair.counter("size") == 1


# -- what is wrong

REFUSED = [
    ("SEND", {}, "SEND lacks the header 'destination'"),
    ("SEND", {"destination": "/nowhere/x"}, "'/nowhere/x' is unknown; use /queue/NAME or /topic/NAME"),
    ("SEND", {"destination": "queue/x"}, "'queue/x' is unknown"),
    ("SEND", {"destination": "/queue/"}, "'/queue/' is unknown"),
    ("SEND", {"destination": "/queue/a.*"}, "is for consumers"),
    ("SEND", {"destination": "/queue/a?prefetchSize=1"}, "did you mean consumer.prefetchSize"),
    ("SEND", {"destination": "/queue/q", "expires": "soon"}, "expires:soon is not a number"),
    ("SEND", {"destination": "/queue/q", "expires": "1_000"}, "expires:1_000 is not a number"),
    ("SEND", {"destination": "/queue/q", "expires": "9223372036854775808"}, "expires:9223372036854775808 is not"),
    ("SEND", {"destination": "/queue/q", "timestamp": " 1"}, "timestamp: 1 is not a number"),
    ("SEND", {"destination": "/queue/q", "priority": "high"}, "priority:high is not a number"),
    ("SEND", {"destination": "/queue/q", "AMQ_SCHEDULED_DELAY": "1.5"}, "AMQ_SCHEDULED_DELAY:1.5 is not a number"),
    ("SEND", {"destination": "/queue/q", "AMQ_SCHEDULED_DELAY": "-1"}, "AMQ_SCHEDULED_DELAY:-1 is negative"),
    (
        "SEND",
        {"destination": "/queue/q", "JMSXGroupID": "g", "JMSXGroupSeq": "2147483648"},
        "JMSXGroupSeq:2147483648 is no integer of JMS; send -2147483648 to 2147483647",
    ),
    ("SEND", {"destination": "/queue/q", "AMQ_SCHEDULED_CRON": "* *"}, "AMQ_SCHEDULED_CRON:* * is not supported"),
    (
        "SEND",
        {"destination": "/queue/q", "transformation": "jms-map-xml"},
        "transformation:jms-map-xml is not supported",
    ),
    ("SEND", {"destination": "/queue/q", "persistent": "TRUE"}, "persistent:TRUE is neither true nor false"),
    ("SEND", {"destination": "/queue/q", "transaction": "t"}, "no open transaction 't'; begin it first"),
    ("SEND", {"destination": "/queue/q", "JMSXGroupSeq": "one"}, "JMSXGroupSeq:one is not a number"),
    ("SEND", {"destination": "/queue/q", "reply-to": "me"}, "destination 'me' is unknown"),
    ("SEND", {"destination": "/queue/q,/nowhere/a"}, "'/queue/q,/nowhere/a' is unknown"),
    ("SUBSCRIBE", {"destination": "/queue/q"}, "SUBSCRIBE lacks the header 'id'"),
    ("SUBSCRIBE", {"id": "1"}, "SUBSCRIBE lacks the header 'destination'"),
    ("SUBSCRIBE", {"id": "1", "destination": "/queue/>.A"}, "has '>' before its end"),
    ("SUBSCRIBE", {"id": "1", "destination": "/queue/q", "ack": "maybe"}, "ack:maybe is unknown; one of auto"),
    ("SUBSCRIBE", {"id": "1", "destination": "/queue/q", "activemq.prefetchSize": "x"}, "activemq.prefetchSize:x"),
    ("SUBSCRIBE", {"id": "1", "destination": "/queue/q", "activemq.prefetchSize": "-1"}, "is negative"),
    ("SUBSCRIBE", {"id": "1", "destination": "/queue/q", "browser": "yes"}, "browser:yes is neither true nor false"),
    ("SUBSCRIBE", {"id": "1", "destination": "/queue/q", "activemq.noLocal": "1"}, "activemq.noLocal:1 is neither"),
    ("SUBSCRIBE", {"id": "1", "destination": "/queue/q", "activemq.priority": "128"}, "activemq.priority:128 is no"),
    ("SUBSCRIBE", {"id": "1", "destination": "/queue/q", "activemq.prefetchsize": "1"}, "mean activemq.prefetchSize?"),
    ("SUBSCRIBE", {"id": "1", "destination": "/queue/q", "activemq.unheardOf": "1"}, "one of activemq.dispatchAsync, "),
    (
        "SUBSCRIBE",
        {"id": "1", "destination": "/queue/q", "activemq.dispatchAsync": "no"},
        "dispatchAsync:no is neither",
    ),
    ("SUBSCRIBE", {"id": "1", "destination": "/queue/q", "prefetch-count": "1"}, "use activemq.prefetchSize"),
    ("SUBSCRIBE", {"id": "1", "destination": "/topic/t", "durable": "true"}, "use activemq.subscriptionName"),
    ("SUBSCRIBE", {"id": "1", "destination": "/topic/t", "activemq.retroactive": "yes"}, "retroactive:yes is neither"),
    ("SUBSCRIBE", {"id": "1", "destination": "/queue/q?consumer.prefetch=1"}, "did you mean consumer.prefetchSize"),
    ("SUBSCRIBE", {"id": "1", "destination": "/queue/q?consumer.priority=200"}, "whole number from -128 to 127"),
    ("SUBSCRIBE", {"id": "1", "destination": "/topic/t", "activemq.subscriptionName": "d"}, "needs a client-id"),
    ("SUBSCRIBE", {"id": "1", "destination": "/topic/t", "durable-subscription-name": "d"}, "activemq.subscriptionN"),
    ("SUBSCRIBE", {"id": "s", "destination": "/queue/q"}, "subscription 's' exists already"),
    ("UNSUBSCRIBE", {}, "UNSUBSCRIBE names no subscription"),
    ("UNSUBSCRIBE", {"id": "2"}, "subscription '2' does not exist"),
    ("UNSUBSCRIBE", {"id": "s", "activemq.subscriptionName": "d"}, "needs a client-id"),
    ("UNSUBSCRIBE", {"destination": "/queue/q"}, "UNSUBSCRIBE names no subscription"),
    ("ACK", {}, "ACK lacks the header 'id'"),
    ("ACK", {"id": "9-9"}, "Unexpected ACK received for message-id [9-9]"),
    ("NACK", {"id": "9-9"}, "Unexpected NACK received for message-id [9-9]"),
    ("BEGIN", {}, "BEGIN lacks the header 'transaction'"),
    ("COMMIT", {"transaction": "t"}, "no open transaction 't'; begin it first"),
    ("ABORT", {"transaction": "t"}, "no open transaction 't'; begin it first"),
    ("CONNECT", {"accept-version": "1.2"}, "CONNECT is sent once"),
    ("MESSAGE", {}, "'MESSAGE' is not one that a client may send"),
]


@pytest.mark.parametrize(("command", "headers", "text"), REFUSED)
def test_a_wrong_frame_gets_error_and_close_and_changes_nothing(
    command: str, headers: dict[str, str], text: str
) -> None:
    pair = Pair()
    pair.stomp().subscribe("s", "queue://other")
    bystander = pair.stomp(2)
    inject(pair, command, {**headers, "receipt": "r9"})
    (failed,) = (notice for notice in pair.notices[1] if isinstance(notice, Failed))
    assert text in failed.text
    assert failed.receipt == "r9"
    assert [close.reason for _, close in pair.closes] == [failed.text]
    assert pair.node.broker.broker_counters()["consumers"] == 0
    assert pair.node.broker.broker_counters()["enqueued"] == 0
    bystander.send("queue://q", b"x", receipt=True)
    pair.run()
    assert pair.of(2, Receipt)


@pytest.mark.parametrize(
    ("command", "headers", "text"),
    [
        ("SEND", {"destination": "/queue/q"}, "SEND came before CONNECT"),
        ("CONNECT", {"accept-version": "2.0"}, "accept-version:2.0 has no version of ours; use 1.2,1.1,1.0"),
        ("CONNECT", {"heart-beat": "1000"}, "Invalid heart-beat header:1000; send two numbers"),
        ("CONNECT", {"heart-beat": "a,b"}, "Invalid heart-beat header:a,b"),
        ("CONNECT", {"heart-beat": "1,2,3"}, "Invalid heart-beat header:1,2,3"),
        ("CONNECT", {"heart-beat": "-1,0"}, "a number is negative"),
    ],
)
def test_a_wrong_hello_gets_error_and_close(command: str, headers: dict[str, str], text: str) -> None:
    pair = Pair()
    pair.stomp(connect=False)
    inject(pair, command, headers)
    (error,) = written(pair, "ERROR")
    assert text in error.headers["message"]
    assert text in error.body.decode()
    # STOMP 1.2, "Protocol Negotiation"
    assert error.headers.get("version") == ("1.2,1.1,1.0" if "version" in text else None)
    assert len(pair.closes) == 1
    assert pair.node.broker.broker_counters()["connections"] == 0


def test_an_acknowledgement_is_good_for_one_delivery() -> None:
    pair = Pair()
    client = pair.stomp()
    client.subscribe("s", "queue://q", ack="client-individual")
    client.send("queue://q", b"x")
    pair.run()
    client.ack(pair.delivered()[0])
    client.ack(pair.delivered()[0])
    pair.run()
    assert pair.counter("dequeued") == 1
    assert "Unexpected ACK" in pair.closes[0][1].reason


@pytest.mark.parametrize("version", [V10, V11])
def test_an_unknown_message_id_is_refused_in_older_versions(version: str) -> None:
    pair, _ = connected(version)
    inject(pair, "ACK", {"message-id": "nope", "subscription": "s"})
    assert "Unexpected ACK received for message-id [nope]" in pair.closes[0][1].reason


def test_an_error_keeps_on_one_line_whatever_the_peer_sent() -> None:
    pair = Pair()
    pair.stomp()
    inject(pair, "SEND", {"destination": "x\ny" + "z" * 500})
    (error,) = written(pair, "ERROR")
    assert "\n" not in error.headers["message"]
    assert len(error.headers["message"]) <= 200
    assert b"z" * 500 in error.body
