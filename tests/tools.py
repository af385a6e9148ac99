"""What tests of every room share."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

from tests.guards.tree import PACKAGES

T = TypeVar("T")


def examples(count: int) -> int:
    """How many examples Hypothesis draws of a property: ``count`` in each run, many times as many at night."""
    return count * int(os.environ.get("BROKERPROOF_TEST_EXAMPLES", "1"))


def at_night(values: Iterable[T], *, but: Collection[T] = ()) -> list[object]:
    """Parameters of a test of which ``but`` these are played before each change, and all others at night."""
    return [value if value in but else pytest.param(value, marks=pytest.mark.night) for value in values]


def not_run(reason: str) -> NoReturn:
    """Skip with the words "not run: " locally; fail under CI=true, where a missing tool is a broken environment."""
    text = f"not run: {reason}"
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


def users_packages(folder: Path) -> None:
    """Packages of a user who has named them like our rooms. Each knows where it is: ``OWNER``."""
    for name in PACKAGES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"OWNER = {str(folder)!r}\n", encoding="utf-8")
