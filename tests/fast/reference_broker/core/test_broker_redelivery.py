"""Redelivery by the broker: what a client gave up comes again after a pause, so often, and then dies."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.reference_broker.core.config import BrokerRedelivery, DestinationPolicy
from brokerproof.reference_broker.core.effects import Journalled
from brokerproof.reference_broker.core.events import EXPIRED, POISON
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.recovery import Recovered
from brokerproof.reference_broker.storage.memory import MemoryJournal
from tests.fast.reference_broker.core.driver import DLQ, Driver, Q, T, config_of


def redelivering(**options: Any) -> Driver:
    """A broker that redelivers on ``queue://q``, and a consumer there."""
    policy = DestinationPolicy("queue://q", redelivery=BrokerRedelivery(**options))
    d = Driver(config_of(destinations=[policy, DestinationPolicy(">")]))
    d.subscribe()
    return d


def pauses(d: Driver, give_up: int = 20) -> list[int]:
    """Reject the one message again and again; how long it took until it came again."""
    found = []
    for _ in range(give_up):
        d.ack("m1", kind=POISON)
        waited_ms = 0
        before = len(d.got())
        if not d.counter("scheduled") and len(d.got()) == before:
            break
        while len(d.got()) == before:
            due_ns = d.broker.next_due_ns()
            assert due_ns is not None
            step_ms = (due_ns - d.mono_ns) // 1_000_000
            d.advance(step_ms)
            waited_ms += step_ms
        found.append(waited_ms)
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1000] * 6),
        ({"maximum_redeliveries": 2, "initial_redelivery_delay_ms": 5}, [5, 1000]),
        ({"maximum_redeliveries": 0}, []),
        (
            {"use_exponential_back_off": True, "initial_redelivery_delay_ms": 10, "back_off_multiplier": 2},
            [10, 20, 40, 80, 160, 320],
        ),
        (
            {
                "use_exponential_back_off": True,
                "initial_redelivery_delay_ms": 10,
                "redelivery_delay_ms": 7,
                "maximum_redelivery_delay_ms": 60,
            },
            [10, 50, 60, 60, 60, 60],
        ),
    ],
)
def test_it_comes_again_after_each_pause_and_then_dies(options: dict[str, Any], expected: list[int]) -> None:
    d = redelivering(**options)
    d.send()
    assert pauses(d) == expected
    assert [x.redelivery_count for x in d.dispatches if x.consumer == "c"] == list(range(len(expected) + 1))
    assert d.counters("size", "enqueued", "dequeued") == (0, len(expected) + 1, len(expected) + 1)
    assert [dead_letter.message_id for dead_letter in d.dead_letters()] == ["m1"]


def test_for_ever() -> None:
    d = redelivering(maximum_redeliveries=-1)
    d.send()
    assert len(pauses(d, 12)) == 12
    assert d.counter("enqueued", DLQ) == 0


def test_in_the_end_it_may_vanish() -> None:
    d = redelivering(maximum_redeliveries=1, send_to_dlq_if_max_retries_exceeded=False)
    d.send()
    assert pauses(d) == [1000]
    assert (d.counter("size"), d.counter("enqueued", DLQ)) == (0, 0)


def test_meanwhile_it_is_invisible_and_others_go_on() -> None:
    d = redelivering()
    d.send()
    d.send()
    d.transmit()
    d.ack("m1", kind=POISON, first="m1")
    assert d.counters("size", "scheduled", "in_flight") == (1, 1, 1)
    d.send()
    d.advance(1000)
    assert d.got() == ["m1", "m2", "m3", "m1"]
    assert d.counters("size", "scheduled", "in_flight") == (3, 0, 1)


def test_without_a_pause_it_comes_at_once_behind_the_others() -> None:
    d = redelivering(initial_redelivery_delay_ms=0)
    d.send()
    d.send()
    d.ack("m1", kind=POISON, first="m1")
    assert d.got() == ["m1", "m2", "m1"]


def test_it_may_expire_meanwhile() -> None:
    d = redelivering()
    d.send(ttl_ms=500)
    d.ack("m1", kind=POISON)
    d.advance(40_000)
    assert d.got() == ["m1"]
    assert d.counters("expired", "scheduled") == (1, 0)
    assert d.counter("enqueued", DLQ) == 1


def test_what_expired_is_not_tried_again() -> None:
    d = redelivering()
    d.send(ttl_ms=50_000)
    d.ack("m1", kind=EXPIRED)
    assert d.counter("scheduled") == 0
    assert d.counter("enqueued", DLQ) == 1


@pytest.mark.parametrize("destination", ["queue://other", T])
def test_only_where_a_policy_entry_says_so(destination: str) -> None:
    d = redelivering()
    d.subscribe("x", destination)
    d.send(destination)
    d.ack("m1", "x", kind=POISON)
    d.advance(5000)
    assert d.got("x") == ["m1"]
    assert d.counter("scheduled", destination) == 0


def test_a_purge_takes_what_waits_for_its_redelivery() -> None:
    d = redelivering()
    d.send()
    d.ack("m1", kind=POISON)
    d.purge(Q)
    d.advance(5000)
    assert d.got() == ["m1"]
    assert d.counters("size", "scheduled", "enqueued", "dequeued") == (0, 0, 2, 2)


def test_the_pause_is_remembered_by_one_copy_alone() -> None:
    """Copies for several names share what they say; what happens to one is none of the others' business."""
    policy = DestinationPolicy(
        ">", redelivery=BrokerRedelivery(initial_redelivery_delay_ms=700, use_exponential_back_off=True)
    )
    d = Driver(config_of(destinations=[policy]))
    d.subscribe("c", "queue://A")
    d.send("queue://A,queue://B", "m1", properties={"kind": "a"})
    d.ack("m1", kind=POISON)
    d.advance(700)
    shown = d.broker.browse("queue://B")
    assert shown is not None
    assert [message.properties for message in shown] == [{"kind": "a"}]
    assert d.dispatches[-1].message.properties == {"kind": "a", "redeliveryDelay": 700}


def test_a_restart_forgets_neither_the_pause_nor_how_often_it_was_tried() -> None:
    """What the broker wants to try again is its own business, so it is on record, unlike a mark of a departure."""
    entry = DestinationPolicy(
        ">",
        redelivery=BrokerRedelivery(maximum_redeliveries=2, initial_redelivery_delay_ms=500, redelivery_delay_ms=900),
    )
    config = config_of(persistent=True, destinations=[entry])
    d = Driver(config)
    d.subscribe()
    d.send()
    d.ack("m1", kind=POISON)
    d.advance(500)
    d.ack("m1", kind=POISON)
    journal = MemoryJournal()
    journal.append([effect.record for effect in d.effects if isinstance(effect, Journalled)])
    journal.sync()
    again = Driver(config)
    again.broker.restore(journal.replay(), Now(again.mono_ns, d.wall_ms))
    again.journal = Recovered(journal.replay())
    again.subscribe()
    assert again.counter("scheduled") == 1
    again.advance(901)
    assert [(x.message.message_id, x.redelivery_count) for x in again.dispatches] == [("m1", 2)]
    again.ack("m1", kind=POISON)
    assert (again.counter("size"), again.counter("scheduled"), again.counter("size", DLQ)) == (0, 0, 1)
