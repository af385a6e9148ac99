"""The simulated world: deterministic to the byte, and its faults do what they say."""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec
import pytest

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, HostSpec, LinkSpec, MonitorSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.history import (
    Arrive,
    Closed,
    Connect,
    Consume,
    Counters,
    Event,
    Fault,
    History,
    Phase,
    Send,
)
from brokerproof.conformance.experiment.history import Leave as LeaveEvent
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import (
    Advance,
    AnyStep,
    Clock,
    Leave,
    Resume,
    Settle,
    Stall,
    Subscribe,
    Take,
)
from brokerproof.conformance.experiment.steps import Counters as ReadCounters
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.worlds.executor import UNANSWERED_MAX
from brokerproof.conformance.worlds.port import Outcome, Waiting
from brokerproof.conformance.worlds.simulated.framings import Framings
from brokerproof.conformance.worlds.simulated.port import SimulatedPort
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from brokerproof.reference_broker.session.framing import FramingError

E = TypeVar("E", bound=Event)
HOSTS = [HostSpec("b", "broker"), HostSpec("p", "client"), HostSpec("c", "client", clock=ClockSpec(1000))]


def run(steps: list[AnyStep], world: SimulatedWorld | None = None, **changes: object) -> History:
    fields: dict[str, object] = {
        "format": FORMAT,
        "broker": BrokerSpec(),
        "hosts": HOSTS,
        "links": [],
        "destinations": queues("q0"),
        "steps": steps,
    }
    return (world or SimulatedWorld()).run(Program(**(fields | changes)))  # type: ignore[arg-type]  # fields of Program


def of(history: History, kind: type[E]) -> list[E]:
    return [event for event in history.events if isinstance(event, kind)]


def test_phases_come_in_order() -> None:
    assert [phase.name for phase in of(run([SendStep()]), Phase)] == ["work", "heal", "drain", "end"]


def test_a_message_is_delivered_and_drained() -> None:
    history = run([Subscribe(host=1), SendStep(), SendStep(), Take(deadline_ms=100)])
    assert [(a.consumer, a.message, a.redelivered) for a in of(history, Arrive)] == [
        ("c/1", "p/1", False),
        ("drain/1", "p/1", True),
        ("drain/1", "p/2", False),
    ]


class Noting(SimulatedWorld):
    """Counts how often an application is asked to take something."""

    def __init__(self) -> None:
        super().__init__()
        self.takes = 0

    def execute(self, operation: ops.Operation) -> Outcome:
        self.takes += isinstance(operation, ops.Take)
        return super().execute(operation)


def test_the_drain_asks_nobody_who_is_known_to_have_nothing() -> None:
    world = Noting()
    history = run(
        [SendStep(host=0, dest=dest % 2, delay_ms=dest) for dest in range(6)], world, destinations=queues("q", "r")
    )
    assert world.takes == len(of(history, Consume)) == 6


def test_a_stalled_link_holds_frames_and_lets_them_go_in_order() -> None:
    steps = [
        Subscribe(host=1, prefetch=10),
        Stall(link=1, toward="client"),
        SendStep(count=3),
        Advance(ms=500),
        Resume(),
    ]
    history = run([*steps, Settle()])
    resumed = next(fault for fault in of(history, Fault) if fault.fault == "resume")
    assert resumed.evidence == {"held": 3}
    arrivals = [arrive for arrive in of(history, Arrive) if arrive.consumer == "c/1"]
    assert [arrive.message for arrive in arrivals] == ["p/1", "p/2", "p/3"]
    assert all(arrive.t0 >= resumed.t0 for arrive in arrivals)


def test_a_send_into_a_stall_is_unknown_and_arrives_later() -> None:
    history = run([SendStep(), Stall(link=0, toward="broker"), SendStep(), Resume(), Settle()])
    assert [send.result for send in of(history, Send)] == ["ok", "unknown"]
    assert [arrive.message for arrive in of(history, Arrive)] == ["p/1", "p/2"]


@pytest.mark.parametrize("via", ["stomp", "jms"])
def test_in_flight_swings_negative_when_the_consumer_leaves_before_the_writer_is_done(
    via: Literal["stomp", "jms"],
) -> None:
    """Seed 003: the close takes 30 off the counter while only a few have been written."""
    steps = [SendStep(count=30), Subscribe(host=1, prefetch=1000), Leave(), ReadCounters(), Settle()]
    hosts = [HostSpec("b", "broker"), HostSpec("p", "client"), HostSpec("c", "client", via)]
    figures = [
        (event.at_rest, event.in_flight) for event in of(run(steps, hosts=hosts), Counters) if event.dest == "q0"
    ]
    assert figures[0][1] is not None
    assert figures[0][1] < 0
    assert figures[1] == (True, 0)


def test_synchronous_dispatch_never_swings() -> None:
    steps = [SendStep(count=30), Subscribe(host=1, prefetch=1000, dispatch="sync"), Leave(), ReadCounters(), Settle()]
    assert next(event.in_flight for event in of(run(steps), Counters) if event.dest == "q0") == 0


def test_a_clock_jump_moves_one_wall_clock_and_no_timer() -> None:
    steps = [Subscribe(host=1), SendStep(delay_ms=1000), Clock(host=0, jump_ms=3_600_000), Advance(ms=2000)]
    arrive = of(run(steps), Arrive)[0]
    send = of(run(steps), Send)[0]
    assert 1_000_000_000 <= arrive.t0 - send.t0 < 1_010_000_000


def test_a_silent_link_is_closed_by_the_monitor() -> None:
    links = [LinkSpec("c", 0, MonitorSpec(1000, 500))]
    history = run([Subscribe(host=1), Advance(ms=3000), Stall(link=1, toward="broker"), Advance(ms=5000)], links=links)
    closed = [event for event in of(history, Closed) if event.host == "b"]
    assert len(closed) == 1
    assert closed[0].idle_ns is not None
    assert 1_000_000_000 <= closed[0].idle_ns <= 1_100_000_000
    assert "Channel was inactive for too (>1000) long" in closed[0].reason


def test_a_healthy_link_stays_open() -> None:
    links = [LinkSpec("c", 500, MonitorSpec(1000, 500))]
    assert of(run([Subscribe(host=1), Advance(ms=30_000)], links=links), Closed) == []


def encoded(program: Program) -> Program:
    """The same with frames that travel as bytes."""
    links = {link.client: link for link in program.links}
    names = [host.name for host in program.clients()]
    return msgspec.structs.replace(
        program, links=[msgspec.structs.replace(links.get(name, LinkSpec(name)), encoded=True) for name in names]
    )


def test_a_frame_that_cannot_be_read_ends_its_connection() -> None:
    steps: list[AnyStep] = [SendStep(size=17 * 1024 * 1024), SendStep(host=1)]
    history = SimulatedWorld().run(encoded(Program(FORMAT, BrokerSpec(), HOSTS, [], queues("q0"), steps)))
    assert [(send.host, send.result) for send in of(history, Send)] == [("p", "fail"), ("c", "ok")]
    assert [(closed.who, closed.link) for closed in of(history, Closed)] == [("broker", "p")]


def test_a_client_that_reads_nonsense_hangs_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Framings, "write", lambda self, frame: b"CONNECTED\nno header\n\n\0")
    history = SimulatedWorld().run(encoded(Program(FORMAT, BrokerSpec(), HOSTS[:2], [], queues("q0"), [SendStep()])))
    assert next(connect.result for connect in of(history, Connect)) == "unknown"
    assert "the broker broke the protocol" in of(history, Closed)[0].reason


def test_what_the_broker_cannot_write_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    write = Framings.write

    def no_message(framings: Framings, frame: object) -> bytes:
        if getattr(frame, "command", "") == "MESSAGE":
            raise FramingError("too long a header")
        return write(framings, frame)

    monkeypatch.setattr(Framings, "write", no_message)
    steps: list[AnyStep] = [Subscribe(host=1), SendStep()]
    history = SimulatedWorld().run(encoded(Program(FORMAT, BrokerSpec(), HOSTS, [], queues("q0"), steps)))
    assert next((closed.who, closed.link) for closed in of(history, Closed)) == ("broker", "c")


def test_the_drain_does_not_wait_for_ever_for_who_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(port: SimulatedPort, operation: ops.ClientOperation) -> Waiting[Outcome]:
        outcome = yield from answered(port, operation)
        if isinstance(operation, ops.Ack):
            asked.append(operation.host)
            outcome.result = "unknown"
        return outcome

    answered = SimulatedPort.ask
    monkeypatch.setattr(SimulatedPort, "ask", ask)
    history = run([SendStep(count=20)])
    assert asked == ["drain"] * UNANSWERED_MAX
    assert [event.consumer for event in of(history, LeaveEvent) if event.consumer] == ["drain/1"]
