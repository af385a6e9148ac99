"""``brokerproof campaign mutants``: planted defects times seeds as one job: after how many programs does each die?

Rules:

* A *trial* plays random programs from a seed of its own until the requirement that the defect names is violated, or
  until its programs are used up: then it *survived*, and a curve counts it as alive that long and no longer.
* A defect is a part, so a job that was killed goes on (``--resume``) with those that have no end yet.
* It measures. Whether every defect is found at all, corpus included, ``brokerproof mutants`` says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from brokerproof.conformance.mutants import MUTANTS
from brokerproof.reports.campaign.cluster import Reach
from brokerproof.reports.campaign.driver import campaign_row, new_campaign, run_round, waiting_session
from brokerproof.reports.campaign.plan import Plan
from brokerproof.reports.campaign.worker import BROKER, check_code
from brokerproof.reports.render.progress import Bar
from brokerproof.reports.store.lease import Lease
from brokerproof.reports.store.manifests import END, START, Store
from brokerproof.reports.store.provenance import Provenance
from brokerproof.reports.store.rows import Row
from brokerproof.reports.store.writer import PartWriter

KIND = "mutants"


class Trials(msgspec.Struct, frozen=True):
    """The plan: ``trials`` of each defect, of ``programs`` at most. ``code``: what executors must run."""

    store: str
    campaign: str
    seed: int
    programs: int
    trials: int
    mutants: tuple[str, ...]
    code: str

    def row(self, origin: Provenance, command: str, state: str) -> Row:
        """Of the table ``campaigns``."""
        plan = Plan(self.store, self.campaign, self.seed, self.programs, len(self.mutants), keep="failing")
        more = {"kind": KIND, "mutants": list(self.mutants), "trials": self.trials}
        return campaign_row(plan, origin, command, state) | more


class TrialTask:
    """What Spark ships: a defect per place."""

    def __init__(self, plan: Trials, todo: Sequence[str]) -> None:
        self.todo = todo
        self._plan = plan

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Hunt. Types are Arrow record batches."""
        import pyarrow as pa  # an extra, and only in the executor

        check_code(self._plan.code)
        for batch in batches:
            for place in batch.column(0).to_pylist():
                run_trials(self._plan, self.todo[place])
                yield pa.RecordBatch.from_pylist([{"part": place}])


def run_trials(plan: Trials, mutant: str) -> None:
    """All trials of a defect, committed as a part."""
    from brokerproof.conformance.running.hunt import hunt  # only in the executor

    store = Store(plan.store)
    if store.manifest(plan.campaign, mutant) is not None:
        return
    writer = PartWriter(store, plan.campaign, mutant, BROKER)
    about = {"campaign": plan.campaign, "broker": BROKER, "mutant": mutant, "requirement": MUTANTS[mutant].requirement}
    for trial in range(plan.trials):
        started, seed = time.process_time_ns(), plan.seed + trial * plan.programs
        kill = hunt(MUTANTS[mutant], seed, plan.programs, random_only=True)
        found = {
            "seed": seed,
            "programs": kill.programs if kill else plan.programs,
            "killed": kill is not None,
            "killers": kill.killers if kill else [],
            "processor_us": (time.process_time_ns() - started) // 1000,
        }
        writer.put("trials", [about | found])
    writer.commit()


def run_mutants(store: Store, reach: Reach, plan: Trials, origin: Provenance, command: str) -> list[Row]:
    """Run what no part has yet; the rows of ``trials``."""
    held = f"campaign {plan.campaign}"
    with Lease(store.files, f"manifests/{plan.campaign}/lease", held, "wait for its end"):
        if store.manifest(plan.campaign, START) is None:
            put(store, plan, START, plan.row(origin, command, "running"))
        todo = [name for name in plan.mutants if store.manifest(plan.campaign, name) is None]
        if todo:
            with waiting_session(reach, plan.campaign, store) as session, Bar("defects", len(todo)) as bar:
                run_round(session, TrialTask(plan, todo), bar, 0)
        rows = [row for made in store.manifests(plan.campaign) for row in store.rows(made, "trials")]
        totals = {
            "runs": sum(row["programs"] for row in rows),
            "processor_us": sum(row["processor_us"] for row in rows),
        }
        put(store, plan, END, plan.row(origin, command, "finished") | totals)
    return rows


def new_trials(
    store: Store, origin: Provenance, seed: int, programs: int, trials: int, mutants: Sequence[str]
) -> Trials:
    """A plan that nobody has begun."""
    return Trials(store.files.where, new_campaign(), seed, programs, trials, tuple(mutants), origin.code)


def resumed_trials(store: Store, begun: Row) -> Trials:
    """The plan that a row of ``campaigns`` tells of."""
    told = {name: begun[name] for name in ("campaign", "seed", "programs", "trials", "code")}
    return Trials(store=store.files.where, mutants=tuple(begun["mutants"]), **told)


def put(store: Store, plan: Trials, part: str, row: Row) -> None:
    """Commit a beginning or an end."""
    writer = PartWriter(store, plan.campaign, part)
    writer.put("campaigns", [row])
    writer.commit()
