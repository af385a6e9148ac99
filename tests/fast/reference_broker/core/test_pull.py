"""Consumers that do not just consume: pull consumers (prefetch 0) and queue browsers."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.effects import NoMessage
from brokerproof.reference_broker.core.events import (
    DELIVERED,
    EXPIRED,
    INDIVIDUAL,
    POISON,
    Move,
    Pull,
    Resize,
    Subscribe,
)
from tests.fast.reference_broker.core.driver import DLQ, Driver, Q, T, config_of


def pull(driver: Driver, timeout_ms: int, consumer: str = "c") -> str:
    return driver.ask(Pull(driver.connections[consumer], consumer, timeout_ms, request=driver.request()))


def ends(driver: Driver, consumer: str = "c") -> int:
    return sum(1 for effect in driver.effects if isinstance(effect, NoMessage) and effect.consumer == consumer)


# -- pull


def test_one_message_per_pull() -> None:
    driver = Driver()
    driver.subscribe("c", prefetch=0)
    for _ in range(3):
        driver.send()
    assert driver.got() == []
    for count in (1, 2):
        assert pull(driver, 0) == ""
        assert driver.got() == ["m1", "m2"][:count]
    driver.ack("m1")
    assert driver.got() == ["m1", "m2"]
    assert driver.ack("m2", kind=DELIVERED) == ""
    assert driver.got() == ["m1", "m2"]
    assert ends(driver) == 0


@pytest.mark.parametrize("destination", [Q, T])
def test_a_pull_for_ever_waits_for_the_next_message(destination: str) -> None:
    driver = Driver()
    driver.subscribe("c", destination, prefetch=0)
    pull(driver, 0)
    driver.advance(1_000_000)
    driver.send(destination)
    driver.send(destination)
    assert (driver.got(), ends(driver)) == (["m1"], 0)


def test_a_pull_that_does_not_wait_is_answered_at_once() -> None:
    driver = Driver()
    driver.subscribe("c", prefetch=0)
    pull(driver, -1)
    assert (driver.got(), ends(driver)) == ([], 1)
    driver.send()
    assert driver.got() == []
    pull(driver, -1)
    assert (driver.got(), ends(driver)) == (["m1"], 1)


def test_a_pull_with_a_time_limit_ends_then_and_not_before() -> None:
    driver = Driver()
    driver.subscribe("c", prefetch=0)
    pull(driver, 100)
    driver.advance(99)
    assert ends(driver) == 0
    driver.advance(1)
    assert ends(driver) == 1
    driver.send()
    assert driver.got() == []
    pull(driver, 100)
    driver.advance(1000)
    assert (driver.got(), ends(driver)) == (["m1"], 1)
    assert driver.broker.next_due_ns() is None


def test_a_message_that_is_due_when_the_pull_ends_still_comes() -> None:
    driver = Driver()
    driver.subscribe("c", prefetch=0)
    driver.send(delay_ms=100)
    pull(driver, 100)
    driver.advance(100)
    assert (driver.got(), ends(driver)) == (["m1"], 0)


def test_a_newer_pull_takes_the_place_of_an_older() -> None:
    driver = Driver()
    driver.subscribe("c", prefetch=0)
    pull(driver, 100)
    pull(driver, 300)
    driver.advance(200)
    assert ends(driver) == 0
    driver.send()
    driver.send()
    assert driver.got() == ["m1"]
    driver.advance(200)
    assert ends(driver) == 0


def test_expired_messages_do_not_use_a_pull_up() -> None:
    driver = Driver()
    driver.subscribe("c", prefetch=0)
    driver.send(ttl_ms=5)
    driver.send()
    driver.step_wall(6)
    pull(driver, -1)
    assert (driver.got(), ends(driver), driver.counter("expired")) == (["m2"], 0, 1)


def test_a_consumer_that_leaves_takes_its_pull_along() -> None:
    driver = Driver()
    driver.subscribe("c", prefetch=0)
    pull(driver, 100)
    driver.leave("c")
    driver.advance(200)
    assert ends(driver) == 0
    driver.subscribe("c", prefetch=0)
    pull(driver, 500)
    driver.drop("c")
    assert driver.broker.next_due_ns() is None


def test_a_selector_chooses_for_a_pull_too() -> None:
    driver = Driver()
    driver.subscribe("c", prefetch=0, selector="kind = 'b'")
    driver.send(properties={"kind": "a"})
    pull(driver, -1)
    driver.send(properties={"kind": "b"})
    pull(driver, -1)
    assert (driver.got(), ends(driver)) == (["m2"], 1)


def test_a_consumer_that_pulls_from_now_on_loses_no_pull_when_it_acknowledges() -> None:
    """Its client takes the window away from it, or gives it one again."""
    driver = Driver()
    driver.send()
    driver.subscribe(prefetch=5)
    assert driver.ask(Resize(driver.connections["c"], "c", 0, request=driver.request())) == ""
    assert pull(driver, 0) == ""
    driver.ack("m1")
    driver.send()
    assert driver.got() == ["m1", "m2"]
    assert driver.ask(Resize(driver.connections["c"], "c", 1, request=driver.request())) == ""
    driver.ack("m2", kind=DELIVERED)
    driver.send()
    assert driver.got() == ["m1", "m2", "m3"]


def test_who_has_a_window_may_not_pull() -> None:
    driver = Driver()
    driver.subscribe("c")
    assert pull(driver, 0) == "bad-pull"
    assert driver.ask(Pull(1, "x", 0, request=driver.request())) == "unknown-consumer"


# -- browsers


def test_a_browser_sees_everything_in_order_and_takes_nothing() -> None:
    driver = Driver()
    for _ in range(4):
        driver.send()
    driver.send(delay_ms=1000)
    driver.subscribe("c", prefetch=2)
    driver.subscribe("b", browser=True)
    assert (driver.got("b"), ends(driver, "b")) == (["m1", "m2", "m3", "m4"], 1)
    driver.transmit()
    assert driver.counters("size", "in_flight", "dispatched", "dequeued", "consumers") == (4, 6, 6, 0, 2)
    driver.ack("m2", "b")
    assert driver.counters("size", "in_flight", "dequeued") == (4, 4, 0)
    driver.leave("b")
    assert driver.counters("size", "in_flight", "dequeued", "consumers") == (4, 2, 0, 1)
    driver.send()
    assert ends(driver, "b") == 1
    assert driver.got("c") == ["m1", "m2"]


@pytest.mark.parametrize("kind", [INDIVIDUAL, POISON, EXPIRED])
def test_no_acknowledgement_of_a_browser_touches_a_message(kind: int) -> None:
    driver = Driver()
    driver.send(ttl_ms=60_000)
    driver.subscribe("b", browser=True)
    assert driver.ack("m1", "b", kind) == ""
    driver.subscribe("c")
    assert (driver.got("c"), driver.counter("size"), driver.counter("size", DLQ)) == (["m1"], 1, 0)
    assert driver.dispatches[-1].redelivery_count == 0


def test_a_browser_with_a_small_window_goes_on_when_it_acknowledges() -> None:
    driver = Driver()
    for _ in range(3):
        driver.send()
    driver.subscribe("b", browser=True, prefetch=1)
    assert (driver.got("b"), ends(driver, "b")) == (["m1"], 0)
    driver.subscribe("c", prefetch=2)
    driver.ack("m2", "c")  # m2 is gone before its turn
    driver.ack("m1", "b")
    assert (driver.got("b"), ends(driver, "b")) == (["m1", "m3"], 1)


def test_a_browser_chooses_skips_the_dead_and_is_limited() -> None:
    driver = Driver(config_of(destinations=[DestinationPolicy(">", expire_period_ms=0, max_browse_page_size=2)]))
    driver.send(ttl_ms=5, properties={"kind": "b"})
    driver.send(properties={"kind": "a"})
    for _ in range(3):
        driver.send(properties={"kind": "b"})
    driver.step_wall(6)
    driver.subscribe("b", browser=True, selector="kind = 'b'")
    assert (driver.got("b"), ends(driver, "b")) == (["m3", "m4"], 1)
    assert driver.counter("size") == 5


def test_an_empty_queue_is_seen_at_once_and_a_topic_never() -> None:
    driver = Driver()
    driver.subscribe("b", browser=True)
    assert ends(driver, "b") == 1
    event = Subscribe(1, "x", f"{Q},{T}", 10, browser=True, request=driver.request())
    assert driver.ask(event) == "bad-destination"


@pytest.mark.parametrize("name", ["queue://a,queue://b", "queue://*"])
def test_a_browser_of_several_queues_is_told_once_that_it_has_seen_all(name: str) -> None:
    """A client stops at the first end."""
    driver = Driver()
    for queue in ("queue://a", "queue://b", "queue://b"):
        driver.send(queue)
    driver.subscribe("b", name, prefetch=2, browser=True)
    assert (driver.got("b"), ends(driver, "b")) == (["m1", "m2"], 0)
    driver.ack("m1", "b")
    assert (driver.got("b"), ends(driver, "b")) == (["m1", "m2", "m3"], 1)
    driver.send("queue://later")
    assert (driver.got("b"), ends(driver, "b")) == (["m1", "m2", "m3"], 1)


def test_a_browser_whose_wildcard_covers_nothing_is_told_at_once() -> None:
    driver = Driver()
    driver.subscribe("b", "queue://none.>", browser=True)
    assert ends(driver, "b") == 1


def test_an_exclusive_consumer_does_not_shut_a_browser_out() -> None:
    driver = Driver()
    driver.subscribe("c", exclusive=True, prefetch=1)
    driver.send(group="g")
    driver.send(group="g")
    driver.subscribe("b", browser=True)
    driver.drop("b")
    assert (driver.got("b"), driver.got("c")) == (["m1", "m2"], ["m1"])


@pytest.mark.parametrize("generation", ["G0", "G1", "G2", "G3"])
def test_the_generations_load_a_page_to_show_it(generation: str) -> None:
    limit = DestinationPolicy(">", expire_period_ms=0, max_browse_page_size=3, use_cache=False)
    driver = Driver(config_of(generation={"memory": generation}, destinations=[limit]))
    for _ in range(5):
        driver.send()
    driver.subscribe("b", browser=True)
    assert (driver.got("b"), ends(driver, "b")) == (["m1", "m2", "m3"], 1)


@pytest.mark.parametrize("generation", ["G0", "G1", "G2", "G3"])
def test_what_a_browser_or_a_move_loads_is_for_consumers_too(generation: str) -> None:
    """A page of messages that nobody wants stands before what a consumer waits for."""
    for look in (
        lambda driver: driver.subscribe("b", browser=True),
        lambda driver: driver.handle(Move(Q, "queue://r", selector="kind = 'c'")),
    ):
        entry = DestinationPolicy(">", max_page_size=2, expire_period_ms=0)
        driver = Driver(config_of(destinations=[entry], generation={"memory": generation}))
        driver.subscribe("a", selector="kind = 'a'")
        for kind in ("b", "b", "a", "a"):
            driver.send(properties={"kind": kind})
        assert driver.got("a") == []
        look(driver)
        assert driver.got("a") == ["m3", "m4"]
