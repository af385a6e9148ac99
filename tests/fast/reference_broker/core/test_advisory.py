"""Advisories: who is told of what expired or became a dead letter, when, and what the advisory shows."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.advisory import Advisory, topic_about, topic_of
from brokerproof.reference_broker.core.config import AdvisoryOptions, BrokerConfig, DestinationPolicy
from brokerproof.reference_broker.core.events import EXPIRED, POISON
from brokerproof.reference_broker.core.message import Message
from tests.fast.reference_broker.core.driver import DLQ, START_MS, Driver, Q, T, config_of

EXPIRED_Q = "topic://ActiveMQ.Advisory.Expired.Queue.q"
EXPIRED_T = "topic://ActiveMQ.Advisory.Expired.Topic.t"
DEAD_LETTERS_Q = "topic://ActiveMQ.Advisory.MessageDLQd.Queue.q"


def asked(**options: bool) -> BrokerConfig:
    entry = DestinationPolicy(">", expire_period_ms=100, advisories=AdvisoryOptions(**options))
    return config_of(destinations=[entry])


def watched(config: BrokerConfig, *topics: str) -> Driver:
    d = Driver(config)
    for topic in topics:
        d.subscribe("watcher" if topic == topics[0] else topic, topic, 1000)
    return d


def told(d: Driver, consumer: str = "watcher") -> list[Advisory]:
    """What a consumer was told about messages; who listens with a wildcard hears of destinations as well."""
    found = [dispatch.message for dispatch in d.dispatches if dispatch.consumer == consumer]
    assert all(isinstance(message, Advisory) for message in found)
    return [one for one in found if isinstance(one, Advisory) and isinstance(one.data_structure, Message)]


def test_topics() -> None:
    assert topic_about("Expired", "temp-queue://a.b") == "topic://ActiveMQ.Advisory.Expired.Queue.a.b"
    assert (topic_about("Expired", T), topic_about("MessageDLQd", Q)) == (EXPIRED_T, DEAD_LETTERS_Q)
    assert topic_of("Connection") == "topic://ActiveMQ.Advisory.Connection"


@pytest.mark.parametrize(
    ("config", "count"),
    [(config_of(), 0), (asked(expired=True), 1), (config_of(advisory_support=True), 1)],
)
def test_only_if_somebody_asked_for_it(config: BrokerConfig, count: int) -> None:
    d = watched(config, "topic://ActiveMQ.Advisory.>")
    d.send(expiration_ms=START_MS - 1, persistent=False)
    assert len(told(d)) == count
    assert d.counter("enqueued", EXPIRED_Q) == count


@pytest.mark.parametrize("include", [False, True])
def test_what_an_advisory_shows(include: bool) -> None:
    config = asked(expired=True, dead_letters=True, include_body=include)
    d = watched(config, "topic://ActiveMQ.Advisory.>")
    d.send(ttl_ms=50, size=3, properties={"colour": "red"})
    d.advance(101)
    dead_letter, expiry = told(d)
    assert (dead_letter.destination, expiry.destination) == (DEAD_LETTERS_Q, EXPIRED_Q)
    origin = {"originBrokerId": "ID:b", "originBrokerName": "b", "originBrokerURL": "vm://b"}
    assert dead_letter.properties == origin
    assert expiry.properties == {**origin, "orignalMessageId": "m1"}
    for one in (dead_letter, expiry):
        assert (one.jms_type, one.persistent, one.expiration_ms, one.body) == ("Advisory", False, 0, b"")
        about = one.data_structure
        assert isinstance(about, Message)
        assert (about.message_id, about.destination, about.expiration_ms) == ("m1", Q, START_MS + 50)
        assert (about.body, about.properties) == (b"xxx" if include else b"", {"colour": "red"})
    assert dead_letter.message_id != expiry.message_id
    assert d.counter("size", DLQ) == 1


def test_one_for_every_expiry_of_a_subscription() -> None:
    d = watched(asked(expired=True), EXPIRED_T)
    for name in ("a", "b"):
        d.subscribe(name, T, 1)
    d.send(T)
    d.send(T, ttl_ms=10)
    d.advance(11)
    for name in ("a", "b"):
        d.ack("m1", name)
    assert [advisory.properties["orignalMessageId"] for advisory in told(d)] == ["m2", "m2"]
    assert len({advisory.message_id for advisory in told(d)}) == 2


def test_a_client_that_has_seen_it_expire_makes_one_on_a_queue_only() -> None:
    d = watched(asked(expired=True), EXPIRED_Q, EXPIRED_T)
    for destination in (Q, T):
        d.subscribe(destination, destination)
        d.send(destination, "m-" + destination)
        d.ack("m-" + destination, destination, kind=EXPIRED)
    assert (len(told(d)), len(told(d, EXPIRED_T))) == (1, 0)


def test_a_rejected_message_is_told_of_as_a_dead_letter_alone() -> None:
    d = watched(config_of(advisory_support=True), DEAD_LETTERS_Q, EXPIRED_Q)
    d.subscribe()
    d.send()
    d.ack("m1", kind=POISON)
    d.send(persistent=False)  # it gets no dead letter
    d.ack("m2", kind=POISON)
    assert (len(told(d)), len(told(d, EXPIRED_Q))) == (1, 0)


def test_none_about_advisories() -> None:
    d = watched(config_of(advisory_support=True), "topic://ActiveMQ.Advisory.>")
    d.send(EXPIRED_Q, expiration_ms=START_MS - 1)
    assert told(d) == []
