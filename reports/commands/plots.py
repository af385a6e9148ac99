"""``brokerproof plots``: one page of plots of a campaign, from the store: coverage over runs, survival of planted
defects, distance to limits, silence before closes, lives and skew, in-flight counts. It needs no network to be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from brokerproof.conformance.experiment.exits import OK, UsageError
from brokerproof.reports.render.plots import write_plots
from brokerproof.reports.store.manifests import STORE, Store

OUT = Path("brokerproof-out/plots.html")


def main(argv: Sequence[str]) -> int:
    """Parse, ask, draw."""
    parser = argparse.ArgumentParser(prog="brokerproof plots", description=__doc__)
    parser.add_argument("campaign", nargs="?", metavar="ID", help="a campaign of the store (the last one)")
    parser.add_argument("--store", default=STORE, metavar="DIR", help=f"folder or URI of the store ({STORE})")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help=f"the page ({OUT})")
    options = parser.parse_args(argv)
    store = Store(options.store)
    known = store.campaigns()
    campaign = options.campaign or (known[-1] if known else "")
    if campaign not in known:
        raise UsageError(f"{campaign!r} is no campaign of {options.store}; there are {', '.join(known) or 'none'}")
    write_plots(store, campaign, options.out)
    sys.stdout.write(f"plots: {options.out}\n")
    return OK
