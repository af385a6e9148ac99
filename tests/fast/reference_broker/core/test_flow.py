"""Producer flow control: sends that wait, fail or stop their connection while memory is full (generations G0 to G3)."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.effects import Accepted, Credited, Effect, Refused, Throttled
from brokerproof.reference_broker.core.events import (
    INDIVIDUAL,
    Ack,
    Begin,
    Commit,
    Disconnect,
    Purge,
    RemoveQueue,
    Rollback,
    Send,
)
from brokerproof.reference_broker.core.flow import CONFIRMED_MAX
from brokerproof.reference_broker.core.message import Message
from tests.fast.reference_broker.core.driver import DLQ, Driver, T, config_of

S = 2048
A, B = "queue://A", "queue://B"
CLASSIC = ("G0", "G1", "G2", "G3")


def full(generation: str = "G3", *entries: DestinationPolicy, limit: int = 10 * S, **settings: object) -> Driver:
    """A broker of ten messages whose queue B holds ten."""
    mark = DestinationPolicy("B", expire_period_ms=0, high_water_percent=100)
    destinations = [*entries, mark, DestinationPolicy(">", expire_period_ms=0)]
    d = Driver(
        config_of(generation={"memory": generation}, memory_limit_bytes=limit, destinations=destinations, **settings)
    )
    for _ in range(10):
        d.send(B, size=1024)
    return d


def message(name: str, destination: str = A, *, expiration_ms: int = 0, delay_ms: int = 0) -> Message:
    return Message(name, destination, b"x" * 1024, persistent=True, expiration_ms=expiration_ms, delay_ms=delay_ms)


def ask(d: Driver, name: str, destination: str = A, **more: int) -> list[Effect]:
    """A confirmed send, its number in the order of the test."""
    return d.handle(Send(1, message(name, destination, **more), request=d.request()))


def tell(d: Driver, name: str, destination: str = A, connection: int = 1) -> list[Effect]:
    """An unconfirmed send."""
    return d.handle(Send(connection, message(name, destination)))


def answers(effects: list[Effect]) -> list[tuple[int, str]]:
    return [(e.request, e.code if isinstance(e, Refused) else "") for e in effects if isinstance(e, Accepted | Refused)]


def throttled(effects: list[Effect]) -> list[tuple[int, bool]]:
    return [(e.connection, e.blocked) for e in effects if isinstance(e, Throttled)]


@pytest.mark.parametrize("generation", CLASSIC)
@pytest.mark.parametrize("destination", [A, B, T])
def test_a_full_broker_holds_every_send(generation: str, destination: str) -> None:
    d = full(generation)
    d.subscribe("b", B, 10)
    assert answers(ask(d, "x", destination)) == []
    d.drop("b")  # what comes back keeps its memory
    assert d.counter("size", A) == 0
    assert d.counter("size", B) == 10


def test_nine_tenths_hold_nobody() -> None:
    d = full(limit=11 * S)
    assert answers(ask(d, "x")) == [(11, "")]
    assert d.broker.broker_counters()["memory_percent"] == 100
    assert answers(ask(d, "y")) == []


def test_fair_never_holds_a_send() -> None:
    d = full("fair")
    d.subscribe("b", B, 10)
    assert answers(ask(d, "x")) == [(d.requests, "")]
    assert throttled(tell(d, "y")) == []
    assert d.counter("size", A) == 2


def test_waiting_sends_go_through_in_their_order_each_once() -> None:
    d = full()
    d.subscribe("b", B, 10)
    for name in ("x", "y", "z"):
        assert answers(ask(d, name)) == []
    first = d.requests - 2
    d.effects.clear()
    for number in range(1, 4):
        d.handle(Ack(d.connections["b"], "b", INDIVIDUAL, f"m{number}"))
        assert answers(d.effects) == [(first + n, "") for n in range(number)]
    d.subscribe("a", A, 10)
    assert d.got("a") == ["x", "y", "z"]


def test_as_many_go_through_as_there_is_memory_for() -> None:
    d = full()
    d.subscribe("b", B, 10)
    for name in ("x", "y", "z"):
        ask(d, name, B)
    first = d.requests - 2
    assert d.counter("blocked_sends", B) == 3
    for number in range(3):
        effects = d.handle(Ack(d.connections["b"], "b", INDIVIDUAL, f"m{number + 1}"))
        assert answers(effects) == [(first + number, "")]
    assert d.counter("blocked_sends", B) == 0


def test_nothing_else_of_a_confirmed_sender_waits() -> None:
    d = full()
    d.subscribe("b", B, 10, connection=1)
    ask(d, "x")
    request = d.requests
    assert answers(d.handle(Ack(1, "b", INDIVIDUAL, "m1", request=99))) == [(99, ""), (request, "")]


def test_an_unconfirmed_sender_stops_its_connection_until_all_went_through() -> None:
    d = full()
    d.connect(2)
    d.subscribe("b", B, 10)
    assert throttled(tell(d, "x", B, 2)) == [(2, True)]
    assert throttled(tell(d, "y", B, 2)) == []
    assert throttled(d.handle(Ack(d.connections["b"], "b", INDIVIDUAL, "m1"))) == []
    assert throttled(d.handle(Ack(d.connections["b"], "b", INDIVIDUAL, "m2"))) == [(2, False)]
    assert d.counter("size", B) == 10


@pytest.mark.parametrize("credit_bytes", [0, 100])
def test_who_asks_for_answers_and_waits_for_none_is_stopped_in_the_end(credit_bytes: int) -> None:
    d = full()
    d.subscribe("b", B, 10)
    heard = []
    for number in range(CONFIRMED_MAX + 1):
        assert not heard, "until then it goes on"
        event = Send(1, message(f"{number}"), request=d.request(), credit_bytes=credit_bytes)
        heard = throttled(d.handle(event))
    assert heard == [(1, True)]
    d.broker.check()
    d.drop("b")
    d.handle(Purge(B))
    d.handle(Purge(A))
    d.handle(Disconnect(1))
    d.broker.check()


def test_a_sender_that_goes_leaves_its_sends_behind() -> None:
    d = full()
    d.connect(2)
    d.subscribe("b", B, 10)
    d.handle(Send(2, message("x"), request=7))
    d.handle(Send(2, message("y")))
    assert throttled(d.handle(Disconnect(2))) == []
    d.effects.clear()
    for number in (1, 2):
        d.handle(Ack(d.connections["b"], "b", INDIVIDUAL, f"m{number}"))
    assert throttled(d.effects) == [(2, False)], "the node knows that there is nobody to be started again"
    assert d.counter("size", A) == 2


def test_no_space_at_once() -> None:
    entry = DestinationPolicy("A", expire_period_ms=0, send_fail_if_no_space=True)
    d = full("G3", entry)
    refused = [e for e in ask(d, "x") if isinstance(e, Refused)]
    assert [e.code for e in refused] == ["no-space"]
    assert refused[0].text == (
        "javax.jms.ResourceAllocationException: no memory for a message to queue://A (20480 of 20480 bytes are used); "
        "consume or purge what is there, or raise the limit"
    )
    assert answers(tell(d, "y")) == [(0, "no-space")]
    d.handle(Send(1, message("z"), network=True, request=d.request()))
    d.purge(B)
    assert d.counter("size", A) == 1  # the bridge's; what was refused is not enqueued later


@pytest.mark.parametrize("after_ms", [1, 3000])
def test_no_space_after_a_time(after_ms: int) -> None:
    entry = DestinationPolicy("A", expire_period_ms=0, send_fail_if_no_space_after_ms=after_ms)
    d = full("G2", entry)
    ask(d, "x")
    assert d.broker.next_due_ns() == d.mono_ns + after_ms * 1_000_000
    tell(d, "y")
    d.effects.clear()
    d.advance(after_ms - 1)
    assert answers(d.effects) == []
    d.advance(1)
    assert answers(d.effects) == [(d.requests, "no-space"), (0, "no-space")]
    assert throttled(d.effects) == [(1, False)]
    assert d.broker.next_due_ns() is None
    d.purge(B)
    assert d.counter("size", A) == 0


def test_what_went_through_in_time_does_not_fail_later() -> None:
    entry = DestinationPolicy("A", expire_period_ms=0, send_fail_if_no_space_after_ms=100)
    d = full("G2", entry)
    ask(d, "x")
    d.purge(B)
    assert d.broker.next_due_ns() is None
    d.effects.clear()
    d.advance(1000)
    assert answers(d.effects) == []


def test_on_topics_the_time_means_nothing() -> None:
    d = full("G2", DestinationPolicy(">", expire_period_ms=0, send_fail_if_no_space_after_ms=100))
    ask(d, "x", T)
    assert d.broker.next_due_ns() is None


def test_a_message_that_expires_while_its_send_waits_is_expired() -> None:
    d = full()
    ask(d, "x", expiration_ms=d.wall_ms + 50)
    d.advance(51)
    d.purge(B)
    assert d.counter("size", A) == 0
    assert d.counter("size", DLQ) == 1


def test_without_flow_control_nobody_waits() -> None:
    d = full("G3", DestinationPolicy("A", expire_period_ms=0, producer_flow_control=False))
    assert answers(ask(d, "x")) == [(d.requests, "")]
    assert answers(ask(d, "y", B)) == []


def test_a_delayed_message_does_not_wait() -> None:
    d = full()
    assert answers(ask(d, "x", delay_ms=1000)) == [(d.requests, "")]


def test_a_send_whose_transaction_has_ended_is_refused() -> None:
    d = full()
    d.handle(Begin(1, "t", request=90))
    d.handle(Send(1, message("x"), transaction="t", request=91))
    # Not by a commit: that would leave a part of the transaction behind.
    assert answers(d.handle(Commit(1, "t", request=92))) == [(92, "no-space")]
    d.handle(Rollback(1, "t", request=93))
    d.effects.clear()
    d.purge(B)
    assert answers(d.effects) == [(91, "unknown-transaction")]
    assert d.counter("size", A) == 0


def test_two_waiting_sends_with_one_id_make_one_message() -> None:
    d = full()
    ask(d, "x")
    ask(d, "x")
    d.effects.clear()
    d.purge(B)
    assert [code for _, code in answers(d.effects)] == ["", "duplicate-id"]
    assert d.counter("size", A) == 1


def test_g1_a_backlog_alone_never_blocks_producers() -> None:
    d = Driver(config_of(generation={"memory": "G1"}, memory_limit_bytes=10 * S))
    for _ in range(100):
        d.send(B, size=1024)  # the driver insists that it is accepted
    assert d.counters("size", "memory_percent", destination=B) == (100, 70)


def test_consumers_of_messages_in_memory_go_on_while_producers_wait() -> None:
    d = full()
    ask(d, "x", B)
    d.subscribe("b", B, 3)
    for number in range(1, 11):
        d.handle(Ack(d.connections["b"], "b", INDIVIDUAL, f"m{number}"))
    assert d.got("b") == [f"m{n}" for n in range(1, 11)] + ["x"]


# -- windows of producers


def offer(d: Driver, name: str, destination: str = A, *, size: int = 10, **fields: str) -> list[Effect]:
    """An unconfirmed send of a producer with a window."""
    return d.handle(Send(1, message(name, destination), producer="p", credit_bytes=size, **fields))


def credited(effects: list[Effect]) -> list[tuple[int, str, int]]:
    return [(e.connection, e.producer, e.size_bytes) for e in effects if isinstance(e, Credited)]


@pytest.mark.parametrize("generation", ["fair", "G3"])
def test_a_window_is_free_again_when_the_message_went_through(generation: str) -> None:
    d = full(generation, limit=100 * S)
    assert credited(offer(d, "x", size=7)) == [(1, "p", 7)]
    assert credited(tell(d, "y")) == []
    d.begin()
    assert credited(offer(d, "z", size=8, transaction="t")) == [(1, "p", 8)]


def test_who_has_a_window_waits_without_stopping_its_connection() -> None:
    d = full()
    d.subscribe("b", B, 10)
    for name in ("x", "y"):
        effects = offer(d, name)
        assert (credited(effects), throttled(effects)) == ([], [])
    d.effects.clear()
    d.handle(Ack(d.connections["b"], "b", INDIVIDUAL, "m1"))
    assert credited(d.effects) == [(1, "p", 10)]
    d.handle(Ack(d.connections["b"], "b", INDIVIDUAL, "m2"))
    assert credited(d.effects) == [(1, "p", 10)] * 2
    assert throttled(d.effects) == []


@pytest.mark.parametrize("entry", [{"send_fail_if_no_space": True}, {"send_fail_if_no_space_after_ms": 5}])
def test_what_is_refused_takes_nothing_of_a_window(entry: dict[str, int]) -> None:
    d = full("G3", DestinationPolicy("A", expire_period_ms=0, **entry))  # type: ignore[arg-type]  # options of both kinds
    offer(d, "x")
    d.advance(5)
    assert credited(d.effects) == [(1, "p", 10)]
    assert (0, "no-space") in answers(d.effects)
    assert answers(offer(d, "y", "queue://")) == [(0, "bad-destination")]
    assert len(credited(d.effects)) == 2


def test_a_window_and_the_disk() -> None:
    """Who waits for the disk stops its connection in ActiveMQ, window or not."""
    entry = DestinationPolicy(">", expire_period_ms=0)
    d = Driver(config_of(generation={"memory": "G3"}, destinations=[entry], store_limit_bytes=1, persistent=True))
    assert credited(offer(d, "x")) == [(1, "p", 10)]
    assert (throttled(offer(d, "y")), credited(d.effects)) == ([(1, True)], [(1, "p", 10)])
    d.purge(A)
    assert (throttled(d.effects), len(credited(d.effects))) == ([(1, True), (1, False)], 2)


def test_who_waits_for_the_disk_does_not_stand_behind_who_waits_for_memory() -> None:
    """Memory lets delayed messages pass; so one that waits for the store goes on when that has room."""
    d = full(store_limit_bytes=11 * S, persistent=True)
    aside = "queue://aside"
    ask(d, "stored", aside, delay_ms=1000)
    ask(d, "for memory")
    ask(d, "for the store", delay_ms=1000)
    ask(d, "behind it", delay_ms=1000)
    flow = d.broker.region().flow
    assert flow is not None
    assert flow.count(A) == 3
    d.effects.clear()
    d.handle(RemoveQueue(aside))
    assert answers(d.effects) == [(d.requests - 1, "")]
    assert d.counters("blocked_sends", "scheduled", destination=A) == (2, 1)


# -- senders that come back


def numbered(d: Driver, number: int, destination: str = A, connection: int = 2) -> list[Effect]:
    """A confirmed send that says which one of its producer's it is; the connection is the client's latest."""
    sent = message(f"ID:p:{number}", destination)
    return d.handle(Send(connection, sent, request=d.request(), producer="ID:p", number=number))


def come_back(d: Driver) -> None:
    """Number 1 waits, number 2 went through elsewhere; the client is cut off, comes back, and repeats the first."""
    d.connect(2)
    assert answers(numbered(d, 1)) == []
    assert answers(numbered(d, 2, "queue://free")) == [(d.requests, "")]
    d.handle(Disconnect(2))
    d.connect(3)
    assert answers(numbered(d, 1, connection=3)) == []
    d.effects.clear()


FREE = DestinationPolicy("free", expire_period_ms=0, producer_flow_control=False)


def test_what_is_repeated_while_the_first_one_waits_goes_through_once() -> None:
    d = full("G3", FREE)
    d.subscribe("b", B, 10)
    d.subscribe("a", A, 10)
    come_back(d)
    again = d.requests
    for number in (1, 2):
        d.handle(Ack(d.connections["b"], "b", INDIVIDUAL, f"m{number}"))
    # Consumed, so that no id on the queue gives the repetition away.
    d.handle(Ack(d.connections["a"], "a", INDIVIDUAL, "ID:p:1"))
    assert d.got("a") == ["ID:p:1"]
    assert (again, "") in answers(d.effects)
    assert answers(numbered(d, 1, connection=3)) == [(d.requests, "")]
    assert d.got("a") == ["ID:p:1"]


def test_what_failed_when_its_sender_was_gone_has_not_been_taken() -> None:
    late = DestinationPolicy("A", expire_period_ms=0, send_fail_if_no_space_after_ms=100)
    d = full("G2", FREE, late)
    d.connect(2)
    numbered(d, 1)
    numbered(d, 2, "queue://free")
    d.handle(Disconnect(2))
    d.advance(101)
    d.purge(B)
    d.connect(3)
    assert answers(numbered(d, 1, connection=3)) == [(d.requests, "")]
    assert d.counter("size", A) == 1


def test_a_copy_for_each_name_or_for_none() -> None:
    """One of the names that a message is sent to is full: the others get nothing before it has room."""
    own = DestinationPolicy("B", expire_period_ms=0, high_water_percent=100, memory_limit_bytes=10 * S)
    d = full("G3", own, limit=100 * S)
    d.subscribe("b", B, 10)
    assert answers(ask(d, "x", f"{A},{B}")) == []
    assert d.counter("size", A) == 0
    assert answers(d.handle(Ack(d.connections["b"], "b", INDIVIDUAL, "m1"))) == [(d.requests, "")]
    assert (d.counter("size", A), d.counter("size", B)) == (1, 10)
