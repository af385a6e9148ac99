"""What changed between two columns: the same requirements, before and after.

Rules
* A change is named by what a reader must do: ``newly violated``, ``fixed``, ``lost`` (was decided, is not any more),
  ``gained``, ``doubtful`` (was kept, is undecided), ``other``.
* A requirement whose sentence or level is another one changed its meaning: its verdicts are not compared, it is listed.
* Slack that shrank below half of what it was is told, because the next slow machine makes it a violation.
"""

from __future__ import annotations

import msgspec

from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.reports.render.html import page_environment
from brokerproof.reports.render.markdown import escape
from brokerproof.reports.render.units import rounded_text
from brokerproof.reports.render.words import LOOKS
from brokerproof.reports.store.schema import Report, ReportError

NEW = "newly violated"
FIXED = "fixed"
#: In the order in which they are told.
KINDS = (NEW, "lost", "doubtful", FIXED, "gained", "other")
_BROKEN = {VerdictKind.VIOLATED, VerdictKind.NOT_MET, VerdictKind.KNOWN_FAILURE}
_DECIDED = {*_BROKEN, VerdictKind.SATISFIED}


class Change(msgspec.Struct, frozen=True):
    """One requirement that is not what it was."""

    requirement: str
    level: str
    sentence: str
    kind: str
    before: Verdict
    after: Verdict

    def words(self) -> str:
        """``✔ satisfied → ✘ violated: lost p0/1``."""
        shown = " → ".join(f"{LOOKS[one.verdict].symbol} {one.verdict.value}" for one in (self.before, self.after))
        return f"{shown}: {self.after.text}" if self.after.text else shown


class Changes(msgspec.Struct, frozen=True):
    """Everything that changed from one column to another."""

    before: str
    after: str
    changes: list[Change]
    meanings: list[str]
    added: list[str]
    removed: list[str]
    slack: list[str]
    same: int

    @property
    def worse(self) -> bool:
        """Whether a MUST is newly violated."""
        return any(one.kind == NEW and one.level == "MUST" for one in self.changes)


def compare(old: Report, new: Report, before: str, after: str) -> Changes:
    """Compare a column of one report with a column of another."""
    olds = {one.id: one for one in old.requirements}
    news = {one.id: one for one in new.requirements}
    meanings = [
        name
        for name, one in news.items()
        if name in olds and (one.sentence, one.level) != (olds[name].sentence, olds[name].level)
    ]
    left, right = _verdicts(old, before), _verdicts(new, after)
    both = [name for name in news if name in left and name in right and name not in meanings]
    found = [
        Change(name, news[name].level, news[name].sentence, kind, left[name], right[name])
        for name in both
        if (kind := _kind(left[name].verdict, right[name].verdict))
    ]
    found.sort(key=lambda one: (KINDS.index(one.kind), one.requirement))
    return Changes(
        before,
        after,
        found,
        meanings,
        added=sorted(set(news) - set(olds)),
        removed=sorted(set(olds) - set(news)),
        slack=[words for name in both if (words := _slack(left[name], right[name]))],
        same=len(both) - len(found),
    )


def columns_to_compare(old: Report, new: Report) -> list[tuple[str, str]]:
    """The columns that both have; else the only one of each. Raises ``ReportError``."""
    olds, news = [[column.broker for column in report.columns] for report in (old, new)]
    common = [(name, name) for name in olds if name in news]
    if common:
        return common
    if len(olds) == len(news) == 1:
        return [(olds[0], news[0])]
    raise ReportError(f"no column of {olds} is in {news}; compare reports of one broker each, or of the same brokers")


def as_text(found: Changes) -> list[str]:
    """Lines for a terminal."""
    lines = [f"{found.before} → {found.after}"]
    lines += [f"{one.kind:<14}  {one.requirement} ({one.level})  {one.words()}" for one in found.changes]
    return [*lines, *(f"{name:<14}  {words}" for name, words in _rest(found)), _last(found)]


def as_markdown(found: Changes) -> list[str]:
    """Lines for a pull request."""
    lines = [f"### {escape(found.before)} → {escape(found.after)}", ""]
    if found.changes:
        lines += ["| | requirement | level | |", "|---|---|---|---|"]
        lines += [
            f"| {'**' if one.kind == NEW else ''}{one.kind}{'**' if one.kind == NEW else ''} | {one.requirement} "
            f"{escape(one.sentence)} | {one.level} | {escape(one.words())} |"
            for one in found.changes
        ]
    return [*lines, "", *(f"- {name}: {escape(words)}" for name, words in _rest(found)), "", _last(found), ""]


def as_page(report: Report, found: list[Changes]) -> str:
    """One page in one file; ``report`` is the later one."""
    return page_environment().get_template("diff.html").render(report=report, all=found, rest=_rest, last=_last)


def _rest(found: Changes) -> list[tuple[str, str]]:
    lists = {"new meaning": found.meanings, "added": found.added, "removed": found.removed}
    rows = [(name, ", ".join(ids)) for name, ids in lists.items() if ids]
    return [*rows, *(("less slack", words) for words in found.slack)]


def _last(found: Changes) -> str:
    counts = {kind: sum(one.kind == kind for one in found.changes) for kind in KINDS}
    words = [f"{count} {kind}" for kind, count in counts.items() if count]
    return ", ".join([*words, f"{found.same} as before"])


def _verdicts(report: Report, broker: str) -> dict[str, Verdict]:
    return {cell.requirement: cell.verdict for cell in report.cells if cell.broker == broker}


def _kind(before: VerdictKind, after: VerdictKind) -> str:
    if before is after:
        return ""
    if after in _BROKEN and before not in _BROKEN:
        return NEW
    if after is VerdictKind.SATISFIED:
        return FIXED if before in _BROKEN else "gained"
    if before in _DECIDED and after not in _DECIDED:
        return "doubtful" if after is VerdictKind.INCONCLUSIVE else "lost"
    return "other"


def _slack(before: Verdict, after: Verdict) -> str:
    if before.slack_ns is None or after.slack_ns is None or not 0 <= after.slack_ns * 2 < before.slack_ns:
        return ""
    return f"{after.requirement}: {rounded_text(before.slack_ns)} → {rounded_text(after.slack_ns)} to spare"
