"""The suite: which programs run on which broker in which world, and the stream of results.

Rules:

* The plan is made first and depends on nothing but the options; results come in the plan's order, whatever the number
  of jobs.
* Simulated tier (reference broker only): the corpus, then ``programs`` seeds, perhaps guided. Live tier: the corpus
  programs that can run on the broker, in real processes. ``covering``: as many of them as show each requirement
  twice; what they show is known from the simulated tier, which therefore comes first.
* Where both tiers run, without a budget, other processes run the seeds beside the live tier, in time that it leaves;
  they come last in the plan.
* ``budget_s`` bounds the seeds, never the corpus: from the start on in virtual time, from the first seed on live. What
  it cut off is reported by ``SuiteFinished`` through the number of runs.
* For each violated requirement the first program that showed it is shrunk, and the small program is one more run.
* What the same programs exercise on the reference broker and not on another one, or not with a mutant, fell silent
  (``silence.py``).
* An interrupted suite (``interruption.py``) ends early and is reported; it shrinks nothing any more.
* A missing tool makes runs *not run*, by name; it never makes them pass.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import (
    REFERENCE,
    RunFinished,
    RunResult,
    SuiteEvent,
    SuiteFinished,
    SuiteStarted,
    verdict_digest,
)
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.about import about
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.interruption import STOP
from brokerproof.conformance.running.options import SuiteOptions
from brokerproof.conformance.running.pool import PATIENT, Runner, run_guided, run_seeds
from brokerproof.conformance.running.quick import exercised
from brokerproof.conformance.running.shrinking import shrink_violation
from brokerproof.conformance.running.silence import Voices, lost_voice

if TYPE_CHECKING:
    from brokerproof.conformance.running.live import LiveRuns

#: Violated requirements whose first program is shrunk for the report.
SHRINKS_MAX = 10


def run_suite(options: SuiteOptions) -> Iterator[SuiteEvent]:
    """Run everything; yields ``SuiteStarted``, ``RunFinished`` per run, ``SuiteFinished``."""
    started = time.monotonic()
    wanted = tuple(default_catalogue().select(options.requirement))
    simulated = options.broker == REFERENCE and options.tier in {"simulated", "both"}
    live = options.tier in {"live", "both"}
    corpus: Iterable[RunResult] | None = _corpus_runs(options, wanted) if simulated else None
    shows = None
    if options.covering and corpus is not None:
        corpus = list(corpus)
        shows = {result.name: exercised(result.verdicts) for result in corpus}
    live_runs = live_runs_for(options, wanted, shows) if live else None
    known = 0 if options.chaos is not None else len(programs())
    total = (known + options.programs if simulated else 0) + (live_runs.total if live_runs else 0)
    column = live_runs.column if live_runs is not None else REFERENCE
    told = live_runs.about if live_runs is not None else {}
    first = live_runs.first if live_runs is not None else 0
    yield SuiteStarted([column], list(wanted), total, {**about(options), **told}, first)
    rows = []
    voices = Voices()
    for result in _all_runs(options, wanted, corpus, live_runs, started):
        rows.append((result.run, result.program.digest(), result.verdicts))
        voices.hear(result)
        yield RunFinished(result)
    yield SuiteFinished(verdict_digest(rows), time.monotonic() - started, voices.silent())


def _all_runs(
    options: SuiteOptions,
    wanted: tuple[str, ...],
    corpus: Iterable[RunResult] | None,
    live_runs: LiveRuns | None,
    started: float,
) -> Iterator[RunResult]:
    """All runs; ``corpus``: those of the simulated tier, None without it."""
    failing: dict[str, Program] = {}
    seeds = range(options.seed, options.seed + (options.programs if corpus is not None else 0))
    beside = live_runs is not None and options.budget_s is None and not options.guided and options.jobs > 1
    with Runner(options.jobs, options.mutant, wanted, options.chaos, PATIENT) as patient:
        begun = patient.run(seeds, {}) if beside else iter(())
        if corpus is not None:
            yield from _noted(corpus, failing)
            if not beside:
                yield from _noted(_seed_runs(options, wanted, started), failing)
        if live_runs is not None and not STOP.is_set():
            for result in live_runs:
                if options.broker != REFERENCE or options.mutant is not None:
                    result.lost = lost_voice(result)
                yield result
        if not STOP.is_set():
            yield from _noted(begun, failing)
    for requirement in sorted(failing)[:SHRINKS_MAX]:
        if STOP.is_set():
            break
        yield shrink_violation(failing[requirement], requirement, options.mutant).result


def _noted(results: Iterable[RunResult], failing: dict[str, Program]) -> Iterator[RunResult]:
    """The same until somebody interrupts; which program was the first to violate a requirement is written down."""
    for result in results:
        for verdict in result.verdicts:
            if verdict.verdict is VerdictKind.VIOLATED:
                failing.setdefault(verdict.requirement, result.program)
        yield result
        if STOP.is_set():
            break


def _corpus_runs(options: SuiteOptions, wanted: tuple[str, ...]) -> Iterator[RunResult]:
    for name, program in programs().items() if options.chaos is None else ():
        if STOP.is_set():
            return
        result = run_program(program, name, mutant=options.mutant, wanted=wanted)
        if options.mutant is not None:
            result.lost = lost_voice(result)
        yield result


def _seed_runs(options: SuiteOptions, wanted: tuple[str, ...], started: float) -> Iterator[RunResult]:
    if STOP.is_set():
        return
    seeds = options.seed, options.programs, options.jobs, options.mutant, wanted
    runs = (result for _, result in run_guided(*seeds)) if options.guided else run_seeds(*seeds, options.chaos)
    for result in runs:
        yield result
        if options.budget_s is not None and time.monotonic() - started > options.budget_s:
            break


def live_runs_for(
    options: SuiteOptions, wanted: tuple[str, ...], shows: Mapping[str, frozenset[str]] | None = None
) -> LiveRuns:
    """The live tier; ``shows``: what each program of the corpus shows, if only a covering part of it is to be played.
    Raises ``UsageError`` for a broker that cannot exist.
    """
    from brokerproof.conformance.running.live import live_runs  # its tools are an extra

    return live_runs(options, wanted, shows)
