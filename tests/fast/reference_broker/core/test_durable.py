"""Durable subscriptions."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.events import (
    EXPIRED,
    INDIVIDUAL,
    POISON,
    Ack,
    Begin,
    Commit,
    Disconnect,
    RemoveSubscription,
    Rollback,
    Subscribe,
)
from brokerproof.reference_broker.core.message import Message
from tests.fast.reference_broker.core.driver import DLQ, Driver, Q, T, config_of

ME = 50  # the connection of the durable subscriber; its client id is client-50


def durable_driver() -> Driver:
    d = Driver(config_of(persistent=True))  # so that every event is compared with its journal, too
    d.connect(ME)
    return d


def take_up(
    d: Driver,
    consumer: str = "d",
    destination: str = T,
    prefetch: int = 10,
    *,
    name: str = "sub",
    connection: int = ME,
    no_local: bool = False,
    selector: str = "",
) -> str:
    d.connections[consumer] = connection
    event = Subscribe(
        connection,
        consumer,
        destination,
        prefetch,
        durable=name,
        no_local=no_local,
        selector=selector,
        request=d.request(),
    )
    return d.ask(event)


def end(d: Driver, name: str = "sub", connection: int = ME) -> str:
    return d.ask(RemoveSubscription(connection, name, request=d.request()))


def come_back(d: Driver) -> None:
    """The connection was lost; the client connects again."""
    d.handle(Disconnect(ME))
    d.connect(ME)


def marks(d: Driver, consumer: str) -> list[int]:
    return [dispatch.redelivery_count for dispatch in d.dispatches if dispatch.consumer == consumer]


def test_it_collects_while_nobody_is_there() -> None:
    d = durable_driver()
    d.send(T, "before")
    assert take_up(d) == ""
    d.send(T, "m1")
    d.ack("m1", "d")
    d.leave("d")
    d.send(T, "m2")
    d.send(T, "m3", persistent=False)
    assert take_up(d, "again") == ""
    d.send(T, "m4")
    assert d.got("d") == ["m1"]
    assert d.got("again") == ["m2", "m3", "m4"]
    assert marks(d, "again") == [0, 0, 0]
    assert d.counters("enqueued", "dequeued", "consumers", destination=T) == (5, 1, 1)
    assert d.broker.durable_subscriptions() == {"client-50:sub": {"active": 1, "pending": 0, "dispatched": 3}}


def test_what_was_in_flight_comes_first_and_is_marked() -> None:
    d = durable_driver()
    take_up(d, prefetch=2)
    for _ in range(4):
        d.send(T)
    d.transmit()
    come_back(d)
    assert d.counters("in_flight", "dispatched", destination=T) == (0, 2)
    d.send(T)
    take_up(d, "again")
    assert d.got("again") == ["m1", "m2", "m3", "m4", "m5"]
    assert marks(d, "again") == [1, 1, 0, 0, 0]
    d.leave("again", 1)  # its application saw the first only
    take_up(d, "third", prefetch=3)
    assert d.got("third") == ["m1", "m2", "m3"]
    assert marks(d, "third") == [2, 1, 0]


def test_gaps_of_single_acknowledgements_stay_settled() -> None:
    d = durable_driver()
    take_up(d)
    for _ in range(4):
        d.send(T)
    d.ack("m3", "d", INDIVIDUAL)
    d.ack("m1", "d", INDIVIDUAL)
    d.leave("d")
    take_up(d, "again")
    assert d.got("again") == ["m2", "m4"]


def test_marks_are_the_subscriptions_own() -> None:
    d = durable_driver()
    take_up(d, "a", name="a")
    take_up(d, "b", name="b")
    d.subscribe("plain", T)
    d.send(T)
    d.leave("a")
    d.leave("b", -1)
    take_up(d, "a2", name="a")
    take_up(d, "b2", name="b")
    assert marks(d, "a2") == [1]
    assert marks(d, "b2") == [0]


def test_one_consumer_at_a_time() -> None:
    d = durable_driver()
    take_up(d)
    assert take_up(d, "other") == "durable-in-use"
    assert end(d) == "durable-in-use"
    d.connect(51)
    assert take_up(d, "other", connection=51) == ""  # another client: another subscription
    d.leave("d")
    assert take_up(d, "again") == ""


def test_ending_one() -> None:
    d = durable_driver()
    assert end(d) == "unknown-subscription"
    assert end(d, connection=77) == "unknown-connection"
    take_up(d)
    d.leave("d")
    d.send(T, "m1", ttl_ms=1000)
    assert end(d) == ""
    assert end(d) == "unknown-subscription"
    d.send(T, "m1")  # its id is free again
    take_up(d, "again")
    assert d.got("again") == []
    assert d.broker.broker_counters()["durable_subscriptions"] == 1


@pytest.mark.parametrize(
    "change", [{"destination": "topic://other"}, {"selector": "kind = 'a'"}, {"no_local": True}], ids=str
)
def test_other_options_under_the_old_name_are_another_subscription(change: dict[str, object]) -> None:
    d = durable_driver()
    take_up(d)
    d.leave("d")
    d.send(T, "old")
    assert take_up(d, "again", **change) == ""  # type: ignore[arg-type]
    assert d.got("again") == []
    assert d.broker.broker_counters()["durable_subscriptions"] == 1


@pytest.mark.parametrize("destination", [Q, "temp-topic://x", f"{T},{Q}"])
def test_only_topics(destination: str) -> None:
    d = durable_driver()
    assert take_up(d, destination=destination) == "bad-destination"
    assert d.broker.destinations() == []


def test_a_client_id_is_needed() -> None:
    from brokerproof.reference_broker.core.events import Connect

    d = durable_driver()
    d.handle(Connect(60, ""))
    assert take_up(d, connection=60) == "no-client-id"


def test_expired_backlogs_are_found_by_the_sweep_when_nobody_is_there() -> None:
    d = durable_driver()
    for name in ("a", "b", "c"):
        take_up(d, name, name=name)
    d.leave("a")
    d.leave("b")
    d.send(T, "m1", ttl_ms=50)
    d.send(T, "m2")
    d.send(T, "m3", ttl_ms=500_000)
    d.ack("m3", "c")
    d.advance(60_000)
    assert d.counters("expired", "dequeued", "enqueued", destination=T) == (2, 5, 3)
    assert [dead_letter.message_id for dead_letter in d.dead_letters()] == ["m1"]  # one per publication
    take_up(d, "a2", name="a")
    assert d.got("a2") == ["m2", "m3"]


def test_what_comes_back_expires_too() -> None:
    d = durable_driver()
    take_up(d)
    d.send(T, ttl_ms=50)
    d.transmit()
    d.leave("d")
    d.advance(60_000)
    assert d.counters("expired", "in_flight", destination=T) == (1, 0)
    assert d.broker.next_due_ns() is None


def test_the_backlog_of_an_active_one_is_looked_at_when_its_turn_comes() -> None:
    d = durable_driver()
    take_up(d, "a", prefetch=1, name="a")
    take_up(d, "b", prefetch=1, name="b")
    d.send(T)
    d.send(T, ttl_ms=50)
    d.send(T)
    d.advance(60_000)
    assert d.counter("expired", T) == 0
    d.ack("m1", "a")
    d.ack("m1", "b")
    assert d.counter("expired", T) == 2
    assert d.got("a") == d.got("b") == ["m1", "m3"]


def test_the_backlog_of_an_active_one_is_swept_if_the_broker_is_told_to() -> None:
    d = Driver(config_of(enable_message_expiration_on_active_durable_subs=True))
    d.connect(ME)
    take_up(d, "a", prefetch=1)
    d.send(T)
    d.send(T, ttl_ms=50)
    d.send(T, ttl_ms=500_000)
    d.advance(60_000)
    assert d.counter("expired", T) == 1
    come_back(d)
    d.advance(600_000)
    assert d.counter("expired", T) == 2
    take_up(d, "again")
    assert d.got("again") == ["m1"]
    d.send(T, ttl_ms=50)
    d.ack("m1", "again")
    assert d.broker.next_due_ns() is None  # what is in flight is nobody's to sweep


def test_a_clients_expired_ack_and_poison_make_one_dead_letter_each() -> None:
    d = durable_driver()
    take_up(d, "a", name="a")
    take_up(d, "b", name="b")
    d.send(T, ttl_ms=1000)
    d.send(T)
    for consumer in ("a", "b"):
        d.ack("m1", consumer, EXPIRED)
        d.ack("m2", consumer, POISON)
    assert d.counters("expired", "dequeued", "in_flight", destination=T) == (2, 4, -4)
    d.transmit()
    assert d.counter("in_flight", T) == 0
    dead_letters = d.dead_letters()
    assert [dead_letter.message_id for dead_letter in dead_letters] == ["m1", "m2"]
    assert [dead_letter.original_destination for dead_letter in dead_letters] == [T, T]
    assert "dlqDeliveryFailureCause" in dead_letters[0].properties


def test_a_delayed_message_reaches_those_who_were_subscribed_when_it_was_sent() -> None:
    d = durable_driver()
    take_up(d)
    d.leave("d")
    d.send(T, "m1", delay_ms=1000)
    take_up(d, "again")
    take_up(d, "new", name="new")
    d.advance(1000)
    assert (d.got("again"), d.got("new")) == (["m1"], [])
    d.leave("again")
    d.send(T, "m2", delay_ms=1000)
    end(d)
    take_up(d, "another")
    d.advance(1000)
    assert d.got("another") == []


def test_a_wildcard_collects_from_topics_that_come_later() -> None:
    d = durable_driver()
    take_up(d, "d", "topic://A.>,topic://B", 2)
    d.leave("d")
    d.send("topic://A.one", "m1")
    d.send("topic://B", "m2")
    d.send("topic://C", "m3")
    d.send("topic://A.two", "m4")
    take_up(d, "again", "topic://A.>,topic://B", 2)
    d.send("topic://A.three", "m5")
    assert d.got("again") == ["m2", "m1"]
    d.ack("m1", "again")
    assert sorted(d.got("again")[2:]) == ["m4", "m5"]


def test_a_departure_charges_each_topic_what_it_dispatched() -> None:
    """ActiveMQ charges every topic of a wildcard the whole list (N4)."""
    d = durable_driver()
    take_up(d, "d", "topic://foo.>")
    for _ in range(5):
        d.send("topic://foo.a")
    d.send("topic://foo.b")
    d.transmit()
    d.leave("d")
    assert [d.counter("in_flight", name) for name in ("topic://foo.a", "topic://foo.b")] == [0, 0]


def test_no_local() -> None:
    d = durable_driver()
    take_up(d, no_local=True)
    d.subscribe("plain", T, connection=ME)

    def send_from(connection: int, message_id: str, delay_ms: int = 0) -> None:
        from brokerproof.reference_broker.core.events import Send

        assert d.ask(Send(connection, Message(message_id, T, b"", delay_ms=delay_ms), request=d.request())) == ""

    send_from(ME, "mine")
    send_from(1, "theirs")
    send_from(ME, "late", 10)
    come_back(d)
    send_from(ME, "mine again")
    d.advance(10)
    take_up(d, "again", no_local=True)
    assert d.got("d") == ["theirs"]
    assert d.got("plain") == ["mine", "theirs"]
    assert d.got("again") == ["theirs"]


def test_a_backlog_costs_no_memory() -> None:
    d = Driver(config_of(memory_limit_bytes=2048))
    d.connect(ME)
    take_up(d)
    for _ in range(10):
        d.send(T)
    assert len(d.got("d")) == 3  # two within the limit, one from its reserve
    d.leave("d")
    assert d.counters("memory_bytes", destination=T) == (0,)
    take_up(d, "again")
    while len(d.got("again")) < 10:
        d.ack(d.got("again")[-1], "again")
    assert d.got("again") == [f"m{number}" for number in range(1, 11)]


def test_a_dead_letter_that_matches_is_not_lost() -> None:
    d = durable_driver()
    take_up(d)
    d.send(T, ttl_ms=1)
    d.leave("d")
    d.subscribe("dead_letters", DLQ)
    d.advance(40_000)
    assert d.got("dead_letters") == ["m1"]


def test_a_copy_has_everything() -> None:
    message = Message("m", T, b"x", properties={"a": 1})
    for number, name in enumerate(Message.__slots__):
        if name not in ("message_id", "destination"):
            setattr(message, name, number + 100)
    copy = message.copy_to("topic://other")
    assert copy.destination == "topic://other"
    for name in Message.__slots__:
        if name != "destination":
            assert getattr(copy, name) == getattr(message, name), name


@pytest.mark.parametrize("ending", [Commit, Rollback])
def test_a_transaction_decides_about_what_its_consumer_left(ending: type[Begin]) -> None:
    d = durable_driver()
    take_up(d)
    for _ in range(4):
        d.send(T)
    d.handle(Begin(ME, "tx"))
    d.handle(Ack(ME, "d", INDIVIDUAL, "m2", transaction="tx"))
    d.handle(Ack(ME, "d", INDIVIDUAL, "m4", transaction="tx"))
    d.leave("d")
    take_up(d, "again", prefetch=1)
    assert d.got("again") == ["m1"]
    assert d.ask(ending(ME, "tx", request=d.request())) == ""
    for message_id in ("m1", "m2", "m3", "m4"):
        d.ack(message_id, "again")
    assert d.got("again") == (["m1", "m3"] if ending is Commit else ["m1", "m2", "m3", "m4"])
    assert d.counter("dequeued", T) == 4


def test_a_transaction_and_a_subscription_that_ended() -> None:
    d = durable_driver()
    take_up(d)
    d.send(T)
    d.handle(Begin(ME, "tx"))
    d.handle(Ack(ME, "d", INDIVIDUAL, "m1", transaction="tx"))
    d.leave("d")
    assert end(d) == ""
    assert d.ask(Commit(ME, "tx", request=d.request())) == ""
    assert d.counters("dequeued", "in_flight", destination=T) == (0, -1)  # not written yet


def test_a_rollback_wakes_the_consumer_that_came_meanwhile() -> None:
    d = durable_driver()
    take_up(d)
    d.send(T)
    d.handle(Begin(ME, "tx"))
    d.handle(Ack(ME, "d", INDIVIDUAL, "m1", transaction="tx"))
    d.leave("d")
    take_up(d, "again")
    assert d.got("again") == []
    assert d.ask(Rollback(ME, "tx", request=d.request())) == ""
    assert d.got("again") == ["m1"]
    assert marks(d, "again") == [1]
