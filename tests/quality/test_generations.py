"""The generations of memory earn the verdicts that the catalogue expects of them, and no others."""

from __future__ import annotations

import msgspec
import pytest

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.engine import run_program

STORIES = [name for name in programs() if name.startswith("memory-")]
SEEDS = range(40)


def of_generation(program: Program, generation: str) -> Program:
    broker = program.broker
    generations = {**broker.generation, "memory": generation}
    return msgspec.structs.replace(program, broker=msgspec.structs.replace(broker, generation=generations))


@pytest.mark.parametrize("generation", ["G0", "G1", "G2", "G3"])
def test_only_what_is_expected(generation: str) -> None:
    expected = {r.id for r in default_catalogue().judged() if r.expected.get(generation) == "violated"}
    candidates = [(name, programs()[name]) for name in STORIES] + [(f"seed-{s}", program_for_seed(s)) for s in SEEDS]
    found: dict[str, str] = {}
    known: set[str] = set()
    for name, program in candidates:
        for verdict in run_program(of_generation(program, generation), name).verdicts:
            if verdict.verdict is VerdictKind.VIOLATED:
                found.setdefault(verdict.requirement, f"{name}: {verdict.text}")
            elif verdict.verdict is VerdictKind.KNOWN_FAILURE:
                known.add(verdict.requirement)
    assert {requirement: text for requirement, text in found.items() if requirement not in expected} == {}
    if generation == "G1":
        assert {"MEM-001", "MEM-020", "MEM-021", "MEM-022", "MEM-026"} <= known, "the seed's broker starves"
