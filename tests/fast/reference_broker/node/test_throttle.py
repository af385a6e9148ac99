"""Producer flow control at the edge: a stopped connection is not listened to, and goes on in order afterwards."""

from __future__ import annotations

from brokerproof.reference_broker.core.config import BrokerConfig, DestinationPolicy, Monitor
from brokerproof.reference_broker.session.actions import Action, OutputReady, Throttle
from brokerproof.reference_broker.session.notice import Receipt
from brokerproof.reference_broker.stomp.client import ClientSession
from tests.fast.reference_broker.node.wire_pair import Pair

#: What a message of 1 KiB is charged.
CHARGE = 2048


class Watched(Pair):
    """Remembers what the node asked its edge to do."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config)
        self.throttles: list[tuple[int, bool]] = []

    def _act(self, actions: list[Action]) -> None:
        self.throttles += [(one.connection, one.blocked) for one in actions if isinstance(one, Throttle)]
        super()._act(actions)


def body(number: int) -> bytes:
    return b"%02d" % number + b"." * 1022


def full(**config: object) -> tuple[Watched, ClientSession]:
    """A queue whose memory holds ten messages, and its producer on connection 1, which has sent twelve."""
    policy = DestinationPolicy("q", memory_limit_bytes=10 * CHARGE, high_water_percent=100)
    pair = Watched(
        BrokerConfig(generation={"memory": "G3"}, destinations=[policy], **config)  # type: ignore[arg-type]
    )
    producer = pair.stomp(heart_beat_ms=(1000, 0))
    for number in range(12):
        producer.send("queue://q", body(number), persistent=True)
    pair.run()
    return pair, producer


def test_an_unconfirmed_sender_is_stopped_and_what_it_sends_then_is_kept_in_order() -> None:
    pair, producer = full()
    assert pair.throttles == [(1, True)]
    assert pair.counter("enqueued") == 10
    name = producer.send("queue://other", b"later", receipt=True)
    pair.run()
    assert pair.of(1, Receipt) == []
    assert pair.node.broker.counters("queue://other", pair.now()) is None
    consumer = pair.stomp(2)
    consumer.subscribe("s", "queue://q")
    pair.run()
    assert pair.bodies(2) == [body(number) for number in range(12)]
    assert pair.throttles[-1] == (1, False)
    assert [notice.receipt for notice in pair.of(1, Receipt)] == [name]  # type: ignore[attr-defined]
    assert pair.counter("enqueued", "queue://other") == 1
    pair.node.broker.check()


def test_a_confirmed_sender_waits_for_its_answer_and_is_not_stopped() -> None:
    pair, _ = full()
    other = pair.stomp(2)
    other.send("queue://q", b"x", persistent=True, receipt=True)
    name = other.send("queue://elsewhere", b"y", receipt=True)
    pair.run()
    assert pair.throttles == [(1, True)]
    assert [notice.receipt for notice in pair.of(2, Receipt)] == [name]  # type: ignore[attr-defined]


def test_a_stopped_connection_is_alive_for_the_monitor_and_watched_again_afterwards() -> None:
    pair, _ = full(monitor=Monitor(read_ms=1000))
    pair.frozen.add(1)
    pair.advance(10_000)
    assert pair.closes == []
    consumer = pair.stomp(2)
    consumer.subscribe("s", "queue://q")
    pair.run()
    assert pair.throttles[-1] == (1, False)
    pair.advance(10_000)
    assert [close.connection for _, close in pair.closes] == [1]


def test_a_stopped_connection_that_goes_takes_along_what_was_not_listened_to() -> None:
    pair, producer = full()
    producer.send("queue://other", b"later")
    pair.run()
    pair.node.disconnect(1, pair.now())
    del pair.clients[1]
    consumer = pair.stomp(2)
    consumer.subscribe("s", "queue://q")
    pair.run()
    assert pair.node.broker.counters("queue://other", pair.now()) is None
    assert not any(isinstance(action, OutputReady) and action.connection == 1 for action in pair.node.take_actions())
