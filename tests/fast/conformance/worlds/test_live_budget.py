"""A run whose time is over sends nothing more; it still acknowledges and leaves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.destinations import Destinations, queues
from brokerproof.conformance.worlds.live.port import LivePort
from brokerproof.conformance.worlds.port import NotOfferedError

SEND = ops.Send(host="c0", dest="q0", message="c0/1")


def port_after(ms: int) -> LivePort:
    """One whose run may take 100 ms and has taken so many."""
    nobody: Any = None
    port = LivePort(nobody, nobody, budget_ms=100)
    agent = SimpleNamespace(capabilities=[])
    known: Any = SimpleNamespace(
        now_ns=lambda: ms * 1_000_000, agent_of=lambda _: agent, names=SimpleNamespace(physical=str)
    )
    client = SimpleNamespace(name="c0", via="stomp")
    state: Any = SimpleNamespace(destinations=Destinations(queues("q0")), client=lambda _: client, clients=[client])
    port.hosts, port._state = known, state
    return port


def test_within_its_time_it_sends() -> None:
    port_after(100).check(SEND)


def test_after_its_time_it_sends_nothing_more() -> None:
    with pytest.raises(NotOfferedError, match="has taken its time"):
        port_after(101).check(SEND)
    port_after(101).check(ops.Leave(host="c0"))
    port_after(101).check(ops.Ack(host="c0", consumer="c0/1", messages=["c0/1"]))
