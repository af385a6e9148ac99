"""The executor side of a campaign: a part of the seeds in, its files and one manifest out.

Rules:

* A seed never raises: whatever goes wrong becomes a row of ``runs`` with its ``problem``. Only a store that cannot be
  written ends the job.
* A part that another attempt has made is not made again; of two attempts at once the first to commit counts.
* Everything that this module needs is imported when a part runs, in the executor: the driver only names it.
* A run that reports another planted defect than the one asked for is a problem, not a result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from brokerproof.reports.campaign.cluster import SparkFailedError
from brokerproof.reports.campaign.plan import Plan, part_name
from brokerproof.reports.store.schema import column_name

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.results import RunResult
    from brokerproof.reports.store.writer import PartWriter

#: The world of campaigns, and the column of the broker that they test.
WORLD = "simulated"
BROKER = "reference"
#: What a part returns, for Spark.
SUMMARY = "part bigint"

Runner = Callable[[int, "str | None"], "RunResult"]


class PartTask:
    """What Spark ships: called with the batches of a partition, it runs the parts at these places in ``todo``.
    ``code``: the digest that the executor's sources must have; "" for any.
    """

    def __init__(self, plan: Plan, todo: Sequence[int], code: str = "") -> None:
        self.todo = todo
        self._plan = plan
        self._code = code

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Run the parts. Types are Arrow record batches."""
        import pyarrow as pa  # an extra, and only in the executor

        if self._code:
            check_code(self._code)
        for batch in batches:
            for place in batch.column(0).to_pylist():
                run_part(self._plan, self.todo[place])
                yield pa.RecordBatch.from_pylist([{"part": self.todo[place]}])


def check_code(wanted: str) -> None:
    """Raises ``SparkFailedError`` unless this executor has the driver's code."""
    if wanted != _code_here():
        raise SparkFailedError("an executor has other code than the driver; pack its environment again (--archives)")


@lru_cache(maxsize=1)
def _code_here() -> str:
    """Of this process's sources; an executor runs many parts."""
    from brokerproof.reports.store.provenance import CODE, sources_digest

    return sources_digest(CODE)


def run_part(plan: Plan, part: int, run: Runner | None = None) -> None:
    """Run all seeds of a part and commit it. ``run`` defaults to that of the plan."""
    from brokerproof.conformance.generate.guidance import Guidance  # only in the executor
    from brokerproof.reports.campaign.guide import SeedRuns, guide_of, keep_lesson
    from brokerproof.reports.store.manifests import Store
    from brokerproof.reports.store.writer import PartWriter

    store, name, seeds = Store(plan.store), part_name(part), plan.seeds(part)
    if store.manifest(plan.campaign, name) is not None:
        return
    runs = SeedRuns(plan)
    learned = Guidance(guide_of(store, plan, plan.round_of(part))) if plan.guided else None
    writer = PartWriter(store, plan.campaign, name, column_name(BROKER, plan.mutant), plan.keep)
    try:
        for seed in seeds:
            result = _one(writer, run or runs, seed, plan.mutant)
            if result is not None and learned is not None:
                learned.learn(runs.drawn(seed), result.verdicts)
        if learned is not None:
            keep_lesson(store, plan, part, learned.lesson())
        writer.commit(seeds.start)
    except BaseException:
        writer.abandon()
        raise


def _one(writer: PartWriter, runner: Runner, seed: int, mutant: str | None) -> RunResult | None:
    """Run a seed and take its run in; None: it gave no result."""
    started = time.process_time_ns()
    try:
        result = runner(seed, mutant)
    except Exception as error:  # noqa: BLE001 - a defect of ours in one seed must not cost the other thousands
        took_us = (time.process_time_ns() - started) // 1000
        writer.add_problem(failed_row(seed, mutant, f"{type(error).__name__}: {error}", took_us))
        return None
    took_us = (time.process_time_ns() - started) // 1000
    if result.mutant != mutant:
        text = f"ran with mutant {result.mutant!r}, the campaign asked for {mutant!r}"
        writer.add_problem(failed_row(seed, mutant, text, took_us))
        return None
    writer.add(result, took_us, seed)
    return result


def failed_row(seed: int, mutant: str | None, problem: str, took_us: int) -> dict[str, Any]:
    """A row of ``runs`` for a seed that gave no result."""
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
        "processor_us": took_us,
        "capabilities": [],
        "not_applicable": [],
        "problem": problem,
        "not_run": "",
    }
