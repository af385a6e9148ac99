"""What ``pytest --pyargs brokerproof.conformance`` runs: one item per corpus program, per shard of seeds and per state
machine (see ``pytest_plugin.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.exits import under_ci
from brokerproof.conformance.experiment.results import REFERENCE, RunResult
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind, concluded
from brokerproof.conformance.machines import MODELS
from brokerproof.conformance.machines.failure import explain, shrink_failure
from brokerproof.conformance.machines.search import Search, simulated
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.failure import RequirementFailure, failure_text, headline, replay_line
from brokerproof.conformance.running.items import SHARD, report_results
from brokerproof.conformance.running.options import SuiteOptions
from brokerproof.conformance.running.pool import run_seeds
from brokerproof.conformance.running.shrinking import SECONDS, shrink_violation
from brokerproof.conformance.running.suite import live_runs_for


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make the items from the options; their order and names do not depend on the number of workers."""
    config = metafunc.config
    reference = config.getoption("--brokerproof-broker") == REFERENCE
    tier = config.getoption("--brokerproof-tier")
    if "corpus_name" in metafunc.fixturenames:
        names = list(programs()) if reference and tier != "live" else []
        metafunc.parametrize("corpus_name", names)
    if "first_seed" in metafunc.fixturenames:
        first, count = config.getoption("--brokerproof-seed"), config.getoption("--brokerproof-programs")
        starts = range(first, first + count, SHARD) if reference and tier != "live" else []
        metafunc.parametrize("first_seed", starts)
    if "machine" in metafunc.fixturenames:
        wanted = default_catalogue().select(config.getoption("--brokerproof-requirement"))
        watched = [name for name, model in MODELS.items() if not set(wanted).isdisjoint(model.promises)]
        metafunc.parametrize("machine", watched if reference and tier != "live" else [])
    if "live_tier" in metafunc.fixturenames:
        metafunc.parametrize("live_tier", ["live"] if tier != "simulated" or not reference else [])


def test_program(corpus_name: str, request: pytest.FixtureRequest) -> None:
    """A named program of the corpus."""
    mutant, wanted = _selection(request)
    _conclude([run_program(programs()[corpus_name], corpus_name, mutant=mutant, wanted=wanted)], request)


def test_seeds(first_seed: int, request: pytest.FixtureRequest) -> None:
    """A shard of the seeded driver's programs."""
    mutant, wanted = _selection(request)
    end = request.config.getoption("--brokerproof-seed") + request.config.getoption("--brokerproof-programs")
    _conclude(run_seeds(first_seed, min(SHARD, end - first_seed), 1, mutant, wanted), request)


def test_machine(machine: str, request: pytest.FixtureRequest) -> None:
    """A state machine, in virtual time."""
    mutant, wanted = _selection(request)
    option = request.config.getoption
    search = Search(
        MODELS[machine],
        simulated(mutant),
        wanted,
        mutant=mutant,
        first_seed=option("--brokerproof-seed"),
        examples=option("--brokerproof-examples"),
    )
    failure = search.run()
    report_results(search.results, request.node.user_properties)
    if failure is not None:
        out = Path(option("--brokerproof-out"))
        shrunk = shrink_failure(search, failure)
        raise RequirementFailure(headline(shrunk.finding.verdict), explain(search, failure, shrunk, out))


def test_live(live_tier: str, request: pytest.FixtureRequest) -> None:
    """The corpus on real processes; one item, because the processes are shared."""
    mutant, wanted = _selection(request)
    option = request.config.getoption
    options = SuiteOptions(
        broker=option("--brokerproof-broker"),
        tier=live_tier,
        requirement=option("--brokerproof-requirement"),
        mutant=mutant,
    )
    _conclude(live_runs_for(options, wanted), request)


def _selection(request: pytest.FixtureRequest) -> tuple[str | None, tuple[str, ...]]:
    pattern = request.config.getoption("--brokerproof-requirement")
    return request.config.getoption("--brokerproof-mutant"), tuple(default_catalogue().select(pattern))


def _conclude(runs: Iterable[RunResult], request: pytest.FixtureRequest) -> None:
    results, catalogue = list(runs), default_catalogue()
    report_results(results, request.node.user_properties)
    for result in results:
        if result.problem:
            pytest.fail(f"suite: {result.problem}", pytrace=False)
        for verdict in result.verdicts:
            if concluded(verdict, catalogue[verdict.requirement].level).verdict is VerdictKind.VIOLATED:
                raise RequirementFailure(headline(verdict), _explain(result, verdict))
    missing = [result.not_run for result in results if result.not_run]
    if missing and under_ci():
        pytest.fail(f"not run: {missing[0]}", pytrace=False)
    if missing and len(missing) == len(results):
        pytest.skip(f"not run: {missing[0]}")


def _explain(result: RunResult, verdict: Verdict) -> str:
    """The failure text, of the shrunk program where shrinking is possible; the replay line is the original's."""
    replay = replay_line(result)
    if result.world == "simulated":
        shrunk = shrink_violation(result.program, verdict.requirement, result.mutant, SECONDS).result
        smaller = next(v for v in shrunk.verdicts if v.requirement == verdict.requirement)
        return failure_text(shrunk, smaller, default_catalogue(), replay + " --shrink")
    return failure_text(result, verdict, default_catalogue(), replay)
