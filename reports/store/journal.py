"""The journal of the night that is running, ``DIR/tonight``: what is in it was done, whatever happened afterwards.

Rules
* A line per unit of work (a program, a hundred seeds), appended and synced when it is done. What a kill cut short is no
  line, so it is done again.
* A run's program lies beside it. So does its history, where a report may show it or a story needs it.
* It goes when the night's state has been written; one that is still there is taken up again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import Verdict
from brokerproof.reports.store.evidence import read_evidence, write_evidence
from brokerproof.reports.store.nights import Finding
from brokerproof.reports.store.schema import Evidence, ReportError

FOLDER = "tonight"
FILE = "journal.jsonl"


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run as it is kept."""

    evidence: Evidence
    verdicts: list[Verdict]
    problem: str = ""
    not_run: str = ""
    lost: dict[str, tuple[str, str]] = {}
    chosen: tuple[str, ...] = ()


class Unit(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was done: ``name`` is unique per broker and stage, ``spent_s`` what the night had taken by then."""

    broker: str
    stage: str
    name: str
    spent_s: float
    programs: int = 0
    runs: list[Kept] = []
    findings: list[Finding] = []


class Opening(msgspec.Struct, frozen=True):
    """The first line: which night it is."""

    night: str
    seed: int


class Journal:
    """Opened with what it holds already. Raises ``ReportError`` for a first line that is none."""

    def __init__(self, state: Path) -> None:
        self.folder = state / FOLDER
        self.opening: Opening | None = None
        self.units: list[Unit] = []
        path = self.folder / FILE
        if path.exists():
            lines = path.read_bytes().split(b"\n")
            whole = lines[:-1]  # what follows the last line end was cut short
            try:
                self.opening = msgspec.json.decode(whole[0], type=Opening) if whole else None
                self.units = [msgspec.json.decode(line, type=Unit) for line in whole[1:]]
            except msgspec.DecodeError as error:
                raise ReportError(f"{path}: not the journal of a night ({error}); remove {self.folder}") from None
            os.truncate(path, path.stat().st_size - len(lines[-1]))

    @property
    def spent_s(self) -> float:
        """What the night had taken when its last unit was done."""
        return self.units[-1].spent_s if self.units else 0.0

    def open(self, opening: Opening) -> None:
        """A new night."""
        self.remove()
        self.folder.mkdir(parents=True)
        self.opening, self.units = opening, []
        self._append(opening)

    def add(self, unit: Unit) -> None:
        """One more unit is done."""
        self.units.append(unit)
        self._append(unit)

    def keep(self, result: RunResult, *, history: bool) -> Kept:
        """A run for a unit; its files are written."""
        found, result.history = result.history, result.history if history else None
        evidence = write_evidence(self.folder, result)
        result.history = found
        return Kept(evidence, result.verdicts, result.problem, result.not_run, result.lost, result.chosen)

    def result(self, kept: Kept) -> RunResult:
        """The run again. Raises ``ReportError``."""
        result = read_evidence(self.folder, kept.evidence, kept.verdicts)
        result.problem, result.not_run, result.lost, result.chosen = (
            kept.problem,
            kept.not_run,
            kept.lost,
            kept.chosen,
        )
        return result

    def done(self, broker: str, stage: str) -> Iterator[Unit]:
        """What was done already of a stage."""
        return (unit for unit in self.units if (unit.broker, unit.stage) == (broker, stage))

    def remove(self) -> None:
        """The night has ended."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _append(self, line: Opening | Unit) -> None:
        with (self.folder / FILE).open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
