"""Hypothesis polishes a short failing program: the second stage of shrinking.

Delta debugging removes steps well and numbers badly when several must change at once; Hypothesis is the other way
round. So after ``shrink.py`` the program becomes a template: per step a choice of keeping it, per number a choice
between its simplest value and the present one. The present program is exactly one sequence of choices, which is given
to Hypothesis as an example to reuse and shrink.

Known exceptions: this uses three private names of Hypothesis (``conjecture_data``, ``function_digest``,
``choices_to_bytes``); they have no public counterpart. ``polish`` therefore returns the program unchanged when one of
them is missing or behaves differently, and tests/quality/test_shrink.py runs the self-test of that.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.database import InMemoryExampleDatabase
from hypothesis.errors import Flaky

from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import AnyStep

Predicate = Callable[[Program], bool]
#: Shrinking itself makes random choices; the same program must always end as the same smaller one.
SEED = 0
#: Largest distance between a number and its simplest value that is still offered to Hypothesis.
SPAN_MAX = 1_000_000


class _Fails(Exception):
    """Raised inside the test body: this candidate fails as wanted."""


class Draws:
    """Numbers drawn from Hypothesis, or recorded while the template itself is walked."""

    def __init__(self, conjecture_data: object | None) -> None:
        self._data = conjecture_data
        self.recorded: list[int] = []

    def between(self, bound: int, present: int) -> int:
        """A number in ``[0, bound]``; when recording, ``present``."""
        if self._data is None:
            self.recorded.append(present)
            return present
        value: int = self._data.draw_integer(0, bound)  # type: ignore[attr-defined]  # private API, see the header
        return value


def rebuild(template: Program, draws: Draws) -> Program:
    """A program no larger than the template."""
    steps: list[AnyStep] = []
    for step in template.steps:
        if not draws.between(1, 1):
            continue
        steps.append(_rebuild_step(step, draws))
    return template.with_steps(steps)


def _rebuild_step(step: AnyStep, draws: Draws) -> AnyStep:
    simplest = type(step)()
    changes: dict[str, int] = {}
    for field in type(step).__struct_fields__:
        value, low = getattr(step, field), getattr(simplest, field)
        if isinstance(value, bool) or not isinstance(value, int) or value == low:
            continue
        span = abs(value - low)
        if span > SPAN_MAX:
            continue
        moved = draws.between(span, span)
        changes[field] = low + moved if value > low else low - moved
    return msgspec.structs.replace(step, **changes)


def polish(program: Program, fails: Predicate, examples_max: int = 400) -> Program:
    """A program that fails too and is no larger; the same one if Hypothesis finds nothing simpler or its private API
    has changed.
    """
    recorder = Draws(None)
    rebuild(program, recorder)
    best = [program]

    def body(data: st.DataObject) -> None:
        candidate = rebuild(program, Draws(data.conjecture_data))
        if fails(candidate):
            best[0] = candidate
            raise _Fails

    try:
        from hypothesis.database import choices_to_bytes
        from hypothesis.internal.reflection import function_digest

        database = InMemoryExampleDatabase()
        test = settings(
            database=database,
            deadline=None,
            max_examples=examples_max,
            phases=[Phase.reuse, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            print_blob=False,
        )(seed(SEED)(given(st.data())(body)))
        key = function_digest(test.hypothesis.inner_test) + b".secondary"  # type: ignore[attr-defined]  # private API, see the header
        database.save(key, choices_to_bytes(tuple(recorder.recorded)))
        test()
    except (_Fails, Flaky):  # the latter: its time was over before Hypothesis had seen the best one again
        return best[0]
    except (ImportError, AttributeError, TypeError):
        return program
    return best[0]
