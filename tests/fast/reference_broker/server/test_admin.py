"""The admin port without its socket: operations are answered when the broker has answered, in order of the lines."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.events import Operation
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.server.admin import Admin, AdminConnection
from brokerproof.reference_broker.session.actions import Answered
from tests.fast.reference_broker.node.wire_pair import Pair


class Port:
    """An admin port of a pair's node; its ``lines`` are the answers so far."""

    def __init__(self, pair: Pair | None = None) -> None:
        self.pair = pair if pair is not None else Pair()
        self.stopping = asyncio.Event()
        self.admin = Admin(self.pair.node, self.pair.now, self.flush, self.stopping)
        self.connection = AdminConnection(self.admin, set())
        self.lines: list[dict[str, Any]] = []
        self.connection._transport = self  # type: ignore[assignment]  # the one method of a transport that is used

    def write(self, data: bytes) -> None:
        self.lines += [json.loads(line) for line in data.splitlines()]

    def flush(self, now: Now) -> None:
        for action in self.pair.node.take_actions():
            if isinstance(action, Answered):
                self.admin.answered(action)

    def ask(self, **request: object) -> dict[str, Any]:
        self.connection.data_received(json.dumps(request).encode() + b"\n")
        return self.lines[-1]


def filled(count: int) -> Pair:
    pair = Pair()
    client = pair.stomp()
    for number in range(count):
        client.send("queue://q", b"%d" % number)
    pair.run()
    return pair


def test_a_purge_says_how_many_messages_it_concerned() -> None:
    port = Port(filled(3))
    assert port.ask(do="purge", dest="queue://q") == {"ok": {"count": 3}}
    assert port.pair.counter("size") == 0


def test_a_queue_is_browsed_in_its_order_and_nothing_is_taken() -> None:
    pair = filled(3)
    pair.jms(2).subscribe("c", "queue://q", 1, ack="client")
    pair.run()
    port = Port(pair)
    messages = port.ask(do="browse", dest="queue://q")["ok"]["messages"]
    assert [one["body"] for one in messages] == ["0", "1", "2"]
    assert messages[0] == {
        "message_id": "ID-b-1-1",
        "body": "0",
        "expiration_ms": 0,
        "timestamp_ms": pair.wall_ms,
        "priority": 4,
        "persistent": False,
        "redelivery_count": 0,
        "properties": {},
    }
    assert len(port.ask(do="browse", dest="queue://q", limit=2)["ok"]["messages"]) == 2
    assert (pair.counter("size"), pair.counter("in_flight")) == (3, 1)


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"do": "fly"}, "do = 'fly' is unknown; one of now, counters, destinations, browse, quit, purge, remove, move"),
        ({"do": "purge"}, "dest = None is not a destination; write it as in queue://NAME"),
        ({"do": "purge", "dest": 3}, "dest = 3 is not a destination"),
        ({"do": "move", "dest": "queue://q"}, "to = None is not a destination"),
        (
            {"do": "move", "dest": "queue://q", "to": "queue://r", "count": -1},
            "count = -1 is not usable; send a number",
        ),
        ({"do": "move", "dest": "queue://q", "to": "queue://r", "selector": 1}, "selector = 1 is not a text"),
        ({"do": "limit", "dest": "queue://q"}, "bytes = None is not usable"),
        ({"do": "limit", "bytes": True}, "bytes = True is not usable"),
        ({"do": "browse", "dest": "topic://t"}, "dest = 'topic://t' is no queue of this broker"),
        ({"do": "counters", "dest": "queue://none"}, "dest = 'queue://none' does not exist"),
    ],
)
def test_a_request_that_cannot_be_understood_changes_nothing(request_: dict[str, object], text: str) -> None:
    port = Port(filled(1))
    answer = port.ask(**request_)
    assert answer["fail"]["code"] == "bad-request"
    assert text in answer["fail"]["text"]
    assert port.pair.counter("size") == 1


def test_what_the_broker_refuses_is_told_with_its_code() -> None:
    answer = Port().ask(do="purge", dest="queue://none")
    assert answer["fail"]["code"] == "unknown-destination"
    assert "'queue://none' does not exist" in answer["fail"]["text"]


def test_answers_come_in_the_order_of_the_requests() -> None:
    class Slow(Node):
        """Its answers to operations wait, as they do while a journal is written."""

        def submit(self, operation: Operation, now: Now) -> int:
            return 7

    pair = Pair()
    pair.node = Slow(BrokerConfig())
    port = Port(pair)
    port.connection.data_received(b'{"do": "purge", "dest": "queue://q"}\n{"do": "destinations"}\n')
    assert port.lines == []
    port.admin.answered(Answered(7, 5))
    assert port.lines == [{"ok": {"count": 5}}, {"ok": {"destinations": []}}]


def test_quit_stops_the_server() -> None:
    port = Port()
    assert port.ask(do="quit") == {"ok": {}}
    assert port.stopping.is_set()
