"""The Parquet tables of a campaign: ``runs``, ``events``, ``verdicts``; one declaration for Arrow and for Spark.

Decides: which columns there are and how a judged run becomes rows.

Rules:

* Integers are int64 everywhere and times are nanoseconds or milliseconds named last: Spark reads no nanosecond
  timestamps and refuses mixed integer widths.
* ``events`` is a history flattened, and ``runs.header`` is its first line as JSON: a column per field name, null where
  a kind has no such field. What has no fixed shape (evidence of a fault, a skipped step) is JSON text, so nothing of a
  history is lost.
* A run is never split over two files, and its rows keep their order.
* pyarrow is imported only when rows are written: ``brokerproof --help`` must not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from brokerproof.conformance.experiment.history import Event
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.reports.store.schema import column_name

STRING, INT, BOOL, STRINGS, INTS = "string", "bigint", "boolean", "array<string>", "array<bigint>"

#: Table -> column -> Spark SQL type. The order is the order in the files.
TABLES: dict[str, dict[str, str]] = {
    "runs": {
        "run": STRING,
        "broker": STRING,
        "world": STRING,
        "name": STRING,
        "seed": INT,
        "mutant": STRING,
        "program": STRING,
        "steps": INT,
        "events": INT,
        "took_us": INT,
        "capabilities": STRINGS,
        "header": STRING,
        "problem": STRING,
        "not_run": STRING,
    },
    "verdicts": {
        "run": STRING,
        "broker": STRING,
        "world": STRING,
        "requirement": STRING,
        "verdict": STRING,
        "outcome": STRING,
        "grade": STRING,
        "situations": STRINGS,
        "witness": INTS,
        "slack_ns": INT,
        "text": STRING,
        "decided": INT,
        "undecided": INT,
        "unknown": STRINGS,
    },
    "events": {
        "run": STRING,
        "broker": STRING,
        "seq": INT,
        "t0_ns": INT,
        "t1_ns": INT,
        "host": STRING,
        "kind": STRING,
        "result": STRING,
        "consumer": STRING,
        "message": STRING,
        "messages": STRINGS,
        "dest": STRING,
        "original_dest": STRING,
        "via": STRING,
        "traits": STRING,
        "refusal": STRING,
        "prefetch": INT,
        "dispatch": STRING,
        "ack": STRING,
        "how": STRING,
        "mode": STRING,
        "tx": STRING,
        "expiration_ms": INT,
        "timestamp_ms": INT,
        "delay_ms": INT,
        "deliver_at_ms": INT,
        "persistent": BOOL,
        "priority": INT,
        "redelivered": BOOL,
        "delivery_count": INT,
        "reason": STRING,
        "who": STRING,
        "link": STRING,
        "idle_ns": INT,
        "target": STRING,
        "fault": STRING,
        "toward": STRING,
        "jump_ms": INT,
        "evidence": STRING,
        "phase": STRING,
        "step": STRING,
        "wall_ms": INT,
        "plus_minus_ns": INT,
        "beyond_ns": INT,
        "at_rest": BOOL,
        "size": INT,
        "in_flight": INT,
        "enqueued": INT,
        "dequeued": INT,
        "dispatched": INT,
        "expired": INT,
        "scheduled": INT,
        "acknowledged": INT,
        "wasted": INT,
        "consumers": INT,
        "memory_percent": INT,
        "memory_bytes": INT,
        "memory_limit_bytes": INT,
        "destinations": INT,
        "selector": STRING,
        "durable": STRING,
        "browser": BOOL,
        "exclusive": BOOL,
        "no_local": BOOL,
        "life_ms": INT,
        "ttl_ms": INT,
        "body": INT,
        "forged": INT,
        "original_expiration_ms": INT,
        "cause": STRING,
        "original_id": STRING,
        "message_kind": STRING,
        "message_group": STRING,
        "complete": BOOL,
        "op": STRING,
        "to_dest": STRING,
        "count": INT,
        "said": STRING,
        "heard": STRING,
        "asked": INT,
        "network": BOOL,
        "ack_type": STRING,
        "open_start": BOOL,
        "wrong_end": BOOL,
        "answered": BOOL,
        "timeout_ms": INT,
        "properties": STRINGS,
        "delivery_time_ms": INT,
        "preset_ms": INT,
        "again": BOOL,
        "limit_bytes": INT,
        "command": STRING,
    },
}
#: Field of an event -> column, where the names differ.
RENAMED = {"t0": "t0_ns", "t1": "t1_ns", "name": "phase", "group": "message_group", "to": "to_dest", "type": "ack_type"}
#: Columns that hold JSON text.
AS_JSON = ("evidence", "step", "said", "heard", "traits")
#: Events collected before they are written as one row group.
ROW_GROUP_EVENTS = 100_000

Columns = dict[str, list[Any]]


def ddl(table: str) -> str:
    """The schema of a table as Spark reads it: an explicit one, so that files of different writers agree."""
    return ", ".join(f"{name} {kind}" for name, kind in TABLES[table].items())


def arrow_schema(table: str) -> Any:
    """The schema of a table as pyarrow writes it."""
    import pyarrow as pa  # an extra, and slow to import

    types = {
        STRING: pa.string(),
        INT: pa.int64(),
        BOOL: pa.bool_(),
        STRINGS: pa.list_(pa.string()),
        INTS: pa.list_(pa.int64()),
    }
    return pa.schema([(name, types[kind]) for name, kind in TABLES[table].items()])


def run_row(result: RunResult, took_us: int) -> dict[str, Any]:
    """One row of ``runs``."""
    return {
        "run": result.run,
        "broker": column_name(result.broker, result.mutant),
        "world": result.world,
        "name": result.name,
        "seed": result.seed,
        "mutant": result.mutant,
        "program": result.program.digest(),
        "steps": len(result.program.steps),
        "events": len(result.history.events) if result.history is not None else 0,
        "took_us": took_us,
        "capabilities": result.history.header.capabilities if result.history is not None else [],
        "header": msgspec.json.encode(result.history.header).decode() if result.history is not None else None,
        "problem": result.problem,
        "not_run": result.not_run,
    }


def verdict_rows(result: RunResult) -> Iterable[dict[str, Any]]:
    """The rows of ``verdicts`` of one run."""
    for verdict in result.verdicts:
        row: dict[str, Any] = msgspec.structs.asdict(verdict)
        row["verdict"] = verdict.verdict.value
        yield {"run": result.run, "broker": column_name(result.broker, result.mutant), "world": result.world, **row}


def event_columns(runs: Iterable[tuple[str, str, list[Event]]]) -> Columns:
    """The columns of ``events`` for runs given as (run, column, events), nulls filled in."""
    names: list[str] = []
    brokers: list[str] = []
    by_kind: dict[type[Event], tuple[list[int], list[Event]]] = {}
    row = 0
    for run, broker, events in runs:
        names += [run] * len(events)
        brokers += [broker] * len(events)
        for event in events:
            places = by_kind.get(type(event))
            if places is None:
                places = by_kind[type(event)] = ([], [])
            places[0].append(row)
            places[1].append(event)
            row += 1
    columns: Columns = {name: [None] * row for name in TABLES["events"]}
    columns["run"] = names
    columns["broker"] = brokers
    for kind, (rows, of_kind) in by_kind.items():
        _scatter(columns, kind, rows, of_kind)
    return columns


def _scatter(columns: Columns, kind: type[Event], rows: list[int], events: list[Event]) -> None:
    tags = columns["kind"]
    tag = kind.__struct_config__.tag
    for row in rows:
        tags[row] = tag
    for field in kind.__struct_fields__:
        name = RENAMED.get(field, field)
        column = columns[name]
        if name in AS_JSON:
            for row, event in zip(rows, events, strict=True):
                value = getattr(event, field)
                column[row] = None if value is None else msgspec.json.encode(value).decode()
        else:
            for row, event in zip(rows, events, strict=True):
                column[row] = getattr(event, field)


class TableWriter:
    """Writes the three files of one part.

    Nothing is visible under its final name before ``finish``, so a repeated task only replaces what it wrote.
    """

    def __init__(self, folder: Path, part: str) -> None:
        self._folder = folder
        self._part = part
        self._writers: dict[str, Any] = {}
        self._runs: list[dict[str, Any]] = []
        self._verdicts: list[dict[str, Any]] = []
        self._events: list[tuple[str, str, list[Event]]] = []
        self._pending = 0

    def add(self, result: RunResult, took_us: int) -> None:
        """Take in one run."""
        self._runs.append(run_row(result, took_us))
        self._verdicts += verdict_rows(result)
        if result.history is not None:
            self._events.append((result.run, column_name(result.broker, result.mutant), result.history.events))
            self._pending += len(result.history.events)
        if self._pending >= ROW_GROUP_EVENTS:
            self._flush()

    def add_problem(self, row: dict[str, Any]) -> None:
        """Take in a row of ``runs`` for a seed that gave no result."""
        self._runs.append(row)

    def finish(self) -> None:
        """Write what is left and give the files their names."""
        self._flush()
        for table, writer in self._writers.items():
            writer.close()
            self._hidden(table).replace(self._folder / table / f"{self._part}.parquet")

    def abandon(self) -> None:
        """Drop the unfinished files."""
        for table, writer in self._writers.items():
            writer.close()
            self._hidden(table).unlink(missing_ok=True)

    def _flush(self) -> None:
        self._write("runs", lambda: _transposed("runs", self._runs))
        self._write("verdicts", lambda: _transposed("verdicts", self._verdicts))
        self._write("events", lambda: event_columns(self._events))
        self._runs, self._verdicts, self._events, self._pending = [], [], [], 0

    def _write(self, table: str, columns: Callable[[], Columns]) -> None:
        import pyarrow as pa  # an extra, and slow to import

        schema = arrow_schema(table)
        data = columns()
        writer = self._writers.get(table)
        if writer is None:
            writer = self._writers[table] = _open(self._hidden(table), table, schema)
        writer.write_table(pa.table([pa.array(data[field.name], field.type) for field in schema], schema=schema))

    def _hidden(self, table: str) -> Path:
        # Spark skips names that begin with a dot, so a half-written file is never read.
        return self._folder / table / f".{self._part}.parquet"


def _transposed(table: str, rows: list[dict[str, Any]]) -> Columns:
    return {name: [row[name] for row in rows] for name in TABLES[table]}


def _open(path: Path, table: str, schema: Any) -> Any:
    import pyarrow.parquet as pq  # an extra, and slow to import

    path.parent.mkdir(parents=True, exist_ok=True)
    integers = [name for name, kind in TABLES[table].items() if kind == INT]
    texts = [name for name, kind in TABLES[table].items() if kind == STRING]
    encodings = dict.fromkeys(integers, "DELTA_BINARY_PACKED")
    return pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=texts, column_encoding=encodings)
