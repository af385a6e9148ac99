"""What an operator does to a running broker."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.effects import Counted, Refused
from brokerproof.reference_broker.core.events import (
    INDIVIDUAL,
    Move,
    Operation,
    Purge,
    RemoveQueue,
    ResetStatistics,
    SetMemoryLimit,
)
from tests.fast.reference_broker.core.driver import Driver, Q, T, config_of

S = 2048
A, B = "queue://A", "queue://B"
ALL = ("fair", "G0", "G1", "G2", "G3")


def make_driver(memory: str = "fair", limit: int = 10 * S, *entries: DestinationPolicy) -> Driver:
    destinations = [*entries, DestinationPolicy(">", expire_period_ms=0, producer_flow_control=False)]
    return Driver(config_of(generation={"memory": memory}, memory_limit_bytes=limit, destinations=destinations))


def fill(d: Driver, destination: str, count: int) -> None:
    for _ in range(count):
        d.send(destination, size=1024)


def operate(d: Driver, operation: Operation) -> int | str:
    """How many messages it concerned, or the code of the refusal."""
    operation.request = d.request()
    answers = [e for e in d.handle(operation) if isinstance(e, Counted | Refused)]
    assert [e.request for e in answers] == [d.requests]
    return answers[0].count if isinstance(answers[0], Counted) else answers[0].code


@pytest.mark.parametrize(
    "operation",
    [Purge("queue://none"), SetMemoryLimit("queue://none", 5), RemoveQueue("queue://none"), Move("queue://none", A)],
)
def test_what_does_not_exist_is_not_created(operation: Operation) -> None:
    d = make_driver()
    assert operate(d, operation) == "unknown-destination"
    assert d.broker.destinations() == []


@pytest.mark.parametrize("memory", ALL)
def test_a_purge_says_how_many(memory: str) -> None:
    d = make_driver(memory)
    fill(d, Q, 25)
    d.subscribe(prefetch=3)
    assert operate(d, Purge(Q)) == 25
    assert d.counters("size", "memory_bytes") == (0, 0)
    assert operate(d, Purge(Q)) == 0


def test_a_topic_has_nothing_to_purge() -> None:
    d = make_driver()
    d.subscribe("t", T)
    assert operate(d, Purge(T)) == 0


# -- limits at run time


@pytest.mark.parametrize("memory", ALL)
def test_destinations_without_a_limit_follow_the_brokers(memory: str) -> None:
    d = make_driver(memory, 10 * S, DestinationPolicy("B", memory_limit_bytes=5 * S))
    fill(d, A, 1)
    fill(d, B, 1)
    assert operate(d, SetMemoryLimit("", 100 * S)) == 0
    assert (d.counter("memory_limit_bytes", A), d.counter("memory_limit_bytes", B)) == (100 * S, 5 * S)
    assert (d.counter("memory_percent", A), d.broker.broker_counters()["memory_percent"]) == (1, 2)
    assert operate(d, SetMemoryLimit(B, 0)) == 0
    assert d.counter("memory_limit_bytes", B) == 100 * S
    assert operate(d, SetMemoryLimit(A, 2 * S)) == 0
    operate(d, SetMemoryLimit("", 50 * S))
    assert (d.counter("memory_limit_bytes", A), d.counter("memory_limit_bytes", B)) == (2 * S, 50 * S)


def test_a_negative_limit_is_refused() -> None:
    d = make_driver()
    fill(d, A, 1)
    assert operate(d, SetMemoryLimit(A, -1)) == "bad-limit"
    assert d.counter("memory_limit_bytes", A) == 10 * S


def test_fair_what_waits_gives_way_to_a_lower_limit_and_what_is_in_flight_when_it_is_settled() -> None:
    d = make_driver(limit=20 * S)
    fill(d, A, 10)
    d.subscribe("a", A, 3)
    operate(d, SetMemoryLimit(A, 5 * S))
    assert d.counters("memory_bytes", "memory_percent", "size", destination=A) == (5 * S, 100, 10)
    operate(d, SetMemoryLimit(A, 2 * S))
    assert d.counters("memory_bytes", "memory_percent", destination=A) == (3 * S, 150)
    for number in range(1, 11):
        d.ack(f"m{number}", "a")
    assert d.got("a") == [f"m{n}" for n in range(1, 11)]
    assert d.counters("memory_bytes", "size", destination=A) == (0, 0)


def test_fair_a_lower_limit_of_the_broker_takes_from_the_largest() -> None:
    d = make_driver(limit=20 * S)
    fill(d, A, 4)
    fill(d, B, 8)
    operate(d, SetMemoryLimit("", 6 * S))
    assert (d.counter("memory_bytes", A), d.counter("memory_bytes", B)) == (3 * S, 3 * S)


def test_fair_a_higher_limit_serves_who_waited() -> None:
    d = make_driver(limit=4 * S)
    fill(d, B, 4)
    d.subscribe("b", B, 10)
    fill(d, A, 5)
    d.subscribe("a", A, 10)
    assert d.got("a") == ["m5"]
    operate(d, SetMemoryLimit("", 7 * S))
    assert d.got("a") == ["m5", "m6", "m7", "m8"]


@pytest.mark.parametrize("memory", ["G1", "G2", "G3"])
def test_a_lower_limit_evicts_nothing_in_the_generations_of_activemq(memory: str) -> None:
    d = make_driver(memory, 10 * S)
    fill(d, B, 7)
    operate(d, SetMemoryLimit(B, 2 * S))
    assert d.counters("memory_bytes", "memory_percent", destination=B) == (7 * S, 350)


# -- move


@pytest.mark.parametrize("memory", ALL)
def test_a_move_takes_what_waits_in_order_and_leaves_what_is_in_flight(memory: str) -> None:
    d = make_driver(memory)
    fill(d, A, 30)
    d.subscribe("a", A, 2)
    assert operate(d, Move(A, B)) == 28
    assert (d.counter("size", A), d.counter("size", B)) == (2, 28)
    d.subscribe("b", B, 1)
    for number in range(3, 31):
        assert d.got("b")[-1] == f"m{number}"
        d.ack(f"m{number}", "b", INDIVIDUAL)
    dead_letter = next(dispatch.message for dispatch in d.dispatches if dispatch.consumer == "b")
    assert (dead_letter.destination, dead_letter.original_destination, dead_letter.redelivery_count) == (B, A, 0)
    for number in (1, 2):
        d.ack(f"m{number}", "a")
    assert d.broker.broker_counters()["memory_bytes"] == 0


def test_a_move_of_some() -> None:
    d = make_driver()
    for number in range(6):
        d.send(A, properties={"kind": "ab"[number % 2]})
    assert operate(d, Move(A, B, selector="kind = 'b'")) == 3
    assert operate(d, Move(A, B, count=2)) == 2
    assert operate(d, Move(A, B, selector="kind =")) == "bad-selector"
    assert (d.counter("size", A), d.counter("size", B)) == (1, 5)


def test_moving_back_and_forth_loses_nothing() -> None:
    d = make_driver()
    fill(d, A, 4)
    assert operate(d, Move(A, B)) == 4
    assert operate(d, Move(B, A)) == 4
    d.subscribe("a", A, 10)
    assert d.got("a") == ["m1", "m2", "m3", "m4"]
    d.drop("a")
    assert operate(d, Move(A, B)) == 4  # what came back waits too
    d.subscribe("b", B, 10)
    assert d.got("b") == ["m1", "m2", "m3", "m4"]


@pytest.mark.parametrize("target", ["nonsense", "queue://", A, "temp-queue://gone"])
def test_a_move_to_nowhere_is_refused(target: str) -> None:
    d = make_driver()
    fill(d, A, 1)
    assert operate(d, Move(A, target)) == "bad-destination"
    assert d.counter("size", A) == 1


def test_a_message_that_the_target_holds_stays() -> None:
    d = make_driver()
    d.send(A, "x")
    d.send(B, "x")
    assert operate(d, Move(A, B)) == 0
    assert (d.counter("size", A), d.counter("size", B)) == (1, 1)


def test_a_move_to_a_topic_reaches_its_subscribers() -> None:
    d = make_driver()
    fill(d, A, 2)
    d.subscribe("t", T)
    assert operate(d, Move(A, T)) == 2
    assert d.got("t") == ["m1", "m2"]


# -- removal


@pytest.mark.parametrize("memory", ALL)
def test_a_removed_queue_is_gone_with_everything(memory: str) -> None:
    d = make_driver(memory)
    fill(d, B, 20)  # all memory is full of it
    fill(d, A, 30)
    assert operate(d, RemoveQueue(A)) == 30
    assert d.broker.destinations() == [B]
    assert d.broker.broker_counters()["size"] == 20
    fill(d, A, 1)
    assert d.counter("size", A) == 1


def test_a_queue_that_is_consumed_from_is_not_removed() -> None:
    d = make_driver()
    fill(d, A, 1)
    d.subscribe("a", A)
    assert operate(d, RemoveQueue(A)) == "destination-in-use"
    assert d.counter("size", A) == 1


@pytest.mark.parametrize("operation", [RemoveQueue(T), Move(T, A)])
def test_topics_are_not_removed_or_moved(operation: Operation) -> None:
    d = make_driver()
    d.subscribe("t", T)
    assert operate(d, operation) == "bad-destination"


def test_a_reset_begins_every_total_anew() -> None:
    d = Driver(config_of(destinations=[DestinationPolicy(">", pending_message_limit=0)]))
    d.subscribe("slow", T, 1)
    for _ in range(3):
        d.send(T)
    assert d.counter("discarded", T) == 2
    assert operate(d, ResetStatistics(T)) == 0
    assert d.counters("discarded", "enqueued", "dispatched", destination=T) == (0, 0, 0)
