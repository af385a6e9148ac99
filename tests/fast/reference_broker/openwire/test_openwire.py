"""OpenWire commands from both ends: the JMS consumer's expiry check by its own clock, acknowledgements, leaving.

Method: the real core behind a node and real client sessions; the client's wall clock is skewed against the broker's.
What a message suffers is read from the dead-letter queue and the counters, as an outside tester would.
"""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.events import DELIVERED, EXPIRED, INDIVIDUAL, STANDARD
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.openwire.commands import (
    Command,
    ConnectionFault,
    ConnectionInfo,
    ConsumerInfo,
    ExceptionResponse,
    MessageAck,
    MessageDispatch,
    MessagePull,
    ProducerMessage,
    RemoveInfo,
    Response,
    WireFormatInfo,
)
from brokerproof.reference_broker.session.notice import Delivered, Discarded, Failed, LogLine, Receipt
from tests.fast.reference_broker.node.wire_pair import WALL_MS, Pair

DLQ = "queue://ActiveMQ.DLQ"


def take(pair: Pair, client: ClientSession, consumer: str = "c", connection: int = 1) -> bytes | None:
    """What the application receives; notices go to the pair, commands to the broker."""
    got, notices = client.take(consumer, pair.now(connection))
    pair.notices[connection] += notices
    pair.run()
    return None if got is None else got.body


def send(pair: Pair, client: ClientSession, *bodies: bytes, connection: int = 1, **options: int) -> None:
    for body in bodies:
        client.send("queue://q", body, pair.now(connection), **options)
    pair.run()


def waiting_acks(client: ClientSession) -> list[tuple[int, str, str, int]]:
    return [
        (command.ack_type, command.first_message_id, command.last_message_id, command.message_count)
        for command in client.outbox
        if isinstance(command, MessageAck)
    ]


def inject(pair: Pair, command: Command, connection: int = 1) -> None:
    pair.clients[connection].outbox.append(command)
    pair.run()


def written(pair: Pair, kind: type[Command], connection: int = 1) -> list[Command]:
    return [frame for _, frame in pair.frames[connection] if isinstance(frame, kind)]


# -- stamping


def test_the_client_stamps_by_its_own_clock() -> None:
    pair = Pair()
    client = pair.jms(skew_ms=-300_000)
    now = pair.now(1)
    message = client.send("queue://q", b"x", now, ttl_ms=1000, priority=9, persistent=False)
    assert (message.timestamp_ms, message.expiration_ms) == (WALL_MS - 300_000, WALL_MS - 299_000)
    assert (message.message_id, message.priority, message.persistent) == ("jms1:1:1:1", 9, False)
    bare = client.send("queue://q", b"x", now, ttl_ms=1000, disable_timestamp=True)
    assert (bare.timestamp_ms, bare.expiration_ms) == (0, WALL_MS - 299_000)
    assert client.send("queue://q", b"x", now, ttl_ms=-1).expiration_ms == 0


# -- the expiry check


@pytest.mark.parametrize(("skew_ms", "discarded"), [(5000, False), (5001, True), (-3_600_000, False)])
def test_expiry_on_arrival_is_decided_by_the_clients_clock(skew_ms: int, discarded: bool) -> None:
    """expired is now_c > expiration: at the very millisecond it is still alive."""
    pair = Pair()
    producer = pair.jms(2)
    consumer = pair.jms(1, skew_ms=skew_ms)
    consumer.subscribe("c", "queue://q")
    pair.run()
    send(pair, producer, b"x", connection=2, ttl_ms=5000)
    kinds = [type(notice) for notice in pair.notices[1] if isinstance(notice, Delivered | Discarded)]
    assert kinds == ([Delivered, Discarded] if discarded else [Delivered])
    assert consumer.waiting("c") == (0 if discarded else 1)
    assert pair.of(1, LogLine) == [], "only the check on receive writes the DEBUG line"


def test_the_expired_acknowledgement_leaves_at_once_and_moves_the_message_to_the_dead_letter_queue() -> None:
    """A fast client destroys a message that the broker's clock calls alive (AMQ-6361)."""
    pair = Pair()
    consumer = pair.jms(1, skew_ms=60_000)
    consumer.subscribe("c", "queue://q")
    watcher = pair.stomp(3)
    watcher.subscribe("d", DLQ)
    pair.run()
    send(pair, pair.jms(2), b"x", connection=2, ttl_ms=5000)
    (dead_letter,) = pair.delivered(3)
    assert (dead_letter.body, dead_letter.original_destination, dead_letter.expiration_ms) == (b"x", "queue://q", 0)
    assert (pair.counter("size"), pair.counter("in_flight"), pair.counter("expired")) == (0, 0, 1)


def test_in_the_documented_generation_the_message_stays_until_the_brokers_clock_agrees() -> None:
    pair = Pair(BrokerConfig(generation={"expiry": "documented"}))
    fast = pair.jms(1, skew_ms=60_000)
    fast.subscribe("c", "queue://q", prefetch=1)
    send(pair, pair.jms(2), b"x", connection=2, ttl_ms=5000)
    assert pair.of(1, Discarded)
    assert (pair.counter("size"), pair.counter("expired")) == (1, 0)
    right = pair.jms(3)
    right.subscribe("c", "queue://q")
    pair.run()
    assert take(pair, right, connection=3) == b"x"


def test_expiry_on_receive_writes_the_seeds_debug_line_and_gives_the_next_message() -> None:
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q")
    send(pair, client, b"short", ttl_ms=100)
    send(pair, client, b"long", ttl_ms=100_000)
    pair.wall_ms += 101
    assert take(pair, client) == b"long"
    (line,) = pair.of(1, LogLine)
    assert isinstance(line, LogLine)
    assert (line.level, line.logger) == ("DEBUG", "org.apache.activemq.ActiveMQMessageConsumer")
    assert line.text == (
        "c received expired message: MessageDispatch {consumerId = c, destination = queue://q, messageId = jms1:1:1:1, "
        f"redeliveryCounter = 0, expiration = {WALL_MS + 100}}}"
    )
    assert [notice.message_id for notice in pair.notices[1] if isinstance(notice, Discarded)] == ["jms1:1:1:1"]
    assert pair.counter("expired") == 1


def test_a_discarded_message_is_acknowledged_alone_with_type_expired() -> None:
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q")
    send(pair, client, b"a", b"b", ttl_ms=100)
    pair.wall_ms += 101
    assert client.take("c", pair.now(1))[0] is None
    assert waiting_acks(client) == [(EXPIRED, "jms1:1:1:1", "jms1:1:1:1", 1), (EXPIRED, "jms1:1:1:2", "jms1:1:1:2", 1)]
    assert not any(command.response_required for command in client.outbox if isinstance(command, MessageAck))


def test_the_check_can_be_switched_off() -> None:
    """consumerExpiryCheckEnabled=false (AMQ-5406)."""
    pair = Pair()
    client = pair.jms(1, skew_ms=3_600_000, consumer_expiry_check=False)
    client.subscribe("c", "queue://q")
    send(pair, pair.jms(2), b"x", connection=2, ttl_ms=5000)
    assert take(pair, client) == b"x"
    assert pair.of(1, Discarded) == []


def test_no_expiration_never_expires() -> None:
    pair = Pair()
    client = pair.jms(1, skew_ms=10**12)
    client.subscribe("c", "queue://q")
    send(pair, pair.jms(2), b"x", connection=2)
    assert take(pair, client) == b"x"


# -- acknowledgements


def test_auto_settles_each_message_when_it_is_taken() -> None:
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q")
    send(pair, client, b"a", b"b", b"c")
    assert (pair.counter("size"), pair.counter("in_flight"), client.waiting("c")) == (3, 3, 3)
    got, _ = client.take("c", pair.now(1))
    assert got is not None
    assert (got.delivery_count, got.redelivered) == (1, False)
    assert waiting_acks(client) == [(STANDARD, "jms1:1:1:1", "jms1:1:1:1", 1)]
    pair.run()
    assert (pair.counter("size"), pair.counter("in_flight")) == (2, 2)


def test_client_mode_acknowledges_all_that_was_taken() -> None:
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q", ack="client")
    send(pair, client, b"a", b"b", b"c")
    assert client.acknowledge("c") == []
    assert [take(pair, client) for _ in range(2)] == [b"a", b"b"]
    assert pair.counter("size") == 3
    assert client.acknowledge("c") == ["jms1:1:1:1", "jms1:1:1:2"]
    assert waiting_acks(client) == [(STANDARD, "jms1:1:1:1", "jms1:1:1:2", 2)]
    pair.run()
    assert pair.counter("size") == 1
    assert client.acknowledge("c") == []


def test_individual_mode_acknowledges_out_of_order() -> None:
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q", ack="individual")
    send(pair, client, b"a", b"b")
    take(pair, client), take(pair, client)
    client.acknowledge_one("c", "jms1:1:1:2")
    assert waiting_acks(client) == [(INDIVIDUAL, "jms1:1:1:2", "jms1:1:1:2", 1)]
    pair.run()
    assert pair.counter("size") == 1
    with pytest.raises(KeyError):
        client.acknowledge_one("c", "jms1:1:1:2")


def test_poison_moves_one_message_to_the_dead_letter_queue() -> None:
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q", ack="client")
    send(pair, client, b"a", b"b")
    take(pair, client), take(pair, client)
    client.poison("c", "jms1:1:1:1")
    pair.run()
    assert (pair.counter("size"), pair.counter("size", DLQ)) == (1, 1)
    assert client.acknowledge("c") == ["jms1:1:1:2"]


def test_delivered_acknowledgements_move_the_window_in_client_mode() -> None:
    """Half of the prefetch taken and not acknowledged: DELIVERED, and the broker sends more than the prefetch."""
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q", ack="client", prefetch=4)
    send(pair, client, *[b"%d" % number for number in range(10)])
    assert len(pair.delivered()) == 4
    take(pair, client)
    assert len(pair.delivered()) == 4
    client.take("c", pair.now(1))
    assert waiting_acks(client) == [(DELIVERED, "jms1:1:1:1", "jms1:1:1:2", 2)]
    pair.run()
    assert len(pair.delivered()) == 6
    assert pair.counter("in_flight") == 6
    assert client.acknowledge("c") == ["jms1:1:1:1", "jms1:1:1:2"]
    pair.run()
    assert (pair.counter("size"), pair.counter("in_flight")) == (8, 4 + 2 - 2)


# -- leaving


@pytest.mark.parametrize(
    ("mode", "taken", "redelivered"),
    [("client", 0, [False, False, False]), ("client", 2, [True, True, False]), ("auto", 1, [False, False])],
)
def test_closing_a_consumer_marks_what_its_application_has_seen(mode: str, taken: int, redelivered: list[bool]) -> None:
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q", ack=mode)
    send(pair, client, b"a", b"b", b"c")
    for _ in range(taken):
        take(pair, client)
    client.close_consumer("c")
    client.subscribe("d", "queue://q")
    pair.run()
    again = [notice for notice in pair.delivered() if notice.consumer == "d"]
    assert [notice.redelivered for notice in again] == redelivered
    assert [notice.delivery_count for notice in again] == [2 if marked else 1 for marked in redelivered]


def test_a_lost_connection_marks_everything_that_was_dispatched() -> None:
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q", ack="client")
    send(pair, client, b"a", b"b")
    pair.node.disconnect(1, pair.now())
    del pair.clients[1]
    second = pair.jms(2)
    second.subscribe("c", "queue://q")
    pair.run()
    assert [notice.redelivered for notice in pair.delivered(2)] == [True, True]


def test_what_is_on_its_way_to_a_closed_consumer_is_still_written_and_thrown_away() -> None:
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q")
    pair.run()
    pair.stalled.add(1)
    send(pair, client, b"a", b"b")
    client.close_consumer("c")
    pair.run()
    assert pair.counter("in_flight") == -2
    pair.stalled.clear()
    pair.run()
    assert (pair.counter("in_flight"), pair.counter("size"), pair.delivered()) == (0, 2, [])


def test_disconnect_says_goodbye_for_every_consumer() -> None:
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q", ack="client")
    client.subscribe("d", "queue://r")
    send(pair, client, b"a")
    take(pair, client)
    client.disconnect()
    pair.run()
    assert [close.reason for _, close in pair.closes] == ["ShutdownInfo"]
    assert (pair.counter("consumers"), pair.counter("size"), pair.counter("in_flight")) == (0, 1, 0)


# -- requests


def test_requests_are_answered_when_asked() -> None:
    pair = Pair()
    client = pair.jms()
    names = [client.subscribe("c", "queue://q", ack="client", receipt=True)]
    client.send("queue://q", b"x", pair.now(1), receipt=True)
    names.append(client.last_command)
    pair.run()
    take(pair, client)
    client.acknowledge("c", receipt=True)
    names.append(client.last_command)
    names.append(client.close_consumer("c", receipt=True))
    pair.run()
    receipts = [notice.receipt for notice in pair.notices[1] if isinstance(notice, Receipt)]
    assert receipts == ["1", *names]


def test_a_refused_request_keeps_the_connection() -> None:
    pair = Pair()
    client = pair.jms()
    name = client.subscribe("c", "queue://>.A", receipt=True)
    client.send("queue://a.>", b"x", pair.now(1))
    pair.run()
    asked, unasked = (notice for notice in pair.notices[1] if isinstance(notice, Failed))
    assert (asked.receipt, asked.code) == (name, "bad-destination")
    assert (unasked.receipt, unasked.code) == ("", "bad-destination")
    assert pair.closes == []


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (ConsumerInfo("c", "queue://q", -1), "prefetch -1 is negative"),
        (MessageAck("taken", 9, "m"), "acknowledgement type 9 is unknown"),
        (ConnectionInfo("again"), "sent once"),
        (MessageDispatch("c", "m", "queue://q", b""), "MessageDispatch is not one that a client may send"),
    ],
)
@pytest.mark.parametrize("asked", [True, False])
def test_a_wrong_command_ends_the_connection(command: Command, text: str, asked: bool) -> None:
    pair = Pair()
    pair.jms().subscribe("taken", "queue://q")
    command.command_id, command.response_required = 99, asked
    inject(pair, command)
    ((_, close),) = pair.closes
    assert text in close.reason
    (answer,) = written(pair, ExceptionResponse if asked else ConnectionFault)
    assert isinstance(answer, ExceptionResponse | ConnectionFault)
    assert answer.text == close.reason


@pytest.mark.parametrize("command", [RemoveInfo("nobody"), MessagePull("nobody", 0)])
@pytest.mark.parametrize("asked", [True, False])
def test_a_consumer_that_is_not_there_is_refused(command: Command, asked: bool) -> None:
    pair = Pair()
    pair.jms()
    command.command_id, command.response_required = 99, asked
    inject(pair, command)
    (answer,) = written(pair, ExceptionResponse if asked else ConnectionFault)
    assert isinstance(answer, ExceptionResponse | ConnectionFault)
    assert (answer.code, "'nobody'" in answer.text) == ("unknown-consumer", True)
    assert pair.closes == []


def test_what_is_announced_again_changes_nothing() -> None:
    """A client that comes back over another socket repeats what it had (openwire.md 10.13)."""
    pair = Pair()
    pair.jms().subscribe("c", "queue://q")
    pair.run()
    inject(pair, ConsumerInfo("c", "queue://other", 1, command_id=99, response_required=True))
    assert [answer.correlation_id for answer in written(pair, Response)][-1] == 99
    assert pair.closes == []
    assert pair.node.broker.broker_counters()["consumers"] == 1


@pytest.mark.parametrize(
    "command", [ConsumerInfo("c", "queue://q", 1), ProducerMessage(Message("m", "queue://q", b"")), RemoveInfo("c")]
)
def test_nothing_goes_before_connection_info(command: Command) -> None:
    pair = Pair()
    client = pair.jms()
    pair.node.connect(5, "openwire", pair.now())
    pair.clients[5], pair.notices[5], pair.frames[5] = client, [], []
    pair.node.receive(5, WireFormatInfo(0, 0), pair.now())
    pair.node.receive(5, command, pair.now())
    pair.run()
    assert "came before ConnectionInfo" in pair.closes[0][1].reason


def test_acknowledgements_of_a_consumer_that_has_left_are_ignored() -> None:
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", "queue://q")
    client.close_consumer("c")
    pair.run()
    inject(pair, MessageAck("c", STANDARD, "m", command_id=50, response_required=True))
    assert (pair.closes, pair.of(1, Failed)) == ([], [])
    assert [r.receipt for r in pair.notices[1] if isinstance(r, Receipt)][-1] == "50"


def test_the_client_checks_its_own_application() -> None:
    client = Pair().jms()
    with pytest.raises(ValueError, match="ack mode 'maybe' is unknown"):
        client.subscribe("c", "queue://q", ack="maybe")
    client.subscribe("c", "queue://q")
    with pytest.raises(ValueError, match="consumer 'c' exists already"):
        client.subscribe("c", "queue://q")
