"""Retroactive subscribers: what a topic remembers, and who gets it; and limits of their own backlogs."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig, ConfigError, DestinationPolicy
from brokerproof.reference_broker.core.events import Subscribe
from brokerproof.reference_broker.core.retention import Recovery
from tests.fast.reference_broker.core.driver import Driver, T


def remembering(recovery: str = "", limit: int = -1, **bounds: int) -> Driver:
    entry = DestinationPolicy(
        ">", recovery=Recovery(recovery, **bounds) if recovery else None, pending_message_limit=limit
    )
    return Driver(BrokerConfig(destinations=[entry]))


def late(d: Driver, consumer: str = "c", **options: Any) -> str:
    d.requests += 100  # connections and requests have numbers of their own
    number = d.requests
    d.connect(number)
    d.connections[consumer] = number
    return d.ask(Subscribe(number, consumer, T, 100, retroactive=True, request=d.request(), **options))


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, []),
        ({"recovery": "last-image"}, ["m5"]),
        ({"recovery": "fixed-count", "maximum_messages": 2}, ["m4", "m5"]),
        ({"recovery": "fixed-count"}, ["m1", "m2", "m3", "m4", "m5"]),
        ({"recovery": "fixed-size", "maximum_bytes": 35}, ["m3", "m4", "m5"]),
        ({"recovery": "fixed-size", "maximum_bytes": 5}, ["m5"]),
        ({"recovery": "timed", "duration_ms": 2500}, ["m3", "m4", "m5"]),
    ],
)
def test_a_latecomer_gets_what_is_remembered_and_then_what_is_new(entry: dict[str, Any], expected: list[str]) -> None:
    d = remembering(**entry)
    for _ in range(5):
        d.send(T, size=10)
        d.advance(1000)
    d.mono_ns -= 500_000_000
    assert late(d) == ""
    d.send(T)
    assert d.got("c") == [*expected, "m6"]
    assert d.counters("enqueued", destination=T) == (6,)
    d.broker.check()


def test_who_does_not_ask_gets_nothing_old() -> None:
    d = remembering(recovery="fixed-count")
    d.send(T)
    d.subscribe("c", T)
    assert d.got("c") == []


def test_others_keep_what_they_have_and_everybody_settles_his_own() -> None:
    d = remembering(recovery="fixed-count")
    d.subscribe("early", T, 1)
    d.send(T)
    d.send(T)
    late(d, "c")
    assert d.got("c") == ["m1", "m2"]
    d.ack("m2", "c")
    assert d.got("early") == ["m1"]
    d.ack("m1", "early")
    assert d.got("early") == ["m1", "m2"]
    d.broker.check()


def test_a_selector_chooses_among_what_is_remembered_and_the_dead_are_left_out() -> None:
    d = remembering(recovery="fixed-count")
    d.send(T, properties={"kind": "a"})
    d.send(T, properties={"kind": "b"})
    d.send(T, properties={"kind": "b"}, ttl_ms=50)
    d.advance(100)
    late(d, selector="kind = 'b'")
    assert d.got("c") == ["m2"]


def test_a_delayed_message_is_remembered_from_its_release_on() -> None:
    d = remembering(recovery="last-image")
    d.subscribe("early", T)
    d.send(T, delay_ms=100)
    late(d, "c")
    assert d.got("c") == []
    d.advance(200)
    late(d, "d")
    assert d.got("d") == ["m1"]


def test_a_durable_subscription_cannot_be_retroactive() -> None:
    d = remembering(recovery="last-image")
    assert late(d, durable="name") == "retroactive-durable"


def test_on_a_queue_retroactive_means_nothing() -> None:
    d = remembering(recovery="last-image")
    d.send()
    d.connect(77)
    assert d.ask(Subscribe(77, "c", "queue://q", 10, retroactive=True, request=d.request())) == ""
    assert d.got("c") == ["m1"]


def test_an_unknown_recovery_is_refused() -> None:
    with pytest.raises(ConfigError, match="recovery policy 'forever' is unknown; one of last-image, "):
        Recovery("forever")


@pytest.mark.parametrize(
    ("limit", "own", "waiting"), [(-1, 0, 5), (-1, 2, 2), (3, 2, 2), (1, 2, 1), (0, 2, 0), (3, 0, 3)]
)
def test_a_consumer_may_ask_for_a_shorter_backlog(limit: int, own: int, waiting: int) -> None:
    d = remembering(limit=limit)
    d.connect(77)
    assert d.ask(Subscribe(77, "c", T, 1, pending_limit=own, request=d.request())) == ""
    for _ in range(6):
        d.send(T)
    assert d.counters("discarded", destination=T) == (5 - waiting,)
    d.broker.check()


def test_a_negative_limit_is_refused() -> None:
    d = remembering()
    assert late(d, pending_limit=-1) == "bad-pending-limit"
