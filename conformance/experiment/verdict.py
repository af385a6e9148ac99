"""Verdicts: one enumeration, one join.

Ten thousand runs become one cell of the matrix, so verdicts of one requirement are joined. The join is the maximum of a
total order, hence associative, commutative and idempotent (property-tested in tests/fast/test_verdict.py):

    planned < not applicable < not exercised < not run < satisfied < inconclusive < known failure < violated

Reasons for the order: one violation outweighs everything; a known failure is a violation that the reader already knows,
so only a new violation outweighs it; an inconclusive run casts doubt on satisfied ones; a satisfied run is worth more
than runs that could not happen.

Counts per verdict are kept per *run and requirement* (``Tally``), so that adding the same run twice changes nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec


class VerdictKind(enum.StrEnum):
    """The enumeration. Values are what ``judge --json`` and the reports print."""

    PLANNED = "planned"
    NOT_APPLICABLE = "not applicable"
    NOT_EXERCISED = "not exercised"
    NOT_RUN = "not run"
    SATISFIED = "satisfied"
    INCONCLUSIVE = "inconclusive"
    KNOWN_FAILURE = "known failure"
    VIOLATED = "violated"


ORDER: tuple[VerdictKind, ...] = tuple(VerdictKind)
RANK: dict[VerdictKind, int] = {kind: rank for rank, kind in enumerate(ORDER)}

#: Grades of a satisfied verdict, best first: several outcomes may be acceptable, not all equally good.
GRADES: tuple[str, ...] = ("ok", "acceptable", "violated")


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


def join_kinds(left: VerdictKind, right: VerdictKind) -> VerdictKind:
    """The stronger of two verdicts."""
    return left if RANK[left] >= RANK[right] else right


def join(left: Verdict, right: Verdict) -> Verdict:
    """Join two verdicts about the same requirement.

    The details (outcome, witness, text) are those of the stronger one; among equals those with the smaller slack, then
    the lesser in a fixed order, so that the result does not depend on the order of joining. Situations are united, the
    slack is the smallest seen. Raises ``ValueError`` for different requirements.
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
    )


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
        """Record what ``run`` (a name that is unique per program, world and broker) says about a requirement."""
        runs = self._by_requirement.setdefault(verdict.requirement, {})
        present = runs.get(run)
        runs[run] = verdict if present is None else join(present, verdict)

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
