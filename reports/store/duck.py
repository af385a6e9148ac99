"""DuckDB over a store: every table as a view, over the files that its manifests name at that moment.

Beside what is written, three views say more: ``campaigns`` has one row per campaign, its last; ``failures`` tells in
which campaign a signature was seen first and last; ``verdict_order`` is the order of the join of verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from brokerproof.conformance.experiment.verdict import ORDER
from brokerproof.reports.store.files import Files, StoreMissing
from brokerproof.reports.store.manifests import Store, TableFile, table_files
from brokerproof.reports.store.tables import TABLES, arrow_schema

if TYPE_CHECKING:
    import duckdb

_VIEWS = {
    "campaigns": "SELECT * FROM {} QUALIFY ROW_NUMBER() OVER (PARTITION BY campaign ORDER BY at_ms DESC, state) = 1",
    "failures": "SELECT *, MIN(campaign) OVER same AS first_campaign, MAX(campaign) OVER same AS last_campaign "
    "FROM {} WINDOW same AS (PARTITION BY broker, signature)",
}
QUESTIONS = "brokerproof.reports.store.questions"
FIGURES = "brokerproof.reports.store.figures"


def dataset(files: Files, table: str, named: Sequence[TableFile]) -> Any:
    """A pyarrow dataset of these files of a table; columns that a file lacks are null."""
    import pyarrow.dataset as ds  # an extra, and slow to import

    schema = arrow_schema(table)
    if not named:
        return schema.empty_table()
    paths = [files.path(file.name) for file in named]
    return ds.dataset(paths, schema=schema, filesystem=files.system, format="parquet")


def connect(store: Store) -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory that sees the store. Raises ``StoreMissing`` without the package."""
    try:
        import duckdb  # an extra
    except ImportError:
        raise StoreMissing("this needs the package 'duckdb'; pip install 'brokerproof[sql]'") from None
    found = duckdb.connect(":memory:")
    named = table_files(manifest for campaign in store.campaigns() for manifest in store.manifests(campaign))
    for table in TABLES:
        view = _VIEWS.get(table)
        source = f"{table}_written" if view else table
        found.register(source, dataset(store.files, table, named[table]))
        if view:
            found.execute(f"CREATE VIEW {table} AS {view.format(source)}")
    ranks = ", ".join(f"('{kind.value}', {rank})" for rank, kind in enumerate(ORDER))
    text = f"CREATE VIEW verdict_order AS SELECT * FROM (VALUES {ranks}) AS t(verdict, rank)"  # noqa: S608 - our words
    found.execute(text)
    return found


def questions() -> dict[str, str]:
    """Name -> SQL of the questions that come with the release; the first line of each, a comment, is the question."""
    return _texts(QUESTIONS)


def figures() -> dict[str, str]:
    """Name -> SQL of what plots show; ``$campaign`` is the campaign."""
    return _texts(FIGURES)


def asked(connection: duckdb.DuckDBPyConnection, text: str, campaign: str) -> list[dict[str, Any]]:
    """The rows that answer a query of one campaign."""
    return asked_of(connection, text, {"campaign": campaign})


def asked_of(connection: duckdb.DuckDBPyConnection, text: str, values: dict[str, str]) -> list[dict[str, Any]]:
    """The rows that answer a query with values of the names that it uses."""
    found = connection.execute(text, {name: value for name, value in values.items() if f"${name}" in text})
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _texts(package: str) -> dict[str, str]:
    folder = resources.files(package)
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return {name.removesuffix(".sql"): folder.joinpath(name).read_text(encoding="utf-8") for name in names}
