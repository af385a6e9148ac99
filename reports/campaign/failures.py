"""The table ``failures``: one row per violated requirement, with the smallest program that shows it.

A *signature* is what makes two failures the same: requirement, outcome and the kinds of steps that its smallest program
needs. Shrinking is bounded by runs, not by time, so a signature depends on nothing but the seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from brokerproof.reports.campaign.plan import Plan

COLUMNS = ("requirement", "signature", "outcome", "features", "seed", "run", "text", "program", "steps", "json")
ROWS = (
    "requirement string, signature string, outcome string, features array<string>, seed bigint, run string, "
    "text string, program string, steps bigint, json string"
)


def signature(requirement: str, outcome: str, features: Sequence[str]) -> str:
    """16 hexadecimal digits."""
    return hashlib.sha256("\n".join([requirement, outcome, *features]).encode()).hexdigest()[:16]


def failure_row(requirement: str, seed: int, plan: Plan) -> dict[str, Any]:
    """Shrink the program of a seed that violates a requirement; the row but for its campaign and broker."""
    from brokerproof.conformance.running.shrinking import shrink_violation  # only in the executor
    from brokerproof.reports.campaign.guide import SeedRuns
    from brokerproof.reports.store.rows import features

    shrunk = shrink_violation(SeedRuns(plan).program(seed), requirement, plan.mutant).result
    verdict = next(verdict for verdict in shrunk.verdicts if verdict.requirement == requirement)
    kinds = features(shrunk.program)
    return {
        "requirement": requirement,
        "signature": signature(requirement, verdict.outcome, kinds),
        "outcome": verdict.outcome,
        "features": kinds,
        "seed": seed,
        "run": shrunk.run.replace(shrunk.name, f"seed-{seed}"),
        "text": verdict.text,
        "program": shrunk.program.digest(),
        "steps": len(shrunk.program.steps),
        "json": shrunk.program.encode().decode(),
    }


class ShrinkTask:
    """What Spark ships: a failure per place."""

    def __init__(self, violated: Sequence[tuple[str, int]], plan: Plan) -> None:
        self._violated = violated
        self._plan = plan

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Shrink. Types are Arrow record batches."""
        import pyarrow as pa  # an extra, and only in the executor

        from brokerproof.reports.store.tables import arrow_schema

        schema = pa.schema([arrow_schema("failures").field(name) for name in COLUMNS])
        for batch in batches:
            for place in batch.column(0).to_pylist():
                requirement, seed = self._violated[place]
                row = failure_row(requirement, seed, self._plan)
                yield pa.RecordBatch.from_pylist([row], schema=schema)


def shrunk_rows(session: Any, plan: Plan, violated: dict[str, int]) -> list[dict[str, Any]]:
    """A row per violated requirement, given with the seed to show it, shrunk by a task each."""
    if not violated:
        return []
    task = ShrinkTask(sorted(violated.items()), plan)
    frame = session.range(0, len(violated), 1, len(violated)).mapInArrow(task, ROWS)
    return [row.asDict() for row in frame.collect()]
