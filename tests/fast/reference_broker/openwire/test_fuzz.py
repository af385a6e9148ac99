"""Any sequence of OpenWire commands: the broker never stumbles, its counters stay right, each request is answered once.

Method: as ``test_stomp_fuzz.py``, with raw commands, right and wrong alike, from two connections.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.openwire.commands import (
    Command,
    ConnectionFault,
    ConnectionInfo,
    ConsumerInfo,
    DestinationInfo,
    MessageAck,
    MessageDispatch,
    MessagePull,
    ProducerMessage,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    TransactionInfo,
    WireFormatInfo,
)
from tests.tools import examples

NAMES = ("queue://a", "queue://b", "topic://t", "queue://*", "queue://a,topic://t", "temp-queue://x", "nonsense")
DESTINATION = st.sampled_from(NAMES)
CONSUMER = st.sampled_from(("c", "d"))
TRANSACTION = st.sampled_from(("", "t", "u"))


@st.composite
def consumer_info(draw: st.DrawFn) -> ConsumerInfo:
    return ConsumerInfo(
        draw(CONSUMER),
        draw(DESTINATION),
        draw(st.sampled_from((0, 1, 2, 1000, -1))),
        dispatch_async=draw(st.booleans()),
        selector=draw(st.sampled_from(("", "", "kind = 'a'", "kind ="))),
        subscription_name=draw(st.sampled_from(("", "", "s"))),
        no_local=draw(st.booleans()),
        exclusive=draw(st.booleans()),
        priority=draw(st.sampled_from((0, 5, 300))),
        browser=draw(st.booleans()),
    )


@st.composite
def ack(draw: st.DrawFn) -> MessageAck:
    first, last = draw(st.integers(-1, 8)), draw(st.integers(0, 8))
    return MessageAck(
        draw(CONSUMER),
        draw(st.sampled_from((0, 1, 2, 2, 3, 4, 4, 5, 6, 7))),
        f"m{last}",
        first_message_id="" if first < 0 else f"m{first}",
        destination=draw(st.sampled_from(("", "queue://a"))),
        transaction=draw(TRANSACTION),
    )


@st.composite
def message(draw: st.DrawFn) -> ProducerMessage:
    sent = Message(
        f"m{draw(st.integers(0, 8))}",
        draw(DESTINATION),
        b"x",
        expiration_ms=draw(st.sampled_from((0, 1, -1))),
        delay_ms=draw(st.sampled_from((0, 0, 0, 5, -5))),
        persistent=draw(st.booleans()),
        group_id=draw(st.sampled_from(("", "g"))),
        group_sequence=draw(st.sampled_from((0, -1))),
    )
    return ProducerMessage(sent, transaction=draw(TRANSACTION))


COMMANDS = st.one_of(
    message(),
    message(),
    consumer_info(),
    ack(),
    ack(),
    st.builds(RemoveInfo, CONSUMER, last_sequence=st.sampled_from((-2, -1, 0, 1, 50))),
    st.builds(MessagePull, CONSUMER, st.sampled_from((-2, -1, 0, 5))),
    st.builds(TransactionInfo, TRANSACTION, st.sampled_from((0, 0, 2, 4, 1))),
    st.builds(DestinationInfo, DESTINATION, st.sampled_from((0, 1, 7))),
    st.builds(RemoveSubscriptionInfo, st.sampled_from(("s", "none"))),
)
SCRIPTS = st.lists(st.tuples(st.integers(1, 2), COMMANDS, st.booleans()), max_size=40)


class Broker:
    """A node, and what it has answered on each connection."""

    def __init__(self) -> None:
        self.node = Node(BrokerConfig())
        self.now = Now(0, 1_800_000_000_000)
        self.answers: dict[int, list[int]] = {1: [], 2: []}
        self.asked: dict[int, list[int]] = {1: [], 2: []}
        self.faults = 0
        for connection in (1, 2):
            self.node.connect(connection, "openwire", self.now)
            self.say(connection, WireFormatInfo(0, 0), asks=False)
            self.say(connection, ConnectionInfo(f"client{connection}"), asks=False)

    def say(self, connection: int, command: Command, *, asks: bool) -> None:
        number = len(self.asked[connection]) + 1
        # A pull has no answer of its own.
        if asks and not isinstance(command, MessagePull):
            command.command_id, command.response_required = number, True
            if self.is_open(connection):
                self.asked[connection].append(number)
        self.node.receive(connection, command, self.now)
        for each in (1, 2):
            while (written := self.node.next_output(each, self.now)) is not None:
                if isinstance(written, Response):
                    self.answers[each].append(written.correlation_id)
                self.faults += isinstance(written, ConnectionFault)
                assert isinstance(written, Command | MessageDispatch)
        self.node.broker.check()

    def is_open(self, connection: int) -> bool:
        return not self.node._connections[connection].closed


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=SCRIPTS)
def test_any_commands(script: list[tuple[int, Command, bool]]) -> None:
    broker = Broker()
    for connection, command, asks in script:
        broker.say(connection, command, asks=asks)
    for connection in (1, 2):
        assert broker.answers[connection] == broker.asked[connection], "each request once, in order"
        broker.node.disconnect(connection, broker.now)
    broker.node.broker.check()
    assert broker.node.broker.broker_counters()["in_flight"] == 0
