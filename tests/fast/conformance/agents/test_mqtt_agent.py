"""The MQTT 5 agent, with clients that are not dialled and packets that are made by hand."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("paho.mqtt")

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from brokerproof.conformance.agents.mqtt_agent import MqttAgent
from brokerproof.conformance.experiment import operations as ops
from tests.fast.conformance.agents.agent_pipes import Piped, piped

HEADERS: ops.Headers = {"correlation-id": "request-1", "type": "order", "trip_id": "€", "seat_no": 2**63 - 1,
                        "was_paid": True, "fare_eur": -1.25}  # fmt: skip


class Client:
    """What the library offers of one."""

    on_connect: Any = None
    on_subscribe: Any = None
    on_message: Any = None

    def __init__(self) -> None:
        self.is_gone = False
        self.published: list[tuple[bytes, Properties]] = []
        self.acknowledged: list[int] = []

    def publish(self, _: str, body: bytes, *, qos: int, properties: Properties) -> Any:
        """Remember it, as it is on the wire."""
        read = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # the library types it not
        read.unpack(properties.pack())  # type: ignore[no-untyped-call]
        self.published.append((body, read))
        return mqtt.MQTTMessageInfo(len(self.published))

    def ack(self, mid: int, _: int) -> None:
        """Remember it."""
        self.acknowledged.append(mid)

    def disconnect(self) -> None:
        """Remember it."""
        self.is_gone = True

    def subscribe(self, topic: str, **_: Any) -> None:
        """Remember what was asked for."""
        self.asked = topic

    def socket(self) -> None:
        """There is none."""


class Talk:
    """An agent that is connected; the clients that it dialled, with their names."""

    def __init__(self, agent: Piped[MqttAgent]) -> None:
        self.agent = agent
        self.dialled: list[tuple[str, dict[str, Any]]] = []
        self.client = self.consuming = Client()
        own: Any = agent.agent
        own.connected, own._own_id, own._sending = True, "run-c0", self.client
        own._dialled = self._dial

    def _dial(self, client_id: str, **options: Any) -> Client:
        self.dialled.append((client_id, options))
        self.consuming = Client()
        return self.consuming

    def come(self, consumer: str, dest: str, durable: str = "") -> dict[str, Any]:
        """How a consumer's connection is dialled."""
        self.agent.ask(ops.Subscribe(dest=dest, consumer=consumer, durable=durable, ack="client"))
        return self.dialled[-1][1]

    def sent(self, **options: Any) -> Properties:
        """What a message is published with."""
        self.agent.ask(ops.Send(dest="topic://t0", message="p0/1", **options))
        return self.client.published[-1][1]

    def arrival(self, *, dup: bool = False) -> dict[str, Any]:
        """What is told of it when it arrives."""
        body, properties = self.client.published[-1]
        message = mqtt.MQTTMessage(mid=7)
        message.payload, message.qos, message.dup, message.properties = body, 1, dup, properties
        client: Any = self.client
        self.agent.agent.consumers["c0/1"] = ops.Subscribe(dest="topic://t0", consumer="c0/1", ack="client")
        self.agent.agent._delivered("c0/1", client, message)
        return self.agent.event("arrive")


@pytest.fixture
def talk() -> Iterator[Talk]:
    with piped(MqttAgent) as agent:
        yield Talk(agent)


@pytest.mark.parametrize(
    ("dest", "asked", "came"),
    [("*/run", "+/run", "t1/run"), ("run/*", "run/+", "run/t1"), ("run/>", "run/#", "run/t1")],
)
def test_a_wildcard_is_asked_for_in_the_protocols_words_and_tells_what_came(
    talk: Talk, dest: str, asked: str, came: str
) -> None:
    talk.agent.ask(ops.Subscribe(dest=f"topic://{dest}", consumer="c0/1", ack="client"))
    talk.consuming.on_connect(None, None, None, ReasonCode(PacketTypes.CONNACK), None)
    assert talk.consuming.asked == asked
    talk.sent()
    body, properties = talk.client.published[-1]
    message = mqtt.MQTTMessage(mid=7, topic=came.encode())
    message.payload, message.qos, message.properties = body, 1, properties
    talk.consuming.on_message(talk.consuming, None, message)
    assert talk.agent.event("arrive")["dest"] == f"topic://{came}"


def test_a_goodbye_does_not_reset_the_connection(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not read yet would, and the broker would lose what it has not read: an acknowledgement."""
    agent, loop = talk.agent.agent, Mock()
    monkeypatch.setattr(agent, "loop", loop)
    ours, brokers = socket.socketpair()
    with brokers:
        brokers.send(b"unread")
        ours.send(b"acknowledged")
        agent._hung_up(ours)
        ours.close()
        assert [brokers.recv(100) for _ in range(2)] == [b"acknowledged", b""]
        rest = loop.add_reader.call_args.args[0]
        agent._read_out(rest)
        agent._read_out(rest)
        assert rest.fileno() >= 0, "the broker has not closed yet"
    agent._read_out(rest)
    assert rest.fileno() < 0
    agent._read_out(rest, is_over=True)


@pytest.mark.parametrize(("dest", "clean"), [("t0", False), ("t1", True)])
def test_what_a_host_had_made_before_it_was_killed_is_told_with_its_connection(
    talk: Talk, dest: str, clean: bool
) -> None:
    talk.agent.agent.open(ops.Connect(url="mqtt://b", client_id="run-c0", durables={"d": "topic://t0"}))
    assert talk.come("c0/1", f"topic://{dest}", "d")["clean"] is clean


def test_a_durable_name_that_turns_to_another_topic_begins_a_new_session(talk: Talk) -> None:
    assert talk.come("c0/1", "topic://t0", "d")["clean"] is False
    assert talk.come("c0/2", "topic://t0", "d")["clean"] is False
    assert talk.come("c0/3", "topic://t1", "d") == {"window": 1000, "keeps": True, "clean": True}
    assert talk.come("c0/4", "topic://t1", "d")["clean"] is False
    assert talk.come("c0/5", "topic://t0") == {"window": 1000, "keeps": False, "clean": True}
    assert {name for name, _ in talk.dialled[:4]} == {"run-c0-d"}


@pytest.mark.parametrize("callback", ["on_connect", "on_subscribe"])
def test_a_consumer_that_was_refused_holds_no_connection(talk: Talk, callback: str) -> None:
    talk.come("c0/1", "topic://t0", "d")
    client = talk.consuming
    refusal = ReasonCode(PacketTypes.SUBACK if callback == "on_subscribe" else PacketTypes.CONNACK, "Not authorized")
    getattr(client, callback)(client, None, 1, [refusal] if callback == "on_subscribe" else refusal, None)
    assert talk.agent.reply(1)["fail"]["text"] == "Not authorized"
    assert client.is_gone
    client.on_message(client, None, mqtt.MQTTMessage(mid=1))
    assert ("c0/1", "") not in talk.agent.agent.held


def test_a_name_that_was_given_up_begins_afresh(talk: Talk) -> None:
    talk.come("c0/1", "topic://t0", "d")
    talk.agent.ask(ops.Unsubscribe(durable="d"))
    assert talk.dialled[-1] == ("run-c0-d", {})
    assert talk.come("c0/2", "topic://t1", "d")["clean"] is False


def test_what_applications_read_goes_there_and_back_as_text(talk: Talk) -> None:
    talk.sent(headers=HEADERS, kind="a")
    arrived = talk.arrival()
    texts = {"seat_no": str(2**63 - 1), "was_paid": "true", "fare_eur": "-1.25"}
    assert arrived["headers"] == {**HEADERS, **texts}
    assert arrived["kind"] == "a"
    assert arrived["properties"] == ["fare_eur", "kind", "seat_no", "trip_id", "type", "was_paid"]


def test_what_is_left_of_a_life_is_told_in_milliseconds(talk: Talk) -> None:
    talk.sent(life_ms=2500)
    assert talk.arrival()["left_ms"] == 3000


def test_a_plain_message_carries_nothing(talk: Talk) -> None:
    talk.sent()
    arrived = talk.arrival()
    assert (arrived["headers"], arrived.get("properties", []), arrived.get("kind")) == ({}, [], None)
    assert "left_ms" not in arrived


@pytest.mark.parametrize("dup", [False, True])
def test_what_is_sent_again_says_so(talk: Talk, dup: bool) -> None:
    talk.sent()
    assert talk.arrival(dup=dup).get("redelivered", False) is dup


def test_it_tells_that_sessions_resume(talk: Talk) -> None:
    talk.agent.agent.opened()
    assert talk.agent.agent.traits.resumes
    assert not talk.agent.agent.traits.keeps_types
