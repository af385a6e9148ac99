"""Guard: nothing in the deterministic rooms depends on hashing, addresses, clocks or unseeded randomness (DESIGN
section 6).
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.guards.tree import ROOT, module_name, parsed, source_files

ROOMS = (
    "reference_broker/core",
    "conformance/worlds/simulated",
    "conformance/experiment",
    "conformance/generate",
    "conformance/facts",
    "conformance/rules",
)
BANNED_MODULES = {"time", "random", "uuid", "secrets", "os", "datetime", "threading", "asyncio", "socket"}
BANNED_CALLS = {"hash", "id"}
#: The one module that owns randomness, and the one at the border of the process.
MAY_IMPORT = {
    "brokerproof.conformance.experiment.chooser": {"random"},
    "brokerproof.conformance.experiment.exits": {"os"},
}


def room_files() -> list[Path]:
    return [path for path in source_files() if str(path.relative_to(ROOT)).startswith(ROOMS)]


def offences(path: Path, allowed: set[str]) -> list[str]:
    found = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [f"line {node.lineno}: imports {n}" for n in names if n.split(".")[0] in BANNED_MODULES - allowed]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
            found.append(f"line {node.lineno}: calls {node.func.id}()")
        elif isinstance(node, ast.For | ast.comprehension) and _is_set(node.iter):
            found.append(f"line {node.iter.lineno}: iterates over a set, whose order depends on PYTHONHASHSEED")
    return found


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"set", "frozenset"}


def test_rooms_are_deterministic() -> None:
    files = {module_name(path): path for path in room_files()}
    found = {name: offences(path, MAY_IMPORT.get(name, set())) for name, path in files.items()}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_the_guard_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import time\nfor x in {1, 2}:\n    print(hash(x))\n")
    assert offences(bad, set()) == [
        "line 1: imports time",
        "line 2: iterates over a set, whose order depends on PYTHONHASHSEED",
        "line 3: calls hash()",
    ]
