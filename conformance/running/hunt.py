"""Hunting mutants: how many programs it takes until the rule that must catch a defect does.

The same seeds are used for every mutant, corpus programs first; of these, where many mutants are hunted, those that
exercise its requirement on the sound broker. A mutant that survives the budget is a hole in the suite, not in the
broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice

from msgspec import Struct

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.mutants.registry import Mutant
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.quick import shown

#: Programs after which a mutant counts as a survivor.
PROGRAMS_MAX = 3000


class Kill(Struct, eq=False):
    """The first program in which a mutant's requirement is violated. ``killers`` are all requirements that were
    violated in it.
    """

    programs: int
    killers: list[str]
    result: RunResult


def hunt(
    mutant: Mutant,
    first_seed: int = 0,
    programs_max: int = PROGRAMS_MAX,
    *,
    random_only: bool = False,
    likely_first: bool = False,
) -> Kill | None:
    """Run programs until ``mutant.requirement`` is violated; None when the mutant survives. ``likely_first``: of the
    corpus those that exercise the requirement come first. Who does is found out once per process, in the time of a few
    hunts.
    """
    corpus = {} if random_only else _likely_first(mutant.requirement) if likely_first else programs()
    found = _programs(first_seed, programs_max, corpus)
    for count, (name, program, seed) in enumerate(islice(found, programs_max), start=1):
        result = run_program(program, name, seed=seed, mutant=mutant.id, wanted=(mutant.requirement,))
        if any(verdict.verdict is VerdictKind.VIOLATED for verdict in result.verdicts):
            whole = run_program(program, name, seed=seed, mutant=mutant.id)
            killers = [v.requirement for v in whole.verdicts if v.verdict is VerdictKind.VIOLATED]
            return Kill(count, killers, whole)
    return None


def _likely_first(requirement: str) -> dict[str, Program]:
    return dict(sorted(programs().items(), key=lambda item: requirement not in corpus_shows()[item[0]]))


@cache
def corpus_shows() -> dict[str, frozenset[str]]:
    """What each program of the corpus exercises on the sound broker."""
    judged = [one.id for one in default_catalogue().judged()]
    return {name: shown(name, program, judged) for name, program in programs().items()}


def _programs(
    first_seed: int, programs_max: int, corpus: Mapping[str, Program]
) -> Iterator[tuple[str, Program, int | None]]:
    for name, program in corpus.items():
        yield name, program, None
    for seed in range(first_seed, first_seed + programs_max):
        yield f"seed-{seed}", program_for_seed(seed), seed
