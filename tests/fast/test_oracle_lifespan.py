"""The lifespan oracle on hand-written histories: each claim satisfied, violated (by one millisecond where it is timed),
not exercised.
"""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.oracles.lifespan import AGREED, AHEAD, BEHIND, LifespanOracle
from tests.fast.histories import PLUGIN, Tale

VIOLATED, SATISFIED, NOT_EXERCISED = VerdictKind.VIOLATED, VerdictKind.SATISFIED, VerdictKind.NOT_EXERCISED


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


# -- EXP-011


@pytest.mark.parametrize(("ack_ms", "expected"), [(111, SATISFIED), (110.5, NOT_EXERCISED), (110, NOT_EXERCISED)])
def test_an_acknowledgement_after_the_expiration_consumes(ack_ms: float, expected: VerdictKind) -> None:
    """Dead is more than the expiration of 110 ms."""
    tale = started().post("p0/1", ttl_ms=100).at(20).deliver("c0/1", "p0/1")
    tale.at(ack_ms).ack("c0/1", "p0/1")
    assert verdicts(tale.close(at_ms=500).finish())["EXP-011"].verdict is expected


def test_a_dead_letter_of_what_was_acknowledged() -> None:
    tale = started().post("p0/1", ttl_ms=100).at(20).deliver("c0/1", "p0/1").at(200).ack("c0/1", "p0/1")
    found = verdicts(tale.close(at_ms=500).letter("p0/1").finish())["EXP-011"]
    assert (found.verdict, found.outcome) == (VIOLATED, "dead-lettered")


def test_delivered_again_after_a_late_acknowledgement() -> None:
    tale = started().post("p0/1", ttl_ms=100).at(20).deliver("c0/1", "p0/1").at(200).ack("c0/1", "p0/1")
    found = verdicts(tale.close(at_ms=500).deliver("drain/1", "p0/1", redelivered=True).finish())["EXP-011"]
    assert (found.verdict, found.outcome) == (VIOLATED, "again")


# -- EXP-012


@pytest.mark.parametrize(("leave_ms", "expected"), [(111, VIOLATED), (110.9, NOT_EXERCISED)])
def test_what_died_with_its_consumer_goes_to_nobody_else(leave_ms: float, expected: VerdictKind) -> None:
    tale = started().post("p0/1", ttl_ms=100).at(20).deliver("c0/1", "p0/1").at(leave_ms).leave("c0/1")
    tale.at(120).connect("c1").subscribe("c1/1").at(130).deliver("c1/1", "p0/1", redelivered=True)
    found = verdicts(tale.close(at_ms=500).finish())["EXP-012"]
    assert found.verdict is expected
    if expected is VIOLATED:
        assert found.slack_ns == -1, "the first nanosecond of the millisecond after"


def test_it_went_to_nobody() -> None:
    tale = started().post("p0/1", ttl_ms=100).at(20).deliver("c0/1", "p0/1").at(150).leave("c0/1")
    found = verdicts(tale.close(at_ms=500).letter("p0/1").finish())["EXP-012"]
    assert (found.verdict, found.situations) == (SATISFIED, ["its consumer left: close"])


# -- EXP-024, EXP-025


@pytest.mark.parametrize(("came_ms", "expected"), [(100, SATISFIED), (110, SATISFIED), (112, VIOLATED)])
@pytest.mark.parametrize("ahead_ms", [-300_000, 300_000])
def test_a_relative_life_ends_by_the_brokers_clock(ahead_ms: int, came_ms: float, expected: VerdictKind) -> None:
    """Accepted in the millisecond 10, to live for 100: alive up to 110. The consumer comes just before."""
    tale = Tale(skews={"p0": ahead_ms, "c0": -ahead_ms}).at(1).connect("p0").connect("c0")
    tale.request_ms = 0.1
    tale.at(10).post("p0/1", life_ms=100)
    tale.at(came_ms).subscribe("c0/1").at(came_ms + 0.2).deliver("c0/1", "p0/1")
    found = verdicts(tale.close(at_ms=500).finish())
    assert found["EXP-024"].verdict is expected
    assert found["EXP-025"].situations == [AHEAD if ahead_ms < 0 else BEHIND]


def test_a_relative_life_that_ends_early() -> None:
    tale = started().post("p0/1", life_ms=1000).close(at_ms=500).letter("p0/1")
    found = verdicts(tale.finish())["EXP-024"]
    assert (found.verdict, found.outcome) == (VIOLATED, "died-early")


def test_a_ceiling_caps_a_relative_life() -> None:
    spec = PLUGIN.__class__(ttl_ceiling_ms=50)
    tale = started(timestamping=spec).post("p0/1", life_ms=1000).at(100).connect("c1").subscribe("c1/1")
    tale.at(101).deliver("c1/1", "p0/1", expiration_ms=0)
    assert verdicts(tale.close(at_ms=500).finish())["EXP-024"].verdict is VIOLATED


@pytest.mark.parametrize(("shown", "expected"), [(False, SATISFIED), (True, VIOLATED)])
def test_consumers_are_told_no_expiration(shown: bool, expected: VerdictKind) -> None:
    tale = started(skews={"c0": 0}).post("p0/1", life_ms=1000).at(20)
    tale.deliver("c0/1", "p0/1", expiration_ms=tale.wall_ms("b") + 990 if shown else 0)
    found = verdicts(tale.close(at_ms=500).finish())["EXP-025"]
    assert found.verdict is expected
    if not shown:
        assert found.situations == [AGREED]
