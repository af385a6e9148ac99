"""The frozen judge: what ``python -m tests.frozen`` counts, and that the pinned commit still makes its records."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from tests.frozen import making, table
from tests.frozen.comparing import ACCUSATION, LOST, UNDECIDED, Tally, compare
from tests.frozen.records import Missing, files, find, read_records

ID = "GEN-001"
HERE = "tests.quality.test_frozen"


def silent(history: History, wanted: Iterable[str]) -> list[Verdict]:
    return []


def accusing(history: History, wanted: Iterable[str]) -> list[Verdict]:
    return [Verdict(name, VerdictKind.VIOLATED, text="it is") for name in wanted]


def apt(history: History, wanted: Iterable[str]) -> list[Verdict]:
    said = VerdictKind.VIOLATED if history.header.mutant else VerdictKind.SATISFIED
    return [Verdict(name, said) for name in wanted]


def raising(history: History, wanted: Iterable[str]) -> list[Verdict]:
    raise ArithmeticError(history.header.broker)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three runs: decided, silent, and one of a mutant."""
    _write(tmp_path / "corpus.jsonl.gz", "corpus/plain", "satisfied")
    _write(tmp_path / "seeds-00000.jsonl.gz", "seeds/0", "inconclusive")
    _write(tmp_path / "mutants" / "returns-vanish.jsonl.gz", "mutants/returns-vanish/7", "violated")
    return tmp_path


def _write(path: Path, key: str, verdict: str) -> None:
    header = {"format": "brokerproof/history/1", "broker": "reference"}
    header |= {"mutant": key.split("/")[1]} if key.startswith("mutants/") else {}
    said = {"requirement": ID, "verdict": verdict, "outcome": "", "witness": [], "text": "so it was"}
    record = {"key": key, "trivial": 0, "verdicts": [said], "history": json.dumps(header) + "\n"}
    summary = {"task": "by hand", "runs": 1, "kept": 1, "raised": [], "hung": []}
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress("\n".join([json.dumps(summary), json.dumps(record)]).encode()))


def _against(folder: Path, judge: str, **options: int) -> Tally:
    return compare(folder, [ID], place=f"{HERE}:{judge}", **options)


def test_a_judge_that_agrees_passes(folder: Path) -> None:
    tally = _against(folder, "apt")
    assert tally.counts[ID] == {"decided old": 1, "decided new": 1, "violated old": 1, "violated new": 1}
    assert table.totals(tally, 0)[0]


def test_a_silent_judge_loses_violations_and_decisions(folder: Path) -> None:
    tally = _against(folder, "silent")
    assert tally.counts[ID] == {"decided old": 1, "violated old": 1, UNDECIDED: 1, LOST: 1}
    assert [one.key for one in tally.first(ID, 1)] == ["corpus/plain", "mutants/returns-vanish/7"]
    assert not table.totals(tally, 0)[0]


def test_accusations_are_found_in_a_sample_of_the_runs_that_the_old_judge_did_not_decide(folder: Path) -> None:
    assert _against(folder, "accusing").counts[ID][ACCUSATION] == 1
    tally = _against(folder, "accusing", sample=1)
    assert tally.counts[ID][ACCUSATION] == 2
    assert not table.totals(tally, 0)[0]


def test_a_judge_that_raises_is_told_with_the_run(folder: Path) -> None:
    tally = _against(folder, "raising")
    assert [failure.partition(":")[0] for failure in tally.failures] == ["corpus/plain", "mutants/returns-vanish/7"]
    assert not table.totals(tally, 0)[0]


def test_what_is_missing_is_named(folder: Path) -> None:
    with pytest.raises(Missing, match="no such judge"):
        compare(folder, [ID], place="no such judge")
    with pytest.raises(Missing, match="'seeds/99'"):
        find(folder, "seeds/99")


def test_the_pinned_commit_makes_records(tmp_path: Path) -> None:
    try:
        making.pinned_tree()
    except Missing as error:
        pytest.skip(str(error))
    making.make(tmp_path, seeds=2, mutant_seeds=2, mutants=["returns-vanish"])
    assert [record.key for record in read_records(files(tmp_path, "seeds")[0])] == ["seeds/0", "seeds/1"]
    (lost,) = files(tmp_path, "mutants")
    verdicts = [verdict.verdict for record in read_records(lost) for verdict in record.verdicts]
    assert "violated" in verdicts
    assert "not exercised" not in verdicts
    before = lost.stat().st_mtime_ns
    making.make(tmp_path, seeds=2, mutant_seeds=2, mutants=["returns-vanish"])
    assert lost.stat().st_mtime_ns == before
