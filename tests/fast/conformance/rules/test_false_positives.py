"""No rule raises a false positive: programs that no generator draws, seen sharply and less so.

``python -m tests.false_positives`` looks through thousands of seeds; what it found is here for good.
"""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.rules.areas import RULES
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.false_positives.__main__ import MAKERS, false_positives

SEEDS = range(15)
#: Seeds that once gave a false positive.
FOUND: dict[str, tuple[int, ...]] = {
    "mixed": (161, 409, 1195, 1527, 4796, 4932, 16859, 40422, 40714, 40932, 200350),
    "acknowledging": (),
    "plain": (180, 806, 3224, 20734, 40014, 41492),
}


@pytest.mark.parametrize("name", MAKERS)
def test_no_false_positive_on_the_reference_broker(name: str) -> None:
    found = [(seed, *found) for seed in (*SEEDS, *FOUND[name]) for found in false_positives(MAKERS[name], seed)]
    assert found == []


def test_what_was_seen_exactly_leaves_nothing_undecided() -> None:
    for seed in SEEDS:
        history = SimulatedWorld(seed=seed).run(program_for_seed(seed))
        verdicts = judge_history(history, wanted=RULES)
        assert [v.requirement for v in verdicts if v.verdict is VerdictKind.INCONCLUSIVE] == [], seed
