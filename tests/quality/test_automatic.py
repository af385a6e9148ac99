"""``mutants --automatic``: what becomes of a mutant, which programs meet it, and what each flag changes."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from brokerproof.conformance.cli import main
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.exits import OK, SUITE, USAGE
from brokerproof.conformance.mutants.automatic.equivalent import Equivalent, equivalents
from brokerproof.conformance.mutants.automatic.mutations import (
    Mutation,
    all_mutations,
    broker_folder,
    mutations_of,
    source_files,
)
from brokerproof.conformance.running.automatic import coverage, sample
from brokerproof.conformance.running.automatic.coverage import Coverage, record_all
from brokerproof.conformance.running.automatic.sample import Score, Trial, try_all

#: The programs of these tests.
NAMES = ["a-batch-is-divided", "alive-at-its-expiration", "live-purge"]


@pytest.fixture(scope="module")
def known() -> Coverage:
    return Coverage(record_all(NAMES))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, known: Coverage) -> None:
    """The command with these programs and the seeds that it asks for, and in this process."""
    rows = {row.name: row for row in known.rows}

    def load(seeds: int, jobs: int, folder: Path, *, corpus: bool = True) -> Coverage:
        names = [*(NAMES if corpus else ()), *(f"seed-{seed}" for seed in range(seeds))]
        (folder / "jobs").write_text(str(jobs))
        return Coverage([rows[name] if name in rows else record_all([name])[0] for name in names])

    monkeypatch.setattr(coverage, "load", load)


def mutant(file: str, text: str, line: str) -> Mutation:
    """The mutation that puts ``text`` into a line."""
    found = [
        one
        for one in all_mutations([file])
        if one.edit.text == text and one.source.splitlines()[one.line - 1].strip() == line
    ]
    assert found, f"{file} has no line {line!r} to mutate so"
    return found[0]


UNKNOWN_EVENT = ("core/broker.py", "if handler is None:")


def tried(known: Coverage, file: str, line: str, text: str) -> Trial:
    (trial,) = try_all([mutant(file, text, line)], known, 1)
    return trial


def test_a_broken_promise_kills(known: Coverage) -> None:
    line = "return 0 < expiration_ms < wall_ms"
    trial = tried(known, "core/expiry.py", line, "0 < expiration_ms <= wall_ms")
    assert (trial.kind, trial.program) == ("killed", "alive-at-its-expiration")
    assert "EXP-003" in trial.by
    assert trial.programs <= trial.reached


def test_a_failing_broker_is_a_verdict(known: Coverage) -> None:
    trial = tried(known, *UNKNOWN_EVENT, "handler is not None")
    assert (trial.kind, trial.program) == ("crashed", NAMES[0])
    assert "GEN-090" in trial.by


def test_a_survivor_and_its_reason(known: Coverage, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = tried(known, *UNKNOWN_EVENT, "False")
    assert (trial.kind, trial.changed, trial.programs) == ("survived", False, len(NAMES))
    entry = Equivalent(trial.key, trial.file, "an event that nobody sends", "there is no such event")
    monkeypatch.setattr(sample, "equivalents", lambda: {trial.key: entry})
    assert tried(known, *UNKNOWN_EVENT, "False").kind == "equivalent"


def test_no_reason_counts_where_a_history_differs(known: Coverage, monkeypatch: pytest.MonkeyPatch) -> None:
    one = mutant(*UNKNOWN_EVENT[:1], "False", UNKNOWN_EVENT[1])
    history = known.rows[0].name
    sound = sample.simulate(sample.program_named(history)).encode().decode()
    outcome = {"kind": "survived", "by": [], "program": history, "history": sound[:-1] + "x", "programs": 3}
    monkeypatch.setattr(sample, "_run", lambda *_: outcome)
    entry = Equivalent(one.key, one.file, "an event that nobody sends", "there is no such event")
    monkeypatch.setattr(sample, "equivalents", lambda: {one.key: entry})
    (trial,) = try_all([one], known, 1)
    assert (trial.kind, trial.changed) == ("survived", True)
    assert trial.difference == (sound.splitlines()[-1], sound.splitlines()[-1] + "x")
    assert "listed as equivalent" in trial.reason


def test_what_no_program_reaches_is_not_run(known: Coverage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "_run", lambda *_: pytest.fail("nothing is to be run"))
    trial = tried(known, "core/deadletter.py", "audit.pop(copy.message_id, None)", "pass")
    assert (trial.kind, trial.reached) == ("not executed", 0)


def test_a_trial_that_cannot_cope_is_a_defect(known: Coverage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample.sys, "executable", "false")
    trial = tried(known, *UNKNOWN_EVENT, "False")
    assert trial.kind == "defect"
    assert trial.reason.startswith("exit code 1")


def test_the_score_is_about_what_runs() -> None:
    score = Score()
    for kind in ("killed", "killed", "survived", "crashed", "hung", "equivalent", "not executed"):
        score.add(Trial("core/x.py", 1, "f", "constant", "k", "", kind))
    assert (score.rated, score.percent) == (3, pytest.approx(66.7, abs=0.1))


def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: str) -> list[dict[str, Any]]:
    assert main(["mutants", "--automatic", "--json", "--jobs", "1", "--out", str(tmp_path), *arguments]) == OK
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("few")
def test_each_flag_changes_something(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = ["--sample", "2", "--file", "core/expiry.py"]
    *trials, scores = run(capsys, tmp_path, *small, "--programs", "0")
    assert [trial["file"] for trial in trials] == ["core/expiry.py"] * 2
    assert sum(scores["all files"].values()) == 2
    assert (tmp_path / "jobs").read_text() == "1"
    *others, _ = run(capsys, tmp_path, *small, "--programs", "0", "--seed", "1")
    assert [trial["key"] for trial in others] != [trial["key"] for trial in trials]
    *seeds, _ = run(capsys, tmp_path, *small, "--programs", "1", "--random-only")
    assert {trial["reached"] for trial in seeds} <= {0, 1}


@pytest.mark.usefixtures("few")
def test_the_report_names_survivors_and_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["--sample", "3", "--programs", "0", "--file", "core/deadletter.py", "--out", str(tmp_path)]
    assert main(["mutants", "--automatic", *arguments]) == OK
    text = capsys.readouterr().out
    for part in ("lines reached", "core/deadletter.py  ", "all files", "3 mutants, 3 programs; killed by a promise: "):
        assert part in text, part


@pytest.mark.usefixtures("few")
def test_a_defect_of_the_suite_ends_with_4(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample.sys, "executable", "false")
    arguments = ["--sample", "1", "--programs", "0", "--file", "core/expiry.py", "--out", str(tmp_path)]
    assert main(["mutants", "--automatic", *arguments]) == SUITE
    assert "defect" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sample", "3"], "--sample is about automatic mutants; add --automatic"),
        (["--automatic", "--canary"], "--canary was written by hand"),
        (["--automatic", "expiry-never"], "mutant 'expiry-never' was written by hand"),
        (["--automatic", "--sample", "0"], "--sample 0 must be at least 1"),
        (["--automatic", "--random-only", "--programs", "0"], "leaves no program to run"),
        (["--automatic", "--file", "queue"], "--file 'queue' matches no file"),
    ],
)
def test_nonsense_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutants", *arguments]) == USAGE
    assert message in capsys.readouterr().err


def test_coverage_is_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "programs", lambda: {NAMES[0]: programs()[NAMES[0]]})
    first = coverage.load(1, 1, tmp_path)
    assert [row.name for row in first.rows] == [NAMES[0], "seed-0"]
    monkeypatch.setattr(coverage, "record_all", lambda _: pytest.fail("it is known already"))
    again = coverage.load(0, 1, tmp_path)
    assert [row.history for row in again.rows] == [first.rows[0].history]
    reached, lines = first.reached(["core/queue.py"])
    assert 0 < reached < lines


def around(tree: ast.Module | ast.ClassDef, line: int) -> str:
    """The function or statement of a line, as a tree in a text."""
    for node in tree.body:
        if node.lineno <= line <= (node.end_lineno or 0):
            return around(node, line) if isinstance(node, ast.ClassDef) else ast.dump(node)
    return ast.dump(tree)


def test_every_mutation_of_the_broker_compiles_and_changes_the_source() -> None:
    for file in source_files("core/[f-m]*.py"):
        source = (broker_folder() / file).read_text("utf-8")
        plain = ast.parse(source)
        for mutation in mutations_of(file, source)[::7]:
            changed = around(ast.parse(mutation.mutated()), mutation.line)
            assert changed != around(plain, mutation.line), mutation.diff()


def test_equivalent_mutants_exist_and_have_a_reason() -> None:
    present = {mutation.key: mutation for mutation in all_mutations(source_files())}
    for entry in equivalents().values():
        assert entry.key in present, f"{entry.file}: {entry.change}: the source has changed; look at it again"
        assert present[entry.key].file == entry.file
        assert len(entry.reason) > 20, f"{entry.key}: why can nobody tell it from the sound broker?"
