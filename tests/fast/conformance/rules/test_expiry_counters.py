"""Expiry as counters and advisories tell of it, on hand-written histories."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.configuration import PolicySpec
from brokerproof.conformance.experiment.destinations import expiries_of
from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.clocked_history import Clocked
from tests.fast.conformance.rules.history_builder import Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
TOLD = expiries_of("q0")


def kind(story: Builder, requirement: str) -> VerdictKind:
    return story.verdicts(requirement)[requirement].verdict


def counted(before: dict[str, int], after: dict[str, int], *, between: bool = False) -> Builder:
    """Two reads at rest, with nothing between them but time, or a subscription."""
    told = Clocked().connect("p0").connect("c0").post("p0/1", ttl_ms=100).at(50).rest("q0", **before).at(5000)
    if between:
        told.subscribe("c0/1")
    return told.rest("q0", **after)


ONE = {"expired": 0, "dequeued": 0, "enqueued": 1, "size": 1, "in_flight": 0}


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ({"expired": 1, "dequeued": 1, "size": 0}, HOLDS),
        ({"expired": 1, "dequeued": 0, "size": 0}, FAILS),
        ({"expired": 1, "dequeued": 1, "size": 1}, FAILS),
        ({"expired": 1, "dequeued": 1, "size": 0, "in_flight": -1}, FAILS),
        ({"expired": 1, "dequeued": 1, "size": 0, "scheduled": 1}, SILENT),
        ({}, SILENT),
    ],
)
def test_an_expiry_moves_the_counters_together(after: dict[str, int], verdict: VerdictKind) -> None:
    assert kind(counted(ONE, ONE | after), "EXP-013") is verdict
    assert kind(counted(ONE, ONE | after, between=True), "EXP-013") is SILENT


def test_a_message_expires_once() -> None:
    def told(expired: int, *, ttl_ms: int = 100) -> Builder:
        story = Clocked().connect("p0").post("p0/1", ttl_ms=ttl_ms).post("p0/2").at(5000).close().dead_letter("p0/1")
        return story.at(9000).rest("q0", expired=expired).finish()

    assert kind(told(1), "EXP-014") is HOLDS
    assert kind(told(2), "EXP-014") is FAILS
    assert kind(told(0), "EXP-014") is FAILS
    assert kind(told(1, ttl_ms=90_000), "EXP-014") is FAILS


# -- EXP-020


@pytest.mark.parametrize(
    ("names", "verdict"),
    [(["a", "b"], HOLDS), (["a"], FAILS), (["a", "a"], FAILS), (["a", None], FAILS), (["a", "b", "c"], FAILS)],
)
def test_each_expiry_is_told_once(names: list[str | None], verdict: VerdictKind) -> None:
    told = Clocked(policies=[PolicySpec(advisories=True)]).connect("p0").connect("c0")
    told.subscribe("c0/1", TOLD, ack="auto").post("p0/1", ttl_ms=100).post("p0/2", ttl_ms=100).post("p0/3").at(5000)
    for name in names:
        told.arrive("c0/1", "", original_id=name)
    told.at(5001).rest("q0", expired=2)
    assert kind(told.at(6000).close().finish(), "EXP-020") is verdict


def test_who_came_late_or_was_cut_off_claims_nothing() -> None:
    late = Clocked().connect("p0").connect("c0").post("p0/1", ttl_ms=100).at(10).subscribe("c0/1", TOLD, ack="auto")
    assert kind(late.at(5000).rest("q0", expired=1).close().finish(), "EXP-020") is SILENT
    lost = Clocked().connect("p0").connect("c0").subscribe("c0/1", TOLD, ack="auto").at(10).post("p0/1", ttl_ms=100)
    lost.at(20).lose("c0").at(5000).rest("q0", expired=1)
    assert kind(lost.close().finish(), "EXP-020") is SILENT
