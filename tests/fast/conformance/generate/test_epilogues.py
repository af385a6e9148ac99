"""What some random programs have behind everything else."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from brokerproof.conformance.experiment.chooser import Chooser, SeededChooser
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec, MonitorSpec
from brokerproof.conformance.experiment.destinations import expiries_of, queues, topics
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Send, Subscribe
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.epilogues import (
    AWAY,
    EPILOGUES,
    has_room,
    topics_of,
    with_departure,
    with_divided_batch,
    with_dying_backlog,
    with_epilogue,
    with_full_neighbour,
    with_full_topic,
    with_lost_links,
    with_slow_message,
    with_small_backlogs,
)
from brokerproof.conformance.generate.frame import of_generation
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.rules.areas import RULES
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

SEEDS = range(20)


def bare(*names: str) -> Program:
    """Two clients and nothing else."""
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client"), HostSpec("c0", "client")]
    return Program(FORMAT, BrokerSpec(), hosts, [], [*queues("q0"), *topics(*names)], [])


def test_nobody_publishes_on_topics_of_advisories() -> None:
    program = bare("t0", expiries_of("q0"))
    assert topics_of(program) == [1]
    for seed in SEEDS:
        steps = with_dying_backlog(SeededChooser(seed), program).steps
        assert {step.dest for step in steps if isinstance(step, Send | Subscribe)} == {1}


def test_what_stays_away_finds_one_letter() -> None:
    assert "EXP-026" in RULES
    situations: set[str] = set()
    for seed in SEEDS:
        program = with_dying_backlog(SeededChooser(seed), bare("t0"))
        assert all(step.durable == AWAY for step in program.steps if isinstance(step, Subscribe))
        (verdict,) = judge_history(SimulatedWorld(seed=seed).run(program), wanted=["EXP-026"])
        assert verdict.verdict is VerdictKind.SATISFIED
        situations |= set(verdict.situations)
    assert situations == {"one subscription let it die", "several subscriptions let it die"}


def prepared() -> Program:
    """Little memory is asked for by nobody else; a client of each library, one of them over a slow link."""
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client"), HostSpec("c1", "client", via="jms")]
    links = [LinkSpec("c0", 10, MonitorSpec(1000, 500), 100_000), LinkSpec("c1", 10)]
    return Program(FORMAT, BrokerSpec(), hosts, links, queues("q0"), [Subscribe(), Send(count=3), Send(dest=0)])


def with_early_departure(chooser: Chooser, program: Program) -> Program:
    return with_departure(chooser, of_generation(program, "in-flight", "assigned"))


@pytest.mark.parametrize(
    ("requirement", "make", "memory_bytes"),
    [
        ("MEM-020", with_small_backlogs, 16 * 1024),
        ("DLY-034", with_full_neighbour, 64 * 1024 * 1024),
        ("RDL-013", with_divided_batch, 64 * 1024 * 1024),
        ("INA-012", with_slow_message, 64 * 1024 * 1024),
        ("RDL-028", with_lost_links, 64 * 1024 * 1024),
        ("DLY-020", with_full_topic, 64 * 1024 * 1024),
        ("INF-007", with_early_departure, 64 * 1024 * 1024),
    ],
)
def test_each_is_about_something(
    requirement: str, make: Callable[[Chooser, Program], Program], memory_bytes: int
) -> None:
    assert requirement in RULES
    most = 3 if make is with_lost_links else None
    broker = msgspec.structs.replace(prepared().broker, memory_limit_bytes=memory_bytes, redeliveries_max=most)
    frame = msgspec.structs.replace(prepared(), broker=broker)
    said: list[VerdictKind] = []
    for seed in range(12):
        program = make(SeededChooser(seed), frame)
        assert program.steps[:3] == frame.steps
        (verdict,) = judge_history(SimulatedWorld(seed=seed).run(program), wanted=[requirement])
        said.append(verdict.verdict)
    assert VerdictKind.VIOLATED not in said
    assert said.count(VerdictKind.SATISFIED) >= 4, said


def test_what_does_not_fit_stays_as_it_is() -> None:
    for seed in SEEDS:
        drawn = with_epilogue(SeededChooser(seed), bare(), ())
        assert drawn.destinations == queues("q0")
        assert drawn.steps == []
    assert len(EPILOGUES) == 5


def test_a_departure_behind_a_link_that_hangs_shows_who_counts_too_late() -> None:
    """And only in roomy programs of one broker, of the generation that counts early."""
    assert has_room(bare())
    ends = [program for program in map(program_for_seed, range(400)) if program.destinations[-1].name == "g.0"]
    assert len(ends) >= 3
    assert all(has_room(program) and program.broker.generation["in-flight"] == "assigned" for program in ends)
    found = []
    for seed in range(6):
        program = with_early_departure(SeededChooser(seed), prepared())
        (verdict,) = judge_history(
            SimulatedWorld(seed=seed, mutant="ledger-assigned-when-written").run(program), wanted=["INF-007"]
        )
        found.append(verdict.verdict)
    assert VerdictKind.VIOLATED in found
