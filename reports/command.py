"""``brokerproof report DIR``, and the one function through which every command writes its report.

Decides: which formats there are and the order in which they are written; how a failure text is made from kept evidence.

``write_reports`` merges new columns into the folder (``merge.py`` has the rule) and draws all pages. ``ReportWriter``
is the same as a consumer of the suite's stream. ``brokerproof report DIR`` draws all pages again from
``DIR/report.json`` and the evidence beside it: after an upgrade, or when only ``report.json`` and ``evidence/`` were
archived.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from brokerproof.conformance.experiment.exits import OK
from brokerproof.conformance.experiment.results import SuiteEvent, SuiteFinished, SuiteStarted, Writer
from brokerproof.conformance.requirements.catalogue import Catalogue, default_catalogue
from brokerproof.conformance.running.folder import make_folder
from brokerproof.reports.collect import Collector, ColumnCollector
from brokerproof.reports.exhibit import build_page
from brokerproof.reports.merge import NewColumn, merge_columns, present_report
from brokerproof.reports.render.html import write_html
from brokerproof.reports.render.json import write_json
from brokerproof.reports.render.junit import write_junit
from brokerproof.reports.render.markdown import write_markdown
from brokerproof.reports.render.progress import Bar
from brokerproof.reports.schema import Cell, Report, read_report

OUT = Path("brokerproof-out")


def main(argv: Sequence[str]) -> int:
    """Draw the pages of a report folder again. A folder without a readable report is bad usage (2)."""
    parser = argparse.ArgumentParser(prog="brokerproof report", description="write the pages of an earlier run again")
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="a folder with report.json and evidence/, as `run --out` wrote it"
    )
    options = parser.parse_args(argv)
    report = read_report(options.folder)
    index = render_all(options.folder, report)
    sys.stdout.write(f"report: {index}\n")
    return OK


def write_reports(folder: Path, new: Iterable[NewColumn], catalogue: Catalogue) -> Report:
    """Add or replace columns in ``folder`` and draw every format.

    Raises ``ReportError`` for a folder that holds an unreadable report.
    """
    report = merge_columns(folder, new, catalogue)
    render_all(folder, report)
    return report


def render_all(folder: Path, report: Report) -> Path:
    """Draw every format from a report and its evidence; returns the path of ``index.html``.

    The catalogue is the one inside the report, so that an old report keeps its own sentences.
    """
    catalogue = Catalogue(report.requirements)
    write_json(folder, report)
    write_junit(folder, report, lambda cell: failure_of(folder, report, cell, catalogue))
    write_markdown(folder, report)
    with Bar("pages", len(report.cells)) as bar:
        return write_html(folder, report, lambda cell: build_page(folder, report, cell, catalogue), bar.advance)


def failure_of(folder: Path, report: Report, cell: Cell, catalogue: Catalogue) -> str:
    """The failure text of a cell (DESIGN section 8); its plain sentence where the evidence is gone."""
    page = build_page(folder, report, cell, catalogue, stand=folder)
    if page.display is None:
        return f"{cell.verdict.text}\n{page.trouble}".strip()
    return page.display.text


def new_columns(
    columns: Iterable[ColumnCollector], wanted: Iterable[str], digest: str, elapsed_ms: int, finished_ms: int
) -> list[NewColumn]:
    """Collected columns, ready to be merged."""
    wanted = list(wanted)
    return [
        NewColumn(column.column(digest, elapsed_ms, finished_ms), column.cells(wanted), column.exhibits())
        for column in columns
    ]


class ReportWriter(Writer):
    """Collects the stream and writes the report at its end; ``report`` and ``brokers`` are there afterwards.

    Raises ``ReportError`` at ``SuiteStarted`` when the folder holds a report that cannot be read, and ``UsageError``
    when it cannot be written: before the work, not after it.
    """

    def __init__(self, folder: Path = OUT, catalogue: Catalogue | None = None) -> None:
        self.folder = folder
        self.catalogue = catalogue if catalogue is not None else default_catalogue()
        self.collector = Collector(self.catalogue)
        self.report: Report | None = None
        self.brokers: list[str] = []

    def handle(self, event: SuiteEvent) -> None:
        """Collect; write when the suite has finished."""
        if isinstance(event, SuiteStarted):
            present_report(self.folder)
            make_folder(self.folder)
        self.collector.handle(event)
        if isinstance(event, SuiteFinished):
            collector = self.collector
            columns = collector.columns()
            self.brokers = [column.broker for column in columns]
            new = new_columns(
                columns, collector.requirements, event.digest, collector.elapsed_ms, collector.finished_ms
            )
            self.report = write_reports(self.folder, new, self.catalogue)
