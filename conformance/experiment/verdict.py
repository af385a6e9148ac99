"""Verdicts: one enumeration, one join, and the arithmetic of a cell.

Ten thousand runs become one cell of the matrix, so verdicts of one requirement are joined. The join is the maximum of a
total order, with the rows of both added up; hence associative and commutative, and idempotent per run and requirement
(``Tally``), because a run is added once:

    planned < not exercised < not applicable < not run < inconclusive < satisfied < not met < known failure < violated

One violation outweighs everything; a known failure is one that the reader knows already. What a broker does not offer
is a property of the broker, so programs that merely did not exercise it do not hide that. Then a cell is ``concluded``:
it is inconclusive if fewer than 95 % of its rows were decided, and a SHOULD or MAY that was violated is *not met*: it
never decides an exit code.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec


class VerdictKind(enum.StrEnum):
    """The enumeration. Values are what ``judge --json`` and the reports print."""

    PLANNED = "planned"
    NOT_EXERCISED = "not exercised"
    NOT_APPLICABLE = "not applicable"
    NOT_RUN = "not run"
    INCONCLUSIVE = "inconclusive"
    SATISFIED = "satisfied"
    NOT_MET = "not met"
    KNOWN_FAILURE = "known failure"
    VIOLATED = "violated"


ORDER: tuple[VerdictKind, ...] = tuple(VerdictKind)
RANK: dict[VerdictKind, int] = {kind: rank for rank, kind in enumerate(ORDER)}

#: Grades of a satisfied verdict, best first: several outcomes may be acceptable, not all equally good.
GRADES: tuple[str, ...] = ("ok", "acceptable", "violated")
#: So many further violations of one requirement are told of a run.
FURTHER_MAX = 50
#: A cell of which fewer rows than this share were decided is inconclusive.
DECIDED_PERCENT_MIN = 95


class Violation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A further violation of the same requirement in the same run; the fields are those of a verdict."""

    text: str
    outcome: str = ""
    witness: list[int] = []
    slack_ns: int | None = None


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one run says about one requirement (contracts.md section 4).

    ``outcome`` is the name of one of the requirement's outcomes; ``witness`` lists event numbers; ``slack_ns`` exists
    for timed claims and is negative when they are violated; ``text`` is one English sentence with every value.
    """

    requirement: str
    verdict: VerdictKind
    outcome: str = ""
    grade: str = "ok"
    situations: list[str] = []
    witness: list[int] = []
    slack_ns: int | None = None
    text: str = ""
    #: How many rows were decided, and how many could not be; the kinds of marks that kept them from it.
    decided: int = 0
    undecided: int = 0
    unknown: list[str] = []
    #: What else violates it in this run, at most ``FURTHER_MAX``: one that is known hides none that is not.
    further: list[Violation] = []

    def violation(self) -> Violation:
        """The one that it tells itself, where it is violated."""
        return Violation(self.text, self.outcome, self.witness, self.slack_ns)


def join_kinds(left: VerdictKind, right: VerdictKind) -> VerdictKind:
    """The stronger of two verdicts."""
    return left if RANK[left] >= RANK[right] else right


def join(left: Verdict, right: Verdict) -> Verdict:
    """Join two verdicts about the same requirement.

    The details (outcome, witness, text) are those of the stronger one; among equals those with the smaller slack, then
    the lesser in a fixed order, so that the result does not depend on the order of joining. Situations are united, the
    slack is the smallest seen, rows are added up. Raises ``ValueError`` for different requirements.
    """
    if left.requirement != right.requirement:
        raise ValueError(f"cannot join verdicts of {left.requirement} and {right.requirement}")
    first = min(left, right, key=_preference)
    slacks = [slack for slack in (left.slack_ns, right.slack_ns) if slack is not None]
    return msgspec.structs.replace(
        first,
        grade=max(left.grade, right.grade, key=GRADES.index) if left.verdict is right.verdict else first.grade,
        situations=sorted({*left.situations, *right.situations}),
        slack_ns=min(slacks) if slacks else None,
        decided=left.decided + right.decided,
        undecided=left.undecided + right.undecided,
        unknown=sorted({*left.unknown, *right.unknown}),
    )


def _same_run(left: Verdict, right: Verdict) -> Verdict:
    """The join of what was said of one run twice: its rows are the same rows."""
    decided, undecided = max(left.decided, right.decided), max(left.undecided, right.undecided)
    return msgspec.structs.replace(join(left, right), decided=decided, undecided=undecided)


def concluded(cell: Verdict, level: str) -> Verdict:
    """What a cell of joined runs amounts to, given the requirement's level (MUST, SHOULD, MAY)."""
    if cell.verdict is VerdictKind.VIOLATED and level != "MUST":
        return msgspec.structs.replace(cell, verdict=VerdictKind.NOT_MET)
    rows = cell.decided + cell.undecided
    if cell.verdict is VerdictKind.SATISFIED and cell.decided * 100 < rows * DECIDED_PERCENT_MIN:
        why = f" ({', '.join(cell.unknown)})" if cell.unknown else ""
        text = f"{cell.undecided} of {rows} observations could not be decided{why}"
        return msgspec.structs.replace(cell, verdict=VerdictKind.INCONCLUSIVE, outcome="", text=text)
    return cell


def _preference(verdict: Verdict) -> tuple[int, int, str, str, list[int]]:
    return (-RANK[verdict.verdict], -GRADES.index(verdict.grade), verdict.outcome, verdict.text, verdict.witness)


def join_all(verdicts: Iterable[Verdict]) -> dict[str, Verdict]:
    """One verdict per requirement."""
    cells: dict[str, Verdict] = {}
    for verdict in verdicts:
        present = cells.get(verdict.requirement)
        cells[verdict.requirement] = verdict if present is None else join(present, verdict)
    return cells


class Tally:
    """Verdicts of many runs, by requirement and run. Adding a run again is harmless."""

    __slots__ = ("_by_requirement",)

    def __init__(self) -> None:
        self._by_requirement: dict[str, dict[str, Verdict]] = {}

    def add(self, run: str, verdict: Verdict) -> None:
        """Record what ``run`` (a name that is unique per program, world and broker) says about a requirement. What else
        violates it there is told of the run, not of the cell.
        """
        verdict = msgspec.structs.replace(verdict, further=[]) if verdict.further else verdict
        runs = self._by_requirement.setdefault(verdict.requirement, {})
        present = runs.get(run)
        runs[run] = verdict if present is None else _same_run(present, verdict)

    def cell(self, requirement: str) -> Verdict | None:
        """The joined verdict of a requirement, or None when no run spoke of it."""
        runs = self._by_requirement.get(requirement)
        if not runs:
            return None
        return join_all(runs.values())[requirement]

    def counts(self, requirement: str) -> dict[VerdictKind, int]:
        """How many runs gave each verdict."""
        counts = dict.fromkeys(ORDER, 0)
        for verdict in self._by_requirement.get(requirement, {}).values():
            counts[verdict.verdict] += 1
        return counts

    def requirements(self) -> list[str]:
        """Requirements that any run spoke of, sorted."""
        return sorted(self._by_requirement)

    def runs(self, requirement: str) -> dict[str, Verdict]:
        """Run -> verdict of a requirement."""
        return self._by_requirement.get(requirement, {})
