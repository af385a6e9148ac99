"""``brokerproof campaign``: thousands of seeded programs on Spark executors, into a store, aggregated into a report.

Decides: what the driver does, and in which order.

Rules:

* The seeds are ``--seed`` to ``--seed + --programs - 1``, the same runs as the suite's seeded driver; the verdict
  digest is the one that those runs give in one process. It is given only when all of them are in the tables, once.
* A campaign is added to the store and changes nothing in it. What was committed of one that was killed is not run
  again when it is resumed, with the code that it was begun with.
* One Spark session does all: runs, queries, shrinking.
* Guided programs come in rounds: a job each, and what its parts have learned becomes the guide of the next one.
* What a cell shows is run again in this process from its seed. If that gives another verdict than the executor gave,
  the suite is broken (exit code 4).

Known exceptions: on a cluster (``spark://…``) the store must lie where all executors can write.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from msgspec import Struct

from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.requirements.catalogue import Catalogue
from brokerproof.reports.aggregate import QUERIES, ask, open_tables
from brokerproof.reports.campaign.cluster import Reach, SparkFailedError
from brokerproof.reports.campaign.failures import shrunk_rows
from brokerproof.reports.campaign.guide import make_guide
from brokerproof.reports.campaign.outcome import Outcome
from brokerproof.reports.campaign.plan import Plan, check_seeds, digest_of, guided_parts_for, missing, parts_for
from brokerproof.reports.campaign.session import LONG, QUICK, Profile, spark_session
from brokerproof.reports.campaign.worker import SUMMARY, PartTask
from brokerproof.reports.render.progress import Bar, waiting
from brokerproof.reports.store.lease import Lease
from brokerproof.reports.store.manifests import END, START, Store
from brokerproof.reports.store.provenance import Provenance
from brokerproof.reports.store.rows import SAMPLE, Row
from brokerproof.reports.store.writer import PartWriter

#: From here on the aggregation is long enough for the second compiler to pay.
LONG_PROGRAMS = 20_000
POLL_S = 0.25
TAG = "brokerproof-campaign"


class Order(Struct, eq=False):
    """What is asked for: seeds, planted defect, whose histories are kept, whether earlier rounds guide later ones; how
    Spark is reached, and the command.
    """

    reach: Reach
    command: str
    seed: int = 0
    programs: int = 0
    mutant: str | None = None
    keep: str = SAMPLE
    guided: bool = False


def run_campaign(
    store: Store, order: Order, origin: Provenance, catalogue: Catalogue, resumed: Plan | None = None
) -> Outcome:
    """Run and aggregate; ``resumed``: the plan of one that was begun before. Raises ``SparkFailedError`` and its kin,
    ``Held`` when somebody else runs it.
    """
    campaign = resumed.campaign if resumed is not None else new_campaign()
    programs = resumed.programs if resumed is not None else order.programs
    remedy = "wait for its end, or start a campaign of your own without --resume"
    with (
        Lease(store.files, f"manifests/{campaign}/lease", f"campaign {campaign}", remedy),
        waiting_session(order.reach, campaign, store, LONG if programs >= LONG_PROGRAMS else QUICK) as session,
    ):
        plan = resumed
        if plan is None:
            cut = guided_parts_for if order.guided else parts_for
            parts = cut(programs, session.sparkContext.defaultParallelism)
            chosen = order.mutant, order.keep, order.guided
            plan = Plan(store.files.where, campaign, order.seed, programs, parts, *chosen)
            begin(store, plan, origin, catalogue, order.command)
        _run_parts(session, store, plan, missing(plan, store.manifests(campaign)), origin.code)
        return _conclude(session, store, plan, origin, order.command)


@contextlib.contextmanager
def waiting_session(reach: Reach, campaign: str, store: Store, profile: Profile = QUICK) -> Iterator[Any]:
    """Spark, and if it fails a word on what is kept of the campaign."""
    try:
        with contextlib.ExitStack() as stack:
            with waiting("starting Spark"):
                session = stack.enter_context(spark_session(reach, profile))
            yield session
    except SparkFailedError as error:
        if store.manifest(campaign, START) is None:
            raise
        raise SparkFailedError(f"{error}; what was done is kept: --resume {campaign}") from error


def new_campaign() -> str:
    """An id that no other campaign has; ids sort by time."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"


def begin(store: Store, plan: Plan, origin: Provenance, catalogue: Catalogue, command: str) -> None:
    """Commit the plan, and the catalogue as it is."""
    writer = PartWriter(store, plan.campaign, START)
    writer.put("campaigns", [campaign_row(plan, origin, command, "running")])
    writer.put_catalogue(catalogue)
    writer.commit()


def campaign_row(plan: Plan, origin: Provenance, command: str, state: str) -> Row:
    """One row of ``campaigns``: at its start, and at its end."""
    return {
        "campaign": plan.campaign,
        "kind": "campaign",
        "state": state,
        "at_ms": time.time_ns() // 1_000_000,
        "version": origin.version,
        "commit": origin.commit,
        "code": origin.code,
        "generator": origin.generator,
        "catalogue": origin.catalogue,
        "command": command,
        "seed": plan.seed,
        "programs": plan.programs,
        "parts": plan.parts,
        "mutant": plan.mutant,
        "keep": plan.keep,
        "guided": plan.guided,
    }


def resumed_plan(store: Store, campaign: str, origin: Provenance) -> Plan:
    """The plan of a campaign that was begun; "": the last one that has no end. Raises ``UsageError``."""
    begun = begun_campaign(store, campaign, origin)
    campaign = begun["campaign"]
    names = ("seed", "programs", "parts", "mutant", "keep")
    guided = bool(begun.get("guided"))
    return Plan(store.files.where, campaign, **{name: begun[name] for name in names}, guided=guided)


def begun_campaign(store: Store, campaign: str, origin: Provenance, kind: str = "campaign") -> Row:
    """The row of one that was begun; "": the last of its kind that has no end. Raises ``UsageError``."""
    starts = {name: store.manifest(name, START) for name in store.campaigns()}
    begun_ones = [
        row for made in starts.values() if made for row in store.rows(made, "campaigns") if row["kind"] == kind
    ]
    open_ones = [row["campaign"] for row in begun_ones if store.manifest(row["campaign"], END) is None]
    if not campaign and not open_ones:
        raise UsageError(f"--resume: every campaign in {store.files.where} has come to its end")
    campaign = campaign or open_ones[-1]
    begun = next((row for row in begun_ones if row["campaign"] == campaign), None)
    if begun is None:
        raise UsageError(f"--resume {campaign}: no such campaign in {store.files.where}; there are {open_ones[-5:]}")
    if begun["code"] != origin.code:
        raise UsageError(
            f"--resume {campaign}: it was begun with other code ({begun['version']}, commit {begun['commit'] or '?'}); "
            "its digest would mean nothing; check that out, or start a new campaign"
        )
    return begun


def _conclude(session: Any, store: Store, plan: Plan, origin: Provenance, command: str) -> Outcome:
    """Aggregate what was committed, and commit the end."""
    manifests = store.manifests(plan.campaign)
    digest = digest_of(plan, manifests)
    open_tables(session, store.files, manifests)
    with Bar("queries", len(QUERIES)) as bar:
        answers = {}
        for name in QUERIES:
            answers[name] = ask(session, name)
            bar.advance()
    check_seeds(plan, answers["columns"])
    outcome = Outcome(plan, answers, digest)
    violated = outcome.violated()
    with waiting(f"shrinking {len(violated)} failures"):
        failures = shrunk_rows(session, plan, violated)
    writer = PartWriter(store, plan.campaign, END, outcome.broker)
    totals = {
        "runs": sum(manifest.runs for manifest in manifests),
        "processor_us": sum(manifest.processor_us for manifest in manifests),
        "digest": digest,
    }
    writer.put("campaigns", [{**campaign_row(plan, origin, command, "finished"), **totals}])
    writer.put("failures", [{"campaign": plan.campaign, "broker": outcome.broker, **row} for row in failures])
    writer.commit()
    return outcome


def _run_parts(session: Any, store: Store, plan: Plan, todo: list[int], code: str) -> None:
    """Run parts, round by round."""
    if not todo:
        return
    with Bar("parts", len(todo)) as bar:
        done = 0
        for round_, parts in groupby(todo, plan.round_of):
            make_guide(store, plan, round_)
            done += run_round(session, PartTask(plan, list(parts), code), bar, done)


def run_round(session: Any, task: Any, bar: Bar, before: int) -> int:
    """Run parts in a thread of its own, so that this one can draw the bar and be interrupted; how many there were."""
    from pyspark import InheritableThread  # an extra, and slow to import

    context = session.sparkContext
    parts = len(task.todo)
    frame = session.range(0, parts, 1, parts).mapInArrow(task, SUMMARY)
    failure: list[BaseException] = []

    def job() -> None:
        try:
            context.addJobTag(TAG)
            frame.collect()
        except Exception as error:  # noqa: BLE001 - carried to the other thread, which raises it
            failure.append(error)

    thread = InheritableThread(target=job, daemon=True)
    thread.start()
    try:
        _watch(context, thread, lambda done: bar.reach(before + done))
    except BaseException:
        context.cancelJobsWithTag(TAG)
        thread.join()
        raise
    if failure:
        raise SparkFailedError(f"the campaign's job failed: {_reason(failure[0])}")
    return parts


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
