"""What transactions have sent stands in memory until they end."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.events import Disconnect, RemoveQueue, Send
from brokerproof.reference_broker.core.message import Message
from tests.fast.reference_broker.core.driver import Driver, Q, T, config_of

S = 2048
EVERY = ("fair", "G0", "G1", "G2", "G3")
CLASSIC = EVERY[1:]


def make_driver(generation: str, places: int = 100, **policy: bool) -> Driver:
    """A broker whose memory has so many places."""
    entry = DestinationPolicy(">", expire_period_ms=0, **policy)  # type: ignore[arg-type]  # only flags are passed
    return Driver(config_of(generation={"memory": generation}, memory_limit_bytes=places * S, destinations=[entry]))


def send(d: Driver, count: int, destination: str = Q, *, delay_ms: int = 0) -> None:
    for _ in range(count):
        d.send(destination, size=1024, transaction="t", delay_ms=delay_ms)


def held(d: Driver) -> int:
    """Messages that the queue holds in memory; the broker holds the same."""
    assert d.broker.broker_counters()["memory_bytes"] == d.counter("memory_bytes")
    return d.counter("memory_bytes") // S


@pytest.mark.parametrize("generation", EVERY)
@pytest.mark.parametrize(("end", "left"), [("commit", 3), ("rollback", 0), ("lost", 0)])
def test_sends_are_charged_until_the_end(generation: str, end: str, left: int) -> None:
    d = make_driver(generation)
    d.begin()
    send(d, 3)
    assert (held(d), d.counter("size")) == (3, 0)
    if end == "lost":
        d.handle(Disconnect(1))
    else:
        assert (d.commit() if end == "commit" else d.rollback()) == ""
    assert (held(d), d.counter("size")) == (left, left)


@pytest.mark.parametrize("generation", CLASSIC)
def test_without_a_cache_the_charge_goes_with_the_commit(generation: str) -> None:
    d = make_driver(generation, use_cache=False)
    d.begin()
    send(d, 3)
    assert held(d) == 3
    d.commit()
    assert (held(d), d.counter("size")) == (0, 3)


@pytest.mark.parametrize(("generation", "charged"), [("fair", 7), ("G0", 12), ("G3", 12)])
def test_only_fair_keeps_to_the_mark(generation: str, charged: int) -> None:
    d = make_driver(generation, 10, producer_flow_control=False)
    d.begin()
    send(d, 12)
    assert held(d) == charged
    d.subscribe("c", Q, 100)
    d.commit()
    assert len(d.got()) == (11 if generation == "fair" else 7)  # all memory and one from the reserve; up to the mark


@pytest.mark.parametrize("generation", CLASSIC)
def test_a_transaction_alone_can_fill_the_broker(generation: str) -> None:
    d = make_driver(generation, 3)
    d.begin()
    send(d, 3)
    d.handle(Send(1, Message("x", "queue://other", b"")))
    assert d.counter("size", "queue://other") == 0
    d.rollback()
    assert d.counter("size", "queue://other") == 1


@pytest.mark.parametrize("generation", EVERY)
def test_topics_and_delayed_messages_are_not_charged(generation: str) -> None:
    d = make_driver(generation)
    d.begin()
    send(d, 2, T)
    send(d, 2, delay_ms=1000)
    assert d.broker.broker_counters()["memory_bytes"] == 0
    d.commit()


@pytest.mark.parametrize("generation", ["fair", "G2"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_queue_that_is_removed_meanwhile_leaves_no_charge(generation: str, committed: bool) -> None:
    d = make_driver(generation)
    d.begin()
    send(d, 2)
    d.handle(RemoveQueue(Q))
    assert d.broker.broker_counters()["memory_bytes"] == 0
    assert (d.commit() if committed else d.rollback()) == ""
    assert (held(d), d.counter("size")) == ((2, 2) if committed else (0, 0))


def test_fair_what_waits_for_a_commit_starves_nobody() -> None:
    d = make_driver("fair", 10)
    d.begin()
    send(d, 10, "queue://other")
    d.subscribe("c", Q, 5)
    for _ in range(9):
        d.send(size=1024)
    assert len(d.got()) == 4  # three that fit, and one from the reserve
    while (first := d.broker._consumers["c"].dispatched.head) is not None:
        d.ack(first.reference.message.message_id)
    assert len(d.got()) == 9
