"""The AMQP 1.0 agent against a peer of Qpid Proton's engine at the other end of a socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("proton")

from proton import Collector, Condition, Connection, Delivery, Event, Message, Transport, symbol

from brokerproof.conformance.agents.amqp_agent import AmqpAgent
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.wire_names import DEFAULTS, WireNames
from tests.fast.conformance.agents.agent_pipes import Piped, piped

HEADERS: ops.Headers = {"correlation-id": "request-1", "type": "order", "trip_id": "€", "seat_no": 2**63 - 1,
                        "was_paid": True, "fare_eur": -1.25}  # fmt: skip


class Peer:
    """A broker with one address: it accepts what is sent, and gives it to who comes. ``refuses``: a shorter idle
    timeout than this ends the connection.
    """

    def __init__(self, agent: AmqpAgent, refuses_s: float = 0.0) -> None:
        self.refuses_s = refuses_s
        #: The idle timeouts that were asked for, in seconds.
        self.idle_s: list[float] = []
        self.received: list[Message] = []
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
            event.link.source.copy(event.link.remote_source)
            event.link.target.copy(event.link.remote_target)
            event.link.open()
            if event.link.is_receiver:
                event.link.flow(100)
        elif event.type == Event.LINK_FLOW and event.link.is_sender:
            self._give(event.link)
        elif event.type == Event.DELIVERY and event.delivery.readable:
            message = Message()
            message.decode(event.link.recv(event.delivery.pending) or b"")
            self.received.append(message)
            event.delivery.update(Delivery.ACCEPTED)
            event.delivery.settle()

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
        self.agent.reply(self.agent.ask(ops.Subscribe(dest="queue://q0", consumer="c0/1", ack="client")))
        return self.agent.event("arrive")


@pytest.fixture
def talk() -> Iterator[Talk]:
    with piped(AmqpAgent) as agent:
        found = Talk(agent)
        try:
            yield found
        finally:
            found.peer.close()


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
