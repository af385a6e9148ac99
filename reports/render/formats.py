"""The one function through which every command writes its report: ``write_reports``.

Decides: which formats there are and the order in which they are written; how a failure text is made from kept evidence.

It merges new columns into the folder (``store/merge.py`` has the rule) and draws all pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from brokerproof.conformance.requirements.catalogue import Catalogue
from brokerproof.reports.render.badge import write_badges
from brokerproof.reports.render.html import write_html
from brokerproof.reports.render.junit import write_junit
from brokerproof.reports.render.markdown import write_markdown
from brokerproof.reports.render.page import build_page
from brokerproof.reports.render.progress import Bar
from brokerproof.reports.render.sarif import write_sarif
from brokerproof.reports.store.merge import NewColumn, merge_columns
from brokerproof.reports.store.schema import Cell, Report, write_report


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
    write_report(folder, report)
    write_junit(folder, report, lambda cell: failure_of(folder, report, cell, catalogue))
    write_markdown(folder, report)
    write_sarif(folder, report)
    write_badges(folder, report)
    with Bar("pages", len(report.cells)) as bar:
        return write_html(folder, report, lambda cell: build_page(folder, report, cell, catalogue), bar.advance)


def failure_of(folder: Path, report: Report, cell: Cell, catalogue: Catalogue) -> str:
    """The failure text of a cell (DESIGN section 8); its plain sentence where the evidence is gone."""
    page = build_page(folder, report, cell, catalogue, stand=folder)
    if page.display is None:
        return f"{cell.verdict.text}\n{page.trouble}".strip()
    return page.display.text
