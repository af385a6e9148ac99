"""``brokerproof mqsc``: shows what commands show, and says in which line one is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

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
