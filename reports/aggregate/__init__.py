"""Aggregation in SQL: from the tables of a store to the cells of a report.

Decides: which query answers what. The queries are files beside this module, over the tables of one campaign as views;
each answer has as many rows as the catalogue has requirements, situations and verdicts, however many runs there were.

Rules:

* The orders of verdicts and grades come from ``conformance.experiment.verdict`` as views, so that SQL and Python
  cannot disagree about the join.
* Tables are read with their declared schema, never with an inferred one, and only files that a manifest names.
* The in-flight count is judged a second time, from ``events`` alone and without a line of the rule's code;
  disagreement is a problem of the suite.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from brokerproof.conformance.experiment.verdict import GRADES, ORDER
from brokerproof.reports.store.files import Files
from brokerproof.reports.store.manifests import Manifest, table_files
from brokerproof.reports.store.tables import ddl

#: Query -> what it answers.
QUERIES = {
    "columns": "runs and seeds per broker and world, and what the broker offered",
    "cells": "per requirement, broker, world and verdict: counts, the strongest verdict, the run to show, slacks",
    "situations": "the situations that any run met, and in how many runs",
    "inapplicable": "in how many runs a requirement did not apply",
    "notes": "problems, and runs that did not happen",
    "opinions": "the in-flight count at rest, judged by its rule and from the events",
}
#: Queries that others read as views.
VIEWS = ("inflight",)
READ = ("runs", "verdicts", "events")


def query_text(name: str) -> str:
    """The text of a query."""
    return resources.files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")


def open_tables(session: Any, files: Files, manifests: Iterable[Manifest]) -> None:
    """Make the views that the queries read: of these manifests' files."""
    found = table_files(manifests)
    for table in READ:
        names = [files.url(file.name) for file in found[table]]
        reader = session.read.schema(ddl(table))
        frame = reader.parquet(*names) if names else session.createDataFrame([], ddl(table))
        frame.createOrReplaceTempView(table)
    _make_order(session, "verdict_order", "verdict", [kind.value for kind in ORDER])
    _make_order(session, "grade_order", "grade", GRADES)
    for view in VIEWS:
        session.sql(query_text(view)).createOrReplaceTempView(view)


def _make_order(session: Any, view: str, name: str, ordered: Sequence[str]) -> None:
    """A view of names with their ranks. As literals: rows from Python would start a worker for nothing."""
    values = ", ".join(f"('{value}', {rank})" for rank, value in enumerate(ordered))
    text = f"SELECT * FROM VALUES {values} AS t({name}, rank)"  # noqa: S608 - the words of our own enumerations
    session.sql(text).createOrReplaceTempView(view)


def ask(session: Any, name: str) -> list[dict[str, Any]]:
    """Run a query; its rows as dicts."""
    return [row.asDict(recursive=True) for row in session.sql(query_text(name)).collect()]
