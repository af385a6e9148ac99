"""How many live programs run at once, by what the machine has to compute."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from brokerproof.conformance.running.load import LEAST, RUNNABLE_MAX, Load, runnable


@pytest.mark.parametrize(("runs", "admitted"), [(0, 12), (RUNNABLE_MAX * 2, 12), (RUNNABLE_MAX * 2 + 1, LEAST)])
def test_a_busy_machine_begins_fewer(runs: int, admitted: int) -> None:
    seconds = iter(range(1000))
    load = Load(lambda: runs, 2, lambda: float(next(seconds)) * 10)
    with ExitStack() as running:
        for _ in range(admitted):
            running.enter_context(load.room(lambda: False))
        asked = []

        def is_over() -> bool:
            asked.append(0)
            return True

        running.enter_context(load.room(is_over))
        assert bool(asked) == (admitted == LEAST)


def test_it_begins_again_when_the_machine_is_free() -> None:
    seconds, counts = iter(range(1000)), iter([100] * LEAST + [100] * 3 + [0] * 100)
    load = Load(lambda: next(counts), 2, lambda: float(next(seconds)) * 10)
    with ExitStack() as running:
        for _ in range(LEAST + 1):
            running.enter_context(load.room(lambda: False))
    assert next(counts) == 0


def test_this_machine_runs_something() -> None:
    assert runnable() >= 1
