"""Topics with non-durable subscriptions."""

from __future__ import annotations

from reference_broker.core.events import STANDARD
from tests.fast.core_driver import Driver, T


def test_everybody_who_is_there_gets_everything_that_comes_later() -> None:
    d = Driver()
    d.send(T)
    d.subscribe("a", T)
    d.send(T)
    d.subscribe("b", T)
    d.send(T)
    assert (d.got("a"), d.got("b")) == (["m2", "m3"], ["m3"])
    assert d.counters("enqueued", "size", "consumers", destination=T) == (3, 0, 2)


def test_what_the_window_does_not_admit_waits_per_subscription() -> None:
    d = Driver()
    d.subscribe("slow", T, 2)
    d.subscribe("fast", T, 100)
    for _ in range(6):
        d.send(T)
    d.transmit()
    assert (d.got("slow"), len(d.got("fast"))) == (["m1", "m2"], 6)
    assert d.counters("in_flight", "dispatched", destination=T) == (8, 8)
    d.ack("m2", "slow", STANDARD)
    assert d.got("slow") == ["m1", "m2", "m3", "m4"]
    d.transmit()
    assert d.counters("in_flight", "dequeued", destination=T) == (8, 2)


def test_an_expired_backlog_is_found_when_its_turn_comes() -> None:
    d = Driver()
    d.subscribe("a", T, 1)
    d.send(T)
    d.send(T, ttl_ms=10, persistent=False)
    d.send(T)
    d.advance(100_000)  # no sweep
    assert d.counter("expired", T) == 0
    d.ack("m1", "a")
    assert d.got("a") == ["m1", "m3"]
    assert d.counters("expired", "dequeued", destination=T) == (1, 2)


def test_leaving_drops_the_backlog_without_counting_it_as_consumed() -> None:
    d = Driver()
    d.subscribe("a", T, 1)
    for _ in range(3):
        d.send(T)
    d.transmit()
    d.leave("a")
    assert d.counters("dequeued", "in_flight", "memory_bytes", destination=T) == (0, 0, 0)
    d.send(T, "m1")  # ids are free again, of what was in flight and of what was not
    d.send(T, "m3")
    d.subscribe("b", T)
    assert d.got("b") == []


def test_auto_ack() -> None:
    d = Driver()
    d.subscribe("a", T, 1, auto=True)
    d.subscribe("b", T, 1, auto=True, sync=True)
    for _ in range(3):
        d.send(T)
    d.transmit()
    assert d.got("a") == d.got("b") == ["m1", "m2", "m3"]
    assert d.counters("dequeued", "in_flight", destination=T) == (6, 0)


def test_memory_is_charged_while_in_flight_only() -> None:
    d = Driver()
    d.subscribe("a", T, 1)
    d.send(T)
    d.send(T)
    assert d.counter("memory_bytes", T) == 1024
    d.ack("m1", "a")
    assert d.counter("memory_bytes", T) == 1024
    d.ack("m2", "a")
    assert d.counter("memory_bytes", T) == 0
