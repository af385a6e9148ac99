"""The join is associative and commutative, and idempotent per run and requirement; what a cell amounts to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.conformance.experiment.verdict import (
    GRADES,
    ORDER,
    RANK,
    Tally,
    Verdict,
    VerdictKind,
    Violation,
    concluded,
    join,
    join_all,
    join_kinds,
)
from tests.tools import examples

KINDS = st.sampled_from(ORDER)
VERDICTS = st.builds(
    Verdict,
    requirement=st.just("EXP-001"),
    verdict=KINDS,
    outcome=st.sampled_from(["", "early", "late"]),
    grade=st.sampled_from(GRADES),
    situations=st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(sorted),
    witness=st.lists(st.integers(0, 5), max_size=3),
    slack_ns=st.none() | st.integers(-10, 10),
    text=st.sampled_from(["", "x", "y"]),
    decided=st.integers(0, 40),
    undecided=st.integers(0, 3),
    unknown=st.lists(st.sampled_from(["restart", "stall"]), unique=True).map(sorted),
)


@settings(max_examples=examples(25))
@given(VERDICTS, VERDICTS, VERDICTS)
def test_join_is_associative(a: Verdict, b: Verdict, c: Verdict) -> None:
    assert join(join(a, b), c) == join(a, join(b, c))


@given(VERDICTS, VERDICTS)
def test_join_is_commutative(a: Verdict, b: Verdict) -> None:
    assert join(a, b) == join(b, a)


@given(KINDS, KINDS)
def test_join_of_kinds_is_the_stronger(a: VerdictKind, b: VerdictKind) -> None:
    assert RANK[join_kinds(a, b)] == max(RANK[a], RANK[b])


def test_the_documented_order() -> None:
    words = "planned, not exercised, not applicable, not run, inconclusive, satisfied, not met, known failure, violated"
    assert [kind.value for kind in ORDER] == words.split(", ")


@settings(max_examples=examples(25))
@given(
    st.lists(st.tuples(st.sampled_from(["r1", "r2", "r3"]), VERDICTS), max_size=8), st.randoms(use_true_random=False)
)
def test_tally_ignores_order_and_repetition(rows: list[tuple[str, Verdict]], order: object) -> None:
    first, second = Tally(), Tally()
    for run, verdict in rows:
        first.add(run, verdict)
    shuffled = rows + rows
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random of Hypothesis
    for run, verdict in shuffled:
        second.add(run, verdict)
    assert first.cell("EXP-001") == second.cell("EXP-001")
    assert first.counts("EXP-001") == second.counts("EXP-001")
    assert sum(first.counts("EXP-001").values()) == len({run for run, _ in rows})


@pytest.mark.parametrize(
    ("kind", "rows", "level", "wanted"),
    [
        (VerdictKind.SATISFIED, (95, 5), "MUST", VerdictKind.SATISFIED),
        (VerdictKind.SATISFIED, (94, 6), "MUST", VerdictKind.INCONCLUSIVE),
        (VerdictKind.SATISFIED, (0, 0), "MUST", VerdictKind.SATISFIED),
        (VerdictKind.VIOLATED, (1, 99), "MUST", VerdictKind.VIOLATED),
        (VerdictKind.VIOLATED, (1, 0), "SHOULD", VerdictKind.NOT_MET),
        (VerdictKind.VIOLATED, (1, 0), "MAY", VerdictKind.NOT_MET),
        (VerdictKind.KNOWN_FAILURE, (1, 0), "SHOULD", VerdictKind.KNOWN_FAILURE),
    ],
)
def test_what_a_cell_amounts_to(kind: VerdictKind, rows: tuple[int, int], level: str, wanted: VerdictKind) -> None:
    cell = Verdict("EXP-001", kind, decided=rows[0], undecided=rows[1], unknown=["stall"] if rows[1] else [])
    assert concluded(cell, level).verdict is wanted


def test_undecided_rows_are_counted_with_their_reasons() -> None:
    one = Verdict("EXP-001", VerdictKind.SATISFIED, decided=3)
    other = Verdict("EXP-001", VerdictKind.INCONCLUSIVE, undecided=2, unknown=["stall"])
    cell = concluded(join(one, other), "MUST")
    assert (cell.decided, cell.undecided) == (3, 2)
    assert cell.text == "2 of 5 observations could not be decided (stall)"


def test_different_requirements_do_not_join() -> None:
    with pytest.raises(ValueError, match="cannot join verdicts of EXP-001 and EXP-002"):
        join(Verdict("EXP-001", VerdictKind.SATISFIED), Verdict("EXP-002", VerdictKind.SATISFIED))
    assert set(join_all([Verdict("A", VerdictKind.PLANNED), Verdict("B", VerdictKind.PLANNED)])) == {"A", "B"}


def test_what_else_violates_it_is_told_of_a_run_and_not_of_a_cell() -> None:
    tally = Tally()
    tally.add("one", Verdict("GEN-001", VerdictKind.VIOLATED, text="lost", further=[Violation("lost, too")]))
    cell = tally.cell("GEN-001")
    assert cell is not None
    assert (cell.text, cell.further) == ("lost", [])
