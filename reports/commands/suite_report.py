"""The report of a suite, written from its stream of results when it has finished."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from brokerproof.conformance.experiment.results import RunResult, SuiteEvent, SuiteFinished, SuiteStarted, Writer
from brokerproof.conformance.requirements.catalogue import Catalogue, default_catalogue
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.folder import make_folder
from brokerproof.reports.render.formats import write_reports
from brokerproof.reports.store.collect import Collector, ColumnCollector
from brokerproof.reports.store.merge import NewColumn, present_report
from brokerproof.reports.store.schema import Report

OUT = Path("brokerproof-out")


def with_history(result: RunResult) -> RunResult:
    """The same run with its history, which worker processes keep to themselves; virtual time gives the same bytes."""
    if result.history is not None or result.world != "simulated":
        return result
    return run_program(result.program, result.name, seed=result.seed, mutant=result.mutant)


def new_columns(
    columns: Iterable[ColumnCollector], wanted: Iterable[str], digest: str, elapsed_ms: int, finished_ms: int
) -> list[NewColumn]:
    """Collected columns, ready to be merged."""
    wanted = list(wanted)
    return [
        NewColumn(
            column.column(digest, elapsed_ms, finished_ms),
            column.cells(wanted),
            [with_history(result) for result in column.examples()],
        )
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
