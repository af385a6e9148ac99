"""The doctor on this machine: one result per probe, each ok or with a remedy, nothing left running."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brokerproof.chaos import doctor as room
from brokerproof.chaos.doctor import doctor, run_doctor
from brokerproof.chaos.probes import PROBES
from brokerproof.chaos.supervisor import descendants, process_table
from brokerproof.chaos.tools import ToolMissing

pytestmark = pytest.mark.live


def test_every_probe_gives_a_result_and_nothing_is_left() -> None:
    heard: list[str] = []
    before = descendants(os.getpid(), process_table())  # Spark's machine, where a campaign was tested earlier
    results = run_doctor(install=False, progress=heard.append)
    assert [result.name for result in results] == heard == list(PROBES)
    for result in results:
        assert result.detail
        assert result.ok == (not result.remedy), result
        assert result.seconds < 60
    left = set(descendants(os.getpid(), process_table())) - set(before)
    assert {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left} == {}


def test_a_failed_installation_is_a_result_and_the_probes_are_run_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise ToolMissing("Go", "install Go")

    monkeypatch.setattr(room, "INSTALLS", {"install-toxiproxy": missing, "install-jolokia": lambda: "there"})
    monkeypatch.setattr(room, "PROBES", {"java": PROBES["java"]})
    found = {result.name: result for result in run_doctor(install=True)}
    assert not found["install-toxiproxy"].ok
    assert found["install-toxiproxy"].remedy == "install Go"
    assert found["install-jolokia"].ok
    assert list(found) == ["install-toxiproxy", "install-jolokia", "java"]


def test_nothing_is_installed_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> str:
        raise AssertionError("it was not asked to install")

    monkeypatch.setattr(room, "INSTALLS", {"install-toxiproxy": asked})
    monkeypatch.setattr(room, "PROBES", {})
    assert doctor() == []
