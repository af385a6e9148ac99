"""``diff``, SARIF and the badge: what a machine or a reader of a pull request gets."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from brokerproof.conformance.cli import main
from brokerproof.conformance.experiment.exits import OK, USAGE, VIOLATED
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.reports.render.badge import badge
from brokerproof.reports.render.changes import compare
from brokerproof.reports.store.schema import Report, read_report, write_report
from tests.fast.reports.render.test_causes import report_of
from tests.fast.reports.store import samples

LOST = Verdict("DLY-004", VerdictKind.VIOLATED, text="lost p0/1 | <b>")
KEPT = samples.kept("DLY-004")


def kinds(old: Report, new: Report) -> dict[str, str]:
    """Requirement -> what became of it."""
    return {one.requirement: one.kind for one in compare(old, new, "reference", "reference").changes}


def test_each_change_has_its_name(tmp_path: Path) -> None:
    idle = Verdict("DLY-004", VerdictKind.NOT_EXERCISED)
    doubt = Verdict("DLY-004", VerdictKind.INCONCLUSIVE, text="who knows")
    reports = {one.verdict: report_of(tmp_path / one.verdict.name, [one]) for one in (LOST, KEPT, idle, doubt)}
    violated, kept, quiet, unsure = reports.values()
    named = [(kept, violated), (violated, kept), (kept, quiet), (quiet, kept), (kept, unsure), (quiet, unsure)]
    names = ["newly violated", "fixed", "lost", "gained", "doubtful", "other"]
    assert [kinds(old, new)["DLY-004"] for old, new in named] == names
    assert kinds(kept, kept) == {}


def test_a_requirement_with_another_sentence_is_not_compared(tmp_path: Path) -> None:
    old, new = report_of(tmp_path / "a", [KEPT]), report_of(tmp_path / "b", [LOST])
    other = [
        msgspec.structs.replace(one, sentence="Another.") if one.id == "DLY-004" else one for one in new.requirements
    ]
    found = compare(old, msgspec.structs.replace(new, requirements=other), "reference", "reference")
    assert (found.changes, found.meanings, found.worse) == ([], ["DLY-004"], False)


def test_slack_that_halves_is_told(tmp_path: Path) -> None:
    wide, near = (msgspec.structs.replace(KEPT, slack_ns=ns) for ns in (9_000_000, 2_000_000))
    found = compare(report_of(tmp_path / "a", [wide]), report_of(tmp_path / "b", [near]), "reference", "reference")
    assert found.slack == ["DLY-004: 9 ms → 2 ms to spare"]


@pytest.mark.parametrize(("how", "words"), [("text", "newly violated"), ("markdown", "| **newly violated** |")])
def test_diff_prints_and_decides(how: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report_of(tmp_path / "a", [KEPT])
    report_of(tmp_path / "b", [LOST])
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--format", how]) == VIOLATED
    assert words in capsys.readouterr().out
    assert main(["diff", str(tmp_path / "b"), str(tmp_path / "a"), "--format", how]) == OK
    assert main(["diff", str(tmp_path / "b"), str(tmp_path)]) == USAGE


def test_the_page_of_a_diff_takes_no_markup_from_a_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report_of(tmp_path / "a", [KEPT])
    report_of(tmp_path / "b", [LOST])
    main(["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--format", "html"])
    page = capsys.readouterr().out
    assert "lost p0/1 | &lt;b&gt;" in page
    assert "<script" not in page


def test_sarif_names_what_is_broken_and_the_program_that_shows_it(tmp_path: Path) -> None:
    report_of(tmp_path, [LOST, samples.kept("DLY-003"), Verdict("EXP-001", VerdictKind.KNOWN_FAILURE, text="old")])
    (run,) = json.loads((tmp_path / "report.sarif").read_text(encoding="utf-8"))["runs"]
    assert [(one["ruleId"], one["level"]) for one in run["results"]] == [("DLY-004", "error"), ("EXP-001", "note")]
    assert {one["id"] for one in run["tool"]["driver"]["rules"]} == {"DLY-004", "EXP-001"}
    place = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert (tmp_path / place).is_file()
    assert "suppressions" in run["results"][1]


def test_a_badge_says_what_its_colour_says_and_goes_with_its_column(tmp_path: Path) -> None:
    report = report_of(tmp_path, [LOST, samples.kept("DLY-003")])
    path = tmp_path / "badge-reference.svg"
    assert "1 kept, 1 broken" in path.read_text(encoding="utf-8")
    odd = msgspec.structs.replace(report.columns[0], broker='a <b> "c"')
    ET.fromstring(badge(odd, report.totals("reference")))  # noqa: S314 - written by us a moment ago
    path.rename(tmp_path / "badge-gone.svg")
    write_report(tmp_path, read_report(tmp_path))
    assert main(["report", str(tmp_path)]) == OK
    assert [one.name for one in tmp_path.glob("badge-*")] == ["badge-reference.svg"]
