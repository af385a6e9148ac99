"""The two JMS producers: settings in all orders of the calls, what they refuse and by which exception, and what the
broker makes of a delay and a time to live.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.inactivity import DocumentedMonitor
from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.openwire.commands import ProducerMessage
from brokerproof.reference_broker.openwire.framing import ClientFraming
from brokerproof.reference_broker.openwire.producer import JMSError, JMSProducer, JMSRuntimeError, MessageProducer
from brokerproof.reference_broker.session.framing import Limits
from brokerproof.reference_broker.session.notice import Delivered
from tests.fast.reference_broker.node.wire_pair import WALL_MS, Pair

Q = "queue://q"
NOW = Now(0, 1_000_000)
BOTH = pytest.mark.parametrize("simplified", [False, True])


def session() -> ClientSession:
    return ClientSession("c", DocumentedMonitor("b", 0))


def producer_of(client: ClientSession, simplified: bool) -> Any:
    return JMSProducer(client) if simplified else MessageProducer(client, Q)


def send(producer: Any, now: Now = NOW) -> None:
    if isinstance(producer, JMSProducer):
        producer.send(Q, b"x", now)
    else:
        producer.send(b"x", now)


def sent(client: ClientSession) -> list[tuple[int, int]]:
    """(delay, time to live) of what was sent."""
    messages = [command.message for command in client.outbox if isinstance(command, ProducerMessage)]
    return [(m.delay_ms, m.expiration_ms - NOW.wall_ms if m.expiration_ms else 0) for m in messages]


@BOTH
@pytest.mark.parametrize("order", list(permutations(["delay", "ttl", "send"])))
@pytest.mark.parametrize(("delay_ms", "ttl_ms"), [(500, 2000), (2000, 500), (700, 700), (700, 701), (701, 700)])
def test_all_six_orders(simplified: bool, order: tuple[str, ...], delay_ms: int, ttl_ms: int) -> None:
    """What was set before the send counts; no order and no pair of values is refused by any of the three calls."""
    client = session()
    producer = producer_of(client, simplified)
    for call in order:
        if call == "delay":
            producer.set_delivery_delay(delay_ms)
        elif call == "ttl":
            producer.set_time_to_live(ttl_ms)
        else:
            send(producer)
    before = order[: order.index("send")]
    assert sent(client) == [(delay_ms if "delay" in before else 0, ttl_ms if "ttl" in before else 0)]
    assert (producer.delivery_delay_ms, producer.time_to_live_ms) == (delay_ms, ttl_ms)


@BOTH
def test_defaults_and_back_to_none(simplified: bool) -> None:
    client = session()
    producer = producer_of(client, simplified)
    assert (producer.delivery_delay_ms, producer.time_to_live_ms) == (0, 0)
    for delay_ms in (0, 1, 0):
        producer.set_delivery_delay(delay_ms)
        send(producer)
    assert sent(client) == [(0, 0), (1, 0), (0, 0)]


@BOTH
@pytest.mark.parametrize(
    ("setter", "value", "kinds"),
    [
        ("set_delivery_delay", -1, ("JMSException", "JMSRuntimeException")),
        ("set_delivery_delay", -(2**63), ("JMSException", "JMSRuntimeException")),
        ("set_time_to_live", -1, ("IllegalStateException", "IllegalStateRuntimeException")),
        ("set_priority", 10, ("JMSException", "JMSRuntimeException")),
        ("set_priority", -1, ("JMSException", "JMSRuntimeException")),
    ],
)
def test_a_refused_setter_says_the_value_and_changes_nothing(
    simplified: bool, setter: str, value: int, kinds: tuple[str, str]
) -> None:
    client = session()
    producer = producer_of(client, simplified)
    producer.set_delivery_delay(7)
    producer.set_time_to_live(9)
    with pytest.raises(JMSRuntimeError if simplified else JMSError) as caught:
        getattr(producer, setter)(value)
    assert (caught.value.kind, str(value) in str(caught.value)) == (kinds[simplified], True)
    send(producer)
    assert sent(client) == [(7, 9)]


def test_the_simplified_producer_chains() -> None:
    client = session()
    producer = JMSProducer(client)
    chained = producer.set_delivery_delay(5).set_time_to_live(6).set_priority(7).set_persistent(False)
    assert chained.set_disable_message_timestamp(True).send(Q, b"x", NOW) is producer
    (command,) = client.outbox
    assert isinstance(command, ProducerMessage)
    message = command.message
    assert (message.delay_ms, message.priority, message.persistent, message.timestamp_ms) == (5, 7, False, 0)
    assert message.expiration_ms == NOW.wall_ms + 6


def test_a_send_of_the_classic_producer_has_its_own_life_but_no_delay_of_its_own() -> None:
    client = session()
    producer = MessageProducer(client, Q)
    producer.set_time_to_live(100)
    producer.set_delivery_delay(3)
    producer.send(b"", NOW, ttl_ms=0)
    producer.send(b"", NOW, ttl_ms=-5, persistent=False, priority=0)
    producer.send(b"", NOW)
    assert sent(client) == [(3, 0), (3, 0), (3, 100)]


def test_destinations_of_the_classic_producer() -> None:
    client = session()
    fixed, free = MessageProducer(client, Q), MessageProducer(client)
    with pytest.raises(JMSError, match="sends to queue://q only") as caught:
        fixed.send(b"", NOW, destination="queue://other")
    assert caught.value.kind == "UnsupportedOperationException"
    with pytest.raises(JMSError, match="no destination") as missing:
        free.send(b"", NOW)
    assert missing.value.kind == "InvalidDestinationException"
    assert free.send(b"", NOW, destination="queue://other").destination == "queue://other"
    assert len(client.outbox) == 1


def test_the_simplified_producer_needs_a_destination() -> None:
    with pytest.raises(JMSRuntimeError) as caught:
        JMSProducer(session()).send("", b"", NOW)
    assert caught.value.kind == "InvalidDestinationRuntimeException"


def test_a_closed_producer_does_nothing() -> None:
    client = session()
    producer = MessageProducer(client, Q)
    producer.close()
    producer.close()
    calls: list[Any] = [
        lambda: producer.set_delivery_delay(1),
        lambda: producer.set_time_to_live(1),
        lambda: producer.set_priority(1),
        lambda: producer.set_persistent(False),
        lambda: producer.set_disable_message_timestamp(True),
        lambda: producer.send(b"", NOW),
    ]
    for call in calls:
        with pytest.raises(JMSError, match="closed") as caught:
            call()
        assert caught.value.kind == "IllegalStateException"
    assert not client.outbox


@pytest.mark.parametrize(("delay_ms", "ttl_ms", "comes"), [(500, 0, True), (500, 1000, True), (1000, 500, False)])
def test_what_the_broker_makes_of_them(delay_ms: int, ttl_ms: int, comes: bool) -> None:
    """Both count from the send; a time to live that ends before the delay ends while the message waits."""
    pair = Pair()
    client = pair.jms()
    client.subscribe("c", Q)
    JMSProducer(client).set_delivery_delay(delay_ms).set_time_to_live(ttl_ms).send(Q, b"x", pair.now(1))
    pair.run()
    pair.advance(delay_ms - 1)
    assert pair.of(1, Delivered) == []
    pair.advance(1)
    found = [notice.expiration_ms for notice in pair.of(1, Delivered) if isinstance(notice, Delivered)]
    assert found == ([WALL_MS + ttl_ms if ttl_ms else 0] if comes else [])


@BOTH
def test_a_life_or_a_delay_beyond_the_calendar_can_be_written(simplified: bool) -> None:
    """Long.MAX_VALUE is what people write for "ever": in Java the sum overflows, which is no expiration."""
    client = session()
    producer = producer_of(client, simplified)
    producer.set_time_to_live(2**63 - 1)
    producer.set_delivery_delay(2**63 - 1)
    send(producer)
    producer.set_time_to_live(2**63 - 1 - NOW.wall_ms)
    send(producer)
    commands = [command for command in client.outbox if isinstance(command, ProducerMessage)]
    assert [command.message.expiration_ms for command in commands] == [0, 2**63 - 1]
    framing = ClientFraming(Limits(), "ID:c")
    for command in commands:
        assert framing.encode(command)
