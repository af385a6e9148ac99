"""What a run says on the terminal.

Order: a line per area (``verbose``: per requirement), why what was not tried was not, the text of the first violations,
then counts per verdict, one line per violated requirement (id, broker, replay line), problems, what fell silent, and
``verdict digest: sha256:…``. The last line is meant for ``tail -1`` and for comparing two runs. ``quiet``: only what is
wrong.

Rules: everything goes to the console that was given (stdout by default); colour only on a terminal and never instead of
a word; nothing is wrapped in the lines that a person copies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from brokerproof.conformance.experiment.exits import INCONCLUSIVE
from brokerproof.conformance.experiment.results import Silence
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.reports.render.causes import brief, untried
from brokerproof.reports.render.words import LOOKS
from brokerproof.reports.store.evidence import replay_line
from brokerproof.reports.store.schema import Cell, Report

#: Width where the output is no terminal: wide enough for build logs.
WIDTH_PLAIN = 120
#: Failures printed in full; the rest has its line and its page.
FAILURES_SHOWN = 3
#: Reasons for what was not tried, per broker; the page has all.
REASONS_SHOWN = 8
IDS_SHOWN = 6

FailureText = Callable[[Cell], str]


def make_console(*, stderr: bool = False) -> Console:
    """A console for stdout: its own width on a terminal, elsewhere ``COLUMNS`` or ``WIDTH_PLAIN``. ``NO_COLOR`` is
    heard.
    """
    console = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if console.is_terminal:
        return console
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdigit() and int(columns) else WIDTH_PLAIN
    return Console(stderr=stderr, highlight=False, width=width, no_color=True)


def print_report(
    console: Console,
    report: Report,
    brokers: list[str],
    *,
    folder: Path,
    failure: FailureText,
    digest: str,
    more: Sequence[str] = (),
    verbose: bool = False,
    quiet: bool = False,
) -> None:
    """Print the columns of ``brokers`` and the closing lines; ``more`` comes between the counts and the last two."""
    cells = [cell for cell in report.cells if cell.broker in brokers]
    if not quiet:
        console.print(_table(report, brokers) if verbose else _areas(report, brokers))
        _untried(console, report, brokers)
    violated = [cell for cell in cells if cell.verdict.verdict is VerdictKind.VIOLATED]
    for cell in violated[:FAILURES_SHOWN]:
        console.print()
        _plain(console, failure(cell))
    if len(violated) > FAILURES_SHOWN:
        console.print()
        _plain(console, f"… and {len(violated) - FAILURES_SHOWN} more, each with a page in {folder / 'index.html'}")
    if not quiet:
        console.print()
        for broker in brokers:
            _counts(console, report, broker)
    for cell in cells:
        if cell.verdict.verdict is VerdictKind.NOT_MET:
            line = f"not met   {cell.requirement}  {cell.broker}  {brief(cell.verdict.text)}"
            _plain(console, line, style=LOOKS[VerdictKind.NOT_MET].style)
    for cell in violated:
        _plain(console, violated_line(report, cell, folder), style=LOOKS[VerdictKind.VIOLATED].style)
    _notes(console, report, brokers)
    if quiet:
        return
    for line in more:
        _plain(console, line)
    _plain(console, f"report: {folder / 'index.html'}")
    _plain(console, f"verdict digest: {digest}")


def _notes(console: Console, report: Report, brokers: list[str]) -> None:
    """Problems of the suite, what fell silent, what was not run."""
    levels = {one.id: one.level for one in report.requirements}
    for column in report.columns:
        if column.broker in brokers:
            for note in column.problems:
                _plain(console, f"suite problem  {note.run}: {note.text}", style="bold red")
            for silence in column.silent:
                _plain(console, silence_line(silence, levels[silence.requirement]), style="bold yellow")
            for note in column.not_run:
                _plain(console, f"not run        {note.run}: {note.text}", style=LOOKS[VerdictKind.NOT_RUN].style)


def violated_line(report: Report, cell: Cell, folder: Path) -> str:
    """``violated  DLY-003  reference  brokerproof replay …``."""
    replay = ""
    if cell.example is not None:
        replay = replay_line(report.examples()[cell.example.evidence], folder)
    return f"violated  {cell.requirement}  {cell.broker}  {replay}".rstrip()


def silence_line(silence: Silence, level: str) -> str:
    """``fell silent  GEN-061  activemq/live/NAME: c0: send p0/1 fail; on the reference broker: c0: send p0/1 ok``, and
    of a MUST that this decides the exit code.
    """
    answers = f"{silence.found}; on the reference broker: {silence.expected}"
    decides = f" (a MUST: exit code {INCONCLUSIVE})" if level == "MUST" else ""
    return f"fell silent  {silence.requirement}  {silence.run}: {answers}{decides}"


def _areas(report: Report, brokers: list[str]) -> Table:
    """A line per area: how many requirements have which verdict."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("area", no_wrap=True)
    table.add_column("", overflow="ellipsis", no_wrap=True, max_width=40)
    columns = _columns(report, brokers)
    for broker, world in columns:
        table.add_column(_named(broker, world))
    for area, title in report.areas.items():
        counts = [report.totals(broker, area, world) for broker, world in columns]
        if any(count for totals in counts for count in totals.values()):
            table.add_row(area, title, *(_looks(totals, words=False) for totals in counts))
    return table


def _untried(console: Console, report: Report, brokers: list[str]) -> None:
    """Why what was not tried was not."""
    for broker in brokers:
        reasons = untried(report, broker)
        for reason in reasons[:REASONS_SHOWN]:
            look, count = LOOKS[reason.kind], len(reason.requirements)
            ids = ", ".join(reason.requirements[:IDS_SHOWN]) + (", …" if count > IDS_SHOWN else "")
            console.print(Text(f"{look.symbol} {count} {reason.kind.value}: {reason.text} ({ids})", look.style))
        if len(reasons) > REASONS_SHOWN:
            left = sum(len(reason.requirements) for reason in reasons[REASONS_SHOWN:])
            console.print(
                Text(f"… and {left} more requirements for {len(reasons) - REASONS_SHOWN} more reasons", "dim")
            )


def _table(report: Report, brokers: list[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("", no_wrap=True, min_width=7)
    table.add_column("requirement", no_wrap=True, overflow="ellipsis", ratio=1)
    columns = _columns(report, brokers)
    for broker, world in columns:
        table.add_column(_named(broker, world), no_wrap=True, overflow="ellipsis", min_width=24)
    grid = report.grid()
    area = ""
    for requirement in report.requirements:
        cells = [(grid.get((requirement.id, broker)), world) for broker, world in columns]
        if not any(cell for cell, _ in cells):
            continue
        if area and requirement.area != area:
            table.add_section()
        area = requirement.area
        table.add_row(requirement.id, Text(requirement.sentence), *(_cell(cell, world) for cell, world in cells))
    return table


def _columns(report: Report, brokers: list[str]) -> list[tuple[str, str]]:
    """(broker, world); the world is "" of a broker that ran in one only."""
    return [(broker, world) for broker in brokers for world in report.sides(broker)]


def _named(broker: str, world: str) -> str:
    return f"{broker}, {world}" if world else broker


def _cell(cell: Cell | None, world: str) -> Text:
    if cell is None:
        return Text("· no record", style="dim")
    kind = cell.kind_in(world) if world else cell.verdict.verdict
    look = LOOKS[kind]
    text = Text(f"{look.symbol} {kind.value}", style=look.style)
    if kind is VerdictKind.SATISFIED and cell.verdict.grade != "ok":
        text.append(f" ({cell.verdict.grade})")
    return text


def _counts(console: Console, report: Report, broker: str) -> None:
    for world in report.sides(broker):
        totals = _looks(report.totals(broker, world=world))
        console.print(Text(f"{_named(broker, world)}: ").append_text(totals), soft_wrap=True)


def _looks(totals: dict[VerdictKind, int], *, words: bool = True) -> Text:
    """``✘ 1 violated, ✔ 3 satisfied``; without words, as in a column: ``✘ 1  ✔ 3``."""
    parts = [
        Text(f"{look.symbol} {totals[kind]}{f' {kind.value}' if words else ''}", look.style)
        for kind, look in LOOKS.items()
        if totals[kind]
    ]
    return Text(", " if words else "  ").join(parts)


def _plain(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)
