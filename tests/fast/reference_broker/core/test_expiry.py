"""Expiry: the predicate, the places where it is looked at, the sweep, and what a client's claim is worth in each
generation.
"""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.events import EXPIRED, STANDARD
from brokerproof.reference_broker.core.expiry import DocumentedExpiry, Expiry
from brokerproof.reference_broker.core.instant import NS_PER_MS
from tests.fast.reference_broker.core.driver import DLQ, START_MS, START_NS, Driver, Q, T, config_of

COUNTERS = ("size", "enqueued", "dequeued", "expired", "in_flight")
LONG_MAX = 2**63 - 1


def sweeping(period_ms: int, **settings: object) -> Driver:
    return Driver(config_of(destinations=[DestinationPolicy(">", expire_period_ms=period_ms)], **settings))


@pytest.mark.parametrize(
    ("expiration", "wall", "expired"),
    [
        (0, 5, False),
        (-1, 5, False),
        (-LONG_MAX, 5, False),
        (1, 5, True),
        (4, 5, True),
        (5, 5, False),
        (6, 5, False),
        (LONG_MAX, 5, False),
        (1, 1, False),
        (1, 0, False),
    ],
)
@pytest.mark.parametrize("policy", [Expiry(), DocumentedExpiry()])
def test_predicate(policy: Expiry, expiration: int, wall: int, expired: bool) -> None:
    assert policy.is_expired(expiration, wall) is expired


@pytest.mark.parametrize(("offset_ms", "dead"), [(-1, True), (0, False), (1, False)])
def test_arrival_on_a_queue(offset_ms: int, dead: bool) -> None:
    d = Driver()
    d.subscribe()
    d.send(expiration_ms=START_MS + offset_ms)
    assert d.got() == ([] if dead else ["m1"])
    assert d.counters(*COUNTERS) == ((0, 0, 0, 0, 0) if dead else (1, 1, 0, 0, 0))
    assert d.counter("size", DLQ) == dead


def test_arrival_on_a_topic_is_counted_there() -> None:
    d = Driver()
    d.subscribe("a", T)
    d.subscribe("b", T)
    d.send(T, expiration_ms=START_MS - 1)
    assert (d.got("a"), d.got("b")) == ([], [])
    assert d.counters(*COUNTERS, destination=T) == (0, 0, 0, 1, 0)
    assert d.counter("size", DLQ) == 1


@pytest.mark.parametrize(("late_ms", "delivered"), [(-1, True), (0, True), (1, False), (10_000, False)])
def test_looked_at_before_dispatch(late_ms: int, delivered: bool) -> None:
    d = sweeping(0)
    d.send(ttl_ms=500)
    d.send()
    d.advance(500 + late_ms)
    assert d.counter("size") == 2  # nobody has looked
    d.subscribe()
    assert d.got() == (["m1", "m2"] if delivered else ["m2"])
    assert d.counters("expired", "dequeued") == ((0, 0) if delivered else (1, 1))
    assert d.counter("size", DLQ) == (0 if delivered else 1)


def test_a_window_that_opens_late_does_not_let_a_dead_message_through() -> None:
    d = sweeping(0)
    d.subscribe(prefetch=1)
    d.send()
    d.send(ttl_ms=500)
    d.send()
    d.advance(501)
    d.ack("m1")
    assert d.got() == ["m1", "m3"]
    assert d.counters(*COUNTERS) == (1, 3, 2, 1, 0 - 1)


def test_in_flight_messages_are_never_swept_and_acknowledging_one_consumes_it() -> None:
    d = sweeping(100)
    d.subscribe()
    d.send(ttl_ms=50)
    d.transmit()
    d.advance(1000)
    assert d.counters(*COUNTERS) == (1, 1, 0, 0, 1)
    d.ack("m1", kind=STANDARD)
    assert d.counters(*COUNTERS) == (0, 1, 1, 0, 0)
    assert d.counter("enqueued", DLQ) == 0


def test_if_its_consumer_leaves_instead_nobody_gets_it() -> None:
    d = sweeping(0)
    d.subscribe("a")
    d.send(ttl_ms=50)
    d.transmit()
    d.subscribe("b")
    d.advance(51)
    d.drop("a")
    assert d.got("b") == []
    assert d.counters(*COUNTERS) == (0, 1, 1, 1, 0)
    assert d.counter("size", DLQ) == 1


@pytest.mark.parametrize(("ttl_ms", "gone_at_ms"), [(999, 1000), (1000, 2000), (1001, 2000), (1, 1000), (5500, 6000)])
def test_the_sweep_runs_on_the_destination_s_grid(ttl_ms: int, gone_at_ms: int) -> None:
    d = sweeping(1000)
    d.send(ttl_ms=ttl_ms)
    d.advance(gone_at_ms - 1)
    assert d.counter("size") == 1
    d.advance(1)
    assert d.counters(*COUNTERS) == (0, 1, 1, 1, 0)
    assert d.counter("size", DLQ) == 1


def test_the_grid_starts_with_the_destination_not_with_the_message() -> None:
    d = sweeping(1000)
    d.send()
    d.advance(700)
    d.send(ttl_ms=100)
    assert d.broker.next_due_ns() == START_NS + 1000 * NS_PER_MS
    d.advance(300)
    assert d.counters("size", "expired") == (1, 1)


@pytest.mark.parametrize("period_ms", [0, -1])
def test_no_period_no_sweep(period_ms: int) -> None:
    d = sweeping(period_ms)
    d.send(ttl_ms=10)
    assert d.broker.next_due_ns() is None
    d.advance(1_000_000)
    assert d.counter("size") == 1


def test_the_sweep_is_armed_only_while_something_that_can_expire_waits() -> None:
    d = sweeping(1000)
    d.send()
    assert d.broker.next_due_ns() is None
    d.send(ttl_ms=5000)
    assert d.broker.next_due_ns() is not None
    d.subscribe()
    assert d.broker.next_due_ns() is None  # both are in flight
    d.drop()
    assert d.broker.next_due_ns() is not None
    d.purge()
    assert d.broker.next_due_ns() is None


def test_asking_for_the_next_tick_changes_nothing() -> None:
    """A consumer disarms the sweep; whether anybody asked meanwhile must not move the next one."""
    dues = []
    for ask in (False, True):
        d = sweeping(1000)
        d.send(ttl_ms=100_000)
        d.subscribe("a")
        if ask:
            assert d.broker.next_due_ns() is None
        d.mono_ns += 2500 * NS_PER_MS
        d.drop("a")
        dues.append(d.broker.next_due_ns())
    assert dues == [START_NS + 3000 * NS_PER_MS] * 2


def test_a_sweep_takes_all_the_dead_and_only_them() -> None:
    d = sweeping(1000)
    for ttl_ms in (100, 0, 5000, 200, 0, 300):
        d.send(ttl_ms=ttl_ms)
    d.advance(1000)
    d.subscribe()
    assert d.got() == ["m2", "m3", "m5"]
    assert [dead_letter.message_id for dead_letter in d.dead_letters()] == ["m1", "m4", "m6"]


def test_steps_of_the_wall_clock() -> None:
    d = sweeping(1000)
    d.send(ttl_ms=10_000)
    d.step_wall(3_600_000)  # forward: dead at the next look, which comes by elapsed time
    assert d.counter("size") == 1
    d.step_wall(-7_200_000)  # back before anybody looked: alive
    d.advance(5000)
    assert d.counter("size") == 1
    d.step_wall(7_200_000)
    d.advance(1000)
    assert d.counters("size", "expired") == (0, 1)
    d.step_wall(-7_200_000)  # what is expired stays expired
    d.subscribe()
    assert d.got() == []


@pytest.mark.parametrize(("ttl_ms", "expires"), [(0, True), (60_000, True)])
def test_expired_ack_classic_believes_the_client(ttl_ms: int, expires: bool) -> None:
    d = Driver()
    d.subscribe()
    d.subscribe("other", prefetch=0)
    d.send(ttl_ms=ttl_ms)
    d.transmit()
    assert d.ack("m1", kind=EXPIRED, first="m1") == ""
    assert d.counters(*COUNTERS) == (0, 1, 1, 1, 0)
    assert [dead_letter.message_id for dead_letter in d.dead_letters()] == ["m1"] * expires


def documented(period_ms: int = 1000) -> Driver:
    return sweeping(period_ms, generation={"expiry": "documented"})


def test_expired_ack_documented_leaves_the_message_on_the_queue() -> None:
    d = documented()
    d.subscribe("a", prefetch=1)
    d.send(ttl_ms=60_000)
    d.send()
    d.transmit()
    assert d.ack("m1", "a", EXPIRED) == ""
    assert d.got("a") == ["m1", "m2"]  # out of the window, and never again to this consumer
    assert d.counters(*COUNTERS) == (2, 2, 0, 0, 0)
    d.subscribe("b")
    assert d.got("b") == ["m1"]
    assert d.dispatches[-1].redelivery_count == 0  # no application has seen it
    d.ack("m1", "b")
    assert d.counters("size", "expired") == (1, 0)


def test_expired_ack_documented_offers_the_message_to_a_consumer_that_is_there_already() -> None:
    d = documented()
    d.subscribe("a", prefetch=5)
    d.subscribe("b", prefetch=1)
    for _ in range(3):
        d.send(ttl_ms=60_000)
    assert (d.got("a"), d.got("b")) == (["m1", "m3"], ["m2"])
    d.ack("m1", "a", EXPIRED, first="m1")
    assert d.got("b") == ["m2"]
    d.ack("m2", "b")
    assert d.got("b") == ["m2", "m1"]  # ahead of anything else
    d.ack("m1", "b", EXPIRED)
    assert (d.got("a"), d.got("b")) == (["m1", "m3"], ["m2", "m1"])  # both refused it
    assert d.counter("size") == 2


def test_expired_ack_documented_a_refused_message_survives_the_next_consumer() -> None:
    d = documented()
    d.subscribe("a")
    d.send(ttl_ms=60_000)
    d.ack("m1", "a", EXPIRED)
    d.subscribe("b")
    d.drop("b")
    assert d.got("a") == ["m1"]
    d.subscribe("c")
    assert d.got("c") == ["m1"]
    assert d.dispatches[-1].redelivery_count == 1


def test_expired_ack_documented_expires_by_the_broker_s_clock_later() -> None:
    d = documented()
    d.subscribe("a")
    d.send(ttl_ms=1500)
    d.transmit()
    d.ack("m1", "a", EXPIRED)
    d.advance(1999)
    assert d.counters("size", "expired") == (1, 0)
    d.advance(1)
    assert d.counters(*COUNTERS) == (0, 1, 1, 1, 0)
    assert [dead_letter.message_id for dead_letter in d.dead_letters()] == ["m1"]


def test_expired_ack_documented_without_sweep_a_new_consumer_finds_it_dead() -> None:
    d = documented(0)
    d.subscribe("a")
    d.send(ttl_ms=1500)
    d.ack("m1", "a", EXPIRED)
    d.advance(1501)
    d.subscribe("b")
    assert d.got("b") == []
    assert d.counters("size", "expired") == (0, 1)


def test_expired_ack_documented_expires_at_once_if_the_broker_agrees() -> None:
    d = documented()
    d.subscribe("a")
    d.send(ttl_ms=100)
    d.transmit()
    d.advance(101)
    d.ack("m1", "a", EXPIRED)
    assert d.counters(*COUNTERS) == (0, 1, 1, 1, 0)


def test_expired_ack_documented_purge_takes_refused_messages_too() -> None:
    d = documented()
    d.subscribe("a")
    d.send(ttl_ms=60_000)
    d.ack("m1", "a", EXPIRED)
    d.purge()
    d.subscribe("b")
    assert d.got("b") == []
    assert d.counters("size", "dequeued", "expired") == (0, 1, 0)


def test_every_message_is_delivered_or_expired_exactly_once() -> None:
    """Sweep, dispatch and expired-ack compete; each message ends once and has at most one dead letter."""
    d = sweeping(7)
    d.subscribe("a", Q, 3)
    consumed = 0
    for number in range(60):
        d.send(ttl_ms=1 + number % 13)
        d.advance(number % 5)
        oldest = next(iter(d.outbox), None)
        if number % 3 == 0 and oldest is not None:
            d.transmit()
            kind = EXPIRED if number % 2 else STANDARD
            consumed += kind == STANDARD
            d.ack(oldest.message.message_id, "a", kind, first=oldest.message.message_id)
    d.drop("a")
    d.transmit()
    d.advance(1000)
    expired = d.counter("expired")
    assert d.counters("size", "in_flight", "enqueued") == (0, 0, 60)
    assert consumed > 5
    assert expired == 60 - consumed == d.counter("enqueued", DLQ)
