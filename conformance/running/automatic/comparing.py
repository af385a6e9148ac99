"""One broker against the sound one: programs are run until a verdict differs, and histories are compared on the way.

Imported in a trial's process, after the defect was planted.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.history import Crash
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.facts.collecting import seldom_collected
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.automatic.fullness import Overfull, bounded
from brokerproof.conformance.running.engine import simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerproof.conformance.experiment.history import History
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.running.automatic.task import Outcome


def program_named(name: str) -> Program:
    """A corpus program, or that of a seed (``seed-7``)."""
    prefix, _, number = name.partition("-")
    return program_for_seed(int(number)) if prefix == "seed" and number.isdigit() else programs()[name]


def digest_of(history: History) -> str:
    """What tells histories apart."""
    return hashlib.sha256(history.encode()).hexdigest()[:24]


def violated_in(history: History) -> list[str]:
    """The violated requirements."""
    return [verdict.requirement for verdict in judge_history(history) if verdict.verdict is VerdictKind.VIOLATED]


def compare(tried: Sequence[tuple[str, str, list[str]]]) -> Outcome:
    """See ``task.Outcome``."""
    name, shortest = "", ""
    with seldom_collected():
        for count, (candidate, digest, known) in enumerate(tried, start=1):
            try:
                with bounded():
                    history = simulate(program_named(candidate))
                    if digest_of(history) == digest:
                        continue
                    by = [requirement for requirement in violated_in(history) if requirement not in known]
                    text = history.encode().decode()
            except (MemoryError, Overfull):  # it makes more and more
                return {"kind": "hung", "by": [], "program": candidate, "history": "", "programs": count}
            if by:
                return {"kind": _kind(history), "by": by, "program": candidate, "history": text, "programs": count}
            if not name or len(text) < len(shortest):
                name, shortest = candidate, text
    return {"kind": "survived", "by": [], "program": name, "history": shortest, "programs": len(tried)}


def _kind(history: History) -> str:
    """How it was noticed: as a promise that was broken, or because a process did not go on."""
    for event in history.events:
        if isinstance(event, Crash):
            return "hung" if event.how == "hung" else "crashed"
    return "killed"
