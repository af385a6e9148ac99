"""What plays hundreds of programs, or starts workers to play them: the number of jobs changes nothing, and few steps
are impossible.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brokerproof.conformance.cli import main
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK
from brokerproof.conformance.experiment.history import Skipped
from brokerproof.conformance.experiment.results import RunFinished, verdict_digest
from brokerproof.conformance.experiment.steps.parallel import each
from brokerproof.conformance.experiment.verdict import Verdict
from brokerproof.conformance.generate import guidance
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.running import pool, suite
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.live import LiveRuns
from brokerproof.conformance.running.options import SuiteOptions
from brokerproof.conformance.running.pool import PATIENT, Runner, run_guided, run_seeds
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.fast.conformance.commands.test_cli import NAMED, SMALL, digest_of


@pytest.fixture
def short_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "brokerproof.conformance.running.suite.programs", lambda: dict(list(programs().items())[:NAMED])
    )


@pytest.fixture
def no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here reads pages: each run would draw one for every requirement."""
    monkeypatch.setattr("brokerproof.reports.render.formats.write_html", lambda folder, *_: folder / "index.html")


@pytest.mark.usefixtures("no_pages", "short_corpus")
def test_jobs_do_not_change_the_digest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerproof.conformance.running.pool.CHUNK", 4)
    monkeypatch.setattr(guidance, "ROUND", 8)
    digests, cruel = [], ["--chaos", "cruel"]
    for more in (["1"], ["2"], ["1", "--guided"], ["2", "--guided"], ["1", *cruel], ["2", *cruel]):
        code = main(["run", *SMALL[:2], "--programs", "20", "--seed", "6", "--out", str(tmp_path), "--jobs", *more])
        assert code in {OK, INCONCLUSIVE}, "few programs leave much undecided"
        digests.append(digest_of(capsys.readouterr().out))
    assert digests[0] == digests[1] != digests[2] == digests[3] != digests[4] == digests[5] != digests[0]


@pytest.mark.usefixtures("short_corpus")
def test_seeds_beside_live_runs_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "CHUNK", 4)
    living = run_program(program_for_seed(0), "living")
    monkeypatch.setattr(suite, "live_runs_for", lambda *_: LiveRuns("reference", 1, iter([living])))
    runs: dict[str, list[tuple[str, str, list[Verdict]]]] = {}
    for tier in ("simulated", "both"):
        events = suite.run_suite(SuiteOptions(tier=tier, programs=8, seed=6))
        results = [event.result for event in events if isinstance(event, RunFinished)]
        runs[tier] = [(one.name, one.program.digest(), one.verdicts) for one in results]
    assert [name for name, _, _ in runs["both"][-9:]] == ["living", *(f"seed-{seed}" for seed in range(6, 14))]
    del runs["both"][-9]
    assert runs["both"] == runs["simulated"]


def test_who_works_beside_live_runs_lets_others_go_first() -> None:
    with Runner(2, None, (), None, PATIENT) as runner:
        assert runner._pool is not None
        assert runner._pool.submit(os.nice, 0).result() == PATIENT


def test_jobs_do_not_change_what_guidance_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guidance, "ROUND", 40)
    monkeypatch.setattr(pool, "CHUNK", 20)
    found = [[result for _, result in run_guided(3, 80, jobs, None, ("EXP-001", "INF-001"))] for jobs in (1, 2)]
    plain = list(run_seeds(3, 80, 1, None, ("EXP-001", "INF-001")))
    digests = [
        verdict_digest((one.run, one.program.digest(), one.verdicts) for one in runs) for runs in (*found, plain)
    ]
    assert digests[0] == digests[1] != digests[2]
    assert {result.name.split("-")[0] for result in found[0][:40]} == {"seed"}
    assert {result.name.split("-")[0] for result in found[0][40:]} == {"seed", "guided"}
    assert all((result.seed is None) == result.name.startswith("guided") for result in found[0])


def test_jobs_do_not_change_what_is_covered(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for jobs in ("1", "2"):
        assert main(["coverage", "--requirement", "EXP-*", "--programs", "60", "--jobs", jobs]) == OK
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


def test_few_steps_are_impossible() -> None:
    steps = skipped = 0
    for seed in range(200):
        program = program_for_seed(seed)
        history = SimulatedWorld().run(program)
        steps += sum(1 for _ in each(program.steps))
        skipped += sum(isinstance(event, Skipped) for event in history.events)
    assert skipped <= 0.05 * steps
