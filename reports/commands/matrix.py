"""``brokerproof matrix``: every broker that can be had here, one after the other, as columns of one report."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from brokerproof.conformance.brokers import check_broker, releases_of, shipped
from brokerproof.conformance.commands.globs import Globs
from brokerproof.conformance.experiment.exits import OK, SUITE, USAGE, VIOLATED
from brokerproof.conformance.running.options import budget_s

#: Runs the arguments of ``brokerproof``; its exit code and what it wrote to stderr.
Runner = Callable[[Sequence[str]], tuple[int, str]]
OUT = Path("brokerproof-out/matrix")


def main(argv: Sequence[str], run: Runner | None = None) -> int:
    """Run each broker's live tier into one report. A broker that cannot be had is named with the reason; the exit code
    is 1 if any broker violates something, else the highest of all, 4 if none could be had.
    """
    options = _parse(argv)
    brokers = options.brokers or everything()
    for broker in brokers:
        check_broker(broker)
    common = ["--tier", "live", "--out", str(options.out), "--quiet"]
    if options.requirement is not None:
        common += ["--requirement", options.requirement]
    if options.budget is not None:
        common += ["--budget", str(options.budget)]
    codes: list[int] = []
    missing: list[str] = []
    for number, broker in enumerate(brokers, 1):
        sys.stdout.write(f"[{number}/{len(brokers)}] {broker}\n")
        sys.stdout.flush()
        code, told = (run or run_apart)(["run", "--broker", broker, *common])
        if code in {USAGE, SUITE}:
            missing.append(f"not run: {broker}: {_reason(told)}")
        else:
            codes.append(code)
    sys.stdout.write("".join(f"{line}\n" for line in missing))
    sys.stdout.write(f"{len(codes)} of {len(brokers)} brokers ran; report: {options.out / 'index.html'}\n")
    if not codes:
        return SUITE
    return VIOLATED if VIOLATED in codes else max(codes, default=OK)


def everything() -> list[str]:
    """Each shipped profile, and each release of those that have any."""
    return [one for name in shipped() for one in ([f"{name}@{release}" for release in releases_of(name)] or [name])]


def run_apart(arguments: Sequence[str], *, told: bool = True) -> tuple[int, str]:
    """In a process of its own, so that what one broker leaves behind is no other's; its stdout is shown if ``told``."""
    done = subprocess.run(
        [sys.executable, "-m", "brokerproof", *arguments],
        stdout=None if told else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def _reason(told: str) -> str:
    lines = [line for line in told.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="brokerproof matrix", description=__doc__)
    parser.add_argument(
        "brokers",
        nargs="*",
        metavar="BROKER",
        help="as for `run --broker`; default: every shipped profile and each of its releases",
    )
    parser.add_argument("--requirement", action=Globs, metavar="GLOB", help="as for `run`")
    parser.add_argument("--budget", type=budget_s, metavar="TIME", help="random programs on each broker for so long")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"the report's folder (default {OUT})")
    return parser.parse_args(argv)
