"""INF-001 to INF-006, INF-010 and PRE-007 on hand-written histories: each claim holds, fails, stays undecided and stays
silent.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from brokerproof.conformance.experiment.history import Browse, Connect, Poll
from brokerproof.conformance.experiment.traits import JMS
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from tests.fast.conformance.rules.history_builder import Builder, foreign

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
UNSURE = VerdictKind.INCONCLUSIVE


CLAIMS = ("INF-001", "INF-002", "INF-003", "INF-004", "INF-005", "INF-006", "INF-010", "PRE-007")


def judge(story: Builder) -> dict[str, Verdict]:
    return story.verdicts(*CLAIMS)


def kinds(story: Builder) -> dict[str, VerdictKind]:
    return {requirement: verdict.verdict for requirement, verdict in judge(story).items()}


def two_of_three_held(**fields: Any) -> Builder:
    """Three messages, two of them at a consumer, one of which is settled."""
    story = Builder().connect("p0").connect("c0").send("p0/1").send("p0/2").send("p0/3")
    story.subscribe("c0/1", prefetch=2, **fields).arrive("c0/1", "p0/1", "p0/2").consume("c0/1", "p0/1")
    return story.ack("c0/1", "p0/1").arrive("c0/1", "p0/3")


def test_nothing_read_is_nothing_judged() -> None:
    assert set(kinds(two_of_three_held()).values()) == {SILENT}


def test_at_rest_the_count_is_what_arrived_and_is_not_settled() -> None:
    assert kinds(two_of_three_held().rest(in_flight=2))["INF-001"] is HOLDS
    for wrong in (0, 1, 3, -1):
        verdict = judge(two_of_three_held().rest(in_flight=wrong))["INF-001"]
        assert verdict.verdict is FAILS
        assert f"in_flight {wrong}," in f"{verdict.text},"
        assert "hold 2 unsettled" in verdict.text


@pytest.mark.parametrize(("world", "told"), [("simulated", FAILS), ("live", UNSURE)])
def test_a_real_broker_may_keep_with_a_transaction_what_its_consumer_left(world: str, told: VerdictKind) -> None:
    def left() -> Builder:
        story = Builder(world).connect("p0").connect("c0").send("p0/1").subscribe("c0/1").arrive("c0/1", "p0/1")
        return story.begin("c0").ack("c0/1", "p0/1", tx="c0/tx1").leave("c0/1")

    assert kinds(left().rest(in_flight=1))["INF-001"] is told
    assert kinds(left().rest(in_flight=2))["INF-001"] is FAILS
    assert kinds(left().commit("c0").rest(in_flight=1))["INF-005"] is FAILS


def test_a_read_while_things_move_proves_nothing_about_balance() -> None:
    assert kinds(two_of_three_held().read(in_flight=17))["INF-001"] is SILENT


def test_a_missing_counter_is_not_zero() -> None:
    assert kinds(two_of_three_held().rest(size=2))["INF-001"] is SILENT


@pytest.mark.parametrize("scope", ["connection", "consumer"])
@pytest.mark.parametrize(
    ("vain", "count", "expected"),
    [(True, 1, FAILS), (True, 2, UNSURE), (True, 3, UNSURE), (True, 4, FAILS), (False, 2, HOLDS), (False, 3, FAILS)],
)
def test_where_arrivals_are_seen_when_taken_one_may_have_come_too_late(
    vain: bool, count: int, expected: VerdictKind, scope: Literal["connection", "consumer"]
) -> None:
    message = None if vain else "p0/2"
    story = two_of_three_held()._add(Poll, "c0", consumer="c0/1", message=message, answered=not vain)
    unseen = msgspec.structs.replace(JMS, seen_when_taken=True, transaction_scope=scope)
    story.events = [
        msgspec.structs.replace(event, traits=unseen) if isinstance(event, Connect) and event.host == "c0" else event
        for event in story.events
    ]
    assert kinds(story.rest(in_flight=count))["INF-001"] is expected


@pytest.mark.parametrize(("calls", "most"), [([30, 30], 4), ([30, 30, 1], 4), ([30, 1, 1, 1], 3), ([1, 1], 2)])
@pytest.mark.parametrize("more", [0, 1])
def test_what_a_library_asked_for_before_its_call_was_over_may_have_come_later(
    calls: list[int], most: int, more: int
) -> None:
    """A call of 3 ms that brought something after 30 has asked twice, and may have been given two. What it has ahead
    stays ahead: each call asks for one, in time or not.
    """
    story, unseen = two_of_three_held(), msgspec.structs.replace(JMS, seen_when_taken=True)
    for ms in calls:
        story._add(Poll, "c0", ms, consumer="c0/1", message="p0/2", answered=True, timeout_ms=3)
    story.events = [
        msgspec.structs.replace(event, traits=unseen) if isinstance(event, Connect) and event.host == "c0" else event
        for event in story.events
    ]
    assert (kinds(story.rest(in_flight=most + more))["INF-001"] is FAILS) is bool(more)


def test_an_unknown_settlement_widens_the_claim() -> None:
    def story() -> Builder:
        return two_of_three_held().ack("c0/1", "p0/2", result="unknown")

    assert kinds(story().rest(in_flight=1))["INF-001"] is UNSURE
    assert kinds(story().rest(in_flight=2))["INF-001"] is UNSURE
    assert kinds(story().rest(in_flight=3))["INF-001"] is FAILS
    assert kinds(story().rest(in_flight=0))["INF-001"] is FAILS


def test_an_unknown_subscription_may_hold_a_window_full() -> None:
    def story() -> Builder:
        return two_of_three_held().subscribe("c0/2", prefetch=5, result="unknown")

    assert kinds(story().rest(in_flight=7))["INF-001"] is UNSURE
    assert kinds(story().rest(in_flight=8))["INF-001"] is FAILS


def test_auto_acknowledged_messages_are_not_in_flight() -> None:
    story = Builder().connect("c0").connect("p0").send("p0/1").subscribe("c0/1", ack="auto").arrive("c0/1", "p0/1")
    assert kinds(story.rest(in_flight=0))["INF-001"] is HOLDS
    story = Builder().connect("c0").connect("p0").send("p0/1").subscribe("c0/1", ack="auto").arrive("c0/1", "p0/1")
    assert kinds(story.rest(in_flight=1))["INF-001"] is FAILS


def test_a_discard_settles_only_where_the_generation_says_so() -> None:
    def story(**generation: Any) -> Builder:
        told = Builder(generation=generation).connect("p0").connect("c0", via="jms").send("p0/1", expiration_ms=1)
        return told.subscribe("c0/1").arrive("c0/1", "p0/1").discard("c0/1", "p0/1")

    assert kinds(story(expiry="classic-5.14").rest(in_flight=1))["INF-001"] is FAILS
    assert kinds(story(expiry="documented").rest(in_flight=1))["INF-001"] is UNSURE
    assert kinds(story(expiry="documented").rest(in_flight=2))["INF-001"] is FAILS


def test_a_timer_during_a_wide_read_leaves_doubt() -> None:
    def story(**fields: Any) -> Builder:
        told = Builder("live").connect("p0").connect("c0").send("p0/1", **fields).subscribe("c0/1")
        return told.read(at_rest=True, lasting_ms=5, in_flight=1)

    assert kinds(story(delay_ms=10))["INF-001"] is UNSURE
    assert kinds(story())["INF-001"] is FAILS


@pytest.mark.parametrize(("settled", "verdict"), [(True, FAILS), (False, UNSURE)])
def test_no_timer_acts_on_what_has_been_settled(settled: bool, verdict: VerdictKind) -> None:
    story = Builder("live").connect("p0").connect("c0").subscribe("c0/1").send("p0/1", life_ms=60_000)
    story.send("p0/2", life_ms=60_000).arrive("c0/1", "p0/1", "p0/2").ack("c0/1", "p0/1")
    if settled:
        story.ack("c0/1", "p0/2")
    story.read(at_rest=True, lasting_ms=5, enqueued=2, dequeued=0, size=0 if settled else 1)
    assert kinds(story)["INF-003"] is verdict


@pytest.mark.parametrize(("later", "verdict"), [(0, FAILS), (1, HOLDS)])
def test_no_timer_acted_between_two_readings_that_say_the_same(later: int, verdict: VerdictKind) -> None:
    """What had expired was missing among what had gone, at a broker that somebody else wrote."""
    story = Builder("live").connect("p0").send("p0/1", life_ms=100).send("p0/2", life_ms=100)
    story.read(at_rest=True, lasting_ms=5, enqueued=2, dequeued=0, size=2, in_flight=0).wait(500)
    story.read(at_rest=True, lasting_ms=5, enqueued=2, dequeued=0, size=0, in_flight=0).wait(50)
    story.read(at_rest=True, lasting_ms=5, enqueued=2, dequeued=later, size=0, in_flight=0)
    assert kinds(story)["INF-003"] is verdict


def test_synchronous_consumers_never_see_a_negative_count() -> None:
    assert kinds(two_of_three_held(dispatch="sync").read(in_flight=0))["INF-002"] is HOLDS
    assert kinds(two_of_three_held(dispatch="sync").read(in_flight=-1))["INF-002"] is FAILS
    assert kinds(two_of_three_held().read(in_flight=-1))["INF-002"] is SILENT


def test_one_asynchronous_consumer_in_the_past_is_enough_to_excuse_a_negative_count() -> None:
    story = Builder().connect("c0").subscribe("c0/1").leave("c0/1").subscribe("c0/2", dispatch="sync")
    assert kinds(story.read(in_flight=-1))["INF-002"] is SILENT


def test_what_came_minus_what_went_is_what_is_there() -> None:
    assert kinds(two_of_three_held().rest(enqueued=3, dequeued=1, size=2))["INF-003"] is HOLDS
    assert kinds(two_of_three_held().rest(enqueued=3, dequeued=1, size=3))["INF-003"] is FAILS
    assert kinds(two_of_three_held().read(enqueued=3, dequeued=1, size=3))["INF-003"] is SILENT
    assert kinds(two_of_three_held().rest(enqueued=5, dequeued=1, size=2, scheduled=2))["INF-003"] is HOLDS


def test_totals_begin_anew_with_the_broker() -> None:
    def story() -> Builder:
        return two_of_three_held().kill("b").rest(enqueued=0, dequeued=0, size=2)

    assert kinds(two_of_three_held().kill("b").rest(enqueued=3, dequeued=1, size=3))["INF-003"] is UNSURE
    assert kinds(story())["INF-003"] is SILENT
    assert kinds(story().send("p0/4").rest(enqueued=1, dequeued=0, size=3))["INF-003"] is HOLDS
    assert kinds(story().send("p0/4").rest(enqueued=1, dequeued=0, size=2))["INF-003"] is FAILS


def test_the_dispatched_count_never_falls() -> None:
    story = two_of_three_held().read(dispatched=3).read(dispatched=3)
    assert kinds(story)["INF-004"] is SILENT
    assert kinds(two_of_three_held().read(dispatched=2).read(dispatched=3))["INF-004"] is HOLDS
    verdict = judge(two_of_three_held().read(dispatched=3).read(dispatched=2))["INF-004"]
    assert (verdict.verdict, verdict.outcome) == (FAILS, "fell")


def test_the_dispatched_count_is_the_number_of_arrivals() -> None:
    assert kinds(two_of_three_held().rest(dispatched=3))["INF-004"] is HOLDS
    assert kinds(two_of_three_held().rest(dispatched=2))["INF-004"] is FAILS
    assert kinds(two_of_three_held().rest(dispatched=4))["INF-004"] is FAILS
    # A consumer that left may have taken transmitted messages with it.
    assert kinds(two_of_three_held().leave("c0/1").rest(dispatched=4))["INF-004"] is HOLDS
    assert kinds(two_of_three_held().leave("c0/1").rest(dispatched=2))["INF-004"] is FAILS


def test_what_was_on_its_way_to_who_had_left_may_be_counted_before_it_arrives() -> None:
    def told(*counts: int) -> Builder:
        story = two_of_three_held().rest(dispatched=counts[0]).leave("c0/1").rest(dispatched=counts[1])
        return story.arrive("c0/1", "p0/3").rest(dispatched=counts[2])

    assert kinds(told(3, 4, 4))["INF-004"] is HOLDS
    assert kinds(told(3, 3, 4))["INF-004"] is HOLDS
    assert kinds(told(3, 3, 2))["INF-004"] is FAILS


@pytest.mark.parametrize(
    ("delay_ms", "lasting_ms", "counts", "expected"),
    [
        (10, 5, (1, 1), HOLDS),
        (10, 5, (0, 1), HOLDS),
        (10, 5, (1, 0), FAILS),
        (10, 5, (0, 2), FAILS),
        (10, 0, (1, 1), FAILS),
        (0, 5, (1, 1), FAILS),
    ],
)
def test_what_a_timer_lets_go_during_a_reading_may_be_counted_before_it_arrives(
    delay_ms: int, lasting_ms: int, counts: tuple[int, int], expected: VerdictKind
) -> None:
    story = Builder("live").connect("p0").connect("c0").send("p0/1", delay_ms=delay_ms).subscribe("c0/1")
    story.read(at_rest=True, lasting_ms=lasting_ms, dispatched=counts[0], size=1, enqueued=1, dequeued=0)
    assert kinds(story.arrive("c0/1", "p0/1").rest(dispatched=counts[1]))["INF-004"] is expected


def test_nothing_is_left_when_everybody_has_left() -> None:
    for story in (
        two_of_three_held().leave("c0/1"),
        two_of_three_held().lose("c0", "kill"),
        two_of_three_held().closed("c0"),
    ):
        assert kinds(story.rest(in_flight=0))["INF-005"] is HOLDS
    assert kinds(two_of_three_held().leave("c0/1").rest(in_flight=1))["INF-005"] is FAILS
    assert kinds(two_of_three_held().leave("c0/1").rest(in_flight=-1))["INF-005"] is FAILS
    assert kinds(two_of_three_held().rest(in_flight=2))["INF-005"] is SILENT


def test_the_swing_is_bounded_by_what_was_not_written() -> None:
    def story() -> Builder:
        told = Builder().connect("p0").connect("c0").subscribe("c0/1", prefetch=10)
        for number in range(1, 11):
            told.send(f"p0/{number}")
        return told.arrive("c0/1", "p0/1", "p0/2", "p0/3").ack("c0/1", "p0/1").leave("c0/1")

    # Two of ten slots were taken by what had arrived and was not settled: eight can have been on their way.
    assert kinds(story().read(in_flight=-8))["INF-006"] is HOLDS
    assert kinds(story().read(in_flight=-9))["INF-006"] is FAILS
    assert judge(story().read(in_flight=-9))["INF-006"].outcome == "unbounded"


def test_a_real_broker_may_lag_by_one_for_each_consumer() -> None:
    def story(world: str) -> Builder:
        return Builder(world).connect("c0").subscribe("c0/1", prefetch=10).read(in_flight=-1)

    assert kinds(story("live"))["INF-006"] is HOLDS
    assert kinds(story("simulated"))["INF-006"] is FAILS


def test_before_anybody_left_there_is_no_swing() -> None:
    assert kinds(two_of_three_held().read(in_flight=2))["INF-006"] is SILENT
    assert kinds(two_of_three_held().read(in_flight=-1))["INF-006"] is FAILS


@pytest.mark.parametrize(
    ("world", "generation", "dispatch", "verdict"),
    [
        ("simulated", {"in-flight": "assigned"}, "async", FAILS),
        ("live", {"in-flight": "assigned"}, "async", FAILS),
        ("live", {}, "async", SILENT),
        ("simulated", {}, "async", SILENT),  # the reference broker's default counts what is written
        ("live", {"in-flight": "exact"}, "async", SILENT),
        ("simulated", {"in-flight": "assigned"}, "sync", SILENT),
    ],
)
def test_who_counts_what_is_assigned_never_swings(
    world: str, generation: dict[str, str], dispatch: Literal["async", "sync"], verdict: VerdictKind
) -> None:
    def story(count: int, *, reset: bool = False) -> Verdict:
        told = Builder(world, generation=generation).connect("p0").connect("c0", via="jms")
        told.subscribe("c0/1", prefetch=10, dispatch=dispatch).send("p0/1").send("p0/2").arrive("c0/1", "p0/1")
        told = told.operate("reset") if reset else told
        return told.leave("c0/1").read(in_flight=count).verdicts("INF-007")["INF-007"]

    assert story(-1).verdict is verdict
    assert story(0).verdict is (SILENT if verdict is SILENT else HOLDS)
    assert story(-1, reset=True).verdict is (SILENT if verdict is SILENT else UNSURE)


# -- what others do there: wildcards, browsers, operators, transactions, what nobody sent


def test_a_wildcards_consumer_holds_what_it_got_from_each_queue() -> None:
    def story() -> Builder:
        told = two_of_three_held().connect("c1").subscribe("c1/1", "q*").send("p0/4").send("p0/5", "q1")
        return told.arrive("c1/1", "p0/4", dest="q0").arrive("c1/1", "p0/5", dest="q1")

    assert kinds(story().rest("q0", in_flight=3))["INF-001"] is HOLDS
    assert kinds(story().rest("q0", in_flight=4))["INF-001"] is FAILS
    assert kinds(story().rest("q1", in_flight=1, dispatched=1))["INF-004"] is HOLDS
    assert kinds(story().rest("q1", in_flight=1, dispatched=2))["INF-004"] is FAILS
    assert kinds(story().lose("c1").rest("q1", in_flight=0))["INF-005"] is HOLDS
    assert kinds(story().lose("c1").rest("q1", in_flight=1))["INF-005"] is FAILS


def test_whether_a_browser_counts_is_another_claim() -> None:
    def story(*, gone: bool = False) -> Builder:
        told = two_of_three_held().connect("c1").subscribe("c1/1", browser=True, ack="individual")
        told._add(Browse, "c1", dest="q0", messages=["p0/2", "p0/3"], consumer="c1/1")
        return told.leave("c1/1") if gone else told

    for count, expected in ((2, UNSURE), (4, UNSURE), (1, FAILS), (5, FAILS)):
        assert kinds(story().rest(in_flight=count))["INF-001"] is expected
    assert kinds(story(gone=True).rest(in_flight=2))["INF-001"] is HOLDS
    assert kinds(story(gone=True).rest(in_flight=4))["INF-001"] is FAILS


def test_an_operator_elsewhere_disturbs_nothing() -> None:
    for op in ("purge", "reset"):
        story = two_of_three_held().operate(op, "q1").rest(in_flight=0, enqueued=3, dequeued=1, size=3)
        assert kinds(story)["INF-001"] is FAILS
        assert kinds(story)["INF-003"] is FAILS


def test_what_an_operator_took_from_a_holder_counts_until_it_is_settled_or_no_more() -> None:
    for count, expected in ((3, FAILS), (2, HOLDS), (0, HOLDS), (-1, FAILS)):
        assert kinds(two_of_three_held().operate("purge").rest(in_flight=count))["INF-001"] is expected
    settled = two_of_three_held().operate("purge").ack("c0/1", "p0/2", "p0/3")
    assert kinds(settled.rest(in_flight=0))["INF-001"] is HOLDS
    settled = two_of_three_held().operate("purge").ack("c0/1", "p0/2", "p0/3")
    assert kinds(settled.rest(in_flight=-2))["INF-001"] is FAILS
    assert kinds(two_of_three_held().operate("reset").rest(in_flight=0))["INF-001"] is UNSURE
    assert (
        kinds(two_of_three_held().operate("move", to="q1").send("p0/4", "q1").rest("q1", in_flight=1))["INF-001"]
        is FAILS
    )
    assert kinds(two_of_three_held().operate("purge", count=0).rest(in_flight=0))["INF-001"] is FAILS
    assert kinds(two_of_three_held().operate("move", to="q1", count=0).rest(in_flight=0))["INF-001"] is FAILS
    purged = Builder().connect("p0").send("p0/1").operate("purge").send("p0/2")
    assert kinds(purged.rest(enqueued=2, dequeued=1, size=1))["INF-003"] is HOLDS
    purged = Builder().connect("p0").send("p0/1").operate("purge").send("p0/2")
    assert kinds(purged.rest(enqueued=2, dequeued=0, size=1))["INF-003"] is UNSURE
    idle = Builder().connect("p0").send("p0/1").operate("purge").connect("c0").subscribe("c0/1").send("p0/2")
    assert kinds(idle.arrive("c0/1", "p0/2").rest(in_flight=0))["INF-001"] is FAILS


def test_after_a_reset_totals_are_compared_with_the_first_reading() -> None:
    def story(**counters: int) -> Builder:
        told = two_of_three_held().operate("reset").rest(enqueued=0, dequeued=0, size=2, dispatched=0)
        return told.ack("c0/1", "p0/2").send("p0/4").arrive("c0/1", "p0/4").rest(**counters)

    right = {"enqueued": 1, "dequeued": 1, "size": 2, "dispatched": 1}
    assert kinds(story(**right))["INF-003"] is HOLDS
    assert kinds(story(**right))["INF-004"] is HOLDS
    assert kinds(story(**{**right, "dequeued": 0}))["INF-003"] is FAILS
    assert kinds(story(**{**right, "dispatched": 0}))["INF-004"] is FAILS
    assert kinds(story(**{**right, "dispatched": 2}))["INF-004"] is FAILS


def test_a_scheduler_is_counted_one_way_or_the_other_not_both() -> None:
    def story(**fields: Any) -> Builder:
        return Builder().connect("p0").send("p0/1").send("p0/2", delay_ms=50).rest(**fields)

    aside = {"enqueued": 1, "dequeued": 0, "size": 1, "scheduled": 1}
    within = {"enqueued": 2, "dequeued": 0, "size": 1, "scheduled": 1}
    due = {"enqueued": 2, "dequeued": 0, "size": 2, "scheduled": 0}
    for first in (aside, within):
        assert kinds(story(**first).wait(60).rest(**due))["INF-003"] is HOLDS
        assert kinds(story(**first).wait(60).rest(**{**due, "size": 1}))["INF-003"] is FAILS


def test_what_nobody_sent_may_be_held() -> None:
    def story() -> Builder:
        return two_of_three_held().arrive("c0/1", "x9/1")

    assert kinds(story().rest(in_flight=3))["INF-001"] is UNSURE
    assert kinds(story().rest(in_flight=4))["INF-001"] is FAILS
    assert kinds(story().rest(dispatched=4))["INF-004"] is HOLDS


def pledged(dest: str = "q0", **does: Any) -> Builder:
    """Two messages, acknowledged in an open transaction. ``does``: traits."""
    story = Builder().connect("p0").connect("c0", **does).send("p0/1", dest).send("p0/2", dest).subscribe("c0/1", dest)
    return story.arrive("c0/1", "p0/1", "p0/2").begin("c0").ack("c0/1", "p0/1", "p0/2", tx="c0/tx1")


@pytest.mark.parametrize("undone", [False, True])
@pytest.mark.parametrize(("counters", "expected"), [((3, 3), HOLDS), ((2, 2), HOLDS), ((1, 3), FAILS), ((3, 1), FAILS)])
def test_acknowledgements_have_no_effect_before_the_commit(
    undone: bool, counters: tuple[int, int], expected: VerdictKind
) -> None:
    story = pledged().abort("c0") if undone else pledged()
    assert kinds(story.rest(in_flight=counters[0], size=counters[1]))["INF-010"] is expected


@pytest.mark.parametrize("excuse", ["committed", "purged", "left", "topic", "again"])
def test_counters_that_may_be_lower(excuse: str) -> None:
    story = pledged("t0" if excuse == "topic" else "q0")
    if excuse == "committed":
        story.commit("c0")
    elif excuse == "purged":
        story.operate("purge")
    elif excuse == "left":
        story.leave("c0/1")
    elif excuse == "again":
        story.abort("c0").ack("c0/1", "p0/1", "p0/2")
    expected = UNSURE if excuse == "purged" else SILENT
    assert kinds(story.rest("t0" if excuse == "topic" else "q0", in_flight=0, size=0))["INF-010"] is expected


def test_an_open_transaction_leaves_the_balance_exact() -> None:
    assert kinds(pledged().rest(in_flight=2))["INF-001"] is HOLDS
    assert kinds(pledged().rest(in_flight=0))["INF-001"] is FAILS
    assert kinds(pledged().commit("c0").rest(in_flight=2))["INF-001"] is FAILS
    assert kinds(pledged().commit("c0", result="unknown").rest(in_flight=2))["INF-001"] is UNSURE


@pytest.mark.parametrize(("given_up", "held"), [(2, 0), (0, 2)])
def test_what_a_client_let_go_of_is_its_broker_s_after_a_rollback(given_up: int, held: int) -> None:
    story = pledged(returns_rollbacks=True).abort("c0")
    found = kinds(story.rest(in_flight=0, size=2 - given_up))
    assert (found["INF-001"], found["INF-010"]) == (HOLDS, SILENT)
    assert kinds(story.arrive("c0/1", "p0/1", "p0/2").rest(in_flight=held))["INF-001"] is (HOLDS if held else FAILS)


def test_what_was_refused_in_a_transaction_is_held_after_its_rollback() -> None:
    story = Builder().connect("p0").connect("c0").send("p0/1").subscribe("c0/1").arrive("c0/1", "p0/1").begin("c0")
    story.ack("c0/1", "p0/1", tx="c0/tx1", result="fail").abort("c0")
    assert kinds(story.rest(in_flight=0))["INF-001"] is FAILS


def test_a_stomp_consumer_gets_what_it_asks_for() -> None:
    def story(via: str = "stomp") -> Builder:
        told = Builder().connect("c0", via=via).subscribe("c0/1", dispatch="sync")
        return told.leave("c0/1")

    assert kinds(story().read(in_flight=0))["PRE-007"] is HOLDS
    assert kinds(story().read(in_flight=-1))["PRE-007"] is FAILS
    assert kinds(story("jms").read(in_flight=-1))["PRE-007"] is SILENT
    assert kinds(story().rest(in_flight=0))["PRE-007"] is SILENT


@pytest.mark.parametrize(("rate", "expected"), [(0, FAILS), (20_000, UNSURE)])
def test_what_a_slow_link_carries_to_one_that_leaves_before_it_is_there_is_in_flight(
    rate: int, expected: VerdictKind
) -> None:
    told = Builder("live", bytes_per_second={"c0": rate} if rate else {}).connect("p0").connect("c0")
    told.subscribe("c0/1").send("p0/1", size=200_000).wait(3000).rest(in_flight=1, size=1).wait(1000).leave("c0/1")
    assert kinds(told)["INF-001"] is expected


@pytest.mark.parametrize(("most", "expected"), [(0, UNSURE), (5, FAILS)])
def test_what_was_rolled_back_too_often_may_have_been_given_up(most: int, expected: VerdictKind) -> None:
    story = foreign(redeliveries_max=most).connect("p0").connect("c0", transaction_scope="consumer")
    story = story.send("p0/1").subscribe("c0/1", prefetch=0).arrive("c0/1", "p0/1").begin("c0")
    story = story.ack("c0/1", "p0/1", tx="c0/tx1").abort("c0")
    assert kinds(story.rest(in_flight=0, size=0))["INF-010"] is expected
