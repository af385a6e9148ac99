"""From runs to cells: nothing depends on the order of the runs, and what is shown is what a person can read."""

from __future__ import annotations

import itertools

import pytest

from brokerproof.conformance.experiment.results import RunFinished, RunResult, SuiteFinished, SuiteStarted
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.requirements.catalogue import Catalogue
from brokerproof.reports.store.collect import Collector, ColumnCollector
from tests.fast.reports.store import samples


def collect(*results: RunResult) -> ColumnCollector:
    """One column of these runs."""
    column = ColumnCollector("reference")
    for result in results:
        column.add(result)
    return column


def runs() -> list[RunResult]:
    """Five runs of which two violate DLY-003."""
    unsure = Verdict("DLY-003", VerdictKind.INCONCLUSIVE, witness=[14], text="too wide")
    return [
        samples.result("seed-1", [samples.kept("DLY-003", 5_000_000)], seed=1),
        samples.result("seed-2", [samples.early()], seed=2, extra_steps=4),
        samples.result("seed-3", [samples.early()], seed=3, extra_steps=1),
        samples.result("seed-4", [unsure], seed=4),
        samples.result("stalled", [samples.kept("DLY-003", 1_000_000)], world="live"),
    ]


def test_a_cell_joins_all_runs() -> None:
    (cell,) = collect(*runs()).cells(["DLY-003"])
    assert cell.verdict.verdict is VerdictKind.VIOLATED
    assert cell.verdict.slack_ns == -1_100_000
    assert cell.verdict.situations == sorted(cell.verdict.situations)
    assert len(cell.verdict.situations) == 2
    assert cell.runs == 5
    assert {world.world: {kind.value: count for kind, count in world.verdicts.items()} for world in cell.worlds} == {
        "live": {"satisfied": 1},
        "simulated": {"satisfied": 1, "inconclusive": 1, "violated": 2},
    }


def test_nothing_depends_on_the_order_of_runs() -> None:
    first = collect(*runs())
    for order in itertools.permutations(runs()):
        column = collect(*order)
        assert column.cells(["DLY-003"]) == first.cells(["DLY-003"])
        assert [result.run for result in column.examples()] == [result.run for result in first.examples()]


def test_the_same_run_twice_counts_once() -> None:
    column = collect(*runs(), *runs())
    assert column.cells(["DLY-003"]) == collect(*runs()).cells(["DLY-003"])
    assert column.column("d", 0, 0).runs == 5


def test_the_shortest_violation_is_shown() -> None:
    (shown,) = collect(*runs()).examples()
    assert shown.name == "seed-3"


def test_the_richest_satisfied_run_is_shown() -> None:
    poor = Verdict("DLY-003", VerdictKind.SATISFIED, "on-or-after")
    column = collect(
        samples.result("short-and-poor", [poor]), samples.result("rich", [samples.kept("DLY-003")], extra_steps=3)
    )
    assert [result.name for result in column.examples()] == ["rich"]


@pytest.mark.parametrize("kind", [VerdictKind.NOT_RUN, VerdictKind.NOT_APPLICABLE, VerdictKind.NOT_EXERCISED])
def test_what_never_happened_has_no_example(kind: VerdictKind) -> None:
    (cell,) = collect(samples.result("seed-1", [Verdict("DLY-003", kind, text="because")])).cells(["DLY-003"])
    assert cell.example is None
    assert cell.verdict.text == "because"


def test_a_wanted_requirement_that_nobody_spoke_of_is_not_exercised() -> None:
    cells = collect(samples.result("seed-1", [samples.kept("DLY-003")])).cells(["DLY-003", "EXP-001"])
    assert [(cell.requirement, cell.verdict.verdict) for cell in cells] == [
        ("DLY-003", VerdictKind.SATISFIED),
        ("EXP-001", VerdictKind.NOT_EXERCISED),
    ]


def test_problems_and_runs_that_did_not_happen_are_named() -> None:
    broken, absent = samples.result("a", []), samples.result("b", [])
    broken.problem, absent.not_run = "the agent died", "no libfaketime"
    column = collect(broken, absent).column("digest", 1500, 9)
    assert [(note.run, note.text) for note in column.problems] == [("reference/simulated/a", "the agent died")]
    assert [(note.run, note.text) for note in column.not_run] == [("reference/simulated/b", "no libfaketime")]
    assert column.capabilities == samples.CAPABILITIES
    assert (column.digest, column.elapsed_ms, column.finished_ms) == ("digest", 1500, 9)


def test_a_planted_defect_is_a_column_of_its_own() -> None:
    collector = Collector(Catalogue([]))
    collector.handle(SuiteStarted(["reference"], ["DLY-003"], 2))
    collector.handle(RunFinished(samples.result("seed-1", [samples.kept("DLY-003")])))
    collector.handle(RunFinished(samples.result("seed-1", [samples.early()], mutant="delay-1ms-early")))
    collector.handle(SuiteFinished("sha256:x", 1.0))
    assert [column.broker for column in collector.columns()] == ["reference", "reference with mutant delay-1ms-early"]
