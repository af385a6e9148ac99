"""What an evidence page says: everything about one cell, gathered and put into words, before any markup.

Decides: which facts a page shows and in which order. The failure text comes from ``conformance.running.failure``
and is shown word for word, so that page, terminal and pytest never disagree; the page adds the drawing, the tables and
the links.

Rule: a page whose evidence files are missing or were changed says so instead of showing something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.requirements.catalogue import Catalogue, Requirement, Source
from brokerproof.conformance.running.failure import culprit, failure_text
from brokerproof.reports.render.story import Story, tell
from brokerproof.reports.render.timeline import Mark, Reading, Timeline, build_timeline
from brokerproof.reports.render.units import offset_text, rounded_text, true_text, wall_text
from brokerproof.reports.store.estimates import violation_bound
from brokerproof.reports.store.evidence import FOLDER, HISTORY, PROGRAM, read_evidence, replay_line
from brokerproof.reports.store.schema import Cell, Column, Evidence, Report, ReportError

#: Verdicts for which a reader needs the reason and the cure.
WRONG = (VerdictKind.VIOLATED, VerdictKind.KNOWN_FAILURE)
#: Fewer runs bound next to nothing.
BOUNDED_FROM = 30


class EventRow(msgspec.Struct, frozen=True):
    """One line of the table of events."""

    seq: int
    true: str
    host: str
    wall: str
    kind: str
    summary: str
    witness: bool
    good: bool


class ClockCell(msgspec.Struct, frozen=True):
    """What one clock read."""

    wall: str
    offset: str
    plus_minus: str


class ClockRow(msgspec.Struct, frozen=True):
    """What all clocks read at one moment, in the order of the lanes."""

    true: str
    label: str
    witness: bool
    clocks: list[ClockCell | None]


class Display(msgspec.Struct, frozen=True):
    """One run, laid out."""

    evidence: Evidence
    verdict: Verdict
    culprit: str
    text: str
    story: Story
    timeline: Timeline
    events: list[EventRow]
    clocks: list[ClockRow]
    #: What the drawing's script needs of each event: times in microseconds, by each clock.
    instants: list[dict[str, object]]
    program_path: str
    history_path: str | None


class Page(msgspec.Struct, frozen=True):
    """One evidence page.

    ``display`` is None where there was nothing to show; ``trouble`` says why evidence could not be read.
    """

    requirement: Requirement
    sources: str
    area: str
    column: Column
    cell: Cell
    margin: str
    percentiles: str
    bound: str
    why_this_run: str
    display: Display | None
    trouble: str


def build_page(folder: Path, report: Report, cell: Cell, catalogue: Catalogue, stand: Path | None = None) -> Page:
    """Gather everything about one cell.

    Unreadable evidence becomes ``trouble``, never an exception: one bad file must not cost the whole report.
    """
    requirement = catalogue[cell.requirement]
    column = next(column for column in report.columns if column.broker == cell.broker)
    display, trouble = None, ""
    if cell.example is not None:
        evidence = report.examples()[cell.example.evidence]
        try:
            result = read_evidence(folder, evidence, [cell.example.verdict])
            replay = replay_line(evidence, stand) if stand is not None else evidence.replay
            display = build_display(result, evidence, cell.example.verdict, catalogue, replay)
        except ReportError as error:
            trouble = str(error)
    return Page(
        requirement,
        sources_text(requirement.source),
        report.areas.get(requirement.area, requirement.area),
        column,
        cell,
        margin_text(cell.verdict),
        percentiles_text(cell.slacks_ns),
        bound_text(cell),
        _why_this_run(cell),
        display,
        trouble,
    )


def build_display(
    result: RunResult, evidence: Evidence, verdict: Verdict, catalogue: Catalogue, replay: str
) -> Display:
    """Lay out one run."""
    history = result.history
    if history is None:
        raise ReportError(f"evidence of {evidence.run}: has no history; run the suite again")
    timeline = build_timeline(result.program, history, verdict.witness)
    hosts = [lane.host for lane in timeline.lanes]
    place = f"{FOLDER}/{evidence.id}"
    return Display(
        evidence=evidence,
        verdict=verdict,
        culprit=culprit(result, verdict),
        text=failure_text(result, verdict, catalogue, replay),
        story=tell(result.program),
        timeline=timeline,
        events=[_event_row(mark) for mark in timeline.marks],
        clocks=_clock_rows(timeline.readings, hosts),
        instants=[_instant(mark, clocks) for mark, clocks in zip(timeline.marks, timeline.instants, strict=True)],
        program_path=f"{place}/{PROGRAM}",
        history_path=f"{place}/{HISTORY}",
    )


def margin_text(verdict: Verdict) -> str:
    """How close it was: ``12 ms to spare``, ``too early or too late by 1.1 ms``; "" where nothing was timed."""
    if verdict.slack_ns is None:
        return ""
    size = rounded_text(abs(verdict.slack_ns))
    return f"missed by {size}" if verdict.slack_ns < 0 else f"{size} to spare"


def percentiles_text(slacks_ns: Sequence[int]) -> str:
    """What the 1st, 50th and 99th percentile of many runs' slacks say; "" where there are none."""
    if not slacks_ns:
        return ""
    few, half, most = (rounded_text(slack, sign=slack < 0) for slack in slacks_ns)
    return f"1 % of the runs came to {few} or less, half to {half} or less, 99 % to {most} or less"


def bound_text(cell: Cell) -> str:
    """How much could still be violated, where many runs satisfied it and none violated it; "" elsewhere."""
    satisfied = sum(world.verdicts.get(VerdictKind.SATISFIED, 0) for world in cell.worlds)
    if cell.verdict.verdict is not VerdictKind.SATISFIED or satisfied < BOUNDED_FROM:
        return ""
    bound = violation_bound(satisfied)
    return f"None of {satisfied:,} runs violated it: with 95 % confidence fewer than {bound:.2%} of such runs do."


def sources_text(sources: Iterable[Source]) -> str:
    """Where a requirement comes from, in words; sentences of one seed are put together."""
    sentences: dict[str, list[str]] = {}
    others: dict[str, None] = {}
    for source in sources:
        if source.seed is not None:
            numbers = sentences.setdefault(source.seed, [])
            if source.sentence is not None:
                numbers.append(str(source.sentence))
        if source.clause is not None:
            others[source.clause] = None
        if source.observed is not None:
            others[f"observed: {source.observed}"] = None
    words = []
    for seed, numbers in sentences.items():
        plural = "s" if len(numbers) > 1 else ""
        words.append(f"seed {seed}" + (f", sentence{plural} {', '.join(numbers)}" if numbers else ""))
    return "; ".join([*words, *others])


def _why_this_run(cell: Cell) -> str:
    if cell.example is None:
        return ""
    kind = cell.example.verdict.verdict
    same = sum(world.verdicts.get(kind, 0) for world in cell.worlds)
    others = f"one of {same:,} such runs".replace(",", "\u202f") if same > 1 else "the only such run"
    reason = "the one with the most situations" if kind is VerdictKind.SATISFIED else "the one with the fewest steps"
    return f"{others}, {reason}" if same > 1 else others


def _event_row(mark: Mark) -> EventRow:
    true = true_text(mark.t0_ns)
    if mark.t1_ns != mark.t0_ns:
        true = f"{true} \u2013 {true_text(mark.t1_ns)}"
    wall = ""
    if mark.wall_ns is not None:
        low, high = mark.wall_ns
        # Within a run the date says nothing new; the table of clocks shows it.
        wall = wall_text((low + high) // 2, (high - low) // 2).split(" ", 1)[-1]
    return EventRow(mark.seq, true, mark.host or "observer", wall, mark.kind, mark.summary, mark.witness, mark.good)


def _instant(mark: Mark, clocks: dict[str, tuple[int, int, int] | None]) -> dict[str, object]:
    known = {host: clock for host, clock in clocks.items() if clock is not None}
    return {
        "seq": mark.seq,
        "words": f"{mark.kind} on {mark.host or 'observer'} at {true_text(mark.t1_ns)} ms: {mark.summary}",
        "messages": mark.messages,
        "times": {"": mark.t1_ns / 1000, **{host: (mark.t1_ns + clock[0]) / 1000 for host, clock in known.items()}},
        "walls": {
            host: f"{wall_text(wall, error)} ({offset_text(off, error)})" for host, (off, wall, error) in known.items()
        },
    }


def _clock_rows(readings: list[Reading], hosts: list[str]) -> list[ClockRow]:
    """Moments of one kind at which no clock had moved against true time are one row."""
    rows: list[ClockRow] = []

    def kind(reading: Reading) -> tuple[str, bool, list[str]]:
        offsets = [(clock and clock.offset) or "" for clock in _clock_row(reading, hosts).clocks]
        return reading.label.partition(" (event")[0], reading.witness, offsets

    for (label, _, _), group in groupby(readings, key=kind):
        same = list(group)
        row = _clock_row(same[0], hosts)
        if len(same) > 1:
            until = true_text(same[-1].true_ns)
            row = msgspec.structs.replace(row, true=f"{row.true} \u2013 {until}", label=f"{label} ({len(same)} events)")
        rows.append(row)
    return rows


def _clock_row(reading: Reading, hosts: list[str]) -> ClockRow:
    cells: list[ClockCell | None] = []
    for host in hosts:
        value = reading.clocks.get(host)
        if value is None:
            cells.append(None)
            continue
        offset_ns, wall_ns, error_ns = value
        plus_minus = f"± {rounded_text(error_ns)}" if error_ns else ""
        cells.append(ClockCell(wall_text(wall_ns, error_ns), offset_text(offset_ns, error_ns), plus_minus))
    return ClockRow(true_text(reading.true_ns), reading.label, reading.witness, cells)
