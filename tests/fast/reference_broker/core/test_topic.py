"""Topics with non-durable subscriptions."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.events import STANDARD, Disconnect, Send, Subscribe
from brokerproof.reference_broker.core.message import Message
from tests.fast.reference_broker.core.driver import Driver, T, config_of


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


def limited(**policy: float) -> Driver:
    return Driver(config_of(destinations=[DestinationPolicy(">", **policy)]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ({}, 8),
        ({"pending_message_limit": 0}, 0),
        ({"pending_message_limit": 3}, 3),
        ({"pending_message_limit": 100}, 8),
        ({"pending_message_limit_multiplier": 0}, 0),
        ({"pending_message_limit_multiplier": 0.5}, 1),
        ({"pending_message_limit_multiplier": 1.5}, 3),
    ],
)
def test_a_slow_subscriber_keeps_the_newest(policy: dict[str, float], kept: int) -> None:
    d = limited(**policy)
    d.subscribe("slow", T, 2)
    d.subscribe("fast", T, 100)
    for _ in range(10):
        d.send(T, persistent=False)
    assert d.counters("discarded", "dequeued", "enqueued", destination=T) == (8 - kept, 0, 10)
    assert len(d.got("fast")) == 10
    d.ack("m2", "slow")
    for number in range(11 - kept, 11):
        d.ack(f"m{number}", "slow")
    assert d.got("slow") == ["m1", "m2", *(f"m{number}" for number in range(11 - kept, 11))]


def test_what_is_thrown_out_becomes_a_dead_letter_once() -> None:
    d = limited(pending_message_limit=0)
    d.subscribe("a", T, 1)
    d.subscribe("b", T, 1)
    d.send(T)
    d.send(T)
    assert d.counter("discarded", T) == 2
    dead_letters = d.dead_letters()
    assert [dead_letter.message_id for dead_letter in dead_letters] == ["m2"]
    assert "TopicSubDiscard" in str(dead_letters[0].properties["dlqDeliveryFailureCause"])


def test_an_expired_message_goes_before_the_oldest() -> None:
    d = limited(pending_message_limit=2)
    d.subscribe("a", T, 1)
    d.send(T)
    d.send(T)
    d.send(T, ttl_ms=10)
    d.advance(20)
    d.send(T)
    assert d.counters("discarded", "expired", destination=T) == (0, 1)
    d.send(T)
    assert d.counters("discarded", "expired", destination=T) == (1, 1)
    d.ack("m1", "a")
    d.ack("m4", "a")
    assert d.got("a") == ["m1", "m4", "m5"]


def test_a_durable_subscription_has_no_limit() -> None:
    d = limited(pending_message_limit=0)
    d.connect(9)
    assert d.ask(Subscribe(9, "d", T, 1, durable="s", request=d.request())) == ""
    d.connections["d"] = 9
    for _ in range(3):
        d.send(T)
    d.ack("m1", "d")
    d.ack("m2", "d")
    assert d.got("d") == ["m1", "m2", "m3"]


def test_no_local_leaves_out_what_its_own_connection_sends() -> None:
    d = Driver()
    d.connect(9)
    assert d.ask(Subscribe(9, "own", T, 10, no_local=True, request=d.request())) == ""
    d.subscribe("all", T, connection=9)
    for connection, message_id in ((9, "mine"), (1, "theirs")):
        assert d.ask(Send(connection, Message(message_id, T, b""), request=d.request())) == ""
    assert (d.got("own"), d.got("all")) == (["theirs"], ["mine", "theirs"])
    d.handle(Disconnect(9))
    d.send(T)
    assert d.counter("consumers", T) == 0
