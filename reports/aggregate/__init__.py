"""Aggregation in SQL: from the Parquet tables of a campaign to the cells of a report.

Decides: which query answers what. The queries are files beside this module, plain SQL over the views ``runs``,
``verdicts``, ``events``, ``verdict_order`` and ``grade_order``; only ``EXPLODE`` and array literals are Spark's own.

Rules:

* The orders of verdicts and grades come from ``conformance.experiment.verdict`` as views, so that SQL and Python
  cannot disagree about the join.
* Tables are read with their declared schema, never with an inferred one.
* The in-flight count is judged a second time, from ``events`` alone and without a line of the rule's code;
  disagreement is a problem of the suite.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from brokerproof.conformance.experiment.verdict import GRADES, ORDER
from brokerproof.reports.store.tables import TABLES, ddl

#: Query -> what it answers.
QUERIES = {
    "matrix": "runs per requirement, broker, world and verdict",
    "cells": "the joined verdict of each requirement and broker, with the details of its strongest run",
    "situations": "the situations that any run met",
    "examples": "the run that is shown for each cell",
    "columns": "runs, events and steps per broker",
    "notes": "problems, and runs that did not happen",
    "capabilities": "what each broker offered",
    "inflight": "the in-flight count at rest, judged per run from the events",
}


def query_text(name: str) -> str:
    """The text of a query."""
    return resources.files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")


def open_tables(session: Any, folder: Path) -> None:
    """Make the views that the queries read."""
    for table in TABLES:
        session.read.schema(ddl(table)).parquet(str(folder / table / "part-*.parquet")).createOrReplaceTempView(table)
    _make_order(session, "verdict_order", "verdict", [kind.value for kind in ORDER])
    _make_order(session, "grade_order", "grade", GRADES)


def _make_order(session: Any, view: str, name: str, ordered: Sequence[str]) -> None:
    """A view of names with their ranks. As literals: rows from Python would start a worker for nothing."""
    values = ", ".join(f"('{value}', {rank})" for rank, value in enumerate(ordered))
    text = f"SELECT * FROM VALUES {values} AS t({name}, rank)"  # noqa: S608 - the words of our own enumerations
    session.sql(text).createOrReplaceTempView(view)


def ask(session: Any, name: str) -> list[dict[str, Any]]:
    """Run a query; its rows as dicts."""
    return [row.asDict() for row in session.sql(query_text(name)).collect()]
