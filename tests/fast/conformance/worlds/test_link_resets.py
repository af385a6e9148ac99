"""A connection that the network ends in the simulated world: both ends notice, what was on its way is lost."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.history import NETWORK_ENDED, Arrive, Closed, Fault, History, Leave, Skipped
from brokerproof.conformance.experiment.history import Send as SendEvent
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import (
    Advance,
    AnyStep,
    Reset,
    Resume,
    Send,
    Settle,
    Stall,
    Subscribe,
    Take,
)
from brokerproof.conformance.experiment.steps import Leave as LeaveStep
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

#: So far away that a message is on its way when the next step begins.
FAR_US = 40_000


def run(*steps: AnyStep, via: str = "jms", latency_us: int = 500) -> History:
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client", via), HostSpec("c0", "client", via)]  # type: ignore[arg-type]  # one of the two
    links = [LinkSpec("p0"), LinkSpec("c0", latency_us)]
    history = SimulatedWorld().run(Program(FORMAT, BrokerSpec(), hosts, links, queues("q0"), [*steps]))
    assert [one.text for one in judge_history(history) if one.verdict is VerdictKind.VIOLATED] == []
    return history


@pytest.mark.parametrize("via", ["jms", "stomp"])
def test_both_ends_notice(via: str) -> None:
    history = run(Subscribe(host=1), Reset(link=1), Send(), Subscribe(host=1), Take(host=1, deadline_ms=50), via=via)
    (fault,) = [event for event in history.events if isinstance(event, Fault)]
    assert (fault.fault, fault.link, fault.evidence) == ("reset", "c0", {"client_ends": 1, "broker_ends": 1})
    at_broker, at_client = [event for event in history.events if isinstance(event, Closed)][:2]
    assert (at_broker.host, at_broker.who, at_broker.link) == ("b", "unknown", "c0")
    assert (at_client.host, at_client.reason) == ("c0", NETWORK_ENDED)
    assert any(isinstance(event, Leave) and event.host == "c0" for event in history.events)
    kept = {one.requirement: one for one in judge_history(history)}["GEN-143"]
    assert kept.verdict is VerdictKind.SATISFIED
    (arrived,) = [event for event in history.events if isinstance(event, Arrive) and event.host == "c0"]
    assert arrived.consumer == "c0/2"


def test_what_was_on_its_way_is_lost_and_comes_again() -> None:
    again = (Subscribe(host=1), Take(host=1, deadline_ms=500), Settle())
    history = run(Subscribe(host=1), Send(), Reset(link=1), *again, latency_us=FAR_US)
    (arrived,) = [event for event in history.events if isinstance(event, Arrive) and event.host == "c0"]
    assert arrived.consumer == "c0/2"
    assert arrived.t0 > next(event for event in history.events if isinstance(event, Fault)).t1


def test_what_nobody_has_or_what_is_stalled_is_not_reset() -> None:
    history = run(Reset(link=1), Send(), Stall(link=0), Stall(link=0), Reset(), Advance(ms=1))
    assert [event.step["do"] for event in history.events if isinstance(event, Skipped)] == ["reset", "reset"]
    assert not any(isinstance(event, Fault) and event.fault == "reset" for event in history.events)


@pytest.mark.parametrize(("after_bytes", "come_through"), [(199, 0), (264, 1), (265, 1), (527, 1), (528, 2)])
def test_a_connection_ends_after_so_many_bytes(after_bytes: int, come_through: int) -> None:
    """A frame of 200 bytes and a body of 64: what the last byte does not belong to any more is lost."""
    again = (Subscribe(host=1), Take(host=1, count=3, deadline_ms=50))
    severed = Reset(link=1, after_bytes=after_bytes, toward="client")
    history = run(Subscribe(host=1, prefetch=10), severed, Send(count=3), Advance(ms=10), *again)
    asked, ended = [event for event in history.events if isinstance(event, Fault)]
    assert (asked.fault, asked.toward, asked.after_bytes) == ("limit", "client", after_bytes)
    assert (ended.fault, ended.link, ended.after_bytes) == ("reset", "c0", after_bytes)
    assert ended.evidence == {"bytes_out": after_bytes, "client_ends": 1, "broker_ends": 1}
    before = [event for event in history.events if isinstance(event, Arrive) and event.consumer == "c0/1"]
    assert len(before) == come_through
    assert len({event.message for event in history.events if isinstance(event, Arrive)}) == 3


def test_toward_the_broker_a_message_is_lost_with_its_connection() -> None:
    severed = Reset(link=0, after_bytes=250, toward="broker")
    history = run(Send(), severed, Send(), Send(), Advance(ms=10))
    assert [event.result for event in history.events if isinstance(event, SendEvent)] == ["ok", "unknown", "ok"]
    assert [event.host for event in history.events if isinstance(event, Closed)] == ["b", "p0"]


def test_a_limit_is_that_of_one_connection_and_healed() -> None:
    severed = Reset(link=1, after_bytes=300, toward="client")
    history = run(Subscribe(host=1), severed, LeaveStep(host=1, how="drop"), Subscribe(host=1), Send(count=9), Settle())
    assert [event.fault for event in history.events if isinstance(event, Fault)] == ["limit"]
    history = run(Subscribe(host=1), severed, Stall(link=1), Resume(), Send(count=9), Settle())
    assert [event.fault for event in history.events if isinstance(event, Fault)] == ["limit", "stall", "resume"]
