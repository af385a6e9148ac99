"""Memory: charging, the high-water mark, page-in, and who starves in which generation (seed 002; the test bed of the
notes: 1 MiB, messages of 2048 bytes).
"""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.events import EXPIRED, INDIVIDUAL, POISON, STANDARD
from brokerproof.reference_broker.core.memory import Memory, Usage
from brokerproof.reference_broker.core.message import Message
from tests.fast.reference_broker.core.driver import DLQ, START_MS, Driver, Q, T, config_of

MIB = 1024 * 1024
S = 2048  # a message of the test bed
A, B = "queue://A", "queue://B"


def make_driver(
    memory: str = "fair", limit: int = MIB, policies: list[DestinationPolicy] | None = None, **settings: object
) -> Driver:
    destinations = policies if policies is not None else [DestinationPolicy(">", expire_period_ms=0)]
    return Driver(
        config_of(generation={"memory": memory}, memory_limit_bytes=limit, destinations=destinations, **settings)
    )


def fill(d: Driver, destination: str, count: int) -> None:
    for _ in range(count):
        d.send(destination, size=1024)


@pytest.mark.parametrize(
    ("body", "properties", "size"),
    [
        (b"", {}, 1024),
        (b"x", {}, 1025),
        (b"x" * 1024, {}, 2048),
        (b"", {"k": "value"}, 1030),
        (b"x" * MIB, {}, MIB + 1024),
    ],
)
def test_what_a_message_costs(body: bytes, properties: dict[str, str], size: int) -> None:
    assert Memory().size_bytes(Message("m", Q, body, properties=properties)) == size


@pytest.mark.parametrize(
    ("used", "limit", "percent"),
    [
        (0, 100, 0),
        (358 * S, MIB, 69),
        (359 * S, MIB, 70),
        (511 * S, MIB, 99),
        (512 * S, MIB, 100),
        (2 * MIB, MIB, 200),
        (5, 0, 0),
    ],
)
def test_percentages_are_floored(used: int, limit: int, percent: int) -> None:
    usage = Usage(limit, None)
    usage.change(used)
    assert usage.percent() == percent
    assert usage.is_below(70) is (percent < 70)


@pytest.mark.parametrize("memory", ["fair", "G1"])
@pytest.mark.parametrize(("mark", "cached"), [(1, 6), (50, 256), (70, 359), (99, 507), (100, 512)])
def test_messages_cached_on_send_up_to_the_mark(memory: str, mark: int, cached: int) -> None:
    """ceil(mark x limit / (100 x size)): the message that crosses the mark is still cached."""
    unthrottled = [DestinationPolicy(">", expire_period_ms=0, producer_flow_control=False)]
    d = make_driver(memory, policies=unthrottled, memory_high_water_percent=mark)
    fill(d, B, cached + 40)
    assert d.counters("memory_bytes", "size", destination=B) == (cached * S, cached + 40)
    assert d.broker.broker_counters()["memory_bytes"] == cached * S


@pytest.mark.parametrize("memory", ["fair", "G1"])
def test_dispatching_releases_nothing_and_settling_releases_exactly_the_message(memory: str) -> None:
    d = make_driver(memory)
    fill(d, Q, 5)
    d.subscribe()
    d.transmit()
    assert d.counter("memory_bytes") == 5 * S
    for kind, last, left in ((STANDARD, "m1", 4), (INDIVIDUAL, "m3", 3), (EXPIRED, "m2", 2)):
        d.ack(last, kind=kind, first="" if kind == INDIVIDUAL else last)
        assert d.counter("memory_bytes") == left * S
    d.drop()
    assert d.counter("memory_bytes") == 2 * S  # what came back stays in memory
    d.purge()
    d.purge(DLQ)
    assert d.broker.broker_counters()["memory_bytes"] == 0


@pytest.mark.parametrize("memory", ["fair", "G1"])
def test_beyond_the_mark_messages_are_accepted_and_paged_in_later_in_order(memory: str) -> None:
    d = make_driver(memory, limit=20 * S, page_size=3)
    fill(d, Q, 50)
    assert d.counters("size", "memory_bytes") == (50, 14 * S)
    d.subscribe(prefetch=4)
    for number in range(1, 51):
        assert d.got()[number - 1] == f"m{number}"
        d.ack(f"m{number}")
    assert d.counters("size", "memory_bytes") == (0, 0)
    assert d.got() == [f"m{n}" for n in range(1, 51)]


def test_g1_the_cache_comes_back_only_when_the_queue_has_handed_over_everything() -> None:
    d = make_driver("G1", limit=20 * S, page_size=1)
    fill(d, Q, 20)
    d.subscribe(prefetch=1)
    for number in range(1, 9):
        d.ack(f"m{number}")
    before = d.counter("memory_bytes")
    fill(d, Q, 1)
    assert d.counter("memory_bytes") == before  # plenty of room, still not cached
    for number in range(9, 22):
        d.ack(f"m{number}")
    fill(d, Q, 2)
    assert d.counters("memory_bytes", "size") == (2 * S, 2)


def starvation(memory: str, hoard: int = 400) -> Driver:
    d = make_driver(memory)
    fill(d, B, hoard)
    fill(d, A, 10)
    return d


def test_g1_a_queue_full_of_waiting_messages_starves_the_consumers_of_others() -> None:
    d = starvation("G1")
    assert d.counters("memory_percent", "size", destination=B) == (70, 400)
    assert d.counters("memory_percent", "size", destination=A) == (0, 10)
    d.subscribe("c", A, 1000)
    d.advance(60_000)
    assert d.got() == []
    assert d.counters("in_flight", "consumers", "size", destination=A) == (0, 1, 10)
    assert d.logged("queue://A cursor blocked") == 1


def test_g1_one_message_below_the_mark_the_gate_is_open_for_a_whole_page() -> None:
    d = starvation("G1", 358)  # the first message of A is cached and closes the gate for the others
    d.subscribe("c", A, 1000)
    assert len(d.got()) == 1
    d.ack("m359")
    assert len(d.got()) == 10
    assert d.broker.broker_counters()["memory_bytes"] == (358 + 9) * S


def test_g1_many_small_hoarders_starve_like_one() -> None:
    d = make_driver("G1")
    for number in range(400):
        d.send(f"queue://B{number % 5}", size=1024)
    fill(d, A, 1)
    d.subscribe("c", A)
    assert d.got() == []
    assert max(d.counter("memory_percent", f"queue://B{n}") for n in range(5)) == 14


def test_g1_memory_freed_elsewhere_wakes_nobody_but_an_event_of_the_own_queue_does() -> None:
    d = starvation("G1")
    d.subscribe("c", A, 1000)
    d.purge(B)
    d.advance(60_000)
    assert d.got() == []
    fill(d, A, 1)
    assert len(d.got()) == 11


def test_g1_the_sweep_wakes_a_starving_queue() -> None:
    d = make_driver("G1", policies=[DestinationPolicy(">", expire_period_ms=6000)])
    fill(d, B, 400)
    fill(d, A, 10)
    d.subscribe("c", A, 1000)
    d.advance(10_000)
    assert d.got() == []
    d.purge(B)
    d.advance(1999)
    assert d.got() == []
    d.advance(1)
    assert len(d.got()) == 10
    assert d.broker.next_due_ns() is None


def test_g1_page_in_reads_a_whole_page_past_any_limit() -> None:
    d = make_driver(
        "G1", policies=[DestinationPolicy("A", expire_period_ms=0, memory_limit_bytes=100 * S)], page_size=200
    )
    fill(d, A, 500)
    assert d.counter("memory_bytes", A) == 70 * S
    d.subscribe("c", A, 1000)
    assert len(d.got()) == 70  # the own mark is the gate
    d.ack("m70")
    assert (len(d.got()), d.counter("memory_percent", A)) == (270, 200)


@pytest.mark.parametrize("hoard", [300, 359, 400, 1000])
def test_fair_the_same_story_starves_nobody(hoard: int) -> None:
    d = starvation("fair", hoard)
    d.subscribe("c", A, 1000)
    assert len(d.got()) == 10


def test_fair_waiting_messages_of_the_largest_holder_give_way_newest_first() -> None:
    d = make_driver(limit=20 * S)
    fill(d, B, 12)
    fill(d, "queue://C", 2)
    fill(d, A, 30)
    assert (d.counter("memory_bytes", B), d.counter("memory_bytes", A)) == (12 * S, 0)
    d.subscribe("c", A, 10)
    assert len(d.got()) == 10
    # 6 of 20 were free; 4 of B's gave way, none of C's
    assert (d.counter("memory_bytes", B), d.counter("memory_bytes", "queue://C")) == (8 * S, 2 * S)
    assert d.broker.broker_counters()["memory_bytes"] == 20 * S
    d.subscribe("b", B, 100)
    # eight from memory, two for which C's gave way, one from the reserve
    assert d.got("b") == [f"m{n}" for n in range(1, 12)]
    assert d.counter("memory_bytes", "queue://C") == 0


def test_fair_with_all_memory_in_flight_each_consumer_gets_one_message_uncharged() -> None:
    d = make_driver(limit=10 * S)
    fill(d, B, 20)
    d.subscribe("hoarder", B, 1000)
    assert len(d.got("hoarder")) == 10 + 1
    fill(d, A, 5)
    d.subscribe("a1", A, 1000)
    d.subscribe("a2", A, 1000)
    assert (d.got("a1"), d.got("a2")) == (["m21"], ["m22"])
    assert d.counter("memory_bytes", A) == 0
    assert d.broker.broker_counters()["memory_bytes"] == 10 * S
    d.ack("m21", "a1")
    assert d.got("a1") == ["m21", "m23"]


def test_fair_memory_freed_anywhere_wakes_those_who_wait() -> None:
    d = make_driver(limit=10 * S)
    fill(d, B, 10)
    d.subscribe("hoarder", B, 10)
    fill(d, A, 5)
    d.subscribe("a", A, 1000)
    assert d.got("a") == ["m11"]
    d.ack("m2", "hoarder")
    assert d.got("a") == ["m11", "m12", "m13"]
    d.drop("hoarder")  # what comes back can be evicted
    assert len(d.got("a")) == 5


@pytest.mark.parametrize("size", [10 * S - 1024, 10 * S - 1023, 50 * S])
def test_fair_a_message_larger_than_the_limit_is_delivered_and_never_charged(size: int) -> None:
    d = make_driver(limit=10 * S)
    d.send(Q, size=size)
    fits = size + 1024 <= 10 * S
    assert d.counter("memory_bytes") == (10 * S if fits else 0)
    d.send(Q)
    d.subscribe()
    assert d.got() == (["m1", "m2"])
    assert d.counter("memory_bytes") == (10 * S if fits else 1024)
    d.ack("m2")
    assert d.counters("size", "memory_bytes") == (0, 0)


def test_fair_a_destination_limit_binds_its_own_destination_only() -> None:
    d = make_driver(policies=[DestinationPolicy("A", memory_limit_bytes=5 * S, expire_period_ms=0)])
    fill(d, A, 30)
    assert d.counters("memory_bytes", "memory_percent", destination=A) == (4 * S, 80)  # 70 % of 5 is 3.5
    d.subscribe("c", A, 20)
    assert d.counters("memory_bytes", "memory_percent", destination=A) == (5 * S, 100)
    assert len(d.got()) == 6
    fill(d, B, 3)
    assert d.counter("memory_bytes", B) == 3 * S


def test_fair_the_own_backlog_gives_way_to_the_own_dispatch() -> None:
    """What came back is in memory behind nothing; a refused message must be loaded before it."""
    generation = {"expiry": "documented"}
    d = Driver(config_of(generation=generation, memory_limit_bytes=4 * S, memory_high_water_percent=100))
    fill(d, Q, 4)
    d.subscribe("a", prefetch=1)
    d.ack("m1", "a", EXPIRED, first="m1")
    fill(d, Q, 1)
    assert d.got("a") == ["m1", "m2"]
    d.subscribe("b", prefetch=1)
    assert d.got("b") == ["m1"]
    assert d.counter("memory_bytes") == 4 * S


def test_fair_nobody_gives_way_to_a_message_that_cannot_fit_anyway() -> None:
    d = make_driver(limit=10 * S)
    fill(d, B, 5)
    d.send(A, size=50 * S)
    fill(d, A, 2)
    d.subscribe("c", A)
    assert len(d.got()) == 3
    d.drop()
    d.subscribe("next", A, 1)
    assert d.got("next") == ["m6"]
    assert (d.counter("memory_bytes", A), d.counter("memory_bytes", B)) == (2 * S, 5 * S)


def test_waiting_for_memory_is_logged_once_not_at_every_try() -> None:
    d = make_driver(limit=10 * S)
    fill(d, B, 10)
    d.subscribe("hoarder", B, 10)
    d.send(A, size=9 * S)
    d.send(A, size=9 * S)
    d.subscribe("c", A)
    for number in range(1, 5):
        d.ack(f"m{number}", "hoarder")
    assert d.logged("queue://A cursor blocked") == 1


def test_g1_topics_have_no_gate() -> None:
    d = make_driver("G1")
    fill(d, B, 400)
    d.subscribe("t", T)
    fill(d, T, 1)
    assert d.got("t") == ["m401"]


@pytest.mark.parametrize("memory", ["fair", "G1"])
def test_no_limit(memory: str) -> None:
    d = make_driver(memory, limit=0)
    fill(d, Q, 600)
    assert d.counters("memory_bytes", "memory_percent") == (600 * S, 0)
    d.subscribe(prefetch=1000)
    for _ in range(2):
        d.ack(d.got()[-1])  # a page at a time, in G1
    assert len(d.got()) == 600


def test_a_late_acknowledgement_of_a_purged_message_frees_the_reserve_and_nothing_else() -> None:
    d = make_driver(limit=S)
    fill(d, Q, 4)
    d.subscribe(prefetch=10)
    assert d.got() == ["m1", "m2"]  # one charged, one from the reserve
    d.purge()
    assert d.counter("memory_bytes") == 0
    fill(d, Q, 3)
    assert d.got() == ["m1", "m2", "m5"]
    d.ack("m2", kind=INDIVIDUAL)
    assert d.got() == ["m1", "m2", "m5", "m6"]
    d.ack("m6", kind=STANDARD)
    d.ack("m7", kind=POISON)
    d.purge(DLQ)
    assert d.broker.broker_counters()["memory_bytes"] == 0


def test_a_topic_that_waits_for_memory_is_woken_too() -> None:
    d = make_driver(limit=2 * S)
    fill(d, Q, 2)
    d.subscribe("hoarder", prefetch=2)
    d.subscribe("t", T, 10)
    fill(d, T, 3)
    assert d.got("t") == ["m3"]
    d.ack("m2", "hoarder")
    assert d.got("t") == ["m3", "m4", "m5"]


def test_expired_and_dead_lettered_messages_move_their_charge() -> None:
    d = make_driver()
    d.send(Q, size=1024, expiration_ms=START_MS + 5)
    assert (d.counter("memory_bytes"), d.counter("memory_bytes", DLQ)) == (S, 0)
    d.advance(6)
    d.subscribe()
    extra = d.counter("memory_bytes", DLQ) - S
    assert d.counter("memory_bytes") == 0
    assert 0 < extra < 200  # the properties that explain the death
