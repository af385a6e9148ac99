"""Runs stages one after the other within a budget, and says of each how it ended.

A stage that needs what is not here, or that is expected to take longer than what is left, is *not run*, by name and
reason; it is never passed. One that outlasts the budget is stopped and has failed: its time is wrong, or it hangs.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

PASSED: Final = "passed"
FAILED: Final = "failed"
NOT_RUN: Final = "not run"


@dataclass(frozen=True)
class Stage:
    """A command, how many minutes it takes on two cores, and why it cannot run here (None: it can)."""

    name: str
    command: tuple[str, ...]
    minutes: float
    missing: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class Ended:
    """Exit code (None: stopped when its time was over) and seconds of processor time, children included."""

    code: int | None
    processor_s: float


@dataclass(frozen=True)
class Result:
    """How a stage ended: one of the three words, and the figures or the reason."""

    name: str
    outcome: str
    text: str


Execute = Callable[[Sequence[str], float], Ended]


def execute(command: Sequence[str], limit_s: float) -> Ended:
    """Run a command for at most so many seconds; what is stopped is stopped with all that it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, start_new_session=True)
    try:
        code: int | None = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        code = None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Ended(code, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def run_stages(
    stages: Sequence[Stage],
    minutes: float,
    log: Callable[[str], None],
    *,
    execute: Execute = execute,
    clock: Callable[[], float] = time.monotonic,
) -> list[Result]:
    """Run what fits into ``minutes``, in order; one result per stage. ``clock`` counts seconds."""
    deadline_s = clock() + minutes * 60
    results = []
    for stage in stages:
        left_s = deadline_s - clock()
        results.append(_result(stage, left_s, log, execute))
        log(f"{stage.name}: {results[-1].outcome}: {results[-1].text}; {(deadline_s - clock()) / 60:.1f} min left")
    return results


def _result(stage: Stage, left_s: float, log: Callable[[str], None], execute: Execute) -> Result:
    reason = stage.missing()
    if reason is None and stage.minutes * 60 > left_s:
        reason = f"takes {stage.minutes:g} min, {max(left_s, 0) / 60:.1f} of the budget are left"
    if reason is not None:
        return Result(stage.name, NOT_RUN, reason)
    log(f"{stage.name}: starts: {' '.join(stage.command)}")
    ended = execute(stage.command, left_s)
    how = "stopped when the budget was over" if ended.code is None else f"exit code {ended.code}"
    outcome = PASSED if ended.code == 0 else FAILED
    return Result(stage.name, outcome, f"{how}, {ended.processor_s:.0f} s of processor time")


def summary(results: Sequence[Result]) -> list[str]:
    """A line for each outcome, with the names of its stages."""
    lines = []
    for outcome in (PASSED, FAILED, NOT_RUN):
        names = [result.name for result in results if result.outcome == outcome]
        lines.append(f"{outcome}: {len(names)}{': ' if names else ''}{', '.join(names)}")
    return lines


def exit_code(results: Sequence[Result]) -> int:
    """1 if a stage failed, or none could be run."""
    return int(any(r.outcome == FAILED for r in results) or not any(r.outcome == PASSED for r in results))
