"""``brokerproof mutants``: plant every defect and say which requirement killed it, after how many programs; with
``--automatic``, defects that nobody wrote by hand (``commands/automatic.py``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from brokerproof.conformance.commands import automatic
from brokerproof.conformance.experiment.exits import OK, VIOLATED, UsageError
from brokerproof.conformance.mutants import MUTANTS, check_mutant
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.failure import failure_text
from brokerproof.conformance.running.hunt import PROGRAMS_MAX, hunt
from brokerproof.conformance.running.pool import end_with_parent

#: The mutant that CI plants to prove that a failing run is red: it must die, and quickly.
CANARY = "delay-1ms-early"
#: Mutants for which it pays to find out first which programs exercise what.
MANY = 20


def main(argv: Sequence[str]) -> int:
    """Hunt mutants; exit 1 when one survives."""
    parser = argparse.ArgumentParser(prog="brokerproof mutants", description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="only these mutants (`brokerproof list mutants`)")
    parser.add_argument(
        "--programs",
        type=int,
        help=f"programs per mutant before it counts as a survivor (default {PROGRAMS_MAX}); "
        f"of --automatic, seeded programs beside the corpus (default {automatic.PROGRAMS})",
    )
    parser.add_argument("--seed", type=int, default=0, help="first seed; of --automatic, the sample's")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument(
        "--canary", action="store_true", help=f"only {CANARY}, and show the failure text that it must give"
    )
    parser.add_argument("--json", action="store_true", help="one mutant per line, as JSON")
    automatic.add_options(parser)
    options = parser.parse_args(argv)
    if (options.programs or 0) < 0 or options.jobs < 1:
        raise UsageError(f"--programs {options.programs} must be at least 0 and --jobs {options.jobs} at least 1")
    _check_kind(options)
    if options.automatic:
        return automatic.measure(options)
    options.programs = PROGRAMS_MAX if options.programs is None else options.programs
    if options.canary:
        return _canary(options.seed, options.programs)
    for name in options.ids:
        check_mutant(name)
    return _hunt_all(options.ids or list(MUTANTS), options)


def _check_kind(options: argparse.Namespace) -> None:
    """Options of one kind of mutants are refused with the other."""
    automatic_only = [name for name in ("sample", "file", "random_only") if getattr(options, name)]
    if not options.automatic and automatic_only:
        raise UsageError(f"--{automatic_only[0].replace('_', '-')} is about automatic mutants; add --automatic")
    if options.automatic and (options.ids or options.canary):
        what = f"mutant {options.ids[0]!r}" if options.ids else "--canary"
        raise UsageError(f"{what} was written by hand; leave it out, or leave --automatic out")


def hunt_one(name: str, seed: int, programs: int, *, likely_first: bool = False) -> dict[str, object]:
    """Hunt one mutant; a row for the table."""
    mutant = MUTANTS[name]
    kill = hunt(mutant, seed, programs, likely_first=likely_first)
    row: dict[str, object] = {"mutant": name, "requirement": mutant.requirement}
    if kill is None:
        return row | {"killed": False, "programs": programs, "by": [], "program": ""}
    return row | {"killed": True, "programs": kill.programs, "by": kill.killers, "program": kill.result.name}


def _hunt_all(names: Sequence[str], options: argparse.Namespace) -> int:
    survivors = 0
    for row in _rows(names, options):
        survivors += not row["killed"]
        sys.stdout.write((json.dumps(row) if options.json else _line(row)) + "\n")
        sys.stdout.flush()
    if not options.json:
        sys.stdout.write(f"{len(names) - survivors} of {len(names)} mutants killed\n")
    return VIOLATED if survivors else OK


def _rows(names: Sequence[str], options: argparse.Namespace) -> Iterator[dict[str, object]]:
    one = partial(hunt_one, seed=options.seed, programs=options.programs, likely_first=len(names) >= MANY)
    if options.jobs <= 1:
        yield from map(one, names)
        return
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
        futures = [pool.submit(one, name) for name in names]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def _line(row: dict[str, object]) -> str:
    if not row["killed"]:
        return f"SURVIVED  {row['mutant']:<36} {row['requirement']} not violated in {row['programs']} programs"
    others = ", ".join(str(name) for name in row["by"])  # type: ignore[attr-defined]  # a list of ids
    return f"killed    {row['mutant']:<36} by {others} after {row['programs']} programs ({row['program']})"


def _canary(seed: int, programs: int) -> int:
    """A run that must be red: exit 0 only if the planted defect was found and explained."""
    kill = hunt(MUTANTS[CANARY], seed, programs)
    if kill is None:
        sys.stderr.write(f"the canary {CANARY} survived {programs} programs: a green run proves nothing\n")
        return VIOLATED
    requirement = MUTANTS[CANARY].requirement
    verdict = next(v for v in kill.result.verdicts if v.requirement == requirement)
    sys.stdout.write(failure_text(kill.result, verdict, default_catalogue()) + "\n\n")
    sys.stdout.write(f"canary: {CANARY} was found after {kill.programs} programs, as it must be\n")
    return OK
