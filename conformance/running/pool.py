"""Running many seeds: in this process, or in worker processes.

Rules:

* A result does not depend on the number of jobs: seeds are cut into ranges beforehand, answers come back in the order
  of the seeds, and guidance learns only between rounds.
* Workers are spawned, never forked: a forked child under a preloaded libfaketime can hang, and spawning proves that
  nothing is inherited but the arguments.
* Histories stay where they were made, unless something is violated: any run can be made again from its seed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from threading import Thread

from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import REFERENCE, RunResult
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.chaos import chaotic
from brokerproof.conformance.generate.guidance import Drawn, Guidance, round_size
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.silence import lost_voice

#: Seeds per task: large enough that starting one costs nothing, small enough that progress is seen.
CHUNK = 50

#: What processes that work beside live runs, which keep time, leave to everybody else.
PATIENT = 19

Wanted = tuple[str, ...]


class SeedOutcome:
    """What comes back from a worker for one seed."""

    __slots__ = ("lost", "seed", "steps", "verdicts")

    def __init__(self, seed: int, steps: int, result: RunResult) -> None:
        self.seed = seed
        self.steps = steps
        self.verdicts = result.verdicts
        self.lost = lost_voice(result) if result.mutant is not None else {}


def program_of(seed: int, chaos: str | None) -> Program:
    """The program of a seed, with the faults of a profile if there is one."""
    program = program_for_seed(seed)
    return program if chaos is None else chaotic(program, chaos, seed)


def run_chunk(
    seeds: range, drawn: dict[int, Program], mutant: str | None, wanted: Wanted, chaos: str | None
) -> list[SeedOutcome]:
    """Run seeds one after the other; ``drawn``: their programs, where these are not the seeds' own."""
    outcomes = []
    for seed in seeds:
        own = None if seed in drawn or chaos else seed
        program = drawn.get(seed) or program_of(seed, chaos)
        result = run_program(program, f"seed-{seed}", seed=own, mutant=mutant, wanted=wanted)
        outcomes.append(SeedOutcome(seed, len(program.steps), result))
    return outcomes


def end_with_parent() -> None:
    """Let this worker end as soon as the process that started it has gone: its queue would never tell it."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "only a worker has one"

    def follow() -> None:
        parent.join()
        os._exit(1)

    Thread(target=follow, daemon=True).start()


def _begin(niceness: int) -> None:
    """A worker begins. A terminal's Ctrl-C reaches it, too; it is the process that started it that answers it."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(niceness)


class Runner:
    """Runs seeds in this process, or in so many others; ``chaos``: the profile of the faults in them."""

    def __init__(
        self, jobs: int, mutant: str | None, wanted: Wanted, chaos: str | None = None, niceness: int = 0
    ) -> None:
        self._mutant = mutant
        self._chaos = chaos
        self._wanted = wanted
        context = multiprocessing.get_context("spawn")
        self._pool = (
            ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(niceness,))
            if jobs > 1
            else None
        )

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(self, seeds: range, drawn: dict[int, Program]) -> Iterator[RunResult]:
        """Results in order, without histories except where something is violated; other processes begin at once. The
        runs of programs that are not the seeds' own have no seed.
        """
        chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
        work = [(chunk, {seed: drawn[seed] for seed in chunk if seed in drawn}) for chunk in chunks]
        if self._pool is None or len(chunks) == 1:
            found = (run_chunk(chunk, own, self._mutant, self._wanted, self._chaos) for chunk, own in work)
        else:
            tasks = [
                self._pool.submit(run_chunk, chunk, own, self._mutant, self._wanted, self._chaos) for chunk, own in work
            ]
            found = (task.result() for task in tasks)
        return (self._result(outcome, drawn) for outcome in chain.from_iterable(found))

    def _result(self, outcome: SeedOutcome, drawn: dict[int, Program]) -> RunResult:
        chaos = self._chaos
        seed = None if outcome.seed in drawn or chaos else outcome.seed
        name = f"chaos-{chaos}" if chaos else "guided" if seed is None else "seed"
        name = f"{name}-{outcome.seed}"
        program = drawn.get(outcome.seed) or program_of(outcome.seed, chaos)
        if any(verdict.verdict is VerdictKind.VIOLATED for verdict in outcome.verdicts):
            result = run_program(program, name, seed=seed, mutant=self._mutant, wanted=self._wanted)
        else:
            verdicts, mutant = outcome.verdicts, self._mutant
            result = RunResult(name, REFERENCE, "simulated", program, verdicts, None, seed=seed, mutant=mutant)
        result.lost = outcome.lost
        return result


def run_seeds(
    first: int, count: int, jobs: int, mutant: str | None, wanted: Wanted, chaos: str | None = None
) -> Iterator[RunResult]:
    """Results of a range of seeds, with the faults of a profile if one is given."""
    jobs = jobs if count > CHUNK else 1
    with Runner(jobs, mutant, wanted, chaos) as runner:
        yield from runner.run(range(first, first + count), {})


def run_guided(
    first: int, count: int, jobs: int, mutant: str | None, wanted: Wanted
) -> Iterator[tuple[Drawn, RunResult]]:
    """The same, guided by what earlier rounds met; each program with its features."""
    guidance, size = Guidance(), round_size(count)
    with Runner(jobs if count > CHUNK else 1, mutant, wanted) as runner:
        for start in range(first, first + count, size):
            seeds = range(start, min(start + size, first + count))
            drawn = {seed: guidance.draw(seed) for seed in seeds}
            guided = {seed: one.program for seed, one in drawn.items() if one.child}
            for one, result in zip(drawn.values(), runner.run(seeds, guided), strict=True):
                guidance.learn(one, result.verdicts)
                yield one, result
