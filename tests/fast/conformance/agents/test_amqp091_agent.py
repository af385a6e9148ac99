"""The AMQP 0-9-1 agent, with a channel that remembers what was published, and gives it back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pika")

import pika

from brokerproof.conformance.agents.amqp091_agent import Amqp091Agent
from brokerproof.conformance.agents.stamps import NS_PER_S
from brokerproof.conformance.experiment import operations as ops
from tests.fast.conformance.agents.agent_pipes import Piped, piped

HEADERS: ops.Headers = {"correlation-id": "request-1", "type": "order", "trip_id": "€", "seat_no": 2**63 - 1,
                        "was_paid": True, "fare_eur": -1.25}  # fmt: skip


class Channel:
    """What the library offers of one. Properties are encoded and decoded as on the wire."""

    is_open = True

    def __init__(self) -> None:
        self.published: list[tuple[str, str, bytes, pika.BasicProperties]] = []
        self.declared: list[tuple[str, dict[str, Any]]] = []
        self.acknowledged: list[tuple[int, bool]] = []
        #: What was said of exchanges.
        self.exchanges: list[tuple[Any, ...]] = []
        #: What waits for an answer; None: all is answered at once.
        self.unanswered: list[Callable[[Any], None]] | None = None

    def queue_declare(
        self,
        queue: str,
        *,
        arguments: dict[str, Any] | None = None,
        callback: Callable[[Any], None] | None = None,
        **_: Any,
    ) -> None:
        """Remember it, and answer."""
        self.declared.append((queue, arguments or {}))
        self.answer(callback)

    def queue_bind(self, *told: Any, callback: Callable[[Any], None] | None = None) -> None:
        """Remember it, and answer."""
        self.exchanges.append(told)
        self.answer(callback)

    def exchange_declare(self, *told: Any, **_: Any) -> None:
        """Remember it."""
        self.exchanges.append(told)

    def tx_commit(self, callback: Callable[[Any], None]) -> None:
        """Remember it among what is published, and answer."""
        self.published.append(("", "commit", b"", pika.BasicProperties()))
        self.answer(callback)

    def add_on_close_callback(self, _: object) -> None:
        """It stays."""

    def answer(self, callback: Callable[[Any], None] | None) -> None:
        """Now or later."""
        if self.unanswered is not None and callback is not None:
            self.unanswered.append(callback)
        elif callback is not None:
            callback(None)

    def close(self) -> None:
        """It is over."""
        self.is_open = False

    def basic_ack(self, tag: int, multiple: bool = False) -> None:
        """Remember it."""
        self.acknowledged.append((tag, multiple))

    def basic_publish(self, exchange: str, key: str, body: bytes, properties: pika.BasicProperties) -> None:
        """Remember it."""
        read = pika.BasicProperties()
        read.decode(b"".join(properties.encode()))
        self.published.append((exchange, key, body, read))


class Talk:
    """An agent that is connected, its channel."""

    def __init__(self, agent: Piped[Amqp091Agent]) -> None:
        self.agent = agent
        self.channel = Channel()
        agent.agent.connected = True
        agent.agent._sending = self.channel

    def sent(self, **options: Any) -> pika.BasicProperties:
        """What a message is published with."""
        self.agent.ask(ops.Send(dest="queue://q0", message="p0/1", **options))
        return self.channel.published[-1][3]

    def arrival(self, *, redelivered: bool = False) -> dict[str, Any]:
        """What is told of it when it arrives."""
        agent = self.agent.agent
        agent.consumers["c0/1"] = ops.Subscribe(dest="queue://q0", consumer="c0/1", ack="client")
        _, _, body, properties = self.channel.published[-1]
        method = SimpleNamespace(delivery_tag=1, redelivered=redelivered)
        agent._delivered("c0/1", self.channel, method, properties, body)
        return self.agent.event("arrive")


@pytest.fixture
def talk() -> Iterator[Talk]:
    with piped(Amqp091Agent) as agent:
        yield Talk(agent)


def test_what_applications_read_goes_there_and_back(talk: Talk) -> None:
    properties = talk.sent(headers=HEADERS, kind="a")
    assert (properties.correlation_id, properties.type) == ("request-1", "order")
    arrived = talk.arrival()
    assert arrived["headers"] == {**HEADERS, "fare_eur": "-1.25"}  # the library sends no doubles
    assert arrived["kind"] == "a"
    assert arrived["properties"] == ["fare_eur", "kind", "seat_no", "trip_id", "was_paid"]


def test_a_plain_message_carries_nothing(talk: Talk) -> None:
    assert talk.sent().headers is None
    arrived = talk.arrival()
    assert (arrived["headers"], arrived.get("properties", []), arrived.get("kind")) == ({}, [], None)


def test_what_a_broker_adds_is_told(talk: Talk) -> None:
    talk.sent()
    properties = talk.channel.published[-1][3]
    properties.headers, properties.reply_to = {"x-first-death-queue": "q0", "one_more": 1}, "answers"
    arrived = talk.arrival()
    assert arrived["original_dest"] == "queue://q0"
    assert arrived["properties"] == ["one_more", "x-first-death-queue"]
    assert arrived["headers"] == {"one_more": 1, "reply-to": "answers"}


def test_earlier_deliveries_are_told_where_the_broker_counts_them(talk: Talk) -> None:
    talk.agent.agent.words = {**talk.agent.agent.words, "delivery_count": "x-delivery-count"}
    talk.sent()
    properties = talk.channel.published[-1][3]
    properties.headers = {"x-delivery-count": 2}
    arrived = talk.arrival(redelivered=True)
    assert (arrived["delivery_count"], arrived["headers"]) == (3, {})


@pytest.mark.parametrize("redelivered", [False, True])
def test_a_redelivery_is_told(talk: Talk, redelivered: bool) -> None:
    talk.sent()
    assert talk.arrival(redelivered=redelivered).get("redelivered", False) is redelivered


def test_no_queue_is_declared_twice_and_dead_letters_are_there_first(talk: Talk) -> None:
    talk.agent.agent.names = talk.agent.agent.names.__class__(
        queue="{name}", topic="{name}", dead_letters="DLQ", arguments={"x-dead-letter-routing-key": "DLQ"}
    )
    talk.sent()
    talk.sent()
    talk.agent.ask(ops.Send(dest="queue://ActiveMQ.DLQ", message="p0/2"))
    assert talk.channel.declared == [("DLQ", {}), ("q0", {"x-dead-letter-routing-key": "DLQ"})]


def test_a_delay_is_a_header_in_the_exchange_that_holds_back(talk: Talk) -> None:
    """To which its queue is bound. Without a word for it, it is refused, and nothing is published at once."""
    asked = talk.channel.exchanges
    refused = talk.agent.reply(talk.agent.ask(ops.Send(dest="queue://q0", message="p0/0", delay_ms=500)))
    assert ("names.amqp091.headers.delay" in str(refused), talk.channel.published, asked) == (True, [], [])
    talk.agent.agent.words = {**talk.agent.agent.words, "delay": "x-delay"}
    assert talk.sent(delay_ms=500).headers == {"x-delay": 500}
    assert talk.channel.published[-1][:2] == ("brokerproof.delayed", "queue://q0")
    assert ("brokerproof.delayed", "x-delayed-message") in asked
    assert ("q0", "brokerproof.delayed", "queue://q0") in asked
    assert talk.sent().headers is None
    assert talk.channel.published[-1][:2] == ("", "q0")


def test_who_says_nothing_for_two_intervals_is_gone(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before, and not while octets come."""
    agent = talk.agent.agent
    connection = SimpleNamespace(params=SimpleNamespace(heartbeat=1), bytes_received=8, _transport=None)
    agent._connection, now_ns = connection, 10 * NS_PER_S
    monkeypatch.setattr(agent.loop, "call_later", lambda *_: None)
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns)
    for after_s, octets, there in ((0, 0, True), (1.9, 8, True), (0.2, 16, True), (1.9, 16, True), (0.2, 16, False)):
        now_ns += round(after_s * NS_PER_S)
        connection.bytes_received, before = octets, connection.bytes_received
        agent._listen(connection, before)
        assert agent.connected is there
    assert talk.agent.event("closed")["who"] == "client"


def test_nothing_is_published_before_its_queue_is_declared(talk: Talk) -> None:
    """The library holds a request back behind an unanswered one, but no message; a commit waits, too."""
    waiting = talk.channel.unanswered = []
    talk.agent.agent._channels["c0/tx1"] = talk.channel
    for number, (queue, tx) in enumerate((("q0", ""), ("q1", ""), ("q0", ""), ("q2", "c0/tx1"))):
        talk.agent.ask(ops.Send(dest=f"queue://{queue}", message=f"p0/{number}", tx=tx))
    talk.agent.ask(ops.Commit(tx="c0/tx1"))
    seen = [[key for _, key, _, _ in talk.channel.published]]
    while waiting:
        waiting.pop(0)(None)
        seen.append([key for _, key, _, _ in talk.channel.published])
    assert seen[:3] == [[], ["q0"], ["q0", "q1"]]
    assert seen[-1] == ["q0", "q1", "q0", "q2", "commit"]
    assert [queue for queue, _ in talk.channel.declared][:2] == ["q0", "q1"]


def test_who_left_before_its_channel_was_open_holds_nothing(talk: Talk) -> None:
    opened: list[Callable[[Any], None]] = []

    def channel(*, on_open_callback: Callable[[Any], None]) -> None:
        opened.append(on_open_callback)

    talk.agent.agent._connection = SimpleNamespace(channel=channel)
    talk.agent.ask(ops.Subscribe(dest="queue://q0", consumer="c0/1", ack="client"))
    talk.agent.ask(ops.Leave(consumer="c0/1"))
    own = Channel()
    opened[0](own)
    assert (own.is_open, own.declared) == (False, [])


def test_a_transaction_that_has_not_begun_takes_nothing(talk: Talk) -> None:
    """Behind a stalled link its channel is not open yet. What is asked in it is refused at once, and not published."""
    for operation in (
        ops.Send(dest="queue://q0", message="p0/1", tx="c0/tx1"),
        ops.Commit(tx="c0/tx1"),
        ops.Abort(tx="c0/tx1"),
    ):
        assert "unknown-transaction" in str(talk.agent.reply(talk.agent.ask(operation)))
    assert talk.channel.published == []


@pytest.mark.parametrize(
    ("asked", "acknowledged"),
    [
        (["1 2 3"], [(3, True)]),
        (["1", "2 3"], [(1, False), (3, True)]),
        (["2 3"], [(2, False), (3, False)]),  # the first one is still held
        (["2", "1 3"], [(2, False), (3, True)]),
        (["1 3"], [(1, False), (3, False)]),
    ],
)
def test_all_up_to_a_message_are_acknowledged_at_once(
    talk: Talk, asked: list[str], acknowledged: list[tuple[int, bool]]
) -> None:
    """Of four that came; another consumer's channel has tags of its own."""
    agent = talk.agent.agent
    agent.held = {("c0/1", f"p0/{tag}"): [(talk.channel, tag)] for tag in range(1, 5)}
    agent.held["c0/2", "p0/9"] = [(Channel(), 1)]
    for names in asked:
        talk.agent.ask(ops.Ack(consumer="c0/1", messages=[f"p0/{tag}" for tag in names.split()]))
    assert talk.channel.acknowledged == acknowledged
