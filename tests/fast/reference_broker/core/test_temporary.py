"""Temporary destinations, and destinations that clients make and remove."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.events import AddDestination, Begin, Commit, RemoveDestination, Send, Subscribe
from brokerproof.reference_broker.core.message import Message
from tests.fast.reference_broker.core.driver import Driver, Q, T

TQ, TT = "temp-queue://1:1", "temp-topic://1:2"
OTHER = 2


def add(d: Driver, name: str, connection: int = 1) -> str:
    return d.ask(AddDestination(connection, name, request=d.request()))


def remove(d: Driver, name: str, connection: int = 1) -> str:
    return d.ask(RemoveDestination(connection, name, request=d.request()))


def send(d: Driver, name: str, message_id: str = "m1", connection: int = OTHER, transaction: str = "") -> str:
    return d.ask(Send(connection, Message(message_id, name, b""), transaction=transaction, request=d.request()))


def consume(d: Driver, name: str, connection: int) -> str:
    d.connections["c"] = connection
    return d.ask(Subscribe(connection, "c", name, 10, request=d.request()))


def two() -> Driver:
    d = Driver()
    d.connect(OTHER)
    return d


@pytest.mark.parametrize("name", [TQ, TT])
def test_its_owner_consumes_and_everybody_sends(name: str) -> None:
    d = two()
    assert add(d, name) == add(d, name) == ""
    assert add(d, name, OTHER) == "foreign-destination"
    assert consume(d, name, OTHER) == "foreign-destination"
    assert consume(d, f"{Q},{name}", OTHER) == "foreign-destination"
    assert consume(d, name, 1) == ""
    assert send(d, name) == ""
    assert d.got() == ["m1"]
    assert d.broker.destinations() == [name]


@pytest.mark.parametrize("name", [TQ, TT])
def test_what_nobody_made_does_not_exist(name: str) -> None:
    d = two()
    assert send(d, name) == "unknown-destination"
    assert consume(d, name, 1) == "unknown-destination"
    assert remove(d, name) == "unknown-destination"
    assert d.broker.destinations() == []


@pytest.mark.parametrize("name", [TQ, TT])
def test_it_is_gone_with_its_connection(name: str) -> None:
    d = two()
    add(d, name)
    consume(d, name, 1)
    send(d, name, "m1")
    send(d, name, "m2")
    d.drop()
    assert d.broker.destinations() == []
    assert send(d, name, "m3") == "unknown-destination"
    d.transmit()  # what was on its way is written, and booked nowhere
    assert d.broker.broker_counters()["in_flight"] == 0
    assert d.broker.broker_counters()["memory_bytes"] == 0
    d.connect(1)
    assert add(d, name) == ""
    consume(d, name, 1)
    assert d.got() == ["m1", "m2"]  # nothing of before
    assert d.counters("in_flight", "enqueued", destination=name) == (0, 0)


def test_other_connections_may_go() -> None:
    d = two()
    add(d, TQ)
    d.connections["x"] = OTHER
    d.drop("x")
    assert d.broker.destinations() == [TQ]


def test_removing() -> None:
    d = two()
    add(d, TQ)
    consume(d, TQ, 1)
    assert remove(d, TQ, OTHER) == "foreign-destination"
    assert remove(d, TQ) == "destination-in-use"
    d.leave()
    send(d, TQ)
    assert remove(d, TQ) == ""
    assert remove(d, TQ) == "unknown-destination"
    assert d.dead_letters() == []


def test_a_transaction_outlives_the_destination_and_cannot_be_committed() -> None:
    d = two()
    add(d, TQ)
    d.handle(Begin(OTHER, "tx"))
    assert send(d, TQ, transaction="tx") == ""
    remove(d, TQ)
    assert d.ask(Commit(OTHER, "tx", request=d.request())) == "unknown-destination"


def test_it_is_swept_and_its_delayed_messages_vanish_with_it() -> None:
    d = two()
    add(d, TQ)
    d.send(TQ, "m1", ttl_ms=10)
    d.advance(40_000)
    assert d.counter("expired", TQ) == 1
    d.send(TQ, "m2", delay_ms=1000)
    d.send(TQ, "m3", ttl_ms=10)
    add(d, TT)
    d.send(TT, "m4", delay_ms=1000)
    assert remove(d, TQ) == remove(d, TT) == ""
    d.advance(60_000)
    assert d.broker.next_due_ns() is None
    assert d.broker.destinations() == ["queue://ActiveMQ.DLQ"]


def test_no_wildcard_covers_it() -> None:
    d = two()
    assert consume(d, "queue://>,topic://>", OTHER) == ""
    add(d, TQ)
    add(d, TT)
    d.send(TQ)
    d.send(TT)
    assert d.got() == []


@pytest.mark.parametrize("name", [Q, T])
def test_ordinary_destinations_can_be_made_and_removed(name: str) -> None:
    d = two()
    assert add(d, name) == ""
    assert d.broker.destinations() == [name]
    assert consume(d, name, OTHER) == ""
    assert remove(d, name) == "destination-in-use"
    d.leave()
    assert remove(d, name, OTHER) == ""
    assert d.broker.destinations() == []


def test_removed_and_made_again_it_is_swept_apart_from_others() -> None:
    d = two()
    for name in (Q, "queue://r", "queue://s"):
        d.send(name, ttl_ms=10)
    remove(d, "queue://r")
    d.send("queue://r", ttl_ms=20)
    d.advance(60_000)
    assert [d.counter("expired", name) for name in (Q, "queue://r", "queue://s")] == [1, 1, 1]


@pytest.mark.parametrize("name", ["queue://>", "queue://A,B", "A"])
def test_only_plain_names_can_be_made(name: str) -> None:
    assert add(Driver(), name) == "bad-destination"


def test_another_connection_makes_nothing() -> None:
    assert add(Driver(), TQ, 9) == remove(Driver(), TQ, 9) == "unknown-connection"


def test_a_topic_with_a_durable_subscription_is_in_use() -> None:
    d = two()
    assert d.ask(Subscribe(OTHER, "d", T, 1, durable="s", request=d.request())) == ""
    d.connections["d"] = OTHER
    d.drop("d")
    assert remove(d, T) == "destination-in-use"
