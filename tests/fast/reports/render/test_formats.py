"""JUnit, Markdown, the terminal and the progress bar."""

from __future__ import annotations

import io
import os
import pty
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from brokerproof.conformance.experiment.results import RunFinished, SuiteFinished, SuiteStarted
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.reports.commands.report import main
from brokerproof.reports.commands.suite_report import ReportWriter
from brokerproof.reports.render.formats import failure_of, render_all
from brokerproof.reports.render.markdown import escape
from brokerproof.reports.render.progress import Bar, FirstVerdict, ProgressWriter, said, waiting
from brokerproof.reports.render.terminal import WIDTH_PLAIN, make_console, print_report
from brokerproof.reports.store.schema import Report, ReportError, read_report
from tests.fast.reports.store import samples

DIGEST = "sha256:" + "ab" * 32


def write(folder: Path, text: str = "") -> Report:
    """A report with one violation, one satisfied, one not run, and a failure of the suite."""
    writer = ReportWriter(folder, samples.catalogue())
    writer.handle(SuiteStarted(["reference"], ["DLY-003", "DLY-004", "EXP-001"], 2))
    absent = Verdict("EXP-001", VerdictKind.NOT_RUN, text=f"libfaketime {text}|*does* not work")
    writer.handle(RunFinished(samples.result("seed-1", [samples.early(), samples.kept("DLY-004"), absent], seed=1)))
    broken = samples.result("seed-2", [])
    broken.problem = f"agent{text} died"
    writer.handle(RunFinished(broken))
    writer.handle(SuiteFinished(DIGEST, 2.5))
    assert writer.report is not None
    return writer.report


def parsed(folder: Path) -> ET.Element:
    """The JUnit file, read back."""
    return ET.parse(folder / "junit.xml").getroot()  # noqa: S314 - written by us a moment ago


def test_junit_maps_every_verdict_and_sums_up(tmp_path: Path) -> None:
    write(tmp_path)
    root = parsed(tmp_path)
    (suite,) = root.findall("testsuite")
    assert (suite.get("name"), suite.get("time")) == ("reference", "2.500")
    for element in (root, suite):
        counts = [element.get(name) for name in ("tests", "failures", "errors", "skipped")]
        assert counts == ["4", "1", "1", "1"]
    cases = {str(case.get("name"))[:7]: case for case in suite.findall("testcase")}
    failure = cases["DLY-003"].find("failure")
    assert failure is not None
    assert "998.9 ms" in str(failure.get("message"))
    assert f"replay:     brokerproof replay {tmp_path}/evidence/" in str(failure.text)
    assert "culprit:    broker" in str(failure.text)
    assert list(cases["DLY-004"]) == []
    skipped = cases["EXP-001"].find("skipped")
    assert skipped is not None
    assert str(skipped.get("message")).startswith("not run: libfaketime")
    assert cases["DLY-003"].get("classname") == "brokerproof.reference.DLY"
    error = next(case.find("error") for case in suite.findall("testcase") if case.find("error") is not None)
    assert error is not None
    assert error.get("message") == "agent died"


def test_junit_survives_what_xml_cannot_hold(tmp_path: Path) -> None:
    write(tmp_path, text="\x07\x00\ufffe]]>&<")
    root = parsed(tmp_path)
    (error,) = root.iter("error")
    assert error.get("message") == "agentU+0007U+0000U+FFFE]]>&< died"


def test_markdown_is_a_table_with_links(tmp_path: Path) -> None:
    write(tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| DLY-003 | The promise DLY-003 is kept, whatever the clocks of the hosts &lt;say>" in text
    assert "[✘ violated](cells/reference/DLY-003.html)" in text
    assert f"verdict digest `{DIGEST}`" in text
    assert "brokerproof replay evidence/reference/simulated-seed-1/program.json" in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.count("|") for line in rows} == {4}


def test_markdown_escapes_markup() -> None:
    assert escape("a|b *c* `d` [e] <f>\ng") == r"a\|b \*c\* \`d\` \[e] &lt;f> g"


def terminal(folder: Path, console: Console, report: Report, **how: bool) -> None:
    """Print as the commands do."""
    catalogue = samples.catalogue()
    print_report(
        console,
        report,
        ["reference"],
        folder=folder,
        failure=lambda cell: failure_of(folder, report, cell, catalogue),
        digest=DIGEST,
        more=["one more line"],
        **how,
    )


def test_the_terminal_ends_with_what_matters(tmp_path: Path) -> None:
    stream = io.StringIO()
    terminal(tmp_path, Console(file=stream, width=100, highlight=False), write(tmp_path))
    lines = stream.getvalue().splitlines()
    program = tmp_path / "evidence/reference/simulated-seed-1/program.json"
    assert lines[-1] == f"verdict digest: {DIGEST}"
    assert lines[-2] == f"report: {tmp_path / 'index.html'}"
    assert lines[-3] == "one more line"
    assert lines[-4] == "suite problem  reference/simulated/seed-2: agent died"
    assert lines[-5] == f"violated  DLY-003  reference  brokerproof replay {program}"
    assert lines[-6] == "reference: ✘ 1 violated, ✔ 1 satisfied, ○ 1 not run"
    assert any("acceptable: on-or-after" in line for line in lines), "the failure is shown in full"
    assert "\x1b[" not in stream.getvalue(), "no colours without a terminal"


def test_the_table_keeps_ids_and_verdicts_in_a_narrow_window(tmp_path: Path) -> None:
    for width in (60, 80, 200):
        stream = io.StringIO()
        terminal(tmp_path, Console(file=stream, width=width), write(tmp_path), verbose=True)
        row = next(line for line in stream.getvalue().splitlines() if line.strip().startswith("DLY-003"))
        assert "✘ violated" in row
        assert len(row) <= width


def test_a_summary_has_a_line_per_area_and_says_why_what_was_not_tried_was_not(tmp_path: Path) -> None:
    stream = io.StringIO()
    terminal(tmp_path, Console(file=stream, width=100), write(tmp_path))
    text = stream.getvalue()
    assert re.search(r"DLY +delivery delay +✘ 1  ✔ 1\s", text)
    assert "○ 1 not run: libfaketime |*does* not work (EXP-001)" in text
    assert "The promise DLY-004" not in text


def test_quiet_is_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    stream = io.StringIO()
    terminal(tmp_path, Console(file=stream, width=100), write(tmp_path), quiet=True)
    lines = stream.getvalue().splitlines()
    assert lines[-1] == "suite problem  reference/simulated/seed-2: agent died"
    assert lines[-2].startswith("violated  DLY-003")
    assert "delivery delay" not in stream.getvalue()


def test_the_first_verdict_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    writer = FirstVerdict()
    writer.handle(SuiteStarted(["b"], [], 0, {"offers": "ttl", "lacks": "delay", "tools": "none"}))
    for kind in (VerdictKind.NOT_EXERCISED, VerdictKind.SATISFIED, VerdictKind.VIOLATED):
        writer.handle(RunFinished(samples.result("x", [Verdict("DLY-003", kind)])))
    first, second, third = capsys.readouterr().out.splitlines()
    assert (first.split(), second.split()) == (["offers", "ttl"], ["lacks", "delay"])
    assert re.fullmatch(r"first verdict after \d+\.\d s: satisfied: DLY-003 on reference, by x", third)


def test_a_console_that_is_no_terminal_is_wide(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    assert make_console().width == 77
    monkeypatch.delenv("COLUMNS")
    assert make_console().width == WIDTH_PLAIN
    make_console(stderr=True).print("to stderr")
    assert capsys.readouterr().err == "to stderr\n"


class Screen(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_bar_is_silent_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with Bar("runs", 3, Console(file=stream), delay_s=0.0) as bar:
        for _ in range(3):
            bar.advance()
    assert not bar.enabled
    assert stream.getvalue() == ""


def test_the_bar_counts_on_a_terminal_and_goes_away() -> None:
    stream = Screen()
    console = Console(file=stream, force_terminal=True, width=80)
    with Bar("runs", 3, console, delay_s=0.0) as bar:
        bar.advance()
        bar.reach(2)
        bar.close()
        shown = stream.getvalue()
    assert "runs" in shown
    assert "2/3" in shown


def test_a_short_job_shows_no_bar() -> None:
    stream = Screen()
    with Bar("runs", 3, Console(file=stream, force_terminal=True), delay_s=60.0) as bar:
        bar.advance(3)
    assert stream.getvalue() == ""


def test_a_spinner_turns_only_on_a_terminal(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with waiting("starting"):
        pass
    assert capfd.readouterr().err == ""
    main_end, terminal_end = pty.openpty()
    with os.fdopen(terminal_end, "w", encoding="utf-8") as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        with waiting("starting"):
            pass
        monkeypatch.undo()
    seen = b""
    while b"starting" not in seen:  # a terminal gives what it has, in pieces; at its end, reading fails
        seen += os.read(main_end, 1000)
    os.close(main_end)


def test_the_suites_bar_follows_the_stream() -> None:
    stream = Screen()
    writer = ProgressWriter("runs", Console(file=stream, force_terminal=True, width=80), delay_s=0.0)
    writer.handle(SuiteStarted(["reference"], [], 2))
    writer.handle(RunFinished(samples.result("seed-1", [])))
    writer.handle(SuiteFinished(DIGEST, 1.0))
    assert "1/2" in stream.getvalue()


def test_report_draws_the_same_pages_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for path in files:
        if path.suffix in {".html", ".xml", ".md"}:
            path.unlink()
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"report: {tmp_path / 'index.html'}\n"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


def test_report_of_a_bad_folder_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from brokerproof.conformance.experiment.exits import guarded

    assert guarded("report", main, [str(tmp_path / "nowhere")]) == 2
    error = capsys.readouterr().err
    assert error == (
        f"brokerproof report: {tmp_path / 'nowhere'}: no report to read (report.json: No such file or directory); "
        "give the folder that `run --out` wrote\n"
    )
    assert guarded("report", main, []) == 2


def test_an_old_report_keeps_its_own_sentences(tmp_path: Path) -> None:
    write(tmp_path)
    report = read_report(tmp_path)
    index = render_all(tmp_path, report)
    assert "The promise DLY-003" in index.read_text(encoding="utf-8")
    with pytest.raises(ReportError):
        read_report(tmp_path / "cells")


@pytest.mark.parametrize(
    ("done", "total", "first", "pace", "text"),
    [
        (160, 187, 187, 1.5, "runs: 160 of 187 after 10 s, about 18 s left at this pace"),
        (160, 187, 187, 0.0, "runs: 160 of 187 after 10 s"),
        (160, 0, 0, 1.5, "runs: 160 of an unknown number after 10 s"),
        (160, 0, 487, 1.5, "runs: 160 of 487, then random ones, after 10 s"),
        (490, 0, 487, 1.5, "runs: all 487 of the corpus, 3 random ones after 10 s"),
        (190, 187, 187, 1.5, "runs: all 187 after 10 s, and 3 to make what failed smaller"),
    ],
)
def test_what_is_left_is_estimated_by_the_last_seconds(
    done: int, total: int, first: int, pace: float, text: str
) -> None:
    assert said("runs", done, total, first, 10.0, pace) == text
