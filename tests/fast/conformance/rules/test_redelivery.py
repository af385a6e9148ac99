"""Deliveries after the first one (RDL-001 to -003, -005, -015), on hand-written histories."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import MonitorSpec
from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import DLQ, EPOCH_MS, Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def kind(story: Builder, requirement: str) -> VerdictKind:
    return story.verdicts(requirement)[requirement].verdict


def outcome(story: Builder, requirement: str) -> tuple[VerdictKind, str]:
    verdict = story.verdicts(requirement)[requirement]
    return verdict.verdict, verdict.outcome


def given(messages: int = 1, **fields: Any) -> Builder:
    """Messages at a consumer of c0; c1 is connected."""
    story = Builder().connect("p0").connect("c0").connect("c1")
    for number in range(1, messages + 1):
        story.send(f"p0/{number}")
    story.subscribe("c0/1", **fields)
    return story.arrive("c0/1", *(f"p0/{number}" for number in range(1, messages + 1)))


# -- RDL-001


def test_a_first_delivery_is_unmarked() -> None:
    assert kind(given(), "RDL-001") is HOLDS
    told = Builder().connect("c0").send("p0/1").subscribe("c0/1")
    assert outcome(told.arrive("c0/1", "p0/1", redelivered=True), "RDL-001") == (FAILS, "marked")
    told = Builder().connect("c0").send("p0/1").subscribe("c0/1")
    assert kind(told.arrive("c0/1", "p0/1", delivery_count=2), "RDL-001") is FAILS
    told = Builder().connect("c0").send("p0/1").subscribe("c0/1")
    assert kind(told.arrive("c0/1", "p0/1", delivery_count=1), "RDL-001") is HOLDS


def test_what_was_moved_before_anybody_had_it_is_unmarked() -> None:
    def told(*, had: bool) -> VerdictKind:
        story = Builder().connect("p0").connect("c0").connect("c1")
        story = story.subscribe("c1/1").leave("c1/1") if had else story
        story.send("p0/1").operate("move", to="q1", count=1).subscribe("c0/1", "q1")
        return kind(story.arrive("c0/1", "p0/1", redelivered=True), "RDL-001")

    assert told(had=False) is FAILS
    assert told(had=True) is SILENT


def test_a_consumer_that_may_have_been_there_may_have_had_it() -> None:
    def told(*, asked: bool) -> VerdictKind:
        story = Builder().connect("p0").connect("n0", result="unknown").connect("c0").send("p0/1")
        story = story.subscribe("n0/1", result="unknown") if asked else story
        return kind(story.lose("n0").subscribe("c0/1").arrive("c0/1", "p0/1", redelivered=True), "RDL-001")

    assert told(asked=False) is FAILS
    assert told(asked=True) is SILENT


def test_what_came_over_a_bridge_may_have_been_given_to_somebody_before_it() -> None:
    crossed = Builder().connect("p0").connect("c0").send("p0/1", network=True).subscribe("c0/1")
    assert kind(crossed.arrive("c0/1", "p0/1", redelivered=True), "RDL-001") is SILENT
    plain = Builder().connect("p0").connect("c0").send("p0/1", network=True).subscribe("c0/1")
    assert kind(plain.arrive("c0/1", "p0/1"), "RDL-001") is HOLDS


def test_a_mark_is_excused_where_somebody_may_have_had_the_message_before() -> None:
    told = Builder().connect("c0").connect("c1").subscribe("c0/1").send("p0/1").lose("c0")
    assert kind(told.subscribe("c1/1").arrive("c1/1", "p0/1", redelivered=True), "RDL-001") is SILENT


def test_a_mark_on_bytes_for_a_consumer_that_had_left_says_nothing() -> None:
    """ActiveMQ 5.17.2 marks what it takes back before it has written the rest; no application is given that."""
    told = Builder().connect("c0").send("p0/1").subscribe("c0/1").leave("c0/1")
    assert kind(told.arrive("c0/1", "p0/1", redelivered=True), "RDL-001") is SILENT


def test_no_excuse_where_the_other_consumer_was_gone_before_the_message_was_sent() -> None:
    told = Builder().connect("c0").connect("c1").subscribe("c0/1").lose("c0").rest(None).send("p0/1")
    assert kind(told.subscribe("c1/1").arrive("c1/1", "p0/1", redelivered=True), "RDL-001") is FAILS


def test_a_monitored_link_that_stalled_may_have_been_closed_unseen() -> None:
    def told(*, read_ms: int) -> Builder:
        story = (
            Builder(monitor={"c0": MonitorSpec(read_ms, 500)})
            .connect("c0")
            .connect("c1")
            .subscribe("c0/1")
            .send("p0/1")
            .stall("c0", "client")
        )
        return story.subscribe("c1/1").arrive("c1/1", "p0/1", redelivered=True)

    assert kind(told(read_ms=0), "RDL-001") is FAILS
    assert kind(told(read_ms=1000), "RDL-001") is SILENT


def test_nothing_is_redelivered_on_a_topic() -> None:
    told = (
        Builder()
        .connect("c0")
        .connect("c1")
        .subscribe("c0/1", "t0")
        .subscribe("c1/1", "t0")
        .send("p0/1", "t0")
        .lose("c1")
    )
    assert kind(told.arrive("c0/1", "p0/1", redelivered=True), "RDL-001") is FAILS


# -- RDL-002


def test_what_the_application_saw_comes_back_marked() -> None:
    def told(how: str, **fields: Any) -> Builder:
        story = given().consume("c0/1", "p0/1")
        story = story.leave("c0/1") if how == "close" else story.lose("c0", how)
        return story.subscribe("c1/1").arrive("c1/1", "p0/1", **fields)

    for how in ("close", "drop", "kill"):
        assert outcome(told(how, redelivered=True), "RDL-002") == (HOLDS, "marked")
        assert outcome(told(how), "RDL-002") == (FAILS, "unmarked")


def test_a_broker_that_marks_by_its_count_need_not_count_a_goodbye() -> None:
    def told(how: str) -> Builder:
        story = given().consume("c0/1", "p0/1")
        story.header = msgspec.structs.replace(
            story.header, capabilities=[*story.header.capabilities, "marks-by-count"]
        )
        story = story.leave("c0/1") if how == "close" else story.lose("c0", how)
        return story.subscribe("c1/1").arrive("c1/1", "p0/1")

    assert [kind(told(how), "RDL-002") for how in ("close", "drop", "kill")] == [HOLDS, FAILS, FAILS]


def test_what_died_where_dead_letters_are_comes_as_a_letter() -> None:
    """A broker of its own kind gives what expired in its dead-letter queue a dead letter there: a new message."""

    def told(original: str | None) -> Builder:
        story = Builder().connect("c0").connect("c1").subscribe("c0/1", DLQ, ack="client")
        story = story.send("p0/1", DLQ, expiration_ms=2000).arrive("c0/1", "p0/1", dest=DLQ, expiration_ms=2000)
        story = story.consume("c0/1", "p0/1").lose("c0").subscribe("c1/1", DLQ)
        return story.arrive("c1/1", "p0/1", dest=DLQ, original_dest=original)

    assert outcome(told(DLQ), "RDL-002") == (HOLDS, "came-back")
    assert outcome(told(None), "RDL-002") == (FAILS, "unmarked")


def test_what_only_arrived_may_come_back_unmarked() -> None:
    assert kind(given().leave("c0/1").subscribe("c1/1").arrive("c1/1", "p0/1"), "RDL-002") is HOLDS


def test_a_delivery_that_may_have_been_made_before_needs_no_mark() -> None:
    told = Builder().connect("c0").connect("c1").subscribe("c1/1").send("p0/1").lose("c1").subscribe("c0/1")
    told.arrive("c0/1", "p0/1", redelivered=True).consume("c0/1", "p0/1").leave("c0/1").arrive("c1/1", "p0/1")
    assert kind(told, "RDL-002") is HOLDS


def test_what_never_comes_back_is_lost() -> None:
    def told(how: str = "drop") -> Builder:
        return given().lose("c0", how).drain("q0", DLQ)

    assert outcome(told().end(), "RDL-002") == (FAILS, "lost")
    assert kind(told().arrive("drain/1", "p0/1", redelivered=True).end(), "RDL-002") is HOLDS
    assert kind(told().arrive("drain/2", "p0/1", dest=DLQ, original_dest="q0").end(), "RDL-002") is HOLDS


def test_without_a_drain_absence_is_not_judged() -> None:
    assert kind(given().lose("c0"), "RDL-002") is SILENT
    assert kind(given().lose("c0").drain(DLQ).end(), "RDL-002") is SILENT


def test_a_live_drain_must_have_come_to_rest() -> None:
    def told(world: str) -> Builder:
        story = (
            Builder(world).connect("p0").connect("c0").send("p0/1").subscribe("c0/1").arrive("c0/1", "p0/1").lose("c0")
        )
        return story.phase("drain").connect("drain").subscribe("drain/1")

    assert kind(told("live").phase("end"), "RDL-002") is SILENT
    assert kind(told("live").rest(None).phase("end"), "RDL-002") is FAILS


def test_an_expired_message_need_not_come_back() -> None:
    def told(expiration_ms: int) -> Builder:
        story = Builder().connect("p0").connect("c0").send("p0/1", expiration_ms=expiration_ms).subscribe("c0/1")
        return story.arrive("c0/1", "p0/1", expiration_ms=expiration_ms).lose("c0").drain("q0").at(1000).end()

    assert kind(told(EPOCH_MS + 999), "RDL-002") is SILENT
    assert kind(told(EPOCH_MS + 1100), "RDL-002") is FAILS


def test_an_unknown_settlement_excuses_the_message() -> None:
    assert kind(given().ack("c0/1", "p0/1", result="unknown").lose("c0").drain("q0").end(), "RDL-002") is SILENT


# -- RDL-003


def test_what_was_settled_never_comes_again() -> None:
    assert kind(given().ack("c0/1", "p0/1"), "RDL-003") is HOLDS
    told = given().ack("c0/1", "p0/1").lose("c0").subscribe("c1/1").arrive("c1/1", "p0/1", redelivered=True)
    verdict = told.verdicts("RDL-003")["RDL-003"]
    assert (verdict.verdict, verdict.outcome) == (FAILS, "redelivered")
    assert "c1/1" in verdict.text


def test_an_unconfirmed_settlement_promises_nothing() -> None:
    told = given().ack("c0/1", "p0/1", result="unknown").lose("c0").subscribe("c1/1")
    assert kind(told.arrive("c1/1", "p0/1", redelivered=True), "RDL-003") is SILENT


def test_a_library_that_does_not_wait_may_lose_its_settlement_with_the_connection() -> None:
    def told(how: str) -> Builder:
        story = Builder().connect("p0").connect("c0", via="jms").connect("c1").send("p0/1").subscribe("c0/1")
        story.arrive("c0/1", "p0/1").ack("c0/1", "p0/1")
        story = (
            story.leave("c0/1")
            if how == "close"
            else story.rest(None).lose("c0")
            if how == "rest"
            else story.lose("c0")
        )
        return story.subscribe("c1/1").arrive("c1/1", "p0/1", redelivered=True)

    assert kind(told("drop"), "RDL-003") is SILENT
    assert kind(told("close"), "RDL-003") is FAILS
    assert kind(told("rest"), "RDL-003") is FAILS


def test_an_auto_acknowledged_message_is_settled_once_the_writer_is_at_rest() -> None:
    def told(*, rest: bool) -> Builder:
        story = given(ack="auto")
        story = story.rest(None) if rest else story
        return story.lose("c0").subscribe("c1/1").arrive("c1/1", "p0/1", redelivered=True)

    assert kind(told(rest=True), "RDL-003") is FAILS
    assert kind(told(rest=False), "RDL-003") is SILENT


# -- RDL-005


@pytest.mark.parametrize("prefetch", [10, 0])
def test_what_came_back_is_first_and_in_order(prefetch: int) -> None:
    """Also to a consumer that asks for each message."""

    def told(*order: str) -> Builder:
        story = given(2).send("p0/3").lose("c0").rest(None).subscribe("c1/1", prefetch=prefetch)
        return story.arrive("c1/1", *order)

    assert kind(told("p0/1", "p0/2", "p0/3"), "RDL-005") is HOLDS
    assert outcome(told("p0/2", "p0/1", "p0/3"), "RDL-005") == (FAILS, "reordered")
    assert outcome(told("p0/3", "p0/1", "p0/2"), "RDL-005") == (FAILS, "behind")
    assert kind(told("p0/3"), "RDL-005") is SILENT


def test_of_what_its_consumer_was_given_twice_nobody_knows_the_place() -> None:
    """Rolled back and given again, behind the others: a broker may give it back where it was first."""
    story = given(2).begin("c0").ack("c0/1", "p0/1", tx="c0/tx1").abort("c0")
    story.arrive("c0/1", "p0/1", redelivered=True).lose("c0").rest(None).subscribe("c1/1")
    assert kind(story.arrive("c1/1", "p0/1", "p0/2", redelivered=True), "RDL-005") is not FAILS


@pytest.mark.parametrize(("world", "verdict"), [("live", HOLDS), ("simulated", FAILS)])
def test_what_was_delayed_may_have_the_place_of_its_send_or_of_its_release(world: str, verdict: VerdictKind) -> None:
    story = Builder(world).connect("p0").connect("c0").connect("c1").subscribe("c0/1")
    story.send("p0/1", delay_ms=30).send("p0/2", delay_ms=10).wait(20).arrive("c0/1", "p0/2").wait(30)
    story.arrive("c0/1", "p0/1").lose("c0").rest(None).subscribe("c1/1")
    assert kind(story.arrive("c1/1", "p0/1", "p0/2", redelivered=True), "RDL-005") is verdict


@pytest.mark.parametrize("world", ["live", "simulated"])
def test_what_was_delayed_may_not_pass_what_was_sent_and_delivered_before_it(world: str) -> None:
    def told(*order: str) -> Builder:
        story = Builder(world).connect("p0").connect("c0").connect("c1").subscribe("c0/1")
        story.send("p0/1").arrive("c0/1", "p0/1").send("p0/2", delay_ms=10).send("p0/3", delay_ms=20).wait(30)
        story.arrive("c0/1", "p0/2", "p0/3").lose("c0").rest(None).subscribe("c1/1")
        return story.arrive("c1/1", *order, redelivered=True)

    assert kind(told("p0/1", "p0/2", "p0/3"), "RDL-005") is HOLDS
    assert outcome(told("p0/2", "p0/3", "p0/1"), "RDL-005") == (FAILS, "reordered")


def test_what_is_rejected_afterwards_comes_behind_whatever_came_meanwhile() -> None:
    story = given(2).send("p0/3").lose("c0").rest(None).subscribe("c1/1").arrive("c1/1", "p0/1", "p0/2", "p0/3")
    assert kind(story.nack("c1/1", "p0/1").arrive("c1/1", "p0/1", redelivered=True), "RDL-005") is HOLDS


def test_a_rejection_that_crosses_the_next_delivery_is_of_the_one_before_it() -> None:
    """Not of one that a transaction had rejected earlier: then the one before it seemed to be held still."""
    story = given(1)
    capabilities = [*story.header.capabilities, "requeue", "keeps-rolled-back"]
    story.header = msgspec.structs.replace(story.header, capabilities=capabilities)
    story.begin("c0").nack("c0/1", "p0/1", tx="c0/tx1").commit("c0").arrive("c0/1", "p0/1", redelivered=True)
    story.begin("c0", "c0/tx2").nack("c0/1", "p0/1", tx="c0/tx2").abort("c0", "c0/tx2").wait(50)
    story.arrive("c0/1", "p0/1", redelivered=True).wait(-1.5).nack("c0/1", "p0/1")
    assert kind(story, "GEN-002") is HOLDS


@pytest.mark.parametrize("tx", [None, "c0/tx1"])
@pytest.mark.parametrize("order", [("p0/1", "p0/2"), ("p0/2", "p0/1")])
def test_what_was_rejected_and_given_again_may_have_either_place(order: tuple[str, str], tx: str | None) -> None:
    story = given(2)
    story.header = msgspec.structs.replace(story.header, capabilities=[*story.header.capabilities, "requeue"])
    story = story.nack("c0/1", "p0/1") if tx is None else story.begin("c0").nack("c0/1", "p0/1", tx=tx).commit("c0")
    story = story.arrive("c0/1", "p0/1", redelivered=True).lose("c0").rest(None)
    assert kind(story.subscribe("c1/1").arrive("c1/1", *order, redelivered=True), "RDL-005") is not FAILS


def test_what_came_due_meanwhile_has_no_place_among_what_came_back() -> None:
    def told(delay_ms: int, *, waits: bool) -> Builder:
        story = Builder().connect("p0").connect("c0").connect("c1").send("p0/9", delay_ms=delay_ms)
        story = (
            (story.rest(None, lasting_ms=50) if waits else story).send("p0/1").subscribe("c0/1").arrive("c0/1", "p0/1")
        )
        return story.lose("c0").rest(None, lasting_ms=50).subscribe("c1/1").arrive("c1/1", "p0/9", "p0/1")

    assert outcome(told(0, waits=True), "RDL-005") == (FAILS, "behind")
    assert outcome(told(20, waits=True), "RDL-005") == (FAILS, "behind")
    assert kind(told(20, waits=False), "RDL-005") is HOLDS


def test_what_came_back_is_in_order_within_each_priority() -> None:
    def told(*order: str) -> Builder:
        story = Builder().connect("p0").connect("c0").connect("c1").send("p0/1").send("p0/2", priority=9).send("p0/3")
        return (
            story.subscribe("c0/1")
            .arrive("c0/1", "p0/1", "p0/2", "p0/3")
            .lose("c0")
            .rest(None)
            .subscribe("c1/1")
            .arrive("c1/1", *order)
        )

    assert kind(told("p0/1", "p0/2", "p0/3"), "RDL-005") is HOLDS
    assert kind(told("p0/2", "p0/1", "p0/3"), "RDL-005") is HOLDS
    assert outcome(told("p0/2", "p0/3", "p0/1"), "RDL-005") == (FAILS, "reordered")


def test_what_nobody_had_waits_in_the_order_of_sending() -> None:
    def told(*order: str) -> Builder:
        story = given(1).send("p0/2").send("p0/3").lose("c0").rest(None).subscribe("c1/1")
        return story.arrive("c1/1", "p0/1", *order)

    assert kind(told("p0/2", "p0/3"), "RDL-005") is HOLDS
    assert outcome(told("p0/3", "p0/2"), "RDL-005") == (FAILS, "reordered")


def test_what_a_rollback_brought_back_is_in_order() -> None:
    def told(*order: str) -> Builder:
        story = given(2).begin("c0", "c0/tx1").ack("c0/1", "p0/1", tx="c0/tx1").ack("c0/1", "p0/2", tx="c0/tx1")
        story.leave("c0/1").abort("c0", "c0/tx1").rest(None)
        return story.subscribe("c1/1").arrive("c1/1", *order)

    assert kind(told("p0/1", "p0/2"), "RDL-005") is HOLDS
    assert outcome(told("p0/2", "p0/1"), "RDL-005") == (FAILS, "reordered")


def test_what_a_transaction_held_may_come_back_ahead_of_what_came_back() -> None:
    def told(*, pledged: bool) -> Builder:
        story = Builder().connect("p0").connect("c0").connect("c1").connect("c2").send("p0/1").subscribe("c0/1")
        story.begin("c0", "c0/tx1").arrive("c0/1", "p0/1")
        if pledged:
            story.ack("c0/1", "p0/1", tx="c0/tx1")
        story.leave("c0/1").rest(None).send("p0/2").subscribe("c1/1").arrive("c1/1", "p0/2")
        return story.lose("c0").lose("c1").rest(None).subscribe("c2/1").arrive("c2/1", "p0/1", "p0/2")

    assert kind(told(pledged=True), "RDL-005") is HOLDS
    assert outcome(told(pledged=False), "RDL-005") == (FAILS, "behind")


def test_where_nobody_counts_messages_of_who_unsubscribed_may_come_back_with_the_connection() -> None:
    def told(*, counts: bool) -> Builder:
        story = given(1).leave("c0/1").rest(None).send("p0/2").subscribe("c0/2").arrive("c0/2", "p0/2").leave("c0/2")
        if not counts:
            known = [one for one in story.header.capabilities if one != "counters"]
            story.header = msgspec.structs.replace(story.header, capabilities=known)
        return story.lose("c0").rest(None).subscribe("c1/1").arrive("c1/1", "p0/1", "p0/2")

    assert kind(told(counts=False), "RDL-005") is HOLDS
    assert outcome(told(counts=True), "RDL-005") == (FAILS, "behind")


def test_what_was_on_its_way_to_who_left_comes_back_too() -> None:
    def told(*, marked: bool) -> Builder:
        story = Builder().connect("p0").connect("c0").connect("c1").send("p0/1").subscribe("c0/1").leave("c0/1")
        story = story.rest(None).send("p0/2").subscribe("c1/1").arrive("c1/1", "p0/2").lose("c1").lose("c0").rest(None)
        story = story.connect("c2").subscribe("c2/1").arrive("c2/1", "p0/1", redelivered=marked)
        return story.arrive("c2/1", "p0/2", redelivered=True)

    assert kind(told(marked=True), "RDL-005") is HOLDS
    assert outcome(told(marked=False), "RDL-005") == (FAILS, "behind")


def test_order_is_undecided_while_the_first_consumer_may_still_be_there() -> None:
    told = given(2).send("p0/3").lose("c0").subscribe("c1/1").arrive("c1/1", "p0/3", "p0/1", "p0/2")
    assert kind(told, "RDL-005") is SILENT


def test_on_one_connection_the_goodbye_comes_before_the_next_subscription() -> None:
    told = given(2).send("p0/3").leave("c0/1").subscribe("c0/2").arrive("c0/2", "p0/3", "p0/1", "p0/2")
    assert kind(told, "RDL-005") is FAILS


def test_order_is_undecided_with_a_third_consumer() -> None:
    told = given(2).subscribe("c1/9").send("p0/3").lose("c0").rest(None).subscribe("c1/1")
    assert kind(told.arrive("c1/1", "p0/2", "p0/1"), "RDL-005") is SILENT


# -- RDL-015


def test_a_forged_count_is_ignored() -> None:
    def told(**fields: Any) -> VerdictKind:
        story = Builder().connect("p0").connect("c0").send("p0/1", forged=7).subscribe("c0/1")
        return kind(story.arrive("c0/1", "p0/1", **fields), "RDL-015")

    assert told() is HOLDS
    assert told(redelivered=True) is FAILS
    assert told(delivery_count=7) is FAILS


@pytest.mark.parametrize(("jms", "expected"), [(True, FAILS), (False, SILENT)])
def test_only_jms_says_that_a_commit_settles_for_who_has_left(*, jms: bool, expected: VerdictKind) -> None:
    """A broker by somebody else gives back at once what a consumer had that leaves, acknowledged or not."""
    story = Builder("live").connect("p0").connect("c0").connect("c1").send("p0/1").subscribe("c0/1")
    story.arrive("c0/1", "p0/1").consume("c0/1", "p0/1").begin("c0")
    story.ack("c0/1", "p0/1", tx="c0/tx1").leave("c0/1").commit("c0")
    words = [word for word in story.header.capabilities if jms or word != "jms-semantics"]
    story.header = msgspec.structs.replace(story.header, capabilities=words)
    story.subscribe("c1/1").arrive("c1/1", "p0/1", redelivered=True)
    assert kind(story, "RDL-003") is expected
