"""Other people's brokers through other people's libraries, and an agent of one's own."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.history import Arrive, History, Send
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.conformance.worlds.live.world import LiveWorld

pytestmark = pytest.mark.live


def played(broker: str, program: str) -> History:
    """A program of the corpus on a broker; skipped where the broker cannot be had."""
    try:
        with contextlib.closing(make_adapter(broker)) as adapter, Laboratory() as laboratory:
            return LiveWorld(adapter, laboratory).run(adapter.cast(programs()[program]))
    except (ToolMissing, ToolFailed) as error:
        pytest.skip(f"{broker}: {error}")


def check(history: History) -> None:
    """Everything arrived, nothing is violated."""
    sent = {event.message for event in history.events if isinstance(event, Send)}
    came = {event.message for event in history.events if isinstance(event, Arrive)}
    assert sent
    assert sent == came
    assert not [v.text for v in judge_history(history) if v.verdict is VerdictKind.VIOLATED]


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
    check(played(broker, program))


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
    check(played(str(profile), "equal-delays"))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paho", None)
    with Laboratory() as laboratory, pytest.raises(ToolMissing, match=r"pip install 'brokerproof\[mqtt\]'"):
        laboratory.hire("mqtt", 0)
