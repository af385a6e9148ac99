"""Each state machine finds the defects that it names within its budget, and makes them short; its model never accuses a
sound broker.
"""

from __future__ import annotations

import pytest

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.machines import MODELS
from brokerproof.conformance.machines.failure import shrink_failure
from brokerproof.conformance.machines.model import Model, contradiction
from brokerproof.conformance.machines.search import Search, simulated
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

NAMED = [(model, mutant) for model in MODELS.values() for mutant in model.mutants]
#: Steps that the story of any of these defects needs at most.
STEPS_MAX = 6


@pytest.mark.parametrize(("model", "mutant"), NAMED, ids=lambda value: value if isinstance(value, str) else value.name)
def test_a_machine_finds_its_mutants(model: type[Model], mutant: str) -> None:
    search = Search(model, simulated(mutant), mutant=mutant)
    failure = search.run()
    assert failure is not None
    shrunk = shrink_failure(search, failure)
    assert len(shrunk.result.program.steps) <= STEPS_MAX


def test_models_are_silent_about_sound_runs_of_any_program() -> None:
    """Shrinking and editing make programs that no machine would draw."""
    for program in [*programs().values(), *map(program_for_seed, range(300))]:
        history = SimulatedWorld().run(program)
        assert [contradiction(model, program, history) for model in MODELS.values()] == [None] * len(MODELS)
