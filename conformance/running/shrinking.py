"""From a failing run to a program that a person can read, and how that was done.

Path (a) of DESIGN section 2: the reference broker in virtual time; delta debugging, then Hypothesis. Foreign brokers
use ``conformance.worlds.live`` and try this path first with the reference broker's generations.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.polish import polish
from brokerproof.conformance.generate.shrink import BUDGET, Shrinker
from brokerproof.conformance.running.engine import run_program


class Shrunk:
    """The smallest failing program found, its run, and the path that led to it."""

    __slots__ = ("path", "result", "tried")

    def __init__(self, result: RunResult, path: str, tried: int) -> None:
        self.result = result
        self.path = path
        self.tried = tried


def violates(program: Program, requirement: str, mutant: str | None) -> bool:
    """Whether the reference broker violates this requirement in this program."""
    result = run_program(program, "candidate", mutant=mutant, wanted=(requirement,))
    return any(v.requirement == requirement and v.verdict is VerdictKind.VIOLATED for v in result.verdicts)


def shrink_violation(program: Program, requirement: str, mutant: str | None = None, budget: int = BUDGET) -> Shrunk:
    """Shrink a program that violates ``requirement``. Raises ``ValueError`` if it does not."""

    def fails(candidate: Program) -> bool:
        return violates(candidate, requirement, mutant)

    shrinker = Shrinker(program, fails, budget)
    short = shrinker.run()
    polished = polish(short, fails)
    final = Shrinker(polished, fails, max(1, budget - shrinker.tried))
    smallest = final.run()
    result = run_program(smallest, f"shrunk-{requirement}", mutant=mutant)
    steps = f"{len(program.steps)} to {len(smallest.steps)} steps"
    path = f"(a) reference broker in virtual time: delta debugging, then Hypothesis, {steps}"
    return Shrunk(result, path, shrinker.tried + final.tried)
