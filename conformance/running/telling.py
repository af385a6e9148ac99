"""A story as it was played: both halves run, and whether each shows what its broker's generation is documented to.

Rules
* A requirement must have the verdict that the story expects, or *known failure* where *violated* is expected. What the
  broker does not offer or promise is left out, and said.
* Any other MUST that is violated, and not known, is a deviation too.
* What could not be run (a tool or the broker is missing) is a problem, never a pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.measures import measure
from brokerproof.conformance.stories import Story, by_generation
from brokerproof.reference_broker.core.config import resolve_generation

Run = Callable[[str, Program], RunResult]
_UNTOLD = (VerdictKind.NOT_APPLICABLE, VerdictKind.NOT_RUN)


@dataclass(frozen=True)
class Check:
    """One thing that was expected. ``holds`` None: this broker cannot show it."""

    what: str
    expected: str
    found: str
    holds: bool | None
    text: str = ""


@dataclass(frozen=True)
class Played:
    """One half."""

    half: str
    result: RunResult
    checks: list[Check]

    @property
    def holds(self) -> bool:
        """Whether it behaved as documented."""
        return not self.result.problem and not self.result.not_run and all(one.holds is not False for one in self.checks)


def play(story: Story, run: Run, generation: dict[str, str] | None = None) -> list[Played]:
    """Both halves, on brokers of the ``generation`` (area -> name) where a story does not ask for another.

    What is expected stays that of the story's own generation: so a broker of another one may fail.
    """
    played = []
    for half, told in story.halves().items():
        spec = told.program.broker
        asked = msgspec.structs.replace(spec, generation={**spec.generation, **(generation or {})})
        result = run(f"{story.name}-{half}", msgspec.structs.replace(told.program, broker=asked))
        checks = []
        if result.history is not None:
            own = result.history.header.declared.generation
            if result.world == "simulated" or result.broker == "reference":
                own = resolve_generation(spec.generation)
            checks = _checks(result, by_generation(told.expects, own), own)
        played.append(Played(half, result, checks))
    return played


def _checks(result: RunResult, expects: dict[str, object], generation: dict[str, str]) -> list[Check]:
    assert result.history is not None
    verdicts = {verdict.requirement: verdict for verdict in result.verdicts}
    checks = []
    for what, expected in expects.items():
        if what in verdicts:
            checks.append(_judged(verdicts[what], str(expected)))
            continue
        low, high = expected if isinstance(expected, tuple) else (expected, expected)
        found = measure(result.history, what)
        holds = None if found is None else low <= found <= high
        words = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        checks.append(Check(what, words, "unknown" if found is None else f"{found:,.0f}", holds))
    return checks + [
        Check(verdict.requirement, "not violated", "violated", holds=False, text=verdict.text)
        for verdict in result.verdicts
        if verdict.verdict is VerdictKind.VIOLATED
        and verdict.requirement not in expects
        and _promised(verdict.requirement, generation)
    ]


def _promised(requirement: str, generation: dict[str, str]) -> bool:
    """Whether a broker of this generation promises it, and must keep that."""
    entry = default_catalogue()[requirement]
    return entry.level == "MUST" and all(entry.expected.get(name) != "violated" for name in generation.values())


def _judged(verdict: Verdict, expected: str) -> Check:
    found = "violated" if verdict.verdict is VerdictKind.KNOWN_FAILURE else verdict.verdict.value
    holds = None if verdict.verdict in _UNTOLD else found == expected
    return Check(verdict.requirement, expected, found, holds, verdict.text)
