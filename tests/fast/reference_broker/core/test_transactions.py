"""Local transactions in the core: what is held, what each end carries out, and who may ask for what."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.effects import Accepted, Dispatch, Refused
from brokerproof.reference_broker.core.events import (
    DELIVERED,
    EXPIRED,
    INDIVIDUAL,
    POISON,
    REDELIVERED,
    STANDARD,
    Begin,
    Commit,
    Disconnect,
    Send,
)
from brokerproof.reference_broker.core.message import Message
from tests.fast.reference_broker.core.driver import DLQ, Driver, Q, T, config_of


def filled(count: int = 5, prefetch: int = 10, *, sync: bool = True) -> Driver:
    """A consumer ``c`` on connection 100 that holds messages, and an open transaction ``t`` of its connection."""
    d = Driver()
    for _ in range(count):
        d.send()
    d.subscribe(prefetch=prefetch, sync=sync)
    assert d.begin(connection=d.connections["c"]) == ""
    return d


# -- sends


@pytest.mark.parametrize("destination", [Q, T])
def test_sends_are_invisible_until_the_commit_and_keep_their_order(destination: str) -> None:
    d = Driver()
    d.subscribe("c", destination)
    d.begin()
    for _ in range(3):
        d.send(destination, transaction="t")
    d.send(destination)
    assert d.got() == ["m4"]
    assert d.counter("enqueued", destination) == 1
    assert d.commit() == ""
    assert d.got() == ["m4", "m1", "m2", "m3"]
    assert d.counter("enqueued", destination) == 4


def test_a_rollback_forgets_the_sends() -> None:
    d = Driver()
    d.subscribe()
    d.begin()
    d.send(transaction="t")
    assert d.rollback() == ""
    assert d.got() == []
    assert d.counters("enqueued", "size", "scheduled") == (0, 0, 0)
    d.send(message_id="m1")  # its id is free again
    assert d.got() == ["m1"]


def test_what_is_sent_in_a_transaction_is_numbered_at_the_send() -> None:
    d = Driver()
    d.begin()
    held = d.send(transaction="t")
    d.advance(5000)
    assert held.sequence == 1
    assert d.send().sequence == 2


@pytest.mark.parametrize(("waited_ms", "left_ms"), [(0, 1000), (400, 600), (999, 1), (1000, 0), (5000, 0)])
def test_a_delay_counts_from_the_send_not_from_the_commit(waited_ms: int, left_ms: int) -> None:
    d = Driver()
    d.subscribe()
    d.begin()
    d.send(delay_ms=1000, transaction="t")
    d.advance(waited_ms)
    d.commit()
    assert d.counter("scheduled") == (1 if left_ms else 0)
    if left_ms:
        d.advance(left_ms - 1)
        assert d.got() == []
        d.advance(1)
    assert d.got() == ["m1"]


def test_a_delivery_time_is_turned_into_a_delay_at_the_send() -> None:
    d = Driver()
    d.subscribe()
    d.begin()
    d.send(deliver_at_ms=d.wall_ms + 1000, transaction="t")
    d.step_wall(3_600_000)
    d.commit()
    d.advance(999)
    assert d.got() == []
    d.advance(1)
    assert d.got() == ["m1"]


def test_a_queue_takes_what_expired_before_the_commit_and_finds_it_later() -> None:
    d = Driver()
    d.begin()
    d.send(ttl_ms=100, transaction="t")
    d.advance(200)
    d.commit()
    assert d.counters("enqueued", "size", "expired") == (1, 1, 0)
    d.subscribe()
    assert d.got() == []
    assert d.counters("size", "expired", "dequeued") == (0, 1, 1)
    assert d.counter("enqueued", DLQ) == 1


def test_a_topic_looks_at_the_expiration_at_the_commit() -> None:
    d = Driver()
    d.subscribe("c", T)
    d.begin()
    d.send(T, ttl_ms=100, transaction="t")
    d.advance(200)
    d.commit()
    assert d.got() == []
    assert d.counters("enqueued", "expired", destination=T) == (0, 1)
    assert d.counter("enqueued", DLQ) == 1


def test_one_id_cannot_be_sent_twice_in_a_transaction() -> None:
    d = Driver()
    d.begin()
    d.send(message_id="x", transaction="t")
    again = Send(1, Message("x", Q, b""), transaction="t", request=d.request())
    assert d.ask(again) == "duplicate-id"
    d.send(T, message_id="x", transaction="t")  # elsewhere it may
    d.subscribe()
    d.commit()
    assert d.got() == ["x"]


def test_a_commit_that_cannot_be_carried_out_whole_changes_nothing() -> None:
    d = Driver()
    d.subscribe("c", "queue://other")
    d.begin()
    d.send("queue://other", transaction="t")
    d.send(Q, message_id="x", transaction="t")
    d.send(Q, message_id="x")  # takes the id
    assert d.commit() == "duplicate-id"
    assert d.got() == []
    assert d.counter("enqueued", "queue://other") == 0
    assert d.commit() == "duplicate-id"  # it is still open
    assert d.rollback() == ""
    assert d.counter("enqueued", Q) == 1


# -- acknowledgements


@pytest.mark.parametrize(("kind", "settled"), [(STANDARD, 3), (INDIVIDUAL, 1)])
def test_an_acknowledgement_changes_nothing_before_the_commit(kind: int, settled: int) -> None:
    d = filled()
    connection = d.connections["c"]
    before = d.counters("size", "in_flight", "enqueued", "dequeued", "dispatched")
    assert d.ack("m3", kind=kind, transaction="t") == ""
    assert d.counters("size", "in_flight", "enqueued", "dequeued", "dispatched") == before
    assert d.commit(connection=connection) == ""
    assert d.counters("size", "in_flight", "dequeued") == (5 - settled, 5 - settled, settled)


@pytest.mark.parametrize("kind", [STANDARD, INDIVIDUAL])
def test_after_a_rollback_the_client_still_holds_its_messages(kind: int) -> None:
    d = filled()
    before = d.counters("size", "in_flight", "dequeued", "dispatched")
    d.ack("m3", kind=kind, transaction="t")
    assert d.rollback(connection=d.connections["c"]) == ""
    assert d.counters("size", "in_flight", "dequeued", "dispatched") == before
    assert d.got() == ["m1", "m2", "m3", "m4", "m5"]  # the broker delivers nothing again
    assert d.ack("m3") == ""
    assert d.counters("size", "in_flight", "dequeued") == (2, 2, 3)


def test_a_range_in_a_transaction_widens_nothing_by_itself() -> None:
    d = filled(count=6, prefetch=2)
    d.ack("m2", transaction="t")
    assert d.got() == ["m1", "m2"]
    d.ack("m2", kind=DELIVERED, transaction="t")  # acts at once
    assert d.got() == ["m1", "m2", "m3", "m4"]
    d.commit(connection=d.connections["c"])
    assert d.got() == ["m1", "m2", "m3", "m4"]  # two went, and so did the two that they had widened
    d.ack("m4")
    assert d.got() == ["m1", "m2", "m3", "m4", "m5", "m6"]


def test_single_acknowledgements_in_a_transaction_may_exceed_the_prefetch() -> None:
    d = filled(count=6, prefetch=1)
    for number in range(1, 5):
        assert d.ack(f"m{number}", kind=INDIVIDUAL, transaction="t") == ""
    assert d.got() == ["m1", "m2", "m3", "m4", "m5"]
    d.commit(connection=d.connections["c"])
    assert d.got() == ["m1", "m2", "m3", "m4", "m5"]
    assert d.counters("size", "in_flight", "dequeued") == (2, 1, 4)
    d.ack("m5")
    assert d.got()[-1] == "m6"


def test_rollbacks_do_not_widen_the_window_for_ever() -> None:
    d = filled(count=20, prefetch=2)
    connection = d.connections["c"]
    d.rollback(connection=connection)
    for _ in range(5):
        d.begin(connection=connection)
        for number in (1, 2):
            d.ack(f"m{number}", kind=INDIVIDUAL, transaction="t")
        d.rollback(connection=connection)
    assert len(d.got()) == 4  # two of the window, two for those that were acknowledged once
    for number in (1, 2, 3, 4):
        d.ack(f"m{number}", kind=INDIVIDUAL)
    assert len(d.got()) == 6


def test_poison_cannot_be_part_of_a_transaction() -> None:
    d = filled()
    assert d.ack("m1", kind=POISON, transaction="t") == "poison-in-transaction"
    assert d.counters("size", "in_flight") == (5, 5)
    assert d.counter("enqueued", DLQ) == 0
    assert d.ack("m1", kind=POISON) == ""
    assert d.counter("enqueued", DLQ) == 1


def taking(*, leaves: bool) -> Driver:
    """A broker that takes POISON in a transaction; its consumer has poisoned ``m1`` of two, and may have left since."""
    d = Driver(config_of(transacted_nacks=True))
    for _ in range(2):
        d.send()
    d.subscribe()
    d.begin(connection=d.connections["c"])
    assert d.ack("m1", kind=POISON, transaction="t") == ""
    if leaves:
        d.leave()
    return d


@pytest.mark.parametrize("leaves", [False, True])
def test_poison_waits_for_the_end_where_it_may_be_part_of_a_transaction(*, leaves: bool) -> None:
    d = taking(leaves=leaves)
    assert d.counter("enqueued", DLQ) == 0
    assert d.commit(connection=d.connections["c"]) == ""
    assert d.counter("enqueued", DLQ) == 1
    assert d.counters("size", "dequeued") == (1, 1)
    d = taking(leaves=leaves)
    assert d.rollback(connection=d.connections["c"]) == ""
    assert d.counter("enqueued", DLQ) == 0
    assert d.counters("size", "dequeued") == (2, 0)
    d.broker.check()


def test_an_expired_acknowledgement_acts_at_once() -> None:
    d = filled()
    assert d.ack("m1", kind=EXPIRED, first="m1", transaction="t") == ""
    assert d.counters("size", "expired") == (4, 1)
    assert d.ack("m2", kind=REDELIVERED, transaction="t") == ""
    d.rollback(connection=d.connections["c"])
    assert d.counters("size", "expired", "in_flight") == (4, 1, 4)


@pytest.mark.parametrize("kind", [STANDARD, INDIVIDUAL])
def test_what_a_transaction_holds_is_acknowledged_once(kind: int) -> None:
    d = filled()
    d.ack("m2", transaction="t")
    assert d.ack("m2", kind=kind, transaction="t") == ""
    assert d.ack("m3", transaction="t") == ""  # from the oldest on: only m3 is new
    d.commit(connection=d.connections["c"])
    assert d.counters("size", "in_flight", "dequeued") == (2, 2, 3)


@pytest.mark.parametrize("kind", [STANDARD, INDIVIDUAL, POISON, EXPIRED])
def test_no_other_acknowledgement_takes_what_a_transaction_holds(kind: int) -> None:
    d = filled()
    d.ack("m2", transaction="t")
    assert d.ack("m2", kind=kind) == ""
    assert d.counters("size", "in_flight", "dequeued", "expired") == (5, 5, 0, 0)
    d.rollback(connection=d.connections["c"])
    assert d.ack("m2") == ""
    assert d.counters("size", "in_flight", "dequeued") == (3, 3, 2)


def test_acknowledgements_are_carried_out_before_sends_and_both_before_any_dispatch() -> None:
    d = filled(count=3, prefetch=2)
    connection = d.connections["c"]
    d.subscribe("other", "queue://other", sync=True)
    d.send("queue://other", message_id="a", connection=connection, transaction="t")
    d.ack("m2", transaction="t")
    d.send(Q, message_id="b", connection=connection, transaction="t")
    effects = d.handle(Commit(connection, "t", request=9))
    assert isinstance(effects[0], Accepted)
    assert [e.message.message_id for e in effects if isinstance(e, Dispatch)] == ["m3", "a", "b"]


# -- a consumer or a connection that goes


@pytest.mark.parametrize("sync", [True, False])
def test_a_consumer_that_leaves_leaves_its_pending_acks_to_the_transaction(sync: bool) -> None:
    d = filled(sync=sync)
    connection = d.connections["c"]
    d.ack("m2", transaction="t")
    d.leave()
    d.transmit()
    assert d.counters("size", "in_flight", "dequeued") == (5, 0, 0)
    d.subscribe("b")
    assert d.got("b") == ["m3", "m4", "m5"]  # m1 and m2 are spoken for
    assert d.commit(connection=connection) == ""
    assert d.counters("size", "dequeued") == (3, 2)


def test_what_was_acknowledged_waits_again_after_a_rollback_marked_and_in_its_place() -> None:
    d = filled()
    connection = d.connections["c"]
    d.ack("m2", transaction="t")
    d.leave(last_delivered=2)
    d.rollback(connection=connection)
    d.subscribe("b")
    assert [(x.message.message_id, x.redelivery_count) for x in d.dispatches if x.consumer == "b"] == [
        ("m1", 1),
        ("m2", 1),
        ("m3", 0),
        ("m4", 0),
        ("m5", 0),
    ]


def test_a_connection_that_dies_rolls_back() -> None:
    d = filled()
    connection = d.connections["c"]
    d.ack("m2", transaction="t")
    d.send(message_id="x", connection=connection, transaction="t")
    d.drop()
    assert d.counters("size", "in_flight", "enqueued", "dequeued") == (5, 0, 5, 0)
    d.subscribe("b")
    assert d.got("b") == ["m1", "m2", "m3", "m4", "m5"]
    assert d.commit(connection=connection) == "unknown-connection"


def test_a_connection_that_dies_after_its_consumer_left_rolls_back_as_well() -> None:
    d = filled()
    d.ack("m2", transaction="t")
    d.leave()
    d.handle(Disconnect(d.connections["c"]))
    d.subscribe("b")
    assert d.got("b") == ["m1", "m2", "m3", "m4", "m5"]


def test_a_purge_takes_what_a_transaction_holds() -> None:
    d = filled()
    connection = d.connections["c"]
    d.ack("m2", transaction="t")
    d.purge()
    assert d.counters("size", "dequeued", "in_flight") == (0, 5, 5)
    d.commit(connection=connection)
    assert d.counters("size", "dequeued", "in_flight") == (0, 5, 3)
    d.leave()
    assert d.counters("size", "dequeued", "in_flight") == (0, 5, 0)


def test_a_purge_takes_what_a_queue_keeps_for_a_transaction() -> None:
    d = filled()
    d.ack("m2", transaction="t")
    d.leave()
    d.purge()
    assert d.counters("size", "dequeued", "in_flight") == (0, 5, 0)
    assert d.commit(connection=d.connections["c"]) == ""
    assert d.counters("size", "dequeued", "in_flight") == (0, 5, 0)


def test_on_a_topic_a_pending_ack_ends_with_its_consumer() -> None:
    d = Driver()
    d.subscribe("c", T, sync=True)
    connection = d.connections["c"]
    d.send(T)
    d.begin(connection=connection)
    d.ack("m1", transaction="t")
    d.leave()
    assert d.commit(connection=connection) == ""
    assert d.counters("in_flight", "dequeued", destination=T) == (0, 0)


# -- who may ask


def test_names_belong_to_their_connection() -> None:
    d = Driver()
    d.connect(2)
    assert d.begin("t", 1) == ""
    assert d.begin("t", 2) == ""
    assert d.begin("t", 1) == "duplicate-transaction"
    d.send(message_id="one", connection=1, transaction="t")
    assert d.rollback("t", 2) == ""
    assert d.commit("t", 2) == "unknown-transaction"
    assert d.commit("t", 1) == ""
    assert d.counter("size") == 1
    assert d.begin("t", 1) == ""  # a name may come back


@pytest.mark.parametrize("kind", ["send", "ack", "commit", "rollback"])
def test_without_a_transaction_of_that_name_nothing_happens(kind: str) -> None:
    d = filled()
    if kind == "send":
        code = d.ask(Send(1, Message("x", Q, b""), transaction="t", request=d.request()))
    elif kind == "ack":
        code = d.ack("m1", transaction="u")
    else:
        code = d.commit() if kind == "commit" else d.rollback()
    assert code == "unknown-transaction"
    assert d.counters("size", "in_flight", "enqueued") == (5, 5, 5)


def test_a_transaction_needs_a_connection() -> None:
    d = Driver()
    assert d.begin(connection=77) == "unknown-connection"
    effects = d.handle(Begin(77, "t", request=4))
    assert [e.text for e in effects if isinstance(e, Refused)] == ["connection 77 is not connected; connect first"]


@pytest.mark.parametrize("end", ["commit", "rollback", "loss"])
def test_what_a_client_has_refused_waits_aside_again_after_a_rollback(end: str) -> None:
    """A client with a fast clock discards a message, another takes it into a transaction and closes its consumer."""
    d = Driver(config_of(generation={"expiry": "documented"}))
    d.connect(7)
    d.subscribe("fast")
    d.send(ttl_ms=1000)
    d.subscribe("slow", connection=7)
    d.ack("m1", "fast", EXPIRED)
    assert d.got("slow") == ["m1"]
    d.begin(connection=7)
    d.ack("m1", "slow", transaction="t")
    d.leave("slow")
    if end == "loss":
        d.drop("slow")
    else:
        assert getattr(d, end)(connection=7) == ""
    d.subscribe("last")
    assert (d.got("fast"), d.got("last")) == (["m1"], [] if end == "commit" else ["m1"])


def test_an_expired_acknowledgement_of_what_the_transaction_has_already_moves_no_window() -> None:
    """INDIVIDUAL acknowledgements have widened the window until the end; another one of the same means nothing."""
    d = filled(4, prefetch=1)
    assert d.ack("m1", kind=INDIVIDUAL, transaction="t") == ""
    assert d.got() == ["m1", "m2"]
    assert d.ack("m1", kind=EXPIRED, transaction="t") == ""
    assert d.ack("m2", kind=INDIVIDUAL, transaction="t") == ""
    assert d.got() == ["m1", "m2", "m3"]
