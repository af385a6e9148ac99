"""Networks of brokers in virtual time: who is where, what the bridge is seen to do, and that each broker is judged."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.experiment.chooser import SeededChooser
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.history import Arrive, Counters, Event, Fault, History, Phase, Send
from brokerproof.conformance.experiment.history import Probe as ProbeEvent
from brokerproof.conformance.experiment.history_file import parse_history
from brokerproof.conformance.experiment.program import FORMAT, Program, ProgramError, check_program
from brokerproof.conformance.experiment.steps import (
    Ack,
    Advance,
    AnyStep,
    Clock,
    Cut,
    Probe,
    Restart,
    Resume,
    Settle,
    Stall,
    Subscribe,
    Take,
)
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.facts.network import histories
from brokerproof.conformance.generate.networks import is_networkable, with_network, without_network
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.crossings import Crossings
from brokerproof.conformance.worlds.port import Recorder
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

HOSTS = [
    HostSpec("b", "broker"),
    HostSpec("b2", "broker", clock=ClockSpec(60_000)),
    HostSpec("p0", "client", "jms"),
    HostSpec("c0", "client", "jms", at="b2"),
    HostSpec("n0", "bridge", to="b2"),
]
CONSUME = Subscribe(host=1, prefetch=10, ack="individual")
STALLED = Stall(link=0)
STALLED_BACK = Stall(link=0, toward="client")
A_WHILE = Advance(ms=3000)


def network(*steps: AnyStep, hosts: list[HostSpec] | None = None) -> Program:
    return Program(FORMAT, BrokerSpec(persistent=True), hosts or HOSTS, [], queues("q0"), list(steps))


def run(*steps: AnyStep, mutant: str | None = None) -> History:
    program = network(*steps)
    check_program(program, "network")
    return SimulatedWorld(mutant=mutant).run(program)


def of(history: History, kind: type[Event], host: str) -> Sequence[Event]:
    return [event for event in history.events if type(event) is kind and event.host == host]


def violated(history: History) -> list[str]:
    return [one.requirement for one in judge_history(history) if one.verdict is VerdictKind.VIOLATED]


def test_a_message_crosses_with_its_stamps() -> None:
    history = run(CONSUME, SendStep(ttl_ms=600_000), Settle())
    (sent,), (arrived,) = of(history, Send, "p0"), of(history, Arrive, "c0")
    assert isinstance(sent, Send)
    assert isinstance(arrived, Arrive)
    assert (arrived.message, arrived.expiration_ms) == (sent.message, sent.expiration_ms)
    assert arrived.timestamp_ms == sent.timestamp_ms
    (crossed,) = of(history, Send, "n0-far")
    assert isinstance(crossed, Send)
    assert crossed.network
    assert violated(history) == []


def test_the_far_clock_decides_what_life_remains() -> None:
    history = run(CONSUME, SendStep(ttl_ms=30_000), SendStep(ttl_ms=90_000), A_WHILE, Settle())
    assert [one.message for one in of(history, Arrive, "c0") if isinstance(one, Arrive)] == ["p0/2"]
    assert violated(history) == []


def test_a_stalled_bridge_carries_on_when_its_link_flows() -> None:
    history = run(CONSUME, STALLED, SendStep(count=3), A_WHILE, Resume(), A_WHILE, Settle())
    assert len(of(history, Arrive, "c0")) == 3
    assert violated(history) == []


@pytest.mark.parametrize("how", ["cut", "kill"])
@pytest.mark.parametrize("toward", ["broker", "client", "both"])
def test_what_is_in_doubt_at_a_cut_is_neither_lost_nor_taken_twice(how: str, toward: str) -> None:
    steps = (Stall(link=0, toward=toward), SendStep(count=3), Advance(ms=100), Cut(how=how), Resume(), A_WHILE)  # type: ignore[arg-type] # of its words
    history = run(CONSUME, *steps, Take(count=3), Ack(upto=2), Settle())
    crossed = [event for event in of(history, Send, "n0-far") if isinstance(event, Send)]
    assert [event.again for event in crossed] == [True] * 3
    assert sorted(event.message for event in of(history, Arrive, "c0") if isinstance(event, Arrive)) == [
        "p0/1",
        "p0/2",
        "p0/3",
    ]
    (fault,) = [event for event in history.events if isinstance(event, Fault) and event.fault == "cut"]
    assert fault.evidence == {"in_doubt": 3}
    assert violated(history) == []


def test_either_broker_can_be_killed() -> None:
    steps = (SendStep(count=2), Restart(how="kill", broker=1), SendStep(), A_WHILE, Restart(how="kill"), SendStep())
    history = run(CONSUME, *steps, A_WHILE, Settle())
    targets = [event.target for event in history.events if isinstance(event, Fault) and event.fault == "restart"]
    assert targets == ["b2", "b"]
    assert violated(history) == []


def test_what_a_bridge_sends_again_after_a_restart_has_not_come_back() -> None:
    stalled = (STALLED_BACK, SendStep(persistent=False), Advance(ms=100), Take(), Ack(), Cut(how="kill"))
    history = run(CONSUME, *stalled, Restart(how="stop", broker=1), Resume(), A_WHILE, Settle())
    times = [event.result for event in of(history, Send, "n0-far") if isinstance(event, Send) and event.again]
    assert times == ["ok"]
    assert len(of(history, Arrive, "c0")) + len(of(history, Arrive, "drain-b2")) == 2
    assert violated(history) == []


def test_a_bridge_that_comes_is_nothing_that_a_raw_peer_left_behind() -> None:
    program = network(Probe(offer_ms=(3, 90), says="asks", every_ms=295, talk_ms=2000, ms=9000, times=3))
    slow = msgspec.structs.replace(program, links=[LinkSpec("n0", 20_000)])
    history = SimulatedWorld().run(slow)
    assert [event for event in history.events if isinstance(event, ProbeEvent)]
    assert violated(history) == []


def test_clocks_and_figures_are_each_brokers_own() -> None:
    history = run(Clock(host=1, jump_ms=1000), SendStep(), A_WHILE, Settle())
    heal = next(event.seq for event in history.events if isinstance(event, Phase) and event.name == "heal")
    read = [
        event for event in history.events if isinstance(event, Counters) and event.dest == "q0" and event.seq < heal
    ]
    assert {event.host: event.size for event in read} == {"b": 0, "b2": 1}
    near, far = histories(history)
    assert (near.header.broker_host, far.header.broker_host) == ("b", "b2")
    assert {event.host for event in far.events} >= {"b2", "n0-far"}
    assert not {event.host for event in near.events} & {"b2", "n0-far", "c0"}


def test_a_bridge_that_was_cut_is_there_again_when_the_run_heals() -> None:
    history = run(CONSUME, SendStep(), Settle(), Cut(), SendStep(count=2))
    assert [event.message for event in of(history, Arrive, "c0") if isinstance(event, Arrive)][:1] == ["p0/1"]
    drained = {event.message for event in of(history, Arrive, "drain-b2") if isinstance(event, Arrive)}
    assert drained == {"p0/1", "p0/2", "p0/3"}
    assert violated(history) == []


def test_a_history_of_a_network_is_one_file() -> None:
    history = run(CONSUME, SendStep(), Settle())
    again = parse_history(history.encode())
    assert again.header.at == {"b2": "b2", "c0": "b2", "n0-far": "b2", "drain-b2": "b2"}
    assert judge_history(again) == judge_history(history)


def test_a_history_of_one_broker_names_no_places() -> None:
    history = SimulatedWorld().run(without_network(network(SendStep())))
    assert b'"at"' not in history.encode().splitlines()[0]
    assert histories(history) == [history]


def test_virtual_time_replays() -> None:
    steps = (CONSUME, STALLED, SendStep(count=3), Cut(), A_WHILE, Resume(), Settle())
    assert run(*steps).encode() == run(*steps).encode()


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ([*HOSTS, HostSpec("c1", "client", at="b3")], "clients are at one of the brokers"),
        ([*HOSTS, HostSpec("n1", "bridge", to="b3")], "bridges go to another one"),
        ([*HOSTS, HostSpec("n1", "bridge", at="b2", to="b")], "closes a circle"),
        ([*HOSTS, HostSpec("n1", "bridge", to="b")], "closes a circle"),
        ([*HOSTS, HostSpec("c1", "client", to="b2")], "to 'b2'"),
    ],
)
def test_impossible_networks_are_refused(hosts: list[HostSpec], text: str) -> None:
    with pytest.raises(ProgramError, match=text):
        check_program(network(hosts=hosts), "network")


def test_networks_need_a_broker_that_is_started_more_than_once() -> None:
    class Alone(ReferenceAdapter):
        def capabilities(self) -> list[str]:
            return [word for word in super().capabilities() if word != "network"]

    assert ReferenceAdapter().refusal(network(SendStep())) == ""
    assert "several brokers" in Alone().refusal(network(SendStep()))


def test_drawn_networks_are_sound_and_come_back_alone() -> None:
    found = [program for seed in range(200) if (program := program_for_seed(seed)).bridges()]
    assert found, "no seed among these draws a network"
    for program in found:
        check_program(program, "drawn")
        assert violated(SimulatedWorld().run(program)) == []
        alone = without_network(program)
        check_program(alone, "alone")
        assert not alone.bridges()
        assert not any(isinstance(step, Cut) for step in alone.steps)


def test_a_program_over_two_brokers_keeps_its_steps() -> None:
    program = next(one for seed in range(60) if is_networkable(one := program_for_seed(seed)) and not one.bridges())
    drawn = with_network(SeededChooser(1), program)
    check_program(drawn, "drawn")
    kinds = [type(step) for step in drawn.steps]
    assert all(kinds.count(type(step)) >= 1 for step in program.steps)


@pytest.mark.parametrize(
    ("mutant", "requirement"),
    [
        ("bridge-acknowledges-at-once", "GEN-170"),
        ("bridge-sends-twice", "GEN-171"),
        ("bridge-1ms-longer", "GEN-172"),
        ("bridge-flattens", "GEN-173"),
        ("bridge-hoards", "GEN-174"),
        ("crossing-taken-again", "GEN-027"),
    ],
)
def test_defects_of_bridges_are_found(mutant: str, requirement: str) -> None:
    steps = (Stall(link=0, toward="client"), SendStep(count=3, ttl_ms=600_000, priority=7), Advance(ms=100))
    after = (Take(count=3, deadline_ms=10), Ack(), Ack(), Cut(), Advance(ms=10), Resume(), A_WHILE)
    rest = (SendStep(count=4), A_WHILE, Settle())
    assert requirement in violated(run(CONSUME, *steps, *after, *rest, mutant=mutant))


def test_a_bridge_that_asks_early_has_a_connection_first() -> None:
    """ActiveMQ's connector subscribes before the far broker has let it in: what it holds then ends with that life."""
    recorder = Recorder()
    log = Crossings(recorder, "n0", "n0-far")
    for begin in (1, 10):
        log.begun(begin)
        log.subscribed("1", "q0", "ok", begin + 1, begin)
        log.opened(begin + 2)
    told = [(type(event).__name__, event.host) for event in recorder.events]
    assert told == 2 * [("Connect", "n0"), ("Subscribe", "n0"), ("Connect", "n0-far")]
