"""Running many seeds: in this process, or in worker processes.

Rules:

* A result does not depend on the number of jobs: seeds are cut into ranges beforehand and answers come back in the
  order of the seeds.
* Workers are spawned, never forked: a forked child under a preloaded libfaketime can hang, and spawning proves that
  nothing is inherited but the arguments.
* Histories stay where they were made, unless something is violated: any run can be made again from its seed.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor

from brokerproof.conformance.experiment.results import REFERENCE, RunResult
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.silence import lost_voice

#: Seeds per task: large enough that starting one costs nothing, small enough that progress is seen.
CHUNK = 50


class SeedOutcome:
    """What comes back from a worker for one seed."""

    __slots__ = ("lost", "seed", "steps", "verdicts")

    def __init__(self, seed: int, steps: int, result: RunResult) -> None:
        self.seed = seed
        self.steps = steps
        self.verdicts = result.verdicts
        self.lost = lost_voice(result) if result.mutant is not None else {}


def run_range(first: int, count: int, mutant: str | None, wanted: tuple[str, ...]) -> list[SeedOutcome]:
    """Run the seeds ``first … first+count-1`` one after the other."""
    outcomes = []
    for seed in range(first, first + count):
        program = program_for_seed(seed)
        result = run_program(program, f"seed-{seed}", seed=seed, mutant=mutant, wanted=wanted)
        outcomes.append(SeedOutcome(seed, len(program.steps), result))
    return outcomes


def run_seeds(first: int, count: int, jobs: int, mutant: str | None, wanted: tuple[str, ...]) -> Iterator[RunResult]:
    """Results of a range of seeds, in order, without histories except where something is violated."""
    ranges = [(start, min(CHUNK, first + count - start)) for start in range(first, first + count, CHUNK)]
    if jobs <= 1 or len(ranges) <= 1:
        for start, length in ranges:
            yield from _results(run_range(start, length, mutant, wanted), mutant, wanted)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        futures: list[Future[list[SeedOutcome]]] = [
            pool.submit(run_range, start, length, mutant, wanted) for start, length in ranges
        ]
        try:
            for future in futures:
                yield from _results(future.result(), mutant, wanted)
        finally:
            for future in futures:
                future.cancel()


def _results(outcomes: list[SeedOutcome], mutant: str | None, wanted: tuple[str, ...]) -> Iterator[RunResult]:
    for outcome in outcomes:
        if any(verdict.verdict is VerdictKind.VIOLATED for verdict in outcome.verdicts):
            program = program_for_seed(outcome.seed)
            result = run_program(program, f"seed-{outcome.seed}", seed=outcome.seed, mutant=mutant, wanted=wanted)
            result.lost = outcome.lost
            yield result
            continue
        name = f"seed-{outcome.seed}"
        program = program_for_seed(outcome.seed)
        result = RunResult(
            name, REFERENCE, "simulated", program, outcome.verdicts, None, seed=outcome.seed, mutant=mutant
        )
        result.lost = outcome.lost
        yield result
