"""Evidence: the program and history of a run that the report shows, kept beside ``report.json``.

Decides: where the files lie (``evidence/<broker>/<world>-<name>/program.json``, ``history.jsonl``), how they are named
and how they are read back.

Rules:

* Names become folder names that every file system takes; two names never share a folder.
* A program file is the durable artefact: the replay line names it, not a seed.
* Everything of one broker lies in one folder, so that replacing a column means replacing a folder.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from pathlib import Path

from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.experiment.history_file import HistoryError, read_history
from brokerproof.conformance.experiment.program import Program, ProgramError, read_program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import Verdict
from brokerproof.reports.store.schema import Evidence, ReportError, column_name

FOLDER = "evidence"
PROGRAM = "program.json"
HISTORY = "history.jsonl"
#: Longer names are cut; the hash keeps them apart.
SLUG_MAX = 80


def slug(name: str) -> str:
    """A folder name for ``name``: lower case, digits, dots, hyphens, blanks as underscores.

    A short hash is added whenever something was lost, so two names never share a folder.
    """
    plain = re.sub(r"[^a-z0-9.-]+", "_", name.lower()).strip("_.")[:SLUG_MAX]
    if plain and "_" not in name and plain == name.replace(" ", "_"):
        return plain
    return f"{plain or 'x'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def evidence_of(result: RunResult) -> Evidence:
    """The entry in ``report.json`` for a run."""
    column = column_name(result.broker, result.mutant)
    ident = f"{slug(column)}/{slug(f'{result.world}-{result.name}')}"
    return Evidence(
        id=ident,
        broker=column,
        run=result.run,
        world=result.world,
        program=result.program.digest(),
        steps=len(result.program.steps),
        events=len(result.history.events) if result.history is not None else 0,
        replay=_replay(ident, result),
        seed=result.seed,
        mutant=result.mutant,
    )


def write_evidence(folder: Path, result: RunResult) -> Evidence:
    """Write program and history below ``folder/evidence``; returns the entry for ``report.json``."""
    evidence = evidence_of(result)
    place = folder / FOLDER / evidence.id
    place.mkdir(parents=True, exist_ok=True)
    (place / PROGRAM).write_bytes(result.program.encode() + b"\n")
    if result.history is not None:
        result.history.write(place / HISTORY)
    return evidence


def read_evidence(folder: Path, evidence: Evidence, verdicts: list[Verdict]) -> RunResult:
    """The run again, from its files.

    Raises ``ReportError`` when they are missing, malformed or not those that the report names.
    """
    place = folder / FOLDER / evidence.id
    try:
        program: Program = read_program(place / PROGRAM)
        history: History | None = read_history(place / HISTORY) if evidence.events else None
    except (ProgramError, HistoryError) as error:
        raise ReportError(f"evidence of {evidence.run}: {error}; run the suite again") from None
    if program.digest() != evidence.program:
        raise ReportError(
            f"{place / PROGRAM}: is {program.digest()}, the report names {evidence.program}; run the suite again"
        )
    name = evidence.run.rsplit("/", 1)[-1]
    broker = evidence.run.split("/", 1)[0]
    return RunResult(
        name, broker, evidence.world, program, verdicts, history, seed=evidence.seed, mutant=evidence.mutant
    )


def replay_line(evidence: Evidence, folder: Path) -> str:
    """The replay line as it works from where the user stands; ``evidence.replay`` works inside the report's folder."""
    inside = f"{FOLDER}/{evidence.id}/{PROGRAM}"
    return evidence.replay.replace(shlex.quote(inside), shlex.quote(str(folder / inside)), 1)


def _replay(ident: str, result: RunResult) -> str:
    words = ["brokerproof", "replay", f"{FOLDER}/{ident}/{PROGRAM}"]
    if result.world == "live":
        words += [*result.chosen, "--tier", "live"]
    if result.mutant:
        words += ["--mutant", result.mutant]
    return shlex.join(words)
