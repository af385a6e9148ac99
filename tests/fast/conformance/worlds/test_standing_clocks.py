"""Clocks that stand still in the simulated world: what they show, what goes on all the same, what the facts know."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, HostSpec, LinkSpec, MonitorSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.history import (
    Arrive,
    ClockSample,
    Closed,
    Consume,
    Counters,
    Discard,
    Fault,
    History,
    Skipped,
)
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import (
    Advance,
    AnyStep,
    Clock,
    Freeze,
    Send,
    Settle,
    Subscribe,
    Take,
    Thaw,
)
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.facts.clock import Clock as ClockFacts
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

MS = 1_000_000
BROKER, PRODUCER, CONSUMER = 0, 1, 2


def run(*steps: AnyStep, drift_ppm: int = 0, monitor: MonitorSpec | None = None) -> History:
    clock = ClockSpec(drift_ppm=drift_ppm)
    hosts = [HostSpec("b", "broker", clock=clock), HostSpec("p0", "client"), HostSpec("c0", "client", "jms")]
    links = [LinkSpec("p0"), LinkSpec("c0", monitor=monitor)]
    history = SimulatedWorld().run(Program(FORMAT, BrokerSpec(), hosts, links, queues("q0"), [*steps]))
    assert [one.text for one in judge_history(history) if one.verdict is VerdictKind.VIOLATED] == []
    return history


def facts_of(history: History, host: str) -> ClockFacts:
    clock = ClockFacts(host)
    for event in history.events:
        if isinstance(event, ClockSample) and event.host == host:
            clock.sample(event)
        elif isinstance(event, Fault) and event.fault == "clock" and event.target == host:
            clock.jump(event)
    return clock


def told(history: History) -> list[tuple[str | None, str | None, int | None]]:
    return [(event.target, event.how, event.jump_ms) for event in history.events if isinstance(event, Fault)]


@pytest.mark.parametrize("drift_ppm", [0, 100])
def test_it_shows_the_same_and_then_as_if_it_had_gone_on(drift_ppm: int) -> None:
    history = run(Advance(ms=100), Freeze(host=BROKER), Advance(ms=5000), Thaw(), Advance(ms=100), drift_ppm=drift_ppm)
    assert [event[:2] for event in told(history)] == [("b", "freeze"), ("b", "thaw")]
    clock, plain = facts_of(history, "b"), facts_of(run(Advance(ms=5200), drift_ppm=drift_ppm), "b")
    shown = plain.bounds_ns(100 * MS, 100 * MS)
    for at_ms in (101, 2600, 5099):
        low, high = clock.bounds_ns(at_ms * MS, at_ms * MS)
        assert low <= shown[1]
        assert high >= shown[0]
        assert high - low <= 4
    for at_ms in (50, 5150):
        low, high = clock.bounds_ns(at_ms * MS, at_ms * MS)
        assert low - 4 <= plain.bounds_ns(at_ms * MS, at_ms * MS)[0] <= high + 4
        assert high - low <= 100 * drift_ppm + 8
    assert clock.jump_between(0, 99 * MS) == 0
    assert clock.jump_between(0, 2100 * MS) == -2000
    assert clock.jump_between(5101 * MS, 5200 * MS) == 0


def test_what_lives_by_the_wall_clock_waits_and_what_is_measured_goes_on() -> None:
    """A message does not expire at a broker whose clock stands still; a delay passes all the same."""
    sends = (Send(ttl_ms=1000), Send(delay_ms=1000, ttl_ms=0))
    still = run(Subscribe(host=1, prefetch=10), Freeze(host=BROKER), *sends, Advance(ms=3000), Settle())
    arrived = [event.t1 for event in still.events if isinstance(event, Arrive) and event.host == "c0"]
    assert arrived[1] - arrived[0] >= 999 * MS
    waiting = run(
        Freeze(host=BROKER), Send(ttl_ms=1000), Advance(ms=5000), Settle(), Thaw(), Advance(ms=2500), Settle()
    )
    counts = [event for event in waiting.events if isinstance(event, Counters) and event.dest == "q0"]
    assert [(event.size, event.expired) for event in counts[:2]] == [(1, 0), (0, 1)]


def test_a_library_on_a_clock_that_stands_still_finds_nothing_expired() -> None:
    steps = (Subscribe(host=1), Freeze(host=CONSUMER), Send(ttl_ms=500), Advance(ms=2000), Take(host=1))
    assert any(isinstance(event, Consume) and event.host == "c0" for event in run(*steps).events)
    thawed = run(*steps[:-1], Thaw(), Take(host=1))
    assert any(isinstance(event, Discard) and event.host == "c0" for event in thawed.events)


def test_monitors_go_by_elapsed_time() -> None:
    history = run(Subscribe(host=1), Freeze(host=BROKER), Advance(ms=5000), monitor=MonitorSpec(300, 100))
    assert not any(isinstance(event, Closed) for event in history.events)


def test_steps_are_total_and_healed() -> None:
    everybody = [Freeze(host=5), Freeze(host=5), Freeze(host=5)]
    history = run(Thaw(), *everybody, Freeze(), Clock(host=1, jump_ms=1000), Thaw(host=4))
    skipped = [event.step["do"] for event in history.events if isinstance(event, Skipped)]
    assert skipped == ["thaw", "freeze", "clock"]
    assert sorted(target or "" for target, how, _ in told(history) if how == "thaw") == ["b", "c0", "p0"]
