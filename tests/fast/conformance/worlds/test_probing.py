"""Raw peers in the simulated world: what they say reaches the broker, what they hear is what it does. And what becomes
of a broker that stands still.
"""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.agents.dialogue import WayIn
from brokerproof.conformance.agents.raw_peer import StompTongue
from brokerproof.conformance.experiment.configuration import BrokerSpec, ConnectorSpec, HostSpec
from brokerproof.conformance.experiment.history import Consume, Counters, Probe
from brokerproof.conformance.experiment.history import Pause as Paused
from brokerproof.conformance.experiment.history import Send as Sent
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Advance, Leave, Pause, Send, Settle, Subscribe, Take
from brokerproof.conformance.experiment.steps import Probe as Step
from brokerproof.conformance.worlds.simulated.port import SimulatedPort
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

HOSTS = [HostSpec("b", "broker"), HostSpec("c0", "client")]


def probes(*steps: Step, generation: str = "documented", **connector: Any) -> list[Probe]:
    spec = BrokerSpec(generation={"monitor": generation}, connector=ConnectorSpec(**connector))
    history = SimulatedWorld().run(Program(FORMAT, spec, HOSTS, steps=list(steps)))
    return [event for event in history.events if isinstance(event, Probe)]


def test_a_silent_peer_hears_keep_alives_and_then_nothing_more() -> None:
    stomp, jms = probes(Step(offer_ms=(1000, 500), ms=9000), Step(via="openwire", offer_ms=(1000, 500), ms=9000))
    assert (stomp.heard.heart_beat, stomp.heard.beats, stomp.heard.last, stomp.heard.reports) == (
        "500,1000",
        7,
        "beat",
        1,
    )
    assert stomp.heard.ended_ns == 2_500_000_000
    assert (jms.heard.beats, jms.heard.answers, jms.heard.closed, jms.heard.ended_ns) == (
        3,
        0,
        1,
        stomp.t1 + 1_500_000_000,
    )
    assert jms.heard.gap_ns == jms.heard.closest_ns == 333_000_000
    assert jms.t1 == jms.heard.ended_ns, "a probe is over when the broker has hung up"


def test_questions_are_answered() -> None:
    for via in ("stomp", "openwire"):
        (found,) = probes(Step(via=via, offer_ms=(300, 300), says="asks", every_ms=50, talk_ms=500, ms=550))  # type: ignore[arg-type]  # one of two literals
        assert (found.said.asked, found.heard.answers, found.heard.ended_ns) == (10, 10, None)


@pytest.mark.parametrize("via", ["stomp", "openwire"])
def test_frames_that_want_no_answer_get_none_and_are_no_silence(via: Any) -> None:
    (found,) = probes(Step(via=via, offer_ms=(300, 300), says="frames", every_ms=100, talk_ms=5000, ms=5000))
    assert (found.said.asked, found.heard.answers, found.heard.refused, found.heard.ended_ns) == (0, 0, "", None)
    assert found.heard.beats > 1


@pytest.mark.parametrize("via", ["stomp", "openwire"])
@pytest.mark.parametrize("hello", ["none", "half", "early"])
def test_who_says_no_hello_is_hung_up_on_after_the_connect_timeout(via: Any, hello: Any) -> None:
    (found,) = probes(Step(via=via, hello=hello, ms=5000), connect_timeout_ms=700)
    assert found.heard.ended_ns == 700_000_000
    assert found.said.hello_ns is None or hello != "none"


@pytest.mark.parametrize(("via", "faults"), [("stomp", 3), ("openwire", 4)])
def test_bad_hellos_are_refused_at_once(via: Any, faults: int) -> None:
    found = probes(*(Step(via=via, hello="bad", fault=number) for number in range(faults)))
    assert len({event.said.fault for event in found}) == faults
    assert all(event.heard.refused and event.heard.ended_ns == event.t0 for event in found)


def test_a_deaf_peer_is_ended_by_the_write_timeout_alone() -> None:
    step = Step(offer_ms=(1000, 0), deaf=True, says="beats", every_ms=300, talk_ms=4000, ms=4000)
    (patient,) = probes(step)
    assert patient.heard.ended_ns is None
    (ended,) = probes(step, write_timeout_ms=1500)
    assert ended.heard.ended_ns is not None
    assert 1_500_000_000 <= ended.heard.ended_ns < 1_510_000_000


def test_many_peers_leave_nothing() -> None:
    (found,) = probes(Step(offer_ms=(100, 0), times=50, ms=3000), connect_timeout_ms=100)
    assert (found.said.times, found.heard.closed, found.heard.left) == (50, 50, {"connections": 0, "timers": 0})


def test_a_visit_is_total() -> None:
    world = SimulatedWorld()
    world.open(Program(FORMAT, BrokerSpec(), HOSTS))
    step = Step(via="openwire", says="beats", every_ms=1, talk_ms=10_000_000, deaf=True, ms=10_000_000)
    concrete = step.normalise(world.state)
    assert concrete is not None
    assert (concrete.deaf, concrete.every_ms) == (False, 5000)
    assert Step(ms=0).normalise(world.state) is None


def test_half_a_hello_is_the_beginning_of_one() -> None:
    assert b"CONNECT\naccept-version:1.2\n\n\0".startswith(StompTongue().half().data)


def test_a_peer_of_stomp_says_who_it_is_where_that_is_wanted() -> None:
    known = StompTongue(WayIn(host="/", login="app", passcode="secret")).hello((0, 0)).headers
    assert (known["host"], known["login"], known["passcode"]) == ("/", "app", "secret")
    assert "login" not in StompTongue().hello((0, 0)).headers


def test_a_producer_that_is_stopped_by_flow_control_is_not_read_from() -> None:
    step = Step(offer_ms=(300, 300), deaf=True, says="beats", every_ms=100, talk_ms=300, ms=3000)
    spec = BrokerSpec(generation={"memory": "G3"}, memory_limit_bytes=1024 * 1024)
    history = SimulatedWorld().run(Program(FORMAT, spec, HOSTS, steps=[step, Settle()]))
    (found,) = [event for event in history.events if isinstance(event, Probe)]
    assert (found.said.flooded_ns, found.heard.ended_ns) == (0, None)
    counters = [event for event in history.events if isinstance(event, Counters) and event.dest is None]
    assert [event.memory_bytes for event in counters] == [0] * len(counters), "it has gone, with all that it had sent"


def test_a_broker_that_stands_still_reads_afterwards_what_has_come() -> None:
    steps = [Subscribe(prefetch=10), Send(host=1), Pause(ms=700), Send(host=1), Take(deadline_ms=10, count=2)]
    hosts = [*HOSTS, HostSpec("c1", "client")]
    history = SimulatedWorld().run(Program(FORMAT, BrokerSpec(), hosts, steps=list(steps)))
    (pause,) = [event for event in history.events if isinstance(event, Paused)]
    assert (pause.t1 - pause.t0, pause.target) == (700_000_000, "b")
    sends = [event for event in history.events if isinstance(event, Sent)]
    assert [event.result for event in sends] == ["ok", "ok"]
    assert len([event for event in history.events if isinstance(event, Consume) and event.host == "c0"]) == 2


def test_what_a_client_does_while_the_broker_stands_still_waits() -> None:
    world = SimulatedWorld()
    world.open(Program(FORMAT, BrokerSpec(), HOSTS))
    world.apply(Subscribe(prefetch=10))
    assert isinstance(world.port, SimulatedPort)
    broker = world.port.broker
    broker.stand_still()
    world.apply(Leave(how="drop"))
    world.apply(Advance(ms=500))
    assert broker.node.resources()["connections"] == 1
    broker.go_on()
    assert broker.node.resources()["connections"] == 0
    world.close()
