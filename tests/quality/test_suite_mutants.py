"""Defects of the suite itself: each is noticed by the project's own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.quality.planting import MUTANTS, VARIABLE, planted

ROOT = Path(__file__).resolve().parents[2]


def outcome_of(name: str, tests: str) -> subprocess.CompletedProcess[str]:
    """The tests with this defect of the suite; without one if it has no name."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "tests.quality.planting", "-p", "no:cacheprovider"]
    environment = {key: value for key, value in os.environ.items() if key != VARIABLE and not key.startswith("PYTEST_")}
    return subprocess.run(
        [*command, *tests.split()],
        cwd=ROOT,
        env=environment | ({VARIABLE: name} if name else {}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", list(MUTANTS))
def test_a_defect_of_the_suite_is_noticed(name: str) -> None:
    done = outcome_of(name, MUTANTS[name][3])
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-2000:] + done.stderr[-2000:]


def test_the_same_tests_pass_without_one() -> None:
    done = outcome_of("", MUTANTS["facts without probes"][3])
    assert done.returncode == pytest.ExitCode.OK, done.stdout[-2000:]


def test_defects_are_planted_in_the_source() -> None:
    for name in MUTANTS:
        module, text = planted(name)
        assert text, module
        compile(text, module, "exec")
