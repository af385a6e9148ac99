"""``brokerproof mqsc``: shows what commands show, and says in which line one is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerproof.chaos.ports import free_ports
from brokerproof.conformance.cli import main
from brokerproof.conformance.experiment.exits import OK, USAGE


def test_commands_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "objects.mqsc"
    file.write_text("* remark\n\nDEFINE QLOCAL(Q) MAXDEPTH(5)\nDISPLAY QLOCAL(Q)\n")
    assert main(["mqsc", str(file)]) == OK
    assert "MAXDEPTH(5)" in capsys.readouterr().out
    file.write_text("DEFINE QLOCAL(Q)\nDEFINE QLOCAL(Q)\n")
    assert main(["mqsc", str(file)]) == USAGE
    assert "line 2: QLOCAL(Q) exists already" in capsys.readouterr().err
    assert main(["mqsc", str(tmp_path / "missing")]) == USAGE


def test_a_running_broker_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Or nobody is, where none runs; tests/live/test_live_ibm_mq.py tells one."""
    (port,) = free_ports(1)
    (tmp_path / "objects.mqsc").write_text("DEFINE QLOCAL(Q)\n")
    assert main(["mqsc", str(tmp_path / "objects.mqsc")]) == OK
    assert main(["mqsc", "--admin", str(port), str(tmp_path / "objects.mqsc")]) == USAGE
    assert f"no admin port answers at {port}" in capsys.readouterr().err
