"""Restarts in the live world: the same program, the outcomes of virtual time, and a planted defect that dies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.history import Fault
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.parity import compare, paced
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.conformance.worlds.live.world import LiveWorld
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.live.bench import make_laboratory

pytestmark = pytest.mark.live

NAME = "restart-keeps-what-was-confirmed"


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with make_laboratory(tmp_path_factory.mktemp("restart")) as laboratory:
        yield laboratory


def test_both_worlds_restart_alike(laboratory: Laboratory) -> None:
    program = paced(programs()[NAME])
    live = LiveWorld(ReferenceAdapter(), laboratory).run(program)
    assert compare(SimulatedWorld().run(program), live) == []
    restarts = [event for event in live.events if isinstance(event, Fault) and event.fault == "restart"]
    assert [event.how for event in restarts] == ["kill", "stop"]
    for event in restarts:
        assert event.evidence is not None
        assert event.evidence["pid_before"] != event.evidence["pid_after"]
    verdicts = {verdict.requirement: verdict for verdict in judge_history(live)}
    assert verdicts["GEN-080"].verdict is VerdictKind.SATISFIED
    assert verdicts["GEN-081"].verdict is VerdictKind.SATISFIED
    assert [verdict for verdict in verdicts.values() if verdict.verdict is VerdictKind.VIOLATED] == []


def test_a_broker_that_forgets_to_write_is_found_out(laboratory: Laboratory) -> None:
    live = LiveWorld(ReferenceAdapter("journal-forgets-message"), laboratory).run(programs()[NAME])
    verdicts = {verdict.requirement: verdict for verdict in judge_history(live)}
    assert verdicts["GEN-080"].verdict is VerdictKind.VIOLATED
