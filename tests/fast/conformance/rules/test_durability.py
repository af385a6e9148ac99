"""GEN-007 and GEN-080 to GEN-082 on hand-written histories."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def kind(story: Builder, requirement: str) -> VerdictKind:
    return story.verdicts(requirement)[requirement].verdict


def sent(*messages: str, **fields: Any) -> Builder:
    story = Builder()
    for message in messages:
        story.send(message, **{"persistent": True, **fields})
    return story


# -- GEN-080


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_confirmed_message_that_is_gone_after_a_restart_is_lost(how: str) -> None:
    lost = sent("p0/1").restart(how).drain("q0").end()
    verdict = lost.verdicts("GEN-080")["GEN-080"]
    assert (verdict.verdict, verdict.outcome) == (FAILS, "lost")
    assert how in verdict.text
    assert kind(sent("p0/1").restart(how).drain("q0").arrive("drain/1", "p0/1").end(), "GEN-080") is HOLDS


def test_nothing_is_claimed_of_other_messages() -> None:
    assert kind(sent("p0/1", persistent=False).restart().drain("q0").end(), "GEN-080") is SILENT
    assert kind(sent("p0/1", result="unknown").restart().drain("q0").end(), "GEN-080") is SILENT
    assert kind(sent("p0/1").drain("q0").end(), "GEN-080") is SILENT, "without a restart GEN-001 judges it"
    assert kind(sent("p0/1").restart(), "GEN-080") is SILENT, "nobody looked"
    topic = Builder().send("p0/1", "t0", persistent=True).restart().drain("q0").end()
    assert kind(topic, "GEN-080") is SILENT


def test_what_a_lost_acknowledgement_may_have_settled_is_not_missed() -> None:
    story = sent("p0/1").subscribe("c0/1", ack="client").arrive("c0/1", "p0/1").consume("c0/1", "p0/1")
    story.ack("c0/1", "p0/1", result="unknown").restart().drain("q0").end()
    assert kind(story, "GEN-080") is HOLDS


# -- GEN-081


def taken(result: str = "ok", via: str = "stomp") -> Builder:
    """p0/1 was acknowledged, then the broker was restarted."""
    story = sent("p0/1").connect("c0", via).subscribe("c0/1", ack="client").arrive("c0/1", "p0/1")
    return story.consume("c0/1", "p0/1").ack("c0/1", "p0/1", result=result).restart()


def test_a_confirmed_acknowledgement_is_for_ever() -> None:
    assert kind(taken().drain("q0").arrive("drain/1", "p0/1").end(), "GEN-081") is FAILS
    assert kind(taken().drain("q0").end(), "GEN-081") is HOLDS


@pytest.mark.parametrize(("result", "via"), [("unknown", "stomp"), ("ok", "jms")])
def test_what_may_not_have_reached_the_broker_may_come_back(result: str, via: str) -> None:
    assert kind(taken(result, via).drain("q0").arrive("drain/1", "p0/1").end(), "GEN-081") is SILENT


def test_an_acknowledgement_after_the_restart_says_nothing_of_it() -> None:
    story = sent("p0/1").restart().subscribe("c0/1", ack="client").arrive("c0/1", "p0/1")
    story.consume("c0/1", "p0/1").ack("c0/1", "p0/1").drain("q0").end()
    assert kind(story, "GEN-081") is SILENT


@pytest.mark.parametrize(
    ("how", "size", "expected"), [("stop", 0, FAILS), ("stop", 1, SILENT), ("kill", 0, SILENT), ("stop", None, SILENT)]
)
def test_what_is_not_confirmed_is_settled_once_the_brokers_figures_say_so(
    how: str, size: int | None, expected: VerdictKind
) -> None:
    """AMQP: a disposition has no answer. A stop leaves the time to write down what was counted; a kill does not."""
    story = Builder("live").connect("p0").connect("c0", awaits_receipt=False).subscribe("c0/1").send("p0/1")
    story.arrive("c0/1", "p0/1").ack("c0/1", "p0/1")
    if size is not None:
        story.rest(size=size, in_flight=size)
    story.restart(how).drain("q0").arrive("drain/1", "p0/1", redelivered=True)
    assert kind(story.end(), "GEN-081") is expected


@pytest.mark.parametrize(
    ("sent_later", "size", "in_flight", "expected"),
    [(False, 1, 0, FAILS), (False, 2, 0, SILENT), (False, 1, 1, SILENT), (True, 1, 0, SILENT)],
)
def test_what_is_left_was_there_for_certain_where_it_came_later(
    sent_later: bool, size: int, in_flight: int, expected: VerdictKind
) -> None:
    """One of two is acknowledged, and the figures show one: the other one, which the drain finds."""
    story = Builder("live").connect("p0").connect("c0", awaits_receipt=False).subscribe("c0/1", ack="individual")
    story = story.send("p0/1") if sent_later else story.send("p0/1").send("p0/2")
    story.arrive("c0/1", "p0/1").ack("c0/1", "p0/1").rest(size=size, in_flight=in_flight)
    story = story.send("p0/2") if sent_later else story
    story.restart("stop").drain("q0").arrive("drain/1", "p0/1", "p0/2", redelivered=True)
    assert kind(story.end(), "GEN-081") is expected


# -- GEN-082


def test_the_order_of_what_waited_is_kept() -> None:
    right = sent("p0/1", "p0/2").restart().subscribe("c0/1").arrive("c0/1", "p0/1", "p0/2")
    assert kind(right.end(), "GEN-082") is HOLDS
    wrong = sent("p0/1", "p0/2").restart().subscribe("c0/1").arrive("c0/1", "p0/2", "p0/1")
    assert kind(wrong.end(), "GEN-082") is FAILS


def test_order_is_not_judged_where_something_else_explains_it() -> None:
    other = sent("p0/1", "p0/2").restart().subscribe("c1/1").subscribe("c0/1").arrive("c0/1", "p0/2", "p0/1")
    assert kind(other.end(), "GEN-082") is SILENT, "c1/1 may have had p0/1 and have lost it"
    returned = sent("p0/1", "p0/2").subscribe("c1/1").arrive("c1/1", "p0/1").restart()
    assert kind(returned.subscribe("c0/1").arrive("c0/1", "p0/2", "p0/1").end(), "GEN-082") is SILENT
    ranks = sent("p0/1").send("p0/2", persistent=True, priority=9).restart().subscribe("c0/1")
    assert kind(ranks.arrive("c0/1", "p0/2", "p0/1").end(), "GEN-082") is SILENT
    new = sent("p0/1").restart().send("p0/2", persistent=True).subscribe("c0/1").arrive("c0/1", "p0/2", "p0/1")
    assert kind(new.end(), "GEN-082") is SILENT, "GEN-003 judges what was sent after the restart"


# -- GEN-007


def restarted(*, back: str = "p0/2") -> Builder:
    """Of two messages the first was settled before a restart; ``back`` comes afterwards."""
    told = Builder(persistent=True).connect("p0").connect("c0").send("p0/1").send("p0/2")
    told.subscribe("c0/1", prefetch=1).arrive("c0/1", "p0/1").consume("c0/1", "p0/1").ack("c0/1", "p0/1").restart()
    return told.drain("q0").arrive("drain/1", *back.split()).end()


def test_what_a_restart_remembers() -> None:
    assert kind(restarted(), "GEN-007") is HOLDS
    assert kind(restarted(back=""), "GEN-007") is FAILS
    assert kind(restarted(back="p0/1 p0/2"), "GEN-007") is FAILS


# -- JMS clients, whose acknowledgements nobody confirms


def rested(world: str = "simulated", *, rests: bool = True, stalls: bool = False) -> Builder:
    """p0/1 was acknowledged; nothing moved; the broker ended the connection, and was started again."""
    story = Builder(world, persistent=True).send("p0/1", persistent=True).connect("c0", "jms")
    story.subscribe("c0/1", ack="client").arrive("c0/1", "p0/1").consume("c0/1", "p0/1").ack("c0/1", "p0/1")
    if stalls:
        story.stall("c0")
    if rests:
        story.rest("q0", size=0)
    return story.closed("c0", host="c0").restart().drain("q0").arrive("drain/1", "p0/1").end()


def test_what_was_acknowledged_before_nothing_moved_stays_away() -> None:
    assert kind(rested(), "GEN-081") is FAILS
    assert kind(rested(rests=False), "GEN-081") is SILENT
    assert kind(rested(stalls=True), "GEN-081") is SILENT, "the acknowledgement may be held up"
    assert kind(rested("live"), "GEN-081") is SILENT, "a real one may not have written it down"


# -- GEN-087


def emptied(
    how: str = "kill", *, world: str = "simulated", op: str = "purge", before: str = "", after: str = "", **left: Any
) -> Builder:
    """A queue was purged and read as empty before a restart. ``before``, ``after``: what is sent meanwhile."""
    to = {"to": "q1"} if op == "move" else {}
    story = Builder(world, persistent=True).connect("p0").send("p0/1", persistent=True).operate(op, count=1, **to)
    story.rest("q0", **{"size": 0, "in_flight": 0, "scheduled": 0, **left})
    for message, restarts in ((before, True), (after, False)):
        if message:
            story.send(message, persistent=True)
        if restarts:
            story.restart(how).connect("p0")
    return story


def came(story: Builder, **counters: Any) -> VerdictKind:
    return kind(story.rest("q0", **counters), "GEN-087")


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_what_was_gone_stays_away(how: str) -> None:
    assert came(emptied(how), size=0, enqueued=0) is HOLDS
    assert came(emptied(how)) is HOLDS, "there is no queue any more"
    assert came(emptied(how), size=1) is FAILS
    assert came(emptied(how), size=0, scheduled=1) is FAILS
    assert came(emptied(how), size=0, enqueued=1) is FAILS, "it was there, and died"


def test_what_may_have_come_or_was_left_says_nothing() -> None:
    assert came(emptied(before="p0/2"), size=1) is SILENT
    assert came(emptied(after="p0/2"), size=1) is SILENT
    for left in ({"size": 1}, {"in_flight": 1}, {"scheduled": 1}):
        assert came(emptied(**left), size=1) is SILENT


def test_what_real_brokers_may_show() -> None:
    def settled(how: str) -> Builder:
        story = Builder("live", persistent=True).send("p0/1", persistent=True).subscribe("c0/1", ack="client")
        story.arrive("c0/1", "p0/1").ack("c0/1", "p0/1").rest("q0", size=0, in_flight=0)
        return story.restart(how).connect("p0")

    assert came(emptied(world="live"), size=1) is SILENT, "a purge may have reached less than was shown"
    assert came(emptied("stop", world="live", op="move"), size=1) is FAILS
    assert came(settled("stop"), size=1) is FAILS
    assert came(settled("kill"), size=1) is SILENT
    assert came(settled("stop"), size=0, enqueued=1) is HOLDS
