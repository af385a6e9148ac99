"""The node: what an edge is promised.

Popping is writing, closing has an order, monitors end dead links, and the in-flight count shows all of it.

Method: nodes in virtual time, mostly with real client sessions in front (``wire_pair``); the actions themselves are
read where their order matters.
"""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig, Monitor
from brokerproof.reference_broker.core.delay import Delay
from brokerproof.reference_broker.core.events import Purge
from brokerproof.reference_broker.core.instant import NS_PER_MS, Now
from brokerproof.reference_broker.core.policies import Policies
from brokerproof.reference_broker.inactivity import DocumentedMonitor
from brokerproof.reference_broker.inactivity import Monitor as InactivityMonitor
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.session.actions import Close, OutputReady
from brokerproof.reference_broker.session.notice import Closed
from brokerproof.reference_broker.stomp.frames import HEARTBEAT, Frame
from tests.fast.reference_broker.node.wire_pair import WALL_MS, Pair

NOW = Now(0, WALL_MS)


def hello(node: Node, connection: int = 1, **headers: str) -> None:
    node.connect(connection, "stomp", NOW)
    node.receive(connection, Frame("CONNECT", {"accept-version": "1.2", **headers}), NOW)


def drain(node: Node, connection: int = 1) -> list[str]:
    """The commands of everything that can be written."""
    out = []
    while (frame := node.next_output(connection, NOW)) is not None:
        out.append(frame.command if isinstance(frame, Frame) else repr(frame))
    return out


def kinds(node: Node) -> list[str]:
    return [type(action).__name__ for action in node.take_actions()]


def subscribe(node: Node, connection: int = 1, **headers: str) -> None:
    node.receive(
        connection,
        Frame("SUBSCRIBE", {"id": "s", "destination": "/queue/q", "ack": "client-individual", **headers}),
        NOW,
    )


def send(node: Node, count: int, connection: int = 1) -> None:
    for number in range(count):
        node.receive(connection, Frame("SEND", {"destination": "/queue/q"}, b"%d" % number), NOW)


def counter(node: Node, name: str) -> int:
    counters = node.broker.counters("queue://q", NOW)
    assert counters is not None
    return counters[name]


# -- output


def test_output_is_announced_once_until_the_outbox_was_empty() -> None:
    node = Node(BrokerConfig())
    hello(node)
    assert kinds(node) == ["OutputReady"]
    node.receive(1, Frame("SEND", {"destination": "/queue/q", "receipt": "r"}), NOW)
    assert kinds(node) == []
    assert node.has_output(1)
    assert drain(node) == ["CONNECTED", "RECEIPT"]
    assert not node.has_output(1)
    node.receive(1, Frame("SEND", {"destination": "/queue/q", "receipt": "r"}), NOW)
    (action,) = node.take_actions()
    assert isinstance(action, OutputReady)
    assert action.connection == 1
    assert node.take_actions() == []


def test_an_edge_that_looks_before_it_pops_is_told_again() -> None:
    node = Node(BrokerConfig())
    hello(node)
    while node.has_output(1):
        node.next_output(1, NOW)
    node.take_actions()
    node.receive(1, Frame("SEND", {"destination": "/queue/q", "receipt": "r"}), NOW)
    assert kinds(node) == ["OutputReady"]


def test_another_connections_consumer_is_announced() -> None:
    node = Node(BrokerConfig())
    hello(node, 1)
    hello(node, 2)
    subscribe(node, 1)
    drain(node, 1), drain(node, 2), node.take_actions()
    send(node, 1, connection=2)
    (action,) = node.take_actions()
    assert isinstance(action, OutputReady)
    assert action.connection == 1


def test_popping_is_writing() -> None:
    """The in-flight count rises with each message that leaves the outbox, not when it is assigned (seed 003)."""
    node = Node(BrokerConfig())
    hello(node)
    subscribe(node)
    drain(node)
    send(node, 3)
    seen = [counter(node, "in_flight")]
    while node.next_output(1, NOW) is not None:
        seen.append(counter(node, "in_flight"))
    assert seen == [0, 1, 2, 3]


def test_in_flight_swings_negative_when_a_consumer_leaves_before_its_messages_were_written() -> None:
    """N1: k of N written, then the consumer closes: k - N, until the outbox is drained."""
    node = Node(BrokerConfig())
    hello(node)
    subscribe(node)
    drain(node)
    send(node, 5)
    node.next_output(1, NOW)
    node.next_output(1, NOW)
    node.receive(1, Frame("UNSUBSCRIBE", {"id": "s"}), NOW)
    assert counter(node, "in_flight") == 2 - 5
    assert drain(node) == []
    assert counter(node, "in_flight") == 0
    assert counter(node, "dispatched") == 5


def test_the_end_of_a_drained_outbox_is_none() -> None:
    node = Node(BrokerConfig())
    assert node.next_output(7, NOW) is None
    assert not node.has_output(7)


# -- closing


def test_a_lost_socket_ends_balanced() -> None:
    node = Node(BrokerConfig())
    hello(node)
    subscribe(node)
    drain(node)
    send(node, 4)
    node.next_output(1, NOW)
    node.disconnect(1, NOW)
    assert (counter(node, "in_flight"), counter(node, "size"), counter(node, "dispatched")) == (0, 4, 4)
    assert node.broker.broker_counters()["connections"] == 0
    assert not node.has_output(1)
    node.disconnect(1, NOW)


def test_an_automatic_subscription_does_not_eat_messages_while_its_socket_is_lost() -> None:
    node = Node(BrokerConfig())
    hello(node)
    subscribe(node, **{"ack": "auto", "activemq.prefetchSize": "2"})
    drain(node)
    send(node, 6)
    node.disconnect(1, NOW)
    assert (counter(node, "size"), counter(node, "in_flight"), counter(node, "dequeued")) == (6, 0, 0)


def test_close_comes_after_the_last_frames_are_ready_and_the_core_was_told() -> None:
    node = Node(BrokerConfig())
    hello(node)
    subscribe(node)
    drain(node)
    node.take_actions()
    send(node, 3)
    node.receive(1, Frame("BEGIN", {}), NOW)
    actions = node.take_actions()
    assert [type(action).__name__ for action in actions] == ["OutputReady", "Close"]
    assert node.broker.broker_counters()["connections"] == 0
    assert (counter(node, "in_flight"), counter(node, "consumers")) == (0, 0)
    assert drain(node) == ["ERROR"], "messages that were not written are not written any more"
    node.receive(1, Frame("SEND", {"destination": "/queue/q"}), NOW)
    node.protocol_error(1, "again", NOW)
    assert counter(node, "size") == 3
    assert node.take_actions() == []
    node.disconnect(1, NOW)


def test_a_goodbye_is_clean_and_its_receipt_is_written() -> None:
    node = Node(BrokerConfig())
    hello(node)
    drain(node)
    node.receive(1, Frame("DISCONNECT", {"receipt": "bye"}), NOW)
    (ready, close) = node.take_actions()[-2:]
    assert isinstance(ready, OutputReady)
    assert isinstance(close, Close)
    assert (close.reason, close.inactive) == ("DISCONNECT", False)
    assert drain(node) == ["RECEIPT"]


def test_malformed_input_gets_error_and_close_even_before_connect() -> None:
    node = Node(BrokerConfig())
    node.connect(1, "stomp", NOW)
    node.bytes_received(1, Now(5, WALL_MS))
    node.protocol_error(1, "header 'x' has no colon; write name:value", Now(7, WALL_MS), "r1")
    close = node.take_actions()[-1]
    assert isinstance(close, Close)
    assert (close.reason, close.idle_ns) == ("header 'x' has no colon; write name:value", 2)
    frame = node.next_output(1, NOW)
    assert isinstance(frame, Frame)
    assert frame.headers["receipt-id"] == "r1"


def test_what_was_sent_behind_a_broken_frame_is_not_looked_at() -> None:
    node = Node(BrokerConfig())
    node.connect(1, "stomp", NOW)
    node.receive(1, Frame("CONNECT", {"accept-version": "7"}), NOW)
    node.receive(1, Frame("CONNECT", {"accept-version": "1.2"}), NOW)
    assert drain(node) == ["ERROR"]
    assert node.broker.broker_counters()["connections"] == 0


def test_messages_of_a_doomed_connection_go_to_the_next_consumer() -> None:
    pair = Pair()
    first, second = pair.stomp(1), pair.stomp(2)
    first.subscribe("s", "queue://q", ack="client", prefetch=3)
    pair.run()
    for body in (b"1", b"2", b"3"):
        second.send("queue://q", body)
    second.subscribe("s", "queue://q", ack="client")
    pair.run()
    first.outbox.append(Frame("BEGIN", {}))
    pair.run()
    assert [(got.body, got.redelivered) for got in pair.delivered(2)] == [(b"1", True), (b"2", True), (b"3", True)]
    assert pair.counter("in_flight") == 3


def test_numbers_and_protocols_are_checked() -> None:
    node = Node(BrokerConfig())
    node.connect(1, "stomp", NOW)
    with pytest.raises(ValueError, match="connection 1 exists already"):
        node.connect(1, "stomp", NOW)
    with pytest.raises(ValueError, match="'mqtt' is unknown; one of stomp, openwire"):
        node.connect(2, "mqtt", NOW)
    with pytest.raises(TypeError, match="takes Frame"):
        node.receive(1, b"SEND", NOW)


# -- time


def test_a_silent_link_is_closed_in_its_window_and_logged_in_the_words_of_the_seed() -> None:
    """documented on STOMP: R = 2 cx, D = min(cx, cy)."""
    pair = Pair()
    client = pair.stomp(heart_beat_ms=(1000, 500))
    client.subscribe("s", "queue://q", ack="client")
    client.send("queue://q", b"x")
    pair.advance(10_000)
    assert pair.closes == []
    frozen_ns = pair.mono_ns
    pair.frozen.add(1)
    pair.advance(10_000)
    ((at_ns, close),) = pair.closes
    assert close.inactive
    assert close.reason == "Channel was inactive for too (>2000) long: tcp://peer-1"
    assert close.idle_ns == 2000 * NS_PER_MS
    assert 1500 * NS_PER_MS <= at_ns - frozen_ns <= 2000 * NS_PER_MS, "the client beats every cx/2"
    cause = f"org.apache.activemq.transport.InactivityIOException: {close.reason}"
    assert [(line.level, line.logger, line.text) for line in pair.logs] == [
        (
            "DEBUG",
            "org.apache.activemq.transport.AbstractInactivityMonitor",
            "2000 ms elapsed since last read check.",
        ),
        (
            "DEBUG",
            "org.apache.activemq.transport.AbstractInactivityMonitor",
            "No message received since last read check for tcp://peer-1! Throwing InactivityIOException.",
        ),
        (
            "DEBUG",
            "org.apache.activemq.broker.TransportConnection.Transport",
            f"Transport Connection to: tcp://peer-1 failed: {cause}",
        ),
    ]
    assert (pair.counter("in_flight"), pair.counter("consumers"), pair.counter("size")) == (0, 0, 1)


def test_nothing_is_sent_on_an_inactivity_close() -> None:
    """INA-24."""
    pair = Pair()
    pair.stomp(heart_beat_ms=(1000, 0))
    written = len(pair.frames[1])
    pair.frozen.add(1)
    pair.advance(5000)
    assert len(pair.closes) == 1
    assert len(pair.frames[1]) == written


def test_nothing_that_waits_is_sent_on_an_inactivity_close() -> None:
    node = Node(BrokerConfig())
    hello(node, 1, **{"heart-beat": "1000,0"})
    node.receive(1, Frame("SEND", {"destination": "/queue/q", "receipt": "r"}), NOW)
    assert node.has_output(1)
    node.tick(Now(2000 * NS_PER_MS, WALL_MS))
    assert kinds(node)[-1] == "Close"
    assert drain(node) == []


@pytest.mark.parametrize(
    ("generation", "heart_beat", "closes_ms"),
    [
        ("documented", (1000, 500), 500 + 2000),
        ("documented", (1000, 0), 2000),
        ("classic", (1000, 500), 500 + 2000),
        ("classic", (1000, 0), 2000),
    ],
)
def test_silent_after_connect(generation: str, heart_beat: tuple[int, int], closes_ms: int) -> None:
    """INA-39."""
    pair = Pair(BrokerConfig(generation={"monitor": generation}))
    pair.stomp(heart_beat_ms=heart_beat)
    pair.frozen.add(1)
    pair.advance(20_000)
    assert [at_ns // NS_PER_MS for at_ns, _ in pair.closes] == [closes_ms]


@pytest.mark.parametrize("generation", ["documented", "classic"])
def test_a_client_that_never_says_hello(generation: str) -> None:
    pair = Pair(BrokerConfig(generation={"monitor": generation}, monitor=Monitor(connect_timeout_ms=3000)))
    pair.stomp(connect=False)
    pair.frozen.add(1)
    pair.advance(20_000)
    ((at_ns, close),) = pair.closes
    assert (at_ns, close.idle_ns) == (3000 * NS_PER_MS, 3000 * NS_PER_MS)
    assert "no connection attempt made" in close.reason


@pytest.mark.parametrize("generation", ["documented", "classic"])
def test_healthy_idle_links_stay_and_dead_brokers_are_noticed(generation: str) -> None:
    pair = Pair(BrokerConfig(generation={"monitor": generation}))
    pair.stomp(heart_beat_ms=(1000, 1000))
    pair.advance(60_000)
    assert (pair.closes, pair.of(1, Closed)) == ([], [])
    pair.stalled.add(1)  # the broker goes on, but nothing of it arrives
    pair.advance(10_000)
    (closed,) = pair.of(1, Closed)
    assert isinstance(closed, Closed)
    assert closed.reason.startswith("Channel was inactive for too (>")
    assert pair.clients == {}


@pytest.mark.parametrize(("generation", "largest_gap_ms"), [("documented", 200), ("classic", 800)])
def test_server_beats(generation: str, largest_gap_ms: int) -> None:
    """INA-40, and none while other frames are written anyway."""
    pair = Pair(BrokerConfig(generation={"monitor": generation}))
    client = pair.stomp(heart_beat_ms=(0, 400))
    pair.advance(4000)
    beats = pair.beats(1)
    assert len(beats) >= 4000 // largest_gap_ms
    assert max(later - earlier for earlier, later in zip([0, *beats], beats, strict=False)) <= largest_gap_ms
    before = len(pair.beats(1))
    for _ in range(60):
        client.send("queue://q", b"", receipt=True)
        pair.advance(50)
    assert len(pair.beats(1)) <= before + 1


def test_keep_alives_do_not_pile_up_behind_a_stalled_reader() -> None:
    """INA-22: a peer that sends but does not read is not closed, and what waits for it stays bounded."""
    pair = Pair()
    client = pair.stomp(heart_beat_ms=(1000, 100))
    client.subscribe("s", "queue://q", ack="client")
    pair.run()
    pair.stalled.add(1)
    client.monitor.stop()  # it cannot know that the broker lives
    client.send("queue://q", b"x")
    for _ in range(100):
        client.outbox.append(HEARTBEAT)
        pair.advance(500)
    assert pair.closes == []
    assert pair.counter("in_flight") == 0
    pair.stalled.clear()
    pair.run()
    assert [type(frame).__name__ for _, frame in pair.frames[1]].count("Heartbeat") == 0
    assert pair.counter("in_flight") == 1


@pytest.mark.parametrize("generation", ["documented", "classic"])
def test_steps_of_the_wall_clock_do_not_touch_monitors(generation: str) -> None:
    """INA-30, INA-31."""
    pair = Pair(BrokerConfig(generation={"monitor": generation}))
    pair.stomp(1, heart_beat_ms=(1000, 1000))
    pair.stomp(2, heart_beat_ms=(1000, 1000))
    for step_ms in (30_000, -60_000, 3_600_000, -7_200_000):
        pair.wall_ms += step_ms
        pair.advance(1500)
    assert pair.closes == []
    pair.frozen.add(2)
    pair.wall_ms -= 30_000
    pair.advance(4000)
    assert [close.connection for _, close in pair.closes] == [2]


def test_many_monitors_each_close_in_their_own_window() -> None:
    """INA-27."""
    pair = Pair()
    due: dict[int, int] = {}
    for connection in range(1, 60):
        period = 1000 + 37 * connection
        pair.stomp(connection, heart_beat_ms=(period, 0))
        if connection % 3:
            pair.frozen.add(connection)
            due[connection] = 2 * period
    pair.advance(10_000)
    assert {close.connection: at_ns // NS_PER_MS for at_ns, close in pair.closes} == due


def test_the_timers_heap_does_not_grow_with_traffic() -> None:
    pair = Pair()
    client = pair.stomp(heart_beat_ms=(1000, 1000))
    for _ in range(500):
        client.send("queue://q", b"x", receipt=True)
        pair.advance(10)
    assert len(pair.node._timers._heap) <= 3


def test_the_core_is_ticked_when_it_asks() -> None:
    node = Node(BrokerConfig())
    hello(node)
    node.receive(1, Frame("SEND", {"destination": "/queue/q", "AMQ_SCHEDULED_DELAY": "100"}), NOW)
    assert counter(node, "size") == 0
    assert node.next_due_ns() == 100 * NS_PER_MS
    node.tick(Now(100 * NS_PER_MS - 1, WALL_MS))
    assert counter(node, "size") == 0
    node.tick(Now(100 * NS_PER_MS, WALL_MS))
    assert counter(node, "size") == 1


# -- operators and mutants


def test_an_operator_purges() -> None:
    node = Node(BrokerConfig())
    hello(node)
    send(node, 3)
    node.submit(Purge("queue://q"), NOW)
    assert (counter(node, "size"), counter(node, "dequeued")) == (0, 3)


def test_policies_and_monitors_can_be_swapped() -> None:
    class Impatient(DocumentedMonitor):
        """A planted defect: gives up after nine tenths of R."""

        def start(self, now_ns: int, read_ms: int, write_ms: int, initial_delay_ms: int) -> None:
            super().start(now_ns, read_ms * 9 // 10, write_ms, initial_delay_ms)

    def factory(config: BrokerConfig, address: str, now_ns: int) -> InactivityMonitor:
        return Impatient(address, now_ns)

    class Early(Delay):
        """A planted defect: releases delayed messages a millisecond early."""

        def due_ns(self, remaining_ms: int, now: Now) -> int:
            return super().due_ns(remaining_ms - 1, now)

    config = BrokerConfig()
    node = Node(config, Policies.from_config(config).replace("delay", Early()), factory)
    node.connect(1, "stomp", NOW)
    node.receive(1, Frame("CONNECT", {"heart-beat": "1000,0"}), NOW)
    assert node.next_due_ns() == 1800 * NS_PER_MS
    node.receive(1, Frame("SEND", {"destination": "/queue/q", "AMQ_SCHEDULED_DELAY": "100"}), NOW)
    assert node.next_due_ns() == 99 * NS_PER_MS
