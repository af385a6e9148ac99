"""GEN-110 to GEN-112 on hand-written histories: whoever asks is answered."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import PolicySpec
from brokerproof.conformance.experiment.history import Browse, Poll
from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import DLQ, EPOCH_MS, Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def kind(story: Builder, requirement: str) -> VerdictKind:
    return story.verdicts(requirement)[requirement].verdict


def patient(ms: float = 1000, **declared: Any) -> Builder:
    """Requests take so long from the second one on."""
    story = Builder(**declared).connect("p0").connect("c0")
    story.request_ms = ms
    return story


def test_requests_are_answered_in_time() -> None:
    assert kind(patient().send("p0/1", result="unknown"), "GEN-110") is FAILS
    assert kind(patient().subscribe("c0/1", result="unknown"), "GEN-110") is FAILS
    assert kind(patient().begin("p0").commit("p0", result="unknown"), "GEN-110") is FAILS
    assert kind(patient(999).send("p0/1", result="unknown"), "GEN-110") is HOLDS  # the connections were answered


def test_what_may_keep_an_answer_back() -> None:
    assert kind(patient().stall("p0").send("p0/1", result="unknown"), "GEN-110") is HOLDS
    assert kind(patient().send("p0/1", result="unknown").at(500).closed("p0"), "GEN-110") is HOLDS
    assert kind(patient().send("p0/1", result="unknown").at(500).pause("b", 100), "GEN-110") is HOLDS
    paged = patient(memory_limit_bytes=500, generation={"memory": "G3"}).send("p0/1", size=400)
    assert kind(paged.send("p0/2", result="unknown"), "GEN-110") is HOLDS
    fair = patient(memory_limit_bytes=500).send("p0/1", size=400).send("p0/2", result="unknown")
    assert kind(fair, "GEN-110") is FAILS  # no producer waits for memory there
    assert kind(patient(store_limit_bytes=500).send("p0/1", result="unknown"), "GEN-110") is HOLDS
    assert kind(patient().subscribe("c0/1", ack="auto").ack("c0/1", "p0/1", result="unknown", mode="auto"),
                "GEN-110") is HOLDS  # fmt: skip


@pytest.mark.parametrize(
    ("waits", "limits", "expected"),
    [
        ({}, {}, FAILS),
        ({"tx": "p0/tx1"}, {}, HOLDS),  # a library may send what belongs to a transaction without asking
        ({}, {"store_limit_bytes": 500}, HOLDS),
        ({}, {"memory_limit_bytes": 1000}, HOLDS),
    ],
)
def test_what_waits_for_memory_holds_up_nothing_else(
    waits: dict[str, Any], limits: dict[str, Any], expected: VerdictKind
) -> None:
    policies = [PolicySpec(match="q0", memory_limit_bytes=500)]
    story = patient(generation={"memory": "G3"}, policies=policies, **limits).send("p0/1", size=400)
    story.send("p0/2", result="unknown", **waits).send("p0/3", "q1", result="unknown")
    assert kind(story, "GEN-110") is expected
    story.header = msgspec.structs.replace(story.header, world="live")
    assert kind(story, "GEN-110") is HOLDS  # a library may keep back what follows


def polled(ms: float, timeout_ms: int | None, **fields: Any) -> Builder:
    story = Builder().connect("c0", "jms").subscribe("c0/1", prefetch=0)
    return story._add(Poll, "c0", ms, consumer="c0/1", timeout_ms=timeout_ms, **fields)


def test_a_pull_is_answered_when_its_time_is_over() -> None:
    assert kind(polled(10, 0, answered=True), "GEN-111") is HOLDS
    assert kind(polled(1100, 100), "GEN-111") is FAILS
    assert kind(polled(1099, 100), "GEN-111") is SILENT
    assert kind(polled(5000, None), "GEN-111") is SILENT
    assert kind(polled(1100, 100).at(500).stall("c0"), "GEN-111") is SILENT
    assert kind(polled(1100, 100).at(500).lose("c0"), "GEN-111") is SILENT


def browsing(**fields: Any) -> Builder:
    story = Builder().connect("p0").connect("c0").send("p0/1").send("p0/2")
    return story.subscribe("c0/1", browser=True, **fields)


def test_a_browse_ends() -> None:
    seen = browsing(ack="auto")._add(Browse, "c0", dest="q0", messages=[], consumer="c0/1", complete=True)
    assert kind(seen, "GEN-112") is HOLDS
    assert kind(browsing(ack="auto").at(1500).end(), "GEN-112") is FAILS
    assert kind(browsing(ack="auto").at(900).end(), "GEN-112") is SILENT
    assert kind(browsing(ack="auto").leave("c0/1").at(1500).end(), "GEN-112") is SILENT


def test_an_observer_that_never_sees_an_end_accuses_nobody() -> None:
    story = Builder("external").connect("p0").connect("c0").send("p0/1").subscribe("c0/1", browser=True, ack="auto")
    assert kind(story.at(1500).end(), "GEN-112") is SILENT


@pytest.mark.parametrize(("prefetch", "expected"), [(2, SILENT), (3, FAILS)])
def test_a_browser_that_acknowledges_nothing_may_have_a_full_window(prefetch: int, expected: VerdictKind) -> None:
    assert kind(browsing(ack="individual", prefetch=prefetch).at(1500).end(), "GEN-112") is expected


def waiting(**fields: Any) -> Builder:
    story = patient(generation={"memory": "G3"}, memory_limit_bytes=1000).send("p0/1", size=900)
    return story.send("p0/2", result="unknown", **fields)


def test_a_send_that_waits_for_room_goes_through() -> None:
    assert kind(waiting().drain("q0").arrive("drain/1", "p0/1", "p0/2").end(), "GEN-113") is HOLDS
    assert kind(waiting().drain("q0").arrive("drain/1", "p0/1").end(), "GEN-113") is FAILS
    assert kind(waiting().lose("p0").drain("q0").arrive("drain/1", "p0/1").end(), "GEN-113") is SILENT
    assert kind(waiting(tx="p0/tx1").drain("q0").arrive("drain/1", "p0/1").end(), "GEN-113") is SILENT


@pytest.mark.parametrize(
    ("life_ms", "period_ms", "waits_ms", "room", "expected"),
    [
        (500, 500, 5000, 16_384, FAILS),
        (500, 500, 2000, 16_384, HOLDS),  # nobody knows that the sweep had come by
        (0, 500, 5000, 16_384, HOLDS),
        (500, 0, 5000, 16_384, HOLDS),
        (500, 500, 5000, 8000, HOLDS),  # what it takes besides its body nobody knows
    ],
)
def test_a_send_that_waits_at_an_empty_queue_was_forgotten(
    life_ms: int, period_ms: int, waits_ms: int, room: int, expected: VerdictKind
) -> None:
    entry = PolicySpec(match="q0", memory_limit_bytes=room, expire_period_ms=period_ms)
    story = Builder("live", policies=[entry]).connect("p0")
    expiration_ms = EPOCH_MS + life_ms if life_ms else 0
    for number in range(1, 4):
        story = story.send(f"p0/{number}", size=4096, expiration_ms=expiration_ms)
    story.request_ms = waits_ms
    story = story.send("p0/4", size=4096, result="unknown")
    story.request_ms = 1
    # It came in the end: what was sent later looked for room.
    story = story.wait(waits_ms).send("p0/5", size=4096).drain("q0", DLQ).arrive("drain/1", "p0/4")
    assert kind(story.end(), "GEN-113") is expected


@pytest.mark.parametrize(("message", "expected"), [("", HOLDS), ("p0/1", FAILS)])
def test_an_answer_may_be_behind_what_nobody_knows_the_size_of(message: str, expected: VerdictKind) -> None:
    story = Builder(bytes_per_second={"c0": 100_000}).connect("p0").connect("c0").send("p0/1").subscribe("c0/1")
    story.request_ms = 2600
    asked = story.subscribe("c0/2", result="unknown").at(story.now_ms - 2).arrive("c0/1", message)
    asked.events.sort(key=lambda event: event.t1)
    assert kind(asked.at(4000), "GEN-110") is expected


@pytest.mark.parametrize(
    ("world", "every_ms", "expected"), [("live", 150, HOLDS), ("live", 400, FAILS), ("simulated", 150, FAILS)]
)
def test_an_answer_may_be_behind_what_a_slow_link_still_brings(
    world: str, every_ms: float, expected: VerdictKind
) -> None:
    """A proxy on a busy machine is slower than its rate, and waits between two pieces."""
    story = Builder(world, bytes_per_second={"c0": 1_000_000}).connect("p0").connect("c0")
    for number in range(1, 11):
        story.send(f"p0/{number}", size=16_384)
    story.subscribe("c0/1", ack="auto").leave("c0/1")
    begun_ms = story.now_ms
    for number in range(1, 11):
        story.at(begun_ms + number * every_ms).arrive("c0/1", f"p0/{number}")
    story.request_ms = 5000
    asked = story.at(begun_ms + 3000 if every_ms > 300 else begun_ms + 500).subscribe("c0/2", result="unknown")
    asked.events.sort(key=lambda event: event.t1)
    assert kind(asked.at(begun_ms + 9000), "GEN-110") is expected


@pytest.mark.parametrize(("size", "expected"), [(4096, FAILS), (16_384, HOLDS)])
def test_a_send_that_waits_at_a_queue_that_is_not_half_full_was_forgotten(size: int, expected: VerdictKind) -> None:
    """Another one that waited was let in, and this one was not: one wake-up was for both."""
    entry = PolicySpec(match="q0", memory_limit_bytes=65_536, expire_period_ms=500)
    story = Builder("live", policies=[entry]).connect("p0").connect("p1")
    story.send("p0/1", size=60_000, expiration_ms=EPOCH_MS + 500).wait(3000).send("p1/1", size=size)
    story.now_ms, story.request_ms = 10, 6000
    story = story.send("p0/2", size=4096, result="unknown")
    story.request_ms = 1
    story = story.wait(6000).drain("q0", DLQ).arrive("drain/1", "p1/1", "p0/2")
    assert kind(story.end(), "GEN-113") is expected


@pytest.mark.parametrize(
    ("operations", "at_ms", "expected"),
    [
        (["purge"], 2000, FAILS),
        (["purge"], 5500, HOLDS),  # there was not the time
        (["purge", "move"], 2000, HOLDS),
        (["move"], 2000, HOLDS),
        ([], 2000, HOLDS),
    ],
)
def test_a_send_that_waits_at_a_purged_queue_was_forgotten(
    operations: list[str], at_ms: float, expected: VerdictKind
) -> None:
    entry = PolicySpec(match="q0", memory_limit_bytes=16_384)
    story = (
        Builder("live", policies=[entry]).connect("p0").connect("p1").send("p0/1", size=8000).send("p0/2", size=8000)
    )
    story.request_ms = 6000
    begun_ms = story.now_ms
    story.send("p1/1", size=3000, result="unknown")
    ended_ms, story.request_ms = story.now_ms, 1
    story.at(begun_ms + at_ms)
    for op in operations:
        story.operate(op, to="q1" if op == "move" else "")
    story.events.sort(key=lambda event: event.t1)
    story = story.at(ended_ms + 1).drain("q0", DLQ).arrive("drain/1", "p1/1")
    assert kind(story.end(), "GEN-113") is expected
