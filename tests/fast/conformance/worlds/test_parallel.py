"""Several hosts at once: what is done, in which order, and that it shrinks and is told."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from brokerproof.conformance.brokers.casting import cast
from brokerproof.conformance.experiment.configuration import DRAIN_HOST, BrokerSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.history import (
    Arrive,
    Connect,
    Counters,
    Event,
    History,
    Send,
    Skipped,
)
from brokerproof.conformance.experiment.history import Operate as Purge
from brokerproof.conformance.experiment.program import FORMAT, Program, ProgramError, check_program, parse_program
from brokerproof.conformance.experiment.steps import (
    Ack,
    Advance,
    Begin,
    ClientStep,
    Leave,
    Operate,
    Parallel,
    Settle,
    Subscribe,
    Take,
)
from brokerproof.conformance.experiment.steps import Counters as ReadCounters
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.generate.live import quick, waits_ms
from brokerproof.conformance.generate.shrink import shrink
from brokerproof.conformance.running.failure import program_lines
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from brokerproof.reports.render.story import tell


def program(*of: list[ClientStep], interleave: int = 0, before: list[Any] | None = None) -> Program:
    """Three STOMP clients, half a millisecond away."""
    hosts = [HostSpec("b", "broker"), *(HostSpec(name, "client") for name in ("p", "c", "d"))]
    steps = [*(before or []), Parallel(tuple(map(tuple, of)), interleave), Settle()]
    return Program(FORMAT, BrokerSpec(), hosts, [LinkSpec(host.name) for host in hosts[1:]], queues("q0"), steps)


def run(given: Program) -> History:
    return SimulatedWorld().run(given)


def of_kind(history: History, kind: type[Event]) -> list[Any]:
    return [event for event in history.events if isinstance(event, kind)]


def arrived(history: History) -> list[str]:
    return [event.message for event in of_kind(history, Arrive)]


BOTH = [[SendStep(count=4)], [SendStep(host=1, count=4)]]


def test_requests_overlap_and_each_host_keeps_its_order() -> None:
    p, c = of_kind(run(program([SendStep()], [SendStep(host=1)])), Send)
    assert p.t0 < c.t1
    assert c.t0 < p.t1
    for host in "pc":
        mine = [event for event in of_kind(run(program(*BOTH)), Send) if event.host == host]
        assert [event.message for event in mine] == [f"{host}/{number}" for number in range(1, 5)]
        assert all(one.t1 <= other.t0 for one, other in pairwise(mine))


def test_the_interleaving_replays_and_another_number_is_another_order() -> None:
    seen = {}
    for number in range(8):
        first, second = (run(program(*BOTH, interleave=number)) for _ in range(2))
        assert first.encode() == second.encode()
        seen[number] = tuple(arrived(first))
    assert len(set(seen.values())) > 2


def test_one_host_waits_while_the_others_go_on() -> None:
    taken = [Subscribe(host=1), Take(host=1, deadline_ms=1000), Ack(host=1), Leave(host=1)]
    history = run(program(taken, [Advance(ms=100), SendStep(host=0)]))
    (arrive,) = [event for event in of_kind(history, Arrive) if event.host != DRAIN_HOST]
    assert arrive.message == "p/1"
    assert not of_kind(history, Skipped)


def test_the_observer_reads_while_others_go_on_and_no_longer() -> None:
    history = run(program([SendStep(count=5)], [ReadCounters(count=100_000, every_ms=1)]))
    sizes = [event.size or 0 for event in of_kind(history, Counters) if not event.at_rest]
    assert sizes == sorted(sizes)
    assert 4 <= len(sizes) < 10
    alone = run(program([ReadCounters(count=3, every_ms=7)]))
    times = [event.t0 for event in of_kind(alone, Counters) if not event.at_rest]
    assert [later - earlier for earlier, later in pairwise(times)] == [7_000_000, 7_000_000]


def test_the_observer_operates_while_others_go_on() -> None:
    sent = [SendStep(count=5), Advance(ms=10), SendStep()]
    history = run(program(sent, [Advance(ms=8), Operate(), ReadCounters()]))
    (purge,) = of_kind(history, Purge)
    sends = of_kind(history, Send)
    assert sends[4].t1 <= purge.t0 < sends[5].t0
    assert purge.count == 5
    assert [event.message for event in of_kind(history, Arrive)] == ["p/6"]


def test_sequences_of_one_host_follow_one_another_and_what_is_impossible_is_skipped() -> None:
    history = run(program([SendStep()], [Take(host=1)], [SendStep(host=3, size=1)]))
    assert [event.message for event in of_kind(history, Send)] == ["p/1", "p/2"]
    assert [event.step["do"] for event in of_kind(history, Skipped)] == ["take"]
    assert of_kind(run(program()), Skipped)


def test_hosts_reconnect_at_once() -> None:
    churn = [
        [Subscribe(host=host, prefetch=10), Leave(host=host, how="drop"), Subscribe(host=host)] for host in range(3)
    ]
    connects = of_kind(run(program(*churn)), Connect)
    again = [event for event in connects if event.host != DRAIN_HOST][3:]
    assert {event.host for event in again} == {"p", "c", "d"}
    assert max(event.t0 for event in again) < min(event.t1 for event in again)


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (
            [[{"do": "send"}, {"do": "send", "host": 1}]],
            r"at `\$.steps\[0\].of\[0\]` name the hosts \[0, 1\]; give",
        ),
        (
            [[{"do": "clock"}]],
            r"'clock' - at `\$.steps\[0\].of\[0\]\[0\].do`; .*hosts do at once is one of ack, ",
        ),
        ([[]] * 65, "length <= 64"),
    ],
)
def test_what_is_wrong_is_said_with_place_and_remedy(of: list[Any], message: str) -> None:
    fields = msgspec.to_builtins(program())
    fields["steps"] = [{"do": "parallel", "of": of}]
    with pytest.raises(ProgramError, match=message):
        parse_program(msgspec.json.encode(fields))


def test_a_program_goes_into_a_file_and_back() -> None:
    given = program([SendStep(count=2)], [ReadCounters(count=3)], interleave=5)
    assert parse_program(given.encode()) == given


def test_it_shrinks_to_what_is_needed() -> None:
    """Two sends that overlap need two sequences, and nothing else."""

    def overlapping(candidate: Program) -> bool:
        sends = of_kind(run(candidate), Send)
        return any(a.host != b.host and a.t0 < b.t1 and b.t0 < a.t1 for a in sends for b in sends)

    big = program(
        [Subscribe(host=2), Take(host=2, deadline_ms=5)],
        [SendStep(size=1024), Advance(ms=1), SendStep(count=7)],
        [SendStep(host=1, count=3, ttl_ms=5), Subscribe(host=1)],
        [ReadCounters(count=9)],
        interleave=77,
        before=[SendStep(), Advance(ms=500)],
    )
    assert shrink(big, overlapping).steps == [Parallel(((SendStep(),), (SendStep(host=1),)))]


def test_what_is_not_concurrent_shrinks_to_single_steps() -> None:
    big = program([SendStep(ttl_ms=100)], [Subscribe(host=1), Take(host=1)])
    sends = shrink(big, lambda candidate: any(event.ttl_ms == 100 for event in of_kind(run(candidate), Send)))
    assert sends.steps == [SendStep(ttl_ms=100)]


def test_it_is_told_and_cast_and_made_quick() -> None:
    given = program([Begin(), SendStep(ttl_ms=50, delay_ms=8000)], [Advance(ms=6000)], [ReadCounters(count=2)])
    told = tell(given).steps[0]
    assert told.text.startswith("at once: p begins transaction p/tx1; p sends p/1 to q0 | ")
    assert "        at once: advance ms=6000" in program_lines(given)
    plain = cast(given, ["ttl"], ["stomp"])
    assert plain.steps[0] == Parallel(((SendStep(ttl_ms=50),), (Advance(ms=6000),), (ReadCounters(count=2),)))
    assert waits_ms(quick(given)) <= 2000 < waits_ms(given)
    check_program(plain, "cast")
