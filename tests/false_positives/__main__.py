"""Look for false positives: the reference broker keeps its promises, so a violation is a defect of a rule or of it.

Run: ``python -m tests.false_positives [--first N] [--count N] [--programs NAME ...] [--sharp]``. Each program runs in
the simulated world; its history is judged as it is and, unless ``--sharp``, weakened to what less fortunate observers
would have recorded (``weakening.py``). One line for each kind of false positive, with how often, and the first seed.
The exit code is 1 if there was one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Final

from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.rules.areas import RULES
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.engine import expected
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.false_positives.programs import (
    acknowledging,
    chaos,
    concurrent,
    crossed,
    mixed,
    networked,
    reporting,
)
from tests.false_positives.weakening import WEAKENINGS, weakened

MAKERS: Final[dict[str, Callable[[int], Program]]] = {
    "mixed": mixed,
    "acknowledging": acknowledging,
    "concurrent": concurrent,
    "crossed": crossed,
    "reporting": reporting,
    "plain": program_for_seed,
    "networked": networked,
    "chaos": chaos,
}
SHARP: Final = "sharp"


def false_positives(
    make: Callable[[int], Program], seed: int, *, sharp: bool = False, pattern: str | None = None
) -> Iterator[tuple[str, str, str]]:
    """How it was seen, the requirement and outcome, and the text of each violation."""
    wanted = [name for name in default_catalogue().select(pattern) if name in RULES]
    history = SimulatedWorld(seed=seed).run(make(seed))
    seen: dict[str, History] = {SHARP: history}
    if not sharp:
        for number, (world, weakenings) in enumerate(WEAKENINGS):
            seen[f"weakening {number}"] = weakened(history, world, seed, *weakenings)
    for how, one in seen.items():
        for verdict in expected(judge_history(one, wanted=wanted), one.header.declared.generation):
            if verdict.verdict is VerdictKind.VIOLATED:
                yield how, f"{verdict.requirement} {verdict.outcome}", verdict.text


def main() -> int:
    """Run the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--programs", nargs="+", choices=MAKERS, default=list(MAKERS))
    parser.add_argument("--requirement", metavar="GLOB", help="judge only requirements that match")
    parser.add_argument("--sharp", action="store_true", help="judge what was seen only, nothing weakened")
    options = parser.parse_args()
    counts: dict[tuple[str, str, str], int] = {}
    firsts: dict[tuple[str, str, str], str] = {}
    for seed in range(options.first, options.first + options.count):
        for name in options.programs:
            for how, what, text in false_positives(
                MAKERS[name], seed, sharp=options.sharp, pattern=options.requirement
            ):
                key = (what, name, how)
                counts[key] = counts.get(key, 0) + 1
                firsts.setdefault(key, f"seed {seed}: {text}")
    for key, count in sorted(counts.items(), key=lambda item: -item[1]):
        sys.stdout.write(f"{' '.join(key)}: {count} times, first {firsts[key]}\n")
    sys.stdout.write(
        f"{options.count} seeds of {', '.join(options.programs)}: {len(counts)} kinds of false positives\n"
    )
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
