"""Dead letters: who gets a copy, what it looks like, and that there is never a second one."""

from __future__ import annotations

import pytest

from reference_broker.core.events import POISON, Send
from reference_broker.core.message import Message
from tests.fast.core_driver import DLQ, START_MS, Driver, Q, T, config_of


def test_copy_of_an_expired_message() -> None:
    d = Driver()
    old = d.send(ttl_ms=50, timestamp_ms=START_MS - 7, size=3, properties={"colour": "red"})
    old.redelivery_count = 4
    d.advance(51)
    d.subscribe()
    (letter,) = d.dead_letters()
    assert (letter.message_id, letter.destination, letter.original_destination) == ("m1", DLQ, Q)
    assert (letter.body, letter.priority, letter.timestamp_ms) == (b"xxx", 4, START_MS - 7)
    assert (letter.expiration_ms, letter.persistent, letter.redelivery_count) == (0, True, 0)
    assert (letter.sequence, letter.accepted_mono_ns) == (old.sequence + 1, d.mono_ns)
    assert letter.properties == {
        "colour": "red",
        "originalExpiration": str(START_MS + 50),
        "dlqDeliveryFailureCause": f"java.lang.Throwable: Message Expired. Expiration:{START_MS + 50}",
    }
    assert old.properties == {"colour": "red"}


@pytest.mark.parametrize("ttl_ms", [0, 60_000])
def test_copy_of_a_poisoned_message(ttl_ms: int) -> None:
    d = Driver()
    d.subscribe()
    d.send(ttl_ms=ttl_ms)
    d.ack("m1", kind=POISON)
    (letter,) = d.dead_letters()
    assert letter.properties == {"originalExpiration": str(START_MS + ttl_ms if ttl_ms else 0)}
    assert (letter.expiration_ms, letter.original_destination, letter.redelivery_count) == (0, Q, 0)
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
    letters = d.dead_letters()
    assert len(letters) == wanted
    for letter in letters:
        assert letter.persistent
        assert letter.properties["originalDeliveryMode"] == "NON_PERSISTENT"


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
    assert [(letter.message_id, letter.original_destination) for letter in d.dead_letters()] == [("twin", "queue://a")]
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
    assert [letter.message_id for letter in d.dead_letters()] == ["m2"]


def test_also_if_the_first_dead_letter_was_consumed_before_the_second_subscription_looks() -> None:
    d = Driver()
    d.subscribe("a", T, 1)
    d.subscribe("b", T, 1)
    d.subscribe("undertaker", DLQ)
    d.send(T)
    d.send(T, ttl_ms=10)
    d.advance(11)
    d.ack("m1", "a")
    d.ack("m2", "undertaker")
    d.ack("m1", "b")
    assert d.counters("enqueued", "size", destination=DLQ) == (1, 0)


def test_a_dead_letter_reaches_a_waiting_consumer_in_the_same_event() -> None:
    d = Driver()
    d.subscribe("c", DLQ)
    message = Message("m", Q, b"", expiration_ms=START_MS - 1, persistent=True)
    effects = d.handle(Send(1, message, request=3))
    assert [type(effect).__name__ for effect in effects] == ["Accepted", "Logged", "Dispatch"]
    assert d.got() == ["m"]
