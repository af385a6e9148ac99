"""tests/tools.py: a missing tool is a skip on a laptop and a failure in CI, by name in both."""

from __future__ import annotations

import pytest

from tests.tools import not_run


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_a_missing_tool_is_not_run_and_in_ci_a_failure(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match=r"^not run: no Go here$"):
        not_run("no Go here")
