"""``brokerproof list``: what there is. Read-only, no broker is started."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from brokerproof.conformance.commands.globs import Globs
from brokerproof.conformance.experiment.exits import OK
from brokerproof.conformance.requirements.catalogue import default_catalogue


def main(argv: Sequence[str]) -> int:
    """Print requirements, programs, mutants or brokers, one per line; ``--json`` for machines."""
    parser = argparse.ArgumentParser(prog="brokerproof list", description=__doc__)
    parser.add_argument(
        "what", nargs="?", choices=["requirements", "programs", "mutants", "brokers"], default="requirements"
    )
    parser.add_argument(
        "--requirement", action=Globs, metavar="GLOB", help="only requirements that match, for example 'EXP-*'"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args(argv)
    for row in _rows(options.what, options.requirement):
        line = json.dumps(row, ensure_ascii=False) if options.json else "  ".join(f"{value}" for value in row.values())
        sys.stdout.write(line + "\n")
    return OK


def _rows(what: str, pattern: str | None) -> list[dict[str, str]]:
    if what == "requirements":
        return _requirements(pattern)
    if what == "programs":
        from brokerproof.conformance.corpus import programs

        return [{"name": name, "steps": str(len(program.steps))} for name, program in programs().items()]
    if what == "mutants":
        from brokerproof.conformance.mutants import MUTANTS

        return [{"id": m.id, "requirement": m.requirement, "sentence": m.sentence} for m in MUTANTS.values()]
    from brokerproof.conformance.brokers import shipped

    return [{"name": name, "about": text} for name, text in shipped().items()]


def _requirements(pattern: str | None) -> list[dict[str, str]]:
    catalogue = default_catalogue()
    chosen = set(catalogue.select(pattern)) if pattern else {requirement.id for requirement in catalogue}
    return [
        {"id": r.id, "status": r.status, "level": r.level, "profiles": ",".join(r.profiles), "sentence": r.sentence}
        | ({"reason": f"not judged: {r.reason}"} if r.reason else {})
        for r in catalogue
        if r.id in chosen
    ]
