"""``report.json``: the report itself; every other format is drawn from it (docs/report.md)."""

from __future__ import annotations

from pathlib import Path

from brokerproof.reports.schema import FILE, Report


def write_json(folder: Path, report: Report) -> Path:
    """Write ``folder/report.json`` in one step.

    Whoever reads it meanwhile sees the old report or the new one, never half of either.
    """
    path = folder / FILE
    hidden = folder / f".{FILE}.new"
    hidden.write_bytes(report.encode())
    hidden.replace(path)
    return path
