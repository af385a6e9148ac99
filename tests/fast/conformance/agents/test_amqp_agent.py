"""The AMQP 1.0 agent against a peer of Qpid Proton's engine at the other end of a socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

pytest.importorskip("proton")

from proton import (
    Collector,
    Condition,
    Connection,
    Data,
    Delivery,
    Described,
    Endpoint,
    Event,
    Message,
    Terminus,
    Transport,
    symbol,
    ulong,
)

from brokerproof.conformance.agents.amqp_agent import AmqpAgent
from brokerproof.conformance.agents.protocol import AnyOperation, Request
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.wire_names import DEFAULTS, WireNames
from tests.fast.conformance.agents.agent_pipes import Piped, piped

SELECTOR, NO_LOCAL = symbol("apache.org:selector-filter:string"), symbol("apache.org:no-local-filter:list")
NAMES = WireNames(queue="{name}", topic="{name}", dead_letters="DLQ", headers={"no_local": str(NO_LOCAL)})
DECLARED, IN_TRANSACTION = 0x33, 0x34
TX = b"transaction 1"
HEADERS: ops.Headers = {"correlation-id": "request-1", "type": "order", "trip_id": "€", "seat_no": 2**63 - 1,
                        "was_paid": True, "fare_eur": -1.25}  # fmt: skip


class Peer:
    """A broker with one address: it accepts what is sent, and gives it to who comes. ``refuses``: a shorter idle
    timeout than this ends the connection; ``filters``: it does as filters say; ``answer``: how it ends
    transactions, and what is sent in one.
    """

    filters = True
    answer: int = Delivery.ACCEPTED

    def __init__(self, agent: AmqpAgent, refuses_s: float = 0.0) -> None:
        self.refuses_s = refuses_s
        #: The idle timeouts that were asked for, in seconds.
        self.idle_s: list[float] = []
        self.received: list[Message] = []
        #: The credit that links were given.
        self.credits: list[tuple[str, int]] = []
        #: What links were asked for, how they ended, and what their deliveries were told.
        self.links: list[tuple[str, dict[str, Any]]] = []
        self.ends: list[tuple[str, str]] = []
        self.judged: list[tuple[int, Any]] = []
        #: What its coordinator was told, and of what else it heard in transactions.
        self.asked: list[tuple[int, list[Any]]] = []
        self.within: list[Any] = []
        self.durables: set[str] = set()
        self._agent = agent
        self._sockets: list[socket.socket] = []

    def dial(self, _: ops.Connect) -> socket.socket:
        """What the agent gets for a connected socket."""
        its, own = socket.socketpair()
        self._sockets.append(own)
        its.setblocking(False)
        own.setblocking(False)
        self.transport, self.connection, self.collector = Transport(Transport.SERVER), Connection(), Collector()
        self.connection.collect(self.collector)
        sasl = self.transport.sasl()
        sasl.allow_insecure_mechs = True
        sasl.allowed_mechs("ANONYMOUS")
        self.transport.bind(self.connection)
        self._agent.loop.add_reader(own, self._readable, own)
        return its

    def close(self) -> None:
        """Give its sockets back."""
        for sock in self._sockets:
            if sock.fileno() >= 0:
                self._agent.loop.remove_reader(sock)
                sock.close()

    def _readable(self, sock: socket.socket) -> None:
        part = sock.recv(65536)
        if not part:
            self._agent.loop.remove_reader(sock)
            return
        self.transport.push(part)
        while (event := self.collector.peek()) is not None:
            self._happened(event)
            self.collector.pop()
        while (size := self.transport.pending()) > 0:
            sock.send(self.transport.peek(size) or b"")
            self.transport.pop(size)

    def _happened(self, event: Any) -> None:
        if event.type == Event.CONNECTION_REMOTE_OPEN:
            self.idle_s.append(self.transport.remote_idle_timeout)
            self.connection.open()
            if 0 < self.idle_s[-1] < self.refuses_s:
                self.connection.condition = Condition("amqp:invalid-field", "the idle timeout is too short")
                self.connection.close()
        elif event.type == Event.SESSION_REMOTE_OPEN:
            event.session.open()
        elif event.type == Event.LINK_REMOTE_OPEN:
            self._attached(event.link)
        elif event.type in {Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH}:
            self._left(event.link, closes=event.type == Event.LINK_REMOTE_CLOSE)
        elif event.type == Event.LINK_FLOW and event.link.is_sender:
            self.credits.append((event.link.name, event.link.credit))
            self._give(event.link)
        elif event.type == Event.DELIVERY and event.link.is_sender:
            self.judged.append((event.delivery.remote_state, event.delivery.remote.data))
        elif event.type == Event.DELIVERY and event.delivery.readable:
            self._hear(event.link, event.delivery)

    def _attached(self, link: Any) -> None:
        source = link.remote_source
        asked = {"durability": source.durability, "expiry": source.expiry_policy, "filters": object_in(source.filter)}
        self.links.append((link.name, asked))
        link.target.copy(link.remote_target)
        if link.is_sender and source.type == Terminus.UNSPECIFIED and link.name not in self.durables:
            link.source.type = Terminus.UNSPECIFIED
            link.open()
            link.condition = Condition("amqp:not-found", "there is no such subscription")
            link.close()
            return
        link.source.copy(source)
        link.source.type, link.source.address = Terminus.SOURCE, source.address or "some topic"
        if not self.filters:
            link.source.filter.clear()
        if source.durability == Terminus.DELIVERIES:
            self.durables.add(link.name)
        link.open()
        if link.is_receiver:
            link.flow(100)

    def _left(self, link: Any, *, closes: bool) -> None:
        self.ends.append((link.name, "close" if closes else "detach"))
        if closes:
            self.durables.discard(link.name)
        if not link.state & Endpoint.LOCAL_CLOSED:
            (link.close if closes else link.detach)()
        link.free()

    def _hear(self, link: Any, delivery: Any) -> None:
        data = link.recv(delivery.pending) or b""
        link.advance()
        state, answer = self.answer, []
        if link.remote_target.type == Terminus.COORDINATOR:
            said = Data()
            said.decode(data)
            body: Any = object_in(said)
            said_there = [bytes(one) if isinstance(one, memoryview) else one for one in body.value.value]
            self.asked.append((body.value.descriptor, said_there))
            if body.value.descriptor == 0x31:
                state, answer = DECLARED, [TX]
        else:
            message = Message()
            message.decode(data)
            self.received.append(message)
        if delivery.remote_state == IN_TRANSACTION:
            self.within.append(delivery.remote.data)
            why = [] if state == Delivery.ACCEPTED else [Described(ulong(0x1D), [symbol("amqp:not-allowed"), "no"])]
            state, answer = IN_TRANSACTION, [TX, Described(ulong(int(state)), why)]
        if state == Delivery.REJECTED:
            delivery.local.condition = Condition("amqp:transaction:rollback", "no")
        delivery.local.data = answer or None
        delivery.update(state)
        delivery.settle()

    def _give(self, link: Any) -> None:
        for place, message in enumerate(self.received):
            link.delivery(f"{place}")
            link.stream(message.encode())
            link.advance()


class Talk:
    """An agent, its peer."""

    def __init__(self, agent: Piped[AmqpAgent]) -> None:
        self.agent = agent
        self.peer = Peer(agent.agent)
        agent.agent.dial = self.peer.dial  # type: ignore[method-assign]  # there is no network here

    def connect(self, **options: Any) -> dict[str, Any]:
        """The reply to a request to connect."""
        return self.agent.reply(self.agent.ask(ops.Connect(url="amqp://127.0.0.1:1", **options)))

    def sent(self, **options: Any) -> dict[str, Any]:
        """The reply to a send."""
        return self.agent.reply(self.agent.ask(ops.Send(dest="queue://q0", message="p0/1", **options)))

    def arrival(self) -> dict[str, Any]:
        """What a consumer is given."""
        self.subscribed(ack="client")
        return self.agent.event("arrive")

    def subscribed(self, consumer: str = "c0/1", **options: Any) -> dict[str, Any]:
        """The reply to a request for a consumer."""
        return self.asked(ops.Subscribe(**{"dest": "queue://q0", "consumer": consumer, **options}))

    def asked(self, operation: AnyOperation) -> dict[str, Any]:
        """The reply to any request."""
        return self.agent.reply(self.agent.ask(operation))

    def until(self, found: Callable[[], bool]) -> None:
        """Let it come about. Raises ``TimeoutError``."""
        self.agent.until(lambda: [{}] if found() else [])


def object_in(data: Any) -> Any:
    """What the engine has decoded."""
    data.rewind()
    return data.get_object() if data.next() else None


@pytest.fixture
def talk() -> Iterator[Talk]:
    with piped(AmqpAgent) as agent:
        found = Talk(agent)
        try:
            yield found
        finally:
            found.peer.close()


def test_the_last_instant_of_the_calendar_goes_there_and_back(talk: Talk) -> None:
    """The library's own unit, seconds as floats, would round it beyond what it can say."""
    talk.connect()
    assert talk.sent(endless=True)["ok"]["expiration_ms"] == 2**63 - 1
    assert talk.arrival()["expiration_ms"] == 2**63 - 1


def test_a_broker_that_refuses_a_short_idle_timeout_is_asked_again_without_one(talk: Talk) -> None:
    talk.peer.refuses_s = 10.0
    assert "ok" in talk.connect(heartbeat_ms=(1000, 1000))
    assert len(talk.peer.idle_s) == 2
    assert 0 < talk.peer.idle_s[0] <= 1
    assert talk.peer.idle_s[1] == 0


def test_an_idle_timeout_that_is_accepted_is_kept(talk: Talk) -> None:
    assert "ok" in talk.connect(heartbeat_ms=(1000, 1000))
    assert len(talk.peer.idle_s) == 1


def test_what_applications_read_goes_there_and_back(talk: Talk) -> None:
    talk.connect()
    assert "ok" in talk.sent(headers=HEADERS, kind="a")
    (message,) = talk.peer.received
    assert (message.correlation_id, message.subject) == ("request-1", "order")
    arrived = talk.arrival()
    assert arrived["headers"] == HEADERS
    assert arrived["kind"] == "a"
    assert arrived["properties"] == ["fare_eur", "kind", "seat_no", "trip_id", "was_paid"]


def test_what_nobody_sent_is_told(talk: Talk) -> None:
    talk.connect()
    talk.sent()
    (message,) = talk.peer.received
    message.reply_to, message.subject = "answers", "invented"
    told: Any = message
    told.properties = {"one_more": 1}
    arrived = talk.arrival()
    assert arrived["headers"] == {"reply-to": "answers", "type": "invented", "one_more": 1}
    assert arrived["properties"] == ["one_more"]


@pytest.mark.parametrize(("count", "mark"), [(0, None), (1, True), (3, True)])
def test_a_delivery_count_of_0_marks_nothing(talk: Talk, count: int, mark: bool | None) -> None:
    talk.connect()
    talk.sent()
    talk.peer.received[0].delivery_count = count
    arrived = talk.arrival()
    assert (arrived["redelivered"], arrived["delivery_count"]) == (mark, count + 1)


def test_a_profile_says_what_is_called_how(talk: Talk) -> None:
    plain = DEFAULTS["amqp"]
    names = WireNames(queue=plain.queue, topic=plain.topic, headers={"type": "x_type", "correlation-id": ""})
    talk.connect(names=names)
    assert "ok" in talk.sent(headers={"type": "order"})
    assert talk.peer.received[0].properties == {"x_type": "order"}
    arrived = talk.arrival()
    assert (arrived["headers"], arrived["properties"]) == ({"type": "order"}, ["type"])
    refused = talk.sent(headers={"correlation-id": "request-1"})
    assert refused["fail"]["code"] == "unsupported"


def test_a_delay_is_the_annotation_that_the_profile_names(talk: Talk) -> None:
    talk.connect()
    talk.sent(delay_ms=500)
    assert talk.peer.received[0].annotations == {symbol("x-opt-delivery-delay"): 500}


@pytest.mark.parametrize(
    ("properties", "annotations", "expected"),
    [
        ({"origin": "t/t0", "why_dead": "expired"}, {}, "topic://t0"),
        ({}, {symbol("origin"): "q/q0"}, "queue://q0"),
        ({"origin": "q/dead"}, {}, "queue://ActiveMQ.DLQ"),
        ({"origin": "elsewhere"}, {}, "queue://elsewhere"),
    ],
)
def test_a_dead_letter_names_its_queue_in_a_property_or_in_an_annotation(
    talk: Talk, properties: dict[str, str], annotations: dict[Any, str], expected: str
) -> None:
    words = {"original_destination": "origin"}
    talk.connect(names=WireNames(queue="q/{name}", topic="t/{name}", dead_letters="q/dead", headers=words))
    talk.sent()
    (message,) = talk.peer.received
    message.properties, message.annotations = properties, annotations
    arrival = talk.arrival()
    assert arrival["original_dest"] == expected
    assert (arrival["headers"] or {}).keys() == properties.keys() - {"origin"}


# -- filters


def test_a_selector_and_no_local_are_filters_of_the_source(talk: Talk) -> None:
    talk.connect(names=NAMES)
    assert "ok" in talk.subscribed(selector="kind = 'a'", no_local=True)
    ((_, asked),) = talk.peer.links
    found = {name: (one.descriptor, one.value) for name, one in asked["filters"].items()}
    assert found == {SELECTOR: (SELECTOR, "kind = 'a'"), NO_LOCAL: (NO_LOCAL, [])}
    talk.until(lambda: [name for name, _ in talk.peer.credits] == ["c0/1"])


def test_who_filters_nothing_gets_no_consumer(talk: Talk) -> None:
    talk.connect(names=NAMES)
    talk.sent()
    talk.peer.filters = False
    assert talk.subscribed(selector="kind = 'a'")["fail"]["code"] == "amqp:not-implemented"
    talk.until(lambda: talk.peer.ends == [("c0/1", "close")])
    assert not talk.peer.credits, "what had come by then would be lost with the link"
    assert not [one for one in talk.agent.said if one.get("event") == "arrive"]


def test_no_local_needs_a_name(talk: Talk) -> None:
    talk.connect()
    assert talk.subscribed(no_local=True)["fail"]["code"] == "unsupported"


# -- durable subscriptions


def test_a_durable_subscription_is_a_link_that_is_detached_and_comes_back(talk: Talk) -> None:
    talk.connect(client_id="client 1")
    assert talk.peer.connection.remote_container == "client 1"
    for consumer in ("c0/1", "c0/2"):
        assert "ok" in talk.subscribed(consumer, dest="topic://t0", durable="d0")
        talk.asked(ops.Leave(consumer=consumer))
    talk.until(lambda: len(talk.peer.ends) == 2)
    assert talk.peer.ends == [("d0", "detach")] * 2
    assert [name for name, _ in talk.peer.links] == ["d0", "d0"]
    asked = talk.peer.links[0][1]
    assert (asked["durability"], asked["expiry"]) == (Terminus.DELIVERIES, Terminus.EXPIRE_NEVER)
    assert talk.peer.durables == {"d0"}


def test_what_comes_back_is_told_by_its_new_consumer(talk: Talk) -> None:
    talk.connect(client_id="client 1")
    talk.sent()
    talk.subscribed(dest="topic://t0", durable="d0")
    talk.agent.event("arrive")
    talk.asked(ops.Leave(consumer="c0/1"))
    talk.subscribed("c0/2", dest="topic://t0", durable="d0")
    talk.until(
        lambda: [one["consumer"] for one in talk.agent.read() if one.get("event") == "arrive"] == ["c0/1", "c0/2"]
    )


@pytest.mark.parametrize("known", [True, False])
def test_an_unsubscribe_closes_a_link_of_that_name(talk: Talk, known: bool) -> None:
    talk.connect(client_id="client 1")
    if known:
        talk.subscribed(dest="topic://t0", durable="d0")
        talk.asked(ops.Leave(consumer="c0/1"))
    reply = talk.asked(ops.Unsubscribe(durable="d0"))
    assert talk.peer.durables == set()
    if known:
        assert "ok" in reply
        assert talk.peer.ends == [("d0", "detach"), ("d0", "close")]
    else:
        assert reply["fail"]["code"] == "amqp:not-found"


def test_what_is_in_use_is_asked_for_once(talk: Talk) -> None:
    talk.connect(client_id="client 1")
    talk.subscribed(dest="topic://t0", durable="d0")
    for operation in (
        ops.Subscribe(dest="topic://t0", consumer="c0/2", durable="d0"),
        ops.Unsubscribe(durable="d0"),
    ):
        assert talk.asked(operation)["fail"]["code"] == "unsupported"


# -- transactions


@pytest.mark.parametrize("fails", [False, True])
def test_a_transaction_is_declared_and_discharged(talk: Talk, fails: bool) -> None:
    talk.connect()
    assert "ok" in talk.asked(ops.Begin(tx="tx1"))
    assert "ok" in talk.sent(tx="tx1")
    assert talk.peer.within == [[TX]]
    assert "ok" in talk.asked(ops.Abort(tx="tx1") if fails else ops.Commit(tx="tx1"))
    assert talk.peer.asked == [(0x31, []), (0x32, [TX, fails])]
    assert talk.sent(tx="tx1")["fail"]["code"] == "unknown-transaction"


def test_what_is_refused_in_a_transaction_is_told(talk: Talk) -> None:
    talk.connect()
    talk.asked(ops.Begin(tx="tx1"))
    talk.peer.answer = Delivery.REJECTED
    assert talk.sent(tx="tx1")["fail"] == {"code": "amqp:not-allowed", "text": "no"}
    assert talk.asked(ops.Commit(tx="tx1"))["fail"]["code"] == "amqp:transaction:rollback"


@pytest.mark.parametrize(
    ("operation", "outcome"),
    [
        (ops.Ack(consumer="c0/1", messages=["p0/1"], tx="tx1"), (0x24, [])),
        (ops.Nack(consumer="c0/1", messages=["p0/1"], tx="tx1"), (0x25, [])),
    ],
)
def test_what_is_settled_in_a_transaction_says_so(
    talk: Talk, operation: AnyOperation, outcome: tuple[int, list[Any]]
) -> None:
    talk.connect()
    talk.sent()
    talk.arrival()
    assert talk.asked(operation)["fail"]["code"] == "unknown-transaction"
    talk.asked(ops.Begin(tx="tx1"))
    assert "ok" in talk.asked(operation)
    talk.until(lambda: len(talk.peer.judged) == 1)
    ((state, (name, said)),) = talk.peer.judged
    assert (state, name, (said.descriptor, said.value)) == (IN_TRANSACTION, TX, outcome)


def test_a_rejection_as_modified_is_a_failed_delivery_in_a_transaction_too(talk: Talk) -> None:
    talk.connect(names=WireNames(queue="{name}", topic="{name}", reject="modified"))
    talk.sent()
    talk.arrival()
    talk.asked(ops.Begin(tx="tx1"))
    talk.asked(ops.Nack(consumer="c0/1", messages=["p0/1"], tx="tx1"))
    talk.until(lambda: len(talk.peer.judged) == 1)
    ((_, (_, said)),) = talk.peer.judged
    assert (said.descriptor, said.value) == (0x27, [True])


def test_two_letters_of_one_name_are_settled_one_by_one(talk: Talk) -> None:
    talk.connect()
    talk.sent()
    talk.sent()
    talk.arrival()
    talk.until(lambda: len([one for one in talk.agent.read() if one.get("event") == "arrive"]) == 2)
    talk.peer.received.clear()
    for answer in ("ok", "ok", "fail"):
        assert answer in talk.asked(ops.Ack(consumer="c0/1", messages=["p0/1"]))
    talk.until(lambda: len(talk.peer.judged) == 2)


def test_what_nobody_expected_ends_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loop would go on, and the suite wait for an answer."""

    def failing(*_: object) -> None:
        raise OverflowError("too big")

    requests, asking = os.pipe()
    answering, answers = os.pipe()
    agent = AmqpAgent(requests, answers)
    agent.connected = True
    monkeypatch.setattr(agent, "send", failing)
    os.write(asking, msgspec.json.encode(Request(1, ops.Send(dest="queue://q0", message="p0/1")).fields()) + b"\n")
    with pytest.raises(OverflowError, match="too big"):
        agent.run()
    agent.loop.close()
    for descriptor in (requests, asking, answering, answers):
        os.close(descriptor)
