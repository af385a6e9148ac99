"""What a test says when its tool is missing: *not run*, by name; a skip on a laptop, a failure in CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def not_run(reason: str) -> NoReturn:
    """Skip with the words "not run: " locally; fail under CI=true, where a missing tool is a broken environment."""
    text = f"not run: {reason}"
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(text, pytrace=False)
    pytest.skip(text)
