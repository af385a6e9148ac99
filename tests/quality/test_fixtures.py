"""Somebody's own tests beside a worker of pytest-xdist: a process of its own, so not among the fast ones."""

from __future__ import annotations

import pytest

from tests.fast.conformance.running.test_fixtures import EXPIRY, run

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a summary line is cut off."""
    monkeypatch.setenv("COLUMNS", "300")


def test_what_a_worker_tells_is_the_same(pytester: pytest.Pytester) -> None:
    done = run(pytester, EXPIRY, "--brokerproof-mutant", "expiry-never", "-n", "1")
    done.stdout.fnmatch_lines(["EXP-004 (MUST) *", "FAILED*::test_expiry - EXP-004: *"])
