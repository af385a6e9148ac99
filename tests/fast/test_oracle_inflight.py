"""INF-001 to INF-006 on hand-written histories: each claim holds, fails, stays undecided and stays silent."""

from __future__ import annotations

from typing import Any

from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.oracles.inflight import InFlightOracle
from tests.fast.chronicle import Chronicle

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
UNSURE = VerdictKind.INCONCLUSIVE


def judge(story: Chronicle) -> dict[str, Verdict]:
    return story.judge(InFlightOracle)


def kinds(story: Chronicle) -> dict[str, VerdictKind]:
    return {requirement: verdict.verdict for requirement, verdict in judge(story).items()}


def two_of_three_held(**fields: Any) -> Chronicle:
    """Three messages, two of them at a consumer, one of which is settled."""
    story = Chronicle().connect("p0").connect("c0").send("p0/1").send("p0/2").send("p0/3")
    story.subscribe("c0/1", prefetch=2, **fields).arrive("c0/1", "p0/1", "p0/2").consume("c0/1", "p0/1")
    return story.ack("c0/1", "p0/1").arrive("c0/1", "p0/3")


def test_nothing_read_is_nothing_judged() -> None:
    assert set(kinds(two_of_three_held()).values()) == {SILENT}


def test_at_rest_the_count_is_what_arrived_and_is_not_settled() -> None:
    assert kinds(two_of_three_held().rest(in_flight=2))["INF-001"] is HOLDS
    for wrong in (0, 1, 3, -1):
        verdict = judge(two_of_three_held().rest(in_flight=wrong))["INF-001"]
        assert verdict.verdict is FAILS
        assert f"is {wrong}" in verdict.text
        assert "hold 2 unsettled" in verdict.text


def test_a_read_while_things_move_proves_nothing_about_balance() -> None:
    assert kinds(two_of_three_held().read(in_flight=17))["INF-001"] is SILENT


def test_a_missing_counter_is_not_zero() -> None:
    assert kinds(two_of_three_held().rest(size=2))["INF-001"] is SILENT


def test_an_unknown_settlement_widens_the_claim() -> None:
    def story() -> Chronicle:
        return two_of_three_held().ack("c0/1", "p0/2", result="unknown")

    assert kinds(story().rest(in_flight=1))["INF-001"] is SILENT
    assert kinds(story().rest(in_flight=2))["INF-001"] is SILENT
    assert kinds(story().rest(in_flight=3))["INF-001"] is FAILS
    assert kinds(story().rest(in_flight=0))["INF-001"] is FAILS


def test_an_unknown_subscription_may_hold_a_window_full() -> None:
    def story() -> Chronicle:
        return two_of_three_held().subscribe("c0/2", prefetch=5, result="unknown")

    assert kinds(story().rest(in_flight=7))["INF-001"] is SILENT
    assert kinds(story().rest(in_flight=8))["INF-001"] is FAILS


def test_auto_acknowledged_messages_are_not_in_flight() -> None:
    story = Chronicle().connect("c0").connect("p0").send("p0/1").subscribe("c0/1", ack="auto").arrive("c0/1", "p0/1")
    assert kinds(story.rest(in_flight=0))["INF-001"] is HOLDS
    story = Chronicle().connect("c0").connect("p0").send("p0/1").subscribe("c0/1", ack="auto").arrive("c0/1", "p0/1")
    assert kinds(story.rest(in_flight=1))["INF-001"] is FAILS


def test_a_discard_settles_only_where_the_generation_says_so() -> None:
    def story(**generation: Any) -> Chronicle:
        told = Chronicle(generation=generation).connect("p0").connect("c0", via="jms").send("p0/1", expiration_ms=1)
        return told.subscribe("c0/1").arrive("c0/1", "p0/1").discard("c0/1", "p0/1")

    assert kinds(story(expiry="classic-5.14").rest(in_flight=1))["INF-001"] is FAILS
    assert kinds(story(expiry="documented").rest(in_flight=1))["INF-001"] is SILENT


def test_a_timer_during_a_wide_read_leaves_doubt() -> None:
    def story(**fields: Any) -> Chronicle:
        told = Chronicle("live").connect("p0").connect("c0").send("p0/1", **fields).subscribe("c0/1")
        return told.read(at_rest=True, lasting_ms=5, in_flight=1)

    assert kinds(story(delay_ms=10))["INF-001"] is UNSURE
    assert kinds(story())["INF-001"] is FAILS


def test_synchronous_consumers_never_see_a_negative_count() -> None:
    assert kinds(two_of_three_held(dispatch="sync").read(in_flight=0))["INF-002"] is HOLDS
    assert kinds(two_of_three_held(dispatch="sync").read(in_flight=-1))["INF-002"] is FAILS
    assert kinds(two_of_three_held().read(in_flight=-1))["INF-002"] is SILENT


def test_one_asynchronous_consumer_in_the_past_is_enough_to_excuse_a_negative_count() -> None:
    story = Chronicle().connect("c0").subscribe("c0/1").leave("c0/1").subscribe("c0/2", dispatch="sync")
    assert kinds(story.read(in_flight=-1))["INF-002"] is SILENT


def test_what_came_minus_what_went_is_what_is_there() -> None:
    assert kinds(two_of_three_held().rest(enqueued=3, dequeued=1, size=2))["INF-003"] is HOLDS
    assert kinds(two_of_three_held().rest(enqueued=3, dequeued=1, size=3))["INF-003"] is FAILS
    assert kinds(two_of_three_held().read(enqueued=3, dequeued=1, size=3))["INF-003"] is SILENT
    assert kinds(two_of_three_held().rest(enqueued=5, dequeued=1, size=2, scheduled=2))["INF-003"] is HOLDS
    assert kinds(two_of_three_held().kill("b").rest(enqueued=3, dequeued=1, size=3))["INF-003"] is SILENT


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
    def story() -> Chronicle:
        told = Chronicle().connect("p0").connect("c0").subscribe("c0/1", prefetch=10)
        for number in range(1, 11):
            told.send(f"p0/{number}")
        return told.arrive("c0/1", "p0/1", "p0/2", "p0/3").ack("c0/1", "p0/1").leave("c0/1")

    # Two of ten slots were taken by what had arrived and was not settled: eight can have been on their way.
    assert kinds(story().read(in_flight=-8))["INF-006"] is HOLDS
    assert kinds(story().read(in_flight=-9))["INF-006"] is FAILS
    assert judge(story().read(in_flight=-9))["INF-006"].outcome == "unbounded"


def test_a_real_broker_may_lag_by_one_for_each_consumer() -> None:
    def story(world: str) -> Chronicle:
        return Chronicle(world).connect("c0").subscribe("c0/1", prefetch=10).read(in_flight=-1)

    assert kinds(story("live"))["INF-006"] is HOLDS
    assert kinds(story("simulated"))["INF-006"] is FAILS


def test_before_anybody_left_there_is_no_swing() -> None:
    assert kinds(two_of_three_held().read(in_flight=2))["INF-006"] is SILENT
    assert kinds(two_of_three_held().read(in_flight=-1))["INF-006"] is FAILS
