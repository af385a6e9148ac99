"""Expiry on topics: dead letters from backlogs (EXP-026), the sweep (EXP-027), what is dead when it comes (EXP-028)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from brokerproof.conformance.experiment.configuration import PolicySpec
from brokerproof.conformance.experiment.destinations import expiries_of
from brokerproof.conformance.experiment.history import Acknowledge
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from tests.fast.conformance.rules.clocked_history import PLUGIN, Clocked
from tests.fast.conformance.rules.history_builder import DLQ, Builder

VIOLATED, SATISFIED, NOT_EXERCISED = VerdictKind.VIOLATED, VerdictKind.SATISFIED, VerdictKind.NOT_EXERCISED


def away(*names: str, back_ms: float = 5000, **declared: Any) -> Clocked:
    """Durable subscribers leave, ``p0/1`` with a life of 100 ms is sent to their topic, and they come back."""
    persistent = declared.pop("sent_persistent", True)
    run = Clocked(**declared).connect("p0")
    for name in names:
        run.connect(name).subscribe(f"{name}/1", "t0", durable="d1").leave(f"{name}/1")
    run.rest("t0").at(10).post("p0/1", "t0", ttl_ms=100, persistent=persistent).at(back_ms)
    for name in names:
        run.subscribe(f"{name}/2", "t0", durable="d1")
    return run.rest("t0")


def judged(run: Clocked, **letter: Any) -> Verdict:
    """The end; ``letter``: what its dead letter looks like, nothing if there is none."""
    run.at(6000).close()
    if letter:
        run.dead_letter("p0/1", **letter)
    return run.finish().verdicts("EXP-026")["EXP-026"]


@pytest.mark.parametrize("names", [("c0",), ("c0", "c1")])
def test_one_letter_of_a_publication(names: tuple[str, ...]) -> None:
    verdict = judged(away(*names), original_dest="t0")
    assert verdict.verdict is SATISFIED


def test_no_letter_is_a_violation() -> None:
    verdict = judged(away("c0"))
    assert (verdict.verdict, verdict.outcome) == (VIOLATED, "missing")


@pytest.mark.parametrize(
    "letter", [{"original_dest": None}, {"original_dest": "t1"}, {"original_dest": "t0", "expiration_ms": 10**15}]
)
def test_a_letter_that_says_something_else_is_a_violation(letter: dict[str, Any]) -> None:
    verdict = judged(away("c0"), **letter)
    assert (verdict.verdict, verdict.outcome) == (VIOLATED, "wrong-fields")


def test_who_was_not_away_proves_nothing() -> None:
    assert judged(away()).verdict is NOT_EXERCISED
    assert judged(away("c0", back_ms=50)).verdict is NOT_EXERCISED


def test_no_letter_is_due_of_what_need_not_be_kept() -> None:
    assert judged(away("c0", sent_persistent=False)).verdict is NOT_EXERCISED
    assert judged(away("c0", timestamping=PLUGIN)).verdict is NOT_EXERCISED


def test_a_subscription_that_ended_owes_nothing() -> None:
    run = Clocked().connect("p0").connect("c0").subscribe("c0/1", "t0", durable="d1").leave("c0/1")
    run.at(10).post("p0/1", "t0", ttl_ms=100)
    assert judged(run).verdict is NOT_EXERCISED


def test_an_operator_may_have_taken_the_letter() -> None:
    assert judged(away("c0").operate("purge", DLQ)).verdict is not VIOLATED


def test_a_clock_that_is_set_back_decides_nothing() -> None:
    assert judged(away("c0").step("b", -10_000)).verdict is not VIOLATED


@pytest.mark.parametrize(("kind", "expected"), [("expired", False), ("delivered", True)])
def test_what_a_subscriber_called_expired_may_become_a_dead_letter(kind: str, *, expected: bool) -> None:
    """Though it has no expiration: whoever believes clients believes this one."""
    story = Builder("live").connect("p0").connect("c0", "jms").subscribe("c0/1", "t0", ack="individual")
    story.subscribe("c0/2", "t0").send("p0/1", "t0").arrive("c0/1", "p0/1").arrive("c0/2", "p0/1").consume(
        "c0/1", "p0/1"
    )
    story._add(Acknowledge, "c0", 1.0, result="ok", consumer="c0/1", type=kind, messages=["p0/1"])
    story.drain("ActiveMQ.DLQ").arrive("drain/1", "p0/1", original_dest="t0").end()
    assert (story.verdicts("EXP-002")["EXP-002"].verdict is VerdictKind.VIOLATED) == expected


@pytest.mark.parametrize(
    ("expired", "settled", "expected"), [(1, False, SATISFIED), (0, False, VIOLATED), (0, True, NOT_EXERCISED)]
)
def test_what_its_consumer_left_unsettled_is_swept_too(expired: int, settled: bool, expected: VerdictKind) -> None:
    run = Clocked(expire_period_ms=1000).connect("p0").connect("c0").subscribe("c0/1", "t0", durable="d1")
    run.at(10).post("p0/1", "t0", ttl_ms=100, persistent=True).arrive("c0/1", "p0/1", dest="t0")
    if settled:
        run.ack("c0/1", "p0/1", result="unknown")
    run.leave("c0/1").rest("t0").operate("reset", dest="q0")
    assert run.at(4000).rest("t0", expired=expired).finish().verdicts("EXP-027")["EXP-027"].verdict is expected


def unused(expired: int | None, *, read_ms: float = 4000, back_ms: float = 10, **sent: Any) -> VerdictKind:
    """Nobody uses a durable subscription for which ``p0/1`` with a life of 100 ms was sent; its topic is read then."""
    run = Clocked(expire_period_ms=1000).connect("p0").connect("c0").subscribe("c0/1", "t0", durable="d1")
    run.leave("c0/1").rest("t0").at(10).post("p0/1", "t0", **{"ttl_ms": 100, "persistent": True} | sent)
    if back_ms > 10:
        run.at(back_ms).subscribe("c0/2", "t0", durable="d1")
    return run.at(read_ms).rest("t0", expired=expired).finish().verdicts("EXP-027")["EXP-027"].verdict


@pytest.mark.parametrize(
    ("expired", "expected"), [(1, SATISFIED), (2, SATISFIED), (0, VIOLATED), (None, NOT_EXERCISED)]
)
def test_a_backlog_that_nobody_uses_is_swept(expired: int | None, expected: VerdictKind) -> None:
    assert unused(expired) is expected


def test_a_sweep_takes_its_time() -> None:
    assert unused(0, read_ms=1500) is NOT_EXERCISED


def test_who_uses_a_backlog_takes_what_died_there() -> None:
    assert unused(0, back_ms=500) is NOT_EXERCISED


def test_nobody_owes_a_sweep_of_what_lives_or_is_not_stored() -> None:
    assert unused(0, ttl_ms=60_000) is NOT_EXERCISED
    assert unused(0, persistent=False) is NOT_EXERCISED


@pytest.mark.parametrize(
    ("names", "expired", "verdict"),
    [(("c0",), 1, SATISFIED), (("c0",), 2, VIOLATED), (("c0", "c1"), 2, SATISFIED), (("c0", "c1"), 3, VIOLATED)],
)
def test_a_publication_dies_once_for_each_subscription(
    names: tuple[str, ...], expired: int, verdict: VerdictKind
) -> None:
    run = away(*names).at(5500).rest("t0", expired=expired).finish()
    assert run.verdicts("EXP-003")["EXP-003"].verdict is verdict


@pytest.mark.parametrize(
    ("names", "heard", "verdict"),
    [(("c0",), 1, SATISFIED), (("c0",), 0, VIOLATED), (("c0", "c1"), 0, NOT_EXERCISED)],
)
def test_a_death_in_the_only_backlog_is_told(names: tuple[str, ...], heard: int, verdict: VerdictKind) -> None:
    told, topic = Clocked(policies=[PolicySpec(advisories=True)]).connect("p0"), expiries_of("t0", topic=True)
    for name in names:
        told.connect(name).subscribe(f"{name}/1", "t0", durable="d1").leave(f"{name}/1")
    told.connect("c9").subscribe("c9/1", topic, ack="auto").at(10).post("p0/1", "t0", ttl_ms=100).at(5000)
    for _ in range(heard):
        told.arrive("c9/1", "", original_id="a")
    run = told.rest("t0", expired=1).at(6000).close().finish()
    assert run.verdicts("EXP-020")["EXP-020"].verdict is verdict


@pytest.mark.parametrize(
    ("expired", "sent", "declared", "verdict"),
    [
        (1, {}, {}, SATISFIED),
        (0, {}, {}, VIOLATED),
        (0, {"ttl_ms": 100}, {}, NOT_EXERCISED),  # it comes alive
        (0, {"delay_ms": 100}, {}, NOT_EXERCISED),
        (0, {}, {"timestamping": PLUGIN}, NOT_EXERCISED),  # which may have given it another life
        (None, {}, {}, NOT_EXERCISED),
    ],
)
def test_what_is_dead_when_it_comes_is_counted(
    expired: int | None, sent: dict[str, Any], declared: dict[str, Any], verdict: VerdictKind
) -> None:
    run = Clocked(**declared).connect("p0").at(1000).post("p0/1", "t0", **{"ttl_ms": -500} | sent)
    assert run.rest("t0", expired=expired).finish().verdicts("EXP-028")["EXP-028"].verdict is verdict


@pytest.mark.parametrize(
    "anew", [lambda run: run.at(9000).restart("stop"), lambda run: run.at(9000).operate("reset", "t0")]
)
def test_what_was_counted_before_a_restart_stays_judged(anew: Callable[[Clocked], Clocked]) -> None:
    for expired, verdict in ((1, SATISFIED), (0, VIOLATED)):
        run = Clocked().connect("p0").at(1000).post("p0/1", "t0", ttl_ms=-500).rest("t0", expired=expired)
        assert anew(run).finish().verdicts("EXP-028")["EXP-028"].verdict is verdict
        run = Clocked(expire_period_ms=1000).connect("p0").connect("c0").subscribe("c0/1", "t0", durable="d1")
        run.leave("c0/1").rest("t0").at(10).post("p0/1", "t0", ttl_ms=100, persistent=True)
        run.at(4000).rest("t0", expired=expired)
        assert anew(run).finish().verdicts("EXP-027")["EXP-027"].verdict is verdict
    run = anew(Clocked().connect("p0").at(1000).post("p0/1", "t0", ttl_ms=-500))
    assert run.rest("t0", expired=0).finish().verdicts("EXP-028")["EXP-028"].verdict is NOT_EXERCISED
