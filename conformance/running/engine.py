"""The engine: one program in, one judged run out. Used by the suite, the campaign's executors, replay, shrinking and
the pytest plugin alike.

``run_program`` is the only place where a world, a judge and a mutant meet. It never raises for what a broker did; it
raises for misuse (an unknown mutant).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import REFERENCE, RunResult
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.facts.collecting import seldom_collected
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.watchdog import Stuck, counted, watched
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld


def expected(verdicts: list[Verdict], generation: dict[str, str]) -> list[Verdict]:
    """The same, where what the catalogue expects of these generations (area -> name) is a known failure."""
    if not generation:
        return verdicts
    catalogue, marked = default_catalogue(), []
    for verdict in verdicts:
        if verdict.verdict is VerdictKind.VIOLATED and catalogue[verdict.requirement].expects_violation(generation):
            text = f"{verdict.text} (expected of the generations {generation})"
            marked.append(msgspec.structs.replace(verdict, verdict=VerdictKind.KNOWN_FAILURE, text=text))
        else:
            marked.append(verdict)
    return marked


def run_program(
    program: Program,
    name: str,
    *,
    seed: int | None = None,
    mutant: str | None = None,
    wanted: Iterable[str] | None = None,
) -> RunResult:
    """Run a program on the embedded reference broker in virtual time and judge it. Raises ``MutantError`` for an
    unknown mutant.
    """
    with seldom_collected():
        history = simulate(program, seed=seed, mutant=mutant)
        verdicts = expected(judge_history(history, wanted=wanted), program.broker.generation)
    return RunResult(name, REFERENCE, SimulatedWorld.kind, program, verdicts, history, seed=seed, mutant=mutant)


def simulate(program: Program, *, seed: int | None = None, mutant: str | None = None) -> History:
    """The history of a program on the embedded reference broker, whatever that does."""
    world = SimulatedWorld(mutant=mutant, seed=seed)
    try:
        with watched(world.progress):
            return world.run(program)
    except Stuck:
        # Processor time is the machine's; what hangs is decided by what was executed.
        with counted():
            return SimulatedWorld(mutant=mutant, seed=seed).run(program)


def run_seed(seed: int, mutant: str | None = None) -> RunResult:
    """The run of one seed: the seeded driver's program in the simulated world."""
    return run_program(program_for_seed(seed), f"seed-{seed}", seed=seed, mutant=mutant)
