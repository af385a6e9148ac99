"""Queues where not everybody may have everything: selectors, noLocal, exclusive consumers, groups, priorities."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.events import (
    DELIVERED,
    EXPIRED,
    INDIVIDUAL,
    Ack,
    Connect,
    Send,
    Subscribe,
    Unsubscribe,
)
from brokerproof.reference_broker.core.groups import CAPACITY, FIRST
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.policies import Policies
from brokerproof.reference_broker.core.selection import Selection
from brokerproof.reference_broker.core.subscription import Consumer
from tests.fast.reference_broker.core.driver import Driver, Q, T, config_of
from tests.tools import examples

A, B = "kind = 'a'", "kind = 'b'"
PRIORITIZED = {"destinations": [DestinationPolicy(">", prioritized_messages=True)]}


def send(driver: Driver, *kinds: str, destination: str = Q, **options: int) -> None:
    for kind in kinds:
        driver.send(destination, properties={"kind": kind} if kind else {}, **options)


# -- selectors


def test_a_selector_looks_past_what_it_does_not_want() -> None:
    driver = Driver()
    send(driver, *["a"] * 300, "b")
    driver.subscribe("c", selector=B)
    assert driver.got() == ["m301"]
    driver.subscribe("d", prefetch=1000)
    assert driver.got("d") == [f"m{n}" for n in range(1, 301)]


def test_each_gets_the_first_that_it_wants_in_turn() -> None:
    driver = Driver()
    driver.subscribe("a", selector=A, prefetch=2)
    driver.subscribe("all", prefetch=3)
    send(driver, "a", "b", "a", "b", "a", "b", "a")
    assert driver.got("a") == ["m1", "m3"]
    assert driver.got("all") == ["m2", "m4", "m5"]
    driver.ack("m1", "a")
    assert driver.got("a") == ["m1", "m3", "m7"]
    assert driver.counters("size", "dequeued") == (6, 1)


def test_what_comes_back_takes_its_old_place() -> None:
    driver = Driver()
    send(driver, "a", "b", "a", "b")
    driver.subscribe("b", selector=B)
    assert driver.got("b") == ["m2", "m4"]
    driver.leave("b", -1)
    driver.subscribe("all")
    assert driver.got("all") == ["m1", "m2", "m3", "m4"]


def test_a_filter_is_evaluated_again_when_something_returns_or_arrives() -> None:
    driver = Driver()
    driver.subscribe("all", prefetch=1)
    send(driver, "a", "a")
    driver.subscribe("a", selector="JMSXDeliveryCount = 2")
    assert driver.got("a") == []
    driver.drop("all")
    assert driver.got("a") == ["m1"]


def test_what_came_back_is_no_longer_wanted_as_it_was_before() -> None:
    """Somebody has waited for it while another had it, and does not want what was delivered already."""
    driver = Driver()
    driver.subscribe("any", prefetch=1, selector="kind = 'a' OR kind IS NULL")
    driver.subscribe("fresh", prefetch=1, selector="JMSRedelivered = FALSE")
    for _ in range(3):
        driver.send()
    driver.ack("m1", "any")
    assert (driver.got("any"), driver.got("fresh")) == (["m1", "m3"], ["m2"])
    driver.leave("any")
    driver.ack("m2", "fresh")
    assert driver.got("fresh") == ["m2"]
    driver.subscribe("later", selector="JMSXDeliveryCount = 2")
    assert driver.got("later") == ["m3"]


def test_a_bad_selector_is_refused_and_nothing_has_changed() -> None:
    driver = Driver()
    event = Subscribe(1, "c", Q, 10, selector="kind =", request=driver.request())
    assert driver.ask(event) == "bad-selector"
    assert driver.counter("consumers") == 0
    driver.subscribe("c", connection=1)


def test_selectors_choose_on_topics_and_without_local_messages() -> None:
    driver = Driver()
    driver.subscribe("b", T, selector=B)
    driver.subscribe("all", T)
    driver.subscribe("mine", T, connection=1, no_local=True)
    send(driver, "a", "b", destination=T)
    assert (driver.got("b"), driver.got("all"), driver.got("mine")) == (["m2"], ["m1", "m2"], [])


def test_no_local_leaves_messages_of_its_own_connection_to_others() -> None:
    driver = Driver()
    driver.subscribe("mine", connection=1, no_local=True)
    send(driver, "a")
    assert driver.got("mine") == []
    driver.connect(7)
    driver.send(connection=7)
    assert driver.got("mine") == ["m2"]
    driver.subscribe("all")
    assert driver.got("all") == ["m1"]


def test_memory_is_asked_for_what_is_wanted_only() -> None:
    driver = Driver(config_of(memory_limit_bytes=4096, destinations=[DestinationPolicy(">")]))
    send(driver, *["a"] * 10, "b", "b")
    driver.subscribe("b", selector=B, prefetch=1)
    assert driver.got("b") == ["m11"]
    driver.ack("m11", "b")
    assert driver.got("b") == ["m11", "m12"]


def test_expired_messages_are_found_on_the_way() -> None:
    driver = Driver()
    driver.send(ttl_ms=10, properties={"kind": "b"})
    send(driver, "b")
    driver.step_wall(11)
    driver.subscribe("b", selector=B)
    assert driver.got("b") == ["m2"]
    assert driver.counter("expired") == 1


def test_what_lies_aside_is_offered_to_those_who_want_it() -> None:
    driver = Driver(config_of(generation={"expiry": "documented"}))
    driver.send(ttl_ms=60_000, properties={"kind": "a"})
    driver.subscribe("first")
    assert driver.ack("m1", "first", EXPIRED) == ""
    driver.subscribe("b", selector=B)
    driver.subscribe("a", selector=A)
    assert (driver.got("b"), driver.got("a")) == ([], ["m1"])


def test_a_queue_chooses_only_as_long_as_somebody_asks_for_it() -> None:
    driver = Driver()
    queue = driver.broker._region.destination(Q)
    driver.subscribe("a", selector=A)
    send(driver, "b")
    driver.leave("a")
    assert queue.choices is not None  # type: ignore[attr-defined]
    driver.subscribe("all")
    assert queue.choices is None  # type: ignore[attr-defined]
    send(driver, "a")
    assert driver.got("all") == ["m1", "m2"]


class Counting(Selection):
    """Counts how often it is asked."""

    asked = 0

    def wants(self, consumer: Consumer, message: Message) -> bool:
        Counting.asked += 1
        return super().wants(consumer, message)


def test_nobody_looks_at_a_message_twice_in_vain() -> None:
    config = config_of()
    broker = Broker(config, Policies.from_config(config).replace("selection", Counting()))
    now = Now(0, 0)
    Counting.asked = 0
    broker.handle(Connect(1, "c"), now)
    for number in range(1, 201):
        broker.handle(Send(1, Message(f"m{number}", Q, b"", properties={"kind": "a"})), now)
    for name, selector in (("b", B), ("twin", B), ("all", "")):
        broker.handle(Subscribe(1, name, Q, 1, selector=selector), now)
    assert Counting.asked == 200
    for number in range(1, 101):
        broker.handle(Ack(1, "all", INDIVIDUAL, f"m{number}"), now)
    assert Counting.asked == 200
    broker.handle(Unsubscribe(1, "all"), now)
    assert Counting.asked == 201  # the one that came back
    broker.handle(Send(1, Message("m201", Q, b"", properties={"kind": "b"})), now)
    assert Counting.asked == 202
    assert [d.reference.message.message_id for d in broker._consumers["b"].dispatched] == ["m201"]


# -- exclusive consumers


def test_an_exclusive_consumer_gets_everything_and_the_next_takes_over() -> None:
    driver = Driver()
    driver.subscribe("plain")
    send(driver, "a")
    driver.subscribe("one", exclusive=True, prefetch=2)
    driver.subscribe("two", exclusive=True)
    send(driver, "a", "a", "a")
    assert (driver.got("plain"), driver.got("one"), driver.got("two")) == (["m1"], ["m2", "m3"], [])
    driver.leave("one", -1)
    assert driver.got("two") == ["m2", "m3", "m4"]
    driver.leave("two", -1)
    assert driver.got("plain") == ["m1", "m2", "m3", "m4"]


def test_a_higher_priority_takes_exclusivity_over_an_equal_one_does_not() -> None:
    driver = Driver()
    driver.subscribe("one", exclusive=True)
    driver.subscribe("same", exclusive=True)
    send(driver, "a")
    driver.subscribe("higher", exclusive=True, priority=1)
    send(driver, "a")
    assert (driver.got("one"), driver.got("same"), driver.got("higher")) == (["m1"], [], ["m2"])


# -- consumer priority


def test_a_consumer_of_lower_priority_gets_what_others_cannot_take() -> None:
    driver = Driver()
    driver.subscribe("low", priority=-1)
    driver.subscribe("x", prefetch=1)
    driver.subscribe("high", priority=5, prefetch=2)
    driver.subscribe("y", prefetch=1)
    send(driver, *"aaaaaa")
    assert (driver.got("high"), driver.got("x"), driver.got("y")) == (["m1", "m2"], ["m3"], ["m4"])
    assert driver.got("low") == ["m5", "m6"]
    driver.ack("m1", "high")
    send(driver, "a")
    assert driver.got("high") == ["m1", "m2", "m7"]


# -- message priority


def test_messages_of_higher_priority_go_first_where_the_entry_says_so() -> None:
    driver = Driver(config_of(**PRIORITIZED))
    for priority in (4, 9, 0, 9, 12, -3):
        driver.send(priority=priority)
    driver.subscribe("c", prefetch=3)
    assert driver.got() == ["m2", "m4", "m5"]
    driver.send(priority=5)
    driver.ack("m5")
    assert driver.got()[3:] == ["m7", "m1", "m3"]
    driver.leave("c", -1)
    driver.subscribe("d")
    assert driver.got("d") == ["m7", "m1", "m3", "m6"]


def test_priority_changes_nothing_by_default() -> None:
    driver = Driver()
    driver.send(priority=1)
    driver.send(priority=9)
    driver.subscribe()
    assert driver.got() == ["m1", "m2"]


# -- groups


def test_a_group_stays_with_its_owner() -> None:
    driver = Driver()
    driver.subscribe("c")
    driver.subscribe("d")
    for group in ("x", "y", "x", "x", "y", ""):
        driver.send(group=group)
    assert (driver.got("c"), driver.got("d")) == (["m1", "m3", "m4", "m6"], ["m2", "m5"])
    first = {d.message.message_id: d.message.properties.get(FIRST) for d in driver.dispatches}
    assert first == {"m1": True, "m2": True, "m3": None, "m4": None, "m5": None, "m6": None}


def test_a_group_waits_for_its_owner_and_hides_nothing() -> None:
    driver = Driver()
    driver.subscribe("c", prefetch=1)
    for group in ("x", "x", "x", "y"):
        driver.send(group=group)
    driver.subscribe("d", prefetch=2)
    assert (driver.got("c"), driver.got("d")) == (["m1"], ["m4"])
    driver.ack("m1", "c")
    assert driver.got("c") == ["m1", "m2"]
    driver.leave("c", -1)
    assert driver.got("d") == ["m4", "m2"]
    driver.ack("m4", "d", INDIVIDUAL)
    assert driver.got("d") == ["m4", "m2", "m3"]
    assert [d.message.properties.get(FIRST) for d in driver.dispatches if d.consumer == "d"] == [True, True, None]


def test_a_sequence_below_zero_closes_the_group() -> None:
    driver = Driver()
    driver.subscribe("c", prefetch=2)
    driver.send(group="x")
    driver.send(group="x", sequence=-1)
    driver.send(group="x")
    driver.subscribe("d")
    assert (driver.got("c"), driver.got("d")) == (["m1", "m2"], ["m3"])
    assert driver.dispatches[-1].message.properties[FIRST] is True


def test_a_message_that_its_owner_does_not_want_waits_for_the_end_of_the_group() -> None:
    driver = Driver()
    driver.subscribe("a", selector=A)
    driver.subscribe("all", prefetch=1)
    send(driver, "b")  # fills the other
    driver.send(group="x", properties={"kind": "a"})
    driver.send(group="x", properties={"kind": "b"})
    assert (driver.got("a"), driver.got("all")) == (["m2"], ["m1"])
    driver.ack("m1", "all")
    assert driver.got("all") == ["m1"]
    driver.leave("a", -1)
    assert driver.got("all") == ["m1", "m2"]


def test_groups_are_remembered_up_to_a_limit() -> None:
    driver = Driver()
    driver.checks_invariants = False
    driver.subscribe("c", prefetch=10_000, connection=1)
    for number in range(CAPACITY + 1):
        driver.send(group=f"g{number}")
        if number == 0:
            driver.subscribe("d", prefetch=10_000, connection=1, priority=-1)
    driver.checks_invariants = True
    driver.subscribe("e", prefetch=10_000, connection=1, priority=1)
    driver.send(group="g1")
    driver.send(group="g0")
    assert (driver.got("c")[-1], driver.got("e")) == (f"m{CAPACITY + 2}", [f"m{CAPACITY + 3}"])


# -- everything at once: the audit of every step says that nobody waits in vain; the order says the rest

OPTIONS = [
    {"selector": A},
    {"selector": B},
    {},
    {"exclusive": True},
    {"priority": 1},
    {"no_local": True},
    {"selector": "kind IS NULL OR kind = 'a'", "priority": -1},
]
actions = st.one_of(
    st.tuples(
        st.just("send"), st.sampled_from(["", "a", "b"]), st.sampled_from(["", "", "g1", "g2"]), st.integers(0, 9)
    ),
    st.tuples(st.just("subscribe"), st.integers(0, len(OPTIONS) - 1), st.integers(1, 3)),
    st.tuples(st.just("ack"), st.integers(0, 3)),
    st.tuples(st.just("leave"), st.integers(0, 3)),
)


@pytest.mark.parametrize("prioritized", [False, True])
@settings(max_examples=examples(25), deadline=None)
@given(st.lists(actions, max_size=40))
def test_any_mixture_loses_nothing_and_keeps_order(prioritized: bool, steps: list[tuple[object, ...]]) -> None:
    driver = Driver(config_of(memory_limit_bytes=5000, **(PRIORITIZED if prioritized else {})))
    driver.connect(2)
    present: list[str] = []
    sent = acked = 0
    for step in steps:
        match step:
            case ("send", kind, group, priority):
                sent += 1
                sequence = -1 if priority == 9 else 0
                properties = {"kind": str(kind)} if kind else {}
                driver.send(properties=properties, group=str(group), sequence=sequence, priority=int(str(priority)))
            case ("subscribe", options, prefetch) if len(present) < 4:
                name = f"c{driver.requests}"
                driver.subscribe(
                    name, Q, int(str(prefetch)), connection=1 + len(present) % 2, **OPTIONS[int(str(options))]
                )  # type: ignore[arg-type]
                present.append(name)
            case ("ack", number) if present:
                name = present[int(str(number)) % len(present)]
                held = list(driver.broker._consumers[name].dispatched)
                if held:
                    assert driver.ack(held[0].reference.message.message_id, name) == ""
                    acked += 1
            case ("leave", number) if present:
                driver.leave(present.pop(int(str(number)) % len(present)), -1)
    for name in present:
        driver.leave(name, -1)
    driver.subscribe("last", Q, 1000)
    taken = 0
    while taken < len(driver.got("last")):
        assert driver.ack(driver.got("last")[taken], "last") == ""
        taken += 1
    numbers = [int(message_id[1:]) for message_id in driver.got("last")]
    assert len(numbers) == sent - acked
    if not prioritized:
        assert numbers == sorted(numbers)


# -- the window that a consumer is granted

ENTRY = DestinationPolicy(
    ">", queue_prefetch=11, queue_browser_prefetch=12, topic_prefetch=13, durable_topic_prefetch=14
)


@pytest.mark.parametrize(
    ("entry", "destination", "asked", "browser", "granted"),
    [
        (None, Q, -1, False, 1000),
        (None, Q, -1, True, 500),
        (None, T, -1, False, 32767),
        (None, Q, 999, False, 999),
        (ENTRY, Q, -1, False, 11),
        (ENTRY, Q, 1000, False, 11),
        (ENTRY, Q, 999, False, 999),
        (ENTRY, Q, 500, False, 500),
        (ENTRY, Q, 500, True, 12),
        (ENTRY, T, 32767, False, 13),
        (ENTRY, T, 1000, False, 1000),
        (ENTRY, Q, 0, False, 0),
    ],
)
def test_the_entry_replaces_what_is_exactly_the_default(
    entry: DestinationPolicy | None, destination: str, asked: int, browser: bool, granted: int
) -> None:
    driver = Driver(config_of(destinations=[entry] if entry else []))
    driver.subscribe("c", destination, asked, browser=browser)
    assert driver.broker._consumers["c"].prefetch == granted


def test_without_extension_delivered_widens_no_window() -> None:
    for extends, seen in ((True, ["m1", "m2"]), (False, ["m1"])):
        driver = Driver(config_of(destinations=[DestinationPolicy(">", use_prefetch_extension=extends)]))
        driver.subscribe("c", prefetch=1)
        send(driver, "", "")
        assert driver.ack("m1", kind=DELIVERED) == ""
        assert driver.got() == seen
