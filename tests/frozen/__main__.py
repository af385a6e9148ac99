"""The old judge, frozen at a pinned commit, beside the one of this tree.

``make`` runs the pinned tree's world and judge and keeps histories and verdicts; ``compare`` judges these histories
again; ``show KEY`` prints one of them. Exit code 1: this tree's judge accuses the sound broker, or says too little.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.frozen import comparing, making, records, showing, table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.frozen", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    folder = making.OUT / "frozen"
    make = verbs.add_parser("make", help="make the records; what is there already is kept")
    make.add_argument("--out", type=Path, default=folder, metavar="DIR", help="default brokerproof-out/frozen")
    make.add_argument("--seeds", type=int, default=3000, help="on the sound broker (default %(default)s)")
    make.add_argument("--mutant-seeds", type=int, default=300, help="per mutant (default %(default)s)")
    make.add_argument("--mutants", nargs="+", metavar="ID", help="only these (default all)")
    make.add_argument("--jobs", type=int, default=2)
    compare = verbs.add_parser("compare", help="judge the recorded histories again")
    compare.add_argument("--dir", type=Path, default=folder, help="default brokerproof-out/frozen")
    compare.add_argument("--group", choices=[*records.GROUPS, "all"], default="all")
    compare.add_argument("--requirement", nargs="+", default=["*"], metavar="GLOB", help="judge only these")
    compare.add_argument("--key", default="*", metavar="GLOB", help="only runs such as 'mutants/returns-vanish/*'")
    compare.add_argument("--limit", type=int, metavar="N", help="judge about so many runs of each group")
    compare.add_argument(
        "--sample", type=int, default=10, metavar="N",
        help="of the sound runs in which the old judge decided nothing wanted judge each Nth (0: none; default 10)",
    )  # fmt: skip
    compare.add_argument("--jobs", type=int, default=2)
    compare.add_argument("--show", type=int, default=0, metavar="N", help="print so many disagreements of each kind")
    compare.add_argument("--json", action="store_true", help="one requirement per line, as JSON")
    compare.add_argument("--judge", default=comparing.JUDGE, metavar="MODULE:NAME", help="default %(default)s")
    show = verbs.add_parser("show", help="print one history, and what both judges say")
    show.add_argument("key", metavar="KEY", help="such as seeds/17, corpus/NAME, mutants/returns-vanish/42")
    show.add_argument("--dir", type=Path, default=folder, help="default brokerproof-out/frozen")
    show.add_argument("--requirement", nargs="+", default=["*"], metavar="GLOB")
    show.add_argument("--judge", default=comparing.JUDGE, metavar="MODULE:NAME", help="default %(default)s")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Exit code 0, 1 (see above) or 2 (something that was asked for is missing)."""
    options = vars(_parser().parse_args(argv))
    verb = options.pop("verb")
    try:
        if verb == "make":
            sys.stdout.write(making.make(**options) + "\n")
            return 0
        if verb == "show":
            sys.stdout.write(showing.show(**options))
            return 0
        return table.main(**options)
    except (records.Missing, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
