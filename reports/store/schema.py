"""``report.json``: what a reader gets to know, ``brokerproof/report/2`` (docs/report.md, docs/report.schema.json).

Decides: the shape of a report. Every format (HTML, JUnit, Markdown, terminal) is drawn from these structs and from the
evidence beside them, so ``report.json`` is the only thing that has to be kept.

Rules:

* A *column* is one broker (a planted defect makes it another column). A *cell* is one requirement in one column: the
  join of all its runs.
* Counts are runs per world and verdict, never verdict objects: the same run counted twice changes nothing.
* An *example* is the one run that is shown for a cell. Its program and history lie in ``evidence/<id>/``; its verdict
  is that run's own, while the cell's is the join of all.
* The classes are the format: reading, writing and the JSON Schema are derived from them. Fields may be added with a
  default; renaming or removing one needs ``brokerproof/report/2``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from brokerproof.conformance.experiment.results import Silence
from brokerproof.conformance.experiment.schemas import schema_of
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.requirements.catalogue import Requirement

FORMAT = "brokerproof/report/2"
_FORMAT_1 = "brokerproof/report/1"
FILE = "report.json"
#: What a world says in which a cell's own verdict did not come about.
_BESIDE = (VerdictKind.SATISFIED, VerdictKind.INCONCLUSIVE, VerdictKind.NOT_EXERCISED, VerdictKind.NOT_APPLICABLE)


class ReportError(ValueError):
    """A report folder cannot be used. The text shows the path, what is wrong and the remedy."""

    exit_code = 2


class WorldCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many runs of one world gave each verdict; verdicts that no run gave are left out."""

    world: str
    verdicts: dict[VerdictKind, int]


#: Verdicts of cells that are no single run's.
_MADE_FROM = {VerdictKind.NOT_MET: VerdictKind.VIOLATED, VerdictKind.INCONCLUSIVE: VerdictKind.SATISFIED}


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The run shown for a cell: ``evidence`` is the id of an ``Evidence``, ``verdict`` that run's own verdict."""

    evidence: str
    verdict: Verdict


class Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One requirement on one broker.

    ``verdict`` is the join of all runs (its ``requirement`` says which row this is).
    """

    broker: str
    verdict: Verdict
    worlds: list[WorldCount] = []
    example: Example | None = None
    #: Of a campaign: the 1st, 50th and 99th percentile of the slacks of its runs, in ns.
    slacks_ns: list[int] = []

    @property
    def requirement(self) -> str:
        """The row."""
        return self.verdict.requirement

    @property
    def runs(self) -> int:
        """All runs that spoke of it."""
        return sum(sum(world.verdicts.values()) for world in self.worlds)

    def kind_in(self, world: str) -> VerdictKind:
        """What the runs of one world say; what no run could say is the same in each (not applicable, planned)."""
        own = self.verdict.verdict
        seen = {kind for one in self.worlds if one.world == world for kind, count in one.verdicts.items() if count}
        if not self.worlds or own in seen or VerdictKind.VIOLATED in seen:
            return own
        return next((kind for kind in _BESIDE if kind in seen), VerdictKind.NOT_RUN)

    def runs_in(self, world: str) -> tuple[int, int] | None:
        """(the runs of one world that gave its verdict, all of them); None: there was none."""
        found = next((one.verdicts for one in self.worlds if one.world == world), None)
        return None if found is None else (_gave(self.kind_in(world), found), sum(found.values()))

    @property
    def decisive(self) -> int:
        """The runs that gave the cell's own verdict: what it rests on."""
        return sum(_gave(self.verdict.verdict, world.verdicts) for world in self.worlds)


def _gave(kind: VerdictKind, verdicts: dict[VerdictKind, int]) -> int:
    """How many runs gave a cell's verdict, or what ``concluded`` made it from."""
    return verdicts.get(kind) or verdicts.get(_MADE_FROM.get(kind, kind), 0)


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A run whose program and history are kept below ``evidence/<id>/``.

    ``program`` is the digest, ``replay`` the line that runs it again.
    """

    id: str
    broker: str
    run: str
    world: str
    program: str
    steps: int
    events: int
    replay: str
    seed: int | None = None
    mutant: str | None = None


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something about one run that is no verdict: a failure of the suite, or why it was not run."""

    run: str
    text: str


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One broker.

    ``digest`` is the verdict digest of the suite that made the column; ``finished_ms`` is wall time since the epoch,
    UTC.
    """

    broker: str
    slug: str
    runs: int
    digest: str
    finished_ms: int = 0
    elapsed_ms: int = 0
    source: str = "suite"
    mutant: str | None = None
    capabilities: list[str] = []
    #: The suite or its environment failed in these runs (exit code 4).
    problems: list[Note] = []
    #: These runs did not happen, because of a missing tool or broker.
    not_run: list[Note] = []
    #: What the same programs exercise on the reference broker only.
    silent: list[Silence] = []
    #: What the run was: environment, tools, promises, seeds; name -> words, in the order in which they are shown.
    about: dict[str, str] = {}


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole report.

    ``requirements`` is the catalogue that was current when it was written, ``areas`` the meaning of the first three
    letters of an id.
    """

    format: str
    generator: str
    areas: dict[str, str]
    requirements: list[Requirement]
    columns: list[Column]
    cells: list[Cell]
    evidence: list[Evidence]

    def encode(self) -> bytes:
        """Indented JSON with a final newline: people read it and diff it."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    def grid(self) -> dict[tuple[str, str], Cell]:
        """(requirement, broker) -> cell."""
        return {(cell.requirement, cell.broker): cell for cell in self.cells}

    def examples(self) -> dict[str, Evidence]:
        """Evidence by id."""
        return {evidence.id: evidence for evidence in self.evidence}

    def worlds(self, broker: str) -> list[str]:
        """The worlds in which a column's broker ran, the simulated one first."""
        found = {one.world for cell in self.cells if cell.broker == broker for one in cell.worlds}
        return sorted(found, key=lambda world: (world != "simulated", world))

    def runs(self, broker: str, world: str) -> int:
        """The runs of a column in one world."""
        return max((cell.runs_in(world) or (0, 0))[1] for cell in self.cells if cell.broker == broker)

    def totals(self, broker: str, area: str = "", world: str = "") -> dict[VerdictKind, int]:
        """How many cells of a column, or of an area in it, have each verdict, in all worlds together or in one."""
        totals = dict.fromkeys(VerdictKind, 0)
        for cell in self.cells:
            if cell.broker == broker and cell.requirement.startswith(area):
                totals[cell.kind_in(world) if world else cell.verdict.verdict] += 1
        return totals

    def sides(self, broker: str) -> list[str]:
        """The worlds that have a column each: "" where there is one only."""
        worlds = self.worlds(broker)
        return worlds if len(worlds) > 1 else [""]


def column_name(broker: str, mutant: str | None) -> str:
    """The column of a run: its broker, and the planted defect if there is one, which makes it another broker."""
    return f"{broker} with mutant {mutant}" if mutant else broker


def parse_report(data: bytes, name: str = FILE) -> Report:
    """Parse and check ``report.json``, also one of format 1. Raises ``ReportError``."""
    try:
        report = msgspec.convert(_converted(msgspec.json.decode(data)), Report)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReportError(f"{name}: not a {FORMAT} report: {error}") from None
    if report.format != FORMAT:
        raise ReportError(f"{name}: format is {report.format!r}; this release reads {FORMAT!r}; run the suite again")
    brokers = [column.broker for column in report.columns]
    unknown = sorted({cell.broker for cell in report.cells} - set(brokers))
    if unknown:
        raise ReportError(f"{name}: has cells of {unknown} but columns only of {brokers}; run the suite again")
    missing = sorted({cell.example.evidence for cell in report.cells if cell.example} - set(report.examples()))
    if missing:
        raise ReportError(f"{name}: cells point at evidence {missing[:3]}, which it does not list; run the suite again")
    unsafe = [value for value in _folders(report) if not _is_plain(value)]
    if unsafe:
        raise ReportError(f"{name}: {unsafe[0]!r} is no plain folder name; a report must not point outside its folder")
    return report


def _converted(report: Any) -> Any:
    """In format 1 the example of a cell had another name."""
    if not isinstance(report, dict) or report.get("format") != _FORMAT_1 or not isinstance(report.get("cells"), list):
        return report
    cells = [
        {"example" if key == "exhibit" else key: value for key, value in cell.items()}
        if isinstance(cell, dict)
        else cell
        for cell in report["cells"]
    ]
    return {**report, "format": FORMAT, "cells": cells}


def read_report(folder: Path) -> Report:
    """Read ``folder/report.json``. Raises ``ReportError``, also when there is none."""
    path = folder / FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ReportError(
            f"{folder}: no report to read ({FILE}: {error.strerror}); give the folder that `run --out` wrote"
        ) from None
    return parse_report(data, str(path))


def write_report(folder: Path, report: Report) -> Path:
    """Write ``folder/report.json`` in one step.

    Whoever reads it meanwhile sees the old report or the new one, never half of either.
    """
    path = folder / FILE
    hidden = folder / f".{FILE}.new"
    hidden.write_bytes(report.encode())
    hidden.replace(path)
    return path


def json_schema() -> dict[str, Any]:
    """JSON Schema of ``report.json``, written to docs/report.schema.json."""
    return schema_of(Report)


def _folders(report: Report) -> list[str]:
    return [column.slug for column in report.columns] + [evidence.id for evidence in report.evidence]


def _is_plain(value: str) -> bool:
    return bool(value) and all(part not in {"", ".", ".."} for part in value.split("/")) and "\\" not in value
