"""GEN-130, GEN-131, GEN-140 to GEN-142, GEN-145, GEN-160 on hand-written histories: inventions, figures."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import DLQ, EPOCH_MS, Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def kind(story: Builder, requirement: str) -> VerdictKind:
    return story.verdicts(requirement)[requirement].verdict


def arrived(sent: dict[str, Any], **seen: Any) -> Builder:
    return Builder().connect("p0").connect("c0").subscribe("c0/1").send("p0/1", **sent).arrive("c0/1", "p0/1", **seen)


@pytest.mark.parametrize(("world", "told"), [("simulated", FAILS), ("live", SILENT)])
def test_what_a_real_broker_writes_on_a_dead_letter_is_its_own_affair(world: Any, told: VerdictKind) -> None:
    story = Builder(world).connect("p0").send("p0/1").drain(DLQ)
    assert kind(story.arrive("drain/1", "p0/1", dest=DLQ, properties=["why_it_died"]), "GEN-130") is told


def test_no_property_is_invented() -> None:
    assert kind(arrived({}, properties=["hops"]), "GEN-130") is FAILS
    assert kind(arrived({}, properties=["kind"]), "GEN-130") is FAILS
    assert kind(arrived({"message_kind": "a"}, properties=["kind"]), "GEN-130") is HOLDS
    assert kind(arrived({}, properties=["JMSXGroupFirstForConsumer", "originalDeliveryMode"]), "GEN-130") is SILENT
    assert kind(arrived({}, properties=["redeliveryCounter"]), "GEN-130") is SILENT
    assert kind(arrived({}), "GEN-130") is SILENT


def test_a_real_broker_may_name_what_it_adds_as_it_likes() -> None:
    def live(*properties: str) -> Builder:
        story = Builder("live").connect("p0").connect("c0").subscribe("c0/1")
        story = story.send("p0/1", headers={"seat_no": 1}).send("p0/2")
        return story.arrive("c0/1", "p0/2", properties=list(properties))

    assert kind(live("expires-at"), "GEN-130") is SILENT
    assert kind(live("seat_no"), "GEN-130") is FAILS


def test_nobody_asks_for_what_was_not_asked() -> None:
    assert kind(arrived({}, properties=["brokerproof_ttl_ms"]), "GEN-130") is FAILS
    assert kind(arrived({"life_ms": 500}, properties=["brokerproof_ttl_ms"]), "GEN-130") is SILENT
    assert kind(arrived({}, properties=["AMQ_SCHEDULED_DELAY"]), "GEN-130") is FAILS
    assert kind(arrived({"delay_ms": 5}, properties=["AMQ_SCHEDULED_DELAY"]), "GEN-130") is SILENT


def test_the_delivery_mode_is_kept() -> None:
    assert kind(arrived({}, persistent=True), "GEN-131") is HOLDS
    assert kind(arrived({}, persistent=False), "GEN-131") is FAILS
    assert kind(arrived({"persistent": False}, persistent=True), "GEN-131") is FAILS
    assert kind(arrived({"persistent": False}), "GEN-131") is SILENT
    letter = arrived({"persistent": False}).subscribe("c0/2", DLQ).arrive("c0/2", "p0/1", persistent=True)
    assert kind(letter, "GEN-131") is SILENT
    letter = arrived({}).subscribe("c0/2", DLQ).arrive("c0/2", "p0/1", persistent=False)
    assert kind(letter, "GEN-131") is FAILS


@pytest.mark.parametrize(
    ("sent", "seen", "expected"),
    [
        ({"correlation-id": "a:b"}, {"correlation-id": "a:b"}, HOLDS),
        ({"correlation-id": "a:b"}, {"correlation-id": "a"}, FAILS),
        ({"correlation-id": "a:b"}, {}, FAILS),
        ({}, {"reply-to": "temporary"}, FAILS),
        ({"seat_no": 2**63 - 1}, {"seat_no": str(2**63 - 1)}, HOLDS),
        ({"seat_no": 2**63 - 1}, {"seat_no": str(2**63)}, FAILS),
        ({"seat_no": 1}, {"seat_no": True}, FAILS),
        ({"was_paid": True}, {"was_paid": "true"}, HOLDS),
        ({"was_paid": True}, {"was_paid": "1"}, FAILS),
        ({"fare_eur": 1e300}, {"fare_eur": "1.0E300"}, HOLDS),
        ({"fare_eur": 0.5}, {"fare_eur": "half"}, FAILS),
        ({"trip_id": "1"}, {"trip_id": 1}, FAILS),
        ({"trip_id": "1"}, None, SILENT),
        ({}, {}, SILENT),
    ],
)
def test_headers_arrive_as_they_were_sent(
    sent: dict[str, Any], seen: dict[str, Any] | None, expected: VerdictKind
) -> None:
    assert kind(arrived({"headers": sent}, headers=seen), "GEN-160") is expected


@pytest.mark.parametrize(("count", "expected"), [(2, HOLDS), (3, FAILS), (0, FAILS), (None, SILENT)])
def test_operators_are_told_how_many(count: int | None, expected: VerdictKind) -> None:
    story = Builder().connect("p0").send("p0/1").send("p0/2").rest("q0", size=2, in_flight=0)
    assert kind(story.operate("purge", count=count), "GEN-140") is expected


def test_an_operator_who_comes_later_may_find_something_else() -> None:
    def story() -> Builder:
        return Builder().connect("p0").connect("c0").send("p0/1")

    late = story().rest("q0", size=1, in_flight=0).send("p0/2")
    assert kind(late.operate("purge", count=2), "GEN-140") is SILENT
    held = story().subscribe("c0/1").arrive("c0/1", "p0/1").rest("q0", size=1, in_flight=1)
    assert kind(held.operate("purge", count=0), "GEN-140") is SILENT
    dying = story().send("p0/2", expiration_ms=1).rest("q0", size=1, in_flight=0)
    assert kind(dying.operate("purge", count=0), "GEN-140") is SILENT


@pytest.mark.parametrize(("count", "expected"), [(1, SILENT), (3, SILENT), (4, FAILS)])
def test_an_operator_is_not_told_of_more_than_there_was(count: int, expected: VerdictKind) -> None:
    story = Builder().connect("p0").connect("c0").subscribe("c0/1").send("p0/1").send("p0/2").arrive("c0/1", "p0/1")
    for counters in ({"in_flight": 1}, {}):
        assert kind(deepcopy(story).rest("q0", size=2, **counters).operate("purge", count=count), "GEN-140") is expected


@pytest.mark.parametrize(("life", "expected"), [({}, FAILS), ({"expiration_ms": EPOCH_MS + 10**6}, SILENT)])
def test_what_dies_meanwhile_may_be_purged_from_the_dead_letters(life: dict[str, Any], expected: VerdictKind) -> None:
    story = Builder().connect("p0").send("p0/1", **life).rest(DLQ, size=1, in_flight=0)
    assert kind(story.operate("purge", DLQ, count=2), "GEN-140") is expected


def test_what_waited_for_room_may_be_purged_as_well() -> None:
    story = Builder().connect("p0").send("p0/1").rest("q0", size=1, in_flight=0).operate("purge", count=2)
    assert kind(story, "GEN-140") is FAILS
    story.send("p0/2")
    story.events[-1] = msgspec.structs.replace(story.events[-1], t0=0)
    assert kind(story, "GEN-140") is SILENT


@pytest.mark.parametrize(("to", "expected"), [("q1", SILENT), ("q2", FAILS)])
def test_what_was_sent_to_both_queues_is_not_moved(to: str, expected: VerdictKind) -> None:
    story = Builder().connect("p0").send("p0/1", "q0,q1").send("p0/2").rest("q0", size=2, in_flight=0)
    assert kind(story.operate("move", to=to, count=1), "GEN-140") is expected


@pytest.mark.parametrize(("enqueued", "expected"), [(1, FAILS), (2, HOLDS), (3, HOLDS), (4, FAILS)])
def test_a_topic_counts_what_is_published(enqueued: int, expected: VerdictKind) -> None:
    story = Builder().connect("p0").send("p0/1", "t0").send("p0/2", "t0").send("p0/3", "t0", result="unknown")
    assert kind(story.rest("t0", enqueued=enqueued), "GEN-141") is expected
    assert kind(story.at(9000).restart("stop").rest("t0", enqueued=0), "GEN-141") is expected


def test_no_figure_is_below_nothing() -> None:
    assert kind(Builder().rest("t0", scheduled=-1), "GEN-142") is FAILS
    assert kind(Builder().read("q0", size=-1), "GEN-142") is FAILS
    assert kind(Builder().read("q0", in_flight=-1, size=0), "GEN-142") is HOLDS


@pytest.mark.parametrize(("consumers", "expected"), [(0, FAILS), (1, FAILS), (2, HOLDS), (3, FAILS)])
def test_consumers_that_are_there_are_counted(consumers: int, expected: VerdictKind) -> None:
    story = Builder().connect("c0").connect("c1").connect("c2")
    story.subscribe("c0/1").subscribe("c1/1").subscribe("c2/1").subscribe("c2/2", "q1").leave("c2/1").at(5000)
    assert kind(story.rest(None, consumers=3), "GEN-145") is SILENT
    assert kind(story.rest("q0", consumers=consumers), "GEN-145") is expected


@pytest.mark.parametrize("consumers", [0, 2])
def test_the_broker_counts_its_own_consumers(consumers: int) -> None:
    story = Builder().connect("c0").subscribe("c0/1", "q*").subscribe("c0/2", "q1").leave("c0/2").at(5000)
    assert kind(story.rest(None, consumers=consumers), "GEN-145") is FAILS


@pytest.mark.parametrize(("consumers", "expected"), [(0, SILENT), (1, SILENT), (2, FAILS)])
def test_who_may_be_there_may_be_counted(consumers: int, expected: VerdictKind) -> None:
    story = Builder().connect("c0").subscribe("c0/1", result="unknown").at(5000)
    assert kind(story.rest("q0", consumers=consumers), "GEN-145") is expected


@pytest.mark.parametrize(("result", "expected"), [("unknown", SILENT), ("ok", FAILS)])
def test_a_goodbye_without_an_answer_may_not_have_been_said(result: str, expected: VerdictKind) -> None:
    story = Builder().connect("c0").subscribe("c0/1", result="unknown").leave("c0/1", result).at(5000)
    assert kind(story.rest("q0", consumers=1), "GEN-145") is expected


@pytest.mark.parametrize(
    ("world", "durable", "expected"), [("simulated", "", FAILS), ("simulated", "d1", FAILS), ("live", "", SILENT)]
)
def test_where_a_consumer_is_there_are_figures(world: str, durable: str, expected: VerdictKind) -> None:
    story = Builder(world).connect("c0").subscribe("c0/1", "t0", durable=durable).at(5000)
    assert kind(story.rest(None, consumers=1).rest("t0"), "GEN-145") is expected
    before = Builder(world).connect("c0").rest(None, consumers=0).rest("t0").subscribe("c0/1", "t0", durable=durable)
    assert kind(before, "GEN-145") is not FAILS


@pytest.mark.parametrize("dest", ["q0", "t0"])
@pytest.mark.parametrize(("acknowledged", "expected"), [(0, FAILS), (1, HOLDS), (2, FAILS)])
def test_each_dispatch_has_one_end(dest: str, acknowledged: int, expected: VerdictKind) -> None:
    figures = {"dispatched": 3, "wasted": 1, "in_flight": 1, "acknowledged": acknowledged}
    assert kind(Builder().rest(dest, **figures), "INF-021") is expected
    again = {"dispatched": 0, "wasted": 0, "in_flight": 1, "acknowledged": 0}
    reset = Builder().connect("p0").send("p0/1", dest).operate("reset", dest).rest(dest, **again)
    assert kind(reset, "INF-021") is SILENT
    assert kind(reset.rest(dest, **figures | {"in_flight": 2}), "INF-021") is expected


@pytest.mark.parametrize(("count", "expected"), [(0, FAILS), (1, HOLDS), (2, FAILS)])
def test_a_topic_counts_what_its_subscribers_hold(count: int, expected: VerdictKind) -> None:
    story = Builder().connect("p0").connect("c0").subscribe("c0/1", "t0").send("p0/1", "t0").send("p0/2", "t0")
    story.arrive("c0/1", "p0/1", "p0/2").ack("c0/1", "p0/1").at(5000)
    assert kind(story.rest("t0", in_flight=count), "INF-022") is expected
    assert kind(story.rest("t0", dequeued=count), "INF-023") is expected
    again = story.at(9000).operate("reset", "t0").rest("t0", dequeued=0)
    assert kind(again, "INF-023") is expected


def test_what_may_have_been_settled_may_be_counted() -> None:
    story = Builder().connect("p0").connect("c0").subscribe("c0/1", "t0").send("p0/1", "t0").arrive("c0/1", "p0/1")
    story.ack("c0/1", "p0/1", result="unknown").at(5000)
    assert kind(story.rest("t0", dequeued=0), "INF-023") is SILENT
    assert kind(story.rest("t0", dequeued=1), "INF-023") is SILENT
    assert kind(story.rest("t0", dequeued=2), "INF-023") is FAILS


@pytest.mark.parametrize(("dequeued", "expected"), [(0, FAILS), (1, HOLDS), (2, HOLDS), (3, FAILS)])
def test_what_died_may_be_counted_as_settled(dequeued: int, expected: VerdictKind) -> None:
    story = Builder().connect("p0").connect("c0").subscribe("c0/1", "t0").send("p0/1", "t0")
    story.send("p0/2", "t0", expiration_ms=EPOCH_MS + 1000).arrive("c0/1", "p0/1").ack("c0/1", "p0/1").at(5000)
    assert kind(story.rest("t0", dequeued=dequeued, expired=1), "INF-023") is expected


@pytest.mark.parametrize(("size", "enqueued", "expected"), [(2, 4, FAILS), (3, 4, HOLDS), (4, 4, FAILS), (3, 3, FAILS)])
def test_the_brokers_figures_are_sums(size: int, enqueued: int, expected: VerdictKind) -> None:
    story = Builder().rest("q0", size=1, enqueued=2).rest("q1", size=2, enqueued=2)
    assert kind(story.rest(None, size=size, enqueued=enqueued, destinations=2), "INF-024") is expected
    assert kind(story.rest(None, size=7, destinations=3), "INF-024") is expected  # of the third nobody read them


@pytest.mark.parametrize(("ttl_ms", "expected"), [(0, FAILS), (60_000, SILENT)])
def test_what_time_changes_is_not_summed_over_time(ttl_ms: int, expected: VerdictKind) -> None:
    story = Builder().connect("p0").send("p0/1", ttl_ms=ttl_ms, expiration_ms=ttl_ms and EPOCH_MS + ttl_ms)
    story.at(1000).rest("q0", size=1).at(1200)
    assert kind(story.rest(None, size=2, destinations=1), "INF-024") is expected
