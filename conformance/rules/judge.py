"""The judge: runs the rules over the facts of one history and joins what they find into one verdict per requirement.

Rules
* A run is *violated* if any row is, for certain; else *satisfied* if at least one row was decided; else *inconclusive*
  if rows could not be decided; else *not exercised*.
* A requirement whose capability the header does not list is *not applicable*, naming the capability.
* A fault without evidence makes every verdict that depends on that kind of fault *not run* (DESIGN section 7).
* Where an agent did not answer its observer, what it did is not known: only what was decided until then counts, the
  rest is *inconclusive*.
* The judge knows no broker: a history written by anybody is judged by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache, reduce
from typing import Any

import msgspec

from brokerproof.conformance.experiment.history import ClockSample, Event, Fault, History, Pause
from brokerproof.conformance.experiment.verdict import FURTHER_MAX, Verdict, VerdictKind, Violation, join
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.collecting import uncollected
from brokerproof.conformance.facts.describing import describe, witness_of
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.network import histories
from brokerproof.conformance.facts.spans import NEVER, ms
from brokerproof.conformance.requirements.catalogue import Catalogue, Requirement, default_catalogue
from brokerproof.conformance.rules.areas import RULES
from brokerproof.conformance.rules.rule import Finding, Rule

Selection = Callable[[Facts], Sequence[Any]]


class Claim:
    """What one run says about one requirement, row by row. The first violation is the witness; a later one with a
    worse slack replaces it.
    """

    # fmt: off
    __slots__ = ("_requirement", "breaches", "broken", "decided", "held", "marks", "situations", "slack_ns",
                 "undecided", "widest")
    # fmt: on

    def __init__(self, requirement: Requirement) -> None:
        self._requirement = requirement
        self.decided = 0
        self.undecided = 0
        self.broken: Finding | None = None
        self.breaches: list[Finding] = []
        self.held: Finding | None = None
        self.widest: Finding | None = None
        self.situations: dict[str, None] = {}
        self.slack_ns: int | None = None
        #: Bits of the marks that kept rows from being decided.
        self.marks = 0

    def add(self, finding: Finding, unhandled: int) -> None:
        """One finding, about a row with these marks that its rule does not handle."""
        if finding.holds is None or unhandled:
            self.undecided += 1
            self.marks |= unhandled
            if self.widest is None or finding.width_ns > self.widest.width_ns:
                self.widest = finding
            return
        self.decided += 1
        if finding.holds:
            self._hold(finding)
            return
        if len(self.breaches) <= FURTHER_MAX:
            self.breaches.append(finding)
        if self.broken is None or _is_worse(finding, self.broken):
            self.broken = finding

    def _hold(self, finding: Finding) -> None:
        if finding.situation:
            self.situations[finding.situation] = None
        slack = finding.slack_ns
        if slack is not None and (self.slack_ns is None or slack < self.slack_ns):
            self.slack_ns = slack
        if self.held is None or self._is_lesser(finding.outcome):
            self.held = finding

    def _is_lesser(self, outcome: str) -> bool:
        """The worst grade is kept."""
        held = self.held
        return held is not None and outcome != held.outcome and self._requirement.grade(outcome) == "acceptable"

    def verdict(self) -> Verdict:
        """The joined result of all rows."""
        requirement = self._requirement
        kind, outcome, shown, slack_ns = VerdictKind.NOT_EXERCISED, "", self.broken or self.widest, self.slack_ns
        text = ""
        if self.broken is not None:
            kind, slack_ns = VerdictKind.VIOLATED, self.broken.slack_ns
            outcome = self.broken.outcome or requirement.outcome_of("violated")
            text = _text(self.broken, outcome)
        elif self.held is not None:
            kind, shown = VerdictKind.SATISFIED, None
            outcome = self.held.outcome or requirement.outcome_of("ok")
        elif self.widest is not None:
            kind, text = VerdictKind.INCONCLUSIVE, self._doubt(self.widest)
        return Verdict(
            requirement.id,
            kind,
            outcome,
            requirement.grade(outcome) if kind is VerdictKind.SATISFIED else "violated" if self.broken else "ok",
            sorted(self.situations) if self.situations else [],
            _witness(shown) if shown is not None else [],
            _bounded(slack_ns),
            text,
            self.decided,
            self.undecided,
            marks.names(self.marks) if self.marks else [],
            [self._further(finding) for finding in self.breaches if finding is not self.broken],
        )

    def _further(self, finding: Finding) -> Violation:
        outcome = finding.outcome or self._requirement.outcome_of("violated")
        return Violation(_text(finding, outcome), outcome, _witness(finding), _bounded(finding.slack_ns))

    def _doubt(self, finding: Finding) -> str:
        text = _text(finding, "undecided")
        if finding.width_ns:
            return f"{text} (undecided by {ms(finding.width_ns)})"
        unknown = "; ".join(marks.KINDS[kind] for kind in marks.names(self.marks))
        return f"{text} (not known: {unknown})" if unknown else text


def _is_worse(one: Finding, other: Finding) -> bool:
    return one.slack_ns is not None and other.slack_ns is not None and one.slack_ns < other.slack_ns


def _bounded(slack_ns: int | None) -> int | None:
    """A life may end at the end of all clocks; tables hold 64 bits."""
    return slack_ns if slack_ns is None else max(-NEVER, min(slack_ns, NEVER))


def _witness(finding: Finding) -> list[int]:
    return sorted({seq for row in finding.witness for seq in witness_of(row)})


def _text(finding: Finding, outcome: str) -> str:
    said = "; ".join(dict.fromkeys(describe(row) for row in finding.witness))
    return f"{finding.why or outcome.replace('-', ' ')}: {said}" if said else finding.why or outcome


def not_offered(requirement: Requirement, capabilities: Collection[str]) -> str:
    """What a broker with these capabilities lacks for a requirement; "" if nothing."""
    lacking = requirement.lacking(capabilities)
    return f"the broker (or its transport) does not offer: {', '.join(lacking)}" if lacking else ""


class Plan:
    """What is asked of every history with the same capabilities: for each selection of rows the rules that run over
    them, and the verdicts of a run that exercises nothing, in order of their ids.
    """

    def __init__(self, catalogue: Catalogue, wanted: tuple[str, ...], capabilities: tuple[str, ...]) -> None:
        self.blank: list[Verdict] = []
        #: Selection -> places among the verdicts, with their rules and requirements.
        self.asked: dict[Selection, list[tuple[int, Rule, Requirement]]] = {}
        for place, name in enumerate(sorted(wanted)):
            requirement, rule = catalogue[name], RULES.get(name)
            verdict = Verdict(name, VerdictKind.NOT_EXERCISED)
            if text := not_offered(requirement, capabilities):
                verdict = Verdict(name, VerdictKind.NOT_APPLICABLE, text=text)
            elif rule is None:
                verdict = Verdict(name, VerdictKind.NOT_EXERCISED, text="no rule of this release judges it")
            else:
                self.asked.setdefault(rule.over, []).append((place, rule, requirement))
            self.blank.append(verdict)


@lru_cache(maxsize=64)
def _default_plan(wanted: tuple[str, ...] | None, capabilities: tuple[str, ...]) -> Plan:
    catalogue = default_catalogue()
    names = tuple(entry.id for entry in catalogue.judged()) if wanted is None else wanted
    return Plan(catalogue, names, capabilities)


@uncollected()
def judge_facts(facts: Facts, wanted: Iterable[str] | None = None, catalogue: Catalogue | None = None) -> list[Verdict]:
    """One verdict per wanted requirement (default: all that are judged), sorted by id."""
    names, capabilities = tuple(wanted) if wanted is not None else None, tuple(facts.header.capabilities)
    if catalogue is None:
        plan = _default_plan(names, capabilities)
    else:
        plan = Plan(catalogue, names or tuple(entry.id for entry in catalogue.judged()), capabilities)
    verdicts = [*plan.blank]
    for over, asked in plan.asked.items():
        rows = facts.rows(over)
        if rows:
            for place, rule, requirement in asked:
                claim = _claim(facts, rule, requirement, rows)
                if claim is not None:
                    verdicts[place] = _verdict(facts, rule, claim)
    return verdicts


def _claim(facts: Facts, rule: Rule, requirement: Requirement, rows: Sequence[Any]) -> Claim | None:
    """What a rule finds in the rows; None: nothing."""
    claim: Claim | None = None
    judge, unhandled = rule.judge, rule.unhandled
    for row in rows:
        for finding in judge(facts, row):
            marked = getattr(row, "marks", 0) & unhandled
            if marked & marks.RESOLVED:  # where a name stands for another queue it is no instance
                continue
            if claim is None:
                claim = Claim(requirement)
            elif finding is claim.held and not marked:
                claim.decided += 1  # most rows say the same
                continue
            claim.add(finding, marked)
    return claim


def _verdict(facts: Facts, rule: Rule, claim: Claim) -> Verdict:
    unproved = _unproved(facts, rule) if facts.unproved else None
    if unproved is None:
        return claim.verdict()
    text = f"fault {unproved.fault!r} (event {unproved.seq}) left no evidence that it took effect"
    return Verdict(rule.requirement, VerdictKind.NOT_RUN, witness=[unproved.seq], text=text)


def _unproved(facts: Facts, rule: Rule) -> Fault | None:
    return next((facts.unproved[name] for name in rule.faults if name in facts.unproved), None)


def judge_history(
    history: History, catalogue: Catalogue | None = None, wanted: Iterable[str] | None = None
) -> list[Verdict]:
    """Judge a finished history. That of a network is judged broker by broker, and as a whole."""
    names = tuple(wanted) if wanted is not None else None
    verdicts = _judge(history, names, catalogue)
    silent = untold(history.events)
    if silent is None:
        return verdicts
    # What had begun by then is known to its end; clocks are read by others, too.
    known = [event for event in history.events if event.t0 < silent.t0 or isinstance(event, ClockSample)]
    before = _judge(History(history.header, known), names, catalogue)
    return [_as_known(silent, *both) for both in zip(before, verdicts, strict=True)]


def untold(events: Iterable[Event]) -> Pause | None:
    """The first time that a process did not answer its observer, if there is any."""
    silences = [event for event in events if isinstance(event, Pause) and event.evidence is not None]
    return min(silences, key=lambda event: event.t0, default=None)


def _as_known(silent: Pause, before: Verdict, whole: Verdict) -> Verdict:
    """A verdict of a run in which an agent stood still: that of what was known before."""
    rows = whole.decided + whole.undecided - before.decided - before.undecided
    if rows <= 0 or before.verdict is VerdictKind.VIOLATED:
        return before
    undecided = before.undecided + rows
    if before.decided:
        return msgspec.structs.replace(before, undecided=undecided)
    text = f"{silent.target} did not answer for {ms(silent.t1 - silent.t0)}: what it did is not known; {whole.text}"
    return Verdict(before.requirement, VerdictKind.INCONCLUSIVE, text=text.rstrip("; "), undecided=undecided)


def _judge(history: History, names: tuple[str, ...] | None, catalogue: Catalogue | None) -> list[Verdict]:
    parts = [Facts(part) for part in histories(history)]
    for facts in parts:
        facts.beyond = [other for other in parts if other is not facts]
    judged = [judge_facts(facts, names, catalogue) for facts in parts]
    return judged[0] if len(judged) == 1 else [reduce(of_both, same) for same in zip(*judged, strict=True)]


def of_both(left: Verdict, right: Verdict) -> Verdict:
    """What two brokers of one run say, each with its own violations."""
    joined = join(left, right)
    other = right if joined.text == left.text else left
    if joined.verdict is not VerdictKind.VIOLATED or other.verdict is not VerdictKind.VIOLATED:
        return joined
    return msgspec.structs.replace(joined, further=[*joined.further, other.violation(), *other.further])
