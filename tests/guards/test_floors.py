"""Guard: the rooms of ``conformance`` and their floors (DESIGN section 3), drawn from the imports.

A room imports only rooms on floors below its own; no files import each other in a circle, imports for types included;
nothing lies loose. ``CIRCLES`` and ``LOOSE_FOR_NOW`` are what is still to be mended: an entry that is no longer needed
fails too.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.guards.tree import ROOT, module_name, parsed, source_files

FLOORS: tuple[tuple[str, ...], ...] = (
    ("experiment",),
    ("requirements", "known", "generate"),
    ("facts", "corpus", "stories", "mutants", "agents"),
    ("rules", "oracles", "brokers"),
    ("judge", "worlds", "operating"),
    ("running",),
    ("machines", "pytest_plugin"),
    ("commands", "cli"),
)
FLOORS_MAX = 8
FLOOR = {room: number for number, rooms in enumerate(FLOORS, start=1) for room in rooms}
LOOSE = {"__init__.py", "cli.py", "pytest_plugin.py"}
#: The old judge: it goes with ``oracles``.
LOOSE_FOR_NOW = {"judge.py"}
_SIMULATED = "brokerproof.conformance.worlds.simulated"
_LIVE = "brokerproof.conformance.worlds.live"
#: Circles that go when the worlds become one executor with two ports: hosts and links name the stage that they are on.
CIRCLES: set[frozenset[str]] = {
    frozenset(f"{_SIMULATED}.{name}" for name in ("broker", "host", "libraries", "link", "stage", "visitor")),
    frozenset({f"{_LIVE}.ending", f"{_LIVE}.world"}),
}
#: The broker's own circles, which are not looked at yet.
NOT_YET = "brokerproof.reference_broker."


@cache
def graph(paths: tuple[Path, ...]) -> dict[str, set[str]]:
    """File -> the files that it imports, each by the name of its module."""
    modules = {module_name(path): path for path in paths}
    return {module: imported(parsed(path), modules) - {module} for module, path in modules.items()}


def imported(tree: ast.Module, modules: Collection[str]) -> set[str]:
    """Which of these modules a file imports. ``from package import module`` means the module, not the package."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names += [name if name in modules else node.module for name in inner]
    return {name for name in names if name in modules}


def room_of(module: str) -> str:
    """``worlds`` for brokerproof.conformance.worlds.base."""
    return module.split(".")[2]


def arrows_up(files: Mapping[str, set[str]]) -> list[str]:
    """Imports between rooms of conformance that do not lead to a floor below."""
    found = []
    for module in sorted(files):
        for other in sorted(files[module]):
            if not all(name.startswith("brokerproof.conformance.") for name in (module, other)):
                continue
            above, below = room_of(module), room_of(other)
            if above != below and FLOOR[below] >= FLOOR[above]:
                found.append(f"{module} (floor {FLOOR[above]}) imports {other} (floor {FLOOR[below]})")
    return found


def circles(files: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Groups of files of which each reaches each other by imports."""
    reached = {module: _reached(module, files) for module in files}
    return {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in files
        if module in reached[module]
    }


def _reached(module: str, files: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(files[module])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += files[name]
    return seen


def loose_files(folder: Path) -> set[str]:
    """Files of a room that has folders."""
    return {path.name for path in folder.iterdir() if path.is_file()}


def test_nothing_lies_loose() -> None:
    assert loose_files(ROOT / "conformance") - LOOSE == LOOSE_FOR_NOW


def test_every_room_has_a_floor() -> None:
    rooms = {room_of(name) for name in graph(source_files()) if name.startswith("brokerproof.conformance.")}
    assert rooms - FLOOR.keys() == set()
    assert len(FLOORS) <= FLOORS_MAX


def test_no_arrow_runs_up() -> None:
    assert arrows_up(graph(source_files())) == []


def test_no_circles() -> None:
    found = circles(graph(source_files()))
    assert {circle for circle in found if not any(name.startswith(NOT_YET) for name in circle)} == CIRCLES


def test_the_guard_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An arrow up, a circle over an import for types, and a loose file must be caught."""
    room = tmp_path / "conformance"
    (room / "experiment").mkdir(parents=True)
    (room / "worlds").mkdir()
    loose = room / "loose.py"
    history, state = room / "experiment" / "history.py", room / "worlds" / "state.py"
    loose.write_text("")
    history.write_text("if TYPE_CHECKING:\n    from brokerproof.conformance.worlds import state\n")
    state.write_text("def late():\n    from brokerproof.conformance.experiment.history import History\n")
    monkeypatch.setattr("tests.guards.tree.ROOT", tmp_path)
    files = graph((history, state))
    assert arrows_up(files) == [
        "brokerproof.conformance.experiment.history (floor 1) imports brokerproof.conformance.worlds.state (floor 5)"
    ]
    assert circles(files) == {frozenset(files)}
    assert loose_files(room) == {"loose.py"}
