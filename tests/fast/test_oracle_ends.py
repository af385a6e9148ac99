"""How messages come to their ends, on hand-written histories: marks and batches, sends of unknown result, restarts."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.oracles.base import Oracle
from brokerproof.conformance.oracles.batches import BatchOracle
from brokerproof.conformance.oracles.contents import ContentOracle
from brokerproof.conformance.oracles.delivery import DeliveryOracle
from brokerproof.conformance.oracles.durability import DurabilityOracle
from brokerproof.conformance.oracles.marks import MarksOracle
from tests.fast.chronicle import DLQ, Chronicle

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def kind(story: Chronicle, oracle: type[Oracle], requirement: str) -> VerdictKind:
    return story.judge(oracle)[requirement].verdict


@pytest.mark.parametrize(
    ("count", "redelivered", "verdict"),
    [(1, False, HOLDS), (2, True, HOLDS), (1, True, FAILS), (2, False, FAILS), (None, True, SILENT)],
)
def test_mark_and_count_agree(count: int | None, redelivered: bool, verdict: VerdictKind) -> None:
    told = Chronicle().connect("c0", "jms").send("p0/1").subscribe("c0/1")
    told.arrive("c0/1", "p0/1", redelivered=redelivered, delivery_count=count)
    assert kind(told, MarksOracle, "RDL-008") is verdict


def two_lost(*, given: int = 2, marked: bool = True) -> Chronicle:
    """Two consumers of c0 are lost with it; ``given`` of them had given their application a message."""
    told = Chronicle().connect("p0").connect("c0").connect("c1").send("p0/1").send("p0/2", "q1")
    told.subscribe("c0/1").arrive("c0/1", "p0/1").subscribe("c0/2", "q1").arrive("c0/2", "p0/2")
    for number in range(1, given + 1):
        told.consume(f"c0/{number}", f"p0/{number}")
    told.lose("c0").rest(None).subscribe("c1/1").arrive("c1/1", "p0/1", redelivered=marked)
    return told


def test_all_consumers_of_a_lost_connection_give_back_marked() -> None:
    assert kind(two_lost(), MarksOracle, "RDL-011") is HOLDS
    assert kind(two_lost(marked=False), MarksOracle, "RDL-011") is FAILS
    assert kind(two_lost(given=1, marked=False), MarksOracle, "RDL-011") is SILENT


def batch(*, counts: tuple[int, int], dead: str, nacked: str = "", abort: str = "ok") -> Chronicle:
    """Two messages, delivered so often before, are rolled back together; one has a dead letter in the end."""
    told = Chronicle().connect("p0").connect("c0", "jms").send("p0/1").send("p0/2").subscribe("c0/1")
    for number, count in enumerate(counts, start=1):
        told.arrive("c0/1", f"p0/{number}", redelivered=count > 1, delivery_count=count).consume("c0/1", f"p0/{number}")
    told.begin("c0").ack("c0/1", "p0/1", "p0/2", tx="c0/tx1").abort("c0", result=abort)
    if nacked:
        told.nack("c0/1", nacked)
    told.leave("c0/1").drain("q0", DLQ).arrive("drain/2", dead)
    return told.end()


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"counts": (7, 1), "dead": "p0/1"}, HOLDS),
        ({"counts": (7, 1), "dead": "p0/2"}, FAILS),
        ({"counts": (6, 1), "dead": "p0/1"}, FAILS),
        ({"counts": (7, 1), "dead": "p0/2", "nacked": "p0/2"}, SILENT),
        ({"counts": (7, 1), "dead": "p0/2", "abort": "unknown"}, SILENT),
    ],
)
def test_each_message_of_a_batch_has_its_own_chances(options: dict[str, Any], verdict: VerdictKind) -> None:
    assert kind(batch(**options), BatchOracle, "RDL-013") is verdict


def test_dead_letters_that_are_rolled_back_say_nothing() -> None:
    told = Chronicle().connect("p0").connect("c0", "jms").send("p0/1", result="unknown").subscribe("c0/1", DLQ)
    told.arrive("c0/1", "p0/1", "p0/2", delivery_count=1, original_dest="q0").begin("c0")
    told.ack("c0/1", "p0/1", "p0/2", "p0/3", tx="c0/tx1").abort("c0").leave("c0/1").drain("q0", DLQ)
    assert kind(told.end(), BatchOracle, "RDL-013") is SILENT
    told = Chronicle().connect("p0").connect("c0", "jms").send("p0/1").send("p0/2").subscribe("c0/1", DLQ).begin("c0")
    told.arrive("c0/1", "p0/1", "p0/2").ack("c0/1", "p0/1", "p0/2", tx="c0/tx1").abort("c0").leave("c0/1")
    assert kind(told.drain("q0", DLQ).arrive("drain/2", "p0/1").end(), BatchOracle, "RDL-013") is SILENT


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


def test_a_forged_count_is_ignored() -> None:
    def told(**fields: Any) -> VerdictKind:
        story = Chronicle().connect("p0").connect("c0").send("p0/1", forged=7).subscribe("c0/1")
        return kind(story.arrive("c0/1", "p0/1", **fields), ContentOracle, "RDL-015")

    assert told() is HOLDS
    assert told(redelivered=True) is FAILS
    assert told(delivery_count=7) is FAILS
