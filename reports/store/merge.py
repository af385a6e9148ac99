"""Putting columns into a report folder: the documented rule of replacement.

The rule (docs/report.md): a suite that finishes replaces the *whole* column of each broker it ran, and its evidence;
columns of other brokers stay as they were; rows are always those of the current catalogue, so a kept cell whose
requirement is gone disappears. A planted defect is a broker of its own, so ``--mutant`` never overwrites an honest
column. A folder whose ``report.json`` cannot be read is refused before the run, not after it.

The order of writing keeps the folder usable if we die in between: evidence first, then ``report.json`` (to a temporary
name and renamed), then pages.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import msgspec

from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import concluded
from brokerproof.conformance.requirements.catalogue import AREAS, Catalogue
from brokerproof.reports.store.evidence import FOLDER, write_evidence
from brokerproof.reports.store.schema import (
    FILE,
    FORMAT,
    Cell,
    Column,
    Evidence,
    Report,
    ReportError,
    read_report,
    write_report,
)


class NewColumn(msgspec.Struct, eq=False):
    """A finished column with its cells and the runs that they show."""

    column: Column
    cells: list[Cell]
    examples: list[RunResult]


def present_report(folder: Path) -> Report | None:
    """The report that already lies in ``folder``, or None.

    Raises ``ReportError`` for one that cannot be read: it must not be lost by accident.
    """
    if folder.exists() and not folder.is_dir():
        raise ReportError(f"{folder}: is a file; give a folder for the report (--out)")
    if not (folder / FILE).exists():
        return None
    try:
        return read_report(folder)
    except ReportError as error:
        raise ReportError(f"{error}; or remove {folder / FILE}, or write elsewhere (--out)") from None


def merge_columns(folder: Path, new: Iterable[NewColumn], catalogue: Catalogue) -> Report:
    """Add or replace columns, write their evidence and ``report.json``; returns the merged report.

    Raises ``ReportError``.
    """
    old = present_report(folder)
    columns = {column.broker: column for column in old.columns} if old else {}
    cells = list(old.cells) if old else []
    evidence = {entry.id: entry for entry in old.evidence} if old else {}
    folder.mkdir(parents=True, exist_ok=True)
    for addition in new:
        broker = addition.column.broker
        cells = [cell for cell in cells if cell.broker != broker] + addition.cells
        evidence = {key: entry for key, entry in evidence.items() if entry.broker != broker}
        shutil.rmtree(folder / FOLDER / addition.column.slug, ignore_errors=True)
        for result in addition.examples:
            entry = write_evidence(folder, result)
            evidence[entry.id] = entry
        columns[broker] = addition.column
    report = _assemble(columns, cells, evidence, catalogue)
    write_report(folder, report)
    return report


def generator() -> str:
    """What wrote the report."""
    try:
        return f"brokerproof {metadata.version('brokerproof')}"
    except metadata.PackageNotFoundError:
        return "brokerproof (source tree)"


def _assemble(
    columns: dict[str, Column], cells: list[Cell], evidence: dict[str, Evidence], catalogue: Catalogue
) -> Report:
    requirements = sorted(catalogue, key=lambda requirement: (list(AREAS).index(requirement.area), requirement.id))
    levels = {requirement.id: requirement.level for requirement in requirements}
    kept = [
        msgspec.structs.replace(cell, verdict=concluded(cell.verdict, levels[cell.requirement]))
        for cell in sorted(cells, key=lambda cell: (cell.requirement, cell.broker))
        if cell.requirement in levels
    ]
    shown = {cell.example.evidence for cell in kept if cell.example is not None}
    # The reference broker comes first: it is what the others are read against.
    names = sorted(columns, key=lambda name: (name != "reference", name))
    return Report(
        format=FORMAT,
        generator=generator(),
        areas=dict(AREAS),
        requirements=requirements,
        columns=[columns[name] for name in names],
        cells=kept,
        evidence=[evidence[key] for key in sorted(evidence) if key in shown],
    )
