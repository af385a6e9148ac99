"""A bridge between two brokers, over lines without sockets: what crosses, what is kept, what a cut in between does."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig, TimeStamping
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.inactivity import GENERATIONS
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.openwire.bridge import (
    FAR,
    NEAR,
    Bridge,
    Confirmed,
    GivenUp,
    Listening,
    PassedOn,
    Settled,
    passed_on,
)
from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.openwire.commands import MessageDispatch
from brokerproof.reference_broker.openwire.framing import ClientFraming, OpenWireFraming
from brokerproof.reference_broker.session.framing import Limits
from brokerproof.reference_broker.session.notice import Delivered, Notice
from brokerproof.reference_broker.storage.codec import decode, encode_head

WALL_MS = 1_800_000_000_000
QUEUE = "queue://q"


def client(name: str, connection: str = "") -> ClientSession:
    monitor = GENERATIONS["documented"](name, 0, connect_timeout_ms=0)
    settings = {"max_inactivity_ms": 0, "initial_delay_ms": 0}
    return ClientSession(name, monitor, consumer_expiry_check=False, connection_id=connection, **settings)


class Line:
    """A client's session and its connection to a node; ``encoded``: what passes is bytes."""

    def __init__(self, node: Node, number: int, session: ClientSession, *, encoded: bool = False) -> None:
        self.node = node
        self.number = number
        self.session = session
        self.framings = (ClientFraming(Limits(), session.client_id), OpenWireFraming(Limits())) if encoded else None
        self.down = False

    def open(self, now: Now) -> None:
        self.node.connect(self.number, "openwire", now)

    def up(self, now: Now) -> bool:
        """What the client says reaches the broker; whether it said anything."""
        said = False
        while not self.down and (frame := self.session.next_output(now.mono_ns)) is not None:
            said = True
            frames = [frame] if self.framings is None else self.framings[1].feed(self.framings[0].encode(frame))
            for one in frames:
                self.node.receive(self.number, one, now)
        return said

    def heard(self, now: Now) -> list[object]:
        """What the broker says."""
        found: list[object] = []
        while not self.down and (frame := self.node.next_output(self.number, now)) is not None:
            found += [frame] if self.framings is None else self.framings[0].feed(self.framings[1].encode(frame))
        return found

    def cut(self, now: Now) -> None:
        self.down = True
        self.node.disconnect(self.number, now)


class Network:
    """Two brokers, ``skew_ms`` is how far the clock of the far one is ahead."""

    def __init__(self, *, skew_ms: int = 0, stamps: TimeStamping | None = None, encoded: bool = False) -> None:
        self.skew_ms = skew_ms
        self.ms = 0
        self.near = Node(BrokerConfig(name="near"))
        self.far = Node(BrokerConfig(name="far", timestamping=stamps))
        self.encoded = encoded
        self.lines: list[tuple[Line, str]] = []
        self.notices: list[Notice] = []
        self.arrived: list[Delivered] = []
        self.numbers = 0
        self.build()

    def now(self, node: Node) -> Now:
        return Now(self.ms * 1_000_000, WALL_MS + self.ms + (self.skew_ms if node is self.far else 0))

    def line(self, node: Node, name: str, role: str = "") -> Line:
        self.numbers += 1
        found = Line(node, self.numbers, client(f"{name}-{self.numbers}"), encoded=self.encoded)
        found.open(self.now(node))
        self.lines.append((found, role))
        return found

    def build(self) -> None:
        """A bridge, with new connections."""
        near, far = self.line(self.near, "bridge", NEAR), self.line(self.far, "bridge", FAR)
        self.bridge_lines = (near, far)
        self.bridge = Bridge(near.session, far.session, [QUEUE], near_id="ID:near", far_id="ID:far")

    def user(self, node: Node) -> ClientSession:
        line = self.line(node, "user")
        line.session.connect()
        self.pump()
        return line.session

    def pump(self) -> None:
        """Let everything pass until nothing moves."""
        moved = True
        while moved:
            moved = False
            for line, role in self.lines:
                moved = self.pass_on(line, role) or moved

    def pass_on(self, line: Line, role: str) -> bool:
        now = self.now(line.node)
        moved = line.up(now)
        for frame in line.heard(now):
            moved = True
            if role:
                self.notices += self.bridge.receive(role, frame, now)
            else:
                self.arrived += [one for one in line.session.receive(frame, now) if isinstance(one, Delivered)]
        return moved

    def cut(self) -> None:
        """The bridge loses both connections."""
        for line in self.bridge_lines:
            line.cut(self.now(line.node))
            self.lines = [one for one in self.lines if one[0] is not line]

    def send(self, text: str, **options: object) -> None:
        if not hasattr(self, "sender"):
            self.sender = self.user(self.near)
        self.sender.send(QUEUE, text.encode(), self.now(self.near), **options)  # type: ignore[arg-type]  # its options
        self.pump()

    def consume(self) -> list[str]:
        """What a consumer of the far broker gets from now on."""
        self.user(self.far).subscribe("c", QUEUE, 100)
        self.pump()
        return self.bodies()

    def bodies(self) -> list[str]:
        return [one.body.decode() for one in self.arrived]

    def count(self, node: Node, what: str = "size") -> int:
        return node.broker.counters(QUEUE, self.now(node))[what]


@pytest.fixture(params=[False, True], ids=["commands", "bytes"])
def network(request: pytest.FixtureRequest) -> Network:
    return Network(encoded=request.param)


def test_a_message_crosses_and_leaves_the_near_broker(network: Network) -> None:
    network.send("1", priority=7, group="g", correlation_id="c", properties={"kind": "red"})
    assert network.bridge.is_open
    assert [type(one) for one in network.notices] == [Listening, PassedOn, Confirmed, Settled]
    assert network.count(network.near) == 0
    assert network.consume() == ["1"]
    arrived = network.arrived[0]
    assert (arrived.priority, arrived.group, arrived.correlation_id) == (7, "g", "c")
    assert arrived.properties["kind"] == "red"
    assert arrived.persistent


def test_it_keeps_its_id_and_order(network: Network) -> None:
    for number in range(5):
        network.send(str(number))
    assert network.consume() == ["0", "1", "2", "3", "4"]
    assert {one.message_id for one in network.arrived} == {
        one.message.message_id for one in network.notices if isinstance(one, Confirmed)
    }


def test_the_near_broker_is_appended_to_the_path(network: Network) -> None:
    network.send("1")
    (crossed,) = [one for one in network.notices if isinstance(one, Confirmed)]
    assert crossed.message.path == ("ID:near",)


def test_who_passes_it_on_from_there_knows_the_whole_path(network: Network) -> None:
    network.send("1")
    line = network.line(network.far, "next")
    line.session.connect()
    network.pump()
    line.session.subscribe("next", QUEUE, 1, ack="individual")
    now = network.now(network.far)
    line.up(now)
    (dispatch,) = [frame for frame in line.heard(now) if isinstance(frame, MessageDispatch)]
    assert passed_on(dispatch, (*dispatch.path, "ID:far")).path == ("ID:near", "ID:far")


def test_the_path_outlives_a_restart() -> None:
    message = Message("ID:1", QUEUE, b"body", persistent=True, path=("ID:near", "ID:far"))
    assert decode(QUEUE, "ID:1", encode_head(message), b"body").path == ("ID:near", "ID:far")


@pytest.mark.parametrize("skew_ms", [-60_000, 0, 60_000])
def test_an_expiration_stays_the_same_instant(skew_ms: int) -> None:
    network = Network(skew_ms=skew_ms)
    network.send("1", ttl_ms=600_000)
    network.consume()
    assert network.arrived[0].expiration_ms == WALL_MS + 600_000
    assert network.arrived[0].timestamp_ms == WALL_MS


def test_an_expiration_means_what_the_far_clock_says() -> None:
    network = Network(skew_ms=60_000)
    network.send("1", ttl_ms=30_000)
    assert network.consume() == []


@pytest.mark.parametrize(("processes", "expiration_ms"), [(False, WALL_MS + 30_000), (True, WALL_MS + 30_000 + 20_000)])
def test_a_far_broker_that_stamps_leaves_it_alone_unless_told(processes: bool, expiration_ms: int) -> None:
    network = Network(skew_ms=20_000, stamps=TimeStamping(process_network_messages=processes))
    network.send("1", ttl_ms=30_000)
    network.consume()
    assert network.arrived[0].expiration_ms == expiration_ms


def test_a_delay_is_served_once(network: Network) -> None:
    network.send("1", delay_ms=5000)
    assert not any(isinstance(one, PassedOn) for one in network.notices)
    network.ms = 5000
    network.near.tick(network.now(network.near))
    network.pump()
    assert network.consume() == ["1"]


def test_a_cut_before_the_confirmation_lets_it_cross_again(network: Network) -> None:
    network.send("0")  # everybody is there
    near, far = network.bridge_lines
    network.sender.send(QUEUE, b"1", network.now(network.near))
    for line, role in network.lines:
        if line is not far:
            network.pass_on(line, role)
    network.pass_on(near, NEAR)
    far.up(network.now(network.far))  # the far broker has it, and its answer is lost
    assert [one.body for one in network.bridge.in_doubt()] == [b"1"]
    network.cut()
    assert network.count(network.near) == 1
    network.build()
    network.pump()
    assert network.count(network.near) == 0
    assert network.consume() == ["0", "1"]


def test_the_audit_knows_what_was_consumed_meanwhile(network: Network) -> None:
    assert network.consume() == []
    test_a_cut_before_the_confirmation_lets_it_cross_again(network)


def test_a_cut_before_the_send_loses_nothing(network: Network) -> None:
    network.send("0")
    _, far = network.bridge_lines
    far.down = True
    for number in range(3):
        network.send(f"held {number}")
    assert network.count(network.near) == 3
    network.cut()
    network.build()
    network.pump()
    assert network.consume() == ["0", "held 0", "held 1", "held 2"]


def test_what_the_far_broker_refuses_is_a_dead_letter_here() -> None:
    network = Network()
    network.far.broker.region().storage_trouble = ("storage-full", "the disk is full")
    network.send("1")
    (given_up,) = [one for one in network.notices if isinstance(one, GivenUp)]
    assert given_up.text == "the disk is full"
    letters = network.near.broker.region().destinations["queue://ActiveMQ.DLQ"]
    assert letters.holds(given_up.message.message_id)
    assert network.count(network.near) == 0


def test_what_has_passed_the_far_broker_before_does_not_return() -> None:
    network = Network()
    network.send("0")
    network.numbers += 1
    back = Line(network.near, network.numbers, client("back"))
    back.open(network.now(network.near))
    back.session.connect()
    message = next(one for one in network.notices if isinstance(one, Confirmed)).message.copy_to(QUEUE)
    message.message_id, message.path = "ID:other:1:1:1", ("ID:far",)
    back.session.pass_on(message)
    network.lines.append((back, ""))
    network.pump()
    assert any(isinstance(one, GivenUp) for one in network.notices)
    assert network.consume() == ["0"]


def test_a_refused_hello_ends_it() -> None:
    network = Network()
    network.pump()
    (near, _), now = network.bridge_lines, network.now(network.near)
    second = Line(network.near, 50, client(near.session.client_id, "another"))
    bridge = Bridge(second.session, client("far"), [QUEUE], near_id="ID:near", far_id="ID:far")
    second.open(now)
    for _ in range(2):
        for frame in second.heard(now):
            bridge.receive(NEAR, frame, now)
        second.up(now)
    for frame in second.heard(now):
        bridge.receive(NEAR, frame, now)
    assert near.session.client_id in bridge.failure
    assert bridge.receive(NEAR, object(), now) == []


def test_a_lost_connection_ends_it() -> None:
    network = Network()
    network.pump()
    network.bridge.lost(FAR, "connection reset")
    assert network.bridge.failure == "far: connection reset"
