"""Any sequence of STOMP frames: the broker never stumbles, its counters stay right, and every receipt is answered once.

Method: Hypothesis draws frames for two connections from a small world (two queues, a topic, a durable subscription, two
transactions), right and wrong alike. Each connection begins with a CONNECT; after an ERROR its further frames are
ignored, as the server does.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.stomp.frames import V10, V11, V12, Frame
from tests.tools import examples

DESTINATIONS = ("/queue/a", "/queue/b", "/topic/t", "/queue/*", "/queue/a,/topic/t", "/temp-queue/x", "/nowhere/x", "")
OPTIONS: dict[str, tuple[str, ...]] = {
    "ack": ("auto", "client", "client-individual", "maybe"),
    "activemq.prefetchSize": ("1", "2", "-1", "x"),
    "activemq.exclusive": ("true", "false"),
    "activemq.noLocal": ("true", "no"),
    "activemq.priority": ("7", "200"),
    "activemq.subscriptionName": ("d",),
    "selector": ("kind = 'a'", "kind ="),
}
FIELDS: dict[str, tuple[str, ...]] = {
    "persistent": ("true",),
    "expires": ("1", "1900000000000", "soon"),
    "AMQ_SCHEDULED_DELAY": ("5", "-5"),
    "JMSXGroupID": ("g",),
    "JMSXGroupSeq": ("-1", "1", "x"),
    "reply-to": ("/queue/r", "/temp-topic/y", "r"),
    "kind": ("a", "b"),
    "priority": ("9",),
}
TRANSACTIONS = ("", "t", "u")


def some(table: dict[str, tuple[str, ...]]) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in table.items()})


def frame(command: str, **parts: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[str, dict[str, object]]]:
    return st.tuples(st.just(command), st.fixed_dictionaries(parts))


TRANSACTION = st.sampled_from(TRANSACTIONS)
FRAMES = st.one_of(
    frame("SEND", destination=st.sampled_from(DESTINATIONS), more=some(FIELDS), transaction=TRANSACTION),
    frame("SUBSCRIBE", destination=st.sampled_from(DESTINATIONS), id=st.sampled_from("12"), more=some(OPTIONS)),
    frame("UNSUBSCRIBE", id=st.sampled_from("12"), more=some({"activemq.subscriptionName": ("d", "e")})),
    frame("ACK", delivery=st.integers(0, 9), transaction=TRANSACTION),
    frame("NACK", delivery=st.integers(0, 9), transaction=TRANSACTION),
    frame("BEGIN", transaction=TRANSACTION),
    frame("COMMIT", transaction=TRANSACTION),
    frame("ABORT", transaction=TRANSACTION),
    frame("DISCONNECT"),
)

SCRIPTS = st.lists(st.tuples(st.integers(1, 2), FRAMES), max_size=30)


class Broker:
    """A node and what it has written on each connection."""

    def __init__(self, version: str) -> None:
        self.node = Node(BrokerConfig())
        self.version = version
        self.messages: dict[int, list[Frame]] = {1: [], 2: []}
        self.answered: dict[int, list[str]] = {1: [], 2: []}
        self.asked: dict[int, list[str]] = {1: [], 2: []}
        self.closed: dict[int, bool] = {1: False, 2: False}
        self.now = Now(0, 1_800_000_000_000)
        for connection in (1, 2):
            self.node.connect(connection, "stomp", self.now)
            self.say(connection, Frame("CONNECT", {"accept-version": version, "client-id": f"c{connection}"}))

    def say(self, connection: int, frame: Frame) -> None:
        self.node.receive(connection, frame, self.now)
        for number in (1, 2):
            while (written := self.node.next_output(number, self.now)) is not None:
                assert isinstance(written, Frame)
                if written.command == "MESSAGE":
                    self.messages[number].append(written)
                else:
                    self.answered[number].append(written.headers.get("receipt-id", ""))
                    self.closed[number] |= written.command == "ERROR"
        self.node.take_actions()
        self.node.broker.check()

    def play(self, connection: int, command: str, parts: dict[str, object]) -> None:
        headers = {name: str(value) for name, value in parts.items() if name not in {"more", "delivery"} and value}
        more = parts.get("more")
        if isinstance(more, dict):
            headers |= more
        delivery = parts.get("delivery")
        if isinstance(delivery, int):
            headers |= self.names(connection, delivery)
        receipt = f"r{len(self.asked[connection])}"
        if not self.closed[connection]:
            self.asked[connection].append(receipt)
        self.say(connection, Frame(command, {**headers, "receipt": receipt}))
        self.closed[connection] |= command == "DISCONNECT"

    def names(self, connection: int, delivery: int) -> dict[str, str]:
        """The headers by which an ACK names a delivery, counted from the newest."""
        seen = self.messages[connection]
        if delivery >= len(seen):
            return {"id": "none", "message-id": "none", "subscription": "1"}
        headers = seen[-1 - delivery].headers
        return {
            "id": headers.get("ack", "none"),
            "message-id": headers["message-id"],
            "subscription": headers["subscription"],
        }


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(version=st.sampled_from([V10, V11, V12]), script=SCRIPTS)
def test_any_frames(version: str, script: list[tuple[int, tuple[str, dict[str, object]]]]) -> None:
    broker = Broker(version)
    for connection, (command, parts) in script:
        broker.play(connection, command, parts)
    for connection in (1, 2):
        assert broker.answered[connection] == ["", *broker.asked[connection]], "each receipt once, in order"
        broker.node.disconnect(connection, broker.now)
    broker.node.broker.check()
    assert broker.node.broker.broker_counters()["in_flight"] == 0
