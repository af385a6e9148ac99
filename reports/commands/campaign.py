"""``brokerproof campaign``: parse, run, aggregate, report; ``reports/campaign`` does the work."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from brokerproof.conformance.commands.judge import exit_code
from brokerproof.conformance.experiment.exits import SUITE, UsageError
from brokerproof.conformance.mutants import check_mutant
from brokerproof.conformance.requirements.catalogue import Catalogue, default_catalogue
from brokerproof.conformance.running.engine import run_seed
from brokerproof.conformance.running.folder import make_folder
from brokerproof.reports.campaign.driver import run_campaign
from brokerproof.reports.campaign.outcome import Outcome
from brokerproof.reports.render.formats import failure_of, write_reports
from brokerproof.reports.render.terminal import make_console, print_report
from brokerproof.reports.store.merge import present_report
from brokerproof.reports.store.schema import Report

OUT = Path("brokerproof-out/campaign")
MASTER = "local[2]"
PROGRAMS = 2000


def main(argv: Sequence[str]) -> int:
    """Parse, run, aggregate, report."""
    options = _parse(argv)
    catalogue = default_catalogue()
    _check(options)
    present_report(options.out)
    make_folder(options.out)
    started = time.monotonic()
    outcome, tasks = run_campaign(options.out, options.seed, options.programs, options.master, options.mutant)
    elapsed_ms = round((time.monotonic() - started) * 1000)
    wanted = [requirement.id for requirement in catalogue.judged()]
    report = write_reports(options.out, [outcome.new_column(wanted, run_seed, elapsed_ms)], catalogue)
    if options.json:
        sys.stdout.write(json.dumps(_summary(outcome, report, options, tasks, elapsed_ms), ensure_ascii=False) + "\n")
    else:
        _print(outcome, report, options, catalogue, f"{tasks} tasks, {elapsed_ms / 1000:.1f} s")
    cells = [cell.verdict for cell in report.cells if cell.broker == outcome.broker]
    return SUITE if outcome.problems else exit_code(cells)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="brokerproof campaign", description="large randomized runs on Spark")
    parser.add_argument("--programs", type=int, default=PROGRAMS, metavar="N", help=f"how many seeds ({PROGRAMS})")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (0)")
    parser.add_argument("--master", default=MASTER, metavar="URL", help=f"Spark master ({MASTER})")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"report and tables ({OUT})")
    parser.add_argument("--mutant", metavar="ID", help="plant this defect in the reference broker; never the default")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout instead of the table")
    return parser.parse_args(argv)


def _check(options: argparse.Namespace) -> None:
    """Raises ``UsageError`` for what argparse cannot see."""
    if options.programs < 1:
        raise UsageError(f"--programs is {options.programs}; give at least 1")
    if options.seed < 0:
        raise UsageError(f"--seed is {options.seed}; seeds are 0 or more")
    if not re.fullmatch(r"local(\[(\*|[1-9]\d*)(,\s*[1-9]\d*)?\])?|spark://\S+:\d+", options.master):
        raise UsageError(f"--master is {options.master!r}; give local[2], local[*], local[2,4] or spark://HOST:PORT")
    check_mutant(options.mutant)


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


def _summary(
    outcome: Outcome, report: Report, options: argparse.Namespace, tasks: int, elapsed_ms: int
) -> dict[str, Any]:
    totals = {kind.value: count for kind, count in report.totals(outcome.broker).items() if count}
    violated = [
        cell.requirement
        for cell in report.cells
        if cell.broker == outcome.broker and cell.verdict.verdict == "violated"
    ]
    return {
        "broker": outcome.broker,
        "programs": options.programs,
        "seed": options.seed,
        "mutant": options.mutant,
        "tasks": tasks,
        "events": outcome.events,
        "elapsed_ms": elapsed_ms,
        "cells": totals,
        "violated": violated,
        "in_flight_sql": outcome.inflight.counts,
        "in_flight_left_out": outcome.inflight.beyond,
        "problems": [note.text for note in outcome.problems],
        "report": str(options.out / "report.json"),
        "verdict_digest": outcome.digest,
    }
