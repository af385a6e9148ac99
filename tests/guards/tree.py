"""What the guards look at: our source files, parsed once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("reference_broker", "chaos", "conformance", "reports")


@cache
def source_files() -> tuple[Path, ...]:
    """Python files of the four packages, sorted."""
    found: list[Path] = []
    for package in PACKAGES:
        found += sorted((ROOT / package).rglob("*.py"))
    return tuple(path for path in found if "__pycache__" not in path.parts)


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_name(path: Path) -> str:
    """``brokerproof.conformance.worlds.base`` for conformance/worlds/base.py."""
    parts = ["brokerproof", *path.relative_to(ROOT).with_suffix("").parts]
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Full names of the modules that a file imports, lazily or not."""
    names: list[str] = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write the full name"
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)
