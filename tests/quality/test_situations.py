"""Every situation that a verdict names is one of its requirement's, in the catalogue."""

from __future__ import annotations

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.engine import run_program

#: Seed 1515 is the first of 3,500 in which a consumer whose connection the broker closed gives a message back.
SEEDS = (*range(60), 1515)


def test_no_situation_is_undeclared() -> None:
    declared = {requirement.id: set(requirement.situations) for requirement in default_catalogue()}
    seen: set[tuple[str, str]] = set()
    for program in [*programs().values(), *map(program_for_seed, SEEDS)]:
        for verdict in run_program(program, "x").verdicts:
            seen |= {(verdict.requirement, situation) for situation in verdict.situations}
    assert len(seen) > 100
    assert {pair for pair in seen if pair[1] not in declared[pair[0]]} == set()
