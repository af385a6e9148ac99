"""The budget of ``.ci/nightly``: what fits is run, what does not is named; seeds are fresh every night."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import date, timedelta

import pytest

from brokerproof.reports.store.nights import first_seed
from tests.nightly.budget import FAILED, NOT_RUN, PASSED, Ended, Stage, execute, exit_code, run_stages, summary
from tests.nightly.stages import COUNT, PYTHONS, no_python, stages

STAGES = [
    Stage("short", ("short",), 10),
    Stage("broken", ("broken",), 10),
    Stage("long", ("long",), 90),
    Stage("toolless", ("toolless",), 1, lambda: "there is no tool"),
    Stage("last", ("last",), 5),
]


class Night:
    """A machine on which each command takes as many minutes as is said, and a clock of its own."""

    def __init__(self, codes: dict[str, int], **minutes: float) -> None:
        self.now_s = 1000.0
        self.codes = codes
        self.minutes = minutes
        self.log: list[str] = []

    def execute(self, command: Sequence[str], limit_s: float) -> Ended:
        took_s = self.minutes.get(command[0], 1) * 60
        self.now_s += min(took_s, limit_s)
        return Ended(None if took_s > limit_s else self.codes.get(command[0], 0), 7.0)

    def outcomes(self, budget: float, stages: Sequence[Stage] = STAGES) -> dict[str, str]:
        self.results = run_stages(stages, budget, self.log.append, execute=self.execute, clock=lambda: self.now_s)
        return {result.name: result.outcome for result in self.results}


def test_what_fits_is_run_and_the_rest_is_named() -> None:
    night = Night({"broken": 3}, short=10, broken=10, last=5)
    outcomes = night.outcomes(60)
    assert outcomes == {"short": PASSED, "broken": FAILED, "long": NOT_RUN, "toolless": NOT_RUN, "last": PASSED}
    assert night.log == [
        "short: starts: short",
        "short: passed: exit code 0, 7 s of processor time; 50.0 min left",
        "broken: starts: broken",
        "broken: failed: exit code 3, 7 s of processor time; 40.0 min left",
        "long: not run: takes 90 min, 40.0 of the budget are left; 40.0 min left",
        "toolless: not run: there is no tool; 40.0 min left",
        "last: starts: last",
        "last: passed: exit code 0, 7 s of processor time; 35.0 min left",
    ]
    assert summary(night.results) == ["passed: 2: short, last", "failed: 1: broken", "not run: 2: long, toolless"]
    assert exit_code(night.results) == 1


@pytest.mark.parametrize(("budget", "code"), [(35, 0), (30, 0), (14, 0), (9, 0), (4, 1)])
def test_a_small_budget_is_no_failure_unless_nothing_fits(budget: float, code: int) -> None:
    night = Night({}, short=10, broken=10, last=5)
    night.outcomes(budget)
    assert exit_code(night.results) == code


def test_a_stage_that_outlasts_the_budget_has_failed() -> None:
    night = Night({}, short=500)
    outcomes = night.outcomes(30, STAGES[:2])
    assert outcomes == {"short": FAILED, "broken": NOT_RUN}
    assert "stopped when the budget was over" in night.results[0].text


def test_commands_are_executed_counted_and_stopped() -> None:
    done = execute((sys.executable, "-c", "sum(range(10**6)); raise SystemExit(5)"), 60)
    assert done.code == 5
    assert done.processor_s > 0
    assert execute((sys.executable, "-c", "import signal; signal.pause()"), 0).code is None


def test_a_release_of_python_that_is_not_here_is_named() -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert no_python(here, sys.executable) is None
    assert no_python("2.0", sys.executable) == f"this machine has no Python 2.0; {sys.executable} is none"
    assert no_python("3.12", "no-such-python") == "this machine has no no-such-python"
    environments = {stage.command[-1] for stage in stages(date(2026, 11, 22)) if stage.name.startswith("python ")}
    assert environments == {f"py{release.replace('.', '')}" for release in PYTHONS}


def test_each_night_has_seeds_of_its_own() -> None:
    day = date(2026, 11, 22)
    assert first_seed(day + timedelta(days=1)) - first_seed(day) >= COUNT
    commands = {stage.name: stage.command for stage in stages(day)}
    assert len(commands) == len(stages(day)), "names are how stages are chosen"
    assert str(first_seed(day)) in commands["false positives"]
    assert "activemq" in commands["live"]
