"""The order of a live history: by time, causes before effects, numbers without gaps."""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Arrive, Connect, Consume, Event, Send, Subscribe
from brokerproof.conformance.worlds.live.ordering import put_in_order


def send(t0: int, t1: int, result: str = "ok", message: str = "p0/1") -> Send:
    return Send(0, t0, t1, "p0", result, message, "q0")  # type: ignore[arg-type]  # one of the literals


def arrive(t0: int, t1: int, message: str = "p0/1", consumer: str = "c0/1") -> Arrive:
    return Arrive(0, t0, t1, "c0", consumer, message, "q0")


def subscribe(t0: int, t1: int) -> Subscribe:
    return Subscribe(0, t0, t1, "c0", "ok", "c0/1", "q0", 1)


def test_by_time_and_numbered() -> None:
    late, early = Consume(9, 30, 30, "c0", "c0/1", "p0/1"), send(1, 5)
    assert [(event.seq, event.t1) for event in put_in_order([late, early])] == [(1, 5), (2, 30)]


def test_a_receipt_that_came_after_the_message_ends_where_the_message_arrived() -> None:
    sent, arrived = send(10, 50), arrive(18, 20)
    assert put_in_order([arrived, sent]) == [sent, arrived]
    assert (sent.t0, sent.t1) == (10, 20)


def test_of_several_arrivals_the_first_counts() -> None:
    sent = send(10, 50)
    put_in_order([sent, arrive(39, 40), arrive(19, 20), arrive(5, 6, message="p0/2")])
    assert sent.t1 == 20


def test_a_receipt_that_came_first_stays() -> None:
    sent, arrived = send(10, 15), arrive(18, 20)
    assert put_in_order([arrived, sent]) == [sent, arrived]
    assert sent.t1 == 15


def test_a_consumer_was_attached_when_something_arrived_at_it() -> None:
    attached, arrived = subscribe(10, 50), arrive(18, 20)
    assert put_in_order([arrived, attached]) == [attached, arrived]
    assert attached.t1 == 20


def test_a_host_was_connected_when_its_consumer_was_attached() -> None:
    connected, attached, arrived = Connect(0, 5, 50, "c0", "ok"), subscribe(10, 50), arrive(18, 20)
    assert put_in_order([connected, attached, arrived]) == [connected, attached, arrived]
    assert connected.t1 == 20


def test_a_consumer_of_an_earlier_connection_says_nothing_of_this_one() -> None:
    connected, earlier = Connect(0, 30, 50, "c0", "ok"), subscribe(10, 20)
    put_in_order([connected, earlier])
    assert (connected.t0, connected.t1) == (30, 50)


def test_what_was_taken_had_arrived() -> None:
    first, again = arrive(5, 30), arrive(40, 50)
    took, later = (Consume(0, 1, t1, "c0", "c0/1", "p0/1") for t1 in (20, 60))
    assert put_in_order([took, first, again, later]) == [first, took, again, later]
    assert (first.t1, again.t1) == (20, 50)


def test_so_it_had_when_its_agent_heard_of_it_later() -> None:
    arrived, took = arrive(30, 40), Consume(0, 10, 20, "c0", "c0/1", "p0/1")
    assert put_in_order([took, arrived]) == [arrived, took]
    assert (arrived.t0, arrived.t1) == (20, 20)


def test_an_unknown_result_stays_unknown() -> None:
    sent = send(10, 1000, "unknown")
    put_in_order([sent, arrive(18, 20)])
    assert (sent.result, sent.t1) == ("unknown", 20)


def test_an_interval_never_becomes_negative() -> None:
    """An arrival dated before the send began is a fault of some clock reading, not a reason for nonsense."""
    sent = send(10, 50)
    put_in_order([sent, arrive(3, 4)])
    assert (sent.t0, sent.t1) == (10, 10)


def test_nothing_is_lost() -> None:
    events: list[Event] = [arrive(2, 3), subscribe(1, 9), send(2, 8), Consume(0, 4, 4, "c0", "c0/1", "p0/1")]
    assert sorted(map(id, put_in_order(list(events)))) == sorted(map(id, events))
