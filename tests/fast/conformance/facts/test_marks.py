"""Marks: which ones touch a span, on marks and spans that Hypothesis chooses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brokerproof.conformance.facts.marks import BITS, Marks
from brokerproof.conformance.facts.spans import Span

SPANS = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda pair: (min(pair), max(pair)))


@given(
    st.lists(st.tuples(st.sampled_from(list(BITS.values())[:4]), st.sampled_from(["", "q0", "q1"]), SPANS)),
    st.lists(st.tuples(st.sampled_from(["q0", "q2"]), SPANS), min_size=1),
)
def test_a_mark_counts_where_it_lies_and_when(put: list[tuple[int, str, Span]], asked: list[tuple[str, Span]]) -> None:
    marks = Marks()
    for number, (kind, place, span) in enumerate(put):
        marks.put(kind, place, span)
        dest, (low, high) = asked[number % len(asked)]
        wanted = 0
        for bit, where, (begin, end) in put[: number + 1]:
            if where in {"", dest} and begin <= high and end >= low:
                wanted |= bit
        assert marks.on(dest, (low, high)) == wanted
