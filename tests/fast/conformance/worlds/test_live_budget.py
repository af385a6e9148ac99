"""A run whose time is over begins no further step; it still heals and drains."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.chaos.rates import REAL
from brokerproof.conformance.experiment.destinations import Destinations, queues
from brokerproof.conformance.experiment.history import Consume, Phase, Send, Skipped
from brokerproof.conformance.experiment.steps import Advance
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.running.under_test import experiment
from brokerproof.conformance.worlds.live.hosts import BEHIND_MS, MUTE_MS, OPEN_MS, STALLED_MS, STUCK_MS, Hosts
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
    state: Any = SimpleNamespace(destinations=Destinations(queues("q0")), broker=SimpleNamespace(name="b"))
    nobody: Any = None
    hosts = Hosts(nobody, state, nobody)
    one, other = (SimpleNamespace(name=name, stalled="", spec=SimpleNamespace(at="")) for name in ("c0", "c1"))
    patience: Any = hosts.patience_ms
    assert patience(one) == patience(other) == OPEN_MS
    hosts.unanswered("c0", "b", OPEN_MS - 1)
    assert (patience(one), patience(other)) == (BEHIND_MS, OPEN_MS)
    hosts.unanswered("c0", "b", OPEN_MS)
    assert (patience(one), patience(other)) == (BEHIND_MS, MUTE_MS)
    one.stalled = other.stalled = "client"
    assert (patience(one), patience(other)) == (STUCK_MS, STALLED_MS)
