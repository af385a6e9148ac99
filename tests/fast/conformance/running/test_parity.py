"""Parity's comparison: it must see every kind of difference, and nothing where there is none."""

from __future__ import annotations

import copy

import msgspec
import pytest

from brokerproof.conformance.corpus.stories import stories
from brokerproof.conformance.experiment.history import Arrive, Closed, Consume, Counters, Event, History, Send
from brokerproof.conformance.experiment.program import check_program
from brokerproof.conformance.experiment.steps import Advance, Resume, Stall, Take
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.running.outcomes import outcomes
from brokerproof.conformance.running.parity import PACE_MS, compare, fit_for_parity, paced
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld


def history_of(name: str) -> History:
    return SimulatedWorld().run(paced(stories()[name].program))


@pytest.fixture(scope="module")
def delayed() -> History:
    return history_of("live-delay")


def changed(history: History, kind: type[Event], number: int = 0, **fields: object) -> History:
    """A copy with one event of a kind altered."""
    events = copy.deepcopy(history.events)
    event = [event for event in events if isinstance(event, kind)][number]
    for name, value in fields.items():
        setattr(event, name, value)
    return History(history.header, events)


def without(history: History, kind: type[Event], number: int = 0) -> History:
    events = list(history.events)
    events.remove([event for event in events if isinstance(event, kind)][number])
    return History(history.header, events)


@pytest.mark.parametrize("name", ["live-delay", "live-silent-link", "live-redelivery", "live-in-flight"])
def test_a_history_agrees_with_itself(name: str) -> None:
    history = history_of(name)
    assert compare(history, copy.deepcopy(history)) == []


def test_another_order_of_the_same_messages(delayed: History) -> None:
    live = changed(changed(delayed, Consume, 0, message="p0/3"), Consume, 1, message="p0/2")
    assert [difference.what for difference in compare(delayed, live)] == ["order"]


def test_another_outcome(delayed: History) -> None:
    live = without(delayed, Consume, 0)
    found = compare(delayed, live)
    assert ("outcome", "p0/2", "consumed", "gone") in [(d.what, d.about, d.simulated, d.live) for d in found]
    assert "p0/2" in str(found[0])


@pytest.mark.parametrize("name", ["size", "in_flight", "dispatched", "expired"])
def test_another_figure_at_rest(delayed: History, name: str) -> None:
    assert [d.what for d in compare(delayed, changed(delayed, Counters, 0, **{name: 77}))] == ["counters at rest"]


def test_counters_in_motion_are_not_compared(delayed: History) -> None:
    moving = changed(delayed, Counters, 0, at_rest=False)
    assert compare(moving, changed(moving, Counters, 0, size=77)) == []


def test_another_closing() -> None:
    history = history_of("live-silent-link")
    assert compare(history, changed(history, Closed, 0, who="client"))[0].what == "closing"
    assert compare(history, changed(history, Closed, 0, reason="tired"))[0].what == "closing"
    assert compare(history, without(history, Closed, 0))[0].what == "closing"


def test_addresses_and_numbers_of_one_run_are_no_difference() -> None:
    history = history_of("live-silent-link")
    reason = "Channel was inactive for too (>1000) long: tcp://127.0.0.1:40001"
    assert compare(history, changed(history, Closed, 0, reason=reason)) == []


def test_times_are_intervals(delayed: History) -> None:
    arrivals = [event for event in delayed.events if isinstance(event, Arrive)]
    late = next(number for number, event in enumerate(arrivals) if event.message == "p0/1")
    t1 = arrivals[late].t1
    assert compare(delayed, changed(delayed, Arrive, late, t0=t1 + 200_000_000, t1=t1 + 200_000_000)) == []
    found = compare(delayed, changed(delayed, Arrive, late, t0=t1 + 400_000_000, t1=t1 + 400_000_000))
    assert [d.what for d in found] == ["time until arrival"]
    early = compare(delayed, changed(delayed, Arrive, late, t0=t1 - 400_000_000, t1=t1 - 400_000_000))
    assert [d.what for d in early] == ["time until arrival"]


@pytest.mark.parametrize("seed", range(30))
def test_seeded_programs_become_programs_that_real_time_can_run(seed: int) -> None:
    program = fit_for_parity(program_for_seed(seed))
    check_program(program, "fit")
    assert all(host.via == "stomp" and host.clock.drift_ppm == 0 for host in program.hosts)
    assert all(link.monitor is None for link in program.links)
    assert not any(isinstance(step, Stall | Resume) for step in program.steps)
    assert sum(step.ms for step in program.steps if isinstance(step, Advance)) < 15_000
    assert all(step.deadline_ms <= PACE_MS for step in program.steps if isinstance(step, Take))


def test_a_pace_follows_every_step() -> None:
    steps = paced(stories()["live-redelivery"].program).steps
    for number, step in enumerate(steps):
        if not isinstance(step, Advance):
            assert steps[number + 1] == Advance(ms=PACE_MS)


def test_outcomes_in_words() -> None:
    history = history_of("live-redelivery")
    assert outcomes(history)["p0/3"] == "consumed+dead-letter"
    refused = changed(history, Send, 0, result="fail")
    assert outcomes(refused)["p0/1"] == "consumed"
    nothing = History(history.header, [event for event in history.events if not isinstance(event, Consume | Arrive)])
    assert set(outcomes(nothing).values()) == {"gone"}
    assert outcomes(History(history.header, [changed(nothing, Send, 0, result="fail").events[-1]])) == {}
    sends = [event for event in nothing.events if isinstance(event, Send)]
    failed = msgspec.structs.replace(sends[0], result="fail")
    assert outcomes(History(history.header, [failed])) == {"p0/1": "refused"}
