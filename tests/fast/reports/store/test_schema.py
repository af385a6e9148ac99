"""report.json: the schema in docs/ is the one that the code means; unusable reports are refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from brokerproof.conformance.experiment.results import RunFinished, SuiteFinished, SuiteStarted
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.reports.commands.suite_report import ReportWriter
from brokerproof.reports.store.schema import (
    FORMAT,
    Cell,
    Report,
    ReportError,
    WorldCount,
    json_schema,
    parse_report,
    read_report,
)
from tests.fast.reports.store import samples

SCHEMA = Path(__file__).parents[4] / "docs" / "report.schema.json"


def sample_report(folder: Path) -> Report:
    """A report with every kind of cell that matters to the schema."""
    writer = ReportWriter(folder, samples.catalogue())
    writer.handle(SuiteStarted(["reference"], ["DLY-003", "DLY-004", "EXP-001"], 2))
    writer.handle(RunFinished(samples.result("seed-1", [samples.early(), samples.kept("DLY-004")], seed=1)))
    broken = samples.result("seed-2", [])
    broken.problem = "agent c0 broke the protocol"
    writer.handle(RunFinished(broken))
    writer.handle(SuiteFinished("sha256:" + "0" * 64, 1.5))
    assert writer.report is not None
    return writer.report


def test_schema_file_is_generated() -> None:
    """Regenerate with: python -c "from brokerproof.reports.store.schema import *; …" as docs/report.md says."""
    text = json.dumps(json_schema(), indent=1, sort_keys=True) + "\n"
    assert SCHEMA.read_text(encoding="utf-8") == text


def test_real_report_satisfies_the_schema(tmp_path: Path) -> None:
    sample_report(tmp_path)
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    document["cells"][0]["surprise"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_report_reads_back_as_written(tmp_path: Path) -> None:
    report = sample_report(tmp_path)
    assert read_report(tmp_path) == report
    assert parse_report(report.encode()) == report


def test_a_report_of_format_1_is_read(tmp_path: Path) -> None:
    report = sample_report(tmp_path)
    assert any(cell.example for cell in report.cells)
    old = (
        report.encode().replace(b'"example":', b'"exhibit":').replace(b"brokerproof/report/2", b"brokerproof/report/1")
    )
    assert old != report.encode()
    assert parse_report(old) == report


def test_totals_count_cells_per_verdict(tmp_path: Path) -> None:
    totals = {kind.value: count for kind, count in sample_report(tmp_path).totals("reference").items() if count}
    assert totals == {"violated": 1, "satisfied": 1, "not exercised": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "brokerproof/report/99"}, "brokerproof/report/99"),
        ({"columns": []}, "columns only of"),
        ({"evidence": []}, "does not list"),
    ],
)
def test_inconsistent_report_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    broken = msgspec.structs.replace(sample_report(tmp_path), **change)
    with pytest.raises(ReportError, match=message) as caught:
        parse_report(broken.encode(), "some/report.json")
    assert str(caught.value).startswith("some/report.json: ")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("slug", ["../elsewhere", "/etc", "a/../../b", "", "a\\b"])
def test_report_cannot_point_outside_its_folder(tmp_path: Path, slug: str) -> None:
    report = sample_report(tmp_path)
    column = msgspec.structs.replace(report.columns[0], slug=slug)
    with pytest.raises(ReportError, match="must not point outside"):
        parse_report(msgspec.structs.replace(report, columns=[column]).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff\xfe", b'{"format": 1}'])
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(ReportError, match=r"not a brokerproof/report/2 report"):
        parse_report(data)


def test_missing_report_names_the_folder_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"nowhere: no report to read .*run --out"):
        read_report(tmp_path / "nowhere")


def test_each_world_says_for_itself_what_its_runs_showed() -> None:
    """What only the simulation kept is not kept live."""
    counts = [
        WorldCount("simulated", {VerdictKind.SATISFIED: 3, VerdictKind.NOT_EXERCISED: 1}),
        WorldCount("live", {VerdictKind.NOT_EXERCISED: 2}),
    ]
    kept = Cell("b", Verdict("A-1", VerdictKind.SATISFIED), counts)
    assert (kept.kind_in("simulated"), kept.kind_in("live")) == (VerdictKind.SATISFIED, VerdictKind.NOT_EXERCISED)
    assert (kept.runs_in("simulated"), kept.runs_in("live"), kept.runs_in("moon")) == ((3, 4), (2, 2), None)
    failed = [counts[0], WorldCount("live", {VerdictKind.VIOLATED: 1, VerdictKind.SATISFIED: 9})]
    broken = Cell("b", Verdict("A-2", VerdictKind.NOT_MET), failed)  # a SHOULD
    assert (broken.kind_in("simulated"), broken.kind_in("live")) == (VerdictKind.SATISFIED, VerdictKind.NOT_MET)
    assert (broken.runs_in("live"), broken.decisive) == ((1, 10), 1)
    unsure = Cell("b", Verdict("A-3", VerdictKind.INCONCLUSIVE), counts)  # satisfied, and too much undecided
    assert (unsure.runs_in("simulated"), unsure.decisive) == ((3, 4), 3)
    unfit = Cell("b", Verdict("B-1", VerdictKind.NOT_APPLICABLE))
    report = Report(FORMAT, "brokerproof", {"A": "a", "B": "b"}, [], [], [kept, broken, unfit], [])
    assert report.sides("b") == ["simulated", "live"]
    assert report.totals("b", "A", "live")[VerdictKind.NOT_EXERCISED] == 1
    assert report.totals("b", "B", "live")[VerdictKind.NOT_APPLICABLE] == 1
    assert report.runs("b", "live") == 10
