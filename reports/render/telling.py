"""How a story looks: as text in a terminal, and as a page with both halves on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from brokerproof.conformance.operating.answer import YES
from brokerproof.conformance.running.telling import Check, Played
from brokerproof.conformance.stories import Story
from brokerproof.conformance.stories.break_even import WIDEST, BreakEven
from brokerproof.reports.render.clocks import Drawing, draw
from brokerproof.reports.render.curves import UNITS, Plot, axis, curves, plot, spark
from brokerproof.reports.render.html import page_environment
from brokerproof.reports.render.story import StepLine, tell
from brokerproof.reports.render.timeline import build_timeline

FOLDER = "stories"


class HalfPage(msgspec.Struct, frozen=True):
    """One half, laid out."""

    played: Played
    verdict: str
    plot: Plot | None
    drawing: Drawing | None
    steps: list[StepLine]


WASTE = ("half", "prefetch", "dispatch", "lowest in flight", "dispatched", "taken", "in vain")


def wastes(told: Sequence[tuple[Story, Sequence[Played]]]) -> list[list[str]]:
    """A cell for each column of ``WASTE``: of all halves about counts in flight whose figures were read, those with the
    largest prefetch first.
    """
    halves = [half for story, played in told if story.curve == "in-flight" for half in played]
    found = sorted(
        (one for half in halves for one in half.waste), key=lambda one: (-one.prefetch, one.dispatch, one.half)
    )
    return [
        [one.half, f"{one.prefetch:,}", one.dispatch]
        + [f"{number:,.0f}" for number in (one.lowest, one.dispatched, one.taken, one.wasted)]
        for one in found
    ]


def waste_text(told: Sequence[tuple[Story, Sequence[Played]]]) -> str:
    """The table of ``wastes``; "" for none."""
    rows = wastes(told)
    if not rows:
        return ""
    lines = [f"{row[0]:<32}" + "".join(f"{cell:>17}" for cell in row[1:]) for row in [list(WASTE), *rows]]
    return "\n".join(["wasted dispatches", *(f"  {line}" for line in lines), "", ""])


def verdict(half: Played) -> str:
    """In a few words."""
    if half.result.problem or half.result.not_run:
        return f"not run: {half.result.problem or half.result.not_run}"
    return "as documented" if half.holds else "NOT as documented" if half.fails else "this broker does not show it"


def story_text(story: Story, played: Sequence[Played]) -> str:
    """All of it for a terminal."""
    first = played[0].result
    lines = [f"{story.name}: {story.title}", f"{first.broker}, {first.world}"]
    runs = [{} if half.result.history is None else curves(half.result.history, story.curve) for half in played]
    on = axis(runs, [half.result.history for half in played])
    for half, run in zip(played, runs, strict=True):
        lines += ["", f"{half.half}: {verdict(half)}"]
        history = half.result.history
        if history is None:
            continue
        lines += [f"  {name:<8} |{spark(points, on)}| {points[-1][1]:,.6g}" for name, points in run.items()]
        lines += [f"  {'':<8}  {UNITS[story.curve]}, over {on.end_ns / 1e9:,.3g} s"] if run else []
        lines += [f"  {names}: {end}" for names, end in half.ends[:10]]
        lines += [f"  {line}" for line in half.closings]
        lines += [f"  {_mark(one)} {one.what}: {one.found} (documented: {one.expected})" for one in half.checks]
        lines += [f"      {one.text}" for one in half.checks if one.holds is False and one.text]
        lines += _said_text(half) if half.half == "sick" else []
    return "\n".join([*lines, "", f"remedy: {story.remedy}", f"price:  {story.price}", ""])


def _said_text(half: Played) -> list[str]:
    found = half.said
    if found is None:
        return []
    answers = [answer for answer in found[1] if answer.answer == YES]
    told = [f"    {line}" for answer in answers for line in answer.text().rstrip().split("\n")]
    return [f"  {found[0]}:", *(told or ["    no problem is seen"])]


def _mark(check: Check) -> str:
    return {True: "✓", False: "✗", None: "?"}[check.holds]


def break_even_text(found: Sequence[BreakEven]) -> str:
    """A table of where messages begin to be lost; "" for none."""
    if not found:
        return ""
    rows = [
        "break-even skew of messages that live 120,000 ms",
        f"  {'policy':<36}{'':<16}{'measured, ms':<22}{'theory, ms':<12}on the way",
    ]
    for one in found:
        theory = "never" if one.policy.theory_ms is None else f"{one.policy.theory_ms:,}"
        policy = f"{'✓' if one.agrees else '✗'} {one.policy.name:<36}{one.policy.moves:<16}"
        rows.append(f"{policy}{measured(one):<22}{theory:<12}{one.way_ms:.1f} ms")
    return "\n".join([*rows, ""])


def measured(one: BreakEven) -> str:
    """Between which skews messages begin to be lost."""
    return f"never up to {one.borne_ms:,}" if one.broken_ms is None else f"{one.borne_ms:,} to {one.broken_ms:,}"


def write_pages(folder: Path, told: Sequence[tuple[Story, Sequence[Played]]], found: Sequence[BreakEven] = ()) -> Path:
    """A page for each story and an index, with the break-even skews that were found; the index's path."""
    look = page_environment()
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    for story, played in told:
        text = look.get_template("story.html").render(
            story=story, halves=_halves(story, played), unit=UNITS[story.curve], first=played[0].result
        )
        (folder / FOLDER / f"{story.name}.html").write_text(text, encoding="utf-8")
    rows = [(story, [verdict(half) for half in played]) for story, played in told]
    index = folder / FOLDER / "index.html"
    index.write_text(
        look.get_template("stories.html").render(
            rows=rows, found=found, widest=WIDEST, measured=measured, wastes=wastes(told), waste=WASTE
        ),
        encoding="utf-8",
    )
    return index


def _halves(story: Story, played: Sequence[Played]) -> list[HalfPage]:
    histories = [half.result.history for half in played]
    runs = [{} if history is None else curves(history, story.curve) for history in histories]
    on = axis(runs, histories)
    return [_half(half, plot(run, on) if run else None) for half, run in zip(played, runs, strict=True)]


def _half(half: Played, drawn: Plot | None) -> HalfPage:
    history, program = half.result.history, half.result.program
    drawing = None if history is None else draw(build_timeline(program, history, []))
    return HalfPage(half, verdict(half), drawn, drawing, tell(program).steps)
