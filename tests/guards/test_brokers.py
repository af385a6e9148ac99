"""Guard: nothing branches on who a broker is. No name of a shipped profile is compared with, but that of the embedded
reference broker, which alone runs in virtual time, and one that is a generation's, too: what a broker declares.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from brokerproof.reference_broker.core.config import GENERATIONS
from tests.guards.tree import ROOT, parsed, source_files

DECLARED = {"reference", *(name for names in GENERATIONS.values() for name in names)}
NAMES = {path.stem for path in (ROOT / "conformance" / "brokers").glob("*.toml")} - DECLARED
KINDS = NAMES | {"stomp:", "artemis"}


def branches(tree: ast.AST) -> list[str]:
    """Names of brokers that something is compared with, or that a text begins with."""
    found = []
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            parts = list(node.args)
        constants = [one for part in parts for one in ast.walk(part) if isinstance(one, ast.Constant)]
        found += [one.value for one in constants if isinstance(one.value, str) and one.value in KINDS]
    return found


def test_there_are_names() -> None:
    assert {"activemq", "rabbitmq"} <= NAMES
    assert branches(ast.parse('if name == "activemq" or name.startswith("stomp:"): pass')) == ["activemq", "stomp:"]


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in source_files()
        if path.is_relative_to(ROOT / "conformance") or path.is_relative_to(ROOT / "reports")
    ],
    ids=str,
)
def test_nothing_branches_on_a_brokers_name(path: Path) -> None:
    assert branches(parsed(path)) == []
