"""Acknowledgements: the table of effects, type by type, and everything that must be refused without effect."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.events import (
    DELIVERED,
    EXPIRED,
    INDIVIDUAL,
    POISON,
    REDELIVERED,
    STANDARD,
    UNMATCHED,
    Ack,
)
from tests.fast.reference_broker.core.driver import DLQ, Driver, Q, T

COUNTERS = ("in_flight", "dequeued", "size", "expired")


def five_in_flight(destination: str = Q) -> Driver:
    d = Driver()
    d.subscribe("c", destination, 5)
    for _ in range(5):
        d.send(destination)
    d.transmit()
    return d


@pytest.mark.parametrize(
    ("kind", "first", "last", "counts", "dead_letters"),
    [
        (STANDARD, "", "m3", (2, 3, 2, 0), 0),
        (STANDARD, "m1", "m3", (2, 3, 2, 0), 0),
        (STANDARD, "m2", "m3", (3, 2, 3, 0), 0),
        (STANDARD, "m5", "m5", (4, 1, 4, 0), 0),
        (INDIVIDUAL, "", "m3", (4, 1, 4, 0), 0),
        (INDIVIDUAL, "m1", "m3", (4, 1, 4, 0), 0),
        (POISON, "", "m2", (3, 2, 3, 0), 2),
        (POISON, "m4", "m5", (3, 2, 3, 0), 2),
        (EXPIRED, "m3", "m3", (4, 1, 4, 1), 1),
        (EXPIRED, "", "m3", (2, 3, 2, 3), 3),
        (DELIVERED, "", "m3", (5, 0, 5, 0), 0),
        (REDELIVERED, "", "m3", (5, 0, 5, 0), 0),
        (UNMATCHED, "", "m3", (5, 0, 5, 0), 0),
        (UNMATCHED, "", "nobody", (5, 0, 5, 0), 0),
        (INDIVIDUAL, "", "nobody", (5, 0, 5, 0), 0),
    ],
)
def test_effect_on_counters(kind: int, first: str, last: str, counts: tuple[int, ...], dead_letters: int) -> None:
    d = five_in_flight()
    assert d.ack(last, kind=kind, first=first) == ""
    assert d.counters(*COUNTERS) == counts
    assert d.counter("size", DLQ) == dead_letters


@pytest.mark.parametrize("kind", [STANDARD, POISON, EXPIRED, DELIVERED, REDELIVERED])
@pytest.mark.parametrize(
    ("first", "last"), [("", "nobody"), ("m1", "nobody"), ("nobody", "m3"), ("m3", "m1"), ("", "")]
)
def test_a_range_that_does_not_fit_is_refused_and_changes_nothing(kind: int, first: str, last: str) -> None:
    d = five_in_flight()
    assert d.ack(last, kind=kind, first=first) == "unknown-message"
    assert d.counters(*COUNTERS) == (5, 0, 5, 0)
    assert d.counter("size", DLQ) == 0
    assert d.ack("m5") == ""  # and all five are still there
    assert d.counters(*COUNTERS) == (0, 5, 0, 0)


@pytest.mark.parametrize("kind", [STANDARD, POISON, EXPIRED])
def test_the_second_acknowledgement_of_a_message_is_refused(kind: int) -> None:
    d = five_in_flight()
    assert d.ack("m1") == ""
    assert d.ack("m1", kind=kind) == "unknown-message"
    assert d.counters(*COUNTERS) == (4, 1, 4, 0)


@pytest.mark.parametrize("kind", [-1, 7, 99])
def test_an_unknown_type_is_refused(kind: int) -> None:
    d = five_in_flight()
    assert d.ack("m1", kind=kind) == "unknown-ack-kind"
    assert d.counters(*COUNTERS) == (5, 0, 5, 0)


def test_a_consumer_cannot_settle_what_another_holds() -> None:
    d = Driver()
    d.subscribe("a", prefetch=1)
    d.subscribe("b", prefetch=1)
    d.send()
    d.send()
    assert d.ack("m2", "a") == "unknown-message"
    request = d.request()
    assert d.ask(Ack(d.connections["b"], "a", STANDARD, "m1", request=request)) == "unknown-consumer"
    assert d.counter("size") == 2


@pytest.mark.parametrize(("kind", "shrinks_by"), [(STANDARD, 4), (POISON, 1), (EXPIRED, 1)])
def test_a_range_of_poison_or_expired_narrows_the_window_by_one_only(kind: int, shrinks_by: int) -> None:
    d = Driver()
    d.subscribe(prefetch=4)
    for _ in range(40):
        d.send()
    d.ack("m4", kind=DELIVERED)
    assert len(d.got()) == 8
    d.ack("m4", kind=kind)
    assert len(d.got()) == 8 + 4 - shrinks_by


def test_acknowledged_before_the_transport_reported_the_write() -> None:
    d = Driver()
    d.subscribe()
    d.send()
    assert d.ack("m1") == ""
    assert d.counters("in_flight", "size") == (-1, 0)
    d.transmit()
    assert d.counter("in_flight") == 0


@pytest.mark.parametrize(
    ("kind", "last", "counts"),
    [
        (STANDARD, "m3", (2, 3, 0, 0)),
        (INDIVIDUAL, "m3", (4, 1, 0, 0)),
        (POISON, "m3", (2, 3, 0, 0)),
        (EXPIRED, "m3", (2, 3, 0, 3)),
        (DELIVERED, "m3", (5, 0, 0, 0)),
    ],
)
def test_effect_on_a_topic_never_a_dead_letter(kind: int, last: str, counts: tuple[int, ...]) -> None:
    d = five_in_flight(T)
    assert d.ack(last, kind=kind) == ""
    assert d.counters(*COUNTERS, destination=T) == counts
    assert d.counter("enqueued", DLQ) == 0
