"""EXP-022 on hand-written histories."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.oracles.unseen import UnseenOracle
from tests.fast.histories import Tale

VIOLATED, SATISFIED, NOT_EXERCISED = VerdictKind.VIOLATED, VerdictKind.SATISFIED, VerdictKind.NOT_EXERCISED


@pytest.mark.parametrize(
    ("commit_ms", "arrives", "expected"),
    [(111, True, VIOLATED), (111, False, SATISFIED), (110, True, NOT_EXERCISED)],
)
def test_what_died_before_its_commit_reaches_nobody(commit_ms: float, arrives: bool, expected: VerdictKind) -> None:
    tale = Tale().at(1).connect("c0").connect("p0").subscribe("c0/1").at(10)
    tale.request_ms = 0.1
    tale.begin("p0").post("p0/1", ttl_ms=100, tx="p0/tx1").at(commit_ms).commit("p0")
    if arrives:
        tale.at(commit_ms + 1).deliver("c0/1", "p0/1")
    assert tale.close(at_ms=500).finish().tell(UnseenOracle)["EXP-022"].verdict is expected
