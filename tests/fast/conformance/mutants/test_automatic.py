"""Automatic mutants: what the operators make of a source, and how a mutation is known again."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import Final

import pytest

from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.mutants.automatic.mutations import (
    Mutation,
    all_mutations,
    mutations_of,
    sample_of,
    source_files,
)
from brokerproof.conformance.running.automatic import comparing, fullness
from brokerproof.conformance.running.automatic.coverage import lines_of

SOURCE: Final = '''"""What it is."""

from __future__ import annotations

LIMIT = 7


class Box:
    """A box."""

    def put(self, item: int, *, room: int = 2) -> None:
        """Put something in."""
        self.count += 1
        if item < room and not self.closed:
            raise ValueError(f"{item} is too small")
        assert item >= 0, "it is checked elsewhere"

    def __repr__(self) -> str:
        return f"Box({self.count + 1})"
'''


def made(source: str = SOURCE) -> dict[str, list[str]]:
    """Operator -> what it makes of a line, by the line of the source."""
    found: dict[str, list[str]] = {}
    for mutation in mutations_of("core/box.py", source):
        line = mutation.mutated().splitlines()[mutation.line - 1].strip()
        found.setdefault(mutation.edit.operator, []).append(line)
    return found


def test_each_operator_changes_one_place() -> None:
    assert {operator: lines for operator, lines in made().items() if operator != "constant"} == {
        "arithmetic": ["self.count -= 1"],
        "return at once": ["return; self.count += 1"],
        "statement dropped": ["pass", "pass"],
        "comparison": [
            "if item <= room and not self.closed:",
            "if item >= room and not self.closed:",
        ],
        "and/or": ["if item < room or not self.closed:"],
        "branch skipped": ["if False:"],
        "condition negated": ["if not (item < room and (not self.closed)):", "if item < room and (self.closed):"],
    }


def test_constants_move_by_one() -> None:
    assert sorted(made()["constant"]) == sorted(
        [
            "LIMIT = 8",
            "LIMIT = 6",
            "def put(self, item: int, *, room: int = 1) -> None:",
            "def put(self, item: int, *, room: int = 3) -> None:",
            "self.count += 0",
            "self.count += 2",
        ]
    )


def test_what_decides_nothing_is_left_alone() -> None:
    lines = [mutation.line for mutation in mutations_of("core/box.py", SOURCE)]
    assert not {1, 9, 12, 16, 19} & set(lines), "documentation, assertions and __repr__"


def test_what_only_logs_is_left_alone() -> None:
    lines = "if self.loud > 3:\n            self.effects.append(Logged('INFO', 'a', 'b'))\n        self.log('c')"
    source = f"class Shelf:\n    def put(self) -> None:\n        {lines}\n        self.effects.append(1)\n"
    assert [mutation.edit.operator for mutation in mutations_of("core/shelf.py", source)] == [
        "statement dropped",
        "constant",
        "constant",
    ]


def keys(source: str) -> list[str]:
    return [mutation.key for mutation in mutations_of("core/box.py", source)]


def test_a_key_outlives_changes_elsewhere_and_no_others() -> None:
    assert len(set(keys(SOURCE))) == len(keys(SOURCE))
    moved = SOURCE.replace("class Box:", "class Lid:\n    top = True\n\n\nclass Box:")
    assert set(keys(SOURCE)) <= {*keys(moved)} | {keys(SOURCE)[0], keys(SOURCE)[1]}
    changed = SOURCE.replace("self.closed", "self.open")
    touched = [one for one in mutations_of("core/box.py", SOURCE) if one.key not in keys(changed)]
    assert {mutation.line for mutation in touched} >= {13, 14, 15}


def test_a_sample_is_that_of_its_seed() -> None:
    every = all_mutations(source_files("core/flow.py"))

    def drawn(seed: int) -> list[str]:
        return [mutation.key for mutation in sample_of(every, 12, seed)]

    assert drawn(4) == drawn(4) != drawn(5)
    assert len(set(drawn(4))) == 12
    assert sample_of(every, None, 4) == every


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match=r"matches no file.*core/queue\.py"):
        source_files("queue")


def test_asserting_code_is_mutated_only_when_it_is_named() -> None:
    assert "core/invariants.py" not in source_files()
    assert source_files("core/invariants.py") == ["core/invariants.py"]


def test_lines_of_functions_can_be_executed() -> None:
    assert lines_of(SOURCE) == [13, 14, 15, 16, 19]


def test_a_diff_shows_the_change() -> None:
    mutation: Mutation = mutations_of("core/box.py", SOURCE)[0]
    assert [line for line in mutation.diff().splitlines() if line[0] in "+-"] == ["-LIMIT = 7", "+LIMIT = 6"]


def test_a_broker_that_makes_more_and_more_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(program: object) -> None:
        raise MemoryError

    monkeypatch.setattr(comparing, "simulate", refused)
    outcome = comparing.compare([("seed-1", "", []), ("seed-2", "", [])])
    assert (outcome["kind"], outcome["program"], outcome["programs"]) == ("hung", "seed-1", 1)


def test_a_broker_that_takes_ever_more_is_stopped_before_the_system_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that is refused memory may end on the spot, whatever its code would catch."""
    kept: list[bytes] = []

    def greedy(program: Program) -> None:
        while True:
            with suppress(Exception):  # as the world, which tells an error of the broker's from its own
                kept.append(bytes(100_000))

    monkeypatch.setattr(fullness, "FULL_BYTES", fullness.taken_bytes() + 50_000_000)
    monkeypatch.setattr(fullness, "LOOK_S", 0.01)
    monkeypatch.setattr(comparing, "simulate", greedy)
    outcome = comparing.compare([("seed-1", "", []), ("seed-2", "", [])])
    assert (outcome["kind"], outcome["program"], outcome["programs"]) == ("hung", "seed-1", 1)
    assert sum(map(len, kept)) < 1_500_000_000


def test_what_a_process_takes_is_looked_at_only_meanwhile() -> None:
    before = signal.getsignal(signal.SIGPROF)
    with fullness.bounded():
        assert signal.getsignal(signal.SIGPROF) is not before
        assert signal.getitimer(signal.ITIMER_PROF)[1] > 0
    assert signal.getsignal(signal.SIGPROF) is before
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)
