"""What comes back when a consumer goes: marks, order, and what must not change."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.events import EXPIRED, STANDARD
from brokerproof.reference_broker.core.pending_list import PendingList
from brokerproof.reference_broker.core.policies import Policies
from brokerproof.reference_broker.core.redelivery import Ordering
from brokerproof.reference_broker.core.reference import Reference
from tests.fast.reference_broker.core.driver import Driver, Q, T, config_of


@pytest.mark.parametrize(
    ("last_delivered", "marked"),
    [(-2, [1, 1, 1, 1]), (-1, [0, 0, 0, 0]), (0, [0, 0, 0, 0]), (2, [1, 1, 0, 0]), (9, [1, 1, 1, 1])],
)
def test_marks(last_delivered: int, marked: list[int]) -> None:
    d = Driver()
    d.subscribe("a", prefetch=4)
    for _ in range(4):
        d.send()
    d.leave("a", last_delivered)
    d.subscribe("b")
    again = [dispatch for dispatch in d.dispatches if dispatch.consumer == "b"]
    assert [dispatch.message.message_id for dispatch in again] == ["m1", "m2", "m3", "m4"]
    assert [dispatch.redelivery_count for dispatch in again] == marked


def test_last_delivered_counts_what_is_left_on_the_list() -> None:
    d = Driver()
    d.subscribe("a")
    for _ in range(4):
        d.send()
    d.ack("m2", "a")
    d.leave("a", 1)
    d.subscribe("b")
    assert [(x.message.message_id, x.redelivery_count) for x in d.dispatches if x.consumer == "b"] == [
        ("m3", 1),
        ("m4", 0),
    ]


@pytest.mark.parametrize("written", [0, 2, 4])
def test_a_lost_connection_marks_everything_also_what_was_never_written(written: int) -> None:
    d = Driver()
    d.subscribe("a")
    for _ in range(4):
        d.send()
    d.transmit(written)
    d.drop("a")
    d.subscribe("b")
    assert [x.redelivery_count for x in d.dispatches if x.consumer == "b"] == [1, 1, 1, 1]
    assert d.counters("size", "enqueued", "dequeued") == (4, 4, 0)


def test_the_count_grows_with_every_loss() -> None:
    d = Driver()
    d.send()
    for number in range(4):
        d.subscribe(f"c{number}")
        d.drop(f"c{number}")
    assert [x.redelivery_count for x in d.dispatches] == [0, 1, 2, 3]


def test_what_comes_back_goes_ahead_of_the_backlog() -> None:
    d = Driver()
    d.subscribe("a", prefetch=2)
    for _ in range(5):
        d.send()
    d.leave("a")
    d.subscribe("b")
    assert d.got("b") == ["m1", "m2", "m3", "m4", "m5"]


@pytest.mark.parametrize("departures", [("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")])
def test_several_departures_restore_the_original_order(departures: tuple[str, ...]) -> None:
    d = Driver()
    for name in ("a", "b", "c"):
        d.subscribe(name, prefetch=2)
    for _ in range(6):
        d.send()
    assert (d.got("a"), d.got("b"), d.got("c")) == (["m1", "m4"], ["m2", "m5"], ["m3", "m6"])
    for _ in range(2):
        d.send()
    for name in departures:
        d.leave(name)
    d.subscribe("z")
    assert d.got("z") == [f"m{n}" for n in range(1, 9)]


@pytest.mark.parametrize("departures", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("temp_limit_bytes", [0, 1_000_000])
def test_what_came_back_and_gave_way_in_memory_keeps_its_place(
    departures: tuple[str, str], temp_limit_bytes: int
) -> None:
    """Between the departures another queue needs all the memory."""
    d = Driver(config_of(memory_limit_bytes=6 * 1024, temp_limit_bytes=temp_limit_bytes))
    for consumer in ("a", "b"):
        d.subscribe(consumer, prefetch=2)
    for _ in range(5):
        d.send(persistent=False)
    d.leave(departures[0])
    others = [d.send("queue://other").message_id for _ in range(4)]
    d.subscribe("o", "queue://other", prefetch=4)
    assert d.got("o") == others
    d.leave(departures[1])
    for message_id in others:
        d.ack(message_id, "o")
    d.subscribe("last")
    assert d.got("last") == ["m1", "m2", "m3", "m4", "m5"]


def test_consumers_of_one_lost_connection_do_not_inherit_from_each_other() -> None:
    d = Driver()
    d.subscribe("a", prefetch=1)
    d.subscribe("b", prefetch=5, connection=d.connections["a"])
    d.send()
    d.send()
    before = len(d.dispatches)
    d.drop("a")
    assert len(d.dispatches) == before
    d.subscribe("c")
    assert d.got() == ["m1", "m2"]


def test_another_consumer_gets_it_at_once() -> None:
    d = Driver()
    d.subscribe("a", prefetch=2)
    d.subscribe("b", prefetch=2)
    for _ in range(3):
        d.send()
    d.drop("a")
    assert d.got("b") == ["m2", "m1"]  # one slot was open: the oldest that came back
    d.ack("m1", "b", STANDARD)
    assert d.got("b") == ["m2", "m1", "m3"]


def test_nothing_is_redelivered_on_a_topic() -> None:
    d = Driver()
    d.subscribe("a", T, 2)
    d.subscribe("b", T, 9)
    for _ in range(3):
        d.send(T)
    d.drop("a")
    d.subscribe("c", T)
    assert d.got("b") == ["m1", "m2", "m3"]
    assert d.got("c") == []


def test_closing_twice_and_unknown_connections_are_harmless() -> None:
    d = Driver()
    d.subscribe("a")
    d.send()
    d.drop("a")
    d.drop("a")
    assert d.ack("m1", "a", EXPIRED) == "unknown-consumer"
    assert d.counter("size") == 1


class ToTheTail(Ordering):
    """A defect: what comes back waits behind everything else."""

    def put_back(self, line: PendingList, references: list[Reference]) -> None:
        line.put_last(references)


def test_ordering_is_a_policy() -> None:
    config = config_of()
    d = Driver(config, Policies.from_config(config).replace("ordering", ToTheTail()))
    d.subscribe("a", prefetch=2)
    for _ in range(4):
        d.send(Q)
    d.leave("a")
    d.subscribe("b")
    assert d.got("b") == ["m3", "m4", "m1", "m2"]
