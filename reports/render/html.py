"""The HTML report: ``index.html`` (the matrix) and one evidence page per cell, ``cells/<broker>/<requirement>.html``.

Rules:

* Offline and in one folder: style and script are inlined, no page loads anything, and a Content-Security-Policy says so
  to the browser.
* The index says first what is wrong, by cause; then what was not tried, by reason; then the matrix.
* Without JavaScript the matrix is complete; the script filters and folds what was not tried. What is chosen is in the
  address.
* No verdict by colour alone (``words.py``); light, dark and print from one style sheet.
* Pages of cells that no longer exist are removed, so that an old link cannot show an old verdict.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import jinja2
import msgspec

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.requirements.catalogue import Requirement
from brokerproof.reports.render.causes import UNTRIED, Cause, Reason, brief, causes, untried
from brokerproof.reports.render.clocks import draw
from brokerproof.reports.render.page import Page, margin_text
from brokerproof.reports.render.words import GRADES, LOOKS
from brokerproof.reports.store.schema import Cell, Column, Report

PAGES = "cells"
#: Width in CSS pixels below which the matrix becomes cards: what the sentences need, and each column.
CARD_PX_MIN, SENTENCE_PX, COLUMN_PX = 720, 320, 165


class Row(msgspec.Struct, frozen=True):
    """One requirement of the matrix with its cells, in the order of the columns.

    None where a column says nothing of it.
    """

    requirement: Requirement
    cells: list[tuple[Column, Cell | None]]


class Trouble(msgspec.Struct, frozen=True):
    """What a reader of a column is told first."""

    column: Column
    causes: list[Cause]
    untried: list[Reason]


class Group(msgspec.Struct, frozen=True):
    """One area."""

    area: str
    title: str
    rows: list[Row]


PageBuilder = Callable[[Cell], Page]


def write_html(folder: Path, report: Report, build: PageBuilder, tick: Callable[[], None] = lambda: None) -> Path:
    """Write all pages below ``folder``; ``tick`` is called once per evidence page. Returns the path of the index."""
    columns = sum(len(report.sides(column.broker)) for column in report.columns)
    card_px = max(CARD_PX_MIN, SENTENCE_PX + COLUMN_PX * columns)
    index = folder / "index.html"
    told = [path.relative_to(folder).as_posix() for path in sorted(folder.glob("**/stories/index.html"))]
    _write(index, _index(report, card_px, told))
    written = {_page_path(folder, report, cell) for cell in report.cells}
    neighbours = _neighbours(report)
    template = page_environment().get_template("cell.html")
    for cell in report.cells:
        page = build(cell)
        before, after = neighbours[(cell.requirement, cell.broker)]
        drawing = draw(page.display.timeline) if page.display is not None else None
        text = template.render(
            page=page, drawing=drawing, report=report, root="../../", before=before, after=after, card_px=card_px
        )
        _write(_page_path(folder, report, cell), text)
        tick()
    for stale in (folder / PAGES).glob("*/*.html"):
        if stale not in written:
            stale.unlink()
    return index


def page_name(report: Report, cell: Cell) -> str:
    """Path of a cell's page inside the report folder, with forward slashes."""
    slug = next(column.slug for column in report.columns if column.broker == cell.broker)
    return f"{PAGES}/{slug}/{cell.requirement}.html"


def _page_path(folder: Path, report: Report, cell: Cell) -> Path:
    return folder / page_name(report, cell)


def _neighbours(report: Report) -> dict[tuple[str, str], tuple[Cell | None, Cell | None]]:
    """The cells above and below in the same column, in the order of the matrix."""
    order = {requirement.id: place for place, requirement in enumerate(report.requirements)}
    result: dict[tuple[str, str], tuple[Cell | None, Cell | None]] = {}
    for column in report.columns:
        cells = [cell for cell in report.cells if cell.broker == column.broker]
        cells.sort(key=lambda cell: order.get(cell.requirement, len(order)))
        padded: list[Cell | None] = [None, *cells, None]
        for place, cell in enumerate(cells):
            result[(cell.requirement, cell.broker)] = (padded[place], padded[place + 2])
    return result


def _index(report: Report, card_px: int, told: list[str]) -> str:
    grid = report.grid()
    groups: dict[str, list[Row]] = {}
    planned: list[Requirement] = []
    for requirement in report.requirements:
        cells = [(column, grid.get((requirement.id, column.broker))) for column in report.columns]
        if requirement.status == "planned" and not any(cell for _, cell in cells):
            planned.append(requirement)
        else:
            groups.setdefault(requirement.area, []).append(Row(requirement, cells))
    ordered = [Group(area, title, groups[area]) for area, title in report.areas.items() if area in groups]
    present = [kind for kind in LOOKS if any(report.totals(column.broker)[kind] for column in report.columns)]
    return (
        page_environment()
        .get_template("index.html")
        .render(
            report=report,
            card_px=card_px,
            troubles=_troubles(report),
            catalogue={requirement.id: requirement for requirement in report.requirements},
            groups=ordered,
            sides={column.broker: report.sides(column.broker) for column in report.columns},
            planned=planned,
            present=present,
            page_name=page_name,
            untried_kinds=UNTRIED,
            told=told,
            root="",
        )
    )


def _troubles(report: Report) -> list[Trouble]:
    """What is told first of each column, the one with most broken promises first."""
    columns = sorted(report.columns, key=lambda column: -report.totals(column.broker)[VerdictKind.VIOLATED])
    return [Trouble(column, causes(report, column.broker), untried(report, column.broker)) for column in columns]


@functools.cache
def page_environment() -> jinja2.Environment:
    """What the templates know; one for the process, because compiling them takes longer than rendering a page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("brokerproof.reports.render"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(
        card_px=CARD_PX_MIN, looks=LOOKS, kinds=list(LOOKS), kind=VerdictKind, grades=GRADES, margin=margin_text
    )
    environment.filters["figure"] = _figure
    environment.filters["day"] = _day
    environment.filters["brief"] = brief
    environment.filters["worlds"] = _worlds
    return environment


def _figure(value: int) -> str:
    return f"{value:,}".replace(",", "\u202f")


def _day(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M} UTC" if ms else ""


def _worlds(cell: Cell) -> str:
    return ", ".join(world.world for world in cell.worlds)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
