"""What ``diagnose --watch`` shows, on a terminal and as a page that loads itself again: the verdict first, then who
holds the memory and who starves, what is in flight over time, the oldest message, the broker's clock.

Rules
* Nothing is told by colour alone: who starves is written beside the bar.
* A destination that holds nothing and has nothing in flight, now or before, is counted and not drawn.
* An age is the least that it can be (``≥``); a clock has its bounds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from brokerproof.conformance.operating.offset import Offset
from brokerproof.conformance.operating.watching import Glance, Row, Watch
from brokerproof.reports.render.curves import BARS, Axis, Plot, Points, plot
from brokerproof.reports.render.html import page_environment
from brokerproof.reports.render.units import duration_text

BAR: Final = 30
SPARK: Final = 32
ROWS_MAX: Final = 20
#: Looks are this far apart, about; the page loads itself again as often.
RELOAD_S: Final = 4
S_PER_NS: Final = 1e9


class Shown(msgspec.Struct, frozen=True):
    """A destination as it is drawn: ``counts`` in flight, one per look."""

    row: Row
    counts: list[int]

    @property
    def state(self) -> str:
        """In words."""
        words = ["STARVES"] if self.row.starves else []
        words += ["nobody reads it"] if not self.row.consumers and self.row.messages else []
        return ", ".join(words)

    @property
    def oldest(self) -> str:
        """How long its oldest message has waited."""
        return "" if self.row.oldest_s is None else f"≥ {duration_text(int(self.row.oldest_s) * 10**9)}"


def shown(watch: Watch) -> list[Shown]:
    """Who is drawn, the largest share of memory first, then who starves."""
    counts: dict[str, list[int]] = {}
    for glance in watch.glances:
        for row in glance.rows:
            counts.setdefault(row.name, []).append(row.in_flight)
    rows = [row for row in watch.glances[-1].rows if row.messages or row.percent or any(counts[row.name])]
    rows.sort(key=lambda row: (not row.starves, -row.percent, -row.messages, row.name))
    return [Shown(row, counts[row.name]) for row in rows[:ROWS_MAX]]


def offset_words(offset: Offset | None) -> str:
    """The broker's clock beside this host's."""
    if offset is None:
        return "the broker's clock cannot be read here"
    moved = "" if offset.steady else "; it was moved while we looked"
    apart = f"{offset.middle_ms / 1000:+.2f} s ± {offset.plus_minus_ms / 1000:.2f} s"
    return f"the broker's clock is {apart} from this host's{moved}"


def screen(watch: Watch, where: str) -> RenderableType:
    """One picture for a terminal."""
    last = watch.glances[-1]
    bad = bool(last.troubles)
    parts: list[RenderableType] = [Text(f"{'✘' if bad else '✔'} {last.verdict}", style="bold red" if bad else "green")]
    parts += [Text(f"  {value}") for one in last.troubles for value in one.values[:3]]
    parts += [Text(f"  remedy: {one.remedy}") for one in last.troubles if one.remedy]
    parts.append(Text(f"{last.broker} at {where}, look {len(watch.glances)}, after {last.at_s:.0f} s", style="dim"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("destination", "memory", "waiting", "oldest", "in flight", "over time", ""):
        table.add_column(
            title, no_wrap=True, justify="right" if title in {"waiting", "oldest", "in flight"} else "left"
        )
    percent = last.percent if last.percent is not None else 0
    table.add_row("all of the broker", _bar(percent), "", "", "", "", "")
    drawn = shown(watch)
    for one in drawn:
        row = one.row
        style = "red" if row.starves else ""
        cells = [row.name, _bar(row.percent), f"{row.messages:,}", one.oldest, f"{row.in_flight:,}", spark(one.counts)]
        table.add_row(*cells, one.state, style=style)
    rest = len(last.rows) - len(drawn)
    quiet = [Text(f"and {rest} destinations without messages", style="dim")] if rest else []
    return Group(*parts, table, *quiet, Text(offset_words(last.offset)))


def _bar(percent: float) -> str:
    full = min(BAR, round(percent * BAR / 100))
    return f"{'█' * full}{'░' * (BAR - full)} {percent:3.0f} %"


def spark(counts: list[int]) -> str:
    """The last counts, from their lowest to their highest; what is below zero is ``▽``."""
    counts = counts[-SPARK:]
    top = max(*counts, 1)
    return "".join("▽" if one < 0 else BARS[min(len(BARS) - 1, one * (len(BARS) - 1) // top)] for one in counts)


def write_page(path: Path, watch: Watch, where: str, now_s: float) -> None:
    """Replace the page in one step."""
    drawn = shown(watch)
    end_ns = max(1, _ns(watch.glances[-1]))
    runs = {one.row.name: _points(watch, one.row.name) for one in drawn if any(one.counts)}
    text = (
        page_environment()
        .get_template("watch.html")
        .render(
            last=watch.glances[-1],
            where=where,
            looks=len(watch.glances),
            drawn=drawn,
            rest=len(watch.glances[-1].rows) - len(drawn),
            plots=[
                ("messages in flight", drawing(runs, end_ns)),
                ("broker's clock minus this host's, seconds", drawing({"broker": _clocks(watch)}, end_ns)),
            ],
            offset=offset_words(watch.glances[-1].offset),
            at=f"{datetime.fromtimestamp(now_s, UTC):%Y-%m-%d %H:%M:%S}Z",
            reload=RELOAD_S,
        )
    )
    hidden = path.with_name(f".{path.name}.new")
    hidden.write_text(text, encoding="utf-8")
    hidden.replace(path)


def drawing(runs: dict[str, Points], end_ns: int) -> Plot | None:
    """Curves on an axis of their own; None where there is nothing to draw."""
    values = [value for points in runs.values() for _, value in points]
    return (
        plot({name: one for name, one in runs.items() if one}, Axis(end_ns, min(0.0, *values), max(0.0, *values)))
        if values
        else None
    )


def _points(watch: Watch, name: str) -> Points:
    return [(_ns(glance), row.in_flight) for glance in watch.glances for row in glance.rows if row.name == name]


def _clocks(watch: Watch) -> Points:
    return [(_ns(one), one.offset.middle_ms / 1000) for one in watch.glances if one.offset is not None]


def _ns(glance: Glance) -> int:
    return round(glance.at_s * S_PER_NS)
