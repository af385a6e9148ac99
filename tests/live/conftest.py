"""The order of the live tests: files that take minutes first, so that no worker is left alone with one at the end."""

from __future__ import annotations

from collections import Counter

import pytest

#: Those with few tests that take long each; of the others the number of tests says enough.
LONG = (
    "test_campaign",
    "test_live_command",
    "test_tutorial",
    "test_live_jms_providers",
    "test_live_random",
    "test_action",
    "test_live_rates",
    "test_live_ibm_mq",
    "test_live_networks",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # With ``--no-loadscope-reorder`` files are handed out as they stand here.
    tests = Counter(item.path for item in items)
    rank = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: (rank.get(item.path.stem, len(LONG)), -tests[item.path], item.path))
