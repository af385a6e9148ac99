"""Other people's brokers through other people's libraries, and an agent of one's own."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest

from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.history import Arrive, History, Send
from brokerproof.conformance.experiment.program import Program, parse_program
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.known import Known, apply_known
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.conformance.worlds.live.world import LiveWorld

pytestmark = pytest.mark.live


def played(broker: str, program: str | Program) -> tuple[History, Known]:
    """A program (or its name in the corpus) on a broker, and its known deviations; skipped where it cannot be had."""
    try:
        with contextlib.closing(make_adapter(broker)) as adapter, Laboratory() as laboratory:
            program = programs()[program] if isinstance(program, str) else program
            return LiveWorld(adapter, laboratory).run(adapter.cast(program)), adapter.known()
    except (ToolMissing, ToolFailed) as error:
        pytest.skip(f"{broker}: {error}")


def check(program: Program, history: History, known: Known, name: str = "") -> None:
    """Everything arrived, nothing is violated that is not known of the broker in the program of that name."""
    sent = {event.message for event in history.events if isinstance(event, Send)}
    came = {event.message for event in history.events if isinstance(event, Arrive)}
    assert sent
    assert sent == came
    verdicts, _stale = apply_known(name, program, judge_history(history), known)
    assert not [v.text for v in verdicts if v.verdict is VerdictKind.VIOLATED]


@pytest.mark.parametrize(
    ("broker", "program"),
    [
        ("artemis-amqp", "equal-delays"),
        ("broker-j", "equal-delays"),
        ("mosquitto", "equal-delays"),
        ("rabbitmq-amqp091", "equal-delays"),
    ],
)
def test_a_broker_over_its_own_protocol(broker: str, program: str) -> None:
    check(programs()[program], *played(broker, program), program)


def test_a_broker_written_in_python() -> None:
    send = {"do": "send", "count": 3}
    steps = [send, {"do": "subscribe", "host": 1, "ack": "auto"}, {"do": "take", "count": 3, "deadline_ms": 5000}, send]
    hosts = [{"name": "b", "role": "broker"}, {"name": "p0", "role": "client"}, {"name": "c0", "role": "client"}]
    plain = {
        "broker": {},
        "links": [],
        "hosts": hosts,
        "destinations": [{"name": "q0", "kind": "queue"}],
        "steps": steps,
    }
    program = parse_program(json.dumps({"format": "brokerproof/program/2", **plain}).encode())
    check(program, *played("coilmq", program))


def test_an_agent_of_ones_own(tmp_path: Path) -> None:
    profile = tmp_path / "mine.toml"
    profile.write_text(
        'name = "mine"\n'
        '[start]\ncommand = ["{python}", "-m", "brokerproof.reference_broker.server", "--port", "{port.stomp}"]\n'
        'ready = { log = "listening on stomp" }\n'
        '[endpoints]\nagent = { command = ["{python}", "-m", "brokerproof.conformance.agents.stomp_agent"], '
        'url = "stomp://127.0.0.1:{port.stomp}" }\n'
        '[promises]\ncapabilities = ["delay", "persistent", "prefetch"]\n',
        encoding="utf-8",
    )
    check(programs()["equal-delays"], *played(str(profile), "equal-delays"))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paho", None)
    with Laboratory() as laboratory, pytest.raises(ToolMissing, match=r"pip install 'brokerproof\[mqtt\]'"):
        laboratory.hire("mqtt", 0)
