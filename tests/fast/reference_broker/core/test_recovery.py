"""Recovery: a broker built again from its journal has every persistent message at its place, and nothing else.

The driver feeds every record to the fold and compares it with the broker after each event (``audit.check_journal``);
``restarted`` builds a new broker from that fold."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.effects import Journalled
from brokerproof.reference_broker.core.events import (
    INDIVIDUAL,
    POISON,
    Begin,
    Commit,
    Move,
    RemoveQueue,
    RemoveSubscription,
    Send,
    StorageChanged,
    Subscribe,
)
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.records import MessageAdded, MessageRemoved
from brokerproof.reference_broker.core.recovery import Recovered
from brokerproof.reference_broker.storage.memory import MemoryJournal
from tests.fast.reference_broker.core.driver import DLQ, Driver, Q, T, config_of

PERSISTENT = config_of(persistent=True)


def restarted(old: Driver, down_ms: int = 0, step_ms: int = 0) -> Driver:
    """The same broker after its process died: ``down_ms`` of true time later, its wall clock stepped by ``step_ms``."""
    new = Driver(PERSISTENT)
    new.mono_ns = 77  # elapsed time of another process
    new.wall_ms = old.wall_ms + down_ms + step_ms
    storage = MemoryJournal()  # so that no message object is shared
    storage.append([*old.journal.subscriptions.values(), *old.journal.messages.values()])
    storage.sync()
    new.journal = Recovered(storage.replay())
    for effect in new.broker.restore(storage.replay(), Now(new.mono_ns, new.wall_ms)):
        if isinstance(effect, Journalled):
            new.journal.feed(effect.record)
    new.broker.check(new.journal)
    return new


def drained(driver: Driver, destination: str = Q) -> list[str]:
    """What a consumer gets now, in order."""
    driver.subscribe("last", destination, 1000)
    return driver.got("last")


def test_an_idle_journal_writes_nothing() -> None:
    driver = Driver()
    driver.send()
    assert not [e for e in driver.effects if isinstance(e, Journalled)]


def test_waiting_messages_come_back_in_order_and_only_the_persistent_ones() -> None:
    driver = Driver(PERSISTENT)
    for number in range(5):
        driver.send(persistent=number != 2)
    assert drained(restarted(driver)) == ["m1", "m2", "m4", "m5"]


def test_a_new_message_stands_behind_restored_ones_also_after_another_restart() -> None:
    driver = Driver(PERSISTENT)
    for _ in range(3):
        driver.send()
    driver.subscribe(prefetch=1)
    driver.ack("m1")
    driver = restarted(driver)
    driver.send(message_id="new")
    assert drained(restarted(driver)) == ["m2", "m3", "new"]


def test_what_was_in_flight_comes_back_at_its_place_and_unmarked() -> None:
    driver = Driver(PERSISTENT)
    for _ in range(3):
        driver.send()
    driver.subscribe(prefetch=2)
    driver.ack("m2", kind=INDIVIDUAL)
    driver = restarted(driver)
    assert drained(driver) == ["m1", "m3"]
    assert [d.redelivery_count for d in driver.dispatches] == [0, 0]


def test_a_message_that_died_is_on_the_dead_letter_queue_and_nowhere_else() -> None:
    driver = Driver(PERSISTENT)
    driver.send()
    driver.send()
    driver.subscribe()
    effects = len(driver.effects)
    driver.ack("m1", kind=POISON)
    records = [e.record for e in driver.effects[effects:] if isinstance(e, Journalled)]
    assert [type(r) for r in records] == [MessageRemoved, MessageAdded], "one event, so one unit"
    driver = restarted(driver)
    assert drained(driver) == ["m2"]
    assert [dead_letter.original_destination for dead_letter in driver.dead_letters()] == [Q]


def test_purged_messages_stay_away_even_those_in_flight() -> None:
    driver = Driver(PERSISTENT)
    driver.send()
    driver.send(delay_ms=1000)
    driver.subscribe()
    driver.purge()
    assert drained(restarted(driver)) == []


def test_a_commit_is_one_unit_and_an_open_transaction_none() -> None:
    driver = Driver(PERSISTENT)
    assert driver.ask(Begin(1, "t", request=driver.request())) == ""
    for number in range(2):
        message = Message(f"t{number}", Q, b"", persistent=True)
        assert driver.ask(Send(1, message, transaction="t", request=driver.request())) == ""
    assert not driver.journal.messages
    effects = driver.handle(Commit(1, "t", request=driver.request()))
    assert len([e for e in effects if isinstance(e, Journalled)]) == 2
    assert drained(restarted(driver)) == ["t0", "t1"]


@pytest.mark.parametrize("memory", ["fair", "G1", "G2"])
def test_what_an_operator_did_is_remembered(memory: str) -> None:
    driver = Driver(config_of(persistent=True, generation={"memory": memory}))
    for number in range(3):
        driver.send(Q)
        driver.send("queue://gone", delay_ms=number * 1000)
    driver.handle(Move(Q, "queue://there", count=2, request=driver.request()))
    driver.handle(RemoveQueue("queue://gone", request=driver.request()))
    driver = restarted(driver)
    assert drained(driver) == ["m5"]
    driver.subscribe("there", "queue://there", 10)
    assert driver.got("there") == ["m1", "m3"]
    assert "queue://gone" not in driver.broker.destinations()


# -- delays


@pytest.mark.parametrize(
    ("down_ms", "step_ms", "waits_ms"),
    [
        (0, 0, 1000),
        (400, 0, 601),  # what was beyond the stored millisecond is not known: never early
        (1000, 0, 1),
        (5000, 0, 0),
        (0, -60_000, 1000),  # never longer than the original
        (0, 60_000, 0),
        (400, 100, 501),
    ],
)
def test_a_delayed_message_waits_for_the_rest_by_the_wall_clock(down_ms: int, step_ms: int, waits_ms: int) -> None:
    driver = Driver(PERSISTENT)
    driver.send(delay_ms=1000)
    driver = restarted(driver, down_ms, step_ms)
    driver.subscribe()
    if waits_ms:
        driver.advance(waits_ms - 1)
        assert driver.got() == []
        driver.advance(1)
    assert driver.got() == ["m1"]


def test_a_released_message_keeps_the_place_that_it_got() -> None:
    driver = Driver(PERSISTENT)
    driver.send(message_id="late", delay_ms=1000)
    driver.send(message_id="first")
    driver.advance(1000)
    driver.send(message_id="last")
    assert drained(restarted(driver)) == ["first", "late", "last"]


def test_due_messages_join_behind_the_visible_ones_and_stay_there() -> None:
    driver = Driver(PERSISTENT)
    driver.send(message_id="second", delay_ms=900)
    driver.send(message_id="first", delay_ms=800)
    driver.send(message_id="zero")
    driver = restarted(driver, down_ms=2000)
    driver.send(message_id="after")
    assert drained(restarted(driver)) == ["zero", "first", "second", "after"]


def test_memory_is_empty_after_a_restart() -> None:
    driver = Driver(PERSISTENT)
    for number in range(6):
        driver.send(size=1024, persistent=number % 2 == 0)
    assert driver.counters("size", "memory_bytes") == (6, 6 * 2048)
    new = restarted(driver)
    assert new.counters("size", "memory_bytes") == (3, 0)
    assert new.broker.broker_counters()["memory_bytes"] == 0


def test_a_message_that_expired_meanwhile_is_not_delivered() -> None:
    driver = Driver(PERSISTENT)
    driver.send(ttl_ms=1000)
    driver.send(ttl_ms=1000, delay_ms=500)
    driver = restarted(driver, down_ms=1500)
    assert drained(driver) == []
    assert len(driver.dead_letters()) == 2


def test_recovering_twice_gives_what_recovering_once_gives() -> None:
    driver = Driver(PERSISTENT)
    for number in range(4):
        driver.send(delay_ms=100 * (number % 2), destination=DLQ if number == 3 else Q)
    once = restarted(driver, down_ms=1000)
    twice = restarted(once)
    assert drained(once) == drained(twice) == ["m1", "m3", "m2"]
    assert drained_ids(once) == drained_ids(twice) == ["m4"]


def drained_ids(driver: Driver) -> list[str]:
    return [dead_letter.message_id for dead_letter in driver.dead_letters()]


def test_counters_of_a_restored_queue_balance_and_its_ids_are_taken() -> None:
    driver = Driver(PERSISTENT)
    driver.send()
    driver.send(delay_ms=500)
    driver = restarted(driver)
    assert driver.counters("size", "enqueued", "dequeued", "scheduled") == (1, 1, 0, 1)
    assert driver.ask(Send(1, Message("m2", Q, b""), request=driver.request())) == "duplicate-id"


# -- a storage in trouble


def test_a_storage_in_trouble_refuses_persistent_messages_only() -> None:
    driver = Driver(PERSISTENT)
    driver.send()
    driver.handle(StorageChanged("storage-full", "the storage is full; consume messages"))
    refused = Send(1, Message("p", Q, b"", persistent=True), request=driver.request())
    assert driver.ask(refused) == "storage-full"
    driver.send(persistent=False)
    driver.subscribe()
    driver.ack("m1")
    driver.handle(StorageChanged("", ""))
    driver.send()
    assert driver.got() == ["m1", "m2", "m3"]


# -- durable subscriptions


def durable(driver: Driver, consumer: str, *, destination: str = T, no_local: bool = False) -> list[str]:
    """The durable subscriber takes up its subscription; what it got so far, in order."""
    driver.connect(50)
    driver.connections[consumer] = 50
    request = driver.request()
    event = Subscribe(50, consumer, destination, 10, durable="sub", no_local=no_local, request=request)
    assert driver.ask(event) == ""
    return driver.got(consumer)


@pytest.mark.parametrize("no_local", [False, True])
def test_a_durable_subscription_outlives_the_broker_with_its_backlog(no_local: bool) -> None:
    driver = Driver(PERSISTENT)
    assert durable(driver, "d", no_local=no_local) == []
    for number in range(4):
        driver.send(T, persistent=number != 1)
    driver.ack("m1", "d")
    driver.drop("d")
    driver.send(T)
    driver.send(T, delay_ms=1000)
    driver = restarted(driver, down_ms=300)
    driver.send(T, "while-nobody-is-there")
    driver = restarted(driver)
    assert durable(driver, "d", no_local=no_local) == ["m3", "m4", "m5", "while-nobody-is-there"]
    driver.advance(699)
    assert len(driver.got("d")) == 4
    driver.advance(2)  # never early, so up to a millisecond late
    assert driver.got("d")[-1] == "m6"
    driver.ack("m6", "d")
    assert not driver.journal.messages


def test_an_ended_subscription_takes_its_messages_with_it_and_leaves_those_of_others() -> None:
    driver = Driver(PERSISTENT)
    durable(driver, "d")
    driver.connect(51)
    assert driver.ask(Subscribe(51, "e", T, 10, durable="other", request=driver.request())) == ""
    driver.send(T)
    driver.drop("d")
    driver.connect(50)
    assert driver.ask(RemoveSubscription(50, "sub", request=driver.request())) == ""
    assert [added.holders for added in driver.journal.messages.values()] == [("client-51:other",)]
    driver = restarted(driver)
    assert list(driver.journal.subscriptions) == ["client-51:other"]
    assert durable(driver, "d") == []


def test_a_durable_wildcard_collects_from_topics_that_come_after_the_restart() -> None:
    driver = Driver(PERSISTENT)
    durable(driver, "d", destination="topic://a.*")
    driver.drop("d")
    driver = restarted(driver)
    driver.send("topic://a.new", "late")
    driver.send("topic://b.new", "elsewhere")
    assert durable(restarted(driver), "d", destination="topic://a.*") == ["late"]
