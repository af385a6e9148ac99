"""What is wrong by cause, what was not tried by reason."""

from __future__ import annotations

from html import escape
from pathlib import Path

from brokerproof.conformance.experiment.results import RunFinished, SuiteFinished, SuiteStarted
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.reports.commands.suite_report import ReportWriter
from brokerproof.reports.render.causes import Cause, brief, causes, untried
from brokerproof.reports.store.schema import Cell, Report
from tests.fast.reports.store import samples


def report_of(folder: Path, *runs: list[Verdict]) -> Report:
    """The report of these runs."""
    writer = ReportWriter(folder, samples.catalogue())
    writer.handle(SuiteStarted(["reference"], [], len(runs)))
    for number, verdicts in enumerate(runs):
        writer.handle(RunFinished(samples.result(f"seed-{number}", verdicts, seed=number)))
    writer.handle(SuiteFinished("sha256:" + "0" * 64, 1.0))
    assert writer.report is not None
    return writer.report


def test_what_one_run_shows_has_one_cause_and_what_another_shows_another(tmp_path: Path) -> None:
    violated = [Verdict(name, VerdictKind.VIOLATED, text=f"{name} broken") for name in ("DLY-003", "DLY-004")]
    doubt = Verdict("EXP-001", VerdictKind.INCONCLUSIVE, text="who knows")
    one = causes(report_of(tmp_path / "one", [*violated, doubt]), "reference")
    assert [[cell.requirement for cell in cause.cells] for cause in one] == [["DLY-003", "DLY-004"], ["EXP-001"]]
    assert one[0].sentence() == "DLY-003 broken"
    two = causes(report_of(tmp_path / "two", violated[:1], violated[1:]), "reference")
    assert [cause.first.requirement for cause in two] == ["DLY-003", "DLY-004"]


def test_the_same_reason_is_said_once(tmp_path: Path) -> None:
    absent = [Verdict(name, VerdictKind.NOT_APPLICABLE, text="no delays here") for name in ("DLY-003", "DLY-004")]
    idle = Verdict("EXP-001", VerdictKind.NOT_EXERCISED)
    reasons = untried(report_of(tmp_path, [*absent, idle]), "reference")
    assert [(reason.text, reason.requirements) for reason in reasons] == [
        ("no delays here", ["DLY-003", "DLY-004"]),
        ("no run created the situation", ["EXP-001"]),
    ]


def test_what_is_read_in_passing_names_the_first_events_only() -> None:
    assert brief("3 of 2: a; b; c") == "3 of 2: a; b; … and 1 more"
    assert brief("3 of 2: a; b") == "3 of 2: a; b"


def test_what_could_not_be_decided_says_why_in_words() -> None:
    text = "10 of 142 observations could not be decided (mqsc, new)"
    verdict = Verdict("EXP-003", VerdictKind.INCONCLUSIVE, text=text, unknown=["mqsc", "new"])
    told = Cause([Cell("b", verdict, [])]).sentence()
    assert told == "10 of 142 observations could not be decided: an operator changed the queue manager; or new"


def test_the_front_page_says_what_was_promised_and_what_was_seen(tmp_path: Path) -> None:
    report_of(tmp_path, [samples.early()])
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    (promise,) = [one.sentence for one in samples.catalogue() if one.id == "DLY-003"]
    first = page[page.index('<ul class="causes">') : page.index("</ul>")]
    assert escape(promise, quote=False) in first
    assert f"Seen: {escape(samples.early().text, quote=False)}" in first
