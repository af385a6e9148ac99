"""``brokerproof compare A B`` and ``brokerproof trends``: campaigns of a store beside each other (docs/store.md).

``compare`` tells what B violates and A does not, what is fixed, flaky, no longer tried, and which distances to a limit
have moved; ``trends`` has a line per campaign.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import msgspec

from brokerproof.conformance.experiment.exits import OK, VIOLATED, UsageError, reader_may_leave
from brokerproof.reports.store.comparisons import compare, lines, trends
from brokerproof.reports.store.manifests import STORE, Store


def main(argv: Sequence[str]) -> int:
    """Exit 1 when something is newly violated."""
    parser = argparse.ArgumentParser(prog="brokerproof compare", description="what changed from a campaign to another")
    parser.add_argument(
        "before", metavar="A", help="a campaign (`brokerproof sql campaigns`), or the beginning of its id"
    )
    parser.add_argument("after", metavar="B", help="the other one")
    options = _parse(parser, argv)
    store = Store(options.store)
    before, after = (_named(store, name) for name in (options.before, options.after))
    found = compare(store, before, after, options.broker)
    with reader_may_leave():
        if options.json:
            sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        else:
            sys.stdout.write("".join(f"{line}\n" for line in lines(found)))
    return VIOLATED if found.newly_violated else OK


def trends_main(argv: Sequence[str]) -> int:
    """One line per campaign and broker."""
    parser = argparse.ArgumentParser(prog="brokerproof trends", description="how campaigns of a store went over time")
    options = _parse(parser, argv)
    rows = trends(Store(options.store), options.broker)
    with reader_may_leave():
        if options.json:
            sys.stdout.write("".join(f"{json.dumps(row)}\n" for row in rows))
            return OK
        names = list(rows[0]) if rows else []
        table = [[name.replace("_", " ") for name in names], *([_shown(row[name]) for name in names] for row in rows)]
        widths = [max(len(line[place]) for line in table) for place in range(len(names))]
        for line in table if rows else []:
            sys.stdout.write(
                "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + "\n"
            )
        if not rows:
            sys.stdout.write(f"no runs in {options.store}\n")
    return OK


def _parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    parser.add_argument("--broker", default="", metavar="NAME", help="only this column (all)")
    parser.add_argument("--store", default=STORE, metavar="DIR", help=f"folder or URI of the store ({STORE})")
    parser.add_argument("--json", action="store_true", help="JSON on stdout instead of text")
    return parser.parse_args(argv)


def _named(store: Store, begin: str) -> str:
    """The campaign whose id begins so. Raises ``UsageError``."""
    known = store.campaigns()
    found = [name for name in known if name.startswith(begin)]
    if len(found) != 1:
        few = ", ".join(known[-5:]) or "none"
        raise UsageError(
            f"{begin!r} is the beginning of {len(found)} campaigns of {store.files.where}; the last are {few}"
        )
    return found[0]


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value or "")
