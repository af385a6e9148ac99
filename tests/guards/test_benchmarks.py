"""Benchmarks are run by hand: what they import of ours is there."""

import ast
import importlib.util
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py"))
IMPORTED = [
    pytest.param(node.module, one.name, id=f"{path.stem}-{node.module}-{one.name}")
    for path in BENCHMARKS
    for node in ast.walk(ast.parse(path.read_text("utf-8")))
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("brokerproof.")
    for one in node.names
]


@pytest.mark.parametrize(("module", "name"), IMPORTED)
def test_what_a_benchmark_imports_of_ours_is_there(module: str, name: str) -> None:
    try:
        room = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("brokerproof"):
            raise
        pytest.skip(f"{missing.name} is not installed")  # the library of an optional part
    assert hasattr(room, name) or importlib.util.find_spec(f"{module}.{name}")
