"""``brokerproof doctor``: what works on this machine, proved by trying it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from brokerproof.chaos.doctor import run_doctor
from brokerproof.conformance.experiment.exits import OK, SUITE, under_ci


def main(argv: Sequence[str]) -> int:
    """Probe every tool; with ``--install`` build or fetch first what is missing. Exit 4 under CI when something does
    not work.
    """
    parser = argparse.ArgumentParser(prog="brokerproof doctor", description=__doc__)
    parser.add_argument(
        "--install", action="store_true", help="build the Toxiproxy server and fetch the brokers' jars first"
    )
    parser.add_argument("--json", action="store_true", help="one probe per line, as JSON")
    options = parser.parse_args(argv)
    results = run_doctor(options.install, None if options.json else _announce)
    for probe in results:
        if options.json:
            row = {
                "name": probe.name,
                "ok": probe.ok,
                "detail": probe.detail,
                "remedy": probe.remedy,
                "seconds": probe.seconds,
            }
            sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
        else:
            word = "works" if probe.ok else "fails"
            remedy = "" if probe.ok or not probe.remedy else f"\n         remedy: {probe.remedy}"
            sys.stdout.write(f"{word}  {probe.name:<22} {probe.detail} ({probe.seconds:.2f} s){remedy}\n")
    return SUITE if under_ci() and not all(probe.ok for probe in results) else OK


def _announce(name: str) -> None:
    """Say on a terminal what is going on: installing takes a minute."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K… {name}\r")
        sys.stderr.flush()
