"""chaos/probes.py: whatever a probe runs into becomes a result with a remedy, never an exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from brokerproof.chaos.channels import ChannelTimeout
from brokerproof.chaos.probes import PROBES, ProbeFailed, run_probe
from brokerproof.chaos.processes import NotReady, ProcessDiedAtStart, Supervisor
from brokerproof.chaos.tools import ToolFailed, ToolMissing

NO_SUPERVISOR = cast(Supervisor, None)  # these probes start nothing


def _raising(error: Exception) -> Callable[[Supervisor], str]:
    def probe(_: Supervisor) -> str:
        raise error

    return probe


@pytest.mark.parametrize(
    ("error", "detail", "remedy"),
    [
        (ToolMissing("Maven", "install it"), "Maven is not available", "install it"),
        (ToolFailed("Go", ["go", "install"], "exit code 1", "no network"), "no network", "Go"),
        (ProbeFailed("bytes passed"), "bytes passed", "not run"),
        (ProcessDiedAtStart("x", ["x"], 3, "bad"), "exit code 3", "not run"),
        (NotReady("still waiting"), "still waiting", "not run"),
        (ChannelTimeout("child", "no line"), "child: no line", "not run"),
        (ConnectionRefusedError("nobody"), "nobody", "not run"),
    ],
)
def test_trouble_becomes_a_result_with_a_remedy(error: Exception, detail: str, remedy: str) -> None:
    result = run_probe("it", _raising(error), NO_SUPERVISOR)
    assert not result.ok
    assert detail in result.detail
    assert remedy in result.remedy


def test_a_probe_that_is_content_needs_no_remedy() -> None:
    result = run_probe("it", lambda _: "5.17.2", NO_SUPERVISOR)
    assert (result.name, result.ok, result.detail, result.remedy) == ("it", True, "5.17.2", "")


def test_a_defect_of_the_probe_itself_is_not_hidden() -> None:
    with pytest.raises(KeyError):
        run_probe("it", _raising(KeyError("x")), NO_SUPERVISOR)


def test_everything_that_live_scenarios_rest_on_is_probed() -> None:
    assert {"faketime-python", "faketime-java", "faketime-jpype", "toxiproxy", "java", "go", "maven", "apt"} <= set(
        PROBES
    )
