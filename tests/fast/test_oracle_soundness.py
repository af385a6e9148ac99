"""The oracles of the books raise no false alarm: not on the reference broker, and not when less of it is seen.

Random programs run in the simulated world, whose histories are exact. Then the same histories are blurred: receipts
are lost, instants become intervals, closes at the broker's end and what it says of its silence are left out. Whoever
sees less may find less, but must not find more: a violation in a blurred history that a sharp one does not have is a
defect of the oracle.
"""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.history import ClockSample, Fault, History
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.oracles.base import Oracle
from brokerproof.conformance.oracles.contents import ContentOracle
from brokerproof.conformance.oracles.deaths import DeathOracle
from brokerproof.conformance.oracles.delivery import DeliveryOracle
from brokerproof.conformance.oracles.inactivity import InactivityOracle
from brokerproof.conformance.oracles.inflight import InFlightOracle
from brokerproof.conformance.oracles.memory import MemoryOracle
from brokerproof.conformance.oracles.prefetch import PrefetchOracle
from brokerproof.conformance.oracles.redelivery import RedeliveryOracle
from brokerproof.conformance.oracles.topics import TopicsOracle
from brokerproof.conformance.oracles.wall import WallClocks
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.alarms.blurs import BLURS, Blur, blurred

SEEDS = range(40)
MAKERS: tuple[type[Oracle], ...] = (
    InFlightOracle,
    PrefetchOracle,
    RedeliveryOracle,
    MemoryOracle,
    InactivityOracle,
    DeliveryOracle,
    TopicsOracle,
    DeathOracle,
    ContentOracle,
)


def judge(history: History) -> list[Verdict]:
    """The verdicts of all oracles of the books, which share one fold."""
    clocks = WallClocks()
    oracles = [make(clocks) for make in MAKERS]
    for oracle in oracles:
        oracle.start(history.header)
    for event in history.events:
        if isinstance(event, ClockSample):
            clocks.sample(event)
        elif isinstance(event, Fault):
            clocks.fault(event)
        for oracle in oracles:
            if event.__struct_config__.tag in oracle.kinds:
                oracle.feed(event)
    return [verdict for oracle in oracles for verdict in oracle.finish()]


def violations(history: History) -> list[str]:
    return [f"{v.requirement}: {v.text}" for v in judge(history) if v.verdict is VerdictKind.VIOLATED]


def run(seed: int) -> History:
    return SimulatedWorld(seed=seed).run(program_for_seed(seed))


def test_no_alarm_on_the_reference_broker() -> None:
    for seed in SEEDS:
        history = run(seed)
        assert violations(history) == [], seed
        unsure = [v.requirement for v in judge(history) if v.verdict is VerdictKind.INCONCLUSIVE]
        assert unsure == [], seed


@pytest.mark.parametrize(("world", "blurs"), BLURS)
def test_no_alarm_when_less_is_seen(world: str, blurs: tuple[Blur, ...]) -> None:
    for seed in SEEDS:
        assert violations(blurred(run(seed), world, seed, *blurs)) == [], seed


def test_the_same_event_offered_by_six_oracles_is_taken_once() -> None:
    history = run(next(iter(SEEDS)))
    clocks = WallClocks()
    alone = RedeliveryOracle(clocks)
    alone.start(history.header)
    for event in history.events:
        if event.__struct_config__.tag in alone.kinds:
            alone.feed(event)
    together = [v for v in judge(history) if v.requirement in alone.requirements]
    assert [v.verdict for v in alone.finish()] == [v.verdict for v in together]


def test_two_runs_at_once_keep_separate_books() -> None:
    one, other = WallClocks(), WallClocks()
    first = [make(one) for make in MAKERS]
    second = [make(other) for make in MAKERS]
    assert len({id(oracle.books) for oracle in first if hasattr(oracle, "books")}) == 1
    assert len({id(oracle.books) for oracle in (*first, *second) if hasattr(oracle, "books")}) == 2
