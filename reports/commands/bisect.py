"""``brokerproof bisect``: the first release of a broker that deviates from a requirement."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from brokerproof.conformance.brokers import check_broker, releases_of
from brokerproof.conformance.experiment.exits import OK, SUITE, UsageError
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.reports.commands.matrix import Runner, run_apart
from brokerproof.reports.store.schema import FILE, read_report

#: A release -> whether it deviates; None: that cannot be told here, and the text says why.
Probe = Callable[[str], tuple[bool | None, str]]
OUT = Path("brokerproof-out/bisect")
_DEVIATES = {VerdictKind.VIOLATED: True, VerdictKind.KNOWN_FAILURE: True, VerdictKind.SATISFIED: False}


def main(argv: Sequence[str], run: Runner | None = None) -> int:
    """Play the programs that show a requirement on releases between two, by halves. Exit code 0 if the answer was found
    (also that there is no difference), 4 if it could not be.
    """
    options = _parse(argv)
    requirement = default_catalogue()[options.requirement].id
    check_broker(options.broker)
    releases = _between(options.broker, options.releases)

    def probe(release: str) -> tuple[bool | None, str]:
        out = options.out / release
        (out / FILE).unlink(missing_ok=True)  # what an earlier run found is no answer
        broker = f"{options.broker}@{release}"
        words = [
            "run",
            "--broker",
            broker,
            "--tier",
            "live",
            "--requirement",
            requirement,
            "--out",
            str(out),
            "--quiet",
        ]
        _, told = (run or partial(run_apart, told=False))(words)
        return _read(out, requirement, told)

    answer, found = first_deviating(releases, probe)
    sys.stdout.write(f"{requirement} on {options.broker}: {answer}\n")
    return OK if found else SUITE


def first_deviating(releases: Sequence[str], probe: Probe) -> tuple[str, bool]:
    """The answer as a sentence, and whether there is one. Releases that cannot be told are left out, and named."""
    left, untold = list(releases), []

    def deviates(at: int) -> bool | None:
        """Of the release at this place; None: it is left out now."""
        found, text = probe(left[at])
        sys.stdout.write(f"  {left[at]}: {text}\n")
        sys.stdout.flush()
        if found is None:
            untold.append(left.pop(at))
        return found

    ends: list[bool] = []
    for at in (0, -1):
        end = None
        while left and (end := deviates(at)) is None:
            pass
        if end is None:
            return f"none of {', '.join(releases)} can be told", False
        ends.append(end)
    beside = f" ({', '.join(untold)} could not be told)" if untold else ""
    if ends[0] == ends[1]:
        return f"{left[0]} and {left[-1]} {'deviate' if ends[0] else 'hold'} alike{beside}", True
    low, high = 0, len(left) - 1
    while high - low > 1:
        middle = (low + high) // 2
        found = deviates(middle)
        if found is None:
            high -= 1
        elif found == ends[0]:
            low = middle
        else:
            high = middle
    beside = f" ({', '.join(untold)} could not be told)" if untold else ""
    verb = "deviates" if ends[1] else "holds again"
    return (
        f"{left[high]} is the first release that {verb}; {left[low]} {'deviates' if ends[0] else 'holds'}{beside}",
        True,
    )


def _read(out: Path, requirement: str, told: str) -> tuple[bool | None, str]:
    """What a run's report says of the requirement."""
    if not (out / FILE).exists():
        lines = told.strip().splitlines()
        return None, lines[-1] if lines else "it wrote no report"
    verdict = next(cell.verdict for cell in read_report(out).cells if cell.requirement == requirement)
    return _DEVIATES.get(verdict.verdict), f"{verdict.verdict.value}  {verdict.text}".strip()


def _between(broker: str, wanted: str | None) -> list[str]:
    """The releases of a broker, or those from one to another. Raises ``UsageError``."""
    known = releases_of(broker) if "://" not in broker and not broker.endswith(".toml") else ()
    if len(known) < 2:
        raise UsageError(f"broker {broker!r} has no releases to choose from; `brokerproof list brokers` shows who has")
    if wanted is None:
        return list(known)
    first, dots, last = wanted.partition("..")
    if not dots or first not in known or last not in known or known.index(first) >= known.index(last):
        raise UsageError(
            f"--releases {wanted!r} are no two of {', '.join(known)}; write for example {known[0]}..{known[-1]}"
        )
    return list(known[known.index(first) : known.index(last) + 1])


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="brokerproof bisect", description=__doc__)
    parser.add_argument("requirement", metavar="REQUIREMENT", help="for example DLY-006")
    parser.add_argument(
        "--broker", default="activemq", metavar="NAME", help="a broker with releases (default activemq)"
    )
    parser.add_argument("--releases", metavar="A..B", help="from A to B only (default all that can be had)")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"a report for each (default {OUT})")
    return parser.parse_args(argv)
