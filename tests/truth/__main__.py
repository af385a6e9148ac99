"""``python -m tests.truth [--first SEED] [--count N]``: the truth lies in every span, and how wide the spans are.

Prints, per kind of instant, how many spans there were, the median of their widths, and how many had no end; exits with
1 if a true instant lay outside of its span.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median

from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.spans import NEVER, ms
from brokerproof.conformance.generate.programs import program_for_seed
from tests.truth.truth import compared, played


def main() -> int:
    """Run the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    widths: dict[str, list[int]] = {}
    endless: dict[str, int] = {}
    wrong = 0
    for seed in range(options.first, options.first + options.count):
        history, truth = played(program_for_seed(seed), seed)
        for kind, (low, high), true_ns, row in compared(Facts(history), truth):
            if not low <= true_ns <= high:
                wrong += 1
                if wrong <= 20:
                    sys.stdout.write(f"seed {seed}: {kind} {row}: {ms(true_ns)} is not in {ms(low)} to {ms(high)}\n")
            if high >= NEVER:
                endless[kind] = endless.get(kind, 0) + 1
            else:
                widths.setdefault(kind, []).append(high - low)
    for kind, found in widths.items():
        line = f"{kind}: {len(found) + endless.get(kind, 0)} spans, median width {ms(int(median(found)))}, "
        sys.stdout.write(f"{line}{endless.get(kind, 0)} without an end\n")
    sys.stdout.write(f"{options.count} seeds: {wrong} true instants outside of their spans\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
