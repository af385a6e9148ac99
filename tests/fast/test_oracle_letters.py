"""Dead letters on queues of their own, advisories, redelivery by the broker, on hand-written histories; and that what
happens at destinations that only the broker fills is shown to those alone that ask for it.
"""

from __future__ import annotations

from typing import Any

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


# -- copies


def copied(dest: str, *arrivals: str, result: str = "ok", limited: bool = False, **fields: Any) -> Chronicle:
    """A message goes to two queues, which have consumers; it arrives there in the drain."""
    queues = ["q0", "q1"] if "," in dest else ["A.tv0", "B.tv0"]
    told = Chronicle(copies=True, **({"memory_limit_bytes": 4096} if limited else {})).connect("p0").connect("c0")
    for number, queue in enumerate(queues, start=1):
        told.subscribe(f"c0/{number}", queue).leave(f"c0/{number}")
    told.send("p0/1", dest, result=result, **fields).drain(*queues)
    for name in arrivals:
        told.arrive(f"drain/{1 + queues.index(name)}", "p0/1")
    return told.end()


@pytest.mark.parametrize(
    ("story", "requirement", "verdict"),
    [
        (copied("q0,q1", "q0", "q1"), "GEN-049", HOLDS),
        (copied("q0,q1", "q0"), "GEN-049", FAILS),
        (copied("q0,q1", "q0", "q1", "q1"), "GEN-049", FAILS),
        (copied("q0,q1", result="fail"), "GEN-049", HOLDS),
        (copied("q0,q1", "q1", result="fail"), "GEN-049", FAILS),
        (copied("q0,q1", "q1", result="fail", limited=True), "GEN-049", FAILS),
        (copied("q0,q1", result="fail", limited=True), "GEN-049", HOLDS),
        (copied("q0,q1", "q0", limited=True), "GEN-049", SILENT),
        (copied("tv0", "A.tv0", limited=True), "GEN-048", SILENT),
        (copied("q0,q1", "q0", expiration_ms=5), "GEN-049", SILENT),
        (copied("tv0", "A.tv0", "B.tv0"), "GEN-048", HOLDS),
        (copied("tv0", "A.tv0"), "GEN-048", FAILS),
        (copied("tv0", "A.tv0", result="unknown"), "GEN-048", SILENT),
    ],
)
def test_each_name_and_each_queue_gets_a_copy(story: Chronicle, requirement: str, verdict: VerdictKind) -> None:
    assert judged(story, requirement) is verdict
    others = [v.requirement for v in judge_history(story.history()) if v.verdict is FAILS]
    assert others == ([requirement] if verdict is FAILS else [])


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


# -- temporary queues


def owned(*, foreign: bool = False, gone: bool = False, result: str = "fail", again: bool = False) -> Chronicle:
    """c0 has a temporary queue; c1 sends to it, while c0 is connected and, perhaps, after it has gone or come again."""
    told = Chronicle(temporaries=True).connect("c0").connect("c1").subscribe("c0/1", "~c0").send("c1/1", "~c0")
    if foreign:
        return told.subscribe("c1/1", "~c0").arrive("c1/1", "c1/1")
    if gone:
        return told.lose("c0").rest("q0").send("c1/2", "~c0", result=result)
    if again:
        told.lose("c0").connect("c0").subscribe("c0/2", "~c0")
    return told.arrive("c0/2" if again else "c0/1", "c1/1")


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, HOLDS),
        ({"foreign": True}, FAILS),
        ({"gone": True}, HOLDS),
        ({"gone": True, "result": "ok"}, FAILS),
        ({"gone": True, "result": "unknown"}, SILENT),
        ({"again": True}, FAILS),
    ],
)
def test_a_temporary_queue_is_its_connections_own(options: dict[str, Any], verdict: VerdictKind) -> None:
    assert judged(owned(**options), "GEN-047") is verdict


# -- GEN-028


def listened(*, before: bool = False, told: int = 2, cut: bool = False) -> Chronicle:
    """Somebody listens; one consumer comes (or is there already) and goes; and so many advisories arrive."""
    story = Tale().connect("p0").connect("c0")
    if before:
        story.subscribe("c0/1")
    story.at(10).subscribe("p0/1", PRESENT, ack="auto").at(20)
    if not before:
        story.subscribe("c0/1")
    story.at(30).leave("c0/1").at(40)
    if cut:
        story.lose("p0").at(45)
    for _ in range(told):
        story.arrive("p0/1", "")
    return story.at(50).rest("q0").at(60).close().finish()


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(("told", "verdict"), [(2, HOLDS), (1, FAILS), (0, FAILS), (3, FAILS)])
def test_who_listens_is_told_of_each_consumer_twice(before: bool, told: int, verdict: VerdictKind) -> None:
    assert judged(listened(before=before, told=told), "GEN-028") is verdict


def test_a_listener_that_was_cut_off_claims_nothing() -> None:
    assert judged(listened(told=0, cut=True), "GEN-028") is SILENT


def test_who_had_gone_before_somebody_listened_is_not_told_of() -> None:
    story = Tale().connect("p0").connect("c0").subscribe("c0/1").leave("c0/1").at(5).rest("q0")
    story.at(10).subscribe("p0/1", PRESENT, ack="auto").at(20).subscribe("c0/2").at(30).arrive("p0/1", "")
    assert judged(story.at(50).rest("q0").at(60).close().finish(), "GEN-028") is HOLDS
