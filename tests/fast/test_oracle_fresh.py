"""The oracle of what is in memory after a restart, on hand-written histories."""

from __future__ import annotations

from typing import Any

from brokerproof.conformance.experiment.history import Fault
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.oracles.fresh import FreshOracle
from tests.fast.chronicle import Chronicle

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def restarted(**fields: Any) -> Chronicle:
    story = Chronicle(persistent=True).connect("p0").connect("c0").send("p0/1", **fields)
    return story._add(Fault, "", fault="restart", target="b", how="kill", evidence={"pid": 1})


def kind(story: Chronicle) -> VerdictKind:
    return story.judge(FreshOracle)["MEM-015"].verdict


def test_nothing_is_in_memory_until_somebody_wants_it() -> None:
    assert kind(restarted().rest("q0", size=1, memory_bytes=0)) is HOLDS
    assert kind(restarted().rest("q0", size=1, memory_bytes=1)) is FAILS
    assert kind(restarted().rest("q0", size=0, memory_bytes=0)) is SILENT
    assert kind(restarted().subscribe("c0/1").rest("q0", size=1, memory_bytes=1)) is SILENT
    assert kind(restarted(delay_ms=5).rest("q0", size=1, memory_bytes=1)) is SILENT


def test_a_sweep_may_load() -> None:
    assert kind(restarted().wait(1000).rest("q0", size=1, memory_bytes=1)) is SILENT


def test_what_was_not_persistent_is_gone() -> None:
    assert kind(restarted(persistent=False).connect("c0").subscribe("c0/1").arrive("c0/1", "p0/1")) is FAILS
    assert kind(restarted(persistent=False).connect("c0").subscribe("c0/1")) is HOLDS
    assert kind(restarted().connect("c0").subscribe("c0/1").arrive("c0/1", "p0/1")) is SILENT
    dead = restarted(persistent=False).connect("c0").subscribe("c0/1", "ActiveMQ.DLQ")
    assert kind(dead.arrive("c0/1", "p0/1", original_dest="q0")) is HOLDS
