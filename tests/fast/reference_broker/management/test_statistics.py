"""Figures by message, as ActiveMQ's statisticsBrokerPlugin gives them: to STOMP and JMS clients of one node."""

from __future__ import annotations

import json

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig, DestinationPolicy
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.statistics import Encoder, Entry
from brokerproof.reference_broker.openwire.translation.maps import MAP, MapEncoder
from brokerproof.reference_broker.openwire.wire.primitives import Float, Long, decode_map, encode_map
from brokerproof.reference_broker.session.notice import Delivered
from brokerproof.reference_broker.stomp.frames import Frame
from brokerproof.reference_broker.stomp.maps import map_text
from tests.fast.reference_broker.management.manager import Manager
from tests.fast.reference_broker.node.wire_pair import Pair

REPLY = "queue://reply"


def asked(*names: str, config: BrokerConfig | None = None, transaction: str = "") -> Pair:
    """Three messages on two queues, one in flight, one on a topic; then requests of these names."""
    pair = Pair(config if config is not None else BrokerConfig(statistics=True))
    client = pair.stomp(1, client_id="cid")
    for name in ("queue://q.a", "queue://q.a", "queue://q.b", "topic://t"):
        client.send(name, b"x")
    client.subscribe("c", "queue://q.a", 1, ack="client", selector="JMSPriority = 4")
    pair.run()
    asker = pair.stomp(2)
    asker.subscribe("r", REPLY)
    if transaction:
        asker.begin(transaction)
    for name in names:
        asker.send(name, b"", reply_to=REPLY, correlation_id="7", transaction=transaction)
    pair.run()
    pair.node.broker.check()
    return pair


def maps(pair: Pair) -> list[dict[str, object]]:
    found = []
    for delivered in pair.delivered(2):
        entries = json.loads(delivered.body)["map"]["entry"]
        found.append(dict(entry["string"] if len(entry) == 1 else list(entry.values()) for entry in entries))
    return found


def test_a_destination_tells_its_metrics() -> None:
    pair = asked("queue://ActiveMQ.Statistics.Destination.q.a")
    (answer,) = maps(pair)
    assert answer == {
        "brokerName": "b",
        "brokerId": "ID:b",
        "destinationName": "queue://q.a",
        "size": 2,
        "enqueueCount": 2,
        "dequeueCount": 0,
        "dispatchCount": 1,
        "expiredCount": 0,
        "inflightCount": 1,
        "consumerCount": 1,
        "memoryUsage": pair.counter("memory_bytes", "queue://q.a"),
        "memoryLimit": 67108864,
        "memoryPercentUsage": 0,
    }
    (delivered,) = pair.delivered(2)
    assert (delivered.correlation_id, delivered.jms_type, delivered.persistent) == ("7", "Advisory", False)
    raw = json.loads(delivered.body)["map"]["entry"]
    assert {"string": "size", "long": 2} in raw
    assert {"string": "memoryPercentUsage", "int": 0} in raw


@pytest.mark.parametrize(
    ("name", "destinations"),
    [
        ("queue://ActiveMQ.Statistics.Destination.q.>", ["queue://q.a", "queue://q.b"]),
        ("queue://ActiveMQ.Statistics.Destinationq.b", ["queue://q.b"]),
        ("topic://ActiveMQ.Statistics.Destination.t", ["topic://t"]),
        ("queue://ActiveMQ.Statistics.Destination.t", []),
        ("queue://ActiveMQ.Statistics.Destination.none", []),
    ],
)
def test_names_wildcards_and_kinds(name: str, destinations: list[str]) -> None:
    pair = asked(name)
    assert [answer["destinationName"] for answer in maps(pair)] == destinations
    assert name not in pair.node.broker.destinations(), "a request creates nothing"


def test_the_broker_and_its_consumers() -> None:
    broker, *consumers = maps(asked("queue://ActiveMQ.Statistics.Broker", "queue://ActiveMQ.Statistics.Subscription"))
    assert (broker["size"], broker["enqueueCount"], broker["inflightCount"]) == (3, 4, 1)
    assert broker["storeLimit"] == 0
    (one,) = [found for found in consumers if found["destinationName"] == "q.a"]
    assert (one["clientId"], one["dispatchedQueueSize"], one["prefetchSize"]) == ("cid", 1, 1)
    # The prefix is what ActiveMQ's STOMP puts before every selector.
    assert (one["selector"], one["exclusive"]) == ("convert_string_expressions:JMSPriority = 4", False)


def test_a_subscriber_s_own_limit_and_selector_are_shown() -> None:
    pair = Pair(BrokerConfig(statistics=True, destinations=[DestinationPolicy("t", pending_message_limit=9)]))
    plain, selective, asker = pair.stomp(1), pair.stomp(3), pair.stomp(2)
    plain.subscribe("plain", "topic://t", 4)
    headers = {"activemq.retroactive": "true", "activemq.maximumPendingMessageLimit": "5"}
    selective.outbox.append(Frame("SUBSCRIBE", {"id": "selective", "destination": "/topic/t", **headers}, b""))
    asker.subscribe("r", REPLY)
    pair.run()
    asker.send("queue://ActiveMQ.Statistics.Subscription", b"", reply_to=REPLY)
    pair.run()
    found = [one for one in maps(pair) if one["destinationName"] == "t"]
    assert [(one["maximumPendingMessageLimit"], one["retroactive"]) for one in found] == [(9, False), (5, True)]


def test_a_jms_client_gets_a_map() -> None:
    pair = Pair(BrokerConfig(statistics=True))
    client = pair.jms()
    client.subscribe("r", REPLY, 10)
    client.send("queue://ActiveMQ.Statistics.Broker", b"", now=pair.now(1), reply_to=REPLY)
    pair.run()
    (reply,) = pair.delivered()
    found = decode_map(reply.body)
    assert found["brokerName"] == "b"
    assert isinstance(found["size"], Long)


def test_a_request_is_answered_at_once_and_never_waits_for_memory() -> None:
    full = BrokerConfig(statistics=True, memory_limit_bytes=100, generation={"memory": "G3"})
    pair = Pair(full)
    client = pair.stomp(2)
    client.subscribe("r", REPLY)
    client.send("queue://full", b"x", persistent=True, receipt=True)
    client.send("queue://full", b"x", persistent=True, receipt=True)
    pair.run()
    assert pair.counter("blocked_sends", "queue://full") == 1
    client.send("queue://ActiveMQ.Statistics.Broker", b"", reply_to=REPLY)
    pair.run()
    assert maps(pair)[0]["memoryPercentUsage"] == 1025


def test_in_a_transaction_the_request_does_not_wait_for_the_commit() -> None:
    assert len(maps(asked("queue://ActiveMQ.Statistics.Broker", transaction="t"))) == 1


def test_what_is_no_request_is_a_message_like_any_other() -> None:
    pair = Pair(BrokerConfig(statistics=True))
    client = pair.stomp(1)
    client.send("queue://ActiveMQ.Statistics.Broker", b"no reply-to")
    client.send("queue://ActiveMQ.Statistics.Other", b"", reply_to=REPLY)
    pair.run()
    assert pair.node.broker.destinations() == [
        "queue://ActiveMQ.Statistics.Broker",
        "queue://ActiveMQ.Statistics.Other",
    ]


def test_a_request_is_answered_also_where_a_destination_has_its_name() -> None:
    name = "queue://ActiveMQ.Statistics.Broker"
    pair = Pair(BrokerConfig(statistics=True))
    pair.stomp(1).send(name, b"no reply-to")
    asker = pair.stomp(2)
    asker.subscribe("r", REPLY)
    asker.send(name, b"", reply_to=REPLY)
    pair.run()
    assert len(maps(pair)) == 1
    assert pair.counter("size", name) == 1


def test_without_the_plug_in_nothing_is_special() -> None:
    pair = asked("queue://ActiveMQ.Statistics.Broker", config=BrokerConfig())
    assert pair.delivered(2) == []
    assert pair.counter("size", "queue://ActiveMQ.Statistics.Broker") == 1


def test_nobody_is_answered_who_is_gone() -> None:
    pair = Pair(BrokerConfig(statistics=True))
    client = pair.stomp(1)
    client.send("queue://ActiveMQ.Statistics.Broker", b"", reply_to="temp-queue://ID:gone")
    pair.run()
    assert pair.node.broker.destinations() == []


def test_maps_are_written_with_their_types() -> None:
    values = {"a": None, "b": True, "c": 1, "d": Long(2), "e": 1.5, "f": Float(0.5), "g": "x"}
    text = map_text(Message("m", REPLY, encode_map(values), form=MAP))
    assert text is not None
    assert [list(entry.items())[-1] for entry in json.loads(text)["map"]["entry"]] == [
        ("null", ""),
        ("boolean", True),
        ("int", 1),
        ("long", 2),
        ("double", 1.5),
        ("float", 0.5),
        ("string", ["g", "x"]),
    ]
    assert map_text(Message("m", REPLY, b"\xff", form=MAP)) is None
    half = map_text(Message("m", REPLY, encode_map({"name": "\ud800"}), form=MAP))
    assert half is not None
    assert json.loads(half) == {"map": {"entry": [{"string": ["name", "?"]}]}}
    entries = [Entry("size", "long", 3), Entry("selector", "string", None)]
    assert decode_map(MapEncoder().encode(entries)) == {"size": 3, "selector": None}
    assert Encoder().encode(entries) == b"size=3\nselector=None"


def test_stomp_takes_the_one_transformation_that_there_is() -> None:
    pair = Pair(BrokerConfig(statistics=True))
    client = pair.stomp(1)
    for wanted, refused in (("jms-map-json", False), ("jms-xml", True)):
        headers = {"id": wanted, "destination": "/queue/x", "transformation": wanted}
        client.outbox.append(Frame("SUBSCRIBE", headers, b""))
        pair.run()
        assert bool(pair.closes) == refused


def test_the_same_metrics_as_the_beans() -> None:
    pair = asked("queue://ActiveMQ.Statistics.Destination.q.a")
    (answer,) = maps(pair)
    beans = Manager(pair).value(",destinationType=Queue,destinationName=q.a")
    for name, bean in (
        ("size", "QueueSize"),
        ("inflightCount", "InFlightCount"),
        ("memoryUsage", "MemoryUsageByteCount"),
    ):
        assert answer[name] == beans[bean]
    assert isinstance(pair.delivered(2)[0], Delivered)
