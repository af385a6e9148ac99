"""Guard: the rooms of the packages, and their floors (DESIGN section 3), from the imports; the rooms of tests/fast.

A room imports only rooms on floors below its own; no files import each other in a circle, imports for types included
(but for the broker's core, whose region and behaviours name each other: mypyc needs classes, not protocols); nothing
lies loose in a folder that has folders.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.guards.tree import ROOT, module_name, parsed, source_files

FLOORS: dict[str, tuple[tuple[str, ...], ...]] = {
    "conformance": (
        ("experiment",),
        ("requirements", "known", "generate"),
        ("facts", "corpus", "stories", "mutants", "agents"),
        ("rules", "brokers"),
        ("worlds", "operating"),
        ("running",),
        ("machines", "export", "pytest_plugin"),
        ("commands", "cli"),
    ),
    "reference_broker": (
        ("core",),
        ("inactivity", "security", "jms"),
        ("session",),
        ("settings",),
        ("openwire",),
        ("stomp", "storage"),
        ("node",),
        ("management",),
        ("server",),
    ),
    "reports": (("store",), ("aggregate", "render"), ("campaign",), ("commands",)),
}
FLOORS_MAX = {"conformance": 8, "reference_broker": 9, "reports": 4}
FLOOR = {
    f"brokerproof.{package}.{room}": number
    for package, floors in FLOORS.items()
    for number, rooms in enumerate(floors, start=1)
    for room in rooms
}
LOOSE = {
    "conformance": {"__init__.py", "cli.py", "pytest_plugin.py"},
    "reference_broker": {"__init__.py", "inactivity.py", "node.py"},
    "reports": {"__init__.py"},
    # A tool each, and how it is started, read and proved. Add nothing without a room.
    "chaos": {
        "__init__.py",
        "channels.py",
        "clocks.py",
        "doctor.py",
        "fork_server.py",
        "links.py",
        "ports.py",
        "preload.py",
        "scarcity.py",
        "probes.py",
        "processes.py",
        "rates.py",
        "supervisor.py",
        "taps.py",
        "tools.py",
        "toxiproxy.py",
        "witness.py",
    },
}
TESTS = ROOT / "tests" / "fast"
CORE = "brokerproof.reference_broker.core"


@cache
def graph(paths: tuple[Path, ...]) -> dict[str, set[str]]:
    """File -> the files that it imports, each by the name of its module."""
    modules = {module_name(path): path for path in paths}
    return {module: imported(ast.walk(parsed(path)), modules) - {module} for module, path in modules.items()}


def imported(nodes: Iterable[ast.AST], modules: Collection[str]) -> set[str]:
    """Which of these modules a file imports. ``from package import module`` means the module, not the package."""
    names: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names += [name if name in modules else node.module for name in inner]
    return {name for name in names if name in modules}


def executed(tree: ast.AST) -> Iterator[ast.AST]:
    """What of a file is run: all but what is there for types only."""
    yield tree
    if not (isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING"):
        for child in ast.iter_child_nodes(tree):
            yield from executed(child)


def room_of(module: str) -> str:
    """``brokerproof.conformance.worlds`` for brokerproof.conformance.worlds.base."""
    return ".".join(module.split(".")[:3])


def has_floors(module: str) -> bool:
    """Whether it stands in a room of a package that has floors."""
    return module.count(".") > 1 and module.split(".")[1] in FLOORS


def arrows_up(files: Mapping[str, set[str]]) -> list[str]:
    """Imports between rooms of one package that do not lead to a floor below."""
    found = []
    for module in filter(has_floors, sorted(files)):
        for other in filter(has_floors, sorted(files[module])):
            above, below = room_of(module), room_of(other)
            if module.split(".")[1] == other.split(".")[1] and above != below and FLOOR[below] >= FLOOR[above]:
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


def loose_tests(folder: Path) -> list[str]:
    """Files of a folder of tests, and of the folders in it, that lie beside folders."""
    inner = [path for path in sorted(folder.iterdir()) if path.is_dir() and path.name != "__pycache__"]
    loose = loose_files(folder) - {"__init__.py"} if inner else set()
    return [f"{folder.name}/{name}" for name in sorted(loose)] + [one for path in inner for one in loose_tests(path)]


def rooms_of_tests() -> list[Path]:
    """Folders of tests, as paths below ``TESTS``."""
    return sorted(path.relative_to(TESTS) for path in TESTS.rglob("*") if path.is_dir() and path.name != "__pycache__")


@pytest.mark.parametrize("package", LOOSE)
def test_nothing_lies_loose(package: str) -> None:
    assert loose_files(ROOT / package) == LOOSE[package]


def test_no_test_lies_loose() -> None:
    assert loose_tests(TESTS) == []


def test_tests_have_the_rooms_of_the_tree() -> None:
    nowhere = [room for room in rooms_of_tests() if not (ROOT / room).is_dir() and not (ROOT / f"{room}.py").is_file()]
    assert nowhere == [], "name a folder of tests as what it tests"


@pytest.mark.parametrize("package", FLOORS)
def test_every_room_has_a_floor(package: str) -> None:
    rooms = {room_of(name) for name in graph(source_files()) if name.startswith(f"brokerproof.{package}.")}
    assert rooms - FLOOR.keys() == set()
    assert len(FLOORS[package]) <= FLOORS_MAX[package]


def test_no_arrow_runs_up() -> None:
    assert arrows_up(graph(source_files())) == []


def test_no_circles() -> None:
    files = graph(source_files())
    run = {
        module_name(path): imported(executed(parsed(path)), files)
        for path in source_files()
        if room_of(module_name(path)) == CORE
    }
    assert circles({**files, **run}) == set()


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
    assert loose_tests(tmp_path) == ["conformance/loose.py"]
    core = ast.parse("if TYPE_CHECKING:\n    import one\nimport other\n")
    assert imported(executed(core), {"one", "other"}) == {"other"}
    assert arrows_up({f"{CORE}.queue": {"brokerproof.reference_broker.storage.journal"}}) == [
        f"{CORE}.queue (floor 1) imports brokerproof.reference_broker.storage.journal (floor 6)"
    ]
