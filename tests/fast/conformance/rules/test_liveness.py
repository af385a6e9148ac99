"""GEN-120 to GEN-123 on hand-written histories: who is entitled to a message and has room is given it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.history import Poll
from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def kind(story: Builder, requirement: str) -> VerdictKind:
    return story.verdicts(requirement)[requirement].verdict


def exclusive(prefetch: int = 10, **fields: Any) -> Builder:
    story = Builder().connect("p0").connect("c0").connect("c1")
    story.subscribe("c0/1", prefetch=prefetch, exclusive=True).subscribe("c1/1", exclusive=True)
    return story.send("p0/1").arrive("c0/1", "p0/1").send("p0/2", **fields)


def test_the_exclusive_consumer_is_served() -> None:
    assert kind(exclusive().arrive("c0/1", "p0/2").rest("q0", size=2), "GEN-120") is HOLDS
    assert kind(exclusive().rest("q0", size=2), "GEN-120") is FAILS
    assert kind(exclusive(prefetch=1).rest("q0", size=2), "GEN-120") is HOLDS  # nobody else may have it
    assert kind(exclusive(persistent=False).rest("q0", size=2), "GEN-120") is FAILS
    assert kind(exclusive(result="unknown").rest("q0", size=2), "GEN-120") is not FAILS
    assert kind(exclusive(group="g").rest("q0", size=2), "GEN-120") is not FAILS
    assert kind(exclusive().operate("purge", count=0).rest("q0", size=2), "GEN-120") is not FAILS


def test_its_successor_is_served() -> None:
    def left() -> Builder:
        return exclusive().arrive("c0/1", "p0/2").leave("c0/1")

    assert kind(left().arrive("c1/1", "p0/1", "p0/2").rest("q0", size=2), "GEN-120") is HOLDS
    assert kind(left().rest("q0", size=2), "GEN-120") is FAILS


def grouped() -> Builder:
    story = Builder().connect("p0").connect("c0").connect("c1").subscribe("c0/1").subscribe("c1/1", prefetch=1)
    return story.send("p0/1", group="g").arrive("c0/1", "p0/1").send("p0/2", group="g")


def test_a_group_waits_for_nobody_when_all_have_room() -> None:
    assert kind(grouped().rest("q0", size=2), "GEN-121") is FAILS
    assert kind(grouped().arrive("c0/1", "p0/2").rest("q0", size=2), "GEN-121") is HOLDS
    full = grouped().send("p0/3", group="h").arrive("c1/1", "p0/3")
    assert kind(full.rest("q0", size=3), "GEN-121") is HOLDS  # its own consumer may be the one without room
    gone = grouped().arrive("c0/1", "p0/2").leave("c0/1").rest("q0", size=2)
    assert kind(gone, "GEN-121") is FAILS


def pulled(timeout_ms: int, ms: float, message: str | None = None, **fields: Any) -> Builder:
    story = Builder().connect("p0").connect("c0", "jms").send("p0/1", **fields).subscribe("c0/1", prefetch=0)
    story._add(Poll, "c0", ms, consumer="c0/1", timeout_ms=timeout_ms, answered=True, message=message)
    return story.drain("q0").arrive("drain/1", "p0/1").end()


def test_a_pull_finds_what_waits() -> None:
    assert kind(pulled(1000, 1000, "p0/1"), "GEN-122") is HOLDS
    assert kind(pulled(1000, 1000), "GEN-122") is FAILS
    assert kind(pulled(500, 1000), "GEN-122") is SILENT  # too little time to prove anything
    assert kind(pulled(1000, 1000, result="unknown"), "GEN-122") is SILENT
    assert kind(pulled(1000, 1000, delay_ms=900), "GEN-122") is SILENT
    assert kind(pulled(1000, 1000, group="g"), "GEN-122") is SILENT


def untold(*more: str, prefetch: int = 10, **fields: Any) -> Builder:
    """A broker that tells no figures; a consumer waits when a message comes."""
    story = Builder("live", redeliveries_max=5)
    offered = [
        word for word in story.header.capabilities if word not in {"counters", "memory-counters", "nack", "dead-letter"}
    ]
    story.header = msgspec.structs.replace(story.header, capabilities=[*offered, *more])
    return story.connect("p0").connect("c0").subscribe("c0/1", prefetch=prefetch, ack="client").send("p0/1", **fields)


def over(story: Builder, *left: str) -> Builder:
    """Two seconds later the consumer leaves, and this is found."""
    story = story.wait(2000).rest(None).leave("c0/1").drain("q0")
    return (story.arrive("drain/1", *left) if left else story).end()


def test_who_has_room_is_given_what_waits() -> None:
    assert kind(over(untold(), "p0/1"), "GEN-123") is FAILS
    assert kind(over(untold().arrive("c0/1", "p0/1").ack("c0/1", "p0/1")), "GEN-123") is HOLDS
    assert kind(over(untold().wait(1500).arrive("c0/1", "p0/1").ack("c0/1", "p0/1")), "GEN-123") is HOLDS


def test_what_is_found_elsewhere_may_have_been_moved_there_long_ago() -> None:
    story = untold().wait(2000).rest(None).leave("c0/1").drain("q1")
    found = story.arrive("drain/1", "p0/1", original_dest="q0").end()
    assert kind(found, "GEN-123") is SILENT


def test_a_slot_that_becomes_free_is_used() -> None:
    def full() -> Builder:
        return untold(prefetch=1).arrive("c0/1", "p0/1").send("p0/2")

    assert kind(over(full(), "p0/1", "p0/2"), "GEN-123") is not FAILS
    assert kind(over(full().ack("c0/1", "p0/1"), "p0/2"), "GEN-123") is FAILS


@pytest.mark.parametrize(("settled", "expected"), [(1, SILENT), (2, FAILS)])
def test_a_window_may_be_filled_again_when_half_of_it_is_free(settled: int, expected: VerdictKind) -> None:
    """Batches of credit are legal (live seed 11694628, a broker by somebody else)."""
    names = [f"p0/{number}" for number in range(1, 6)]
    story = untold("counters", "memory-counters", prefetch=4)
    for name in names[1:]:
        story.send(name)
    story.arrive("c0/1", *names[:4]).ack("c0/1", *names[:settled])
    assert kind(over(story, *names[settled:]), "GEN-123") is expected


@pytest.mark.parametrize("fields", [{"group": "g"}, {"delay_ms": 5000}, {"result": "unknown"}, {"expiration_ms": 1}])
def test_what_may_rightly_wait_is_not_asked_for(fields: dict[str, Any]) -> None:
    assert kind(over(untold(**fields), "p0/1"), "GEN-123") is not FAILS


def test_also_where_a_broker_tells_figures() -> None:
    assert kind(over(untold("counters"), "p0/1"), "GEN-123") is FAILS
    assert kind(over(untold("counters", "memory-counters"), "p0/1"), "GEN-123") is FAILS


def test_who_left_soon_proves_nothing() -> None:
    assert kind(untold().wait(500).leave("c0/1").drain("q0").arrive("drain/1", "p0/1").end(), "GEN-123") is SILENT


@pytest.mark.parametrize("how", ["close", "lost"])
def test_a_real_broker_may_keep_what_a_consumer_held_until_its_connection_ends(how: str) -> None:
    story = untold().arrive("c0/1", "p0/1").connect("c1").subscribe("c1/1", prefetch=10, ack="client")
    story = story.leave("c0/1") if how == "close" else story.lose("c0")
    story = story.wait(2000).rest(None).leave("c1/1").drain("q0").arrive("drain/1", "p0/1", redelivered=True).end()
    assert kind(story, "GEN-123") is (FAILS if how == "lost" else SILENT)


@pytest.mark.parametrize(("word", "lost"), [("requeue", True), ("topics", False)])
def test_what_is_rejected_where_that_puts_it_back_is_given_again(word: str, lost: bool) -> None:
    def rejected() -> Builder:
        return untold(word).arrive("c0/1", "p0/1").nack("c0/1", "p0/1")

    assert (kind(over(rejected()), "GEN-001") is FAILS) == lost
    assert kind(over(rejected(), "p0/1"), "GEN-001") is HOLDS
    assert (kind(over(rejected(), "p0/1"), "GEN-123") is FAILS) == lost
    again = rejected().arrive("c0/1", "p0/1", redelivered=True)
    assert kind(over(again.ack("c0/1", "p0/1")), "GEN-123") is (HOLDS if lost else SILENT)
    assert kind(over(again.ack("c0/1", "p0/1")), "GEN-002") is not FAILS
    assert kind(over(again, "p0/1"), "GEN-001") is HOLDS
    unheard = untold(word).arrive("c0/1", "p0/1").nack("c0/1", "p0/1", result="unknown")
    assert kind(over(unheard), "GEN-001") is not FAILS


def test_what_was_rejected_too_often_may_be_gone() -> None:
    story = untold("requeue")
    for _ in range(6):
        story = story.arrive("c0/1", "p0/1", redelivered=True).nack("c0/1", "p0/1")
    assert kind(over(story), "GEN-001") is not FAILS
    assert kind(over(story), "GEN-123") is not FAILS


def test_of_what_never_comes_nobody_knows_whether_it_waited() -> None:
    assert kind(over(untold()), "GEN-123") is SILENT
    assert kind(over(untold()), "GEN-001") is FAILS


@pytest.mark.parametrize("told", [(), ("counters", "memory-counters")])
@pytest.mark.parametrize(
    ("seen_by", "after_ms", "expected"),
    [("b", 100, False), ("b", 1900, False), ("b", 2500, True), ("c0", 2500, False)],
)
def test_what_a_consumer_held_that_is_given_up_is_given_to_others_soon(
    seen_by: str, after_ms: int, expected: bool, told: tuple[str, ...]
) -> None:
    """Where the client alone saw the end, a stalled link may have hidden when that was."""
    story = untold(*told).arrive("c0/1", "p0/1").connect("c1").subscribe("c1/1").wait(100)
    story = story.closed("c0", host=seen_by, reason="heart-beat missed").wait(after_ms).arrive("c1/1", "p0/1")
    found = kind(story.wait(10).ack("c1/1", "p0/1").end(), "GEN-123")
    assert found is FAILS if expected else found is not FAILS
