"""What a reader is told first: what is wrong, grouped by cause, and what was not tried, grouped by reason.

Rules
* Cells of a broker that show the same run have one cause: the smallest program that breaks the one breaks the other.
  What is merely in doubt is never the cause of what is wrong.
* What is wrong comes first by the level of its requirement, then by how sure it is: violated, known, not met,
  inconclusive.
* Everything that no run decided has a reason; requirements with the same reason are one line.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from brokerproof.conformance.experiment.verdict import RANK, VerdictKind
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.reports.store.schema import Cell, Report

#: What is wrong or in doubt.
WRONG = (VerdictKind.VIOLATED, VerdictKind.KNOWN_FAILURE, VerdictKind.NOT_MET, VerdictKind.INCONCLUSIVE)
#: What nobody tried, nearest to being tried first.
UNTRIED = (VerdictKind.NOT_RUN, VerdictKind.NOT_EXERCISED, VerdictKind.NOT_APPLICABLE)
#: Events in a sentence that is read in passing.
EVENTS_SHOWN = 2
_LEVELS = ("MUST", "SHOULD", "MAY")
NO_REASON = {
    VerdictKind.NOT_EXERCISED: "no run created the situation",
    VerdictKind.NOT_APPLICABLE: "the broker, or the way we reach it, does not offer this",
    VerdictKind.NOT_RUN: "a tool was missing",
}


class Cause(msgspec.Struct, frozen=True):
    """Cells of one broker that one run shows broken; the first is the one to read."""

    cells: list[Cell]

    @property
    def first(self) -> Cell:
        """The one to read."""
        return self.cells[0]

    def sentence(self) -> str:
        """``6 delivered, 5 allowed``: what was observed in the run that is shown, else in all; in brief."""
        example, verdict = self.first.example, self.first.verdict
        if verdict.verdict is VerdictKind.INCONCLUSIVE and verdict.unknown:
            reasons = "; or ".join(KINDS.get(mark, mark) for mark in verdict.unknown)
            return f"{verdict.text.partition(' (')[0]}: {reasons}"
        return brief((example.verdict.text if example is not None else "") or self.first.verdict.text)


def brief(text: str) -> str:
    """What was observed with the first events that prove it; a page of its own has the others."""
    parts = text.split("; ")
    more = len(parts) - EVENTS_SHOWN
    return text if more < 1 else f"{'; '.join(parts[:EVENTS_SHOWN])}; … and {more} more"


class Reason(msgspec.Struct, frozen=True):
    """Why some requirements were not tried."""

    kind: VerdictKind
    text: str
    requirements: list[str]


def causes(report: Report, broker: str) -> list[Cause]:
    """What is wrong with a broker."""
    levels = {one.id: _LEVELS.index(one.level) for one in report.requirements}

    def order(cell: Cell) -> tuple[int, int, str]:
        return WRONG.index(cell.verdict.verdict), levels.get(cell.requirement, 0), cell.requirement

    found: dict[tuple[bool, str], list[Cell]] = {}
    wrong = [cell for cell in report.cells if cell.broker == broker and cell.verdict.verdict in WRONG]
    for cell in sorted(wrong, key=order):
        shown = cell.requirement if cell.example is None else cell.example.evidence
        found.setdefault((cell.verdict.verdict is VerdictKind.INCONCLUSIVE, shown), []).append(cell)
    return [Cause(cells) for cells in found.values()]


def untried(report: Report, broker: str, kinds: Sequence[VerdictKind] = UNTRIED) -> list[Reason]:
    """What was not tried, the reason with the most requirements first within its kind."""
    found: dict[tuple[VerdictKind, str], list[str]] = {}
    for cell in report.cells:
        kind = cell.verdict.verdict
        if cell.broker == broker and kind in kinds:
            found.setdefault((kind, cell.verdict.text or NO_REASON[kind]), []).append(cell.requirement)
    reasons = [Reason(kind, text, ids) for (kind, text), ids in found.items()]
    return sorted(reasons, key=lambda one: (-RANK[one.kind], -len(one.requirements), one.text))
