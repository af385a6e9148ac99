"""Delivery delay: never early, in order of due time, and its dealings with time to live, clocks, topics and bad
input.
"""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.reference_broker.core.config import BrokerConfig, DestinationPolicy
from brokerproof.reference_broker.core.delay import MAX_DELAY_MS, Delay
from brokerproof.reference_broker.core.events import POISON, Send, Tick
from brokerproof.reference_broker.core.instant import NS_PER_MS, Now
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.policies import Policies
from tests.fast.reference_broker.core.driver import DLQ, START_MS, START_NS, Driver, Q, T, config_of

HOUR_MS = 3_600_000


@pytest.mark.parametrize("delay_ms", [1, 10, 499, 500, 1000, 30_000])
@pytest.mark.parametrize("destination", [Q, T])
def test_never_early_and_then_at_once(destination: str, delay_ms: int) -> None:
    d = Driver()
    d.subscribe("c", destination)
    d.send(destination, delay_ms=delay_ms)
    due_ns = START_NS + delay_ms * NS_PER_MS
    assert d.broker.next_due_ns() == due_ns
    assert d.counters("scheduled", "size", "enqueued", destination=destination) == (1, 0, 0)
    d.mono_ns = due_ns - 1
    d.handle(Tick())
    assert d.got() == []
    d.mono_ns = due_ns
    d.handle(Tick())
    assert d.got() == ["m1"]
    assert d.counters("scheduled", "enqueued", destination=destination) == (0, 1)
    assert d.broker.next_due_ns() is None


@pytest.mark.parametrize("step_ms", [-HOUR_MS, -1, 1, HOUR_MS])
def test_a_step_of_the_wall_clock_neither_releases_nor_strands(step_ms: int) -> None:
    d = Driver()
    d.subscribe()
    d.send(delay_ms=1000)
    d.send(deliver_at_ms=START_MS + 2000)
    d.step_wall(step_ms)
    d.advance(999)
    assert d.got() == []
    d.advance(1)
    assert d.got() == ["m1"]
    d.advance(999)
    assert d.got() == ["m1"]
    d.advance(1)
    assert d.got() == ["m1", "m2"]


@pytest.mark.parametrize(("offset_ms", "waits_ms"), [(5000, 5000), (1, 1), (0, 0), (-1, 0), (-HOUR_MS, 0)])
def test_an_absolute_time_becomes_a_remaining_delay_at_acceptance(offset_ms: int, waits_ms: int) -> None:
    d = Driver()
    d.subscribe()
    d.send(deliver_at_ms=START_MS + offset_ms)
    assert (d.got() == []) is (waits_ms > 0)
    d.advance(waits_ms)
    assert d.got() == ["m1"]


def test_the_relative_delay_counts_if_both_are_given() -> None:
    d = Driver()
    d.subscribe()
    d.send(delay_ms=50, deliver_at_ms=START_MS + 9000)
    d.advance(50)
    assert d.got() == ["m1"]


def test_due_messages_join_the_tail_in_order_of_due_time_then_arrival() -> None:
    d = Driver()
    d.send(delay_ms=300)
    d.send(delay_ms=100)
    d.send(delay_ms=300)
    d.send(delay_ms=200)
    d.send()
    d.mono_ns += 250 * NS_PER_MS
    d.send(delay_ms=50)
    d.send()
    d.mono_ns += 50 * NS_PER_MS
    d.handle(Tick())  # one late tick for all of them
    d.subscribe()
    assert d.got() == ["m5", "m7", "m2", "m4", "m1", "m3", "m6"]


def test_a_waiting_message_holds_no_window_and_blocks_nobody() -> None:
    d = Driver()
    d.subscribe(prefetch=1)
    for _ in range(5):
        d.send(delay_ms=60_000)
    d.send()
    assert d.got() == ["m6"]


@pytest.mark.parametrize(("delay_ms", "deliver_at_ms"), [(-1, 0), (-(2**63), 0), (0, -1), (-1, START_MS + 5), (5, -1)])
def test_negative_is_refused(delay_ms: int, deliver_at_ms: int) -> None:
    d = Driver()
    message = Message("m", Q, b"", delay_ms=delay_ms, deliver_at_ms=deliver_at_ms)
    assert d.ask(Send(1, message, request=d.request())) == "delay-negative"
    assert d.broker.destinations() == []


@pytest.mark.parametrize(
    ("delay_ms", "refused"),
    [(MAX_DELAY_MS, False), (MAX_DELAY_MS + 1, True), (2**63 - 1, True), (2**31, False), (2**32 + 1, False)],
)
def test_beyond_the_maximum_is_refused_never_truncated(delay_ms: int, refused: bool) -> None:
    d = Driver()
    d.subscribe()
    for number, absolute in enumerate((False, True)):
        message = Message(f"m{number}", Q, b"", delay_ms=0 if absolute else delay_ms)
        message.deliver_at_ms = START_MS + delay_ms if absolute else 0
        assert d.ask(Send(1, message, request=d.request())) == ("delay-too-long" if refused else "")
    assert d.got() == []
    assert d.counter("scheduled") == (0 if refused else 2)


def test_a_refused_send_is_not_stamped_or_numbered() -> None:
    d = Driver()
    message = Message("m", Q, b"", delay_ms=-1, timestamp_ms=3)
    d.ask(Send(1, message, request=d.request()))
    assert (message.sequence, message.timestamp_ms) == (0, 3)
    assert d.send().sequence == 1


@pytest.mark.parametrize(("ttl_ms", "delivered"), [(1001, True), (1000, True), (999, False), (1, False)])
def test_time_to_live_counts_from_the_send(ttl_ms: int, delivered: bool) -> None:
    d = Driver(config_of(destinations=[DestinationPolicy(">", expire_period_ms=0)]))
    d.subscribe()
    message = d.send(delay_ms=1000, ttl_ms=ttl_ms)
    d.advance(1000)
    assert d.got() == (["m1"] if delivered else [])
    assert message.expiration_ms == START_MS + ttl_ms
    assert d.counter("size", DLQ) == (0 if delivered else 1)
    assert d.counters("scheduled", "enqueued", "expired", "dequeued") == (0, 1, *((0, 0) if delivered else (1, 1)))


def test_the_sweep_finds_a_message_that_expires_while_it_waits() -> None:
    d = Driver(config_of(destinations=[DestinationPolicy(">", expire_period_ms=100)]))
    d.send(delay_ms=10_000, ttl_ms=150)
    d.advance(200)
    assert d.counters("scheduled", "enqueued", "expired", "dequeued", "size") == (0, 1, 1, 1, 0)
    assert [dead_letter.message_id for dead_letter in d.dead_letters()] == ["m1"]
    assert d.broker.next_due_ns() is None
    d.advance(20_000)
    assert d.counter("expired") == 1


def test_a_message_that_expired_before_its_release_leaves_no_timer_behind() -> None:
    d = Driver()  # the sweep comes long after the release
    d.send(delay_ms=100, ttl_ms=50)
    d.advance(100)
    assert d.counters("expired", "scheduled") == (1, 0)
    assert d.broker.next_due_ns() is None


def test_a_topic_message_that_expires_while_it_waits() -> None:
    d = Driver()
    d.subscribe("c", T)
    d.send(T, delay_ms=100, ttl_ms=50)
    d.advance(100)
    assert d.got() == []
    assert d.counters("scheduled", "expired", "enqueued", destination=T) == (0, 1, 0)
    assert len(d.dead_letters()) == 1


def test_the_audience_of_a_topic_is_fixed_at_the_send() -> None:
    d = Driver()
    d.subscribe("before", T)
    d.subscribe("leaves", T)
    d.subscribe("returns", T)
    d.send(T, delay_ms=100)
    d.subscribe("between", T)
    d.leave("leaves")
    d.leave("returns")
    d.subscribe("returns", T, connection=d.connections["returns"])
    d.advance(100)
    d.subscribe("after", T)
    assert {name: d.got(name) for name in d.connections} == {
        "before": ["m1"],
        "leaves": [],
        "returns": [],
        "between": [],
        "after": [],
    }


def test_the_delay_is_served_once() -> None:
    d = Driver()
    d.subscribe("a")
    d.send(delay_ms=100)
    d.advance(100)
    d.drop("a")
    d.subscribe("b")
    assert d.got("b") == ["m1"]
    assert d.dispatches[0].redelivery_count == 0  # waiting is no attempt
    d.ack("m1", "b", POISON)
    assert d.counter("size", DLQ) == 1


def test_purge_takes_waiting_messages_too() -> None:
    d = Driver()
    d.send(delay_ms=100)
    d.send()
    d.purge()
    assert d.counters("scheduled", "size", "enqueued", "dequeued") == (0, 0, 2, 2)
    assert d.broker.next_due_ns() is None
    d.advance(200)
    d.subscribe()
    assert d.got() == []
    d.send(message_id="m1")  # its id is free again
    assert d.got() == ["m1"]


class OneEarly(Delay):
    """A defect: off by one millisecond."""

    def due_ns(self, remaining_ms: int, now: Now) -> int:
        return super().due_ns(remaining_ms, now) - NS_PER_MS


def test_delay_is_a_policy() -> None:
    config = config_of()
    d = Driver(config, Policies.from_config(config).replace("delay", OneEarly()))
    d.subscribe()
    d.send(delay_ms=1000)
    d.advance(998)
    assert d.got() == []
    d.advance(1)
    assert d.got() == ["m1"]


@pytest.mark.parametrize(
    ("settings", "delay_ms", "expected"),
    [
        ({"max_delay_ms": 100}, 100, ""),
        ({"max_delay_ms": 100}, 101, "delay-too-long"),
        ({"delay_support": False}, 1, "delay-unsupported"),
        ({"delay_support": False}, 0, ""),
    ],
)
def test_a_broker_may_take_less(settings: dict[str, Any], delay_ms: int, expected: str) -> None:
    d = Driver(BrokerConfig(**settings))
    assert d.ask(Send(1, Message("m", Q, b"", delay_ms=delay_ms), request=d.request())) == expected
    d.broker.check()
