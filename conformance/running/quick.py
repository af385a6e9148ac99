"""Which programs of a plan show most in little real time. What one shows is what it exercises on the reference broker
in virtual time.

Rules
* A quick run: the shortest program goes first, at once, because the first verdict is due in seconds; then always the
  one that shows most requirements that nobody has shown yet, per second that it may take. None is begun when the time
  is over.
* The main job: so many that each requirement is shown ``TIMES`` times, or by all that show it.
* What is left out is said by the number of programs, never by a verdict.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.running.engine import run_program

Entry = tuple[str, Program]

#: What starting, draining and ending a run takes, about.
OVERHEAD_MS = 1000
#: How many programs of the main job show a requirement.
TIMES = 2
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


def covering_plan(
    plan: Sequence[Entry], shows: Mapping[str, frozenset[str]], real_ms: Callable[[Program], int]
) -> list[Entry]:
    """The programs of a plan that show each requirement ``TIMES`` times, in the plan's order. ``shows``: what each of
    them shows, by its name; one that is not there has not been run, and is left out.
    """
    costs = {name: OVERHEAD_MS + real_ms(program) for name, program in plan if name in shows}
    times = Counter(one for name in costs for one in shows[name])
    missing = Counter({one: min(count, TIMES) for one, count in times.items()})
    left = set(costs)
    while +missing:
        best = max(left, key=lambda name: (sum(missing[one] > 0 for one in shows[name]) / costs[name], name))
        left.remove(best)
        missing.subtract(shows[best])
    chosen = costs.keys() - left
    return [(name, program) for name, program in plan if name in chosen]


def shown(name: str, program: Program, wanted: Sequence[str]) -> frozenset[str]:
    """The wanted requirements that a program exercises on the reference broker in virtual time."""
    return exercised(run_program(program, name, wanted=wanted).verdicts)


def exercised(verdicts: Sequence[Verdict]) -> frozenset[str]:
    """The requirements that a run has exercised."""
    return frozenset(verdict.requirement for verdict in verdicts if verdict.verdict in _SHOWS)
