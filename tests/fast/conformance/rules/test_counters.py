"""INF-008, INF-011 to INF-013, INF-018 to INF-020 on hand-written histories."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import EPOCH_MS, Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def outcome(story: Builder, requirement: str) -> tuple[VerdictKind, str]:
    verdict = story.verdicts(requirement)[requirement]
    return verdict.verdict, verdict.outcome


def held() -> Builder:
    """Two messages at a consumer."""
    story = Builder().connect("p0").connect("c0").send("p0/1").send("p0/2").subscribe("c0/1")
    return story.arrive("c0/1", "p0/1", "p0/2")


# -- INF-008


def unread(ack: str = "auto", world: str = "simulated") -> Builder:
    return Builder(world).connect("p0").connect("c0").subscribe("c0/1", ack=ack).stall("c0", "client").send("p0/1")


@pytest.mark.parametrize(("count", "expected"), [(0, (HOLDS, "counted")), (-1, (FAILS, "negative"))])
def test_a_consumer_that_reads_nothing_is_not_below_zero(count: int, expected: tuple[VerdictKind, str]) -> None:
    assert outcome(unread().read(in_flight=count), "INF-008") == expected


def test_a_real_broker_may_count_a_moment_after_a_frame_that_is_read() -> None:
    reads = (
        Builder("live").connect("p0").connect("c0").subscribe("c0/1", ack="auto").send("p0/1").arrive("c0/1", "p0/1")
    )
    assert outcome(reads.read(in_flight=-1), "INF-008")[0] is SILENT
    assert outcome(reads.read(in_flight=-2), "INF-008") == (FAILS, "negative")
    assert outcome(unread(world="live").read(in_flight=-1), "INF-008") == (FAILS, "negative")


def test_others_may_swing() -> None:
    assert outcome(unread("client").read(in_flight=-1), "INF-008")[0] is SILENT
    assert outcome(unread().lose("c0").read(in_flight=-1), "INF-008")[0] is SILENT
    assert outcome(unread().connect("c1").subscribe("c1/1").read(in_flight=-1), "INF-008")[0] is SILENT


# -- INF-012


@pytest.mark.parametrize(
    ("count", "expected"), [(2, (HOLDS, "kept")), (0, (FAILS, "forgotten")), (-2, (FAILS, "forgotten"))]
)
def test_a_reset_keeps_what_is_in_flight(count: int, expected: tuple[VerdictKind, str]) -> None:
    assert outcome(held().operate("reset").rest(in_flight=count), "INF-012") == expected


def test_the_error_may_show_later() -> None:
    story = held().operate("reset").ack("c0/1", "p0/1", "p0/2")
    assert outcome(story.rest(in_flight=0), "INF-012") == (HOLDS, "kept")
    assert outcome(story.rest(in_flight=-2), "INF-012") == (FAILS, "forgotten")


@pytest.mark.parametrize(
    ("size", "expired", "expected"), [(0, 0, HOLDS), (0, 1, FAILS), (1, 1, SILENT), (1, 0, SILENT)]
)
def test_what_had_died_before_a_reset_is_not_counted_after_it(size: int, expired: int, expected: VerdictKind) -> None:
    """What may still be there may die between the reset and the reading."""
    story = Builder().connect("p0").send("p0/1", expiration_ms=EPOCH_MS + 1)
    story.rest(size=size, in_flight=0, expired=1 - size).operate("reset")
    story.rest(size=0, in_flight=0, enqueued=0, dequeued=0, dispatched=0, expired=expired)
    assert outcome(story, "INF-020")[0] is expected


@pytest.mark.parametrize(("total", "expected"), [(0, HOLDS), (1, FAILS)])
@pytest.mark.parametrize("name", ["dispatched", "acknowledged", "wasted"])
def test_what_became_of_dispatches_is_not_counted_after_a_reset(name: str, total: int, expected: VerdictKind) -> None:
    story = Builder().connect("p0").send("p0/1").rest(size=1, in_flight=0, enqueued=1, wasted=1).operate("reset")
    story.rest(size=1, in_flight=0, **{"enqueued": 0, "wasted": 0, name: total})
    assert outcome(story, "INF-020")[0] is expected


def test_no_reset_no_claim() -> None:
    assert outcome(held().rest(in_flight=-2), "INF-012")[0] is SILENT
    assert outcome(held().operate("reset", result="fail").rest(in_flight=-2), "INF-012")[0] is SILENT


# -- INF-013


def test_a_purge_empties_the_queue_at_once() -> None:
    story = held().operate("purge")
    assert outcome(story.rest(size=0, enqueued=2, dequeued=2), "INF-013") == (HOLDS, "empty")
    assert outcome(held().operate("purge").rest(size=2, enqueued=2, dequeued=0), "INF-013") == (FAILS, "left")


def test_what_was_sent_since_bounds_what_is_left() -> None:
    assert outcome(held().operate("purge").send("p0/3").rest(size=1), "INF-013")[0] is SILENT
    assert outcome(held().operate("purge").send("p0/3").rest(size=2), "INF-013") == (FAILS, "left")


def test_what_is_settled_later_is_not_counted_again() -> None:
    story = held().operate("purge").ack("c0/1", "p0/1", "p0/2").rest(size=0, enqueued=2, dequeued=4)
    assert outcome(story, "INF-013") == (FAILS, "counted-again")


@pytest.mark.parametrize("case", ["sent", "unknown", "delayed", "moved", "committed", "refused"])
def test_a_purged_queue_may_fill_again(case: str) -> None:
    story = held()
    if case == "unknown":
        story.send("p0/3", result="unknown")
    elif case == "delayed":
        story.send("p0/3", delay_ms=5)
    elif case == "committed":
        story.begin("p0").send("p0/3", tx="p0/tx1")
    story.operate("purge", result="fail" if case == "refused" else "ok")
    if case == "sent":
        story.send("p0/3")
    elif case == "moved":
        story.operate("move", "q1", "q0")
    elif case == "committed":
        story.commit("p0")
    assert outcome(story.rest(size=1), "INF-013")[0] is SILENT


# -- INF-018


@pytest.mark.parametrize(("count", "expected"), [(0, (HOLDS, "left-alone")), (-2, (FAILS, "charged"))])
def test_a_wildcards_consumer_takes_off_each_place_its_own(count: int, expected: tuple[VerdictKind, str]) -> None:
    story = Builder().connect("p0").connect("c0").send("p0/1").send("p0/2").subscribe("c0/1", "q*")
    story.arrive("c0/1", "p0/1", "p0/2", dest="q0")
    assert outcome(story.rest("q1", in_flight=-2), "INF-018")[0] is SILENT  # it is still there
    story.lose("c0")
    assert outcome(story.rest("q1", in_flight=count), "INF-018") == expected


@pytest.mark.parametrize(("count", "expected"), [(1, (HOLDS, "left-alone")), (0, (FAILS, "charged"))])
def test_what_others_hold_stays_when_a_wildcards_consumer_leaves(count: int, expected: tuple[VerdictKind, str]) -> None:
    story = Builder().connect("p0").connect("c0").connect("c1").send("p0/1").send("p0/2").subscribe("c0/1", "q*")
    story.subscribe("c1/1").arrive("c0/1", "p0/1", dest="q0").arrive("c1/1", "p0/2").lose("c0")
    assert outcome(story.rest(in_flight=count), "INF-018") == expected


@pytest.mark.parametrize(("count", "expected"), [(0, (HOLDS, "left-alone")), (-1, (FAILS, "charged"))])
def test_a_durable_wildcard_leaves_other_topics_alone(count: int, expected: tuple[VerdictKind, str]) -> None:
    story = Builder().connect("p0").connect("c0").subscribe("c0/1", "t*", durable="d").send("p0/1", "t0")
    story.arrive("c0/1", "p0/1", dest="t0").leave("c0/1").rest("t1", in_flight=count)
    assert outcome(story, "INF-011") == expected
    assert outcome(story, "INF-018")[0] is SILENT


def test_topics_are_not_queues() -> None:
    story = Builder().connect("p0").connect("c0").subscribe("c0/1", "t*").lose("c0")
    assert outcome(story.rest("q1", in_flight=-2), "INF-018")[0] is SILENT


# -- INF-019


@pytest.mark.parametrize(
    ("wasted", "expected"), [(2, (HOLDS, "counted")), (3, (HOLDS, "counted")), (1, (FAILS, "uncounted"))]
)
def test_what_a_consumer_left_behind_was_wasted(wasted: int, expected: tuple[VerdictKind, str]) -> None:
    assert outcome(held().lose("c0").rest(wasted=wasted), "INF-019") == expected


@pytest.mark.parametrize(("wasted", "expected"), [(0, (HOLDS, "counted")), (1, (FAILS, "invented"))])
def test_nothing_is_wasted_while_nobody_leaves(wasted: int, expected: tuple[VerdictKind, str]) -> None:
    assert outcome(held().ack("c0/1", "p0/1").rest(wasted=wasted), "INF-019") == expected


@pytest.mark.parametrize(("dest", "expected"), [("q0", SILENT), ("q1", FAILS)])
def test_some_count_what_was_rejected_as_wasted(dest: str, expected: VerdictKind) -> None:
    """What was rejected on another queue, also by a wildcard consumer of both, is no excuse."""
    story = Builder().connect("p0").connect("c0").subscribe("c0/1", "q*").send("p0/1").send("p0/2", "q1")
    story.arrive("c0/1", "p0/1").arrive("c0/1", "p0/2", dest="q1").nack("c0/1", "p0/1")
    assert outcome(story.arrive("c0/1", "p0/1", redelivered=True).rest(dest, wasted=1), "INF-019")[0] is expected


@pytest.mark.parametrize("acknowledged", [0, 1])
def test_what_an_open_transaction_decides_when_its_consumer_has_left_has_no_figure(acknowledged: int) -> None:
    figures = {"dispatched": 2, "wasted": 1, "in_flight": 0}
    story = held().begin("c0").ack("c0/1", "p0/1", tx="c0/tx1").leave("c0/1")
    assert outcome(story.rest(**figures, acknowledged=acknowledged), "INF-021")[0] is not FAILS
    assert outcome(story.commit("c0").rest(**figures, acknowledged=1), "INF-021")[0] is HOLDS
    assert outcome(story.rest(**figures, acknowledged=0), "INF-021")[0] is FAILS, "it has ended"


def test_a_reset_or_an_absent_counter_says_nothing() -> None:
    assert outcome(held().operate("reset").lose("c0").rest(wasted=0), "INF-019")[0] is SILENT
    assert outcome(held().lose("c0").rest(size=2), "INF-019")[0] is SILENT
