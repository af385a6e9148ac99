"""The collector: from the stream of results to the columns and cells of a report.

Decides: which run is shown for a cell (its example), what a column says of itself, and when a cell exists at all.

Rules:

* Nothing depends on the order in which runs arrive.
* The example is a run with the cell's own verdict. Where something is wrong or in doubt, the one with the fewest steps,
  because a person must read it; where all is well, the one that met the most situations, then the fewest steps.
* Runs that never happened have nothing to show: *not run*, *not applicable*, *not exercised* and *planned* cells have a
  text and no example.
* A wanted requirement of which no run spoke is *not exercised*, never absent.

Memory: a verdict per run and requirement; programs and histories only of examples.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from msgspec import Struct

from brokerproof.conformance.experiment.results import (
    RunFinished,
    RunResult,
    Silence,
    SuiteEvent,
    SuiteFinished,
    SuiteStarted,
    Writer,
)
from brokerproof.conformance.experiment.verdict import RANK, Tally, Verdict, VerdictKind
from brokerproof.conformance.requirements.catalogue import Catalogue
from brokerproof.reports.store.evidence import evidence_of, slug
from brokerproof.reports.store.schema import Cell, Column, Example, Note, WorldCount, column_name

#: Verdicts that a run can be shown for.
SHOWN = (VerdictKind.VIOLATED, VerdictKind.KNOWN_FAILURE, VerdictKind.INCONCLUSIVE, VerdictKind.SATISFIED)


class Candidate(Struct, eq=False):
    """The best run so far to show for one cell."""

    key: tuple[int, int, int, str]
    result: RunResult
    verdict: Verdict


def example_key(kind: VerdictKind, situations: int, steps: int, run: str) -> tuple[int, int, int, str]:
    """The order among runs of a cell; the least is shown. ``aggregate/examples.sql`` says the same in SQL."""
    met = situations if kind is VerdictKind.SATISFIED else 0
    return (-RANK[kind], -met, steps, run)


class ColumnCollector:
    """One column while the suite is running."""

    def __init__(self, broker: str, mutant: str | None = None) -> None:
        self.broker = broker
        self.mutant = mutant
        self.tally = Tally()
        self.runs: dict[str, None] = {}
        self.capabilities: dict[str, None] = {}
        self.problems: dict[str, Note] = {}
        self.not_run: dict[str, Note] = {}
        self.silent: list[Silence] = []
        self.about: dict[str, str] = {}
        self._worlds: dict[str, str] = {}
        self._candidates: dict[str, Candidate] = {}

    def add(self, result: RunResult) -> None:
        """Take in one run."""
        self.runs[result.run] = None
        self._worlds[result.run] = result.world
        if result.problem:
            self.problems[result.run] = Note(result.run, result.problem)
        if result.not_run:
            self.not_run[result.run] = Note(result.run, result.not_run)
        if result.history is not None:
            self.capabilities.update(dict.fromkeys(result.history.header.capabilities))
        for verdict in result.verdicts:
            self.tally.add(result.run, verdict)
            if verdict.verdict in SHOWN:
                self._consider(result, verdict)

    def _consider(self, result: RunResult, verdict: Verdict) -> None:
        key = example_key(verdict.verdict, len(verdict.situations), len(result.program.steps), result.run)
        present = self._candidates.get(verdict.requirement)
        if present is None or key < present.key:
            self._candidates[verdict.requirement] = Candidate(key, result, verdict)

    def examples(self) -> list[RunResult]:
        """The runs that the cells show, each once. One that came from a worker process has no history."""
        chosen = {candidate.result.run: candidate.result for candidate in self._candidates.values()}
        return [chosen[run] for run in sorted(chosen)]

    def cells(self, wanted: Iterable[str]) -> list[Cell]:
        """One cell per wanted requirement and per requirement that any run spoke of."""
        return [self._cell(requirement) for requirement in sorted({*wanted, *self.tally.requirements()})]

    def _cell(self, requirement: str) -> Cell:
        joined = self.tally.cell(requirement)
        if joined is None:
            text = "no run of this suite spoke of it"
            return Cell(self.broker, Verdict(requirement, VerdictKind.NOT_EXERCISED, text=text))
        candidate = self._candidates.get(requirement)
        example = None
        if candidate is not None and candidate.verdict.verdict is joined.verdict:
            example = Example(evidence_of(candidate.result).id, candidate.verdict)
        return Cell(self.broker, joined, self._counts(requirement), example)

    def _counts(self, requirement: str) -> list[WorldCount]:
        by_world: dict[str, dict[VerdictKind, int]] = {}
        for run, verdict in self.tally.runs(requirement).items():
            counts = by_world.setdefault(self._worlds[run], {})
            counts[verdict.verdict] = counts.get(verdict.verdict, 0) + 1
        return [
            WorldCount(world, {kind: counts[kind] for kind in VerdictKind if kind in counts})
            for world, counts in sorted(by_world.items())
        ]

    def column(self, digest: str, elapsed_ms: int, finished_ms: int) -> Column:
        """What the column says of itself."""
        return Column(
            broker=self.broker,
            slug=slug(self.broker),
            runs=len(self.runs),
            digest=digest,
            finished_ms=finished_ms,
            elapsed_ms=elapsed_ms,
            mutant=self.mutant,
            capabilities=sorted(self.capabilities),
            problems=[self.problems[run] for run in sorted(self.problems)],
            not_run=[self.not_run[run] for run in sorted(self.not_run)],
            silent=self.silent,
            about=self.about,
        )


class Collector(Writer):
    """A consumer of the stream that ends with finished columns."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.requirements: list[str] = []
        self.about: dict[str, str] = {}
        self.digest = ""
        self.elapsed_ms = 0
        self.finished_ms = 0
        self._columns: dict[str, ColumnCollector] = {}

    def handle(self, event: SuiteEvent) -> None:
        """Start, each run, finish."""
        if isinstance(event, SuiteStarted):
            self.requirements = list(event.requirements)
            self.about = event.about
        elif isinstance(event, RunFinished):
            result = event.result
            name = column_name(result.broker, result.mutant)
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = ColumnCollector(name, result.mutant)
            column.add(result)
        elif isinstance(event, SuiteFinished):
            self.digest = event.digest
            for column in self._columns.values():
                column.silent, column.about = event.silent, self.about
            self.elapsed_ms = round(event.seconds * 1000)
            self.finished_ms = time.time_ns() // 1_000_000

    def columns(self) -> list[ColumnCollector]:
        """The columns that had at least one run, by name."""
        return [self._columns[name] for name in sorted(self._columns)]
