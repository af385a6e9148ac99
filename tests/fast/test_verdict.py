"""The join is associative, commutative and idempotent, per run and requirement."""

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
    join,
    join_all,
    join_kinds,
)

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
)


@settings(max_examples=50)
@given(VERDICTS, VERDICTS, VERDICTS)
def test_join_is_associative(a: Verdict, b: Verdict, c: Verdict) -> None:
    assert join(join(a, b), c) == join(a, join(b, c))


@given(VERDICTS, VERDICTS)
def test_join_is_commutative(a: Verdict, b: Verdict) -> None:
    assert join(a, b) == join(b, a)


@given(VERDICTS)
def test_join_is_idempotent(a: Verdict) -> None:
    assert join(a, a) == a


@given(KINDS, KINDS)
def test_join_of_kinds_is_the_stronger(a: VerdictKind, b: VerdictKind) -> None:
    assert RANK[join_kinds(a, b)] == max(RANK[a], RANK[b])


def test_the_documented_order() -> None:
    words = "planned, not applicable, not exercised, not run, satisfied, inconclusive, known failure, violated"
    assert [kind.value for kind in ORDER] == words.split(", ")


@settings(max_examples=50)
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


def test_different_requirements_do_not_join() -> None:
    with pytest.raises(ValueError, match="cannot join verdicts of EXP-001 and EXP-002"):
        join(Verdict("EXP-001", VerdictKind.SATISFIED), Verdict("EXP-002", VerdictKind.SATISFIED))
    assert set(join_all([Verdict("A", VerdictKind.PLANNED), Verdict("B", VerdictKind.PLANNED)])) == {"A", "B"}
