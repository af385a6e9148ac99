"""``brokerproof campaign``: thousands of seeded programs on Spark executors, aggregated in Spark SQL into a report.

Decides: how seeds become tasks, and what the driver does while they run.

Rules:

* The seeds are ``--seed`` to ``--seed + --programs - 1``, the same runs as the suite's seeded driver; the verdict
  digest is the one that those runs give in one process.
* A task is a range of seeds, at least about a second of work, four to eight per slot: a task per seed costs ten times
  the work.
* The tables stay in ``DIR/tables``; a campaign replaces those of an earlier one in the same folder, and its broker's
  column.
* What a cell shows is run again in this process from its seed. If that gives another verdict than the executor gave,
  the suite is broken (exit code 4).
* Planted defects are refused unless asked for with ``--mutant``; a run that comes back with another one is a problem.

Known exceptions: on a cluster (``spark://…``) ``--out`` must lie on a file system that all executors share.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from brokerproof.reports.aggregate import QUERIES, ask, open_tables
from brokerproof.reports.campaign.outcome import Outcome
from brokerproof.reports.campaign.session import LONG, QUICK, SparkFailedError, spark_session
from brokerproof.reports.campaign.worker import SUMMARY, PartTask, Plan
from brokerproof.reports.render.progress import Bar, waiting
from brokerproof.reports.store.tables import TABLES

#: Programs that take an executor about a second; fewer per task would be mostly Spark's own cost.
PROGRAMS_PER_TASK = 250
TASKS_PER_SLOT = 8
#: From here on the aggregation is long enough for the second compiler to pay.
LONG_PROGRAMS = 20_000
POLL_S = 0.25
TAG = "brokerproof-campaign"


def run_campaign(out: Path, seed: int, programs: int, master: str, mutant: str | None = None) -> tuple[Outcome, int]:
    """Run and aggregate; returns the outcome and the number of tasks. Raises ``SparkFailedError`` and its kin."""
    folder = out / "tables"
    with contextlib.ExitStack() as stack:
        with waiting("starting Spark"):
            session = stack.enter_context(spark_session(master, LONG if programs >= LONG_PROGRAMS else QUICK))
        parts = parts_for(programs, session.sparkContext.defaultParallelism)
        plan = Plan(str(folder.absolute()), seed, programs, parts, mutant)
        prepare(folder)
        _run_parts(session, plan)
        open_tables(session, folder)
        with Bar("queries", len(QUERIES)) as bar:
            answers = {}
            for name in QUERIES:
                answers[name] = ask(session, name)
                bar.advance()
    return Outcome(plan, answers), parts


def parts_for(programs: int, slots: int) -> int:
    """Number of tasks.

    One per ``PROGRAMS_PER_TASK``, at least one per slot, at most ``TASKS_PER_SLOT`` per slot, never an empty one.
    """
    wanted = max(slots, programs // PROGRAMS_PER_TASK)
    return max(1, min(wanted, slots * TASKS_PER_SLOT, programs))


def prepare(folder: Path) -> None:
    """Make the table folders, empty.

    Files of an earlier campaign, hidden ones of a broken one included, must not be counted.
    """
    for table in TABLES:
        place = folder / table
        place.mkdir(parents=True, exist_ok=True)
        for pattern in ("part-*.parquet", ".part-*.parquet"):
            for file in place.glob(pattern):
                file.unlink()


def _run_parts(session: Any, plan: Plan) -> None:
    """Run all parts in a thread of its own, so that this one can draw the bar and be interrupted."""
    from pyspark import InheritableThread  # an extra, and slow to import

    context = session.sparkContext
    frame = session.range(0, plan.parts, 1, plan.parts)
    failure: list[BaseException] = []
    rows: list[Any] = []

    def job() -> None:
        try:
            context.addJobTag(TAG)
            rows.extend(frame.mapInArrow(PartTask(plan), SUMMARY).collect())
        except Exception as error:  # noqa: BLE001 - carried to the other thread, which raises it
            failure.append(error)

    thread = InheritableThread(target=job, daemon=True)
    thread.start()
    try:
        with Bar("parts", plan.parts) as bar:
            _watch(context, thread, bar.reach)
    except BaseException:
        context.cancelJobsWithTag(TAG)
        thread.join()
        raise
    if failure:
        raise SparkFailedError(f"the campaign's job failed: {_reason(failure[0])}")
    done = sum(row["runs"] for row in rows)
    if done != plan.programs:
        raise SparkFailedError(f"the executors report {done} runs of {plan.programs}; nothing was aggregated")


def _watch(context: Any, thread: threading.Thread, reach: Callable[[int], None]) -> None:
    tracker = context.statusTracker()
    done = 0
    while thread.is_alive():
        thread.join(POLL_S)
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                done = max(done, info.numCompletedTasks)
        reach(done)


def _reason(error: BaseException) -> str:
    """Spark wraps the cause in pages of stack; the last line that names an exception says what happened."""
    lines = [line.strip() for line in str(error).splitlines()]
    named = [line for line in lines if re.match(r"^[A-Za-z_.]*(Error|Exception)\b", line) and "at " not in line[:4]]
    return named[-1] if named else (lines[0] if lines else type(error).__name__)
