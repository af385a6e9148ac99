"""Adding to a program what has nothing to do with it takes no violation away; what a broker may do is none."""

from __future__ import annotations

import msgspec
import pytest

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.configuration import BrokerSpec, DeadLetterSpec, PolicySpec, RedeliverySpec
from brokerproof.conformance.experiment.history import Event, Skipped
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.metamorphic.additions import ADDITIONS, HOST, PLACE, resolved
from tests.metamorphic.losing import RELATIONS, Kill, changed, lost, violated

SHARED, DISCARDING, INDIVIDUAL = DeadLetterSpec("shared"), DeadLetterSpec("discarding"), DeadLetterSpec("individual")
#: Mutants and programs that kill them, where everything beside them once took violations away.
KILLS = [
    ("returns-vanish", "dead-consumer-gives-back"),
    ("returns-lost", "dead-consumer-gives-back"),
    ("memory-leaks", "comings-and-goings-are-told"),
    ("memory-sums-differ", "a-forged-delivery-count"),
    ("memory-large-refused", "memory-large-message"),
    ("coming-untold", "comings-and-goings-are-told"),
    ("memory-hesitates", "memory-fast-beside-slow"),
]


@pytest.mark.parametrize(("mutant", "name"), KILLS)
def test_a_violation_is_seen_whatever_else_there_is(mutant: str, name: str) -> None:
    kill = Kill(mutant, name, programs()[name], None)
    assert violated(kill.run(kill.program)) != set()
    assert list(lost(kill)) == []
    assert list(changed(kill)) == []


@pytest.mark.parametrize("kind", ADDITIONS)
def test_the_correct_broker_is_never_accused_beside_anything(kind: str) -> None:
    for seed in range(3):
        program = resolved(program_for_seed(seed), None, seed)
        for form, add in ADDITIONS[kind].items():
            assert violated(add(program).run(None, seed)) == set(), (seed, form)


def told(events: list[Event]) -> list[Event]:
    """What happened, without what is beside it, and without what did nothing."""
    kept = [e for e in events if not isinstance(e, Skipped) and e.host != HOST and getattr(e, "dest", "") != PLACE]
    return [msgspec.structs.replace(event, seq=0) for event in kept]


@pytest.mark.parametrize(("kind", "form"), [("destination", "a topic"), ("host", "over STOMP"), ("policy", "limit")])
def test_what_is_unused_changes_nothing_that_happens(kind: str, form: str) -> None:
    for name in ("a-batch-is-divided", "live-transacted-sends", "comes-back-in-its-own-place"):
        plain = programs()[name]
        larger = ADDITIONS[kind][form](resolved(plain, None))
        before, after = SimulatedWorld().run(plain), larger.run(None)
        # The drain has one queue more to read; the broker's own figures count one destination more.
        work = [event for event in told(before.events) if event.t1 < _drain_ns(before.events)]
        beside = told(after.events)[: len(work)]
        assert [_without_count(event) for event in beside] == [_without_count(event) for event in work]


def _drain_ns(events: list[Event]) -> int:
    return next(event.t0 for event in events if getattr(event, "name", "") == "heal")


def _without_count(event: Event) -> Event:
    return msgspec.structs.replace(event, destinations=None) if hasattr(event, "destinations") else event


@pytest.mark.parametrize("relation", RELATIONS)
def test_other_names_and_clocks_change_no_verdict(relation: str) -> None:
    for name in ("a-temporary-queue-and-its-end", "sent-to-two-names", "virtual-topic-of-two-queues", "live-000-2"):
        plain = programs()[name]
        assert verdicts(RELATIONS[relation](plain)) == verdicts(plain), name


def verdicts(program: Program) -> dict[str, tuple[str, int, int]]:
    """What is said of each requirement, with the rows that were decided and those that were not."""
    found = judge_history(SimulatedWorld().run(program))
    return {one.requirement: (one.outcome, one.decided, one.undecided) for one in found}


def test_who_is_not_promised_advisories_misses_none() -> None:
    program = programs()["expiries-are-told"]
    assert violated(SimulatedWorld().run(msgspec.structs.replace(program, broker=BrokerSpec()))) == set()


@pytest.mark.parametrize(
    "entries",
    [
        [PolicySpec(">", dead_letter=DISCARDING), PolicySpec("*", dead_letter=SHARED)],
        [PolicySpec(">", dead_letter=SHARED), PolicySpec("q0", dead_letter=INDIVIDUAL)],
        [PolicySpec(">", redelivery=RedeliverySpec(maximum=1, initial_ms=10, pause_ms=10))],
    ],
    ids=["discarding", "individual", "tried again"],
)
def test_the_correct_broker_is_never_accused_whatever_entries_there_are(entries: list[PolicySpec]) -> None:
    for seed in range(12):
        program = program_for_seed(seed)
        broker = msgspec.structs.replace(program.broker, policies=entries)
        history = SimulatedWorld().run(msgspec.structs.replace(program, broker=broker))
        assert violated(history) == set(), seed
