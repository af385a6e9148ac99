"""Guard: who may import whom (DESIGN section 3). The floors within a package are test_floors.py's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guards.tree import ROOT, imports, module_name, source_files

#: package prefix -> prefixes of ours that it may import. The longest prefix that fits a file decides.
ALLOWED: dict[str, tuple[str, ...]] = {
    "brokerproof.reference_broker": ("brokerproof.reference_broker",),
    "brokerproof.chaos": ("brokerproof.chaos",),
    "brokerproof.conformance": ("brokerproof.conformance", "brokerproof.reference_broker", "brokerproof.chaos"),
    "brokerproof.conformance.facts": ("brokerproof.conformance.experiment", "brokerproof.conformance.facts"),
    "brokerproof.conformance.rules": (
        "brokerproof.conformance.experiment",
        "brokerproof.conformance.requirements",
        "brokerproof.conformance.facts",
        "brokerproof.conformance.rules",
    ),
    "brokerproof.conformance.requirements": ("brokerproof.conformance.requirements",),
    "brokerproof.conformance.cli": ("brokerproof.conformance.cli", "brokerproof.conformance.experiment.exits"),
    "brokerproof.reports": ("brokerproof.reports", "brokerproof.conformance"),
}
#: What tables and writers may know of conformance: data types, not machinery.
DATA_ONLY = (
    "brokerproof.conformance.experiment",
    "brokerproof.conformance.facts",
    "brokerproof.conformance.running.failure",
    "brokerproof.conformance.running.telling",
    "brokerproof.conformance.operating.answer",
    "brokerproof.conformance.operating.offset",
    "brokerproof.conformance.operating.watching",
    "brokerproof.conformance.stories",
    "brokerproof.conformance.requirements",
)


def rule_for(module: str) -> tuple[str, ...]:
    fitting = [prefix for prefix in ALLOWED if module == prefix or module.startswith(prefix + ".")]
    return ALLOWED[max(fitting, key=len)]


def violations(path: Path) -> list[str]:
    module = module_name(path)
    allowed = rule_for(module)
    found = []
    for name in imports(path):
        if not name.startswith("brokerproof."):
            continue
        if not any(name == prefix or name.startswith(prefix + ".") for prefix in allowed):
            found.append(f"{module} imports {name}; allowed are {', '.join(allowed)}")
    return found


def test_imports_follow_the_layers() -> None:
    assert [text for path in source_files() for text in violations(path)] == []


@pytest.mark.parametrize("room", ["store", "aggregate", "render"])
def test_writers_know_only_data(room: str) -> None:
    for path in sorted((ROOT / "reports" / room).rglob("*.py")):
        for name in imports(path):
            if name.startswith("brokerproof.conformance."):
                assert name.startswith(DATA_ONLY), f"{module_name(path)} imports {name}; {room} knows {DATA_ONLY} only"


def test_the_guard_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker file that imports the suite must be caught."""
    bad = tmp_path / "reference_broker" / "bad.py"
    bad.parent.mkdir()
    bad.write_text("from brokerproof.conformance.experiment import program\n")
    monkeypatch.setattr("tests.guards.tree.ROOT", tmp_path)
    assert violations(bad) == [
        (
            "brokerproof.reference_broker.bad imports brokerproof.conformance.experiment; "
            "allowed are brokerproof.reference_broker"
        ),
        (
            "brokerproof.reference_broker.bad imports brokerproof.conformance.experiment.program; "
            "allowed are brokerproof.reference_broker"
        ),
    ]
