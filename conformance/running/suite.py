"""The suite: which programs run on which broker in which world, and the stream of results.

Rules:

* The plan is made first and depends on nothing but the options; results come in the plan's order, whatever the number
  of jobs.
* Simulated tier (reference broker only): the corpus, then ``programs`` seeds. Live tier: the corpus programs that can
  run on the broker, in real processes.
* ``budget_s`` bounds the seeds, never the corpus; what it cut off is reported by ``SuiteFinished`` through the number
  of runs.
* For each violated requirement the first program that showed it is shrunk, and the small program is one more run.
* A missing tool makes runs *not run*, by name; it never makes them pass.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import (
    RunFinished,
    RunResult,
    SuiteEvent,
    SuiteFinished,
    SuiteStarted,
    verdict_digest,
)
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.engine import REFERENCE, run_program
from brokerproof.conformance.running.pool import run_seeds
from brokerproof.conformance.running.shrinking import shrink_violation

#: Violated requirements whose first program is shrunk for the report.
SHRINKS_MAX = 10
#: Programs of the main job: what two cores do in well under a minute.
PROGRAMS = 1500


class SuiteOptions:
    """What ``brokerproof run`` was asked for."""

    __slots__ = (
        "broker",
        "budget_s",
        "client",
        "home",
        "jobs",
        "mutant",
        "programs",
        "requirement",
        "seed",
        "tier",
        "url",
    )

    def __init__(
        self,
        *,
        broker: str = REFERENCE,
        tier: str = "both",
        seed: int = 0,
        programs: int = PROGRAMS,
        budget_s: float | None = None,
        requirement: str | None = None,
        jobs: int = 2,
        mutant: str | None = None,
        url: str | None = None,
        home: str | None = None,
        client: str = "as-written",
    ) -> None:
        self.broker = broker
        self.tier = tier
        self.seed = seed
        self.programs = programs
        self.budget_s = budget_s
        self.requirement = requirement
        self.jobs = jobs
        self.mutant = mutant
        self.url = url
        self.home = home
        self.client = client


def run_suite(options: SuiteOptions) -> Iterator[SuiteEvent]:
    """Run everything; yields ``SuiteStarted``, ``RunFinished`` per run, ``SuiteFinished``."""
    started = time.monotonic()
    wanted = tuple(default_catalogue().select(options.requirement))
    simulated = options.broker == REFERENCE and options.tier in {"simulated", "both"}
    live = options.tier in {"live", "both"}
    live_runs = live_runs_for(options, wanted) if live else None
    total = (len(programs()) + options.programs if simulated else 0) + (live_runs.total if live_runs else 0)
    column = live_runs.column if live_runs is not None else REFERENCE
    yield SuiteStarted([column], list(wanted), total)
    rows = []
    for result in _all_runs(options, wanted, simulated, live_runs, started):
        rows.append((result.run, result.program.digest(), result.verdicts))
        yield RunFinished(result)
    yield SuiteFinished(verdict_digest(rows), time.monotonic() - started)


def _all_runs(
    options: SuiteOptions, wanted: tuple[str, ...], simulated: bool, live_runs: LiveRuns | None, started: float
) -> Iterator[RunResult]:
    if simulated:
        failing: dict[str, Program] = {}
        for result in _simulated_runs(options, wanted, started):
            for verdict in result.verdicts:
                if verdict.verdict is VerdictKind.VIOLATED:
                    failing.setdefault(verdict.requirement, result.program)
            yield result
        for requirement in sorted(failing)[:SHRINKS_MAX]:
            yield shrink_violation(failing[requirement], requirement, options.mutant).result
    if live_runs is not None:
        yield from live_runs


def _simulated_runs(options: SuiteOptions, wanted: tuple[str, ...], started: float) -> Iterator[RunResult]:
    for name, program in programs().items():
        yield run_program(program, name, mutant=options.mutant, wanted=wanted)
    for result in run_seeds(options.seed, options.programs, options.jobs, options.mutant, wanted):
        yield result
        if options.budget_s is not None and time.monotonic() - started > options.budget_s:
            break


class LiveRuns:
    """Runs in real processes: how many there are, in which column they belong, and the runs themselves."""

    def __init__(self, column: str, total: int, runs: Iterator[RunResult]) -> None:
        self.column = column
        self.total = total
        self._runs = runs

    def __iter__(self) -> Iterator[RunResult]:
        return self._runs


def live_runs_for(options: SuiteOptions, wanted: tuple[str, ...]) -> LiveRuns:
    from brokerproof.conformance.running.live import live_runs

    return live_runs(options, wanted)
