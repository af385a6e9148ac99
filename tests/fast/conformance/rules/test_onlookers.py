"""GEN-026 and GEN-028 on hand-written histories."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.configuration import PolicySpec
from brokerproof.conformance.experiment.destinations import presence_of
from brokerproof.conformance.experiment.history import Browse
from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import Builder, foreign

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def said(story: Builder, requirement: str) -> VerdictKind:
    return story.verdicts(requirement)[requirement].verdict


def browsed(*messages: str, complete: bool = True) -> Builder:
    story = Builder().connect("p0").connect("c0").connect("c1").send("p0/1").send("p0/2")
    story.subscribe("c0/1", browser=True, ack="auto")
    return story._add(Browse, "c0", dest="q0", messages=list(messages), consumer="c0/1", complete=complete)


def test_a_browser_is_shown_everything_in_order() -> None:
    assert said(browsed("p0/1", "p0/2"), "GEN-026") is HOLDS
    assert said(browsed("p0/1"), "GEN-026") is FAILS
    assert said(browsed("p0/2", "p0/1"), "GEN-026") is FAILS
    assert said(browsed("p0/1", complete=False), "GEN-026") is SILENT
    taken = (
        Builder()
        .connect("p0")
        .connect("c0")
        .connect("c1")
        .send("p0/1")
        .subscribe("c1/1")
        .arrive("c1/1", "p0/1")
        .ack("c1/1", "p0/1")
    )
    taken.subscribe("c0/1", browser=True)._add(Browse, "c0", dest="q0", messages=[], consumer="c0/1", complete=True)
    assert said(taken, "GEN-026") is SILENT


def test_others_do_not_hide_a_message_from_a_browser() -> None:
    """A restart before, an operator elsewhere, a choosy consumer: none of them explains what is not shown."""
    told = Builder(persistent=True).connect("p0").connect("c0").send("p0/9", "q1").restart().connect("p0").connect("c0")
    told.operate("purge", "q1").subscribe("c0/9", selector="kind = 'a'").send("p0/1")
    told.subscribe("c0/1", browser=True)._add(Browse, "c0", dest="q0", messages=[], consumer="c0/1", complete=True)
    assert said(told, "GEN-026") is FAILS


@pytest.mark.parametrize(("losses", "verdict"), [(1, FAILS), (2, SILENT)])
def test_what_was_delivered_too_often_unseen_may_be_gone(losses: int, verdict: VerdictKind) -> None:
    told = Builder(redeliveries_max=1).connect("p0").connect("c0").connect("c1").send("p0/1")
    for number in range(1, losses + 1):
        told.subscribe(f"c1/{number}").lose("c1").connect("c1")
    told.subscribe("c0/1", browser=True)._add(Browse, "c0", dest="q0", messages=[], consumer="c0/1", complete=True)
    assert said(told, "GEN-026") is verdict


def test_what_a_consumer_holds_a_browser_sees_where_that_is_promised() -> None:
    for story, verdict in ((Builder("live"), FAILS), (foreign(), SILENT)):
        story.connect("p0").connect("c0").connect("c1").send("p0/1").subscribe("c1/1").arrive("c1/1", "p0/1")
        story.subscribe("c0/1", browser=True)._add(Browse, "c0", dest="q0", messages=[], consumer="c0/1", complete=True)
        assert said(story, "GEN-026") is verdict


def listened(
    world: str = "simulated",
    *,
    before: bool = False,
    told: int = 2,
    cut: bool = False,
    gone: bool = False,
    **declared: object,
) -> Builder:
    """Somebody listens; one consumer comes (or is there already) and goes; and so many advisories arrive."""
    story = Builder(world, **declared).connect("p0").connect("c0")
    if gone:
        story.subscribe("c0/9").leave("c0/9").rest("q0")
    if before:
        story.subscribe("c0/1")
    story.at(10).subscribe("p0/1", presence_of("q0"), ack="auto").at(20)
    if not before:
        story.subscribe("c0/1")
    story.at(30).leave("c0/1").at(40)
    if cut:
        story.lose("p0").at(45)
    for _ in range(told):
        story.arrive("p0/1", "")
    return story.at(50).rest("q0")


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(("told", "verdict"), [(2, HOLDS), (1, FAILS), (0, FAILS), (3, FAILS)])
def test_who_listens_is_told_of_each_consumer_twice(before: bool, told: int, verdict: VerdictKind) -> None:
    assert said(listened(before=before, told=told), "GEN-028") is verdict


def test_a_listener_that_was_cut_off_claims_nothing() -> None:
    assert said(listened(told=0, cut=True), "GEN-028") is SILENT


@pytest.mark.parametrize(("world", "verdict"), [("simulated", FAILS), ("live", SILENT)])
def test_an_advisory_may_come_late_in_real_time(world: str, verdict: VerdictKind) -> None:
    assert said(listened(world, told=1), "GEN-028") is FAILS
    assert said(listened(world, told=1).at(60).arrive("p0/1", ""), "GEN-028") is verdict


def test_there_may_be_no_memory_for_another_advisory() -> None:
    little = [PolicySpec(memory_limit_bytes=1024)]
    assert said(listened(told=1, policies=little), "GEN-028") is SILENT
    assert said(listened(told=3, policies=little), "GEN-028") is FAILS


def test_who_had_gone_before_somebody_listened_is_not_told_of() -> None:
    assert said(listened(gone=True), "GEN-028") is HOLDS
    assert said(listened(gone=True, told=4), "GEN-028") is FAILS
