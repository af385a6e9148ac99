"""Automatic mutants of a tree of sources: which there are, what each looks like, and how one is known again.

A mutation's key is a digest of its file's name, its function, its line before and after, and the lines around it: it
survives changes elsewhere, and nothing that is said of it outlives a change of what it was said about.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import random
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path

from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.mutants.automatic.operators import Edit, edits

#: What is mutated unless files are named, below the reference broker: what decides, in every world.
FILES = ("core/*", "stomp/*", "openwire/translation/*", "node.py", "inactivity.py")
#: Of these, what asserts and decides nothing.
ASIDE = ("core/invariants.py",)
#: Lines before and after that belong to a key.
AROUND = 2


class Mutation:
    """One automatic mutant: a file with one edit in it."""

    __slots__ = ("edit", "file", "key", "source")

    def __init__(self, file: str, source: str, edit: Edit) -> None:
        #: Below the reference broker: ``core/queue.py``.
        self.file = file
        self.source = source
        self.edit = edit
        self.key = ""

    @property
    def module(self) -> str:
        """The name that it is imported by."""
        return "brokerproof.reference_broker." + self.file.removesuffix(".py").replace("/", ".")

    @property
    def line(self) -> int:
        """Where it begins, counted from 1."""
        return self.edit.node.lineno

    def mutated(self) -> str:
        """The file's text with the defect."""
        node = self.edit.node
        lines = self.source.encode().splitlines(keepends=True)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        head = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
        tail = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
        return (head + self.edit.text.encode() + tail).decode()

    def diff(self) -> str:
        """As people read it, without the header lines."""
        before, after = self.source.splitlines(), self.mutated().splitlines()
        shown = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
        return "\n".join(shown)

    def digest(self, lines: list[str], again: str) -> str:
        """See the module's header. ``again``: how many before it are the same."""
        first, last = self.line - 1, (self.edit.node.end_lineno or self.line) - 1
        around = lines[max(0, first - AROUND) : last + 1 + AROUND]
        parts = [self.file, self.edit.function, self.edit.operator, self.edit.text, again, *around]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def broker_folder() -> Path:
    """Where the reference broker's sources are."""
    return Path(str(resources.files("brokerproof.reference_broker")))


def source_files(pattern: str | None = None) -> list[str]:
    """The files that are mutated, below the reference broker's folder. ``pattern``: a glob over these names (default
    ``FILES``). Raises ``UsageError`` when no file matches.
    """
    folder = broker_folder()
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
    patterns = FILES if pattern is None else (pattern,)
    aside = ASIDE if pattern is None else ()
    chosen = [name for name in names if name not in aside and any(fnmatchcase(name, one) for one in patterns)]
    if not chosen:
        raise UsageError(f"--file {pattern!r} matches no file of the reference broker; names look like core/queue.py")
    return chosen


def mutations_of(file: str, source: str) -> list[Mutation]:
    """All mutations of one file, with their keys."""
    lines = [line.strip() for line in source.splitlines()]
    found: list[Mutation] = []
    seen: dict[str, int] = {}
    for edit in edits(ast.parse(source)):
        mutation = Mutation(file, source, edit)
        mutation.key = key = mutation.digest(lines, "")
        if key in seen:
            mutation.key = mutation.digest(lines, str(seen[key]))
        seen[key] = seen.get(key, 0) + 1
        found.append(mutation)
    return found


def all_mutations(files: list[str]) -> list[Mutation]:
    """All mutations of some files, in the order of files and places."""
    folder = broker_folder()
    return [one for file in files for one in mutations_of(file, (folder / file).read_text("utf-8"))]


def sample_of(mutations: list[Mutation], size: int | None, seed: int) -> list[Mutation]:
    """``size`` of them (None: all), the same for the same seed and sources, in their order."""
    if size is None or size >= len(mutations):
        return mutations
    chosen = random.Random(seed).sample(range(len(mutations)), size)  # noqa: S311 - a sample, no secret
    return [mutations[index] for index in sorted(chosen)]
