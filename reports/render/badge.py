"""``badge-BROKER.svg``: one line for a README: how many promises a broker keeps and how many it breaks."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.reports.store.schema import Column, Report

_CHARACTER_PX = 7


def write_badges(folder: Path, report: Report) -> list[Path]:
    """One file per column; those of columns that are gone go."""
    written = []
    for column in report.columns:
        path = folder / f"badge-{column.slug}.svg"
        path.write_text(badge(column, report.totals(column.broker)), encoding="utf-8")
        written.append(path)
    for stale in folder.glob("badge-*.svg"):
        if stale not in written:
            stale.unlink()
    return written


def badge(column: Column, totals: dict[VerdictKind, int]) -> str:
    """The drawing; it says in words what its colour says."""
    broken, kept = totals[VerdictKind.VIOLATED], totals[VerdictKind.SATISFIED]
    color = "#a12a06" if broken else "#0f6b57" if kept else "#5d6874"
    if column.problems or (column.silent and not broken):
        color = "#7a5600"
    left = f"brokerproof · {column.broker}"
    right = ", ".join(filter(None, [f"{kept} kept", f"{broken} broken" if broken else ""]))
    widths = [len(text) * _CHARACTER_PX + 14 for text in (left, right)]
    total = sum(widths)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="20" role="img" '
        f'aria-label="{escape(left, {chr(34): "&quot;"})}: {right}">'
        f'<rect width="{total}" height="20" rx="3" fill="#3b444d"/>'
        f'<rect x="{widths[0]}" width="{widths[1]}" height="20" rx="3" fill="{color}"/>'
        '<g fill="#fff" text-anchor="middle" font-family="system-ui,Verdana,sans-serif" font-size="11">'
        f'<text x="{widths[0] / 2:g}" y="14">{escape(left)}</text>'
        f'<text x="{widths[0] + widths[1] / 2:g}" y="14">{right}</text></g></svg>\n'
    )
