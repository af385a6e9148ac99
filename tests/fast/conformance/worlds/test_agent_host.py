"""An agent that answers and ends at once has answered."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.chaos.channels import Channel
from brokerproof.conformance.agents.loop import Agent
from brokerproof.conformance.agents.protocol import AgentError, Arrive, Quit
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.destinations import Destinations
from brokerproof.conformance.worlds.live.agent import AgentHost
from brokerproof.conformance.worlds.live.offers import needs
from brokerproof.reference_broker.session.notice import Discarded


def host_of(sock: socket.socket, end: Callable[[], None] = lambda: None) -> AgentHost:
    """``end``: what happens when its process is killed."""
    channel = Channel(sock, "a")
    process: Any = SimpleNamespace(channel=channel, poll=lambda: 0, log_tail=lambda: "", wait=lambda _: 0)
    process.signal, process.kill = lambda _: end(), channel.close
    return AgentHost("a", "stomp", process, None)


def test_what_it_said_before_it_ended_comes_first() -> None:
    ours, its = socket.socketpair()
    its.sendall(json.dumps({"id": 1, "ok": {}, "t0": 1, "t1": 2, "wall_ms": 1, "wall_at": [1, 2]}).encode() + b"\n")
    its.shutdown(socket.SHUT_WR)
    host = host_of(ours)
    assert host.ask_alone(Quit()).ok == {}
    with pytest.raises(AgentError, match="exit code 0"):
        host.drain()
    its.close()


@pytest.mark.parametrize("last", ["c0/1", None])
def test_what_it_told_before_it_was_killed_is_heard(last: str | None) -> None:
    """A broker that had the acknowledgement of what nobody had taken in yet forgets it (live seed 11691018)."""
    ours, its = socket.socketpair()

    def end() -> None:
        told = {"event": "arrive", "t0": 1, "t1": 2, "consumer": last, "message": "p0/1"}
        its.sendall(json.dumps(told).encode() + b"\n" if last else b"")
        its.close()

    host = host_of(ours, end)
    assert [event.consumer for event in host.kill() if isinstance(event, Arrive)] == ([last] if last else [])
    assert not host.connected


def test_a_rejection_is_asked_only_of_who_can_reject() -> None:
    """A rejection that an agent refused counted as one, and an acknowledgement after it left its message out (live seed
    1120378).
    """
    assert needs(ops.Nack(host="c0", consumer="c0/1", messages=["p0/1"]), Destinations([])) == {"nack": True}


@pytest.mark.parametrize("browser", [False, True])
def test_a_browsers_window_need_not_be_the_librarys(browser: bool) -> None:
    asked = ops.Subscribe(host="c0", consumer="c0/1", dest="q0", prefetch=None, browser=browser)
    wanted = {word for word, is_needed in needs(asked, Destinations([])).items() if is_needed}
    assert wanted == ({"browsers"} if browser else {"default-prefetch"})


def test_what_a_library_throws_away_it_throws_away_when_its_turn_comes() -> None:
    """Behind others in one read it expires meanwhile (live seed 1120895)."""
    told: list[Any] = []
    agent: Any = SimpleNamespace(answers=SimpleNamespace(say=told.append))
    wire: Any = SimpleNamespace(library=SimpleNamespace(discarded=lambda _: "p0/1", browsers=()))
    before_ns = time.monotonic_ns()
    Agent._notice(agent, wire, Discarded("c0/1", "ID:1", "expired"), 1, 2)
    assert told[0].t0 == 1
    assert before_ns <= told[0].t1 <= time.monotonic_ns()
