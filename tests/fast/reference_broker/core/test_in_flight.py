"""In-flight accounting: seed 003 as arithmetic. The audit in the driver checks ``in_flight == T - R`` after each
event; here are the values that an operator would see.
"""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.events import ResetStatistics, Send
from brokerproof.reference_broker.core.in_flight import Counters, InFlight
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.policies import Policies
from tests.fast.reference_broker.core.driver import DLQ, Driver, Q, T, config_of


@pytest.mark.parametrize("destination", [Q, T])
@pytest.mark.parametrize(("written", "acked"), [(0, 0), (4, 0), (4, 3), (10, 0), (10, 10), (4, 4)])
def test_a_consumer_that_leaves_takes_the_unwritten_off_as_well(destination: str, written: int, acked: int) -> None:
    """The swing: k written, a acknowledged, N assigned; on departure the count jumps to k - N and climbs back to 0."""
    d = Driver()
    d.subscribe("c", destination, 10)
    for _ in range(10):
        d.send(destination)
    d.transmit(written)
    if acked:
        d.ack(f"m{acked}")
    assert d.counter("in_flight", destination) == written - acked
    d.leave()
    assert d.counter("in_flight", destination) == written - 10
    d.transmit()
    assert d.counter("in_flight", destination) == 0
    assert d.counter("dispatched", destination) == 10


def test_the_swing_is_bounded_by_the_prefetch_not_forbidden() -> None:
    d = Driver()
    for _ in range(100):
        d.send()
    low = 0
    for number in range(5):
        d.subscribe(f"c{number}", prefetch=10)
        d.leave(f"c{number}")
        low = min(low, d.counter("in_flight"))
    assert low == -50  # ten for each consumer that left
    d.transmit()
    assert d.counters("in_flight", "size") == (0, 100)


def test_synchronous_dispatch_never_swings() -> None:
    d = Driver()
    for _ in range(100):
        d.send()
    for number in range(5):
        d.subscribe(f"c{number}", prefetch=10, sync=True)
        assert d.counter("in_flight") == 10
        d.leave(f"c{number}")
        assert d.counter("in_flight") == 0


@pytest.mark.parametrize("destination", [Q, T])
def test_what_is_counted_when_it_is_assigned_never_swings(destination: str) -> None:
    d = Driver(config_of(generation={"in-flight": "assigned"}))
    d.subscribe("c", destination, 10)
    for _ in range(10):
        d.send(destination)
    d.transmit(4)
    assert d.counters("in_flight", "dispatched", destination=destination) == (10, 4)
    d.ack("m2")
    d.handle(ResetStatistics(destination))
    assert d.counters("in_flight", "dispatched", destination=destination) == (8, 0)
    d.transmit(2)
    d.leave()
    assert d.counters("in_flight", "dispatched", destination=destination) == (0, 2)
    d.transmit()
    assert d.counters("in_flight", "dispatched", destination=destination) == (0, 6)


def test_a_failed_write_counts_as_written() -> None:
    d = Driver()
    d.subscribe()
    d.send()
    d.transmit(failed=True)
    assert d.counters("in_flight", "dispatched") == (1, 1)
    d.drop()
    assert d.counters("in_flight", "dispatched", "size") == (0, 1, 1)


def test_dispatched_counts_every_transmission_again() -> None:
    d = Driver()
    d.send()
    for number in range(3):
        d.subscribe(f"c{number}")
        d.transmit()
        d.drop(f"c{number}")
    assert d.counters("dispatched", "in_flight", "enqueued", "dequeued") == (3, 0, 1, 0)


def test_purging_in_flight_messages() -> None:
    d = Driver()
    d.subscribe("a", prefetch=2)
    d.subscribe("b", prefetch=2)
    for _ in range(6):
        d.send()
    d.transmit()
    d.purge()
    assert d.counters("size", "dequeued", "in_flight", "memory_bytes") == (0, 6, 4, 0)
    assert d.ack("m3", "a") == ""  # a late acknowledgement is no error and no second dequeue
    assert d.counters("size", "dequeued", "in_flight") == (0, 6, 2)
    d.leave("b")
    assert d.counters("size", "dequeued", "in_flight") == (0, 6, 0)
    d.subscribe("c")
    assert d.got() == []
    assert d.counter("enqueued", DLQ) == 0


def test_the_id_of_a_purged_message_stays_taken_until_its_consumer_has_settled_it() -> None:
    d = Driver()
    d.subscribe()
    d.send()
    d.purge()
    assert d.ask(Send(1, Message("m1", Q, b""), request=d.request())) == "duplicate-id"
    d.ack("m1")
    d.send(message_id="m1")
    assert d.got() == ["m1", "m1"]


def test_purge_of_what_is_not_a_queue_is_only_logged() -> None:
    d = Driver()
    d.subscribe("c", T)
    d.send(T)
    d.purge(T)
    d.purge("queue://nowhere")
    assert d.logged("only queues can be purged") == 1
    assert d.logged("does not exist") == 1
    assert d.counter("in_flight", T) == 0
    assert d.ack("m1") == ""


def test_broker_totals_are_the_sums() -> None:
    d = Driver()
    d.subscribe("a", Q, 1)
    d.subscribe("b", T, 5)
    d.send(Q)
    d.send(Q)
    d.send(T)
    d.transmit()
    totals = d.broker.broker_counters()
    for name in ("size", "in_flight", "enqueued", "dequeued", "dispatched", "expired", "scheduled", "memory_bytes"):
        assert totals[name] == d.counter(name, Q) + d.counter(name, T), name
    assert (totals["in_flight"], totals["destinations"], totals["consumers"], totals["connections"]) == (2, 2, 2, 3)


def test_counters_of_the_seed() -> None:
    """Seed 003: 1000 assigned, 10 consumed, so the departure takes 990 off, whatever is written by then."""
    d = Driver()
    d.checks_invariants = False
    d.subscribe(prefetch=1000)
    for _ in range(1200):
        d.send()
    d.checks_invariants = True
    assert len(d.got()) == 1000
    d.transmit(10)
    assert d.ack("m10") == ""
    assert (len(d.got()), d.counter("in_flight")) == (1010, 0)
    d.leave()
    assert d.counter("in_flight") == -1000  # the acknowledgement of ten had opened ten slots
    assert d.counters("acknowledged", "wasted") == (10, 1000)
    d.checks_invariants = False
    d.transmit()
    d.broker.check()
    assert d.counters("in_flight", "size", "dispatched") == (0, 1190, 1010)


def test_assigned_minus_settled_is_what_a_departure_takes_off() -> None:
    d = Driver()
    d.checks_invariants = False
    for _ in range(1000):
        d.send()
    d.checks_invariants = True
    d.subscribe(prefetch=1000)
    d.transmit(10)
    d.ack("m10")
    before = d.counter("in_flight")
    d.leave()
    assert before - d.counter("in_flight") == 990
    assert d.counters("in_flight", "wasted") == (-990, 990)


def test_wasted_dispatches_are_those_that_are_made_again() -> None:
    d = Driver()
    for _ in range(6):
        d.send()
    d.subscribe("a", prefetch=6)
    d.transmit()
    d.ack("m2", "a")
    d.leave("a")
    d.subscribe("b", prefetch=6)
    d.transmit()
    d.ack("m6", "b")
    assert d.counters("dispatched", "acknowledged", "wasted", "in_flight") == (10, 6, 4, 0)
    totals = d.broker.broker_counters()
    assert (totals["acknowledged"], totals["wasted"]) == (6, 4)


@pytest.mark.parametrize("end", ["acknowledge", "leave"])
@pytest.mark.parametrize("written", [0, 2, 3])
def test_a_reset_keeps_the_levels(end: str, written: int) -> None:
    """ActiveMQ sets the in-flight count to 0 as well, and shows -3 from then on."""
    d = Driver()
    for _ in range(5):
        d.send()
    d.subscribe(prefetch=3)
    d.transmit(written)
    d.handle(ResetStatistics(Q))
    assert d.counters("enqueued", "dequeued", "dispatched", "expired", "wasted") == (0, 0, 0, 0, 0)
    assert d.counters("size", "in_flight") == (5, written)
    d.transmit()
    assert d.counter("dispatched") == 3 - written
    if end == "acknowledge":
        for number in (3, 5):
            d.ack(f"m{number}")
            d.transmit()
        assert d.counters("size", "in_flight", "dequeued", "acknowledged") == (0, 0, 5, 5)
    else:
        d.leave()
        assert d.counters("size", "in_flight", "dequeued", "wasted") == (5, 0, 0, 3)


def test_a_reset_of_everything() -> None:
    d = Driver()
    d.send()
    d.send(T)
    assert [type(e).__name__ for e in d.handle(ResetStatistics("", request=5))] == ["Counted"]
    assert (d.counter("enqueued"), d.counter("enqueued", T), d.counter("size")) == (0, 0, 1)
    d.handle(ResetStatistics("queue://nowhere"))
    assert d.logged("does not exist") == 1


class Forgetful(InFlight):
    """Takes off only what was written: no swing, but the late reports are never balanced."""

    def left(self, counters: Counters, count: int) -> None:
        super().left(counters, max(0, counters.in_flight))


def test_the_in_flight_count_is_a_policy_and_the_invariants_notice_a_wrong_one() -> None:
    config = config_of()
    d = Driver(config, Policies.from_config(config).replace("in_flight", Forgetful()))
    d.subscribe(prefetch=3)
    for _ in range(3):
        d.send()
    d.transmit(1)
    with pytest.raises(Exception, match=r"in_flight \+ unwritten"):
        d.leave()
    assert d.counter("in_flight") == 0
