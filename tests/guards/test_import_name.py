"""Guard: one import name. Whoever writes ``conformance`` for ``brokerproof.conformance`` gets a twin module here, and
somebody else's package where it is installed.

Decides for every Python file of ours, tests and benchmarks too: imports, strings that are the path of a module (after
``-m``, in ``monkeypatch.setattr``), strings that are a program; and for all text files: ``-m`` and ``--pyargs``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.guards.tree import PACKAGES, ROOT, imports, parsed, source_files

ROOMS = "|".join(PACKAGES)
#: Lines of a program in a string.
IMPORT = re.compile(rf"^\s*(?:import (?:{ROOMS})(?:[.,\s]|$)|from (?:{ROOMS})[.\w]* import )", re.MULTILINE)
#: A module, or what is in it.
DOTTED = re.compile(rf"({ROOMS})((?:\.\w+)+)")
#: What a file must hold for its tree to be looked at: a bare room after import or from, or at the start of a string.
SUSPICIOUS = re.compile(rf"(?:import|from)\s[^\n]*(?<!\.)\b(?:{ROOMS})\b|[\"'](?:{ROOMS})\b|[\"'](?:-m|--pyargs)\b")
COMMAND = re.compile(rf"(?:-m|--pyargs)[ =](?:{ROOMS})\b")
#: Runs inside the pinned tree, where the rooms still were packages.
EXEMPT = ROOT / "tests/frozen/driver.py"
TEXTS = ("*.md", "*.ini", "*.toml", ".ci/*", "docs/*.md", "benchmarks/*.md")


def python_files() -> list[Path]:
    """Every Python file of the repository that we wrote."""
    others = [path for room in ("tests", "benchmarks", "src") for path in sorted((ROOT / room).rglob("*.py"))]
    return [*source_files(), *(path for path in others if path != EXEMPT and "__pycache__" not in path.parts)]


def text_files() -> list[Path]:
    return [path for pattern in TEXTS for path in sorted(ROOT.glob(pattern)) if path.is_file()]


def bare_names(path: Path) -> list[str]:
    """What the file calls by a bare name, as ``file:line: name``."""
    if SUSPICIOUS.search(path.read_text(encoding="utf-8")) is None:
        return []
    found = [f"{path.name}: import {name}" for name in imports(path) if name.split(".")[0] in PACKAGES]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.List | ast.Tuple):
            found += [f"{path.name}:{node.lineno}: -m {name}" for name in _after_m(node.elts) if name in PACKAGES]
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and (IMPORT.search(text) or _is_module(text)):
            found.append(f"{path.name}:{node.lineno}: {text}")
    return found


def _after_m(words: list[ast.expr]) -> Iterator[object]:
    values = [word.value if isinstance(word, ast.Constant) else None for word in words]
    yield from (after for word, after in pairwise(values) if word in {"-m", "--pyargs"})


def _is_module(text: str) -> bool:
    match = DOTTED.fullmatch(text)
    if match is None:
        return False
    first = ROOT / match[1] / match[2].split(".")[1]
    return first.is_dir() or first.with_suffix(".py").is_file()


def test_python_files_write_the_full_name() -> None:
    assert [name for path in python_files() for name in bare_names(path)] == []


def test_commands_write_the_full_name() -> None:
    assert [path for path in text_files() if COMMAND.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "line",
    [
        "import {}",
        "from {} import x",
        "run(['python', '-m', '{}'])",
        "patch('{}.{}.value', 1)",
        "code = 'import {}.x'",
        "code = '''\n  from {} import x\n'''",
    ],
)
@pytest.mark.parametrize(("room", "module"), [("chaos", "links"), ("reports", "render")])
def test_the_guard_can_fail(line: str, room: str, module: str, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.py", tmp_path / "good.py"
    bad.write_text(line.format(room, module))
    good.write_text(line.format(f"brokerproof.{room}", module))
    assert len(bare_names(bad)) >= 1
    assert bare_names(good) == []
