"""Which programs reach which line of the reference broker, and what their histories are on the sound one.

Recorded once per state of the sources and kept in a file; a mutant meets only the programs that execute its line.

Rules
* Lines are recorded of the files that are mutated, by the interpreter's own tracing; programs are numbered, corpus
  first, and a line's programs are the bits of a number.
* What is executed by an import is executed by every program.
"""

from __future__ import annotations

import hashlib
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import resources
from inspect import CO_NEWLOCALS, CO_OPTIMIZED
from multiprocessing import get_context
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.facts.collecting import seldom_collected
from brokerproof.conformance.mutants.automatic.mutations import Mutation, broker_folder
from brokerproof.conformance.running.automatic.comparing import digest_of, program_named, violated_in
from brokerproof.conformance.running.pool import end_with_parent
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

#: Programs per task.
CHUNK = 25


class Row(msgspec.Struct):
    """One program: its name, its history's digest, the requirements that it violates on the sound broker, and the lines
    that it reaches, by file.
    """

    name: str
    history: str
    violated: list[str]
    lines: dict[str, list[int]]


class Tracer:
    """Collects executed lines of the files of one folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.lines: dict[str, set[int]] = {}
        #: The local function of a code object; None: nothing of it is recorded.
        self._known: dict[CodeType, Any] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG002 - the interpreter's call
        code = frame.f_code
        if code not in self._known:
            self._known[code] = self._watch(code)
        return self._known[code]

    def _watch(self, code: CodeType) -> Any:
        if not code.co_filename.startswith(self._folder):
            return None
        lines = self.lines.setdefault(code.co_filename[len(self._folder) :], set())
        add, known = lines.add, self._known
        todo = {line for _, _, line in code.co_lines() if line is not None}

        def local(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG001 - the interpreter's call
            line = frame.f_lineno
            add(line)
            todo.discard(line)
            if not todo:
                known[code] = None
            return local

        return local


def record(name: str) -> Row:
    """Run one program on the sound broker, watched."""
    program = program_named(name)
    tracer = Tracer(f"{broker_folder()}/")
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        history = SimulatedWorld().run(program)
    finally:
        sys.settrace(before)
    lines = {file: sorted(found) for file, found in tracer.lines.items()}
    return Row(name, digest_of(history), violated_in(history), lines)


def record_all(names: list[str]) -> list[Row]:
    """The rows of some programs."""
    with seldom_collected():
        return [record(name) for name in names]


def state_of_sources() -> str:
    """A digest of everything that a run depends on."""
    found = hashlib.sha256()
    root = Path(str(resources.files("brokerproof")))
    for room in ("conformance", "reference_broker"):
        for path in sorted((root / room).rglob("*")):
            if path.suffix in {".py", ".toml"}:
                found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:24]


class Coverage:
    """The rows of all programs, asked by line."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.by_line: dict[tuple[str, int], int] = {}
        for number, row in enumerate(rows):
            for file, lines in row.lines.items():
                for line in lines:
                    self.by_line[file, line] = self.by_line.get((file, line), 0) | 1 << number

    def programs(self, mutation: Mutation) -> list[Row]:
        """Those that execute a mutation's place."""
        if not mutation.edit.function:
            return self.rows
        bits = 0
        for node in (mutation.edit.node, mutation.edit.statement):
            for line in range(node.lineno, _last_line(node) + 1):
                bits |= self.by_line.get((mutation.file, line), 0)
            if bits:
                break
        return [row for number, row in enumerate(self.rows) if bits >> number & 1]

    def reached(self, files: list[str]) -> tuple[int, int]:
        """Lines of functions that programs execute, and all of them."""
        folder = broker_folder()
        found = [(file, line) for file in files for line in lines_of((folder / file).read_text("utf-8"))]
        return sum(place in self.by_line for place in found), len(found)


def lines_of(source: str) -> list[int]:
    """The lines that the functions of a file can execute, but for those of ``def`` itself."""
    waiting = [compile(source, "", "exec", dont_inherit=True)]
    found: dict[int, bool] = {}
    while waiting:
        code = waiting.pop()
        waiting += [part for part in code.co_consts if isinstance(part, CodeType)]
        if code.co_flags & CO_NEWLOCALS and code.co_flags & CO_OPTIMIZED:
            first = code.co_firstlineno
            found |= {line: True for _, _, line in code.co_lines() if line is not None and line != first}
    return sorted(found)


def _last_line(node: Any) -> int:
    """The last line of an expression or a simple statement; of one with a body, that before it."""
    body = getattr(node, "body", None)
    return body[0].lineno - 1 if isinstance(body, list) and body else int(node.end_lineno)


def load(seeds: int, jobs: int, folder: Path, *, corpus: bool = True) -> Coverage:
    """The coverage of the corpus and of the first ``seeds`` seeds; what the folder does not have is recorded there."""
    names = [*(programs() if corpus else ()), *(f"seed-{seed}" for seed in range(seeds))]
    path = folder / f"coverage-{state_of_sources()}.json"
    known: dict[str, Row] = {}
    if path.exists():
        known = {row.name: row for row in msgspec.json.decode(path.read_bytes(), type=list[Row])}
    missing = [name for name in names if name not in known]
    if missing:
        chunks = [missing[start : start + CHUNK] for start in range(0, len(missing), CHUNK)]
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
            for rows in pool.map(record_all, chunks):
                known |= {row.name: row for row in rows}
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(list(known.values())))
    return Coverage([known[name] for name in names])
