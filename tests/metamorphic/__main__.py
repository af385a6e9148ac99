"""Judge every mutant's kill again beside each addition, under other names and clocks, and as seen by worse observers.

Run: ``python -m tests.metamorphic [--mutants ID ...] [--first]``. One line for each violation that an addition takes
away, or that a relation changes; the exit code is 1 if there was one. ``--first``: one form of each kind of addition.
"""

from __future__ import annotations

import argparse
import sys

from brokerproof.conformance.mutants import MUTANTS
from brokerproof.conformance.running.hunt import hunt
from tests.metamorphic.losing import Kill, changed, lost


def main() -> int:
    """Hunt the mutants, and lose nothing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", nargs="+", choices=MUTANTS, default=list(MUTANTS), metavar="ID")
    parser.add_argument("--first", action="store_true", help="one form of each kind of addition")
    options = parser.parse_args()
    found = 0
    for name in options.mutants:
        killed = hunt(MUTANTS[name], likely_first=True)
        if killed is None:
            sys.stdout.write(f"{name} survives\n")
            found += 1
            continue
        kill = Kill(name, killed.result.name, killed.result.program, killed.result.seed)
        for kind, form, requirement in lost(kill, first=options.first):
            sys.stdout.write(f"{name} in {kill.name} beside {kind}: {form}: {requirement} is lost\n")
            found += 1
        for what, requirement in changed(kill):
            sys.stdout.write(f"{name} in {kill.name}, {what}: {requirement} is another\n")
            found += 1
    sys.stdout.write(f"{len(options.mutants)} mutants: {found} violations lost or changed\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
