"""Fixtures for somebody's own tests, on the reference broker's process: a skewed clock, a stalled link."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from brokerproof.chaos.tools import ToolMissing
from brokerproof.chaos.toxiproxy import find_toxiproxy
from tests.live.bench import need_clocks
from tests.tools import not_run

pytestmark = pytest.mark.live
pytest_plugins = ["pytester"]

#: pytester gives its tests another one, where no tools are.
HOME = os.environ.get("HOME", "")

TEST = """
import pytest

@pytest.mark.requirement("EXP-003", "GEN-001")
def test_dead_on_arrival(broker_under_test, skewed_clock, stalled_link):
    skewed_clock("p0", -60_000)
    queue = broker_under_test.client("c0").subscribe("q0")
    broker_under_test.client("p0").send("q0", ttl_ms=500)
    with stalled_link("c0", toward="client"):
        broker_under_test.client("p0").send("q0")
        assert queue.receive(300) is None
    message = queue.receive()
    assert message.message == "p0/2"
    queue.ack(message)
"""


@pytest.mark.parametrize("mutant", [None, "expiry-never"])
def test_in_real_time(pytester: pytest.Pytester, mutant: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", HOME)
    need_clocks()
    try:
        find_toxiproxy()
    except ToolMissing as error:
        not_run(str(error))
    pytester.makepyfile(TEST)
    words = ["--brokerproof-tier", "live", *([] if mutant is None else ["--brokerproof-mutant", mutant])]
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", *words, timeout=120)
    done.assert_outcomes(**{"passed" if mutant is None else "failed": 1})
    if mutant is not None:
        done.stdout.fnmatch_lines(["FAILED*::test_dead_on_arrival - EXP-003*"])


def test_without_the_tool_it_is_not_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that cannot be stalled must not look like one that was."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(TEST.replace("skewed_clock(", "len(").replace('"p0", -60_000', "'p0'"))
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-ra", "--brokerproof-tier", "live", timeout=120)
    done.assert_outcomes(skipped=1)
    assert "not run: " in done.stdout.str()
