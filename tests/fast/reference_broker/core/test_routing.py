"""Where a message goes: several names, composite destinations, virtual topics."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig, CompositeDestination, VirtualTopic
from brokerproof.reference_broker.core.events import INDIVIDUAL, Begin, Commit, Disconnect, Rollback, Send
from brokerproof.reference_broker.core.message import Message
from tests.fast.reference_broker.core.driver import DLQ, START_MS, Driver, config_of

A, B, T = "queue://A", "queue://B", "topic://T"
ORDERS = "topic://VirtualTopic.Orders"
CONSUMERS = ["queue://Consumer.A.VirtualTopic.Orders", "queue://Consumer.B.VirtualTopic.Orders"]


def composite(
    name: str, *targets: str, forward_only: bool = True, more: tuple[CompositeDestination, ...] = ()
) -> Driver:
    first = CompositeDestination(name, list(targets), forward_only=forward_only)
    return Driver(BrokerConfig(composite_destinations=[first, *more]))


def refused(d: Driver, message: Message, transaction: str = "") -> str:
    return d.ask(Send(1, message, transaction=transaction, request=d.request()))


def test_a_copy_for_each_name() -> None:
    d = Driver()
    for name in (A, B, T):
        d.subscribe(name, name)
    message = d.send("queue://A,B,topic://T,queue://A", "m1", ttl_ms=1000, properties={"k": "v"})
    for name in (A, B, T):
        assert d.got(name) == ["m1"]
    copies = [dispatch.message for dispatch in d.dispatches]
    assert [copy.destination for copy in copies] == [A, B, T]
    assert {copy.original_destination for copy in copies} == {"queue://A,B,topic://T,queue://A"}
    assert {(copy.expiration_ms, copy.timestamp_ms, copy.properties["k"]) for copy in copies} == {
        (message.expiration_ms, START_MS, "v")
    }
    assert len({copy.sequence for copy in copies}) == 3
    assert d.broker.destinations() == [A, B, T]


def test_one_consumer_of_all_settles_each_copy() -> None:
    d = Driver()
    d.subscribe("c", "queue://A,B")
    d.send("queue://A,B", "m1")
    d.transmit()
    assert d.got() == ["m1", "m1"]
    assert d.ack("m1", kind=INDIVIDUAL) == ""
    assert (d.counter("size", A), d.counter("size", B)) == (0, 1)
    assert d.ack("m1", kind=INDIVIDUAL) == ""
    assert (d.counter("size", A), d.counter("size", B)) == (0, 0)


def test_each_copy_expires_on_its_own() -> None:
    d = Driver()
    d.send("queue://A,B", "m1", ttl_ms=10)
    d.advance(40_000)
    assert d.counters("expired", destination=A) == d.counters("expired", destination=B) == (1,)
    assert [dead_letter.message_id for dead_letter in d.dead_letters()] == ["m1"]  # the queue takes one of each id


def test_each_copy_waits_for_its_delivery_time() -> None:
    d = Driver()
    d.subscribe("c", "queue://A,B")
    d.subscribe("t", T)
    d.send("queue://A,B,topic://T", "m1", delay_ms=100)
    d.send("queue://A", "m2", delay_ms=100)
    d.advance(99)
    assert d.got() + d.got("t") == []
    assert [d.counter("scheduled", name) for name in (A, B, T)] == [2, 1, 1]
    d.advance(1)
    assert (d.got(), d.got("t")) == (["m1", "m2", "m1"], ["m1"])


@pytest.mark.parametrize(
    ("destination", "code"),
    [
        ("queue://A,B.*", "bad-destination"),
        ("queue://A,,B", "bad-destination"),
        ("queue://A,temp-queue://gone", "unknown-destination"),
        ("queue://C,B", "duplicate-id"),
    ],
)
def test_all_copies_or_none(destination: str, code: str) -> None:
    d = Driver()
    d.send(B, "m1")
    before = d.broker.broker_counters()
    assert refused(d, Message("m1", destination, b"")) == code
    assert d.broker.broker_counters() == before


def test_copies_in_a_transaction() -> None:
    d = Driver()
    d.handle(Begin(1, "tx"))
    assert refused(d, Message("m1", "queue://A,B", b""), "tx") == ""
    assert refused(d, Message("m1", B, b""), "tx") == "duplicate-id"
    assert refused(d, Message("m2", B, b""), "tx") == ""
    assert refused(d, Message("m2", "queue://A,B", b""), "tx") == "duplicate-id"
    assert (d.counter("size", A), d.counter("size", B)) == (0, 0)
    assert d.ask(Commit(1, "tx", request=d.request())) == ""
    assert (d.counter("size", A), d.counter("size", B)) == (1, 2)
    d.handle(Begin(1, "tx"))
    assert refused(d, Message("m3", "queue://A,B", b""), "tx") == ""
    d.handle(Rollback(1, "tx"))
    assert (d.counter("size", A), d.counter("size", B)) == (1, 2)


def test_a_composite_destination_forwards() -> None:
    d = composite("queue://IN", A, T)
    d.subscribe("t", T)
    d.send("queue://IN", "m1")
    assert d.got("t") == ["m1"]
    assert d.counter("size", A) == 1
    assert d.broker.destinations() == [T, A]
    assert d.dispatches[0].message.original_destination == "queue://IN"


def test_a_composite_destination_may_keep_one() -> None:
    d = composite("queue://IN", A, forward_only=False)
    d.subscribe("c", "queue://IN")
    d.send("queue://IN", "m1")
    assert (d.got(), d.counter("size", A)) == (["m1"], 1)
    assert d.dispatches[0].message.original_destination == ""
    assert refused(d, Message("m1", "queue://IN", b"")) == "duplicate-id"


def test_composites_of_composites_and_circles_end() -> None:
    d = composite("queue://IN", A, "queue://MORE", more=(CompositeDestination("queue://MORE", [B, A, "queue://IN"]),))
    d.send("queue://IN", "m1")
    assert d.broker.destinations() == [A, B]
    assert (d.counter("size", A), d.counter("size", B)) == (1, 1)


def test_a_virtual_topic_feeds_the_queues_that_exist() -> None:
    d = Driver()
    d.subscribe("a", CONSUMERS[0])
    d.subscribe("t", ORDERS)
    d.send(ORDERS, "m1")
    d.subscribe("b", CONSUMERS[1])
    d.send(ORDERS, "m2")
    d.send("topic://VirtualTopic.Other", "m3")
    d.send("topic://Orders", "m4")
    assert d.got("a") == ["m1", "m2"]
    assert d.got("b") == ["m2"]
    assert d.got("t") == ["m1", "m2"]
    assert d.counters("enqueued", destination=ORDERS) == (2,)
    assert {x.message.original_destination for x in d.dispatches if x.consumer != "t"} == {ORDERS}


def test_consumers_of_one_queue_share_what_a_virtual_topic_sends() -> None:
    d = Driver()
    d.subscribe("one", CONSUMERS[0])
    d.subscribe("two", CONSUMERS[0])
    for _ in range(4):
        d.send(ORDERS)
    assert sorted(d.got("one") + d.got("two")) == ["m1", "m2", "m3", "m4"]
    d.drop("one")
    assert sorted(d.got("two")) == sorted(set(d.got("two"))) == ["m1", "m2", "m3", "m4"]


@pytest.mark.parametrize(
    ("queue", "feeds"),
    [
        ("queue://Consumer.A.VirtualTopic.Orders", True),
        ("queue://Consumer.A.B.VirtualTopic.Orders", False),
        ("queue://Consumer.VirtualTopic.Orders", False),
        ("queue://consumer.A.VirtualTopic.Orders", False),
        ("queue://Consumer.A.VirtualTopic.Orders.EU", False),
        ("topic://Consumer.A.VirtualTopic.Orders", False),
    ],
)
def test_names_of_consumer_queues(queue: str, feeds: bool) -> None:
    d = Driver()
    d.subscribe("c", queue)
    d.send(ORDERS)
    assert d.got() == (["m1"] if feeds else [])


def test_other_words_for_virtual_topics() -> None:
    d = Driver(config_of(virtual_topics=[VirtualTopic(name=">", prefix="*.in.", postfix=".q")]))
    d.subscribe("c", "queue://x.in.a.b.q")
    d.subscribe("no", "queue://x.out.a.b.q")
    d.send("topic://a.b")
    assert (d.got(), d.got("no")) == (["m1"], [])


def test_virtual_topics_can_be_switched_off() -> None:
    d = Driver(config_of(virtual_topics=[]))
    d.subscribe("c", CONSUMERS[0])
    d.send(ORDERS)
    assert d.got() == []


def test_a_virtual_topic_behind_a_composite_destination() -> None:
    d = composite("queue://IN", ORDERS)
    d.subscribe("c", CONSUMERS[0])
    d.send("queue://IN")
    assert d.got() == ["m1"]


def test_a_copy_that_dies_makes_a_dead_letter_of_its_queue() -> None:
    d = Driver()
    d.subscribe("c", CONSUMERS[0])
    d.send(ORDERS, ttl_ms=10)
    d.drop()
    d.advance(40_000)
    dead_letters = d.dead_letters()
    assert [(dead_letter.message_id, dead_letter.original_destination) for dead_letter in dead_letters] == [
        ("m1", CONSUMERS[0])
    ]
    assert dead_letters[0].destination == DLQ


def test_a_connection_that_goes_takes_nothing_else_along() -> None:
    d = Driver()
    d.send("queue://A,B")
    d.handle(Disconnect(1))
    assert (d.counter("size", A), d.counter("size", B)) == (1, 1)
