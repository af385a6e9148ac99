"""Windows that nobody asked for, what must not change them, and INF-014, on hand-written histories."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import DeclaredSpec, PolicySpec
from brokerproof.conformance.experiment.history import Browse
from brokerproof.conformance.experiment.policies import DURABLE, QUEUE, TOPIC, UNASKED, window_of
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from tests.fast.conformance.rules.clocked_history import Clocked

VIOLATED, SATISFIED, NOT_EXERCISED = VerdictKind.VIOLATED, VerdictKind.SATISFIED, VerdictKind.NOT_EXERCISED
POLICY = [PolicySpec(queue_prefetch=3, durable_topic_prefetch=2)]


def judged(run: Clocked) -> dict[str, Verdict]:
    return run.verdicts("INF-016", "PRE-004", "PRE-008", "PRE-009", "PRE-010")


def sent(count: int, dest: str = "q0", **declared: Any) -> Clocked:
    run = Clocked(**declared).connect("p0").connect("c0").at(1)
    run.request_ms = 0.01
    for number in range(count):
        run.post(f"p0/{number}", dest)
    return run.at(10)


def given(run: Clocked, count: int, consumer: str = "c0/1", size: int = 9) -> Clocked:
    run.at(11).arrive(consumer, *(f"p0/{number}" for number in range(count))).at(12)
    return run.rest(size=size, in_flight=count)


@pytest.mark.parametrize(
    ("dest", "asked", "durable", "expected"),
    [
        ("q0", UNASKED, False, 3),
        ("q0", QUEUE, False, 3),
        ("q0", QUEUE - 1, False, QUEUE - 1),
        ("t0", UNASKED, True, 2),
        ("t0", DURABLE, True, 2),
        ("t0", UNASKED, False, TOPIC),
    ],
)
def test_what_a_policy_replaces(dest: str, asked: int, durable: bool, expected: int) -> None:
    assert (
        window_of(DeclaredSpec(policies=POLICY), dest, asked, topic=dest == "t0", durable=durable, browser=False)
        == expected
    )


@pytest.mark.parametrize(("prefetch", "held", "expected"), [(5, 5, SATISFIED), (5, 4, VIOLATED), (5, 6, VIOLATED)])
@pytest.mark.parametrize(("requirement", "declared"), [("PRE-004", {}), ("PRE-008", {"policies": POLICY})])
def test_the_window_is_what_it_must_be(
    requirement: str, declared: dict[str, Any], prefetch: int, held: int, expected: VerdictKind
) -> None:
    run = sent(9, **declared).subscribe("c0/1", prefetch=prefetch, asked=UNASKED, ack="individual")
    assert judged(given(run, held).finish())[requirement].verdict is expected


@pytest.mark.parametrize(
    ("memory", "held", "expected"),
    [("fair", 200, VIOLATED), ("G3", 200, NOT_EXERCISED), ("G3", 199, VIOLATED)],
)
def test_a_page_is_all_that_one_wake_up_loads(memory: str, held: int, expected: VerdictKind) -> None:
    run = sent(held + 5, generation={"memory": memory})
    run.subscribe("c0/1", prefetch=1000, asked=UNASKED, ack="individual")
    assert judged(given(run, held, size=held + 5).finish())["PRE-004"].verdict is expected


def test_a_window_with_room_is_no_instance_while_nothing_waits() -> None:
    run = sent(4).subscribe("c0/1", prefetch=5, asked=UNASKED, ack="individual")
    assert judged(given(run, 4, size=4).finish())["PRE-004"].verdict is NOT_EXERCISED


@pytest.mark.parametrize(("early", "expected"), [(False, SATISFIED), (True, VIOLATED)])
def test_the_receipt_comes_first(early: bool, expected: VerdictKind) -> None:
    run = sent(2)
    run.request_ms = 1.0
    run.subscribe("c0/1").at(10.5 if early else 11).arrive("c0/1", "p0/0")
    assert judged(run.at(12).finish())["PRE-009"].verdict is expected


@pytest.mark.parametrize(
    ("more", "kept", "expected"), [(3, True, SATISFIED), (4, True, VIOLATED), (4, False, NOT_EXERCISED)]
)
def test_a_rollback_leaves_the_window_as_it_was(more: int, kept: bool, expected: VerdictKind) -> None:
    """Where nobody says that a consumer keeps what it holds, it may have gone to its queue, to come again."""
    run = given(sent(20).subscribe("c0/1", prefetch=3), 3, size=20).at(20).begin("c0")
    run.ack("c0/1", "p0/0", tx="c0/tx1").abort("c0").at(25).rest(size=20, in_flight=3)
    run.at(30).ack("c0/1", "p0/0", "p0/1", "p0/2").at(31)
    run.arrive("c0/1", *(f"p0/{number}" for number in range(3, 3 + more)))
    if not kept:
        offered = [word for word in run.header.capabilities if word != "keeps-rolled-back"]
        run.header = msgspec.structs.replace(run.header, world="live", capabilities=offered)
    assert judged(run.at(40).finish())["PRE-010"].verdict is expected


@pytest.mark.parametrize(("count", "expected"), [(4, SATISFIED), (2, VIOLATED)])
def test_a_wildcard_flows_without_lists(count: int, expected: VerdictKind) -> None:
    run = Clocked(policies=[PolicySpec(topic_inflight_stats=False)]).connect("p0").connect("c0")
    run.subscribe("c0/1", "t*", 2).at(5)
    run.request_ms = 0.01
    for number in range(4):
        run.post(f"p0/{number}", f"t{number % 2}")
    for number in range(count):
        run.at(10 + number).arrive("c0/1", f"p0/{number}", dest=f"t{number % 2}").ack("c0/1", f"p0/{number}")
    assert judged(run.at(20).rest(None).at(21).finish())["INF-016"].verdict is expected


@pytest.mark.parametrize(
    ("ack", "gone", "in_flight", "dequeued", "outcome"),
    [
        ("individual", False, 2, 0, "while-it-looked"),
        ("individual", False, 0, 0, "otherwise"),
        ("auto", False, 0, 0, ""),
        ("auto", False, 0, 2, "dequeued"),
        ("individual", True, 0, 0, "while-it-looked"),
        ("individual", True, 2, 0, "otherwise"),
    ],
)
def test_browsing_counts_as_in_flight_only(ack: str, gone: bool, in_flight: int, dequeued: int, outcome: str) -> None:
    run = sent(2).subscribe("c0/1", browser=True, ack=ack).at(11)
    run._add(Browse, "c0", dest="q0", messages=["p0/0", "p0/1"], consumer="c0/1")
    if gone:
        run.leave("c0/1")
    run.at(20).rest(enqueued=2, dequeued=dequeued, size=2, in_flight=in_flight)
    assert run.finish().verdicts("INF-014")["INF-014"].outcome == outcome
