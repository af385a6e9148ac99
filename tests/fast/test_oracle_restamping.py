"""The oracle of stamps that must not, cannot, or may be put on again (``restamping.py``), on hand-written histories."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.configuration import TimeStampingSpec
from brokerproof.conformance.experiment.history import Operate
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.oracles.restamping import RestampingOracle
from brokerproof.conformance.oracles.stamp import INT64_MAX
from tests.fast.histories import PLUGIN, Tale

VIOLATED, SATISFIED, NOT_EXERCISED = VerdictKind.VIOLATED, VerdictKind.SATISFIED, VerdictKind.NOT_EXERCISED
PROCESSED = TimeStampingSpec(process_network_messages=True)
MOVED = TimeStampingSpec(restamp_moved=True)


def judged(tale: Tale) -> dict[str, Verdict]:
    return tale.at(9000).finish().tell(RestampingOracle)


def started(spec: TimeStampingSpec | None) -> Tale:
    """The producer's clock is a minute behind."""
    tale = Tale(timestamping=spec, skews={"p0": -60_000}).connect("p0").connect("c0").subscribe("c0/1").at(10)
    tale.request_ms = 0.1
    return tale


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
    tale = started(spec).post("p0/1", ttl_ms=5000, network=True)
    stamps: dict[str, Any] = {}
    if stamped:
        stamps = {"timestamp_ms": tale.wall_ms("b", 10), "expiration_ms": tale.wall_ms("b", 10) + 5000}
    assert judged(tale.at(11).deliver("c0/1", "p0/1", **stamps))["TSP-013"].verdict is expected


@pytest.mark.parametrize(
    ("expiration_ms", "arrives_ms", "expected"),
    [(INT64_MAX, INT64_MAX, SATISFIED), (INT64_MAX, 5, VIOLATED), (10**15, 5, NOT_EXERCISED)],
)
def test_a_life_that_overflows_is_left_alone(expiration_ms: int, arrives_ms: int, expected: VerdictKind) -> None:
    tale = started(PLUGIN).post("p0/1", expiration_ms=expiration_ms).at(11)
    tale.deliver("c0/1", "p0/1", expiration_ms=arrives_ms, timestamp_ms=tale.wall_ms())
    assert judged(tale)["TSP-015"].verdict is expected


@pytest.mark.parametrize(
    ("spec", "at_ms", "expected"),
    [(PLUGIN, 10, SATISFIED), (PLUGIN, 5000, VIOLATED), (MOVED, 5000, SATISFIED), (MOVED, 10, VIOLATED)],
)
def test_a_move_restarts_a_life_as_declared(spec: TimeStampingSpec, at_ms: float, expected: VerdictKind) -> None:
    tale = started(spec).post("p0/1", ttl_ms=60_000).at(20).subscribe("c0/2", "q1").at(5000)
    tale._add(Operate, "b", result="ok", op="move", dest="q0", to="q1", count=1)
    stamped_ms = tale.wall_ms("b", at_ms)
    tale.at(5001).deliver("c0/2", "p0/1", timestamp_ms=stamped_ms, expiration_ms=stamped_ms + 60_000)
    assert judged(tale)["TSP-016"].verdict is expected
