"""Shrinking: a planted defect ends as a program of a few steps, and replays exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerproof.conformance.experiment.program import Program, read_program
from brokerproof.conformance.experiment.steps import Advance, Send
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.polish import polish
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.generate.shrink import Shrinker
from brokerproof.conformance.mutants import MUTANTS
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.hunt import hunt
from brokerproof.conformance.running.shrinking import shrink_violation

#: Mutants of different kinds, and how many steps their story needs at most.
STORIES = {"delay-1ms-early": 4, "expiry-never": 5, "stamp-future-only-ignored": 5, "ledger-forgets-close": 6}


@pytest.mark.parametrize("name", list(STORIES))
def test_a_planted_defect_shrinks_to_a_short_story(name: str, tmp_path: Path) -> None:
    kill = hunt(MUTANTS[name], programs_max=1000)
    assert kill is not None
    requirement = MUTANTS[name].requirement
    shrunk = shrink_violation(kill.result.program, requirement, name)
    assert len(shrunk.result.program.steps) <= STORIES[name]
    violated = {v.requirement for v in shrunk.result.verdicts if v.verdict is VerdictKind.VIOLATED}
    assert requirement in violated, "what does not fail is no shrunk failure"
    path = tmp_path / "program.json"
    path.write_bytes(shrunk.result.program.encode())
    again = run_program(read_program(path), shrunk.result.name, mutant=name)
    assert again.history is not None
    assert shrunk.result.history is not None
    assert again.history.encode() == shrunk.result.history.encode()


def sums_to(program: Program, total_ms: int) -> bool:
    """An artificial failure that needs two steps to change together."""
    waits = [step.ms for step in program.steps if isinstance(step, Advance)]
    return sum(waits) >= total_ms and any(isinstance(step, Send) for step in program.steps)


def test_hypothesis_polishes_what_delta_debugging_leaves() -> None:
    """The self-test of the private API: if it fails, polish() has become a no-op with this version of Hypothesis."""
    program = program_for_seed(1).with_steps(
        [Advance(ms=977), Send(ttl_ms=50), Advance(ms=4000), Send(), Advance(ms=123)]
    )
    polished = polish(program, lambda candidate: sums_to(candidate, 1000))
    assert sums_to(polished, 1000)
    assert len(polished.steps) == 2
    assert sum(step.ms for step in polished.steps if isinstance(step, Advance)) == 1000


def test_shrinking_a_long_program_is_quick_and_ends_minimal() -> None:
    steps = [
        *program_for_seed(1).steps,
        *program_for_seed(2).steps,
        Advance(ms=5000),
        *program_for_seed(3).steps,
        Send(),
    ]
    shrinker = Shrinker(program_for_seed(1).with_steps(steps), lambda candidate: sums_to(candidate, 5000))
    best = shrinker.run()
    assert len(best.steps) <= 3
    assert shrinker.tried < 1500


def test_alike_neighbours_become_one_step() -> None:
    many = program_for_seed(0).with_steps([Send(ttl_ms=9), Send(), Send(count=2), Send(), Advance(ms=1)])
    shrinker = Shrinker(many, lambda candidate: sum(step.count for step in candidate.steps if type(step) is Send) >= 4)
    assert shrinker.run().steps == [Send(count=4)]


def test_a_program_that_does_not_fail_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        Shrinker(program_for_seed(1), lambda _: False).run()
