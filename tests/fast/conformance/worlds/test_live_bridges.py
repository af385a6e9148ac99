"""A live bridge as its observer tells it, from what its process tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec
from brokerproof.conformance.experiment.destinations import queues, topics
from brokerproof.conformance.experiment.history import Arrive, Consume, History, Leave, Subscribe
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Advance, Send
from brokerproof.conformance.experiment.steps import Leave as LeaveStep
from brokerproof.conformance.experiment.steps import Subscribe as SubscribeStep
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.live.bridge import LiveBridge
from brokerproof.conformance.worlds.live.connector import ConnectorBridge
from brokerproof.conformance.worlds.live.relay_process import Heard
from brokerproof.conformance.worlds.port import Recorder
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
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


def test_a_publication_that_crossed_and_came_to_nobody_is_missed_live_too() -> None:
    hosts = [HostSpec("b", "broker"), HostSpec("b2", "broker"), HostSpec("p0", "client", "jms")]
    hosts += [HostSpec("c0", "client", "jms", at="b2"), HostSpec("n0", "bridge", to="b2", topics=True)]
    steps = [SubscribeStep(host=1, prefetch=10), Advance(ms=1500), Send(delay_ms=500), Advance(ms=3000)]

    def told(world: str, *, came: bool, leaves: bool = False) -> VerdictKind:
        left = [LeaveStep(host=1), Advance(ms=1000)] if leaves else []
        history = SimulatedWorld().run(
            Program(FORMAT, BrokerSpec(), hosts, [], [*topics("t0"), *queues("q0")], [*steps, *left])
        )
        kept = [one for one in history.events if came or not isinstance(one, Arrive | Consume) or one.host != "c0"]
        header = msgspec.structs.replace(history.header, world=world)
        found = judge_history(History(header, kept), wanted=["DLY-055"])
        return next(one.verdict for one in found if one.requirement == "DLY-055")

    for world in ("simulated", "live"):
        assert told(world, came=True) is VerdictKind.SATISFIED
        assert told(world, came=False) is VerdictKind.VIOLATED
    assert told("simulated", came=False, leaves=True) is VerdictKind.VIOLATED
    assert told("live", came=False, leaves=True) is VerdictKind.NOT_EXERCISED  # a real machine may have been slow
