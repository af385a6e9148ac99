"""Dead letters on queues of their own, advisories, redelivery by the broker, on hand-written histories; and that what
happens at destinations that only the broker fills is shown to those alone that ask for it.
"""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.brokers.translation import logical, physical
from brokerproof.conformance.experiment.configuration import DeadLetterSpec, DestinationSpec, RedeliverySpec, beyond
from brokerproof.conformance.experiment.destinations import expiries_of, is_aside, is_topic, own_letters_of, presence_of
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.judge import judge_history
from brokerproof.conformance.oracles.ownletters import OwnLetterOracle
from brokerproof.conformance.oracles.retries import RetryOracle, pauses
from tests.fast.chronicle import DLQ, Chronicle
from tests.fast.histories import Tale

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
OWN = own_letters_of("q0")
TOLD = expiries_of("q0")
PRESENT = presence_of("q0")


def judged(story: Chronicle, requirement: str) -> VerdictKind:
    """By the whole judge: it decides who is shown what."""
    verdicts = {verdict.requirement: verdict for verdict in judge_history(story.history())}
    return verdicts[requirement].verdict


def test_names() -> None:
    assert (OWN, own_letters_of("t0")) == ("ActiveMQ.DLQ.Queue.q0", "ActiveMQ.DLQ.Topic.t0")
    assert TOLD == "ActiveMQ.Advisory.Expired.Queue.q0"
    assert [is_topic(name) for name in (OWN, TOLD)] == [False, True]
    assert [is_aside(name) for name in ("q0", DLQ, OWN, TOLD)] == [False, False, True, True]


def individual(**strategy: Any) -> list[DestinationSpec]:
    return [DestinationSpec(">", dead_letter=DeadLetterSpec("individual", **strategy))]


def rejected(own: str = OWN, letters: int = 1, persistent: bool = True, **letter: Any) -> Chronicle:
    """A message is rejected, and has letters in the drain."""
    told = Chronicle(destinations=individual()).connect("p0").connect("c0").send("p0/1", persistent=persistent)
    told.subscribe("c0/1").arrive("c0/1", "p0/1").consume("c0/1", "p0/1").nack("c0/1", "p0/1").leave("c0/1")
    told.drain("q0", DLQ, OWN)
    told.dests["drain/3"] = own
    for _ in range(letters):
        told.arrive("drain/3", "p0/1", **({"original_dest": "q0"} | letter))
    return told.end()


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, HOLDS),
        ({"letters": 0}, FAILS),
        ({"letters": 2}, FAILS),
        ({"own": own_letters_of("q1")}, FAILS),
        ({"original_dest": "q1"}, FAILS),
        ({"expiration_ms": 5}, FAILS),
    ],
)
def test_a_letter_lies_on_its_sources_queue(options: dict[str, Any], verdict: VerdictKind) -> None:
    assert judged(rejected(**options), "RDL-021") is verdict


@pytest.mark.parametrize(("letters", "verdict"), [(0, HOLDS), (1, FAILS)])
def test_exclusions_hold_there_too(letters: int, verdict: VerdictKind) -> None:
    assert judged(rejected(letters=letters, persistent=False), "RDL-022") is verdict
    told = Tale(destinations=individual(process_expired=False)).post("p0/1", ttl_ms=100).at(5000).close()
    told.subscribe("drain/3", OWN, ack="individual")
    for _ in range(letters):
        told.arrive("drain/3", "p0/1", original_dest="q0")
    assert judged(told.finish(), "RDL-022") is verdict


def test_no_other_oracle_takes_such_a_letter_for_the_message() -> None:
    found = {v.requirement: v for v in judge_history(rejected().history())}
    assert [name for name, verdict in found.items() if verdict.verdict is FAILS] == []
    assert found["RDL-003"].verdict is not FAILS


@pytest.mark.parametrize(
    ("names", "verdict"),
    [(["a", "b"], HOLDS), (["a"], FAILS), (["a", "a"], FAILS), (["a", None], FAILS), (["a", "b", "c"], FAILS)],
)
def test_each_expiry_is_told_once(names: list[str | None], verdict: VerdictKind) -> None:
    told = Tale().connect("p0").connect("c0").subscribe("c0/1", TOLD, ack="auto")
    told.post("p0/1", ttl_ms=100).post("p0/2", ttl_ms=100).post("p0/3").at(5000)
    for name in names:
        told.arrive("c0/1", "", original_id=name)
    told.at(5001).rest("q0", expired=2)
    assert judged(told.at(6000).close().finish(), "EXP-020") is verdict


def test_who_came_late_or_was_cut_off_claims_nothing() -> None:
    late = Tale().connect("p0").connect("c0").post("p0/1", ttl_ms=100).at(10).subscribe("c0/1", TOLD, ack="auto")
    assert judged(late.at(5000).rest("q0", expired=1).close().finish(), "EXP-020") is SILENT
    lost = Tale().connect("p0").connect("c0").subscribe("c0/1", TOLD, ack="auto").at(10).post("p0/1", ttl_ms=100)
    lost.at(20).lose("c0").at(5000).rest("q0", expired=1)
    assert judged(lost.close().finish(), "EXP-020") is SILENT


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        (RedeliverySpec(), [1000, 1000, 1000, 1000]),
        (RedeliverySpec(initial_ms=0, pause_ms=5, multiplier=3), [0, 5, 15, 45]),
        (RedeliverySpec(initial_ms=100, pause_ms=10, multiplier=3, longest_ms=500), [100, 300, 500, 500]),
    ],
)
def test_pauses(policy: RedeliverySpec, wanted: list[int]) -> None:
    assert pauses(policy, 4) == wanted


def retried(
    *gaps_ms: float, dead: bool = True, marked: bool = True, leaves: bool = False, strategy: str = "", **policy: Any
) -> Chronicle:
    """A message is rejected, and again so long after each rejection was begun; at most twice by default."""
    letters = DeadLetterSpec(strategy) if strategy else None
    spec = RedeliverySpec(**({"maximum": 2, "initial_ms": 100, "pause_ms": 100} | policy))
    told = Chronicle(destinations=[DestinationSpec(">", redelivery=spec, dead_letter=letters)])
    told.connect("p0").connect("c0").connect("c1")
    told.send("p0/1").subscribe("c0/1", ack="individual")
    if leaves:
        told.subscribe("c1/1").leave("c1/1")
    told.arrive("c0/1", "p0/1")
    for gap_ms in gaps_ms:
        begun_ms = told.now_ms
        told.nack("c0/1", "p0/1").at(begun_ms + gap_ms).arrive("c0/1", "p0/1", redelivered=marked)
    told.nack("c0/1", "p0/1").drain("q0", DLQ)
    if dead:
        told.arrive("drain/2", "p0/1", original_dest="q0")
    return told.end()


@pytest.mark.parametrize(
    ("story", "pause", "count"),
    [
        (retried(100, 100), HOLDS, HOLDS),
        (retried(100, 99), FAILS, HOLDS),
        (retried(100, 100, marked=False), FAILS, HOLDS),
        (retried(100, 100, 100), HOLDS, FAILS),
        (retried(100), HOLDS, FAILS),
        (retried(100, leaves=True), HOLDS, SILENT),
        (retried(100, 100, dead=False), HOLDS, FAILS),
        (retried(100, 100, dead=False, dead_letter=False), HOLDS, HOLDS),
        (retried(100, 100, dead_letter=False), HOLDS, FAILS),
    ],
)
def test_the_broker_tries_again(story: Chronicle, pause: VerdictKind, count: VerdictKind) -> None:
    verdicts = story.judge(RetryOracle)
    assert (verdicts["RDL-023"].verdict, verdicts["RDL-024"].verdict) == (pause, count)


@pytest.mark.parametrize(
    ("strategy", "dead", "verdict"),
    [
        ("individual", False, SILENT),
        ("individual", True, FAILS),
        ("discarding", False, HOLDS),
        ("discarding", True, FAILS),
    ],
)
def test_after_the_last_chance_the_strategy_decides(strategy: str, dead: bool, verdict: VerdictKind) -> None:
    told = retried(100, 100, dead=dead, strategy=strategy)
    assert told.judge(RetryOracle)["RDL-024"].verdict is verdict


def test_only_those_who_know_judge_a_history_with_redelivery_by_the_broker() -> None:
    story = retried(100, 100)
    assert beyond(story.header.declared) == {"broker-redelivery"}
    assert "broker-redelivery" in RetryOracle.knows
    assert "broker-redelivery" not in OwnLetterOracle.knows
    assert judged(story, "RDL-023") is HOLDS
    assert judged(story, "RDL-003") is SILENT


# -- names


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("q0,t1", "queue://q0,topic://t1"),
        ("tv0", "topic://VirtualTopic.v0"),
        ("A.tv0", "queue://Consumer.A.VirtualTopic.v0"),
        (OWN, f"queue://{OWN}"),
        (TOLD, f"topic://{TOLD}"),
    ],
)
def test_names_are_translated_and_back(name: str, meant: str) -> None:
    assert physical(name) == meant
    assert logical(meant) == name
