"""From a failing run to a program that a person can read, and how that was done.

Path (a) of DESIGN section 2: the reference broker in virtual time; delta debugging, then Hypothesis. Foreign brokers
use ``conformance.worlds.live`` and try this path first with the reference broker's generations.

A shrink ends after a number of runs or of seconds, whichever comes first, with the smallest program so far. What goes
into a digest is bounded by runs alone.
"""

from __future__ import annotations

import math
import time

from msgspec import Struct

from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.facts.collecting import seldom_collected
from brokerproof.conformance.generate.polish import polish
from brokerproof.conformance.generate.shrink import BUDGET, Predicate, Shrinker
from brokerproof.conformance.running.engine import run_program

#: Real seconds that a shrink may take while somebody waits for a text.
SECONDS = 30.0


class Shrunk(Struct, eq=False):
    """The smallest failing program found, its run, and the path that led to it."""

    result: RunResult
    path: str
    tried: int


def violates(program: Program, requirement: str, mutant: str | None) -> bool:
    """Whether the reference broker violates this requirement in this program."""
    result = run_program(program, "candidate", mutant=mutant, wanted=(requirement,))
    return any(v.requirement == requirement and v.verdict is VerdictKind.VIOLATED for v in result.verdicts)


def shrink_program(program: Program, fails: Predicate, seconds: float = math.inf) -> tuple[Program, int]:
    """The smallest program found that ``fails`` as well, and how many were tried. Raises ``ValueError`` if ``program``
    does not fail.
    """
    end_s = time.monotonic() + seconds

    def is_over() -> bool:
        return time.monotonic() >= end_s

    with seldom_collected():
        shrinker = Shrinker(program, fails, BUDGET, is_over)
        short = shrinker.run()
        polished = polish(short, lambda candidate: not is_over() and fails(candidate))
        if polished == short:
            return short, shrinker.tried
        final = Shrinker(polished, fails, max(1, BUDGET - shrinker.tried), is_over)
        return final.run(), shrinker.tried + final.tried


def shrink_violation(
    program: Program, requirement: str, mutant: str | None = None, seconds: float = math.inf
) -> Shrunk:
    """Shrink a program that violates ``requirement``. Raises ``ValueError`` if it does not."""
    smallest, tried = shrink_program(
        program, lambda candidate: violates(candidate, requirement, mutant), seconds=seconds
    )
    result = run_program(smallest, f"shrunk-{requirement}", mutant=mutant)
    steps = f"{len(program.steps)} to {len(smallest.steps)} steps"
    path = f"(a) reference broker in virtual time: delta debugging, then Hypothesis, {steps}"
    return Shrunk(result, path, tried)
