"""Bad requests: each is refused by a stable code, changes nothing, and says the value and the remedy. And bad
configuration.
"""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.acknowledgement import Acknowledgement
from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.core.delay import Delay
from brokerproof.reference_broker.core.effects import Effect, Refused
from brokerproof.reference_broker.core.events import (
    STANDARD,
    Ack,
    Connect,
    Disconnect,
    Event,
    Send,
    Subscribe,
    Unsubscribe,
)
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.policies import BASES, Policies
from brokerproof.reference_broker.core.reference import GONE, MOVES, WAITING, ImpossibleMove, Reference
from tests.fast.reference_broker.core.driver import DLQ, Driver, Q, T, config_of

R = 77
DESCRIBED = ("connection", "consumer", "redelivery_count", "asynchronous", "request", "code", "text")


@pytest.mark.parametrize(
    ("event", "code", "shown"),
    [
        (Subscribe(9, "x", Q, 1, request=R), "unknown-connection", "connection 9"),
        (Subscribe(1, "x", "A", 1, request=R), "bad-destination", "'A'"),
        (Subscribe(1, "x", "queue://A.>.B", 1, request=R), "bad-destination", "'queue://A.>.B'"),
        (Subscribe(1, "x", "queue://A,,B", 1, request=R), "bad-destination", "'queue://'"),
        (Send(1, Message("y", "queue://A.>", b""), request=R), "bad-destination", "'queue://A.>'"),
        (Subscribe(1, "x", Q, -2, request=R), "bad-prefetch", "prefetch -2"),
        (Subscribe(1, "c", Q, 1, request=R), "duplicate-consumer", "'c'"),
        (Unsubscribe(1, "x", request=R), "unknown-consumer", "'x'"),
        (Unsubscribe(1, "c", request=R), "unknown-consumer", "connection 1"),
        (Ack(1, "c", STANDARD, "m1", request=R), "unknown-consumer", "'c'"),
        (Send(9, Message("y", Q, b""), request=R), "unknown-connection", "connection 9"),
        (Send(1, Message("y", "nowhere", b""), request=R), "bad-destination", "'nowhere'"),
        (Send(1, Message("m1", Q, b""), request=R), "duplicate-id", "'m1'"),
        (Send(1, Message("m2", Q, b""), request=R), "duplicate-id", "'m2'"),
        (Send(1, Message("m3", Q, b""), request=R), "duplicate-id", "'m3'"),
        (Send(1, Message("m4", T, b""), request=R), "duplicate-id", "'m4'"),
        (Send(1, Message("y", Q, b"", delay_ms=-3), request=R), "delay-negative", "delay -3 ms"),
    ],
)
def test_refused_without_effect(event: Event, code: str, shown: str) -> None:
    d = Driver()
    d.subscribe("c", Q, 1)
    d.subscribe("t", T, 1)
    d.send()  # in flight
    d.send()  # waiting
    d.send(delay_ms=5)
    d.send(T)
    before = (d.broker.broker_counters(), d.broker.destinations(), d.counters("size", "in_flight", "scheduled"))
    effects = d.handle(event)
    assert [type(effect) for effect in effects] == [Refused]
    assert isinstance(effects[0], Refused)
    assert (effects[0].code, effects[0].request) == (code, R)
    assert shown in effects[0].text
    assert (d.broker.broker_counters(), d.broker.destinations(), d.counters("size", "in_flight", "scheduled")) == before


def test_nobody_is_answered_who_did_not_ask_but_a_refusal_is_always_told() -> None:
    d = Driver()
    d.connect(2)

    def kinds(event: Event) -> list[str]:
        return [type(effect).__name__ for effect in d.handle(event)]

    assert kinds(Subscribe(2, "c", Q, 1)) == []
    assert kinds(Send(1, Message("m", Q, b""))) == ["Dispatch"]
    assert kinds(Ack(2, "c", STANDARD, "m")) == []
    assert kinds(Ack(2, "c", STANDARD, "m")) == ["Refused"]


def test_a_second_connect_is_ignored() -> None:
    d = Driver()
    d.subscribe("c", connection=1)
    d.handle(Connect(1, "again"))
    assert d.logged("connected already") == 1
    d.send()
    assert d.got() == ["m1"]


def test_nothing_is_accepted_from_a_connection_that_is_gone() -> None:
    d = Driver()
    d.handle(Disconnect(1))
    assert d.ask(Send(1, Message("y", Q, b""), request=d.request())) == "unknown-connection"


def test_an_unknown_event_is_a_mistake_of_the_edge() -> None:
    with pytest.raises(TypeError, match="Event is not an event"):
        Driver().handle(Event())


@pytest.mark.parametrize(
    ("name", "policy", "text"),
    [("colour", Delay(), "'colour' is unknown"), ("delay", Acknowledgement(), "must derive from Delay")],
)
def test_policies_refuse_what_does_not_fit(name: str, policy: object, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Policies.from_config(config_of()).replace(name, policy)


def test_every_policy_has_a_base_of_its_kind() -> None:
    policies = Policies.from_config(config_of())
    for name, base in BASES.items():
        assert isinstance(getattr(policies, name), base)


@pytest.mark.parametrize(("area", "name"), [("expiry", "documented"), ("memory", "G1")])
def test_generations_choose_policies(area: str, name: str) -> None:
    default = Policies.from_config(config_of())
    other = Policies.from_config(config_of(generation={area: name}))
    assert type(getattr(default, area)) is not type(getattr(other, area))
    with pytest.raises(ConfigError, match="unknown"):
        config_of(generation={area: "G99"})


def test_the_same_events_give_the_same_effects() -> None:
    def run() -> list[str]:
        d = Driver()
        d.subscribe("a", Q, 2)
        d.subscribe("b", Q, 2)
        for number in range(8):
            d.send(ttl_ms=number % 3 * 10, delay_ms=number % 2 * 15)
        d.transmit(2)
        d.advance(12)
        d.drop("a")
        d.advance(20)
        d.subscribe("z", DLQ)
        return [describe(effect) for effect in d.effects]

    def describe(effect: Effect) -> str:
        return type(effect).__name__ + str([str(getattr(effect, n)) for n in DESCRIBED if hasattr(effect, n)])

    assert run() == run()


@pytest.mark.parametrize("state", list(MOVES))
def test_impossible_moves_are_noticed(state: str) -> None:
    for target in MOVES:
        reference = Reference(Message("m", Q, b""), 1, 1)
        reference.state = state
        if target in MOVES[state]:
            reference.move(target)
            assert reference.state == target
        else:
            with pytest.raises(ImpossibleMove):
                reference.move(target)
    assert MOVES[GONE] == ()
    assert WAITING not in MOVES[WAITING]


def test_counters_are_the_ones_that_the_node_reads() -> None:
    d = Driver()
    d.send()
    found = d.broker.counters(Q, Now(d.mono_ns, d.wall_ms))
    assert found is not None
    assert list(found) == [
        "size",
        "in_flight",
        "enqueued",
        "dequeued",
        "dispatched",
        "expired",
        "scheduled",
        "acknowledged",
        "wasted",
        "consumers",
        "memory_bytes",
        "memory_percent",
        "memory_limit_bytes",
        "blocked_sends",
    ]
