"""One broker against the sound one: programs are run until a verdict differs, and histories are compared on the way.

Imported in a trial's process, after the defect was planted.
"""

from __future__ import annotations

import hashlib
import signal
from typing import TYPE_CHECKING

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.engine import seldom_collected
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerproof.conformance.experiment.history import History
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.running.automatic.trial import Outcome


class Hung(BaseException):
    pass


def _hung(*_: object) -> None:
    raise Hung


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
    """See ``trial.Outcome``."""
    shortest: tuple[int, str] | None = None
    signal.signal(signal.SIGVTALRM, _hung)
    with seldom_collected():
        for count, (name, digest, known) in enumerate(tried, start=1):
            signal.setitimer(signal.ITIMER_VIRTUAL, 8)
            try:
                history = SimulatedWorld().run(program_named(name))
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                if digest_of(history) == digest:
                    continue
                by = [one for one in violated_in(history) if one not in known]
            except Hung:
                return {"kind": "hung", "by": [], "program": name, "text": "", "programs": count}
            except Exception as error:
                import traceback
                return {"kind": "crashed", "by": [], "program": name, "text": traceback.format_exc(), "programs": count}
            if by:
                return {"kind": "killed", "by": by, "program": name, "text": "", "programs": count}
            shortest = min(shortest or (len(history.events), name), (len(history.events), name))
    return {"kind": "survived", "by": [], "program": shortest[1] if shortest else "", "text": "", "programs": len(tried)}
