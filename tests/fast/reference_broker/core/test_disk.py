"""Limits of the store and of temporary files: what is counted, who waits, who does not, and that nothing is lost."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import CompositeDestination, DestinationPolicy
from brokerproof.reference_broker.core.effects import Accepted, Refused, Throttled
from brokerproof.reference_broker.core.events import INDIVIDUAL, Ack, RemoveQueue, Send
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.topic import Topic
from tests.fast.reference_broker.core.driver import START_MS, Driver, Q, T, config_of

#: What a message without a body costs.
EMPTY = 1024
EVERY = ("fair", "G0", "G1", "G2", "G3")
SLOW = "queue://slow"


def make_driver(
    *entries: DestinationPolicy, store: int = 0, temp: int = 0, generation: str = "fair", **settings: object
) -> Driver:
    """A broker whose disk has room for so many empty messages; 0: without a limit."""
    return Driver(
        config_of(
            destinations=[*entries, DestinationPolicy(">", expire_period_ms=0)],
            generation={"memory": generation},
            store_limit_bytes=store * EMPTY,
            temp_limit_bytes=temp * EMPTY,
            persistent=store > 0,
            **settings,
        )
    )


def figure(d: Driver, name: str) -> int:
    return d.broker.broker_counters().get(name, -1)


def attempt(d: Driver, name: str, destination: str = Q, *, persistent: bool = True, **more: int) -> str:
    """A confirmed send: "" if it went through, "waits", or the code of its refusal."""
    message = Message(name, destination, b"", timestamp_ms=START_MS, persistent=persistent, **more)
    effects = d.handle(Send(1, message, request=d.request()))
    found = [effect for effect in effects if isinstance(effect, Accepted | Refused)]
    if not found:
        return "waits"
    return found[0].code if isinstance(found[0], Refused) else ""


def settle(d: Driver, name: str, consumer: str = "c") -> None:
    """An acknowledgement that nobody waits for."""
    d.handle(Ack(d.connections[consumer], consumer, INDIVIDUAL, name))


def drain(d: Driver, consumer: str = "c") -> None:
    """Acknowledge what comes, as long as something comes."""
    while (held := d.broker._consumers[consumer].dispatched.head) is not None:
        settle(d, held.reference.message.message_id, consumer)


def take_up(d: Driver, name: str) -> None:
    """A consumer of a durable subscription, with its name, on the producer's connection."""
    d.subscribe(name, T, 10, connection=1, durable=name)


# -- the store


@pytest.mark.parametrize("generation", EVERY)
def test_a_full_store_holds_persistent_sends_until_there_is_room(generation: str) -> None:
    d = make_driver(store=3, generation=generation)
    assert [attempt(d, f"m{n}") for n in range(5)] == ["", "", "", "waits", "waits"]
    assert (figure(d, "store_bytes"), figure(d, "store_percent"), d.counter("blocked_sends")) == (3 * EMPTY, 100, 2)
    assert attempt(d, "volatile", persistent=False) == ""
    d.subscribe("c", Q, 10)
    d.effects.clear()
    settle(d, "m0")
    assert sum(isinstance(effect, Accepted) for effect in d.effects) == 1  # m3's
    settle(d, "m1")
    assert d.counter("blocked_sends") == 0
    assert sorted(d.got()) == ["m0", "m1", "m2", "m3", "m4", "volatile"]


def test_without_a_journal_there_is_no_store() -> None:
    d = Driver(config_of(store_limit_bytes=1))
    assert [attempt(d, f"m{n}") for n in range(3)] == ["", "", ""]
    assert figure(d, "store_bytes") == -1


@pytest.mark.parametrize(("percent", "accepted"), [(50, 2), (70, 3), (100, 4)])
def test_the_mark_of_an_entry(percent: int, accepted: int) -> None:
    d = make_driver(DestinationPolicy("q", expire_period_ms=0, store_high_water_percent=percent), store=4)
    assert [attempt(d, f"m{n}") for n in range(5)].count("") == accepted
    assert (attempt(d, "x", SLOW) == "") == (accepted < 4)  # another entry, the same store


def test_flow_control_is_about_memory_alone() -> None:
    d = make_driver(DestinationPolicy("q", expire_period_ms=0, producer_flow_control=False), store=1, generation="G3")
    assert [attempt(d, f"m{n}") for n in range(2)] == ["", "waits"]


@pytest.mark.parametrize(
    ("entry", "broker", "code"),
    [(None, True, "no-space"), (True, False, "no-space"), (False, True, "waits"), (None, False, "waits")],
)
def test_an_entry_says_whether_sends_fail_or_the_broker_does(entry: bool | None, broker: bool, code: str) -> None:
    policy = DestinationPolicy("q", expire_period_ms=0, send_fail_if_no_space=entry)
    d = make_driver(policy, store=1, send_fail_if_no_space=broker)
    assert [attempt(d, f"m{n}") for n in range(2)] == ["", code]
    d.purge()
    assert (d.counter("size"), figure(d, "store_bytes")) == ((0, 0) if code == "no-space" else (1, EMPTY))


def test_a_refusal_says_what_is_full_and_a_wait_ends_in_one() -> None:
    d = make_driver(store=1, send_fail_if_no_space_after_ms=500)
    assert [attempt(d, f"m{n}") for n in range(2)] == ["", "waits"]
    assert d.logged("no room in the store; producers of queue://q will be throttled") == 1
    d.effects.clear()
    d.advance(500)
    (refused,) = [effect for effect in d.effects if isinstance(effect, Refused)]
    assert refused.text == (
        "javax.jms.ResourceAllocationException: no room in the store for a message to queue://q (1024 of 1024 bytes "
        "are used); consume or purge what is there, or raise the limit"
    )


def test_delayed_messages_lie_in_the_store_and_wait_for_it() -> None:
    d = make_driver(store=1)
    d.send(delay_ms=1000)
    assert figure(d, "store_bytes") == EMPTY
    assert attempt(d, "x", delay_ms=500) == "waits"
    d.purge()
    assert d.counter("scheduled") == 1
    d.advance(499)
    assert d.counter("size") == 0
    d.advance(1)
    assert d.counters("size", "scheduled") == (1, 0)
    assert figure(d, "store_bytes") == EMPTY


def test_a_topic_stores_for_durable_subscriptions_only_and_once() -> None:
    d = make_driver(store=2)
    d.subscribe("plain", T, 1)
    assert [attempt(d, f"m{n}", T) for n in range(3)] == [""] * 3
    assert figure(d, "store_bytes") == 0
    take_up(d, "one")
    take_up(d, "two")
    assert [attempt(d, f"d{n}", T) for n in range(3)] == ["", "", "waits"]
    assert figure(d, "store_bytes") == 2 * EMPTY
    settle(d, "d0", "one")
    assert figure(d, "store_bytes") == 2 * EMPTY
    settle(d, "d0", "two")
    assert figure(d, "store_bytes") == 2 * EMPTY  # d0 is gone, d2 went through
    assert isinstance(d.broker._region.destinations[T], Topic)


@pytest.mark.parametrize(
    "name", ["topic://VirtualTopic.X", "topic://composite", "topic://t,queue://Consumer.A.VirtualTopic.X"]
)
@pytest.mark.parametrize("generation", EVERY)
def test_a_copy_for_a_queue_waits_for_the_store_whatever_the_name(name: str, generation: str) -> None:
    queue = "queue://Consumer.A.VirtualTopic.X"
    d = make_driver(
        store=2, generation=generation, composite_destinations=[CompositeDestination("topic://composite", [queue])]
    )
    d.subscribe("c", queue)
    for _ in range(2):
        d.send(name)
    message = Message("late", name, b"", persistent=True)
    assert not [e for e in d.handle(Send(1, message, request=99)) if isinstance(e, Accepted | Refused)]
    assert (d.counter("size", queue), figure(d, "store_percent")) == (2, 100)
    d.send(name, persistent=False)
    settle(d, "m1")
    assert d.got()[-1] == "late"


def test_the_mark_of_the_queue_that_gets_a_copy() -> None:
    d = make_driver(DestinationPolicy("queue://half", store_high_water_percent=50), store=4, send_fail_if_no_space=True)
    codes = []
    for number in range(4):
        message = Message(f"x{number}", "queue://full,queue://half", b"", persistent=True)
        codes.append(d.ask(Send(1, message, request=d.request())))
    assert codes == ["", "no-space", "no-space", "no-space"]


def test_what_is_committed_needs_no_room() -> None:
    d = make_driver(store=1)
    d.begin()
    for number in range(3):
        d.send(message_id=f"m{number}", transaction="t")
    assert figure(d, "store_bytes") == 0
    assert d.commit() == ""
    assert figure(d, "store_bytes") == 3 * EMPTY
    assert attempt(d, "x") == "waits"


def test_a_restart_finds_the_store_as_full_as_it_was() -> None:
    d = make_driver(store=3)
    for _ in range(2):
        d.send()
    d.send(delay_ms=100)
    again = make_driver(store=3)
    again.journal = d.journal
    again.broker.restore(list(d.journal.messages.values()), Now(again.mono_ns, again.wall_ms))
    again.broker.check(d.journal)
    assert figure(again, "store_bytes") == 3 * EMPTY
    assert attempt(again, "x") == "waits"
    again.handle(RemoveQueue(Q))
    assert figure(again, "store_bytes") == EMPTY


# -- temporary files


@pytest.mark.parametrize("generation", EVERY)
def test_full_temporary_files_hold_other_sends_until_there_is_room(generation: str) -> None:
    """Memory of ten messages: 70 % of it, and then everything goes to the files."""
    d = make_driver(temp=9, generation=generation, memory_limit_bytes=10 * EMPTY)
    sent = 0
    while attempt(d, f"v{sent}", persistent=False) == "":
        sent += 1
    assert sent == (16 if generation == "fair" else 9)
    assert (figure(d, "temp_percent"), d.counter("memory_bytes")) == (100, 7 * EMPTY if generation == "fair" else 0)
    assert attempt(d, "stays", persistent=True) == ""
    assert d.logged("no room in temporary files; producers of queue://q") == 1
    d.subscribe("c", Q, 1)
    drain(d)
    assert len(d.got()) == sent + 2
    assert (figure(d, "temp_bytes"), figure(d, "memory_bytes"), d.counter("blocked_sends")) == (0, 0, 0)


@pytest.mark.parametrize(("generation", "stops"), [("fair", False), ("G0", True), ("G3", True)])
def test_who_waits_for_the_disk_is_not_read_in_activemq(generation: str, stops: bool) -> None:
    d = make_driver(temp=1, generation=generation, memory_limit_bytes=1)
    for number in range(2):
        attempt(d, f"m{number}", persistent=False)
    assert [effect.blocked for effect in d.effects if isinstance(effect, Throttled)] == ([True] if stops else [])
    d.purge()
    assert [effect.blocked for effect in d.effects if isinstance(effect, Throttled)] == ([True, False] if stops else [])


def test_nobody_waits_for_somebody_who_waits_for_something_else() -> None:
    d = make_driver(store=1, temp=1, memory_limit_bytes=1)
    assert attempt(d, "p") == attempt(d, "v", persistent=False) == ""
    assert [attempt(d, "p2"), attempt(d, "v2", persistent=False), attempt(d, "p3")] == ["waits"] * 3
    d.subscribe("c", Q, 10)
    settle(d, "p")
    assert d.counter("blocked_sends") == 1  # p3; when v was in flight there was room for v2
    drain(d)
    assert d.got() == ["p", "v", "p2", "v2", "p3"]


def test_the_backlog_of_a_subscriber_lies_in_temporary_files() -> None:
    d = make_driver(temp=2)
    d.subscribe("c", T, 1)
    assert [attempt(d, f"m{n}", T, persistent=n == 2) for n in range(4)] == ["", "", "", "waits"]
    assert figure(d, "temp_bytes") == 2 * EMPTY
    settle(d, "m0")
    assert (figure(d, "temp_bytes"), d.got()) == (2 * EMPTY, ["m0", "m1"])
    d.leave()
    assert figure(d, "temp_bytes") == 0


@pytest.mark.parametrize("persistent", [True, False])
def test_a_durable_subscription_keeps_persistent_messages_in_the_store(persistent: bool) -> None:
    d = make_driver(temp=9)
    take_up(d, "one")
    d.leave("one")
    for number in range(3):
        assert attempt(d, f"m{number}", T, persistent=persistent) == ""
    assert figure(d, "temp_bytes") == (0 if persistent else 3 * EMPTY)
    take_up(d, "one")
    assert figure(d, "temp_bytes") == 0
    d.leave("one")
    assert figure(d, "temp_bytes") == (0 if persistent else 3 * EMPTY)


def test_what_memory_gives_up_may_exceed_the_files_and_is_kept() -> None:
    d = make_driver(temp=1, memory_limit_bytes=10 * EMPTY)
    for number in range(7):
        d.send(SLOW, f"v{number}", persistent=False)
    d.subscribe("greedy", Q, 10)
    for number in range(10):
        d.send(Q, f"p{number}")
    assert figure(d, "temp_bytes") == 7 * EMPTY
    d.subscribe("slow", SLOW, 10)
    drain(d, "slow")
    assert d.got("slow") == [f"v{number}" for number in range(7)]


@pytest.mark.parametrize("generation", EVERY)
def test_expiry_and_purge_give_room(generation: str) -> None:
    d = make_driver(DestinationPolicy(">", expire_period_ms=1000), temp=2, generation=generation, memory_limit_bytes=1)
    d.send(persistent=False, ttl_ms=300)
    d.send(persistent=False)
    d.advance(1000)
    d.purge()
    assert (figure(d, "temp_bytes"), figure(d, "memory_bytes")) == (0, 0)


@pytest.mark.parametrize("generation", EVERY)
def test_a_commit_leaves_no_send_behind_that_still_waits(generation: str) -> None:
    """Of a client that does not wait for the answer to each send: all of its transaction, or nothing."""
    d = make_driver(store=1, generation=generation)
    assert attempt(d, "full", "queue://other") == ""
    d.begin()
    late = Message("late", Q, b"", persistent=True)
    d.handle(Send(1, late, transaction="t", request=d.request()))
    assert d.commit() == "no-space"
    d.subscribe("c", "queue://other", 10)
    settle(d, "full")
    assert (d.commit(), d.counter("size")) == ("", 1)


def test_a_publication_waits_for_temporary_files_if_subscribers_without_a_store_do() -> None:
    d = make_driver(temp=2)
    d.subscribe("plain", T, 1)
    assert [attempt(d, f"m{n}", T) for n in range(4)] == ["", "", "", "waits"]
    assert [attempt(d, f"q{n}") for n in range(2)] == ["", ""]  # a queue's are not in temporary files
    assert figure(d, "temp_bytes") == 2 * EMPTY
    settle(d, "m0", "plain")
    assert (figure(d, "temp_bytes"), d.counter("enqueued", T)) == (2 * EMPTY, 4)  # m3 went through


def test_a_publication_for_durable_subscriptions_alone_needs_no_temporary_files() -> None:
    d = make_driver(temp=1)
    take_up(d, "one")
    d.subscribe("plain", "topic://other", 1)
    assert [attempt(d, f"o{n}", "topic://other", persistent=False) for n in range(3)] == ["", "", "waits"]
    assert [attempt(d, f"d{n}", T) for n in range(3)] == ["", "", ""]
