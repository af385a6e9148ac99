"""Virtual time has nothing that a process could have too little of: such steps are told as impossible."""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.history import Fault, Skipped
from brokerproof.conformance.experiment.initial_state import state_of
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import AnyStep, Exhaust, Relieve, Send
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

STEPS: list[AnyStep] = [Exhaust(left=0), Exhaust(what="processor", left=10), Send(), Relieve()]


def program(steps: list[AnyStep]) -> Program:
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client")]
    return Program(FORMAT, BrokerSpec(), hosts, [LinkSpec("p0")], queues("q0"), steps)


def test_they_are_skipped_in_virtual_time() -> None:
    found = SimulatedWorld().run(program(STEPS)).events
    assert [event.step["do"] for event in found if isinstance(event, Skipped)] == ["exhaust", "exhaust", "relieve"]
    assert not any(isinstance(event, Fault) for event in found)


def test_one_thing_at_a_time_becomes_scarce_once() -> None:
    state = state_of(program([]))
    few, busy = Exhaust(left=3), Exhaust(what="processor", left=25)
    assert few.normalise(state) == few
    assert Relieve().normalise(state) is None
    state.begun(few.resolve(state))
    assert few.normalise(state) is None
    assert busy.normalise(state) == busy
    state.begun(Relieve().resolve(state))
    assert state.broker.scarce == []
