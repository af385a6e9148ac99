"""Planted defects in the live world: at least one per area must be caught in real processes, as in virtual time.

Which program shows a defect is asked of the simulation; that it shows it here, and that the healthy broker does not, is
what is tested.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokerproof.conformance.brokers.pacing import real_ms
from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.mutants import MUTANTS
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.hunt import corpus_shows
from brokerproof.conformance.running.live import plan_of, run_live
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from tests.live.bench import make_laboratory
from tests.tools import not_run

pytestmark = pytest.mark.live
LIVE = [mutant.id for mutant in MUTANTS.values() if mutant.live]


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with make_laboratory(tmp_path_factory.mktemp("mutants")) as laboratory:
        yield laboratory


def shortest_that_shows(mutant: str) -> tuple[str, Program]:
    """Of the corpus programs in which the simulation catches the mutant the one that takes least real time.

    Stories made for the live world come first: others may turn on a millisecond, which real time does not.
    """
    wanted = (MUTANTS[mutant].requirement,)
    found = [
        (name, program)
        for name, program in plan_of(ReferenceAdapter())
        if MUTANTS[mutant].requirement in corpus_shows()[name]
        and run_program(program, name, mutant=mutant, wanted=wanted).verdicts[0].verdict is VerdictKind.VIOLATED
    ]
    assert found, f"no live program of the corpus shows {mutant}"
    return min(found, key=lambda entry: (not entry[0].startswith("live-"), real_ms(entry[1]), entry[0]))


@pytest.mark.parametrize("mutant", LIVE)
def test_it_dies(laboratory: Laboratory, mutant: str) -> None:
    name, program = shortest_that_shows(mutant)
    wanted = (MUTANTS[mutant].requirement,)
    sick = run_live(ReferenceAdapter(mutant), laboratory, program, name, wanted=wanted, mutant=mutant)
    assert sick.problem == ""
    if sick.verdicts[0].verdict is VerdictKind.NOT_RUN:
        not_run(sick.verdicts[0].text)
    assert sick.verdicts[0].verdict is VerdictKind.VIOLATED
    assert sick.history is not None
    assert sick.history.header.mutant == mutant
    healthy = run_live(ReferenceAdapter(), laboratory, program, name, wanted=wanted)
    assert healthy.verdicts[0].verdict is VerdictKind.SATISFIED, healthy.verdicts[0].text


def test_every_area_of_the_catalogue_has_one() -> None:
    assert {MUTANTS[mutant].requirement[:3] for mutant in LIVE} == {
        "EXP",
        "TSP",
        "INA",
        "MEM",
        "INF",
        "PRE",
        "DLY",
        "RDL",
        "GEN",
    }
