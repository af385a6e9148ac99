"""A broker that raises, hangs, spins, stays silent or talks nonsense ends in a verdict with its program, never in a
defect of the suite.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.configuration import LinkSpec
from brokerproof.conformance.experiment.history import Crash, Operate
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.steps.waiting import Advance
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running import watchdog
from brokerproof.conformance.running.engine import run_program
from brokerproof.conformance.running.failure import failure_text, program_lines
from brokerproof.conformance.running.shrinking import shrink_violation
from brokerproof.conformance.stories.story import plot
from brokerproof.conformance.worlds.simulated import agenda
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.effects import Effect
from brokerproof.reference_broker.core.events import Ack
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.openwire.client import ClientSession as JmsClient
from brokerproof.reference_broker.stomp.client import ClientSession as StompClient
from brokerproof.reference_broker.stomp.codec import FrameDecoder


def violated(result: RunResult) -> set[str]:
    return {verdict.requirement for verdict in result.verdicts if verdict.verdict is VerdictKind.VIOLATED}


def crashes(result: RunResult) -> list[Crash]:
    assert result.history is not None
    return [event for event in result.history.events if isinstance(event, Crash)]


def plain() -> str:
    """A corpus program in which messages are sent and acknowledged and an operator asks for something."""
    return next(
        name
        for name, program in programs().items()
        if {"send", "ack", "operate"} <= {str(step.__struct_config__.tag) for step in program.steps}
    )


def test_a_sound_broker_goes_on() -> None:
    result = run_program(programs()[plain()], plain())
    kinds = {verdict.requirement: verdict.verdict for verdict in result.verdicts}
    assert crashes(result) == []
    assert [kinds[f"GEN-09{n}"] for n in range(3)] == [VerdictKind.SATISFIED] * 3


@pytest.mark.parametrize("session", [StompClient, JmsClient])
def test_a_client_library_that_cannot_even_say_hello(monkeypatch: pytest.MonkeyPatch, session: type) -> None:
    def connect(self: object, *args: Any, **named: Any) -> str:
        raise TypeError("unsupported operand")

    monkeypatch.setattr(session, "connect", connect)
    program = programs()[plain()]
    via: Any = "stomp" if session is StompClient else "jms"
    hosts = [msgspec.structs.replace(host, via=via) if host.role == "client" else host for host in program.hosts]
    result = run_program(msgspec.structs.replace(program, hosts=hosts), plain())
    assert "GEN-092" in violated(result)
    assert {event.how for event in crashes(result)} == {"raised"}


def test_a_broker_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Broker.handle

    def handle(self: Broker, event: Any, now: Any) -> list[Effect]:
        if isinstance(event, Ack):
            raise KeyError("no such consumer")
        return sound(self, event, now)

    monkeypatch.setattr(Broker, "handle", handle)
    result = run_program(programs()[plain()], plain())
    assert "GEN-090" in violated(result)
    assert [(event.target, event.how) for event in crashes(result)] == [("b", "raised")]
    verdict = next(one for one in result.verdicts if one.requirement == "GEN-090")
    text = failure_text(result, verdict, default_catalogue())
    assert "crashed" in text
    assert "KeyError: 'no such consumer'" in text
    assert "reference_broker/node.py:" in text, "the failure shows where"
    assert "culprit:    broker" in text


def test_a_broker_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: Node, *_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(Node, "__init__", start)
    result = run_program(programs()[plain()], plain())
    assert [event.evidence.splitlines()[-1] for event in crashes(result)] == ["OSError: no room"]


@pytest.mark.parametrize("due_ns", [0, -1])
def test_a_timer_that_is_due_for_ever(monkeypatch: pytest.MonkeyPatch, due_ns: int) -> None:
    monkeypatch.setattr(agenda, "INSTANT_MAX", 500)
    monkeypatch.setattr(Node, "next_due_ns", lambda _: due_ns)
    result = run_program(programs()[plain()], plain())
    assert "GEN-090" in violated(result)
    (crash,) = crashes(result)
    assert crash.how == "hung"
    assert "500 things happened at one instant" in crash.evidence


def test_a_broker_that_never_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is busy for ever, each time a little later."""
    monkeypatch.setattr(agenda, "RUN_MAX", 300)
    monkeypatch.setattr(agenda, "STEP_MAX", 0)
    busy = {"ns": 0}

    def due(self: Node) -> int:
        busy["ns"] += 1
        return busy["ns"]

    monkeypatch.setattr(Node, "next_due_ns", due)
    result = run_program(programs()[plain()], plain())
    assert "too much happened in one run" in crashes(result)[0].evidence


def test_a_loop_inside_the_broker_is_judged_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processor time raises the suspicion; the verdict is the same on every machine."""
    monkeypatch.setattr(watchdog, "LOOK_S", 0.05)
    monkeypatch.setattr(watchdog, "LINES_MAX", 50_000)
    source = """
def handle(self, event, now):
    while type(event).__name__ == "Send":
        pass
    return sound(self, event, now)
"""
    sound = Broker.handle
    space: dict[str, Any] = {"__name__": Broker.__module__, "sound": sound}
    exec(compile(source, "loop.py", "exec"), space)  # noqa: S102 - a loop in a module of the broker's
    monkeypatch.setattr(Broker, "handle", space["handle"])
    first, second = (run_program(programs()[plain()], plain()) for _ in range(2))
    assert [(event.how, event.evidence.splitlines()[-1]) for event in crashes(first)] == [
        ("hung", "EndlessError: one piece of work executed 50000 lines, the last in handle")
    ]
    assert first.history is not None
    assert second.history is not None
    assert first.history.encode() == second.history.encode()


def test_a_loop_that_is_met_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one ends the broker's process; what reads a peer's bytes goes on with the next peer's."""
    monkeypatch.setattr(watchdog, "LOOK_S", 0.05)
    monkeypatch.setattr(watchdog, "LINES_MAX", 50_000)
    monkeypatch.setattr(FrameDecoder, "_read_header", lambda _: True)
    name = "stomp-1.2-answers"
    assert "GEN-090" in violated(run_program(programs()[name], name))


def test_an_operator_who_hears_nothing() -> None:
    result = run_program(programs()[plain()], plain(), mutant="operators-unanswered")
    assert result.history is not None
    assert {event.result for event in result.history.events if isinstance(event, Operate)} == {"unknown"}
    assert "GEN-091" in violated(result)
    assert "GEN-090" not in violated(result)


def test_a_client_that_is_sent_nonsense(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Node.next_output
    monkeypatch.setattr(Node, "next_output", lambda self, *rest: sound(self, *rest) and 17)
    result = run_program(programs()[plain()], plain())
    assert "GEN-092" in violated(result)
    assert "GEN-090" not in violated(result)


def test_the_program_is_shrunk() -> None:
    name = "operators-unanswered"
    shrunk = shrink_violation(programs()[plain()], "GEN-091", name)
    assert len(shrunk.result.program.steps) == 1


def test_a_broker_that_cannot_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object) -> None:
        raise ValueError("no such setting")

    monkeypatch.setattr("brokerproof.conformance.worlds.simulated.port.build", build)
    result = run_program(programs()[plain()], plain())
    assert [event.evidence.splitlines()[-1] for event in crashes(result)] == ["ValueError: no such setting"]
    assert "GEN-092" not in violated(result)


def test_a_failure_shows_how_fast_its_links_are() -> None:
    link = LinkSpec("p0", bytes_per_second=20_000, jitter_us=500, slice_bytes=16)
    lines = program_lines(plot(Advance(ms=1), links={"p0": link}))
    assert "link    p0 latency 500 us, 20000 bytes/s, jitter 500 us, slices of 16 bytes" in lines
