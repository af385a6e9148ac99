"""A run whose time is over begins no further step; it still heals and drains."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.chaos.rates import REAL
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.configuration import LinkSpec
from brokerproof.conformance.experiment.history import Consume, Phase, Send, Skipped
from brokerproof.conformance.experiment.steps import Advance
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.running.under_test import experiment
from brokerproof.conformance.worlds.live.patience import BEHIND_MS, MUTE_MS, OPEN_MS, STALLED_MS, STUCK_MS, Patience
from brokerproof.conformance.worlds.live.port import LivePort
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld


def port_after(ms: int, *, is_over: bool = False) -> LivePort:
    """One whose run may take 100 ms and has taken so many."""
    nobody: Any = None
    port = LivePort(nobody, nobody, budget_ms=100, is_over=lambda: is_over)
    known: Any = SimpleNamespace(now_ns=lambda: ms * 1_000_000)
    port.hosts = known
    port._rate = REAL
    return port


def client(name: str, via: str = "stomp") -> Any:
    """One whose link flows."""
    return SimpleNamespace(name=name, via=via, stalled="", link=LinkSpec(client=name))


def test_its_time_is_over_when_it_is_used_up_or_nobody_has_more() -> None:
    assert not port_after(100).spent()
    assert port_after(101).spent()
    assert port_after(1, is_over=True).spent()


def test_what_comes_after_is_skipped_and_what_was_sent_comes_to_light(monkeypatch: pytest.MonkeyPatch) -> None:
    world = SimulatedWorld()
    monkeypatch.setattr(world.port, "spent", lambda: world.port.true_ns() > 1_000_000_000)
    steps = [SendStep(count=2), Advance(ms=2000), SendStep(), Advance(ms=2000)]
    history = world.run(experiment().with_steps(steps))
    assert sum(isinstance(event, Send) for event in history.events) == 2
    assert sum(isinstance(event, Skipped) for event in history.events) == 2
    assert sum(isinstance(event, Consume) and event.host == "drain" for event in history.events) == 2
    assert [event.name for event in history.events if isinstance(event, Phase)] == ["work", "heal", "drain", "end"]


def test_a_broker_that_left_somebody_without_an_answer_is_waited_for_less() -> None:
    one, other = (client(name) for name in ("c0", "c1"))
    patience, ack = Patience(REAL, set()), ops.Send(host="c0", dest="q0", message="c0/1")
    assert patience.ms(one, "b", ack) == patience.ms(other, "b", ack) == OPEN_MS
    patience.unanswered(one, "b", ack, OPEN_MS - 1)
    assert (patience.ms(one, "b", ack), patience.ms(other, "b", ack)) == (BEHIND_MS, OPEN_MS)
    patience.unanswered(one, "b", ack, OPEN_MS)
    assert (patience.ms(one, "b", ack), patience.ms(other, "b", ack)) == (BEHIND_MS, MUTE_MS)
    one.stalled = other.stalled = "client"
    assert (patience.ms(one, "b", ack), patience.ms(other, "b", ack)) == (STUCK_MS, STALLED_MS)


def test_a_java_client_loads_its_library_while_it_greets() -> None:
    patience, connect = Patience(REAL, set()), ops.Connect(url="")
    assert patience.ms(client("c0", via="jms"), "b", connect) == 3 * OPEN_MS
    assert patience.ms(client("c0", via="jms"), "b", ops.Commit(host="c0", tx="c0/tx1")) == OPEN_MS
    assert patience.ms(client("c0"), "b", connect) == OPEN_MS


def test_who_left_a_send_waiting_or_is_behind_a_slow_link_may_answer_others() -> None:
    one, other = (client(name) for name in ("c0", "c1"))
    send, connect = ops.Send(host="c0", dest="q0", message="c0/1"), ops.Connect(url="")
    patience = Patience(REAL, set())
    patience.unanswered(one, "b", send, OPEN_MS)
    assert (patience.ms(other, "b", send), patience.ms(other, "b", connect)) == (MUTE_MS, OPEN_MS)
    patience.unanswered(one, "b", connect, OPEN_MS)
    assert patience.ms(other, "b", connect) == MUTE_MS
    never: set[str] = set()
    patience, one.link = Patience(REAL, never), LinkSpec(client="c0", bytes_per_second=20_000)
    for operation in (send, connect, ops.Commit(host="c0", tx="c0/tx1")):
        patience.unanswered(one, "b", operation, OPEN_MS)
    assert (patience.ms(other, "b", send), patience.ms(other, "b", connect), never) == (OPEN_MS, OPEN_MS, set())


def test_what_a_broker_never_answers_costs_later_runs_little() -> None:
    never: set[str] = set()
    subscribe, commit = ops.Subscribe(host="c0", dest="q0", consumer="c0/1"), ops.Commit(host="c0", tx="c0/tx1")
    Patience(REAL, never).unanswered(client("c0"), "b", subscribe, OPEN_MS)
    later = Patience(REAL, never)
    assert (later.ms(client("c0"), "b", subscribe), later.ms(client("c0"), "b", commit)) == (BEHIND_MS, OPEN_MS)
    later.unanswered(client("c0"), "b", subscribe, BEHIND_MS)
    assert later.ms(client("c0"), "b", commit) == OPEN_MS, "its connection is as good as any"
    later.answered("c0", subscribe)
    assert Patience(REAL, never).ms(client("c0"), "b", subscribe) == OPEN_MS
