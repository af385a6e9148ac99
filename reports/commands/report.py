"""``brokerproof report DIR`` draws all pages again from ``DIR/report.json`` and the evidence beside it: after an
upgrade, or when only ``report.json`` and ``evidence/`` were archived.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from brokerproof.conformance.experiment.exits import OK
from brokerproof.reports.render.formats import render_all
from brokerproof.reports.store.schema import read_report


def main(argv: Sequence[str]) -> int:
    """Draw the pages of a report folder again. A folder without a readable report is bad usage (2)."""
    parser = argparse.ArgumentParser(prog="brokerproof report", description="write the pages of an earlier run again")
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="a folder with report.json and evidence/, as `run --out` wrote it"
    )
    options = parser.parse_args(argv)
    report = read_report(options.folder)
    index = render_all(options.folder, report)
    sys.stdout.write(f"report: {index}\n")
    return OK
