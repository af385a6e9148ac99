"""How messages come to their ends, on hand-written histories: marks and batches, sends of unknown result, restarts."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.oracles.base import Oracle
from brokerproof.conformance.oracles.contents import ContentOracle
from brokerproof.conformance.oracles.delivery import DeliveryOracle
from brokerproof.conformance.oracles.durability import DurabilityOracle
from tests.fast.chronicle import DLQ, Chronicle

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def kind(story: Chronicle, oracle: type[Oracle], requirement: str) -> VerdictKind:
    return story.judge(oracle)[requirement].verdict


def perhaps(*, topic: bool = False, result: str = "unknown", twice: bool = True) -> Chronicle:
    dest = "t0" if topic else "q0"
    told = Chronicle().connect("p0").connect("c0").subscribe("c0/1", dest, ack="individual")
    told.send("p0/1", dest, result=result).arrive("c0/1", "p0/1").consume("c0/1", "p0/1").ack("c0/1", "p0/1")
    if twice:
        told.arrive("c0/1", "p0/1")
    return told.drain("q0", DLQ).end()


@pytest.mark.parametrize("topic", [False, True])
def test_a_send_of_unknown_result_happens_once_at_most(topic: bool) -> None:
    assert kind(perhaps(topic=topic), DeliveryOracle, "GEN-012") is FAILS
    assert kind(perhaps(topic=topic, twice=False), DeliveryOracle, "GEN-012") is HOLDS
    assert kind(perhaps(topic=topic, result="ok"), DeliveryOracle, "GEN-012") is SILENT


def restarted(*, back: str = "p0/2") -> Chronicle:
    """Of two messages the first was settled before a restart; ``back`` comes afterwards."""
    told = (
        Chronicle(persistent=True).connect("p0").connect("c0").send("p0/1").send("p0/2").subscribe("c0/1", prefetch=1)
    )
    told.arrive("c0/1", "p0/1").consume("c0/1", "p0/1").ack("c0/1", "p0/1").restart()
    return told.drain("q0", DLQ).arrive("drain/1", *back.split()).end()


def test_what_a_restart_remembers() -> None:
    assert kind(restarted(), DurabilityOracle, "GEN-007") is HOLDS
    assert kind(restarted(back=""), DurabilityOracle, "GEN-007") is FAILS
    assert kind(restarted(back="p0/1 p0/2"), DurabilityOracle, "GEN-007") is FAILS


# -- contents


@pytest.mark.parametrize(
    ("arrived", "verdict"),
    [
        ({"body": 7, "message_kind": "a", "group": "g", "priority": 4}, HOLDS),
        ({"body": 8, "message_kind": "a", "group": "g"}, FAILS),
        ({"body": 7, "group": "g"}, FAILS),
        ({"body": 7, "message_kind": "b", "group": "g"}, FAILS),
        ({"body": 7, "message_kind": "a"}, FAILS),
        ({"body": 7, "message_kind": "a", "group": "g", "priority": 5}, FAILS),
        ({}, SILENT),
    ],
)
def test_contents_arrive_as_they_were_sent(arrived: dict[str, Any], verdict: VerdictKind) -> None:
    told = Chronicle().connect("p0").connect("c0").send("p0/1", body=7, message_kind="a", group="g").subscribe("c0/1")
    assert kind(told.arrive("c0/1", "p0/1", **arrived), ContentOracle, "GEN-011") is verdict
