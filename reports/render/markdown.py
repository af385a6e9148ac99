"""``report.md``: the matrix as Markdown tables, for a pull request or a build summary.

Rule: the text of a broker or a catalogue must not become markup; pipes and angle brackets are escaped.
"""

from __future__ import annotations

from pathlib import Path

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.reports.render.causes import causes
from brokerproof.reports.render.html import page_name
from brokerproof.reports.render.words import LOOKS
from brokerproof.reports.store.evidence import replay_line
from brokerproof.reports.store.schema import Cell, Column, Report

FILE = "report.md"


def write_markdown(folder: Path, report: Report) -> Path:
    """Write ``folder/report.md``."""
    path = folder / FILE
    path.write_text("\n".join(_lines(report)) + "\n", encoding="utf-8")
    return path


def write_job_summary(path: Path, report: Report, brokers: list[str]) -> None:
    """Append what is wrong with ``brokers`` to the summary of a job of a build server (``GITHUB_STEP_SUMMARY``)."""
    lines = ["## brokerproof", ""]
    for column in report.columns:
        if column.broker in brokers:
            lines += _column(report, column)
            for cause in causes(report, column.broker):
                words = f"{cause.first.verdict.verdict.value}: {cause.sentence()}"
                lines.append(f"  - **{', '.join(cell.requirement for cell in cause.cells)}** {escape(words)}")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join([*lines, ""]) + "\n")


def _column(report: Report, column: Column) -> list[str]:
    return [
        f"- **{escape(column.broker)}**: {_counts(report, column)}; verdict digest `{column.digest}`",
        *(f"  - the suite failed in `{note.run}`: {escape(note.text)}" for note in column.problems),
        *(f"  - fell silent: {one.requirement} in `{one.run}`: {escape(one.found)}" for one in column.silent),
        *(f"  - not run: `{note.run}`: {escape(note.text)}" for note in column.not_run),
    ]


def _lines(report: Report) -> list[str]:
    lines = ["# Broker conformance: time, links and memory", ""]
    for column in report.columns:
        lines += _column(report, column)
    grid = report.grid()
    for area, title in report.areas.items():
        rows = [requirement for requirement in report.requirements if requirement.area == area]
        rows = [row for row in rows if any((row.id, column.broker) in grid for column in report.columns)]
        if not rows:
            continue
        lines += ["", f"## {area}: {title}", ""]
        lines.append("| | requirement | " + " | ".join(escape(column.broker) for column in report.columns) + " |")
        lines.append("|---|---|" + "---|" * len(report.columns))
        for requirement in rows:
            cells = [_cell(report, grid.get((requirement.id, column.broker))) for column in report.columns]
            lines.append(f"| {requirement.id} | {escape(requirement.sentence)} | " + " | ".join(cells) + " |")
    return [*lines, *_violations(report)]


def _violations(report: Report) -> list[str]:
    lines: list[str] = []
    examples = report.examples()
    for cell in report.cells:
        if cell.verdict.verdict is VerdictKind.VIOLATED and cell.example is not None:
            replay = replay_line(examples[cell.example.evidence], Path())
            lines += ["", f"### {cell.requirement} on {escape(cell.broker)}", "", escape(cell.example.verdict.text), ""]
            lines += ["```", replay, "```"]
    return ["", "## Violations", *lines] if lines else []


def _counts(report: Report, column: Column) -> str:
    told = []
    for world in report.sides(column.broker):
        totals = report.totals(column.broker, world=world)
        counts = ", ".join(f"{LOOKS[kind].symbol} {totals[kind]} {kind.value}" for kind in LOOKS if totals[kind])
        told.append(f"{world}: {counts}" if world else counts)
    return "; ".join(told)


def _cell(report: Report, cell: Cell | None) -> str:
    if cell is None:
        return "· no record"
    look = LOOKS[cell.verdict.verdict]
    return f"[{look.symbol} {cell.verdict.verdict.value}]({page_name(report, cell)})"


def escape(text: str) -> str:
    """Text that Markdown shows as it is."""
    for character in ("\\", "|", "*", "_", "`", "["):
        text = text.replace(character, "\\" + character)
    return text.replace("<", "&lt;").replace("\n", " ")
