"""TSP-014 on hand-written histories: satisfied, violated, not exercised."""

from __future__ import annotations

from typing import Any

from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.oracles.lifespan import LifespanOracle
from tests.fast.histories import PLUGIN, Tale

SATISFIED, NOT_EXERCISED = VerdictKind.SATISFIED, VerdictKind.NOT_EXERCISED


def verdicts(tale: Tale) -> dict[str, Verdict]:
    return tale.tell(LifespanOracle)


def started(**declared: Any) -> Tale:
    """c0/1 waits; requests take 0.1 ms."""
    tale = Tale(**declared).at(1).connect("c0").connect("p0").subscribe("c0/1")
    tale.request_ms = 0.1
    return tale.at(10)


def test_a_run_without_lives_exercises_nothing() -> None:
    for verdict in verdicts(started().post("p0/1").close().deliver("drain/1", "p0/1").finish()).values():
        assert verdict.verdict is NOT_EXERCISED


# -- TSP-014


def rescue() -> Tale:
    """A producer that is five minutes behind sends with two minutes to live."""
    return started(timestamping=PLUGIN, skews={"p0": -300_000}).post("p0/1", ttl_ms=120_000)


def test_a_message_that_its_stamps_call_dead_is_delivered() -> None:
    tale = rescue()
    now_ms = tale.wall_ms("b")
    tale.at(20).deliver("c0/1", "p0/1", timestamp_ms=now_ms, expiration_ms=now_ms + 120_000)
    found = verdicts(tale.close(at_ms=500).finish())["TSP-014"]
    assert (found.verdict, found.outcome) == (SATISFIED, "rescued")


def test_a_message_that_nobody_rescued() -> None:
    assert verdicts(rescue().close(at_ms=500).letter("p0/1").finish())["TSP-014"].outcome == "dead-on-arrival"


def test_a_message_that_was_dead_for_its_own_producer_is_no_instance() -> None:
    tale = started(timestamping=PLUGIN, skews={"p0": -300_000}).post("p0/1", ttl_ms=-5)
    assert verdicts(tale.close(at_ms=500).letter("p0/1").finish())["TSP-014"].verdict is NOT_EXERCISED
