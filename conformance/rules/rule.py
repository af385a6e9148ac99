"""Rule: a requirement as a function over rows, and what such a function yields.

::

    @rule("GEN-006", over=refused, faults=("stall",))
    def refused_is_never_delivered(facts: Facts, send: Send) -> Findings:
        \"\"\"A message whose sending was refused is never delivered.\"\"\"
        if send.seen is not None:
            yield broken("delivered", send, send.seen)

Rules
* ``over`` selects the rows; it is asked once per history, and without rows nothing is run.
* The docstring is the catalogue's sentence (a guard compares them).
* A row that carries a mark which the rule does not name in ``handles`` decides nothing: what the rule finds there is
  counted as undecided, with the marks.
* ``faults``: without evidence that such a fault took effect, the verdict is *not run*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.describing import Row
from brokerproof.conformance.facts.facts import Facts

Entry = TypeVar("Entry")


class Finding:
    """What one row says. ``holds`` None: it cannot be decided, by ``width_ns``. ``outcome`` "": the requirement's only
    one of that grade. ``why`` goes before the rows of the witness in the text.
    """

    __slots__ = ("holds", "outcome", "situation", "slack_ns", "why", "width_ns", "witness")

    def __init__(self, holds: bool | None, outcome: str, witness: tuple[Row, ...]) -> None:
        self.holds = holds
        self.outcome = outcome
        self.witness = witness
        self.situation = ""
        self.why = ""
        self.slack_ns: int | None = None
        self.width_ns = 0


Findings = Iterator[Finding]
#: Most rows hold, and say nothing else: those that are alike share one finding.
_HELD: Final[dict[tuple[str, str], Finding]] = {}


def held(outcome: str = "", situation: str = "", *, slack_ns: int | None = None) -> Finding:
    """It held, whatever the instants. ``situation``: one of the catalogue's."""
    if slack_ns is None:
        shared = _HELD.get((outcome, situation))
        if shared is not None:
            return shared
    finding = Finding(True, outcome, ())
    finding.situation = situation
    finding.slack_ns = slack_ns
    if slack_ns is None:
        _HELD[outcome, situation] = finding
    return finding


def broken(outcome: str, *witness: Row, why: str = "", slack_ns: int | None = None) -> Finding:
    """It was violated, for every choice of instants. ``slack_ns`` is negative."""
    finding = Finding(False, outcome, witness)
    finding.why = why
    finding.slack_ns = slack_ns
    return finding


def unsure(*witness: Row, why: str = "", width_ns: int = 0) -> Finding:
    """It cannot be decided; ``width_ns`` narrower spans would have."""
    finding = Finding(None, "", witness)
    finding.why = why
    finding.width_ns = width_ns
    return finding


class Rule:
    """One requirement's."""

    def __init__(
        self,
        requirement: str,
        over: Callable[[Facts], Sequence[Any]],
        judge: Callable[[Facts, Any], Findings],
        handled: int,
        faults: tuple[str, ...],
    ) -> None:
        self.requirement = requirement
        self.over = over
        self.judge = judge
        self.unhandled = marks.ALL & ~handled
        self.faults = faults
        self.sentence = " ".join((judge.__doc__ or "").split())


#: Requirement -> its rule. Filled by the decorator, when the files of the areas are imported.
RULES: Final[dict[str, Rule]] = {}


def rule(
    requirement: str,
    *,
    over: Callable[[Facts], Sequence[Entry]],
    handles: Iterable[str] = (),
    faults: tuple[str, ...] = (),
    absence: bool = False,
) -> Callable[[Callable[[Facts, Entry], Findings]], Callable[[Facts, Entry], Findings]]:
    """Register a function as the rule of a requirement. ``handles``: kinds of marks (``marks.KINDS``).

    ``absence``: it judges what did not come, or not in time, or came back. What a queue manager was told may have
    kept that; nothing else is excused by such commands. Where a name may be another queue's, a row is no instance.
    All are about rows that carry marks; others are the rule's affair.
    """

    def register(judge: Callable[[Facts, Entry], Findings]) -> Callable[[Facts, Entry], Findings]:
        assert requirement not in RULES, f"{requirement} has a rule already"
        handled = marks.mask(handles) & ~marks.RESOLVED
        handled = handled & ~marks.MQSC if absence else handled | marks.MQSC
        RULES[requirement] = Rule(requirement, over, judge, handled, faults)
        return judge

    return register
