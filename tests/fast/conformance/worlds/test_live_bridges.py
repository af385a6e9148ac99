"""A live bridge as its observer tells it, from what its process tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.conformance.experiment.configuration import HostSpec
from brokerproof.conformance.experiment.history import Leave, Subscribe
from brokerproof.conformance.worlds.live.bridge import LiveBridge
from brokerproof.conformance.worlds.live.connector import ConnectorBridge
from brokerproof.conformance.worlds.live.relay_process import Heard
from brokerproof.conformance.worlds.port import Recorder
from brokerproof.reference_broker.openwire.bridge import NEAR
from brokerproof.reference_broker.openwire.commands import ConsumerInfo
from brokerproof.reference_broker.openwire.overheard import TO_BROKER

SPEC = HostSpec("n0", "bridge", to="b2")


class Names:
    def physical(self, name: str) -> str:
        return name

    def logical(self, name: str) -> str:
        return name

    def ours(self, message: str) -> str | None:
        return message or None


def bridge_of(kind: type[LiveBridge]) -> tuple[LiveBridge, Recorder]:
    """One with a process that tells nothing but what a test says."""
    recorder = Recorder()
    state: Any = SimpleNamespace(name="n0-far", stalled="")
    hosts: Any = SimpleNamespace(
        recorder=recorder,
        names=Names(),
        state=SimpleNamespace(carried=lambda _: ["queue://q0"]),
        now_ns=lambda: 1000,
        run_ns=lambda ns: ns,
    )
    return kind(hosts, SPEC, state, near="b", mutant=None), recorder


@pytest.mark.parametrize("kind", [LiveBridge, ConnectorBridge])
@pytest.mark.parametrize("listens", [False, True])
def test_what_was_asked_for_before_a_kill_may_be_there(kind: type[LiveBridge], listens: bool) -> None:
    """Its broker may have given it messages of which nobody heard: they come again with a mark."""
    bridge, recorder = bridge_of(kind)
    asked = {"consumer": "ID:1", "dest": "queue://q0"}
    bridge._heard({"event": "begun" if kind is ConnectorBridge else "open", "t0": 1, "t1": 2})
    bridge._heard({"event": "asked", "t0": 3, "t1": 3, **asked})
    if listens:
        bridge._heard({"event": "listening", "t0": 4, "t1": 5, **asked})
    bridge._over(900)
    told = [event for event in recorder.events if isinstance(event, Subscribe | Leave) and event.host == "n0"]
    assert [(type(event), event.result) for event in told] == [
        (Subscribe, "ok" if listens else "unknown"),
        (Leave, "ok"),
    ]
    assert told[0].t1 == (5 if listens else 1000)


def test_a_relay_tells_of_a_consumer_before_it_passes_that_on() -> None:
    said: list[tuple[str, dict[str, object]]] = []
    heard = Heard(lambda event, *_, **fields: said.append((event, fields)))
    heard.command(NEAR, TO_BROKER, ConsumerInfo("ID:1", "queue://q0", 10), 1, 2)
    assert said == [("asked", {"consumer": "ID:1", "dest": "queue://q0"})]
