"""Dispatch isolation in virtual time (seed 003): who pays for a consumer that does not read."""

from __future__ import annotations

from typing import Literal

import pytest

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec
from brokerproof.conformance.experiment.history import Arrive, Fault, History, Phase
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Advance, AnyStep, Resume, Send, Settle, Stall, Subscribe
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.experiment.versions import destinations_named
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

#: More than the link's buffer holds, twice over: the broker's writer waits.
MESSAGES = 60


def run(dispatch: Literal["async", "sync"], dest: str = "q0") -> History:
    """``deaf`` reads nothing for five seconds while messages are sent to it and to its neighbour."""
    steps: list[AnyStep] = [
        Subscribe(host=1, prefetch=1000, dispatch=dispatch),
        Subscribe(host=2, prefetch=1000, dispatch="async"),
        Settle(),
        Stall(link=1, toward="client"),
        Send(count=MESSAGES),
        Advance(ms=5000),
        Resume(link=1),
        Settle(),
    ]
    hosts = [HostSpec("b", "broker"), HostSpec("p", "client"), HostSpec("deaf", "client"), HostSpec("c", "client")]
    return SimulatedWorld().run(
        Program(
            format=FORMAT,
            broker=BrokerSpec(),
            hosts=hosts,
            links=[],
            destinations=destinations_named([dest]),
            steps=steps,
        )
    )


def before_the_end(history: History, host: str) -> tuple[int, int]:
    """How many messages reached a host while the stall lasted, and how many altogether."""
    end_ns = next(e.t0 for e in history.events if isinstance(e, Fault) and e.fault == "resume")
    healed = next(e.seq for e in history.events if isinstance(e, Phase) and e.name == "heal")
    arrivals = [e for e in history.events if isinstance(e, Arrive) and e.host == host and e.seq < healed]
    return sum(1 for arrival in arrivals if arrival.t1 < end_ns), len(arrivals)


@pytest.mark.parametrize(("dest", "share"), [("q0", MESSAGES // 2), ("t0", MESSAGES)])
def test_an_asynchronous_consumer_that_does_not_read_slows_nobody(dest: str, share: int) -> None:
    history = run("async", dest)
    assert before_the_end(history, "c") == (share, share)
    assert before_the_end(history, "deaf") == (0, share)
    verdict = next(v for v in judge_history(history) if v.requirement == "PRE-011")
    assert verdict.verdict is (VerdictKind.SATISFIED if dest == "q0" else VerdictKind.NOT_EXERCISED)


@pytest.mark.parametrize(("dest", "share"), [("q0", MESSAGES // 2), ("t0", MESSAGES)])
def test_a_synchronous_consumer_that_does_not_read_stops_its_neighbours(dest: str, share: int) -> None:
    history = run("sync", dest)
    reached, altogether = before_the_end(history, "c")
    assert reached < share
    assert altogether == share
    assert before_the_end(history, "deaf") == (0, share)
    assert all(v.verdict is not VerdictKind.VIOLATED for v in judge_history(history))
