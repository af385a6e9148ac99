"""Stamps that must not, cannot, or may be put on again, or come first (TSP-013 to -016), on hand-written histories."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.configuration import TimeStampingSpec
from brokerproof.conformance.experiment.history import Operate
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.facts.stamping import INT64_MAX
from tests.fast.conformance.rules.clocked_history import PLUGIN, Clocked

VIOLATED, SATISFIED, NOT_EXERCISED = VerdictKind.VIOLATED, VerdictKind.SATISFIED, VerdictKind.NOT_EXERCISED
PROCESSED = TimeStampingSpec(process_network_messages=True)
MOVED = TimeStampingSpec(restamp_moved=True)


def judged(run: Clocked) -> dict[str, Verdict]:
    return run.at(9000).finish().verdicts("TSP-013", "TSP-015", "TSP-016")


def started(spec: TimeStampingSpec | None) -> Clocked:
    """The producer's clock is a minute behind."""
    run = Clocked(timestamping=spec, skews={"p0": -60_000}).connect("p0").connect("c0").subscribe("c0/1").at(10)
    run.request_ms = 0.1
    return run


@pytest.mark.parametrize(
    ("spec", "stamped", "expected"),
    [
        (PLUGIN, False, SATISFIED),
        (PLUGIN, True, VIOLATED),
        (PROCESSED, True, SATISFIED),
        (PROCESSED, False, VIOLATED),
        (None, False, NOT_EXERCISED),
    ],
)
def test_what_came_over_a_bridge(spec: TimeStampingSpec | None, stamped: bool, expected: VerdictKind) -> None:
    run = started(spec).post("p0/1", ttl_ms=5000, network=True)
    stamps: dict[str, Any] = {}
    if stamped:
        stamps = {"timestamp_ms": run.wall_ms("b", 10), "expiration_ms": run.wall_ms("b", 10) + 5000}
    assert judged(run.at(11).deliver("c0/1", "p0/1", **stamps))["TSP-013"].verdict is expected


@pytest.mark.parametrize(
    ("expiration_ms", "arrives_ms", "expected"),
    [(INT64_MAX, INT64_MAX, SATISFIED), (INT64_MAX, 5, VIOLATED), (10**15, 5, NOT_EXERCISED)],
)
def test_a_life_that_overflows_is_left_alone(expiration_ms: int, arrives_ms: int, expected: VerdictKind) -> None:
    run = started(PLUGIN).post("p0/1", expiration_ms=expiration_ms).at(11)
    run.deliver("c0/1", "p0/1", expiration_ms=arrives_ms, timestamp_ms=run.wall_ms())
    assert judged(run)["TSP-015"].verdict is expected


@pytest.mark.parametrize(
    ("spec", "at_ms", "expected"),
    [(PLUGIN, 10, SATISFIED), (PLUGIN, 5000, VIOLATED), (MOVED, 5000, SATISFIED), (MOVED, 10, VIOLATED)],
)
def test_a_move_restarts_a_life_as_declared(spec: TimeStampingSpec, at_ms: float, expected: VerdictKind) -> None:
    run = started(spec).post("p0/1", ttl_ms=60_000).at(20).subscribe("c0/2", "q1").at(5000)
    run._add(Operate, "b", result="ok", op="move", dest="q0", to="q1", count=1)
    stamped_ms = run.wall_ms("b", at_ms)
    run.at(5001).deliver("c0/2", "p0/1", timestamp_ms=stamped_ms, expiration_ms=stamped_ms + 60_000)
    assert judged(run)["TSP-016"].verdict is expected


# -- TSP-014


def behind() -> Clocked:
    """c0/1 waits; the producer is five minutes behind; requests take 0.1 ms."""
    run = Clocked(timestamping=PLUGIN, skews={"p0": -300_000}).at(1).connect("c0").connect("p0").subscribe("c0/1")
    run.request_ms = 0.1
    return run.at(10)


def rescues(run: Clocked) -> dict[str, Verdict]:
    return run.verdicts("TSP-014")


def rescue() -> Clocked:
    """A producer that is five minutes behind sends with two minutes to live."""
    return behind().post("p0/1", ttl_ms=120_000)


def test_a_message_that_its_stamps_call_dead_is_delivered() -> None:
    run = rescue()
    now_ms = run.wall_ms("b")
    run.at(20).deliver("c0/1", "p0/1", timestamp_ms=now_ms, expiration_ms=now_ms + 120_000)
    found = rescues(run.close(at_ms=500).finish())["TSP-014"]
    assert (found.verdict, found.outcome) == (SATISFIED, "rescued")


def test_a_message_that_nobody_rescued() -> None:
    assert rescues(rescue().close(at_ms=500).dead_letter("p0/1").finish())["TSP-014"].outcome == "dead-on-arrival"


def test_a_message_that_was_dead_for_its_own_producer_is_no_instance() -> None:
    run = behind().post("p0/1", ttl_ms=-5)
    assert rescues(run.close(at_ms=500).dead_letter("p0/1").finish())["TSP-014"].verdict is NOT_EXERCISED
