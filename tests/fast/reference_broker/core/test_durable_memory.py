"""What backlogs of durable subscriptions cost: nothing in ``fair``, memory up to the mark in G0 to G3."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.events import Disconnect, RemoveSubscription
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import Message
from tests.fast.reference_broker.core.driver import START_MS, Driver, Q, T, config_of

S = 2048
CLASSIC = ("G0", "G1", "G2", "G3")
ME = 50
KEY = "client-50:sub"


def make_driver(generation: str, places: int = 20, *entries: DestinationPolicy, **settings: object) -> Driver:
    """A broker whose memory has so many places, with a durable subscription that nobody uses."""
    destinations = [*entries, DestinationPolicy(">", expire_period_ms=0, producer_flow_control=False)]
    config = config_of(
        generation={"memory": generation}, memory_limit_bytes=places * S, destinations=destinations, **settings
    )
    d = Driver(config)
    d.connect(ME)
    take_up(d)
    d.leave("d")
    return d


def take_up(d: Driver, prefetch: int = 1) -> None:
    d.subscribe("d", T, prefetch, connection=ME, durable="sub")


def fill(d: Driver, count: int, *, persistent: bool = True) -> None:
    for _ in range(count):
        d.send(T, size=1024, persistent=persistent)


def held(d: Driver) -> int:
    return d.counter("memory_bytes", T) // S


@pytest.mark.parametrize(("generation", "cached"), [("fair", 0), *((name, 14) for name in CLASSIC)])
def test_a_backlog_stays_in_memory_up_to_the_mark(generation: str, cached: int) -> None:
    d = make_driver(generation)
    fill(d, 30)
    assert (held(d), d.broker.durable_subscriptions()[KEY]["pending"]) == (cached, 30)
    take_up(d)
    for number in range(30):
        assert len(d.got("d")) == number + 1
        d.ack(d.got("d")[-1], "d")
    assert (held(d), d.broker.broker_counters()["memory_bytes"]) == (0, 0)


@pytest.mark.parametrize("generation", CLASSIC)
def test_the_cache_comes_back_when_the_backlog_is_empty(generation: str) -> None:
    d = make_driver(generation)
    fill(d, 16)
    take_up(d, 100)
    d.ack("m16", "d")
    d.leave("d")
    fill(d, 3)
    assert held(d) == 3


@pytest.mark.parametrize(("page", "loaded"), [(0, 10), (4, 4), (1, 1)])
def test_a_backlog_is_read_by_the_page(page: int, loaded: int) -> None:
    entry = DestinationPolicy("t", expire_period_ms=0, max_page_size=page)
    d = make_driver("G3", 20, entry)
    store(d, 10)
    assert held(d) == 0
    take_up(d)
    assert (held(d), d.got("d")) == (loaded, ["s1"])


def store(d: Driver, count: int) -> None:
    """What a restart found in the store."""
    d.broker._region.now = Now(d.mono_ns, d.wall_ms)
    for order in range(1, count + 1):
        message = Message(f"s{order}", T, b"x" * 1024, timestamp_ms=START_MS, persistent=True)
        d.broker._region.destination(T).recover_for(message, order, 0, (KEY,))  # type: ignore[attr-defined]  # a topic
    d.broker._region.finish()
    d.broker.check()


@pytest.mark.parametrize("generation", CLASSIC)
def test_above_the_mark_a_durable_subscriber_is_slowed_down_and_not_starved(generation: str) -> None:
    d = make_driver(generation, 20, DestinationPolicy("q", expire_period_ms=0, high_water_percent=100))
    store(d, 10)
    for _ in range(20):
        d.send(Q, size=1024)
    take_up(d)
    for number in range(10):
        assert (len(d.got("d")), held(d)) == (number + 1, 1)
        d.ack(f"s{number + 1}", "d")


@pytest.mark.parametrize(("generation", "delivered"), [("fair", 5), ("G0", 5), ("G1", 0), ("G2", 5), ("G3", 5)])
def test_an_idle_durable_subscription_can_starve_a_queue(generation: str, delivered: int) -> None:
    """As a queue does: in G1 from the mark on."""
    d = make_driver(generation)
    fill(d, 30)
    for _ in range(5):
        d.send(Q, size=1024)
    d.subscribe("c", Q, 10)
    assert len(d.got("c")) == delivered
    d.handle(RemoveSubscription(ME, "sub"))
    d.send(Q, size=1024)
    assert (held(d), len(d.got("c"))) == (0, 6)


@pytest.mark.parametrize("generation", CLASSIC)
def test_only_persistent_messages_and_only_with_a_cache(generation: str) -> None:
    d = make_driver(generation)
    fill(d, 3, persistent=False)
    assert held(d) == 0
    d = make_driver(generation, 20, DestinationPolicy("t", expire_period_ms=0, use_cache=False))
    fill(d, 3)
    assert held(d) == 0
    take_up(d, 2)
    assert len(d.got("d")) == 2


def test_a_consumer_that_is_lost_gives_its_memory_back() -> None:
    d = make_driver("G2")
    fill(d, 5)
    take_up(d, 3)
    assert held(d) == 5
    d.handle(Disconnect(ME))
    assert held(d) == 2
    d.connect(ME)
    take_up(d, 5)
    assert d.got("d")[3:] == ["m1", "m2", "m3", "m4", "m5"]


@pytest.mark.parametrize("generation", CLASSIC)
def test_expired_messages_give_their_memory_back(generation: str) -> None:
    d = make_driver(generation, 20, DestinationPolicy("t", expire_period_ms=1000))
    d.send(T, ttl_ms=500, size=1024)
    assert held(d) == 1
    d.advance(1000)
    assert held(d) == 0
