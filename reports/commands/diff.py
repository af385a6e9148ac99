"""``brokerproof diff A B``: what changed from one report to another, as text, Markdown (a pull request) or a page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from brokerproof.conformance.experiment.exits import OK, VIOLATED, reader_may_leave
from brokerproof.reports.render.changes import as_markdown, as_page, as_text, columns_to_compare, compare
from brokerproof.reports.store.schema import read_report


def main(argv: Sequence[str]) -> int:
    """Exit 1 when a MUST is newly violated."""
    parser = argparse.ArgumentParser(prog="brokerproof diff", description=__doc__)
    parser.add_argument("before", type=Path, metavar="A", help="a report's folder, as `run --out` wrote it")
    parser.add_argument("after", type=Path, metavar="B", help="the other one")
    parser.add_argument("--format", choices=["text", "markdown", "html"], default="text", help="(default text)")
    options = parser.parse_args(argv)
    old, new = read_report(options.before), read_report(options.after)
    found = [compare(old, new, before, after) for before, after in columns_to_compare(old, new)]
    with reader_may_leave():
        if options.format == "html":
            sys.stdout.write(as_page(new, found))
        else:
            lines = as_text if options.format == "text" else as_markdown
            sys.stdout.write("".join(f"{line}\n" for one in found for line in lines(one)))
    return VIOLATED if any(one.worse for one in found) else OK
