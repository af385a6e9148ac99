"""Dead letters on queues of their own, advisories, redelivery by the broker, on hand-written histories; and that what
happens at destinations that only the broker fills is shown to those alone that ask for it.
"""

from __future__ import annotations

import pytest

from brokerproof.conformance.brokers.translation import logical, physical
from brokerproof.conformance.experiment.destinations import expiries_of, is_aside, is_topic, own_letters_of, presence_of
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.judge import judge_history
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
