"""How messages come to their ends, on hand-written histories: deaths, letters."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.oracles.base import Oracle
from brokerproof.conformance.oracles.contents import ContentOracle
from brokerproof.conformance.oracles.deaths import DeathOracle
from tests.fast.chronicle import DLQ, EPOCH_MS, Chronicle
from tests.fast.histories import Tale

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def kind(story: Chronicle, oracle: type[Oracle], requirement: str) -> VerdictKind:
    return story.judge(oracle)[requirement].verdict


# -- deaths


def counted(before: dict[str, int], after: dict[str, int], *, between: bool = False) -> Chronicle:
    """Two reads at rest, with nothing between them but time, or a subscription."""
    told = Tale().connect("p0").connect("c0").post("p0/1", ttl_ms=100).at(50).rest("q0", **before).at(5000)
    if between:
        told.subscribe("c0/1")
    return told.rest("q0", **after)


ONE = {"expired": 0, "dequeued": 0, "enqueued": 1, "size": 1, "in_flight": 0}


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ({"expired": 1, "dequeued": 1, "size": 0}, HOLDS),
        ({"expired": 1, "dequeued": 0, "size": 0}, FAILS),
        ({"expired": 1, "dequeued": 1, "size": 1}, FAILS),
        ({"expired": 1, "dequeued": 1, "size": 0, "in_flight": -1}, FAILS),
        ({"expired": 1, "dequeued": 1, "size": 0, "scheduled": 1}, SILENT),
        ({}, SILENT),
    ],
)
def test_an_expiry_moves_the_counters_together(after: dict[str, int], verdict: VerdictKind) -> None:
    assert kind(counted(ONE, ONE | after), DeathOracle, "EXP-013") is verdict
    assert kind(counted(ONE, ONE | after, between=True), DeathOracle, "EXP-013") is SILENT


def test_a_message_expires_once() -> None:
    def told(expired: int, *, ttl_ms: int = 100) -> Chronicle:
        story = Tale().connect("p0").post("p0/1", ttl_ms=ttl_ms).post("p0/2").at(5000).close().letter("p0/1")
        return story.at(9000).rest("q0", expired=expired).finish()

    assert kind(told(1), DeathOracle, "EXP-014") is HOLDS
    assert kind(told(2), DeathOracle, "EXP-014") is FAILS
    assert kind(told(0), DeathOracle, "EXP-014") is FAILS
    assert kind(told(1, ttl_ms=90_000), DeathOracle, "EXP-014") is FAILS


def test_what_a_consumer_has_is_not_taken_away() -> None:
    def told(via: str, expired: int) -> Tale:
        story = Tale(skews={"c0": 0}).connect("p0").connect("c0", via).subscribe("c0/1")
        story.post("p0/1", ttl_ms=100).deliver("c0/1", "p0/1").consume("c0/1", "p0/1").at(5000)
        return story.rest("q0", expired=expired).ack("c0/1", "p0/1").close(at_ms=6000).finish()

    assert told("stomp", 0).tell(DeathOracle)["EXP-016"].verdict is HOLDS
    assert told("stomp", 1).tell(DeathOracle)["EXP-016"].verdict is FAILS


def test_no_letter_of_a_letter() -> None:
    def told(**copy: Any) -> VerdictKind:
        story = Tale().connect("p0").post("p0/1", DLQ, ttl_ms=100).close(at_ms=5000)
        if copy:
            story.letter("p0/1", **copy)
        return story.at(6000).finish().tell(DeathOracle)["EXP-017"].verdict

    assert told() is HOLDS
    assert told(expiration_ms=0, original_dest=DLQ) is FAILS
    assert told(expiration_ms=0, original_dest=None) is FAILS


def test_a_browser_takes_nothing() -> None:
    def told(fate: str) -> VerdictKind:
        story = Tale(skews={"c0": 120_000}).connect("p0").connect("c0", "jms")
        story.post("p0/1", ttl_ms=60_000).subscribe("c0/1", browser=True).leave("c0/1").close()
        if fate == "dead":
            story.letter("p0/1")
        elif fate == "there":
            story.deliver("drain/1", "p0/1")
        return story.finish().tell(DeathOracle)["EXP-018"].verdict

    assert [told("there"), told("dead"), told("gone")] == [HOLDS, FAILS, FAILS]


def test_each_durable_subscription_lets_its_copy_die() -> None:
    def told(*, delivered: bool, subscribers: int = 2) -> VerdictKind:
        names = [f"c{number}" for number in range(subscribers)]
        story = Tale().connect("p0")
        for name in names:
            story.connect(name).subscribe(f"{name}/1", "t0", durable="d1").leave(f"{name}/1")
        story.post("p0/1", "t0", ttl_ms=100).at(5000)
        for name in names:
            story.subscribe(f"{name}/2", "t0", durable="d1")
        if delivered:
            story.deliver("c0/2", "p0/1")
        return story.at(6000).rest("t0").at(6001).close().finish().tell(DeathOracle)["EXP-019"].verdict

    assert told(delivered=False) is HOLDS
    assert told(delivered=True) is FAILS
    assert told(delivered=True, subscribers=1) is SILENT


# -- contents


LETTER = {"body": 7, "original_expiration_ms": EPOCH_MS + 100, "cause": f"Expiration:{EPOCH_MS + 100}"}


@pytest.mark.parametrize(
    ("marks", "verdict"),
    [
        ({}, HOLDS),
        ({"original_expiration_ms": None}, FAILS),
        ({"original_expiration_ms": EPOCH_MS}, FAILS),
        ({"cause": None}, FAILS),
        ({"cause": "rejected"}, FAILS),
        ({"timestamp_ms": EPOCH_MS + 1}, FAILS),
        ({"body": 8}, FAILS),
        ({"priority": 0}, FAILS),
        ({"body": None}, SILENT),
    ],
)
def test_a_letter_tells_when_and_why(marks: dict[str, Any], verdict: VerdictKind) -> None:
    told = Tale().post("p0/1", ttl_ms=100, body=7).close(at_ms=5000).letter("p0/1", **(LETTER | marks)).finish()
    assert told.tell(ContentOracle)["EXP-015"].verdict is verdict


@pytest.mark.parametrize(
    ("via", "ttl_ms", "expiration_ms", "verdict"),
    [
        ("jms", 100, EPOCH_MS + 5100, HOLDS),
        ("jms", 100, EPOCH_MS + 5101, HOLDS),
        ("jms", 100, EPOCH_MS + 5099, FAILS),
        ("jms", 100, EPOCH_MS + 5102, FAILS),
        ("jms", 0, 0, HOLDS),
        ("jms", -5, EPOCH_MS + 5000, FAILS),
        ("stomp", 100, EPOCH_MS, SILENT),
    ],
)
def test_an_expiration_is_the_send_plus_the_life(
    via: str, ttl_ms: int, expiration_ms: int, verdict: VerdictKind
) -> None:
    told = Tale(skews={"p0": 5000}).connect("p0", via).at(0).send("p0/1", ttl_ms=ttl_ms, expiration_ms=expiration_ms)
    assert told.at(500).close().finish().tell(ContentOracle)["EXP-023"].verdict is verdict
