"""Histories as columns of ``events``: an event a row, a column per field name, null where a kind has no such field.

What has no fixed shape (evidence of a fault, a skipped step) is JSON text, and ``runs.header`` is the first line of the
history, so nothing of it is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from brokerproof.conformance.experiment.history import Event
from brokerproof.reports.store.tables import TABLES

#: Field of an event -> column, where the names differ.
RENAMED = {"t0": "t0_ns", "t1": "t1_ns", "name": "phase", "group": "message_group", "to": "to_dest", "type": "ack_type"}
#: Columns that hold JSON text.
AS_JSON = ("called", "evidence", "headers", "step", "said", "heard", "heart_beat_ms", "traits")

Columns = dict[str, list[Any]]
#: Campaign, broker and name of a run.
Key = tuple[str, str, str]


def event_columns(runs: Iterable[tuple[Key, list[Event]]]) -> Columns:
    """The columns of ``events`` for runs, nulls filled in."""
    keys: list[Key] = []
    by_kind: dict[type[Event], tuple[list[int], list[Event]]] = {}
    row = 0
    for key, events in runs:
        keys += [key] * len(events)
        for event in events:
            places = by_kind.get(type(event))
            if places is None:
                places = by_kind[type(event)] = ([], [])
            places[0].append(row)
            places[1].append(event)
            row += 1
    columns: Columns = {name: [None] * row for name in TABLES["events"]}
    for place, name in enumerate(("campaign", "broker", "run")):
        columns[name] = [key[place] for key in keys]
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
