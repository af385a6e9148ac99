"""``brokerproof judge HISTORY.jsonl``: all rules on a history from anywhere (docs/history.md)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from brokerproof.conformance.commands.globs import Globs
from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK, VIOLATED
from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.experiment.history_file import read_history
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind, concluded
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.failure import witness_lines

#: More inconclusive verdicts than this share (percent of the decided ones) is exit code 3.
INCONCLUSIVE_PERCENT_MAX = 5


def main(argv: Sequence[str]) -> int:
    """Judge one file; exit 1 when something is violated."""
    parser = argparse.ArgumentParser(prog="brokerproof judge", description=__doc__)
    parser.add_argument("history", type=Path, metavar="HISTORY.jsonl", help="a brokerproof/history/2 (or 1) file")
    parser.add_argument(
        "--requirement", action=Globs, metavar="GLOB", help="judge only requirements that match, for example 'DLY-*'"
    )
    parser.add_argument("--json", action="store_true", help="one verdict per line, as JSON")
    options = parser.parse_args(argv)
    catalogue = default_catalogue()
    wanted = catalogue.select(options.requirement)
    history = read_history(options.history)
    verdicts = judge_history(history, catalogue, wanted)
    for verdict in verdicts:
        sys.stdout.write(msgspec.json.encode(verdict).decode() + "\n" if options.json else _line(verdict, history))
    return exit_code([concluded(verdict, catalogue[verdict.requirement].level) for verdict in verdicts])


def _line(verdict: Verdict, history: History) -> str:
    text = f"{verdict.requirement}  {verdict.verdict.value:<14}  {verdict.text}".rstrip() + "\n"
    if verdict.verdict is VerdictKind.VIOLATED:
        text += "".join(f"          {line}\n" for line in witness_lines(history, verdict.witness))
    return text


def exit_code(verdicts: Sequence[Verdict], percent_max: float = INCONCLUSIVE_PERCENT_MAX) -> int:
    """0, 1 or 3 for a list of concluded cells: what a SHOULD or MAY comes to decides nothing (DESIGN section 8)."""
    kinds = [verdict.verdict for verdict in verdicts]
    if VerdictKind.VIOLATED in kinds:
        return VIOLATED
    unsure = kinds.count(VerdictKind.INCONCLUSIVE)
    decided = unsure + kinds.count(VerdictKind.SATISFIED) + kinds.count(VerdictKind.KNOWN_FAILURE)
    return INCONCLUSIVE if unsure * 100 > decided * percent_max else OK
