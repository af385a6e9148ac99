"""PRE-006, PRE-011 and DLY-011 on hand-written histories."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.history import Poll
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.oracles.onlookers import OnlookerOracle
from tests.fast.chronicle import Chronicle

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def said(story: Chronicle, requirement: str) -> VerdictKind:
    return story.judge(OnlookerOracle)[requirement].verdict


def begun(*hosts: str, **declared: Any) -> Chronicle:
    story = Chronicle(**declared)
    for host in ("p0", "c0", "c1", *hosts):
        story.connect(host)
    return story


def test_a_pull_brings_one_message() -> None:
    story = begun().subscribe("c0/1", prefetch=0).send("p0/1").send("p0/2").arrive("c0/1", "p0/1")
    assert said(story, "PRE-006") is SILENT
    assert said(story.consume("c0/1", "p0/1").arrive("c0/1", "p0/2"), "PRE-006") is HOLDS
    twice = begun().subscribe("c0/1", prefetch=0).send("p0/1").send("p0/2").arrive("c0/1", "p0/1", "p0/2")
    assert said(twice, "PRE-006") is FAILS


def test_who_was_refused_may_ask_in_vain() -> None:
    story = begun().subscribe("c0/1", prefetch=0, result="fail")
    story._add(Poll, "c0", consumer="c0/1", answered=True)
    assert said(story.end(), "DLY-011") is SILENT


@pytest.mark.parametrize(("dispatch", "late"), [("async", True), ("async", False), ("sync", True)])
def test_a_deaf_neighbour_delays_nobody(dispatch: str, late: bool) -> None:
    story = begun().subscribe("c0/1", dispatch=dispatch).subscribe("c1/1").stall("c0", "client").send("p0/1")
    if late:
        story.wait(5000).resume("c0").arrive("c1/1", "p0/1")
    else:
        story.arrive("c1/1", "p0/1").wait(5000).resume("c0")
    story.rest(size=1).end()
    wanted = SILENT if dispatch == "sync" else FAILS if late else HOLDS
    assert said(story, "PRE-011") is wanted
