"""An agent that answers and ends at once has answered."""

from __future__ import annotations

import json
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.chaos.channels import Channel
from brokerproof.conformance.agents.protocol import AgentError, Quit
from brokerproof.conformance.worlds.live.agent import AgentHost


def host_of(sock: socket.socket) -> AgentHost:
    process: Any = SimpleNamespace(channel=Channel(sock, "a"), poll=lambda: 0, log_tail=lambda: "")
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
