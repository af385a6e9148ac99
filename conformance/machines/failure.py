"""What is made of a failure: the program is shrunk, saved as a file, and explained with a line that replays it.

Hypothesis found the program; delta debugging makes it short, by the finding that comes first (the model's, if the model
spoke). The text says who found it: the model of the machine, or the judge at the end of the run.
"""

from __future__ import annotations

import time
from pathlib import Path

from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.machines.search import Examined, Finding, Search
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.failure import failure_text, replay_line
from brokerproof.conformance.running.folder import make_folder, write_program
from brokerproof.conformance.running.shrinking import SECONDS, shrink_program


class Shrunk:
    """The smallest program found that fails in the same way, and what it took."""

    def __init__(self, examined: Examined, finding: Finding, tried: int, seconds: float) -> None:
        self.result, self.findings = examined
        #: What it was shrunk by.
        self.finding = finding
        self.tried = tried
        self.seconds = seconds


def fails_alike(search: Search, program: Program, finding: Finding) -> bool:
    """Whether the same requirement is violated in a program, as seen by whoever found it."""
    history = search.execute(program)
    if finding.by == "model":
        own = search.contradiction(program, history)
        return own is not None and own.requirement == finding.verdict.requirement
    (verdict,) = judge_history(history, wanted=[finding.verdict.requirement])
    return verdict.verdict is VerdictKind.VIOLATED


def shrink_failure(search: Search, failure: Examined, seconds: float = SECONDS) -> Shrunk:
    """Shrink by the first finding, within ``seconds``. Raises ``ValueError`` when the program does not fail again."""
    begun = time.monotonic()
    first = failure.findings[0]
    program, tried = shrink_program(
        failure.result.program, lambda candidate: fails_alike(search, candidate, first), seconds
    )
    smaller = search.examine(failure.result.name, program, search.execute(program))
    alike = (f for f in smaller.findings if (f.by, f.verdict.requirement) == (first.by, first.verdict.requirement))
    return Shrunk(smaller, next(alike), tried, time.monotonic() - begun)


def explain(search: Search, failure: Examined, shrunk: Shrunk, out: Path) -> str:
    """Save the shrunk program in ``out`` and say everything about it (DESIGN section 8)."""
    result = shrunk.result
    path = out / f"machine-{search.model.name}-{result.program.digest()[7:15]}.json"
    result.name = str(path)
    replay = replay_line(result, machine=search.model.name if shrunk.finding.by == "model" else None)
    steps = f"{len(failure.result.program.steps)} steps shrunk to {len(result.program.steps)}"
    lines = [
        _who(search, shrunk),
        f"run {len(search.results)} of at most {search.examples}, seed {search.seed}",
        f"{steps} in {shrunk.seconds:.1f} s ({shrunk.tried} programs)",
        _saved(result.program, path),
        "",
        failure_text(result, shrunk.finding.verdict, default_catalogue(), replay),
    ]
    return "\n".join(lines)


def _who(search: Search, shrunk: Shrunk) -> str:
    """Who found it, and what the other of the two says of the same run."""
    model, judge = "its own model", "the judge at the end of the run"
    found, other = (model, judge) if shrunk.finding.by == "model" else (judge, model)
    others = [finding.verdict.requirement for finding in shrunk.findings if finding.by != shrunk.finding.by]
    said = ", ".join(others) or "nothing"
    requirement = shrunk.finding.verdict.requirement
    return f"machine {search.model.name}: {requirement} is violated, found by {found}; {other} finds: {said}"


def _saved(program: Program, path: Path) -> str:
    try:
        make_folder(path.parent)
        write_program(program, path)
    except (UsageError, OSError) as error:
        return f"not saved: {error}"
    return f"saved: {path}"
