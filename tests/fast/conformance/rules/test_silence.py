"""Adding to a program what has nothing to do with it takes no violation away; what a broker may do is none."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import (
    BrokerSpec,
    DeadLetterSpec,
    HostSpec,
    PolicySpec,
    RedeliverySpec,
)
from brokerproof.conformance.experiment.destinations import Destination
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Leave, Send, Settle, Subscribe
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.experiment.versions import destinations_named
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

HOSTS = [HostSpec("b", "broker"), HostSpec("p0", "client"), HostSpec("c0", "client")]
#: A consumer leaves without settling what it got.
GIVEN_BACK = Program(
    FORMAT,
    BrokerSpec(),
    HOSTS,
    steps=[Subscribe(host=1, prefetch=10), Send(host=0, count=3), Settle(), Leave(host=1), Settle()],
)
SHARED, DISCARDING, INDIVIDUAL = DeadLetterSpec("shared"), DeadLetterSpec("discarding"), DeadLetterSpec("individual")


def violated(program: Program, mutant: str | None = None) -> list[str]:
    history = SimulatedWorld(mutant=mutant).run(program)
    return [v.requirement for v in judge_history(history) if v.verdict is VerdictKind.VIOLATED]


def with_entry(program: Program) -> Program:
    entries = [*program.broker.policies, PolicySpec("q9", redelivery=RedeliverySpec())]
    return msgspec.structs.replace(program, broker=msgspec.structs.replace(program.broker, policies=entries))


def _more(program: Program, names: list[str]) -> list[Destination]:
    return [*program.destinations, *destinations_named(names)]


def with_composite(program: Program) -> Program:
    steps = [*program.steps, Send(dest=1), Settle()]
    return msgspec.structs.replace(program, destinations=_more(program, ["q8,q9", "q8", "q9"]), steps=steps)


def with_temporary(program: Program) -> Program:
    steps = [Subscribe(host=0, dest=1), Send(host=1, dest=1), *program.steps]
    return msgspec.structs.replace(program, destinations=_more(program, ["~p0"]), steps=steps)


def with_idle(program: Program) -> Program:
    """A destination that nobody uses, a consumer elsewhere, a host that does nothing."""
    hosts = [*program.hosts, HostSpec("c1", "client")]
    steps = [Subscribe(host=0, dest=1), *program.steps]
    return msgspec.structs.replace(program, destinations=_more(program, ["q8", "q9"]), hosts=hosts, steps=steps)


@pytest.mark.parametrize("add", [None, with_entry, with_composite, with_temporary, with_idle])
def test_a_lost_message_is_seen_whatever_else_there_is(add: Callable[[Program], Program] | None) -> None:
    program = GIVEN_BACK if add is None else add(GIVEN_BACK)
    assert {"GEN-001", "RDL-002"} <= set(violated(program, "returns-vanish"))
    assert violated(program) == []


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
        assert violated(msgspec.structs.replace(program, broker=broker)) == [], seed
