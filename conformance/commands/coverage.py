"""``brokerproof coverage``: which requirements, situations and features random programs meet, and which are the rarest.

Runs seeds on the reference broker in virtual time. One line per requirement: programs that met it, its situations met,
the features it was met with; then the rarest situations, each with a program that met it, and features. Nothing is
judged good or bad here: exit code 0.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence

from brokerproof.conformance.commands.globs import Globs
from brokerproof.conformance.experiment.exits import OK, UsageError, reader_may_leave
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.coverage import Coverage, Requirement, programs_with_features
from brokerproof.conformance.running.options import PROGRAMS

#: Situations and features that are shown as the rarest.
RAREST = 20


def main(argv: Sequence[str]) -> int:
    """Run the seeds, print what they met."""
    options = _parse(argv)
    wanted = tuple(default_catalogue().select(options.requirement))
    coverage = Coverage(wanted)
    runs = programs_with_features(options.seed, options.programs, options.jobs, wanted, guided=options.guided)
    for features, result in runs:
        coverage.add(features, result)
    with reader_may_leave():
        lines = map(json.dumps, _rows(coverage)) if options.json else _lines(coverage, options.rarest)
        for line in lines:
            sys.stdout.write(line + "\n")
    return OK


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="brokerproof coverage", description=__doc__)
    parser.add_argument("--programs", type=int, default=PROGRAMS, metavar="N", help=f"default {PROGRAMS}")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first one")
    parser.add_argument("--guided", action="store_true", help="guide the seeds by what earlier ones met, as `run` does")
    parser.add_argument(
        "--requirement", action=Globs, metavar="GLOB", help="only requirements that match, for example 'EXP-*'"
    )
    parser.add_argument("--rarest", type=int, default=RAREST, metavar="N", help=f"how many (default {RAREST})")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="worker processes (default 2)")
    parser.add_argument("--json", action="store_true", help="one requirement per line, as JSON, with all counts")
    options = parser.parse_args(argv)
    if options.programs < 1 or options.jobs < 1 or options.rarest < 0:
        raise UsageError(
            f"--programs {options.programs} and --jobs {options.jobs} must be at least 1, "
            f"--rarest {options.rarest} at least 0"
        )
    return options


def _rows(coverage: Coverage) -> Iterator[dict[str, object]]:
    for row in coverage.requirements.values():
        features = {name: row.features[name] for name in sorted(coverage.features)}
        yield {
            "requirement": row.id,
            "programs": row.programs,
            "situations": row.situations,
            "features": features,
            "first": row.first,
        }


def _lines(coverage: Coverage, rarest: int) -> Iterator[str]:
    rows = list(coverage.requirements.values())
    drawn = len(coverage.features)
    yield f"{'requirement':<12} {'programs':>8} {'situations':>10} {'features':>8}  rarest situation"
    for row in rows:
        name, count = min(row.situations.items(), key=lambda one: (one[1], one[0]), default=("", 0))
        told = f"{count:,}: {name}" if name else ""
        met = f"{sum(map(bool, row.situations.values()))}/{len(row.situations)}"
        yield f"{row.id:<12} {row.programs:>8,} {met:>10} {f'{len(row.features)}/{drawn}':>8}  {told}".rstrip()
    if rarest:
        yield from _rarest(coverage, rarest)
    situations = [count for row in rows for count in row.situations.values()]
    yield ""
    yield (
        f"{coverage.programs:,} programs met {sum(row.programs > 0 for row in rows)} of {len(rows)} requirements, "
        f"{sum(map(bool, situations))} of {len(situations)} situations, "
        f"{sum(len(row.features) for row in rows):,} of {len(rows) * drawn:,} pairs of requirement and feature"
    )


def _rarest(coverage: Coverage, rarest: int) -> Iterator[str]:
    yield f"\nthe {rarest} rarest situations (programs, requirement, the first that met it):"
    for count, row, name in coverage.situations()[:rarest]:
        yield f"{count:>8,}  {row.id}  {name}{_shown(row, name)}"
    yield f"\nthe {rarest} rarest features (programs, feature):"
    for name, count in sorted(coverage.features.items(), key=lambda one: (one[1], one[0]))[:rarest]:
        yield f"{count:>8,}  {name}"


def _shown(row: Requirement, situation: str) -> str:
    first = row.first.get(situation)
    return f" ({first})" if first else ""
