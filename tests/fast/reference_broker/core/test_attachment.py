"""Consumers of several destinations: wildcards, and names joined by commas."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.events import INDIVIDUAL, POISON, STANDARD, Ack, RemoveDestination, Subscribe
from brokerproof.reference_broker.core.matching import consumer_fault, members
from tests.fast.reference_broker.core.driver import DLQ, Driver, config_of

A, B, C = "queue://A.one", "queue://A.two", "queue://B"
TA, TB = "topic://A.one", "topic://A.two"


@pytest.mark.parametrize(
    ("asked", "stands_for"),
    [
        ("queue://A", ["queue://A"]),
        ("queue://A,B", ["queue://A", "queue://B"]),
        ("topic://A,queue://B,C", ["topic://A", "queue://B", "topic://C"]),
        ("queue://A, A,queue://A", ["queue://A"]),
        ("queue://A.*,topic://>", ["queue://A.*", "topic://>"]),
    ],
)
def test_members(asked: str, stands_for: list[str]) -> None:
    assert members(asked) == stands_for
    assert consumer_fault(asked) == ""


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("A,queue://B", "'A'"),
        ("queue://A,", "'queue://'"),
        ("queue://>.A", "'queue://>.A' has '>' before its end"),
        (">", "'>'"),
        ("temp-queue://>", "'temp-queue://>' is temporary"),
    ],
)
def test_faults_of_consumers(asked: str, shown: str) -> None:
    assert shown in consumer_fault(asked)


def test_a_wildcard_consumes_from_all_that_match_also_from_those_created_later() -> None:
    d = Driver()
    d.send(A, "m1")
    d.send(C, "m2")
    d.subscribe("c", "queue://A.>")
    d.send(B, "m3")  # did not exist when the consumer came
    d.send(TA, "m4")  # another kind
    assert d.got() == ["m1", "m3"]
    assert d.broker.destinations() == [A, C, B, TA]
    assert (d.counter("consumers", A), d.counter("consumers", C), d.counter("consumers", TA)) == (1, 0, 0)


def test_a_star_is_one_element() -> None:
    d = Driver()
    d.subscribe("c", "topic://A.*")
    for name in ("topic://A", TA, "topic://A.one.more", "topic://B.one"):
        d.send(name)
    assert d.got() == ["m2"]


def test_overlapping_names_give_one_place() -> None:
    d = Driver()
    d.subscribe("c", f"{TA},topic://A.*,topic://>")
    d.send(TA)
    d.send(TB)
    assert d.got() == ["m1", "m2"]


def test_one_window_over_all_destinations() -> None:
    d = Driver()
    for number in range(4):
        d.send(A, f"a{number}")
        d.send(B, f"b{number}")
    d.subscribe("c", "queue://A.*", 3)
    assert d.got() == ["a0", "a1", "a2"]
    d.subscribe("other", B, 1)  # the window of c is closed at B as well
    assert d.got("other") == ["b0"]
    d.ack("a0", kind=INDIVIDUAL)
    d.ack("a1", kind=INDIVIDUAL)
    assert d.got()[3:] == ["b1", "a3"]  # in turn: no destination starves


def test_every_destination_has_its_turn() -> None:
    d = Driver()
    names = [f"queue://A.{number}" for number in range(3)]
    for name in names:
        for number in range(3):
            d.send(name, f"{name[-1]}{number}")
    d.subscribe("c", "queue://A.*", 1)
    while d.counter("size", names[0]) + d.counter("size", names[1]) + d.counter("size", names[2]):
        d.ack(d.got()[-1])
    assert d.got() == ["00", "10", "20", "01", "11", "21", "02", "12", "22"]


def test_a_departure_charges_each_destination_what_it_dispatched() -> None:
    d = Driver()
    d.subscribe("c", "queue://A.>", 10)
    for number in range(5):
        d.send(A, f"a{number}")
    d.send(B, "b0")
    d.transmit()
    assert (d.counter("in_flight", A), d.counter("in_flight", B)) == (5, 1)
    d.drop()
    assert (d.counter("in_flight", A), d.counter("in_flight", B)) == (0, 0)
    d.subscribe("again", "queue://A.>", 10)
    assert d.got("again") == ["a0", "a1", "a2", "a3", "a4", "b0"]


def test_a_cumulative_acknowledgement_spans_destinations() -> None:
    d = Driver()
    d.subscribe("c", f"{A},{B}")
    for name in (A, B, A):
        d.send(name)
    assert d.ack("m2") == ""
    assert (d.counter("size", A), d.counter("size", B)) == (1, 0)


def test_two_copies_of_one_id_are_told_apart_by_their_destination() -> None:
    d = Driver()
    d.subscribe("c", f"{A},{B},{TA}")
    for name in (A, B, TA):
        d.send(name, "same")
    d.send(B, "last")
    connection = d.connections["c"]
    d.transmit()
    assert [d.counter("in_flight", name) for name in (A, B, TA)] == [1, 2, 1]
    assert d.ask(Ack(connection, "c", INDIVIDUAL, "same", destination=B, request=d.request())) == ""
    assert [d.counter("in_flight", name) for name in (A, B, TA)] == [1, 1, 1]
    assert d.ack("same", kind=INDIVIDUAL) == ""  # the oldest: that of A
    assert [d.counter("in_flight", name) for name in (A, B, TA)] == [0, 1, 1]
    assert d.ack("same", kind=INDIVIDUAL) == ""
    assert [d.counter("in_flight", name) for name in (A, B, TA)] == [0, 1, 0]
    assert d.ack("same", kind=STANDARD) == "unknown-message"
    assert d.ask(Ack(connection, "c", STANDARD, "last", destination=A, request=d.request())) == "unknown-message"
    assert d.ack("last") == ""


def test_a_rejection_of_one_copy_rejects_no_other() -> None:
    d = Driver()
    d.subscribe("c", f"{A},{B}")
    d.send(A, "same")
    d.send(B, "same")
    event = Ack(d.connections["c"], "c", POISON, "same", first="same", destination=B, request=d.request())
    assert d.ask(event) == ""
    assert (d.counter("size", A), d.counter("size", B)) == (1, 0)


def test_auto_acknowledgement_of_copies() -> None:
    d = Driver()
    d.subscribe("c", f"{A},{B}", auto=True)
    d.send(A, "same")
    d.send(B, "same")
    d.outbox.reverse()
    d.transmit()
    assert [d.counter("size", name) for name in (A, B)] == [0, 0]


def test_dead_letters_reach_a_wildcard_that_covers_their_queue() -> None:
    d = Driver()
    d.subscribe("c", "queue://ActiveMQ.>")
    d.send(A, ttl_ms=1)
    d.advance(60_000)
    assert d.got() == ["m1"]
    assert d.dispatches[0].message.destination == DLQ


def test_the_reserve_is_one_message_over_all_destinations() -> None:
    d = Driver(config_of(memory_limit_bytes=1024))
    d.subscribe("c", f"{A},{B},{TA}", 5)
    for name in (A, B, TA):
        d.send(name)
    assert len(d.got()) == 2
    d.ack("m1")
    assert len(d.got()) == 3


def test_a_message_that_is_settled_at_once_closes_no_window() -> None:
    d = Driver()
    d.subscribe("c", "queue://A.*", 1, sync=True, auto=True)
    for name in (A, B, A, B):
        d.send(name)
    assert d.got() == ["m1", "m2", "m3", "m4"]


def test_a_browser_has_one_place_where_its_names_overlap() -> None:
    d = Driver()
    d.send(A)
    d.connect(9)
    event = Subscribe(9, "b", f"{A},queue://A.*", 10, browser=True, request=d.request())
    assert d.ask(event) == ""
    assert d.got("b") == ["m1"]
    assert d.ask(RemoveDestination(9, A, request=d.request())) == "destination-in-use"
