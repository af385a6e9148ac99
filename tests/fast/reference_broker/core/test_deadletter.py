"""Dead letters: who gets a copy, what it looks like, and that there is never a second one."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.reference_broker.core.config import ConfigError, DeadLetterStrategy, DestinationPolicy
from brokerproof.reference_broker.core.deadletter import AUDIT_IDS, DeadLetter
from brokerproof.reference_broker.core.events import EXPIRED, POISON, Ack, Move, Send, Subscribe
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.policies import Policies
from tests.fast.reference_broker.core.driver import DLQ, START_MS, Driver, Q, T, config_of


def test_copy_of_an_expired_message() -> None:
    d = Driver()
    old = d.send(ttl_ms=50, timestamp_ms=START_MS - 7, size=3, properties={"colour": "red"})
    old.redelivery_count = 4
    d.advance(51)
    d.subscribe()
    (dead_letter,) = d.dead_letters()
    assert (dead_letter.message_id, dead_letter.destination, dead_letter.original_destination) == ("m1", DLQ, Q)
    assert (dead_letter.body, dead_letter.priority, dead_letter.timestamp_ms) == (b"xxx", 4, START_MS - 7)
    assert (dead_letter.expiration_ms, dead_letter.persistent, dead_letter.redelivery_count) == (0, True, 0)
    assert dead_letter.sequence == old.sequence + 1
    assert dead_letter.properties == {
        "colour": "red",
        "originalExpiration": START_MS + 50,
        "dlqDeliveryFailureCause": f"java.lang.Throwable: Message Expired. Expiration:{START_MS + 50}",
    }
    assert old.properties == {"colour": "red"}


@pytest.mark.parametrize("ttl_ms", [0, 60_000])
def test_copy_of_a_poisoned_message(ttl_ms: int) -> None:
    d = Driver()
    d.subscribe()
    d.send(ttl_ms=ttl_ms)
    d.ack("m1", kind=POISON)
    (dead_letter,) = d.dead_letters()
    assert dead_letter.properties == {"originalExpiration": START_MS + ttl_ms if ttl_ms else 0}
    assert (dead_letter.expiration_ms, dead_letter.original_destination, dead_letter.redelivery_count) == (0, Q, 0)
    assert d.counters("dequeued", "expired", "size") == (1, 0, 0)


def test_a_message_that_was_a_dead_letter_before_keeps_its_first_expiration() -> None:
    d = Driver()
    d.subscribe()
    d.send(properties={"originalExpiration": "77"})
    d.ack("m1", kind=POISON)
    assert d.dead_letters()[0].properties == {"originalExpiration": "77"}


@pytest.mark.parametrize("wanted", [False, True])
def test_non_persistent_messages_only_if_configured(wanted: bool) -> None:
    d = Driver(config_of(dead_letter_non_persistent=wanted))
    d.send(expiration_ms=START_MS - 1, persistent=False)
    dead_letters = d.dead_letters()
    assert len(dead_letters) == wanted
    for dead_letter in dead_letters:
        assert dead_letter.persistent
        assert dead_letter.properties["originalDeliveryMode"] == "NON_PERSISTENT"


def test_what_dies_on_the_dead_letter_queue_disappears() -> None:
    d = Driver()
    d.send(DLQ, ttl_ms=10)
    d.send(DLQ)
    d.advance(40_000)
    assert d.counters("size", "expired", "enqueued", destination=DLQ) == (1, 1, 2)
    d.subscribe("c", DLQ)
    d.ack("m2", kind=POISON)
    assert d.counters("size", "enqueued", destination=DLQ) == (0, 2)
    d.send(DLQ, expiration_ms=START_MS)
    assert d.counters("size", "enqueued", destination=DLQ) == (0, 2)
    assert d.logged("Not re-adding to DLQ") == 3


def test_sending_to_the_dead_letter_queue_is_an_ordinary_send() -> None:
    d = Driver()
    d.send(DLQ, ttl_ms=60_000, persistent=False)
    (message,) = d.dead_letters()
    assert (message.expiration_ms, message.persistent, message.properties) == (START_MS + 60_000, False, {})
    assert message.original_destination == ""


def test_the_same_id_from_two_queues_makes_one_dead_letter() -> None:
    d = Driver()
    for name in ("queue://a", "queue://b"):
        d.send(name, "twin", expiration_ms=START_MS - 1)
    assert [(dead_letter.message_id, dead_letter.original_destination) for dead_letter in d.dead_letters()] == [
        ("twin", "queue://a")
    ]
    assert d.logged("Not adding duplicate to DLQ: twin") == 1


def test_a_publication_that_expires_for_several_subscriptions_makes_one_dead_letter() -> None:
    d = Driver()
    for name in ("a", "b", "c"):
        d.subscribe(name, T, 1)
    d.send(T)
    d.send(T, ttl_ms=10)
    d.advance(11)
    for name in ("a", "b", "c"):
        d.ack("m1", name)
    assert d.counters("expired", "dequeued", destination=T) == (3, 6)
    assert [dead_letter.message_id for dead_letter in d.dead_letters()] == ["m2"]


def test_also_if_the_first_dead_letter_was_consumed_before_the_second_subscription_looks() -> None:
    d = Driver()
    d.subscribe("a", T, 1)
    d.subscribe("b", T, 1)
    d.subscribe("dlq", DLQ)
    d.send(T)
    d.send(T, ttl_ms=10)
    d.advance(11)
    d.ack("m1", "a")
    d.ack("m2", "dlq")
    d.ack("m1", "b")
    assert d.counters("enqueued", "size", destination=DLQ) == (1, 0)


def test_a_dead_letter_reaches_a_waiting_consumer_in_the_same_event() -> None:
    d = Driver()
    d.subscribe("c", DLQ)
    message = Message("m", Q, b"", expiration_ms=START_MS - 1, persistent=True)
    effects = d.handle(Send(1, message, request=3))
    assert [type(effect).__name__ for effect in effects] == ["Accepted", "Logged", "Dispatch"]
    assert d.got() == ["m"]


# -- strategies


def strategy_of(**options: Any) -> Driver:
    """A broker whose destinations all have that strategy."""
    return Driver(config_of(destinations=[DestinationPolicy(">", dead_letter=DeadLetterStrategy(**options))]))


def test_each_source_has_its_own_dead_letter_queue() -> None:
    d = strategy_of(strategy="individual")
    d.send("queue://a", expiration_ms=START_MS - 1)
    d.send("topic://a", expiration_ms=START_MS - 1)
    assert d.counter("size", "queue://ActiveMQ.DLQ.Queue.a") == 1
    assert d.counter("size", "queue://ActiveMQ.DLQ.Topic.a") == 1
    assert d.counter("size", DLQ) == 0


def test_names_of_individual_dead_letter_queues() -> None:
    d = strategy_of(
        strategy="individual",
        queue_prefix="Q.",
        queue_suffix=".dead",
        topic_prefix="T.",
        topic_suffix=".gone",
        use_queue_for_queue_messages=False,
        use_queue_for_topic_messages=True,
    )
    d.subscribe("x", "topic://Q.a.dead")
    d.send("queue://a", expiration_ms=START_MS - 1)
    d.send("topic://b", expiration_ms=START_MS - 1)
    assert d.got("x") == ["m1"]
    assert d.counter("size", "queue://T.b.gone") == 1


def test_what_dies_on_an_individual_dead_letter_queue_disappears() -> None:
    d = strategy_of(strategy="individual")
    d.send("queue://ActiveMQ.DLQ.Queue.a", expiration_ms=START_MS - 1)
    assert d.broker.destinations() == ["queue://ActiveMQ.DLQ.Queue.a"]
    assert d.counter("size", "queue://ActiveMQ.DLQ.Queue.a") == 0
    assert d.logged("Not re-adding to DLQ") == 1


def test_a_strategy_that_discards() -> None:
    d = strategy_of(strategy="discarding")
    d.subscribe()
    d.send(expiration_ms=START_MS - 1)
    d.send()
    d.ack("m2", kind=POISON)
    assert d.counters("size", "dequeued") == (0, 1)
    assert d.broker.destinations() == [Q]


@pytest.mark.parametrize(("process", "dead_letters"), [(True, ["m2", "m1"]), (False, ["m2"])])
def test_expired_messages_get_dead_letters_only_if_configured(process: bool, dead_letters: list[str]) -> None:
    d = strategy_of(process_expired=process)
    d.subscribe()
    d.send(ttl_ms=10)
    d.send()
    d.ack("m2", kind=POISON, first="m2")
    d.ack("m1", kind=EXPIRED)
    assert [dead_letter.message_id for dead_letter in d.dead_letters()] == dead_letters


def test_each_policy_entry_has_its_strategy() -> None:
    entries = [
        DestinationPolicy("queue://a", dead_letter=DeadLetterStrategy(dead_letter_queue="for-a")),
        DestinationPolicy("queue://b", dead_letter=DeadLetterStrategy("discarding")),
        DestinationPolicy(">"),
    ]
    d = Driver(config_of(destinations=entries, dead_letter_non_persistent=True))
    for name in ("queue://a", "queue://b", "queue://c"):
        d.send(name, expiration_ms=START_MS - 1)
        d.send(name, expiration_ms=START_MS - 1, persistent=False)
    assert d.counter("size", "queue://for-a") == 1
    assert d.counter("size", DLQ) == 2


def test_dead_letters_that_expire_tell_no_original_expiration() -> None:
    d = strategy_of(expiration_ms=5000)
    d.send(expiration_ms=START_MS - 1)
    (dead_letter,) = d.dead_letters()
    assert dead_letter.expiration_ms == d.wall_ms + 5000
    assert set(dead_letter.properties) == {"dlqDeliveryFailureCause"}
    d.advance(60_000)
    assert d.counters("size", "expired", destination=DLQ) == (0, 1)


@pytest.mark.parametrize(("audit", "dead_letters"), [(True, 1), (False, 2)])
def test_the_audit_remembers_what_has_left_the_dead_letter_queue(audit: bool, dead_letters: int) -> None:
    d = strategy_of(enable_audit=audit)
    for name in ("queue://a", "queue://b"):
        d.send(name, "twin", expiration_ms=START_MS - 1)
        d.purge(DLQ)
    assert d.counter("enqueued", DLQ) == dead_letters


def test_individual_queues_have_audits_of_their_own() -> None:
    d = strategy_of(strategy="individual")
    for name in ("queue://a", "queue://b"):
        d.send(name, "twin", expiration_ms=START_MS - 1)
        d.send(name, "twin", expiration_ms=START_MS - 1)
        assert d.counter("enqueued", f"queue://ActiveMQ.DLQ.Queue.{name[-1]}") == 1


def test_a_dead_letter_that_an_operator_took_may_die_again() -> None:
    config = config_of()
    policies = Policies.from_config(config)
    d = Driver(config, policies)
    for _ in range(2):
        d.send(message_id="m", expiration_ms=START_MS - 1)
        (dead_letter, *_) = d.dead_letters()
        d.purge(DLQ)
        policies.dead_letter.forget(dead_letter)
    assert d.counter("enqueued", DLQ) == 2


def test_a_dead_letter_that_was_moved_back_may_die_again() -> None:
    d = Driver()
    d.subscribe(prefetch=1)
    d.send()
    for dead_letters in (1, 2):
        d.ack("m1", kind=POISON)
        assert d.counter("enqueued", DLQ) == dead_letters
        assert type(d.handle(Move(DLQ, Q, request=9))[0]).__name__ == "Counted"
    assert d.got() == ["m1", "m1", "m1"]


def test_the_audit_forgets_the_oldest() -> None:
    policy = DeadLetter(config_of())
    message = Message("first", Q, b"")
    assert policy.first(message, Q, DLQ)
    for number in range(AUDIT_IDS - 1):
        policy.first(Message(str(number), Q, b""), Q, DLQ)
    assert not policy.first(message, Q, DLQ)
    policy.first(Message("one more", Q, b""), Q, DLQ)
    assert policy.first(message, Q, DLQ)


@pytest.mark.parametrize(("apart", "names"), [(False, [""]), (True, [".client-2:s", ".client-3:s"])])
def test_durable_subscribers_may_have_dead_letter_queues_of_their_own(apart: bool, names: list[str]) -> None:
    d = strategy_of(strategy="individual", destination_per_durable_subscriber=apart)
    for connection in (2, 3):
        d.connect(connection)
        event = Subscribe(connection, f"c{connection}", T, 10, durable="s", request=d.request())
        assert d.ask(event) == ""
        d.connections[f"c{connection}"] = connection
    d.send(T)
    for connection in (2, 3):
        assert d.ack("m1", f"c{connection}", kind=POISON) == ""
    assert [name for name in d.broker.destinations() if name != T] == [
        f"queue://ActiveMQ.DLQ.Topic.t{name}" for name in names
    ]


def test_why_a_client_gave_up() -> None:
    d = Driver()
    d.subscribe()
    d.send()
    cause = "Delivery[7] exceeds redelivery policy limit:…, cause:null"
    assert d.ask(Ack(d.connections["c"], "c", POISON, "m1", cause=cause, request=d.request())) == ""
    assert d.dead_letters()[0].properties["dlqDeliveryFailureCause"] == f"java.lang.Throwable: {cause}"


def test_the_headers_of_a_dead_letter_are_the_messages() -> None:
    d = Driver()
    message = Message(
        "m",
        Q,
        b"",
        persistent=True,
        expiration_ms=1,
        correlation_id="c",
        reply_to="queue://r",
        jms_type="t",
        group_id="g",
    )
    d.handle(Send(1, message))
    (dead_letter,) = d.dead_letters()
    assert (dead_letter.correlation_id, dead_letter.reply_to, dead_letter.jms_type, dead_letter.group_id) == (
        "c",
        "queue://r",
        "t",
        "g",
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"strategy": "burn"}, "dead-letter strategy 'burn' is unknown; one of shared, individual, discarding"),
        ({"strategy": "individual", "queue_prefix": ""}, "queue_prefix is empty"),
        ({"topic_prefix": ""}, "topic_prefix is empty"),
    ],
)
def test_unusable_strategies(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        DeadLetterStrategy(**options)
