"""The executor side of a campaign: a part of the seeds in, three Parquet files and one summary row out.

Rules:

* A seed never raises: whatever goes wrong becomes a row of ``runs`` with its ``problem``. Only a disk that cannot be
  written ends the job.
* A part writes its own files under names that follow from its seeds, hidden until they are complete, so a task that
  runs twice only replaces what it wrote.
* Everything that this module needs is imported when a part runs, in the executor: the driver only names it.
* A run that reports another planted defect than the one asked for is a problem, not a result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.results import RunResult

#: The world of campaigns, and the column of the broker that they test.
WORLD = "simulated"
BROKER = "reference"
#: What a part returns, for Spark.
SUMMARY = "part bigint, runs bigint, problems bigint, took_us bigint"

Runner = Callable[[int, "str | None"], "RunResult"]


class Plan(msgspec.Struct, frozen=True):
    """A campaign as plain data: it travels to the executors."""

    folder: str
    seed: int
    programs: int
    parts: int
    mutant: str | None = None

    def seeds(self, part: int) -> range:
        """The seeds of a part: consecutive, and all parts within one seed of the same size."""
        first = self.programs * part // self.parts
        last = self.programs * (part + 1) // self.parts
        return range(self.seed + first, self.seed + last)


class PartTask:
    """What Spark ships: called with the batches of a partition, it yields a summary row per part number in them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Run the parts. Types are Arrow record batches."""
        import pyarrow as pa  # an extra, and only in the executor

        for batch in batches:
            rows = [run_part(self._plan, part) for part in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=_summary_schema(pa))


def run_part(plan: Plan, part: int, run: Runner | None = None) -> dict[str, int]:
    """Run all seeds of a part and write its files. ``run`` defaults to ``conformance.running.engine.run_seed``."""
    from brokerproof.reports.store.tables import TableWriter  # only in the executor

    started = time.perf_counter_ns()
    seeds = plan.seeds(part)
    runner = run if run is not None else _engine()
    writer = TableWriter(Path(plan.folder), f"part-{seeds.start}-{seeds.stop - 1}")
    problems = 0
    try:
        for seed in seeds:
            problems += _one(writer, runner, seed, plan.mutant)
        writer.finish()
    except BaseException:
        writer.abandon()
        raise
    return {
        "part": part,
        "runs": len(seeds),
        "problems": problems,
        "took_us": (time.perf_counter_ns() - started) // 1000,
    }


def _one(writer: Any, runner: Runner, seed: int, mutant: str | None) -> int:
    started = time.perf_counter_ns()
    try:
        result = runner(seed, mutant)
    except Exception as error:  # noqa: BLE001 - a defect of ours in one seed must not cost the other thousands
        took_us = (time.perf_counter_ns() - started) // 1000
        writer.add_problem(failed_row(seed, mutant, f"{type(error).__name__}: {error}", took_us))
        return 1
    took_us = (time.perf_counter_ns() - started) // 1000
    if result.mutant != mutant:
        text = f"ran with mutant {result.mutant!r}, the campaign asked for {mutant!r}"
        writer.add_problem(failed_row(seed, mutant, text, took_us))
        return 1
    writer.add(result, took_us)
    return 1 if result.problem else 0


def failed_row(seed: int, mutant: str | None, problem: str, took_us: int) -> dict[str, Any]:
    """A row of ``runs`` for a seed that gave no result."""
    from brokerproof.reports.store.schema import column_name  # only in the executor

    name = f"seed-{seed}"
    return {
        "run": f"{BROKER}/{WORLD}/{name}",
        "broker": column_name(BROKER, mutant),
        "world": WORLD,
        "name": name,
        "seed": seed,
        "mutant": mutant,
        "program": "",
        "steps": 0,
        "events": 0,
        "took_us": took_us,
        "capabilities": [],
        "header": None,
        "problem": problem,
        "not_run": "",
    }


def _engine() -> Runner:
    from brokerproof.conformance.running.engine import run_seed

    return run_seed


def _summary_schema(pa: Any) -> Any:
    return pa.schema([(name, pa.int64()) for name in ("part", "runs", "problems", "took_us")])
