"""GEN-120 to GEN-122 on hand-written histories: who is entitled to a message and has room is given it."""

from __future__ import annotations

from typing import Any

from brokerproof.conformance.experiment.history import Poll
from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def kind(story: Builder, requirement: str) -> VerdictKind:
    return story.verdicts(requirement)[requirement].verdict


def exclusive(prefetch: int = 10, **fields: Any) -> Builder:
    story = Builder().connect("p0").connect("c0").connect("c1")
    story.subscribe("c0/1", prefetch=prefetch, exclusive=True).subscribe("c1/1", exclusive=True)
    return story.send("p0/1").arrive("c0/1", "p0/1").send("p0/2", **fields)


def test_the_exclusive_consumer_is_served() -> None:
    assert kind(exclusive().arrive("c0/1", "p0/2").rest("q0", size=2), "GEN-120") is HOLDS
    assert kind(exclusive().rest("q0", size=2), "GEN-120") is FAILS
    assert kind(exclusive(prefetch=1).rest("q0", size=2), "GEN-120") is HOLDS  # nobody else may have it
    assert kind(exclusive(persistent=False).rest("q0", size=2), "GEN-120") is FAILS
    assert kind(exclusive(result="unknown").rest("q0", size=2), "GEN-120") is not FAILS
    assert kind(exclusive(group="g").rest("q0", size=2), "GEN-120") is not FAILS
    assert kind(exclusive().operate("purge", count=0).rest("q0", size=2), "GEN-120") is not FAILS


def test_its_successor_is_served() -> None:
    def left() -> Builder:
        return exclusive().arrive("c0/1", "p0/2").leave("c0/1")

    assert kind(left().arrive("c1/1", "p0/1", "p0/2").rest("q0", size=2), "GEN-120") is HOLDS
    assert kind(left().rest("q0", size=2), "GEN-120") is FAILS


def grouped() -> Builder:
    story = Builder().connect("p0").connect("c0").connect("c1").subscribe("c0/1").subscribe("c1/1", prefetch=1)
    return story.send("p0/1", group="g").arrive("c0/1", "p0/1").send("p0/2", group="g")


def test_a_group_waits_for_nobody_when_all_have_room() -> None:
    assert kind(grouped().rest("q0", size=2), "GEN-121") is FAILS
    assert kind(grouped().arrive("c0/1", "p0/2").rest("q0", size=2), "GEN-121") is HOLDS
    full = grouped().send("p0/3", group="h").arrive("c1/1", "p0/3")
    assert kind(full.rest("q0", size=3), "GEN-121") is HOLDS  # its own consumer may be the one without room
    gone = grouped().arrive("c0/1", "p0/2").leave("c0/1").rest("q0", size=2)
    assert kind(gone, "GEN-121") is FAILS


def pulled(timeout_ms: int, ms: float, message: str | None = None, **fields: Any) -> Builder:
    story = Builder().connect("p0").connect("c0", "jms").send("p0/1", **fields).subscribe("c0/1", prefetch=0)
    story._add(Poll, "c0", ms, consumer="c0/1", timeout_ms=timeout_ms, answered=True, message=message)
    return story.drain("q0").arrive("drain/1", "p0/1").end()


def test_a_pull_finds_what_waits() -> None:
    assert kind(pulled(1000, 1000, "p0/1"), "GEN-122") is HOLDS
    assert kind(pulled(1000, 1000), "GEN-122") is FAILS
    assert kind(pulled(500, 1000), "GEN-122") is SILENT  # too little time to prove anything
    assert kind(pulled(1000, 1000, result="unknown"), "GEN-122") is SILENT
    assert kind(pulled(1000, 1000, delay_ms=900), "GEN-122") is SILENT
    assert kind(pulled(1000, 1000, group="g"), "GEN-122") is SILENT
