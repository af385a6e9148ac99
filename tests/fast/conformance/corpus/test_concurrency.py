"""Programs of several hosts at once: the incident of seed 003, and defects that only overlapping requests show."""

from __future__ import annotations

import pytest

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.history import Counters
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps.parallel import each
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.running.engine import run_program


def violated(program: Program, mutant: str | None = None) -> set[str]:
    verdicts = run_program(program, "p", mutant=mutant).verdicts
    return {verdict.requirement for verdict in verdicts if verdict.verdict is VerdictKind.VIOLATED}


@pytest.mark.parametrize(("dispatch", "negative"), [("", True), ("-synchronous", False)])
def test_ten_consumers_that_reconnect_at_once(dispatch: str, negative: bool) -> None:
    result = run_program(programs()[f"seed-003-ten-consumers{dispatch}"], "p")
    assert result.history is not None
    events = result.history.events
    counts = [event.in_flight for event in events if isinstance(event, Counters) and event.in_flight is not None]
    assert (min(counts) < 0) is negative
    assert counts[-1] == 0
    assert not [verdict for verdict in result.verdicts if verdict.verdict is VerdictKind.VIOLATED]


@pytest.mark.parametrize(
    ("mutant", "requirement"), [("sync-covers-too-much", "GEN-080"), ("sync-answers-one", "GEN-110")]
)
def test_what_only_overlapping_requests_show(mutant: str, requirement: str) -> None:
    program = programs()["producers-overlap-and-a-kill"]
    assert violated(program) == set()
    assert requirement in violated(program, mutant)
    assert violated(program.with_steps(list(each(program.steps))), mutant) == set()
