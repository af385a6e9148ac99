"""What the simulated broker really did lies within every span of the facts. ``python -m tests.truth`` looks at more."""

from __future__ import annotations

import pytest

from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.generate.programs import program_for_seed
from tests.truth.truth import compared, played

KINDS = {"accepted", "assigned", "settled", "opened", "closed"}


@pytest.mark.parametrize("first", [0, 50])
def test_true_instants_lie_in_their_spans(first: int) -> None:
    kinds: set[str] = set()
    outside = []
    for seed in range(first, first + 25):
        history, truth = played(program_for_seed(seed), seed)
        for kind, (low, high), true_ns, row in compared(Facts(history), truth):
            kinds.add(kind)
            if not low <= true_ns <= high:
                outside.append((seed, kind, row, low, true_ns, high))
    assert outside == []
    assert kinds >= KINDS
