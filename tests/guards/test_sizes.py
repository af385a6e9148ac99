"""Guard: files of at most 500 lines (median at most 200), functions of at most 70, a header in every module (DESIGN
section 9).
"""

from __future__ import annotations

import ast
from pathlib import Path
from statistics import median

from tests.guards.tree import parsed, source_files

FILE_LINES_MAX = 500
MEDIAN_LINES_MAX = 200
FUNCTION_LINES_MAX = 70


def long_functions(path: Path) -> list[str]:
    found = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                found.append(f"{path}:{node.lineno}: {node.name} has {length} lines")
    return found


def offences(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").count("\n")
    found = [f"{path} has {lines} lines"] if lines > FILE_LINES_MAX else []
    if lines and not ast.get_docstring(parsed(path)):
        found.append(f"{path} has no module docstring: say what it decides")
    return found + long_functions(path)


def test_size_and_header() -> None:
    assert [text for path in source_files() for text in offences(path)] == []


def listed(path: Path) -> bool:
    """Whether a header lists what must change together."""
    return "change together" in (ast.get_docstring(parsed(path)) or "").lower()


def test_no_header_lists_what_must_change_together() -> None:
    assert [path for path in source_files() if listed(path)] == [], "put it together, and say nothing"


def test_median() -> None:
    sizes = [path.read_text(encoding="utf-8").count("\n") for path in source_files()]
    assert median(size for size in sizes if size) <= MEDIAN_LINES_MAX


def test_the_guard_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX)
    assert offences(bad)[0].endswith("no module docstring: say what it decides")
    assert len(long_functions(bad)) == 1
    long = tmp_path / "long.py"
    long.write_text('"""A header."""\n' + "x = 1\n" * FILE_LINES_MAX)
    assert offences(long) == [f"{long} has {FILE_LINES_MAX + 1} lines"]
    listing = tmp_path / "listing.py"
    listing.write_text('"""A header.\n\nChange together: ``other.py``."""\n')
    assert listed(listing)
