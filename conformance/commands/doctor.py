"""``brokerproof doctor``: what works on this machine, proved by trying it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from brokerproof.chaos.doctor import INSTALLS, run_doctor
from brokerproof.chaos.probes import PROBES
from brokerproof.conformance.experiment.exits import OK, SUITE, VIOLATED, UsageError, under_ci


def main(argv: Sequence[str]) -> int:
    """Probe every tool, or those named; with ``--install`` build or fetch first what is missing. Exit 1 when something
    that was asked for by name, or an installation, fails; 4 under CI when anything does.
    """
    parser = argparse.ArgumentParser(prog="brokerproof doctor", description=__doc__)
    parser.add_argument(
        "--install", action="store_true", help="build the Toxiproxy server and fetch the brokers' jars first"
    )
    parser.add_argument("probe", nargs="*", metavar="PROBE", help=f"only these, of {', '.join(PROBES)}")
    parser.add_argument("--json", action="store_true", help="one probe per line, as JSON")
    options = parser.parse_args(argv)
    unknown = [name for name in options.probe if name not in PROBES]
    if unknown:
        raise UsageError(f"probe {unknown[0]!r} is not known; one of {', '.join(PROBES)}")
    results = run_doctor(options.install, None if options.json else _announce, options.probe or None)
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
    failed = [probe.name for probe in results if not probe.ok]
    if failed and under_ci():
        return SUITE
    return VIOLATED if any(name in options.probe or name in INSTALLS for name in failed) else OK


def _announce(name: str) -> None:
    """Say on a terminal what is going on: installing takes a minute."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K… {name}\r")
        sys.stderr.flush()
