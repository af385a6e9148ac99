"""``brokerproof campaign mutants``: after how many random programs do planted defects die? One job on Spark."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from brokerproof.conformance.experiment.exits import OK, UsageError
from brokerproof.conformance.mutants import MUTANTS
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.reports.campaign.driver import begun_campaign
from brokerproof.reports.campaign.mutants import KIND, new_trials, resumed_trials, run_mutants
from brokerproof.reports.commands.spark_options import LAST, add_spark_options, check_spark_options, plots_of, reach_of
from brokerproof.reports.store.estimates import Survival, survival
from brokerproof.reports.store.manifests import Store
from brokerproof.reports.store.provenance import provenance

OUT = Path("brokerproof-out/mutants.html")
PROGRAMS, TRIALS = 300, 3
#: How many of the hardest are named.
NAMED = 10


def main(argv: Sequence[str]) -> int:
    """Parse, hunt, tell."""
    options = _parse(argv)
    store, origin = Store(options.store, make=options.resume is None), provenance(default_catalogue())
    if options.resume is not None:
        plan = resumed_trials(
            store, begun_campaign(store, "" if options.resume == LAST else options.resume, origin, KIND)
        )
    else:
        chosen = [name for name in MUTANTS if any(fnmatchcase(name, glob) for glob in options.ids or ["*"])]
        if not chosen:
            raise UsageError(f"no planted defect is called {' or '.join(options.ids)}; see `brokerproof list mutants`")
        plan = new_trials(store, origin, options.seed, options.programs, options.trials, sorted(chosen))
    command = shlex.join(["brokerproof", "campaign", "mutants", *argv])
    rows = run_mutants(store, reach_of(options), plan, origin, command)
    drawn = plots_of(store, plan.campaign, options.out)
    if options.json:
        curve = survival([(row["programs"], row["killed"]) for row in rows])
        alive = [[step.after, step.share, step.low, step.high] for step in curve]
        summary = {"campaign": plan.campaign, "trials": len(rows), "killed": sum(row["killed"] for row in rows)}
        sys.stdout.write(json.dumps(summary | {"curve": alive, "survivors": _survivors(rows)}) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in (*told(rows, plan.programs), f"curve: {drawn}")))
    return OK


def told(rows: list[dict[str, Any]], programs: int) -> list[str]:
    """What the trials amount to, in sentences."""
    curve = survival([(row["programs"], row["killed"]) for row in rows])
    defects = {row["mutant"] for row in rows}
    lost = _survivors(rows)
    found = [
        f"{len(defects)} planted defects, {len(rows)} trials of at most {programs:,} random programs each",
        f"{len(defects) - len(lost)} defects were found in at least one trial, {len(lost)} in none",
        "still alive after so many programs (with the band of 95 % confidence):",
    ]
    for after in sorted({1, 10, 100, programs // 2, programs} & set(range(programs + 1))):
        step = next((step for step in reversed(curve) if step.after <= after), Survival(0, 1.0, 1.0, 1.0))
        found.append(f"  {after:>7,}  {step.share:6.1%}  ({step.low:.1%} to {step.high:.1%})")
    slow = sorted((row for row in rows if row["killed"]), key=lambda row: -row["programs"])[:NAMED]
    found.append("the latest finds:" if slow else "nothing was found")
    found += [f"  {row['programs']:>7,}  {row['mutant']} ({row['requirement']})" for row in slow]
    if lost:
        found.append(f"found in no trial: {', '.join(lost)}")
    return found


def _survivors(rows: list[dict[str, Any]]) -> list[str]:
    return sorted({row["mutant"] for row in rows} - {row["mutant"] for row in rows if row["killed"]})


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="brokerproof campaign mutants", description=__doc__)
    parser.add_argument(
        "ids", nargs="*", metavar="ID", help="defects, * matches anything (`brokerproof list mutants`; all)"
    )
    parser.add_argument("--programs", type=int, default=PROGRAMS, metavar="N", help=f"at most, per trial ({PROGRAMS})")
    parser.add_argument("--trials", type=int, default=TRIALS, metavar="N", help=f"per defect ({TRIALS})")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (0)")
    add_spark_options(parser)
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help=f"the page with the curve ({OUT})")
    options = parser.parse_args(argv)
    check_spark_options(options)
    if options.programs < 1 or options.trials < 1 or options.seed < 0:
        raise UsageError("--programs and --trials are at least 1, --seed is at least 0")
    return options
