"""``brokerproof coverage``: counts are those of the runs, the rarest come first, and every flag changes something."""

from __future__ import annotations

import json

import pytest

from brokerproof.conformance.cli import main
from brokerproof.conformance.experiment.exits import OK, USAGE
from brokerproof.conformance.generate import guidance
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.engine import run_seed

SMALL = ["coverage", "--requirement", "EXP-*", "--jobs", "1"]


def told(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """What the command prints."""
    assert main([*SMALL, *more]) == OK
    return capsys.readouterr().out


def test_counts_are_those_of_the_runs(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["requirement"]: row for row in map(json.loads, told(capsys, "--programs", "12", "--json").splitlines())}
    catalogue = default_catalogue()
    judged = [one.id for one in catalogue.judged() if one.id.startswith("EXP-")]
    assert list(rows) == judged
    runs = [run_seed(seed) for seed in range(12)]
    for name, row in rows.items():
        met = [v for run in runs for v in run.verdicts if v.requirement == name and v.decided]
        assert row["programs"] == len(met)
        assert set(catalogue[name].situations) <= set(row["situations"])
        assert row["situations"] == {text: sum(text in v.situations for v in met) for text in row["situations"]}
        assert set(row["first"]) == {text for text, count in row["situations"].items() if count}
        assert max(row["features"].values()) <= row["programs"]
    assert any(row["programs"] for row in rows.values())


def test_the_rarest_come_first_and_flags_matter(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guidance, "ROUND", 10)
    text = told(capsys, "--programs", "20", "--rarest", "7")
    assert "the 7 rarest situations" in text
    block = text.split("rarest situations")[1].split("\n\n")[0].splitlines()[1:]
    counts = [int(line.split()[0]) for line in block]
    assert len(counts) == 7
    assert counts == sorted(counts)
    last = text.splitlines()[-1]
    assert last.startswith("20 programs met ")
    assert "rarest" not in told(capsys, "--programs", "20", "--rarest", "0").split("rarest situation", 1)[1]
    assert told(capsys, "--programs", "20", "--seed", "500").splitlines()[-1] != last
    assert told(capsys, "--programs", "20", "--guided").splitlines()[-1] != last


def test_nonsense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for more in (["--programs", "0"], ["--jobs", "0"], ["--rarest", "-1"], ["--requirement", "XYZ-*"]):
        assert main([*SMALL, *more]) == USAGE
        assert more[1] in capsys.readouterr().err
