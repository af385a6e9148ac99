"""``brokerproof campaign``: parse, run, aggregate, report; ``reports/campaign`` does the work."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from brokerproof.conformance.commands.judge import exit_code
from brokerproof.conformance.experiment.exits import SUITE, UsageError
from brokerproof.conformance.mutants import check_mutant
from brokerproof.conformance.requirements.catalogue import Catalogue, default_catalogue
from brokerproof.conformance.running.folder import make_folder
from brokerproof.reports.campaign.driver import Order, resumed_plan, run_campaign
from brokerproof.reports.campaign.guide import SeedRuns
from brokerproof.reports.campaign.outcome import Outcome
from brokerproof.reports.commands.spark_options import (
    LAST,
    add_spark_options,
    check_spark_options,
    plots_of,
    reach_of,
)
from brokerproof.reports.render.formats import failure_of, write_reports
from brokerproof.reports.render.terminal import make_console, print_report
from brokerproof.reports.store.files import Files
from brokerproof.reports.store.lease import Lease
from brokerproof.reports.store.manifests import Store
from brokerproof.reports.store.merge import present_report
from brokerproof.reports.store.provenance import provenance
from brokerproof.reports.store.rows import KEEP, SAMPLE
from brokerproof.reports.store.schema import Report

OUT = Path("brokerproof-out/campaign")
PROGRAMS = 2000


def main(argv: Sequence[str]) -> int:
    """Parse, run, aggregate, report."""
    if argv[:1] == ["mutants"]:
        from brokerproof.reports.commands import campaign_mutants  # only where it is asked for

        return campaign_mutants.main(argv[1:])
    options = _parse(argv)
    catalogue = default_catalogue()
    _check(options)
    present_report(options.out)
    make_folder(options.out)
    started = time.monotonic()
    with Lease(Files(str(options.out)), ".lease", f"the report in {options.out}", "write yours elsewhere (--out)"):
        store, origin = Store(options.store, make=options.resume is None), provenance(catalogue)
        begun = None
        if options.resume is not None:
            begun = resumed_plan(store, "" if options.resume == LAST else options.resume, origin)
        order = Order(
            reach_of(options),
            shlex.join(["brokerproof", "campaign", *argv]),
            seed=options.seed or 0,
            programs=options.programs or PROGRAMS,
            mutant=options.mutant,
            keep=options.facts or SAMPLE,
            guided=bool(options.guided),
        )
        outcome = run_campaign(store, order, origin, catalogue, begun)
        elapsed_ms = round((time.monotonic() - started) * 1000)
        column = outcome.new_column(catalogue.judged(), SeedRuns(outcome.plan), elapsed_ms)
        report = write_reports(options.out, [column], catalogue)
        drawn = plots_of(store, outcome.plan.campaign, options.out / "plots.html")
    if options.json:
        sys.stdout.write(json.dumps(_summary(outcome, report, options, elapsed_ms), ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(f"plots: {drawn}\n")
        _print(outcome, report, options, catalogue, f"{outcome.plan.parts} parts, {elapsed_ms / 1000:.1f} s")
    cells = [cell.verdict for cell in report.cells if cell.broker == outcome.broker]
    return SUITE if outcome.problems else exit_code(cells)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="brokerproof campaign", description="large randomized runs on Spark")
    parser.add_argument("--programs", type=int, metavar="N", help=f"how many seeds ({PROGRAMS})")
    parser.add_argument("--seed", type=int, metavar="S", help="the first seed (0)")
    parser.add_argument(
        "--facts", choices=KEEP, help=f"whose histories and facts the store keeps ({SAMPLE}: failing ones, 1 in 16)"
    )
    parser.add_argument(
        "--guided",
        action="store_true",
        default=None,
        help="draw programs from those that met something new in earlier rounds, as `run --guided` does",
    )
    add_spark_options(parser)
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"the report ({OUT})")
    parser.add_argument("--mutant", metavar="ID", help="plant this defect in the reference broker; never the default")
    return parser.parse_args(argv)


def _check(options: argparse.Namespace) -> None:
    """Raises ``UsageError`` for what argparse cannot see."""
    if options.programs is not None and options.programs < 1:
        raise UsageError(f"--programs is {options.programs}; give at least 1")
    if options.seed is not None and options.seed < 0:
        raise UsageError(f"--seed is {options.seed}; seeds are 0 or more")
    check_spark_options(options)
    check_mutant(options.mutant)
    planned = [name for name in ("programs", "seed", "mutant", "facts", "guided") if getattr(options, name) is not None]
    if options.resume is not None and planned:
        raise UsageError(f"--resume goes on with the plan in the store; leave out --{', --'.join(planned)}")


def _print(outcome: Outcome, report: Report, options: argparse.Namespace, catalogue: Catalogue, effort: str) -> None:
    console = make_console()
    print_report(
        console,
        report,
        [outcome.broker],
        folder=options.out,
        failure=lambda cell: failure_of(options.out, report, cell, catalogue),
        digest=outcome.digest,
        more=[f"{outcome.source}, {outcome.events:,} events, {effort}", outcome.inflight.sentence()],
    )


def _summary(outcome: Outcome, report: Report, options: argparse.Namespace, elapsed_ms: int) -> dict[str, Any]:
    totals = {kind.value: count for kind, count in report.totals(outcome.broker).items() if count}
    violated = [
        cell.requirement
        for cell in report.cells
        if cell.broker == outcome.broker and cell.verdict.verdict == "violated"
    ]
    return {
        "broker": outcome.broker,
        "campaign": outcome.plan.campaign,
        "store": outcome.plan.store,
        "programs": outcome.plan.programs,
        "seed": outcome.plan.seed,
        "mutant": outcome.plan.mutant,
        "guided": outcome.plan.guided,
        "parts": outcome.plan.parts,
        "events": outcome.events,
        "elapsed_ms": elapsed_ms,
        "cells": totals,
        "violated": violated,
        "in_flight_sql": outcome.inflight.counts,
        "in_flight_left_out": outcome.inflight.beyond,
        "unseen_situations": outcome.unseen,
        "problems": [note.text for note in outcome.problems],
        "report": str(options.out / "report.json"),
        "verdict_digest": outcome.digest,
    }
