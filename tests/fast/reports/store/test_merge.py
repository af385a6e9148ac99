"""Columns in a folder: a run replaces its own broker's column and evidence, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerproof.conformance.experiment.results import RunFinished, RunResult, SuiteFinished, SuiteStarted
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.requirements.catalogue import Catalogue
from brokerproof.reports.commands.suite_report import ReportWriter
from brokerproof.reports.store.evidence import read_evidence, replay_line, slug
from brokerproof.reports.store.schema import Report, ReportError, read_report
from tests.fast.reports.store import samples


def run(folder: Path, *results: RunResult, catalogue: Catalogue | None = None, digest: str = "sha256:1") -> Report:
    """A suite of these runs, written to ``folder``."""
    writer = ReportWriter(folder, catalogue if catalogue is not None else samples.catalogue())
    writer.handle(SuiteStarted(sorted({result.broker for result in results}), ["DLY-003"], len(results)))
    for result in results:
        writer.handle(RunFinished(result))
    writer.handle(SuiteFinished(digest, 1.0))
    assert writer.report is not None
    return writer.report


def test_a_second_broker_adds_a_column(tmp_path: Path) -> None:
    run(tmp_path, samples.result("seed-1", [samples.early()]))
    report = run(tmp_path, samples.result("seed-1", [samples.kept("DLY-003")], broker="activemq 5.17.2"))
    assert [column.broker for column in report.columns] == ["reference", "activemq 5.17.2"]
    verdicts = {cell.broker: cell.verdict.verdict for cell in report.cells}
    assert verdicts == {"reference": VerdictKind.VIOLATED, "activemq 5.17.2": VerdictKind.SATISFIED}


def test_a_second_run_replaces_the_column_and_its_evidence(tmp_path: Path) -> None:
    other = samples.result("seed-9", [samples.early()], broker="activemq 5.17.2", world="live")
    run(tmp_path, samples.result("seed-1", [samples.early()]), other, digest="sha256:1")
    report = run(tmp_path, samples.result("seed-2", [samples.kept("DLY-003")]), digest="sha256:2")
    assert [(column.broker, column.digest) for column in report.columns] == [
        ("reference", "sha256:2"),
        ("activemq 5.17.2", "sha256:1"),
    ]
    assert [evidence.run for evidence in report.evidence] == [
        "activemq 5.17.2/live/seed-9",
        "reference/simulated/seed-2",
    ]
    kept = sorted(path.parent.name for path in tmp_path.glob("evidence/*/*/program.json"))
    assert kept == ["live-seed-9", "simulated-seed-2"]
    assert read_report(tmp_path) == report


def test_a_planted_defect_never_replaces_the_honest_column(tmp_path: Path) -> None:
    run(tmp_path, samples.result("seed-1", [samples.kept("DLY-003")]))
    report = run(tmp_path, samples.result("seed-1", [samples.early()], mutant="delay-1ms-early"))
    assert [column.broker for column in report.columns] == ["reference", "reference with mutant delay-1ms-early"]
    assert [cell.verdict.verdict for cell in report.cells if cell.broker == "reference"] == [VerdictKind.SATISFIED]


def test_rows_are_those_of_the_current_catalogue(tmp_path: Path) -> None:
    run(tmp_path, samples.result("seed-1", [samples.early()], broker="activemq 5.17.2"))
    small = Catalogue([samples.requirement("EXP-001")])
    report = run(tmp_path, samples.result("seed-1", [samples.kept("EXP-001")]), catalogue=small)
    assert [(cell.requirement, cell.broker) for cell in report.cells] == [("EXP-001", "reference")]
    assert [evidence.broker for evidence in report.evidence] == ["reference"]


def test_an_unreadable_report_stops_the_run_before_it_starts(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{ not json", encoding="utf-8")
    writer = ReportWriter(tmp_path, samples.catalogue())
    with pytest.raises(ReportError, match=r"report\.json.*or remove .*report\.json, or write elsewhere \(--out\)"):
        writer.handle(SuiteStarted(["reference"], [], 1))
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == "{ not json"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.write_text("mine", encoding="utf-8")
    with pytest.raises(ReportError, match=r"out: is a file; give a folder"):
        ReportWriter(place, samples.catalogue()).handle(SuiteStarted(["reference"], [], 1))


def test_evidence_reads_back(tmp_path: Path) -> None:
    result = samples.result("seed-1", [samples.early()], seed=1)
    (evidence,) = run(tmp_path, result).evidence
    again = read_evidence(tmp_path, evidence, [samples.early()])
    assert (again.run, again.seed, again.world) == (result.run, 1, "simulated")
    assert again.program == result.program
    assert again.history is not None
    assert result.history is not None
    assert again.history.encode() == result.history.encode()


def test_exchanged_evidence_is_noticed(tmp_path: Path) -> None:
    (evidence,) = run(tmp_path, samples.result("seed-1", [samples.early()], seed=1)).evidence
    path = tmp_path / "evidence" / evidence.id / "program.json"
    path.write_bytes(samples.program(3).encode())
    with pytest.raises(ReportError, match="the report names sha256"):
        read_evidence(tmp_path, evidence, [])


def test_replay_lines_name_the_program_file(tmp_path: Path) -> None:
    mutant = samples.result("seed-1", [samples.early()], mutant="delay-1ms-early")
    (evidence,) = run(tmp_path, mutant).evidence
    inside = f"evidence/{evidence.id}/program.json"
    assert evidence.replay == f"brokerproof replay {inside} --mutant delay-1ms-early"
    assert replay_line(evidence, Path("my out")) == f"brokerproof replay 'my out/{inside}' --mutant delay-1ms-early"
    assert (tmp_path / inside).is_file()


@pytest.mark.parametrize("chosen", [(), ("--broker", "activemq@5.12.3", "--client", "openwire")])
def test_replay_lines_name_the_broker_of_a_live_run(chosen: tuple[str, ...], tmp_path: Path) -> None:
    live = samples.result("x", [samples.early()], broker="some broker", world="live")
    live.chosen = chosen
    (evidence,) = run(tmp_path, live).evidence
    options = "".join(f"{word} " for word in chosen)
    assert evidence.replay == f"brokerproof replay evidence/{evidence.id}/program.json {options}--tier live"


@pytest.mark.parametrize(
    ("name", "expected"), [("reference", "reference"), ("activemq 5.17.2", "activemq_5.17.2"), ("seed-7", "seed-7")]
)
def test_plain_names_stay_readable(name: str, expected: str) -> None:
    assert slug(name) == expected


def test_odd_names_become_different_plain_folders() -> None:
    names = ["../../etc", "a/b", "a b", "a_b", "a-b", "A B", "ä", "", "x" * 300, "x" * 301, "."]
    slugs = [slug(name) for name in names]
    assert len(set(slugs)) == len(names)
    for text in slugs:
        assert text.strip(".")
        assert len(text) < 120
        assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
