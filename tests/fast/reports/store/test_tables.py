"""The Parquet tables: every field of a history has a column, and what is written reads back."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import get_args

import pytest

from brokerproof.conformance.experiment.history import AnyEvent, Event
from brokerproof.conformance.experiment.verdict import Verdict
from brokerproof.reports.store.tables import RENAMED, TABLES, TableWriter, ddl, event_columns, run_row, verdict_rows
from tests.fast.reports.store import samples
from tests.tools import not_run

KINDS: tuple[type[Event], ...] = get_args(AnyEvent)


def need_pyarrow() -> None:
    """pyarrow belongs to the extra `spark`."""
    if importlib.util.find_spec("pyarrow") is None:
        not_run("pyarrow is not installed")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__struct_config__.tag))
def test_every_field_of_every_event_has_a_column(kind: type[Event]) -> None:
    columns = set(TABLES["events"])
    missing = [field for field in kind.__struct_fields__ if RENAMED.get(field, field) not in columns]
    assert not missing


def test_every_field_of_a_verdict_has_a_column() -> None:
    assert set(Verdict.__struct_fields__) <= set(TABLES["verdicts"])


def test_rows_have_exactly_the_declared_columns() -> None:
    result = samples.result("seed-1", [samples.early()], seed=1)
    assert list(run_row(result, 7)) == list(TABLES["runs"])
    assert [sorted(row) for row in verdict_rows(result)] == [sorted(TABLES["verdicts"])]
    columns = event_columns([("a run", "a broker", samples.events())])
    assert list(columns) == list(TABLES["events"])
    assert {len(column) for column in columns.values()} == {len(samples.events())}


def test_events_keep_their_order_and_their_values() -> None:
    events = samples.events()
    columns = event_columns([("one", "b", events), ("two", "b", events[:3])])
    assert columns["run"] == ["one"] * len(events) + ["two"] * 3
    assert columns["seq"] == [event.seq for event in events] + [1, 2, 3]
    sent = columns["message"].index("p0/1")
    assert columns["delay_ms"][sent] == 1000
    assert columns["kind"][sent] == "send"
    assert columns["wall_ms"][sent] is None
    assert columns["evidence"][columns["fault"].index("stall")] == '{"bytes_in":8,"bytes_out":0}'
    assert columns["step"][columns["kind"].index("skipped")] == '{"do":"nack","host":0}'
    assert columns["phase"][columns["kind"].index("phase")] == "work"


def test_no_events_give_empty_columns() -> None:
    assert event_columns([])["seq"] == []


def test_times_are_plain_integers() -> None:
    kinds = {kind for table in TABLES.values() for kind in table.values()}
    assert kinds == {"string", "bigint", "boolean", "array<string>", "array<bigint>"}
    assert "t0_ns bigint, t1_ns bigint" in ddl("events")


def test_written_tables_read_back(tmp_path: Path) -> None:
    need_pyarrow()
    import pyarrow.parquet as pq

    writer = TableWriter(tmp_path, "part-1-2")
    writer.add(samples.result("seed-1", [samples.early(), samples.kept("EXP-001")], seed=1), 5)
    assert not list(tmp_path.glob("*/part-*.parquet")), "nothing is visible before the end"
    writer.finish()
    assert sorted(path.parent.name for path in tmp_path.glob("*/part-1-2.parquet")) == ["events", "runs", "verdicts"]
    assert not list(tmp_path.glob("*/.*"))
    events = pq.read_table(tmp_path / "events").to_pylist()
    assert [row["seq"] for row in events] == [event.seq for event in samples.events()]
    verdicts = pq.read_table(tmp_path / "verdicts").to_pylist()
    assert [(row["requirement"], row["verdict"], row["witness"]) for row in verdicts] == [
        ("DLY-003", "violated", [7, 14]),
        ("EXP-001", "satisfied", []),
    ]


def test_abandoned_tables_leave_nothing(tmp_path: Path) -> None:
    need_pyarrow()
    writer = TableWriter(tmp_path, "part-1-1")
    writer.add(samples.result("seed-1", [samples.early()], seed=1), 5)
    writer._flush()
    assert list(tmp_path.glob("*/.part*"))
    writer.abandon()
    assert not [path for path in tmp_path.glob("*/*") if path.is_file()]
