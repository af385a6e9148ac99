"""An agent that does not answer in time stood still, as far as anybody knows; that is recorded and breaks nothing."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.chaos.channels import Channel
from brokerproof.conformance.agents.protocol import Hello
from brokerproof.conformance.experiment.history import Pause
from brokerproof.conformance.experiment.operations import Leave
from brokerproof.conformance.worlds.live import hosts as hosts_of_runs
from brokerproof.conformance.worlds.live.agent import AgentHost
from brokerproof.conformance.worlds.live.hosts import Hosts
from brokerproof.conformance.worlds.port import Recorder
from brokerproof.conformance.worlds.scheduler import lock_step


class Run:
    """One whose only agent is this test, at the other end of a socket."""

    def __init__(self) -> None:
        ours, self.its = socket.socketpair()
        process: Any = SimpleNamespace(channel=Channel(ours, "a"), poll=lambda: None, log_tail=lambda: "")
        state: Any = SimpleNamespace(destinations=SimpleNamespace(declared=[]))
        self.recorder = Recorder()
        laboratory: Any = SimpleNamespace(never=set())
        adapter: Any = SimpleNamespace(alone=False, separator=".")
        self.hosts = Hosts(laboratory, state, self.recorder, adapter)
        self.hosts.agents["c0"] = AgentHost("a", "stomp", process, None)
        self._sockets = [ours, self.its]

    def ask(self, operation: Any) -> Any:
        """A request that needs no broker."""
        return lock_step(self.hosts.turn, self.hosts.ask("c0", operation, 0))

    def answer(self, number: int) -> None:
        """What the agent says, at last or at once."""
        reply = {"id": number, "ok": {}, "t0": 1, "t1": 2, "wall_ms": 1, "wall_at": [1, 2]}
        self.its.sendall(json.dumps(reply).encode() + b"\n")

    def pauses(self) -> list[Pause]:
        """What was recorded of it."""
        return [event for event in self.recorder.events if isinstance(event, Pause)]

    def close(self) -> None:
        """Give the sockets back."""
        for sock in self._sockets:
            sock.close()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setattr(hosts_of_runs, "OWN_MS", 1)
    monkeypatch.setattr(hosts_of_runs, "BEHIND_MS", 1)
    found = Run()
    yield found
    found.close()


def test_an_answer_in_time_pauses_nobody(run: Run) -> None:
    run.answer(1)
    assert run.ask(Hello()).ok == {}
    assert run.pauses() == []


def test_silence_is_a_pause_with_evidence_and_is_told_once(run: Run) -> None:
    assert run.ask(Hello()) is None
    assert run.ask(Leave(host="c0", how="drop")) is None
    (pause,) = run.pauses()
    assert (pause.target, pause.asked_ms) == ("c0", None)
    assert pause.evidence is not None
    assert pause.evidence["waited_ms"] == 1
    assert pause.t1 - pause.t0 >= pause.evidence["silent_ms"] * 1_000_000


def test_a_clock_that_cannot_be_read_is_not_read(run: Run) -> None:
    assert run.hosts.read_wall("c0") is None


def test_who_speaks_again_and_falls_silent_again_has_paused_twice(run: Run) -> None:
    assert run.ask(Hello()) is None
    run.answer(1)
    run.hosts.pump(0)
    assert run.ask(Hello()) is None
    assert len(run.pauses()) == 2
