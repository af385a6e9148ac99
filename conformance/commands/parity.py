"""``brokerproof parity``: the same programs on the reference broker in both worlds, and where the worlds disagree.

It compares what must be equal in every world: the outcome of every message, the order in which each consumer got its
messages, who closed which connection and why, the broker's counters at rest, and the intervals of delays. A program
that one world skips a step of is *not compared*, which is no agreement.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec

from brokerproof.conformance.experiment.exits import OK, SUITE, VIOLATED, SuiteProblem, UsageError, under_ci
from brokerproof.conformance.running.parity import PROGRAMS, ParityRun, parity_programs, run_parity


def main(argv: Sequence[str]) -> int:
    """``brokerproof parity [NAME …] [--programs N] [--seed S] [--json]``."""
    parser = argparse.ArgumentParser(prog="brokerproof parity", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these programs of the corpus (default: all)")
    parser.add_argument(
        "--programs", type=int, default=PROGRAMS, metavar="N", help=f"seeded programs (default {PROGRAMS})"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (default 0)")
    parser.add_argument("--json", action="store_true", help="one line of JSON per program")
    options = parser.parse_args(argv)
    if options.programs < 0:
        raise UsageError(f"--programs {options.programs} must be at least 0")
    from brokerproof.chaos.tools import ToolMissing
    from brokerproof.conformance.brokers.reference import ReferenceAdapter
    from brokerproof.conformance.worlds.live.laboratory import Laboratory

    different = not_run = 0
    with Laboratory() as laboratory:
        adapter = ReferenceAdapter()
        for name, program, seed in parity_programs(options.programs, options.seed, options.names):
            try:
                run, _, _ = run_parity(adapter, laboratory, name, program, seed)
            except ToolMissing as error:
                not_run += 1
                sys.stdout.write(f"{name}: not run: {error}\n")
                continue
            except SuiteProblem as error:
                raise SuiteProblem(f"{name}: {error}") from None
            different += bool(run.differences)
            _tell(run, as_json=options.json)
    if different:
        return VIOLATED
    return SUITE if not_run and under_ci() else OK


def _tell(run: ParityRun, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.encode(run).decode() + "\n")
        return
    word = "agree" if not run.differences else f"{len(run.differences)} differences"
    if run.not_compared:
        word = f"not compared: one world skips {', '.join(run.not_compared)}"
    sys.stdout.write(f"{run.name}: {word} ({run.seconds:.1f} s)\n")
    for difference in run.differences:
        sys.stdout.write(f"  {difference}\n")
