"""``brokerproof ingest``: report folders and histories from anywhere, into the store (docs/store.md).

Rules:

* A report gives its runs of evidence, each with what the report says of the requirements that it stands for; nothing
  is judged again, because what a broker promised is known to the report only. Programs, histories and facts come along.
* A history alone is judged by the rules of this release, as ``judge`` does.
* Each is a campaign of its own, dated by its end. What the store has already is left alone, whatever it is called.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from brokerproof.conformance.experiment.configuration import BrokerSpec
from brokerproof.conformance.experiment.exits import OK, UsageError
from brokerproof.conformance.experiment.history_file import read_history
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.requirements.catalogue import Catalogue, default_catalogue
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.reports.store.evidence import FOLDER, HISTORY, read_evidence
from brokerproof.reports.store.manifests import END, START, STORE, Store
from brokerproof.reports.store.provenance import provenance
from brokerproof.reports.store.rows import Row
from brokerproof.reports.store.schema import FILE, Column, Report, column_name, read_report
from brokerproof.reports.store.writer import PartWriter

PART = "part-000000"


class Found:
    """What becomes a campaign: runs of one broker, what tells it from others, when it ended, who made it."""

    def __init__(self, broker: str, runs: Sequence[RunResult], mark: bytes, at_ms: int, version: str) -> None:
        self.broker = broker
        self.runs = runs
        self.at_ms = at_ms
        self.version = version
        self.digest = ""
        self.problems: list[Row] = []
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at_ms / 1000))
        self.campaign = f"{stamp}-{hashlib.sha256(mark).hexdigest()[:12]}"


def main(argv: Sequence[str]) -> int:
    """Parse, read everything, then write."""
    parser = argparse.ArgumentParser(prog="brokerproof ingest", description=__doc__)
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="a report folder, a history.jsonl, or a folder of such"
    )
    parser.add_argument("--store", default=STORE, metavar="DIR", help=f"folder or URI of the store ({STORE})")
    options = parser.parse_args(argv)
    catalogue = default_catalogue()
    found = [one for path in options.paths for one in _found(path, catalogue)]
    store = Store(options.store, make=True)
    command = shlex.join(["brokerproof", "ingest", *argv])
    for one in found:
        done = "ingested" if _write(store, one, catalogue, command) else "is in the store already"
        sys.stdout.write(f"{one.campaign}  {one.broker}: {len(one.runs)} runs {done}\n")
    return OK


def _found(path: Path, catalogue: Catalogue) -> list[Found]:
    """What a path holds. Raises ``UsageError`` if that is nothing, ``ReportError``, ``HistoryError``."""
    if path.is_file():
        return [_of_history(path, catalogue)]
    reports = sorted(file.parent for file in path.rglob(FILE))
    if reports:
        return [one for folder in reports for one in _of_report(folder)]
    histories = sorted(path.rglob("*.jsonl"))
    if not histories:
        raise UsageError(f"{path}: no {FILE} and no *.jsonl is there; give a report folder or a history")
    return [_of_history(file, catalogue) for file in histories]


def _of_report(folder: Path) -> Iterator[Found]:
    report = read_report(folder)
    for column in report.columns:
        runs = list(_evidence(folder, report, column))
        mark = msgspec.json.encode([column, [(run.run, run.program.digest()) for run in runs]])
        at_ms = column.finished_ms or int((folder / FILE).stat().st_mtime * 1000)
        one = Found(column.broker, runs, mark, at_ms, report.generator)
        one.digest = column.digest
        one.problems = [_problem(column, note.run, note.text) for note in column.problems]
        yield one


def _evidence(folder: Path, report: Report, column: Column) -> Iterator[RunResult]:
    """The runs that a column shows, each with the verdicts of the cells that it stands for."""
    said: dict[str, list[Verdict]] = {}
    silent = []
    for cell in report.cells:
        if cell.broker == column.broker and cell.example is not None:
            said.setdefault(cell.example.evidence, []).append(cell.example.verdict)
        elif cell.broker == column.broker and cell.verdict.verdict is VerdictKind.NOT_APPLICABLE:
            silent.append(cell.verdict)
    for entry in report.evidence:
        if entry.broker == column.broker and (folder / FOLDER / entry.id).is_dir():
            yield read_evidence(folder, entry, [*said.get(entry.id, ()), *silent])


def _of_history(path: Path, catalogue: Catalogue) -> Found:
    history = read_history(path)
    header = history.header
    name = path.parent.name if path.name == HISTORY and path.parent.name else path.stem
    program = Program(FORMAT, BrokerSpec(), [])
    verdicts = judge_history(history, catalogue)
    broker = header.broker.replace("/", "-") or "unknown"
    run = RunResult(name, broker, header.world, program, verdicts, history, seed=header.seed, mutant=header.mutant)
    at_ms = int(path.stat().st_mtime * 1000)
    return Found(column_name(broker, header.mutant), [run], path.read_bytes(), at_ms, "")


def _problem(column: Column, run: str, text: str) -> Row:
    world, name = [*run.split("/", 2)[1:], "", ""][:2]
    about = {"run": run, "broker": column.broker, "world": world, "name": name, "mutant": column.mutant}
    return {**about, "program": "", "steps": 0, "events": 0, "processor_us": 0, "problem": text, "not_run": ""}


def _write(store: Store, one: Found, catalogue: Catalogue, command: str) -> bool:
    """Add it to the store; False if it is there."""
    mark = one.campaign.rpartition("-")[2]
    if any(name.endswith(mark) and store.manifest(name, END) is not None for name in store.campaigns()):
        return False
    start = PartWriter(store, one.campaign, START)
    start.put_catalogue(catalogue)
    start.commit()
    part = PartWriter(store, one.campaign, PART, one.broker)
    for run in one.runs:
        part.add(run, 0)
    for row in one.problems:
        part.add_problem(row)
    part.commit()
    told = {**msgspec.structs.asdict(provenance(catalogue)), **({"version": one.version} if one.version else {})}
    end = PartWriter(store, one.campaign, END)
    about = {"campaign": one.campaign, "kind": "ingest", "state": "finished", "at_ms": one.at_ms, "command": command}
    runs = len(one.runs) + len(one.problems)
    end.put("campaigns", [{**told, **about, "runs": runs, "keep": "all", "digest": one.digest}])
    end.commit()
    return True
