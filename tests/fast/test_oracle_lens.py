"""The lens: what older folds are shown of transactions, browsers, operators and choosy consumers."""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Ack, Event, Fault, Leave, Operate, Send, Subscribe
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.oracles.delivery import DeliveryOracle
from brokerproof.conformance.oracles.inflight import InFlightOracle
from brokerproof.conformance.oracles.lens import Lens
from brokerproof.conformance.oracles.prefetch import PrefetchOracle
from tests.fast.chronicle import Chronicle


def subscribe(consumer: str, dest: str = "q0", result: str = "ok", **options: object) -> Subscribe:
    return Subscribe(1, 0, 1, "c0", result, consumer, dest, 10, **options)  # type: ignore[arg-type]  # for a test


def shown(*events: Event) -> tuple[Lens, list[Event | None]]:
    lens = Lens("b")
    return lens, [lens.look(event) for event in events]


def test_what_is_part_of_a_transaction_is_unknown() -> None:
    send = Send(1, 0, 1, "c0", "ok", "c0/1", "q0", tx="t")
    ack = Ack(2, 0, 1, "c0", "ok", "c0/1", ["c0/1"], tx="t")
    _, seen = shown(send, ack)
    assert [event.result for event in seen] == ["unknown", "unknown"]  # type: ignore[union-attr]  # both are there


def test_what_is_not_is_left_as_it_is() -> None:
    events = [
        Send(1, 0, 1, "c0", "ok", "c0/1", "q0"),
        Send(2, 0, 1, "c0", "fail", "c0/2", "q0", tx="t"),
        Ack(3, 0, 1, "c0", "ok", "c0/1", ["c0/1"]),
    ]
    assert shown(*events)[1] == events


def test_a_browser_is_no_consumer() -> None:
    lens, seen = shown(subscribe("c0/1", browser=True), Leave(2, 0, 1, "c0", "ok", "close", "c0/1"))
    assert seen == [None, None]
    assert lens.clouded("q0")
    assert not lens.clouded("q1")


def test_what_clouds_a_destination() -> None:
    assert shown(subscribe("c0/1", "q*"))[0].clouded("q1")
    assert not shown(subscribe("c0/1", "q*"))[0].clouded("t0")
    assert not shown(subscribe("c0/1", "q*", "fail"))[0].clouded("q1")
    assert not shown(subscribe("c0/1", "q*"))[0].clouded("ActiveMQ.DLQ")
    moved = shown(Operate(1, 5, 9, "b", "ok", "move", "q0", "q1"))[0]
    assert moved.clouded("q0")
    assert moved.clouded("q1")
    assert moved.purged == {"q0": 9}
    reset = shown(Operate(1, 5, 9, "b", "ok", "reset", "q0"))[0]
    assert reset.clouded("q0")
    assert reset.purged == {}
    assert not shown(Operate(1, 5, 9, "b", "fail", "purge", "q0"))[0].clouded("q0")


def test_what_makes_a_destination_picky() -> None:
    assert shown(subscribe("c0/1", selector="a = 1"))[0].picky("q0")
    assert shown(subscribe("c0/1", exclusive=True))[0].picky("q0")
    assert shown(subscribe("c0/1", priority=1))[0].picky("q0")
    assert not shown(subscribe("c0/1"))[0].picky("q0")
    assert shown(Send(1, 0, 1, "c0", "ok", "c0/1", "q0", group="g"))[0].picky("q0")


def test_a_restart_is_noted() -> None:
    assert shown(Fault(1, 0, 1, "", "restart", target="b", evidence={"n": 1}))[0].restarted


def test_a_committed_acknowledgement_counts_and_a_rolled_back_one_does_not() -> None:
    """The in-flight count at rest is exact again after the end of a transaction."""
    for ending, left in (("commit", 0), ("abort", 1)):
        story = Chronicle().connect("c0").subscribe("c0/1").send("p0/1").arrive("c0/1", "p0/1").consume("c0/1", "p0/1")
        story.begin("c0", "t").ack("c0/1", "p0/1", tx="t")
        story = story.commit("c0", "t") if ending == "commit" else story.abort("c0", "t")
        good = story.rest(in_flight=left).judge(InFlightOracle)["INF-001"]
        assert good.verdict is VerdictKind.SATISFIED, ending
        bad = story.rest(in_flight=1 - left).judge(InFlightOracle)["INF-001"]
        assert bad.verdict is VerdictKind.VIOLATED, ending


def test_a_consumer_with_a_selector_may_be_idle_and_one_without_may_not() -> None:
    for options, kind in (({"selector": "kind = 'a'"}, VerdictKind.NOT_EXERCISED), ({}, VerdictKind.VIOLATED)):
        story = Chronicle().connect("c0").subscribe("c0/1", **options).send("p0/1").rest(size=1)
        assert story.judge(PrefetchOracle)["PRE-002"].verdict is kind


def test_a_purged_message_is_not_lost_and_a_later_one_is() -> None:
    for late, kind in ((False, VerdictKind.NOT_EXERCISED), (True, VerdictKind.VIOLATED)):
        story = Chronicle().connect("p0").send("p0/1").operate("purge", "q0")
        if late:
            story.send("p0/2")
        verdict = story.drain("q0", "ActiveMQ.DLQ").end().judge(DeliveryOracle)["GEN-001"]
        assert verdict.verdict is kind, late
