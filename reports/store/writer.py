"""Writing a part: rows are collected, flushed as row groups, and committed with one manifest.

A part that is not committed has never been: whatever its attempt wrote is removed when it gives up, and read by nobody
when it dies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import msgspec

from brokerproof.conformance.experiment.history import Event
from brokerproof.conformance.experiment.results import DigestSum, RunResult
from brokerproof.conformance.requirements.catalogue import Catalogue
from brokerproof.reports.store.events import Key, event_columns
from brokerproof.reports.store.evidence import slug
from brokerproof.reports.store.files import Files, open_parquet
from brokerproof.reports.store.manifests import Manifest, Store, TableFile, new_attempt
from brokerproof.reports.store.rows import (
    Row,
    fact_rows,
    is_kept,
    key_of,
    program_row,
    run_row,
    transposed,
    verdict_rows,
)
from brokerproof.reports.store.tables import PARTITIONED, arrow_schema

#: Events, and rows of any other table, that are collected before they are written as a row group.
ROW_GROUP = 100_000


class PartWriter:
    """One attempt at a part of a campaign, all of whose runs are of one ``broker``; ``keep``: whose histories."""

    def __init__(self, store: Store, campaign: str, part: str, broker: str = "", keep: str = "all") -> None:
        self.campaign = campaign
        self.part = part
        self.attempt = new_attempt()
        self._store = store
        self._keep = keep
        self._broker = broker
        self._writers: dict[str, _File] = {}
        self._rows: dict[str, list[Row]] = {}
        self._events: list[tuple[Key, list[Event]]] = []
        self._pending = 0
        self._programs: dict[str, None] = {}
        self._runs = self._problems = self._processor_us = 0
        self._digests = DigestSum()

    def add(self, result: RunResult, processor_us: int, seed: int | None = None) -> None:
        """Take in a run; ``seed``: of the campaign, from which its program need not be made alone."""
        seed = result.seed if seed is None else seed
        key, kept = key_of(self.campaign, result), is_kept(self._keep, result, seed)
        row = run_row(key, result, seed, processor_us, kept=kept)
        self._digests.add(row["digest"])
        self._add_run(row)
        self.put("verdicts", verdict_rows(key, result, seed))
        if result.program.hosts and row["program"] not in self._programs:
            self._programs[row["program"]] = None
            self.put("programs", [program_row(key, result.program, result.parent)])
        if kept and result.history is not None:
            self.put("facts", fact_rows(key, result.history))
            self._events.append(((self.campaign, key["broker"], result.run), result.history.events))
            self._pending += len(result.history.events)
        if self._pending >= ROW_GROUP:
            self._flush()

    def add_problem(self, row: Row) -> None:
        """Take in a row of ``runs`` for a seed that gave no result."""
        self._add_run({**row, "campaign": self.campaign})

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Take in rows of a table; what a row lacks is null."""
        collected = self._rows.setdefault(table, [])
        before = len(collected)
        collected += rows
        self._pending += len(collected) - before

    def put_catalogue(self, catalogue: Catalogue) -> None:
        """Take in the catalogue as it is: ``requirements`` and ``situations``."""
        of = {"campaign": self.campaign}
        for entry in catalogue:
            self.put(
                "requirements", [{**of, "requirement": entry.id, "area": entry.area, **msgspec.structs.asdict(entry)}]
            )
            self.put(
                "situations",
                [{**of, "requirement": entry.id, "situation": situation} for situation in entry.situations],
            )

    def commit(self, first: int = 0) -> bool:
        """Write what is left and make the part; False, and nothing is left behind, if another attempt has made it."""
        self._flush()
        files = [TableFile(table, file.name, file.close()) for table, file in self._writers.items()]
        manifest = Manifest(
            self.campaign,
            self.part,
            self.attempt,
            files,
            first=first,
            runs=self._runs,
            digest=self._digests.part,
            digested=self._digests.runs,
            problems=self._problems,
            processor_us=self._processor_us,
        )
        # From here on nobody can tell whether the manifest is there, until the store has said so.
        self._writers = {}
        if self._store.commit(manifest):
            return True
        for written in files:
            self._store.files.remove(written.name)
        return False

    def abandon(self) -> None:
        """Drop what was written."""
        for file in self._writers.values():
            with contextlib.suppress(Exception):  # a disk that is full stays full
                file.close()
            self._store.files.remove(file.name)

    def _add_run(self, row: Row) -> None:
        self._runs += 1
        self._problems += bool(row["problem"])
        self._processor_us += row["processor_us"]
        self.put("runs", [{**row, "attempt": self.attempt}])

    def _flush(self) -> None:
        for table, rows in self._rows.items():
            if rows:
                self._write(table, transposed(table, rows))
        if self._events:
            self._write("events", event_columns(self._events))
        self._rows, self._events, self._pending = {}, [], 0

    def _write(self, table: str, columns: dict[str, list[Any]]) -> None:
        file = self._writers.get(table)
        if file is None:
            place = f"{table}/campaign={self.campaign}"
            if table in PARTITIONED:
                place += f"/broker={slug(self._broker)}"
            file = self._writers[table] = _File(self._store.files, f"{place}/{self.part}.{self.attempt}.parquet", table)
        file.write(columns)


class _File:
    """An open file of one table."""

    def __init__(self, files: Files, name: str, table: str) -> None:
        self.name = name
        self._schema = arrow_schema(table)
        self._writer = open_parquet(files, name, table)
        self._rows = 0

    def write(self, columns: dict[str, list[Any]]) -> None:
        """A row group."""
        import pyarrow as pa  # an extra, and slow to import

        arrays = [pa.array(columns[field.name], field.type) for field in self._schema]
        self._writer.write_table(pa.table(arrays, schema=self._schema))
        self._rows += len(arrays[0])

    def close(self) -> int:
        """Its number of rows."""
        self._writer.close()
        return self._rows
