"""Dispatch: order on a queue, the window, round robin, and what a consumer may not have. Every step is followed by
the broker's own audit (see the driver).
"""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.effects import Accepted, Dispatch
from brokerproof.reference_broker.core.events import DELIVERED, INDIVIDUAL, STANDARD, Subscribe, Transmitted
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.policies import Policies
from brokerproof.reference_broker.core.round_robin import RoundRobin
from tests.fast.reference_broker.core.driver import Driver, Q, T, config_of


def test_first_in_first_out() -> None:
    d = Driver()
    for _ in range(3):
        d.send()
    d.subscribe()
    d.send()
    assert d.got() == ["m1", "m2", "m3", "m4"]
    assert d.counters("size", "enqueued", "dequeued", "consumers") == (4, 4, 0, 1)


def test_the_answer_to_subscribe_precedes_the_first_message() -> None:
    d = Driver()
    d.send()
    d.connect(2)
    effects = d.handle(Subscribe(2, "c", Q, 10, request=99))
    assert [type(effect) for effect in effects] == [Accepted, Dispatch]


@pytest.mark.parametrize("prefetch", [0, 1, 2, 7])
def test_at_most_prefetch_messages_are_outstanding(prefetch: int) -> None:
    d = Driver()
    d.subscribe(prefetch=prefetch)
    for _ in range(10):
        d.send()
    assert len(d.got()) == prefetch
    d.transmit()
    assert len(d.got()) == prefetch  # writing opens no window
    while prefetch and d.counter("size"):
        d.ack(d.got()[d.counter("dequeued")])
    assert len(d.got()) == (10 if prefetch else 0)


def test_round_robin_among_open_windows() -> None:
    d = Driver()
    d.subscribe("a", prefetch=3)
    d.subscribe("b", prefetch=1)
    d.subscribe("c", prefetch=2)
    for _ in range(7):
        d.send()
    assert (d.got("a"), d.got("b"), d.got("c")) == (["m1", "m4", "m6"], ["m2"], ["m3", "m5"])
    d.ack("m2", "b")
    assert d.got("b") == ["m2", "m7"]


def test_delivered_opens_as_many_slots_once_and_settling_closes_them() -> None:
    d = Driver()
    d.subscribe(prefetch=4)
    for _ in range(20):
        d.send()
    d.ack("m3", kind=DELIVERED)
    assert len(d.got()) == 4 + 3
    d.ack("m3", kind=DELIVERED)
    assert len(d.got()) == 7  # the same messages again: nothing new
    d.ack("m3", kind=STANDARD)
    assert len(d.got()) == 7  # three fewer outstanding, three less extension
    d.ack("m4", kind=INDIVIDUAL)
    assert len(d.got()) == 8  # the extension is 0 by now and stays there
    assert d.counter("in_flight") == 0 - 4  # nothing is written, four are settled


def test_the_extension_never_falls_below_nothing() -> None:
    d = Driver()
    d.subscribe(prefetch=4)
    for _ in range(20):
        d.send()
    d.ack("m1", kind=DELIVERED)
    assert len(d.got()) == 5
    d.ack("m5")
    assert len(d.got()) == 5 + 4


def test_what_auto_ack_settles_narrows_the_window_like_any_other_settlement() -> None:
    d = Driver()
    d.subscribe(prefetch=1, auto=True)
    for _ in range(9):
        d.send()
    d.ack("m1", kind=DELIVERED)
    assert len(d.got()) == 2
    d.transmit(1)
    assert len(d.got()) == 2  # one outstanding less, one extension less
    d.transmit(1)
    assert len(d.got()) == 3


def test_a_synchronous_dispatch_is_counted_at_once_and_reported_by_nobody() -> None:
    d = Driver()
    d.subscribe(sync=True, prefetch=2)
    for _ in range(3):
        d.send()
    assert d.outbox == []
    assert [dispatch.asynchronous for dispatch in d.dispatches] == [False, False]
    assert d.counters("in_flight", "dispatched") == (2, 2)
    d.handle(Transmitted(d.dispatches[0]))
    assert d.counters("in_flight", "dispatched") == (2, 2)


@pytest.mark.parametrize("sync", [False, True])
def test_auto_ack_settles_when_written(sync: bool) -> None:
    d = Driver()
    d.subscribe(prefetch=2, sync=sync, auto=True)
    for _ in range(5):
        d.send()
    if not sync:
        assert (len(d.got()), d.counter("size")) == (2, 5)
        d.transmit(1)
        assert (len(d.got()), d.counter("size"), d.counter("in_flight")) == (3, 4, 0)
        d.transmit()
    assert d.got() == ["m1", "m2", "m3", "m4", "m5"]
    assert d.counters("size", "in_flight", "dequeued") == (0, 0, 5)


def test_auto_ack_does_not_settle_what_could_not_be_written() -> None:
    d = Driver()
    d.subscribe(auto=True)
    d.send()
    d.transmit(failed=True)
    assert d.counters("size", "in_flight") == (1, 1)
    d.drop()
    assert d.counters("size", "in_flight") == (1, 0)


def test_a_late_report_does_not_settle_the_next_subscription_of_that_name() -> None:
    d = Driver()
    d.subscribe(auto=True)
    d.send()
    d.leave()
    old = d.outbox.pop()
    d.subscribe("c", auto=True, connection=d.connections["c"])
    d.outbox.insert(0, old)
    d.transmit(1)
    assert d.counters("size", "dequeued", "in_flight") == (1, 0, 0)  # one written, one removed
    d.transmit()
    assert d.counters("size", "dequeued", "in_flight") == (0, 1, 0)


def test_a_dispatch_keeps_the_redelivery_count_with_which_it_was_assigned() -> None:
    d = Driver()
    d.subscribe("a")
    d.send()
    d.leave("a")
    d.subscribe("b")
    assert [dispatch.redelivery_count for dispatch in d.dispatches] == [0, 1]


class Greedy(RoundRobin):
    def served(self, ring: object) -> None:
        """The front stays in front."""


def test_rotation_is_a_policy() -> None:
    config = config_of()
    d = Driver(config, Policies.from_config(config).replace("dispatch", Greedy()))
    d.subscribe("a", prefetch=2)
    d.subscribe("b", prefetch=2)
    for _ in range(3):
        d.send()
    assert (d.got("a"), d.got("b")) == (["m1", "m2"], ["m3"])


def test_an_idle_broker_wants_no_tick() -> None:
    d = Driver()
    d.send()
    d.subscribe()
    assert d.broker.next_due_ns() is None
    assert d.broker.destinations() == [Q]
    assert d.broker.counters("queue://other", Now(0, 0)) is None


# -- dispatch isolation (seed 003)


@pytest.mark.parametrize("destination", [Q, T])
def test_an_asynchronous_dispatch_that_is_not_written_holds_up_nobody(destination: str) -> None:
    d = Driver()
    d.subscribe("deaf", destination)
    d.subscribe("c", destination)
    for _ in range(4):
        d.send(destination)
    assert d.got("c") == (["m2", "m4"] if destination == Q else ["m1", "m2", "m3", "m4"])


@pytest.mark.parametrize("destination", [Q, T])
def test_a_synchronous_dispatch_that_is_not_written_holds_up_everybody(destination: str) -> None:
    d = Driver()
    d.subscribe("deaf", destination, sync=True)
    d.subscribe("c", destination)
    d.stalled = True
    for _ in range(4):
        d.send(destination)
    assert (d.got("deaf"), d.got("c")) == (["m1"], [])
    assert d.counter("in_flight", destination) == 1
    d.send("queue://other")
    d.subscribe("x", "queue://other")
    assert d.got("x") == ["m5"]
    d.stalled = False
    d.transmit()
    assert d.got("c") == (["m2", "m4"] if destination == Q else ["m1", "m2", "m3", "m4"])


def test_a_lost_connection_ends_the_wait_for_its_write() -> None:
    d = Driver()
    d.subscribe("deaf", sync=True)
    d.subscribe("c")
    d.stalled = True
    d.send()
    d.send()
    d.drop("deaf")
    assert d.got("c") == []
    d.transmit(1, failed=True)
    assert d.got("c") == ["m1", "m2"]


def test_a_browser_may_be_deaf_as_well() -> None:
    d = Driver()
    d.send()
    d.send()
    d.stalled = True
    d.subscribe("b", sync=True, browser=True)
    d.subscribe("c")
    assert (d.got("b"), d.got("c")) == (["m1"], ["m1", "m2"])
    d.transmit()
    assert d.got("b") == ["m1", "m2"]
