"""A quick run: which programs of a plan show most in little real time, in the order in which they are worth it.

Rules
* The shortest program goes first, at once: the first verdict is due in seconds.
* Then always the one that shows most requirements that nobody has shown yet, per second that it may take. What a
  program shows is what it exercises on the reference broker in virtual time.
* None is begun when the time is over; what is left out is said by the number of programs, never by a verdict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.running.engine import run_program

Entry = tuple[str, Program]

#: What starting, draining and ending a run takes, about.
OVERHEAD_MS = 1000
_SHOWS = {VerdictKind.SATISFIED, VerdictKind.VIOLATED}


def quick_plan(
    plan: Sequence[Entry],
    wanted: Sequence[str],
    end: float,
    real_ms: Callable[[Program], int],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Entry]:
    """The programs to run until the ``clock`` shows ``end``, in seconds. ``real_ms``: how long the steps of one may
    take.
    """
    if not plan:
        return
    first = min(plan, key=lambda entry: (real_ms(entry[1]), entry[0]))
    yield first
    shows = {name: shown(name, program, wanted) for name, program in plan}
    costs = {name: OVERHEAD_MS + real_ms(program) for name, program in plan}
    left = {name: program for name, program in plan if name != first[0]}
    seen = set(shows[first[0]])
    while left:
        name = max(left, key=lambda one: (len(shows[one] - seen) / costs[one], -costs[one], one))
        if not shows[name] - seen or clock() + costs[name] / 1000 > end:
            return
        seen |= shows[name]
        yield name, left.pop(name)


def shown(name: str, program: Program, wanted: Sequence[str]) -> frozenset[str]:
    """The wanted requirements that a program exercises on the reference broker in virtual time."""
    verdicts = run_program(program, name, wanted=wanted).verdicts
    return frozenset(verdict.requirement for verdict in verdicts if verdict.verdict in _SHOWS)
