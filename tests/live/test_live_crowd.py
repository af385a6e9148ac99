"""Many runs at once on one broker that keeps dead letters in one queue, known by its URL alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.brokers.servers import CROWD
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Arrive
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.steps import Advance, Leave, Send, Subscribe, Take
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.generate.live import live_program
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.live import run_all, violated
from tests.live.bench import events, program
from tests.live.served import Client, Server

pytestmark = pytest.mark.live
WANTED = tuple(one.id for one in default_catalogue().judged())
DLQ = "queue://ActiveMQ.DLQ"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


def played(port: int, programs: list[Program], *, corpus: bool = False) -> list[RunResult]:
    adapter = make_adapter(f"stomp://127.0.0.1:{port}")
    drawn = [(f"p{number}", adapter.cast(one)) for number, one in enumerate(programs)]
    assert adapter.lanes == CROWD
    return list(run_all(adapter, drawn if corpus else (), WANTED, None, () if corpus else iter(drawn)))


def dying(count: int) -> Program:
    """So many messages die on their queue."""
    return program(Send(count=count, ttl_ms=50), Advance(ms=300), Subscribe(host=1), Take(host=1))


@pytest.mark.parametrize("corpus", [False, True])
def test_each_run_finds_its_own_dead_letters(server: Server, corpus: bool) -> None:
    counts = [1 + number % 4 for number in range(30)]
    results = played(server.port, [dying(count) for count in counts], corpus=corpus)
    assert [violated(result) for result in results] == [set()] * len(counts)
    for count, result in zip(counts, results, strict=True):
        assert result.history is not None
        letters = [event for event in events(result.history, Arrive) if event.dest == DEAD_LETTERS]
        assert len(letters) == len({event.message for event in letters}) == count
        assert not any(event.redelivered for event in letters)
    assert server.counters(DLQ)["size"] == 0


def test_a_letter_of_somebody_else_stays_where_it_is(server: Server) -> None:
    client = Client(server)
    client.request("SEND", {"destination": "/queue/ActiveMQ.DLQ"}, b"not ours")
    results = played(server.port, [dying(1), dying(2)])
    assert [violated(result) for result in results] == [set(), set()]
    assert server.counters(DLQ)["size"] == 1


def test_random_programs_side_by_side_accuse_nobody(server: Server) -> None:
    results = played(server.port, [live_program(seed) for seed in range(3_000, 3_024)])
    assert [(result.name, violated(result)) for result in results if violated(result)] == []
    assert [result.problem for result in results if result.problem] == []
    satisfied = {v.requirement for result in results for v in result.verdicts if v.verdict is VerdictKind.SATISFIED}
    assert {"EXP-002", "GEN-001", "RDL-001"} <= satisfied


def test_a_planted_defect_is_found_in_the_crowd() -> None:
    server = Server("--mutant", "returns-vanish", module="brokerproof.conformance.commands.serve")
    left = program(Send(count=2), Subscribe(host=1), Take(host=1), Leave(host=1))
    results = played(server.port, [left] * 3)
    server.stop()
    assert all("GEN-001" in violated(result) for result in results)
