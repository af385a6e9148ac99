"""The tables of a store: every field has a column, rows fit their schema, old files are read by new schemas."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import get_args

import pytest

from brokerproof.conformance.experiment.history import AnyEvent, Event
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.reports.store.events import RENAMED, event_columns
from brokerproof.reports.store.manifests import Manifest, Store, TableFile, table_files
from brokerproof.reports.store.rows import (
    ALL,
    FAILING,
    SAMPLE,
    SAMPLED,
    fact_rows,
    is_kept,
    key_of,
    run_row,
    verdict_rows,
)
from brokerproof.reports.store.tables import PARTITIONED, TABLES, ddl
from brokerproof.reports.store.writer import PartWriter
from tests.fast.reports.store import samples
from tests.tools import not_run

KINDS: tuple[type[Event], ...] = get_args(AnyEvent)
ROOT = Path(__file__).parents[4]


def need_pyarrow() -> None:
    """pyarrow belongs to the extra `spark`."""
    if importlib.util.find_spec("pyarrow") is None:
        not_run("pyarrow is not installed")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty one."""
    need_pyarrow()
    return Store(str(tmp_path / "store"), make=True)


def rows_of(store: Store, table: str, campaign: str = "one") -> list[dict[str, object]]:
    """All rows of a table of one campaign, in the order of their files."""
    return [row for manifest in store.manifests(campaign) for row in store.rows(manifest, table)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__struct_config__.tag))
def test_every_field_of_every_event_has_a_column(kind: type[Event]) -> None:
    columns = set(TABLES["events"])
    missing = [field for field in kind.__struct_fields__ if RENAMED.get(field, field) not in columns]
    assert not missing


def test_every_field_of_a_verdict_has_a_column() -> None:
    assert set(Verdict.__struct_fields__) <= set(TABLES["verdicts"])


def test_times_are_plain_integers() -> None:
    kinds = {kind for table in TABLES.values() for kind in table.values()}
    assert kinds == {"string", "bigint", "boolean", "array<string>", "array<bigint>"}
    assert "t0_ns bigint, t1_ns bigint" in ddl("events")


def test_every_column_is_documented() -> None:
    page = (ROOT / "docs" / "store.md").read_text(encoding="utf-8")
    for table, columns in TABLES.items():
        section = page.partition(f"\n### `{table}`")[2].partition("\n### ")[0]
        missing = [name for name in columns if table != "events" and f"`{name}`" not in section]
        assert section, table
        assert not missing, (table, missing)


def test_rows_have_no_other_columns_than_those_declared() -> None:
    result = samples.result("seed-1", [samples.early()], seed=1)
    key = key_of("one", result)
    assert result.history is not None
    assert set(run_row(key, result, result.seed, 7, kept=True)) | {"attempt"} == set(TABLES["runs"])
    assert [set(row) for row in verdict_rows(key, result, result.seed)] == [set(TABLES["verdicts"])]
    facts = [*fact_rows(key, result.history)]
    assert {row["kind"] for row in facts} == {"send", "delivery", "session", "reading", "fault", "clock"}
    assert {name for row in facts for name in row} <= set(TABLES["facts"])


def test_facts_are_those_of_the_judge() -> None:
    result = samples.result("seed-1", [], seed=1)
    assert result.history is not None
    facts = [*fact_rows(key_of("one", result), result.history)]
    (delivery,) = [row for row in facts if row["kind"] == "delivery"]
    assert (delivery["message"], delivery["session"], delivery["state"]) == ("p0/1", "c0/1", "settled")
    assert delivery["earliest_ns"] >= 200_000
    assert delivery["latest_ns"] == 999 * samples.MS
    assert delivery["end_latest_ns"] == 1002 * samples.MS
    states = {row["message"]: (row["state"], row["latest_ns"]) for row in facts if row["kind"] == "send"}
    assert states == {"p0/1": ("confirmed", 260_000), "p0/2": ("unknown", None)}
    faults = {row["fault"]: (row["host"], row["evidence"]) for row in facts if row["kind"] == "fault"}
    assert faults["stall"] == ("p0", '{"bytes_in":8,"bytes_out":0}')


def test_only_what_was_exercised_is_a_row() -> None:
    silent = [Verdict("EXP-001", VerdictKind.NOT_EXERCISED), Verdict("EXP-002", VerdictKind.NOT_APPLICABLE)]
    result = samples.result("seed-1", [samples.early(), *silent], seed=1)
    key = key_of("one", result)
    assert [row["requirement"] for row in verdict_rows(key, result, result.seed)] == ["DLY-003"]
    assert run_row(key, result, result.seed, 7, kept=True)["not_applicable"] == ["EXP-002"]


@pytest.mark.parametrize(
    ("keep", "seed", "verdict", "kept"),
    [
        (ALL, 1, samples.kept("DLY-003"), True),
        (FAILING, SAMPLED, samples.kept("DLY-003"), False),
        (FAILING, 1, samples.early(), True),
        (SAMPLE, SAMPLED, samples.kept("DLY-003"), True),
        (SAMPLE, SAMPLED + 1, samples.kept("DLY-003"), False),
        (SAMPLE, SAMPLED + 1, samples.early(), True),
    ],
)
def test_whose_histories_are_kept(store: Store, keep: str, seed: int, verdict: Verdict, kept: bool) -> None:
    result = samples.result(f"seed-{seed}", [verdict], seed=seed)
    assert is_kept(keep, result, result.seed) is kept
    writer = PartWriter(store, "one", "part-0", "reference", keep)
    writer.add(result, 5)
    assert writer.commit(seed)
    assert len(rows_of(store, "events")) == (len(samples.events()) if kept else 0)
    assert bool(rows_of(store, "facts")) is kept
    (run,) = rows_of(store, "runs")
    assert (run["header"] is not None, run["seed"], run["events"]) == (kept, seed, len(samples.events()))
    (program,) = rows_of(store, "programs")
    assert program["program"] == run["program"]
    assert program["features"] == ["ack", "clock", "send", "stall", "subscribe", "take"]


def test_events_keep_their_order_and_their_values() -> None:
    events = samples.events()
    columns = event_columns([(("c", "b", "one"), events), (("c", "b", "two"), events[:3])])
    assert list(columns) == list(TABLES["events"])
    assert columns["run"] == ["one"] * len(events) + ["two"] * 3
    assert columns["seq"] == [event.seq for event in events] + [1, 2, 3]
    sent = columns["message"].index("p0/1")
    assert columns["delay_ms"][sent] == 1000
    assert columns["kind"][sent] == "send"
    assert columns["wall_ms"][sent] is None
    assert columns["evidence"][columns["fault"].index("stall")] == '{"bytes_in":8,"bytes_out":0}'
    assert columns["step"][columns["kind"].index("skipped")] == '{"do":"nack","host":0}'
    assert columns["phase"][columns["kind"].index("phase")] == "work"


def test_the_catalogue_is_kept_as_it_was(store: Store) -> None:
    writer = PartWriter(store, "one", "start")
    writer.put_catalogue(default_catalogue())
    writer.commit()
    rows = {row["requirement"]: row for row in rows_of(store, "requirements")}
    assert rows["DLY-003"]["sentence"] == default_catalogue()["DLY-003"].sentence
    assert rows["DLY-003"]["area"] == "DLY"
    situations = [row["situation"] for row in rows_of(store, "situations") if row["requirement"] == "DLY-003"]
    assert situations == default_catalogue()["DLY-003"].situations


def test_a_file_of_an_older_schema_is_read_with_nulls(store: Store) -> None:
    """The whole migration: a column that a file does not have is null for every reader."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from brokerproof.reports.store.duck import dataset

    name = "runs/old.parquet"
    store.files.parent(name)
    pq.write_table(pa.table({"campaign": ["one"], "run": ["r"], "seed": [3]}), store.files.path(name))
    store.commit(Manifest("one", "part-0", "a", [TableFile("runs", name, 1)], version=0))
    (row,) = dataset(store.files, "runs", table_files(store.manifests("one"))["runs"]).to_table().to_pylist()
    assert list(row) == list(TABLES["runs"])
    assert (row["seed"], row["problem"]) == (3, None)


def test_tables_of_runs_are_partitioned_by_broker(store: Store) -> None:
    writer = PartWriter(store, "one", "part-0", "my broker 2.1")
    writer.add(samples.result("seed-1", [samples.early()], broker="my broker 2.1", seed=1), 5)
    writer.put("campaigns", [{"campaign": "one"}])
    writer.commit(1)
    for file in store.manifests("one")[0].files:
        place = "campaign=one/broker=my_broker_2.1/" if file.table in PARTITIONED else "campaign=one/"
        assert file.name == f"{file.table}/{place}part-0.{store.manifests('one')[0].attempt}.parquet"
        assert Path(store.files.path(file.name)).is_file()
