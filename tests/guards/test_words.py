"""Guard: words of our own do not come back into names and headers (DESIGN section 9: words are the field's).

Each was once the name of a thing that JMS, Jepsen or Hypothesis have a word for; the table says which.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.guards.tree import PACKAGES, ROOT

INSTEAD = {
    "attendance": "connection registry, consumers",
    "blur": "weaken, uncertainty",
    "chronicle": "history builder",
    "clouded": "unobservable",
    "doorkeeper": "authenticator",
    "exhibit": "example",
    "fate": "state",
    "motif": "scenario template",
    "mould": "frame template",
    "passage": "delivery",
    "picky": "selective",
    "safekeeping": "group-commit gate",
    "stranger": "raw peer",
    "tale": "history builder",
}


ANY = re.compile("|".join(INSTEAD), re.IGNORECASE)


def names(tree: ast.Module) -> Iterator[str]:
    """What a file names itself, and its header."""
    yield ast.get_docstring(tree) or ""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def banned(path: Path) -> list[str]:
    """Words of a file's name, names and header that have a better one."""
    text = path.read_text(encoding="utf-8")
    if ANY.search(path.stem + text) is None:  # most files: reading is cheap, parsing is not
        return []
    tree = ast.parse(text, str(path))
    found = set()
    for name in (path.stem, *names(tree)):
        found |= {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)}
    words = {word if word in INSTEAD else word.removesuffix("s") for word in found}
    return [f"{path.name}: {word}; say {INSTEAD[word]}" for word in sorted(words & INSTEAD.keys())]


def test_words_are_the_fields() -> None:
    files = [path for folder in (*PACKAGES, "tests", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert [text for path in files if path != Path(__file__) for text in banned(path)] == []


def test_the_guard_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "chronicles.py"
    bad.write_text('"""A tale."""\ndef exhibit_key(picky_one): self.fates = a_motif = 1\n')
    assert [text.split(";")[0].split(": ")[1] for text in banned(bad)] == [
        "chronicle",
        "exhibit",
        "fate",
        "motif",
        "picky",
        "tale",
    ]
