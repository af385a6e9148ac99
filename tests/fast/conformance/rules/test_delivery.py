"""GEN-001 to GEN-006, GEN-012 and GEN-027 on hand-written histories."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.configuration import TimeStampingSpec
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from tests.fast.conformance.rules.history_builder import DLQ, EPOCH_MS, Builder, foreign

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def judge(story: Builder) -> dict[str, Verdict]:
    return story.verdicts("GEN-001", "GEN-002", "GEN-003", "GEN-004", "GEN-005", "GEN-006", "GEN-012", "GEN-027")


def kind(story: Builder, requirement: str) -> VerdictKind:
    return judge(story)[requirement].verdict


def outcome(story: Builder, requirement: str) -> tuple[VerdictKind, str]:
    verdict = judge(story)[requirement]
    return verdict.verdict, verdict.outcome


def sent_again(dest: str = "q0", *, early: bool = False, story: Builder | None = None) -> Builder:
    """A broker sends again what was acknowledged in a transaction that is rolled back; ``early``: before that."""
    story = (
        (story or foreign()).connect("p0").connect("c0").subscribe("c0/1", dest).send("p0/1", dest).send("p0/2", dest)
    )
    story.arrive("c0/1", "p0/1", "p0/2").begin("c0").ack("c0/1", "p0/1", tx="c0/tx1", mode="cumulative")
    if early:
        return story.arrive("c0/1", "p0/1", redelivered=True).abort("c0")
    return story.abort("c0").arrive("c0/1", "p0/1", redelivered=True)


def test_what_was_rolled_back_may_be_sent_again() -> None:
    assert kind(sent_again(), "GEN-002") is HOLDS
    assert kind(sent_again(early=True), "GEN-002") is FAILS
    assert kind(sent_again(story=Builder("live")), "GEN-002") is FAILS, "it said that it keeps that"
    assert kind(sent_again("t0").rest("t0"), "GEN-004") is not FAILS
    assert kind(sent_again("t0", early=True), "GEN-004") is FAILS
    rested = foreign().connect("p0").connect("c0").subscribe("c0/1", "t0").send("p0/1", "t0").arrive("c0/1", "p0/1")
    rested.rest("t0").begin("c0").ack("c0/1", "p0/1", tx="c0/tx1").abort("c0").arrive("c0/1", "p0/1", redelivered=True)
    assert kind(rested, "GEN-004") is HOLDS
    # It may be acknowledged as what it is now, or as what it was, and then is unknown; and so is what came before it.
    again = sent_again().ack("c0/1", "p0/1", mode="cumulative")
    assert kind(again.leave("c0/1").drain("q0").end(), "GEN-001") is not FAILS
    # A range in the next transaction covers what came before it, whatever the client believes.
    ranged = sent_again().begin("c0", "c0/tx2").ack("c0/1", "p0/1", tx="c0/tx2", mode="cumulative")
    assert kind(ranged.abort("c0", "c0/tx2").arrive("c0/1", "p0/2", redelivered=True), "GEN-002") is not FAILS
    rejected = sent_again().begin("c0", "c0/tx2").nack("c0/1", "p0/1", tx="c0/tx2")
    assert kind(rejected.abort("c0", "c0/tx2").arrive("c0/1", "p0/2", redelivered=True), "GEN-002") is not FAILS
    refused = sent_again().ack("c0/1", "p0/1", result="fail")
    assert refused.verdicts("GEN-102")["GEN-102"].verdict is not FAILS
    assert kind(sent_again().leave("c0/1").drain("q0").end(), "GEN-001") is FAILS


def test_what_was_taken_back_may_be_settled_as_what_it_was() -> None:
    story = sent_again().begin("c0", "c0/tx2").ack("c0/1", "p0/1", tx="c0/tx2").arrive("c0/1", "p0/1", redelivered=True)
    late = story.events[-2]
    late.t0 = story.events[-4].t0 - 1  # it was written before the message came again
    story.abort("c0", "c0/tx2").leave("c0/1").wait(60)
    assert story.rest(in_flight=0, size=2).verdicts("INF-001")["INF-001"].verdict is not FAILS


def test_what_was_rolled_back_may_wait_for_room() -> None:
    story = foreign().connect("p0").connect("c0").send("p0/1").send("p0/2").subscribe("c0/1", prefetch=1)
    story.arrive("c0/1", "p0/1").begin("c0").ack("c0/1", "p0/1", tx="c0/tx1").arrive("c0/1", "p0/2").abort("c0")
    verdicts = (
        story.rest(in_flight=1, size=2).ack("c0/1", "p0/1", result="fail").verdicts("INF-001", "INF-010", "GEN-102")
    )
    assert [one.verdict for one in verdicts.values()].count(FAILS) == 0


# -- GEN-001


def test_a_message_that_is_never_seen_is_lost() -> None:
    verdict = judge(Builder().send("p0/1").drain("q0").end())["GEN-001"]
    assert (verdict.verdict, verdict.outcome) == (FAILS, "lost")
    assert "p0/1" in verdict.text
    assert kind(Builder().send("p0/1").drain("q0").arrive("drain/1", "p0/1").end(), "GEN-001") is HOLDS


def test_a_message_that_is_still_waited_for_is_not_lost() -> None:
    assert kind(Builder().send("p0/1"), "GEN-001") is SILENT
    assert kind(Builder().send("p0/1").drain("q0"), "GEN-001") is SILENT
    assert kind(Builder().send("p0/1").drain("q1").end(), "GEN-001") is SILENT
    assert kind(Builder().send("p0/1").drain("q0").closed("drain").end(), "GEN-001") is SILENT


@pytest.mark.parametrize("result", ["unknown", "fail"])
def test_only_confirmed_messages_are_owed(result: str) -> None:
    assert kind(Builder().send("p0/1", result=result).drain("q0").end(), "GEN-001") is SILENT


def test_expiry_is_no_loss() -> None:
    def story(**declared: Any) -> Builder:
        return Builder(**declared).send("p0/1", expiration_ms=EPOCH_MS + 500).drain("q0")

    assert kind(story().at(501).end(), "GEN-001") is SILENT
    assert kind(story().at(400).end(), "GEN-001") is FAILS
    # A time-stamping broker may have shortened it.
    assert kind(story(timestamping=TimeStampingSpec(ttl_ceiling_ms=1)).at(400).end(), "GEN-001") is SILENT


def test_a_stepped_clock_can_expire_a_message_before_its_time() -> None:
    told = Builder().send("p0/1", expiration_ms=EPOCH_MS + 5000).clock().jump("b", 10_000)
    assert kind(told.clock(ahead_ms=10_000).drain("q0").phase("end"), "GEN-001") is SILENT


def test_a_delayed_message_is_owed_when_it_is_due() -> None:
    def story(end_ms: float) -> Builder:
        return Builder().send("p0/1", delay_ms=1000).drain("q0").at(end_ms).end()

    assert kind(story(1900), "GEN-001") is SILENT
    assert kind(story(2100), "GEN-001") is FAILS


def test_what_was_written_to_a_dying_auto_consumer_is_settled() -> None:
    def story(*, rest: bool) -> Builder:
        told = Builder().connect("c0").subscribe("c0/1", ack="auto").send("p0/1")
        told = told.rest(None) if rest else told
        return told.lose("c0").drain("q0").end()

    assert kind(story(rest=False), "GEN-001") is SILENT
    assert kind(story(rest=True), "GEN-001") is FAILS


def test_a_consumer_that_perhaps_existed_may_have_swallowed_the_message() -> None:
    def story(ack: str) -> Builder:
        told = Builder().connect("c0").send("p0/1").stall("c0", "client").closed("c0", "client", "c0").wait(-2)
        told.request_ms = 2
        return told.subscribe("c0/1", result="unknown", ack=ack).resume("c0").drain("q0").end()

    assert kind(story("auto"), "GEN-001") is SILENT
    assert kind(story("client"), "GEN-001") is FAILS


def test_after_a_restart_only_persistent_messages_are_owed() -> None:
    def story(*, persistent: bool) -> Builder:
        return Builder().send("p0/1", persistent=persistent).kill("b").drain("q0").end()

    assert kind(story(persistent=True), "GEN-001") is FAILS
    assert kind(story(persistent=False), "GEN-001") is SILENT
    assert kind(Builder().send("p0/1", persistent=False).drain("q0").end(), "GEN-001") is FAILS


def test_consumed_and_not_settled_is_not_accounted_for() -> None:
    def story() -> Builder:
        return Builder().connect("c0").send("p0/1").subscribe("c0/1").arrive("c0/1", "p0/1").consume("c0/1", "p0/1")

    assert kind(story().lose("c0").drain("q0").end(), "GEN-001") is FAILS
    assert kind(story().ack("c0/1", "p0/1").drain("q0").end(), "GEN-001") is HOLDS
    assert kind(story().ack("c0/1", "p0/1", result="unknown").drain("q0").end(), "GEN-001") is HOLDS


# -- GEN-002


def held() -> Builder:
    story = Builder().connect("c0").connect("c1").send("p0/1").subscribe("c0/1").subscribe("c1/1")
    return story.arrive("c0/1", "p0/1")


def test_two_consumers_hold_one_message() -> None:
    verdict = judge(held().arrive("c1/1", "p0/1"))["GEN-002"]
    assert (verdict.verdict, verdict.outcome) == (FAILS, "duplicated")
    assert "still held it" in verdict.text


def test_the_next_consumer_gets_what_the_former_lost() -> None:
    assert kind(held().lose("c0").arrive("c1/1", "p0/1"), "GEN-002") is HOLDS
    assert kind(held().leave("c0/1").arrive("c1/1", "p0/1"), "GEN-002") is HOLDS
    assert kind(held().ack("c0/1", "p0/1", result="unknown").lose("c0").arrive("c1/1", "p0/1"), "GEN-002") is HOLDS


def test_settled_and_delivered_again_is_a_duplicate() -> None:
    assert kind(held().ack("c0/1", "p0/1").lose("c0").arrive("c1/1", "p0/1"), "GEN-002") is FAILS


def test_twice_at_the_same_consumer_is_a_duplicate() -> None:
    assert kind(held().arrive("c0/1", "p0/1"), "GEN-002") is FAILS


def test_frames_that_were_held_up_may_arrive_after_the_next_delivery() -> None:
    # c1 had it first, lost its link, and its frames come late.
    told = Builder().connect("c0").connect("c1").send("p0/1").subscribe("c1/1").subscribe("c0/1")
    assert kind(told.lose("c1").arrive("c0/1", "p0/1").arrive("c1/1", "p0/1"), "GEN-002") is HOLDS


def test_the_brokers_end_of_the_link_decides_when_a_message_is_free() -> None:
    # The client's end does not know yet that the broker gave it up.
    told = held().stall("c0", "both").closed("c0").arrive("c1/1", "p0/1")
    assert kind(told, "GEN-002") is HOLDS
    assert kind(held().stall("c0", "both").arrive("c1/1", "p0/1").closed("c0"), "GEN-002") is FAILS


def test_a_close_that_only_the_client_saw_may_have_happened_long_before() -> None:
    told = held().arrive("c1/1", "p0/1").closed("c0", host="c0")
    assert kind(told, "GEN-002") is HOLDS


def test_a_discarded_message_may_go_to_somebody_else() -> None:
    assert kind(held().discard("c0/1", "p0/1").arrive("c1/1", "p0/1"), "GEN-002") is HOLDS


# -- GEN-003


def stream(*order: str, dest: str = "q0", **second: Any) -> Builder:
    story = Builder().connect("p0").connect("c0").subscribe("c0/1", dest).send("p0/1", dest)
    return story.send("p0/2", dest, **second).arrive("c0/1", *order)


@pytest.mark.parametrize("dest", ["q0", "t0"])
def test_the_order_of_sending_is_the_order_of_arrival(dest: str) -> None:
    assert kind(stream("p0/1", "p0/2", dest=dest), "GEN-003") is HOLDS
    assert outcome(stream("p0/2", "p0/1", dest=dest), "GEN-003") == (FAILS, "overtaken")


@pytest.mark.parametrize("second", [{"priority": 9}, {"delay_ms": 1}, {"persistent": False}, {"result": "unknown"}])
def test_messages_of_different_kinds_may_overtake_each_other(second: dict[str, Any]) -> None:
    assert kind(stream("p0/2", "p0/1", **second), "GEN-003") is SILENT


def test_overlapping_sends_have_no_order() -> None:
    told = Builder().connect("c0").subscribe("c0/1")
    told.request_ms = 5
    told.send("p0/1").wait(-4).send("p0/2").arrive("c0/1", "p0/2", "p0/1")
    assert kind(told, "GEN-003") is SILENT


@pytest.mark.parametrize(
    ("world", "via", "verdict"), [("live", "jms", SILENT), ("live", "stomp", FAILS), ("simulated", "jms", FAILS)]
)
def test_what_stands_in_a_real_java_library_has_no_order(world: str, via: str, verdict: VerdictKind) -> None:
    """Each call that does not return goes on in a thread of its own."""
    told = Builder(world).connect("p0", via).connect("c0").subscribe("c0/1")
    told.send("p0/1", result="unknown").send("p0/2", result="unknown")
    assert kind(told.arrive("c0/1", "p0/2", "p0/1"), "GEN-003") is verdict


def test_a_message_that_somebody_else_lost_may_come_late() -> None:
    told = Builder().connect("c0").connect("c1").subscribe("c1/1").subscribe("c0/1").send("p0/1").send("p0/2")
    assert kind(told.arrive("c0/1", "p0/2").lose("c1").arrive("c0/1", "p0/1"), "GEN-003") is SILENT
    told = Builder().connect("c0").connect("c1").subscribe("c1/1").subscribe("c0/1").send("p0/1").send("p0/2")
    assert kind(told.arrive("c0/1", "p0/2").arrive("c0/1", "p0/1").lose("c1"), "GEN-003") is FAILS


def test_messages_of_different_producers_have_no_order() -> None:
    told = Builder().connect("c0").subscribe("c0/1").send("p0/1").send("p1/1").arrive("c0/1", "p1/1", "p0/1")
    assert kind(told, "GEN-003") is SILENT


# -- GEN-004


def audience(prefetch: int = 10) -> Builder:
    story = Builder().connect("p0").connect("c0").connect("c1")
    return story.subscribe("c0/1", "t0", prefetch).subscribe("c1/1", "t0", prefetch).send("p0/1", "t0")


def test_every_subscriber_gets_it_once() -> None:
    assert kind(audience().arrive("c0/1", "p0/1").arrive("c1/1", "p0/1").rest("t0"), "GEN-004") is HOLDS
    verdict = judge(audience().arrive("c0/1", "p0/1").rest("t0"))["GEN-004"]
    assert (verdict.verdict, verdict.outcome) == (FAILS, "missed")
    assert "c1/1" in verdict.text
    assert outcome(audience().arrive("c0/1", "p0/1", "p0/1"), "GEN-004") == (FAILS, "twice")


def test_a_full_window_is_served_later() -> None:
    def story() -> Builder:
        return audience(1).send("p0/2", "t0").arrive("c0/1", "p0/1").arrive("c1/1", "p0/1")

    assert kind(story().rest("t0"), "GEN-004") is SILENT
    later = story().rest("t0").ack("c0/1", "p0/1").ack("c1/1", "p0/1")
    assert kind(later.arrive("c0/1", "p0/2").arrive("c1/1", "p0/2").rest("t0"), "GEN-004") is SILENT
    assert kind(later.ack("c0/1", "p0/2").ack("c1/1", "p0/2").rest("t0"), "GEN-004") is HOLDS
    starving = story().rest("t0").ack("c0/1", "p0/1").rest("t0")
    assert outcome(starving, "GEN-004") == (FAILS, "missed")


@pytest.mark.parametrize(("rate", "expected"), [(0, FAILS), (100_000, HOLDS)])
def test_what_a_slow_link_carries_is_not_missed(rate: int, expected: VerdictKind) -> None:
    told = Builder("live", bytes_per_second={"c0": rate} if rate else {}).connect("p0").connect("c0")
    told.subscribe("c0/1", "t0").send("p0/1", "t0", size=200_000).wait(1100).rest("t0").wait(900)
    assert kind(told.arrive("c0/1", "p0/1").wait(500).rest("t0"), "GEN-004") is expected


@pytest.mark.parametrize(("size", "lost"), [(1000, True), (1_000_000, False)])
def test_a_goodbye_behind_what_a_slow_link_carries_may_not_have_been_heard(size: int, lost: bool) -> None:
    """What the consumer holds comes back when the broker has read that far."""
    told = Builder("live", bytes_per_second={"c0": 20_000}).connect("p0").connect("c0").send("p0/1")
    told.subscribe("c0/1", ack="client").arrive("c0/1", "p0/1").send("c0/1", "q1", "unknown", size=size)
    told.leave("c0/1").lose("c0").wait(4000).drain("q0").end()
    assert (kind(told, "GEN-001") is FAILS) == lost


def test_without_a_rest_while_it_is_open_nothing_is_missed() -> None:
    assert kind(audience().arrive("c0/1", "p0/1").lose("c1").rest("t0"), "GEN-004") is HOLDS


@pytest.mark.parametrize("fields", [{"expiration_ms": 1}, {"delay_ms": 1}, {"result": "unknown"}])
def test_only_plain_messages_are_owed_to_subscribers(fields: dict[str, Any]) -> None:
    told = Builder().connect("c0").subscribe("c0/1", "t0").send("p0/1", "t0", **fields).rest("t0")
    assert kind(told, "GEN-004") is SILENT


def test_nobody_gets_what_was_sent_before() -> None:
    told = Builder().connect("p0").connect("c0").send("p0/1", "t0").subscribe("c0/1", "t0").arrive("c0/1", "p0/1")
    assert outcome(told, "GEN-004") == (FAILS, "retroactive")
    told = Builder().connect("p0").connect("c0")
    told.request_ms = 5
    told.send("p0/1", "t0").wait(-2).subscribe("c0/1", "t0").arrive("c0/1", "p0/1")
    assert kind(told, "GEN-004") is SILENT


# -- GEN-005, GEN-006


def test_nothing_arrives_that_was_not_sent_there_before() -> None:
    told = Builder().connect("c0").subscribe("c0/1")
    assert outcome(told.arrive("c0/1", "p0/7"), "GEN-005") == (FAILS, "ghost")
    assert kind(told.send("p0/7"), "GEN-005") is FAILS
    assert judge(told)["GEN-005"].outcome == "too-early"
    told = Builder().connect("c0").subscribe("c0/1").send("p0/1", "q1").arrive("c0/1", "p0/1")
    assert outcome(told, "GEN-005") == (FAILS, "misrouted")
    told = Builder().connect("c0").subscribe("c0/1").send("p0/1", result="unknown").arrive("c0/1", "p0/1")
    assert kind(told, "GEN-005") is HOLDS


def test_a_dead_letter_names_its_origin() -> None:
    def story(origin: str | None) -> Builder:
        told = Builder().connect("c0").subscribe("c0/1", DLQ).send("p0/1", expiration_ms=1)
        return told.arrive("c0/1", "p0/1", original_dest=origin)

    assert kind(story("q0"), "GEN-005") is HOLDS
    assert kind(story(None), "GEN-005") is HOLDS
    assert kind(story("q1"), "GEN-005") is FAILS


def test_a_refused_message_never_arrives() -> None:
    told = Builder().connect("c0").subscribe("c0/1").send("p0/1", result="fail", refusal="no")
    verdict = judge(told.arrive("c0/1", "p0/1"))["GEN-006"]
    assert (verdict.verdict, verdict.outcome) == (FAILS, "delivered")
    assert "refused: no" in verdict.text
    assert kind(Builder().send("p0/1", result="fail").drain("q0").end(), "GEN-006") is HOLDS
    assert kind(Builder().send("p0/1", result="fail"), "GEN-006") is SILENT


# -- GEN-027


@pytest.mark.parametrize("dest", ["q0", "t0"])
@pytest.mark.parametrize(("times", "verdict"), [(1, (HOLDS, "once")), (2, (FAILS, "twice"))])
def test_what_was_sent_again_is_taken_once(dest: str, times: int, verdict: tuple[VerdictKind, str]) -> None:
    told = Builder().connect("c0").subscribe("c0/1", dest).send("p0/1", dest, again=True)
    for _ in range(times):
        told.arrive("c0/1", "p0/1").consume("c0/1", "p0/1").ack("c0/1", "p0/1")
    assert outcome(told.drain("q0").end(), "GEN-027") == verdict


def test_several_subscribers_of_what_was_sent_again_are_no_duplicates() -> None:
    told = Builder().connect("c0").connect("c1").subscribe("c0/1", "t0").subscribe("c1/1", "t0")
    told.send("p0/1", "t0", again=True).arrive("c0/1", "p0/1").arrive("c1/1", "p0/1")
    assert outcome(told.drain("q0").end(), "GEN-027") == (HOLDS, "once")
    assert kind(told, "GEN-012") is SILENT


# -- GEN-012


def perhaps(*, topic: bool = False, result: str = "unknown", twice: bool = True) -> Builder:
    dest = "t0" if topic else "q0"
    told = Builder().connect("p0").connect("c0").subscribe("c0/1", dest, ack="individual")
    told.send("p0/1", dest, result=result).arrive("c0/1", "p0/1").consume("c0/1", "p0/1").ack("c0/1", "p0/1")
    if twice:
        told.arrive("c0/1", "p0/1")
    return told.drain("q0", DLQ).end()


@pytest.mark.parametrize("topic", [False, True])
def test_a_send_of_unknown_result_happens_once_at_most(topic: bool) -> None:
    assert kind(perhaps(topic=topic), "GEN-012") is FAILS
    assert kind(perhaps(topic=topic, twice=False), "GEN-012") is HOLDS
    assert kind(perhaps(topic=topic, result="ok"), "GEN-012") is SILENT


# -- operators


def test_what_was_moved_to_where_it_is_not_is_lost() -> None:
    def told(*found: str) -> VerdictKind:
        story = Builder().connect("p0").send("p0/1").operate("move", "q0", "q1", count=1).drain("q0", "q1")
        return kind(story.arrive("drain/2", *found).end(), "GEN-001")

    assert told() is FAILS
    assert told("p0/1") is HOLDS
    story = Builder().connect("p0").send("p0/1").operate("move", "q0", "q1", count=1).drain("q0").end()
    assert kind(story, "GEN-001") is SILENT  # nobody looked


def test_a_purged_message_is_not_lost_and_a_later_one_is() -> None:
    story = Builder().connect("p0").send("p0/1").operate("purge", "q0")
    assert kind(story.drain("q0", DLQ).end(), "GEN-001") is SILENT
    story = Builder().connect("p0").send("p0/1").operate("purge", "q0").send("p0/2")
    assert kind(story.drain("q0", DLQ).end(), "GEN-001") is FAILS


@pytest.mark.parametrize(("world", "expected"), [("live", False), ("simulated", True)])
def test_a_broker_gives_back_what_a_connection_held_before_it_is_seen_to_close_it(
    world: str, *, expected: bool
) -> None:
    """On processes the next consumer may have it first."""
    story = Builder(world).connect("c0").connect("c1").connect("p0").subscribe("c0/1").send("p0/1")
    story.arrive("c0/1", "p0/1").subscribe("c1/1").wait(500).arrive("c1/1", "p0/1").closed("c0", reason="idle too long")
    assert (story.end().verdicts("GEN-002")["GEN-002"].verdict is VerdictKind.VIOLATED) == expected


@pytest.mark.parametrize(
    ("command", "lost"),
    [
        ("ALTER QLOCAL('q0') PUT(ENABLED) MAXDEPTH(5000)", True),
        ("ALTER QLOCAL('q0') PUT(DISABLED)", False),
        ("ALTER QLOCAL('q0') MAXDEPTH(1)", False),
        ("ALTER QMGR CMDLEVEL(800)", True),
    ],
)
def test_a_command_that_opens_a_queue_hides_nothing_that_is_there(command: str, lost: bool) -> None:
    told = Builder(generation={"delay": "ibm-mq"}).connect("p0").send("p0/1").operate("mqsc", "", command=command)
    assert (kind(told.drain("q0").end(), "GEN-001") is FAILS) == lost
