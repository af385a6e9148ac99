"""The rules accuse nobody wrongly: not the reference broker, and not when less of it is seen.

Random programs run in the simulated world, whose histories are exact. Then the same histories are blurred: receipts are
lost, instants become intervals, closes at the broker's end and what it says of its silence are left out. Whoever sees
less may find less, but must not find more. ``tests.alarms`` looks at more seeds.
"""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.rules.areas import RULES
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.alarms.blurs import BLURS, Blur, blurred

SEEDS = range(40)


def run(seed: int) -> History:
    return SimulatedWorld(seed=seed).run(program_for_seed(seed))


def found(history: History, kind: VerdictKind) -> list[str]:
    return [f"{v.requirement}: {v.text}" for v in judge_history(history, wanted=RULES) if v.verdict is kind]


def test_nobody_accuses_the_reference_broker() -> None:
    for seed in SEEDS:
        history = run(seed)
        assert found(history, VerdictKind.VIOLATED) == [], seed
        assert found(history, VerdictKind.INCONCLUSIVE) == [], seed


@pytest.mark.parametrize(("world", "blurs"), BLURS)
def test_nobody_accuses_it_when_less_is_seen(world: str, blurs: tuple[Blur, ...]) -> None:
    for seed in SEEDS:
        assert found(blurred(run(seed), world, seed, *blurs), VerdictKind.VIOLATED) == [], seed
