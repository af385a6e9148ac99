"""A state machine on real processes: what it finds is explained with a line that replays it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.cli import main
from brokerproof.conformance.experiment.exits import VIOLATED
from brokerproof.conformance.machines.delay import DelayModel
from brokerproof.conformance.machines.failure import explain, shrink_failure
from brokerproof.conformance.machines.search import Search, live
from tests.live.bench import make_laboratory


def test_a_failure_is_explained_with_a_line_that_replays_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapter = make_adapter("reference", mutant="delay-ignored")
    with make_laboratory(tmp_path) as laboratory:
        wanted = ["DLY-001"]
        search = Search(
            DelayModel, live(adapter, laboratory), wanted, mutant="delay-ignored", examples=5, adapter=adapter
        )
        failure = search.run()
        assert failure is not None
        text = explain(search, failure, shrink_failure(search, failure, 1), tmp_path / "made")
    words = shlex.split(next(line for line in text.splitlines() if "replay:" in line).split("brokerproof ", 1)[1])
    assert "--tier live" in (line := shlex.join(words))
    assert "--mutant delay-ignored" in line
    assert main(words) == VIOLATED
    assert "DLY-001" in capsys.readouterr().out
