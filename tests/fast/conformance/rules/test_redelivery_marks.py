"""What comes back marked, and with what count (RDL-008 to -011, -016), on hand-written histories."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def outcome(story: Builder, requirement: str) -> tuple[VerdictKind, str]:
    verdict = story.verdicts(requirement)[requirement]
    return verdict.verdict, verdict.outcome


def kind(story: Builder, requirement: str) -> VerdictKind:
    return outcome(story, requirement)[0]


def held(via: str = "stomp", **fields: Any) -> Builder:
    """Two messages at a consumer of c0; the first was given to its application."""
    story = Builder().connect("p0").connect("c0", via).connect("c1").send("p0/1").send("p0/2")
    return story.subscribe("c0/1", **fields).arrive("c0/1", "p0/1", "p0/2").consume("c0/1", "p0/1")


def back(story: Builder, *, marked: bool | None, message: str = "p0/2") -> Builder:
    return story.subscribe("c1/1").arrive("c1/1", message, redelivered=marked)


@pytest.mark.parametrize(("marked", "expected"), [(False, (HOLDS, "unmarked")), (True, (FAILS, "marked"))])
def test_what_a_jms_application_was_not_given_comes_back_unmarked(
    marked: bool, expected: tuple[VerdictKind, str]
) -> None:
    assert outcome(back(held("jms").leave("c0/1"), marked=marked), "RDL-009") == expected


@pytest.mark.parametrize("case", ["given", "lost", "stomp", "somebody else", "before a given one", "unheard"])
def test_where_a_mark_may_be_right(case: str) -> None:
    story = held("stomp" if case == "stomp" else "jms")
    if case == "somebody else":
        story = Builder().connect("p0").connect("c0", "jms").connect("c1").connect("c2").send("p0/1").send("p0/2")
        story.subscribe("c0/1").arrive("c0/1", "p0/2").leave("c0/1").subscribe("c2/1").lose("c2")
    elif case == "before a given one":
        story.consume("c0/1", "p0/2").leave("c0/1")
    elif case == "lost":
        story.lose("c0")
    elif case == "unheard":
        story.leave("c0/1", result="unknown")
    else:
        story.leave("c0/1")
    message = "p0/1" if case in {"given", "before a given one"} else "p0/2"
    assert outcome(back(story, marked=True, message=message), "RDL-009")[0] is SILENT


@pytest.mark.parametrize("message", ["p0/1", "p0/2"])
@pytest.mark.parametrize("end", ["unsubscribe", "lost", "jms lost"])
@pytest.mark.parametrize(("marked", "expected"), [(True, (HOLDS, "marked")), (False, (FAILS, "unmarked"))])
def test_where_nobody_says_what_was_given_everything_is_marked(
    message: str, end: str, marked: bool, expected: tuple[VerdictKind, str]
) -> None:
    story = held("jms" if end == "jms lost" else "stomp")
    story = story.leave("c0/1") if end == "unsubscribe" else story.lose("c0")
    assert outcome(back(story, marked=marked, message=message), "RDL-010") == expected


def test_a_settlement_that_was_tried_leaves_the_mark_open() -> None:
    story = held().ack("c0/1", "p0/1", "p0/2", result="unknown").lose("c0")
    assert outcome(back(story, marked=False), "RDL-010")[0] is SILENT


def test_frames_that_were_held_up_were_written_before() -> None:
    story = Builder().connect("p0").connect("c0").connect("c1").send("p0/1").subscribe("c1/1").lose("c1")
    story.subscribe("c0/1").arrive("c0/1", "p0/1").lose("c0")
    assert outcome(story.arrive("c1/1", "p0/1"), "RDL-010")[0] is SILENT


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"delivery_count": 1}, {"delivery_count": 2, "redelivered": True}, (HOLDS, "counted-on")),
        ({"delivery_count": 2}, {"delivery_count": 2, "redelivered": True}, (FAILS, "not-counted")),
        ({}, {"redelivered": True}, (HOLDS, "counted-on")),
        ({}, {}, (FAILS, "not-counted")),
    ],
)
def test_a_durable_subscription_counts_on(
    first: dict[str, Any], second: dict[str, Any], expected: tuple[VerdictKind, str]
) -> None:
    story = Builder().connect("p0").connect("c0").subscribe("c0/1", "t0", durable="d").send("p0/1", "t0")
    story.arrive("c0/1", "p0/1", **first).lose("c0").connect("c0").subscribe("c0/2", "t0", durable="d")
    assert outcome(story.arrive("c0/2", "p0/1", **second), "RDL-016") == expected


def test_two_subscriptions_count_apart() -> None:
    story = Builder().connect("p0").connect("c0").connect("c1").subscribe("c0/1", "t0", durable="d")
    story.subscribe("c1/1", "t0", durable="d").send("p0/1", "t0").arrive("c0/1", "p0/1").lose("c0")
    assert outcome(story.arrive("c1/1", "p0/1"), "RDL-016")[0] is SILENT


@pytest.mark.parametrize(
    ("count", "redelivered", "verdict"),
    [(1, False, HOLDS), (2, True, HOLDS), (1, True, FAILS), (2, False, FAILS), (None, True, SILENT)],
)
def test_mark_and_count_agree(count: int | None, redelivered: bool, verdict: VerdictKind) -> None:
    told = Builder().connect("c0", "jms").send("p0/1").subscribe("c0/1")
    told.arrive("c0/1", "p0/1", redelivered=redelivered, delivery_count=count)
    assert kind(told, "RDL-008") is verdict


@pytest.mark.parametrize(
    ("via", "left", "losses", "verdict"),
    [
        ("stomp", "close", True, SILENT),
        ("stomp", "lose", False, SILENT),
        ("stomp", "lose", True, FAILS),
        ("stomp", "nack", False, FAILS),
        ("stomp", "nack undone", False, SILENT),
        ("jms", "close", False, FAILS),
    ],
)
def test_who_says_goodbye_has_failed_to_process_nothing(
    via: str, left: str, losses: bool, verdict: VerdictKind
) -> None:
    """A count is how often it was delivered where JMS says so; elsewhere it may be of failures."""
    story = Builder("live")
    more = ["losses-count"] if losses else []
    offered = [word for word in story.header.capabilities if word != "losses-count"]
    story.header = msgspec.structs.replace(story.header, capabilities=[*offered, *more])
    story.connect("c0", via).send("p0/1").subscribe("c0/1").arrive("c0/1", "p0/1")
    # fmt: off
    ends = {"close": lambda: story.leave("c0/1"), "lose": lambda: story.lose("c0").connect("c0", via),
            "nack": lambda: story.nack("c0/1", "p0/1"),
            "nack undone": lambda: story.begin("c0").nack("c0/1", "p0/1", tx="c0/tx1").leave("c0/1").abort("c0")}
    # fmt: on
    ends[left]()
    told = story.subscribe("c0/2").arrive("c0/2", "p0/1", redelivered=True, delivery_count=1)
    assert kind(told, "RDL-008") is verdict


def two_lost(*, given: int = 2, marked: bool = True) -> Builder:
    """Two consumers of c0 are lost with it; ``given`` of them had given their application a message."""
    told = Builder().connect("p0").connect("c0").connect("c1").send("p0/1").send("p0/2", "q1")
    told.subscribe("c0/1").arrive("c0/1", "p0/1").subscribe("c0/2", "q1").arrive("c0/2", "p0/2")
    for number in range(1, given + 1):
        told.consume(f"c0/{number}", f"p0/{number}")
    told.lose("c0").rest(None).subscribe("c1/1").arrive("c1/1", "p0/1", redelivered=marked)
    return told


def test_all_consumers_of_a_lost_connection_give_back_marked() -> None:
    assert kind(two_lost(), "RDL-011") is HOLDS
    assert kind(two_lost(marked=False), "RDL-011") is FAILS
    assert kind(two_lost(given=1, marked=False), "RDL-011") is SILENT


# -- no mark on this wire (``redelivered`` is null)


@pytest.mark.parametrize("requirement", ["RDL-001", "RDL-008", "RDL-009", "RDL-010", "RDL-011", "RDL-016"])
@pytest.mark.parametrize("end", ["unsubscribe", "jms close", "lost"])
def test_where_no_mark_exists_none_is_missing_and_none_is_right(requirement: str, end: str) -> None:
    story = Builder().connect("p0").connect("c0", "jms" if end == "jms close" else "stomp").connect("c1")
    story.send("p0/1").send("p0/2").subscribe("c0/1").arrive("c0/1", "p0/1", "p0/2", redelivered=None)
    story = story.consume("c0/1", "p0/1")
    story = story.lose("c0") if end == "lost" else story.leave("c0/1")
    assert kind(back(story, marked=None), requirement) is SILENT


def test_a_message_that_is_lost_is_missed_without_any_mark() -> None:
    def story() -> Builder:
        found = Builder().connect("p0").connect("c0").connect("c1").send("p0/1").subscribe("c0/1")
        return found.arrive("c0/1", "p0/1", redelivered=None).consume("c0/1", "p0/1").lose("c0")

    assert outcome(story().subscribe("c1/1").arrive("c1/1", "p0/1", redelivered=None), "RDL-002") == (
        HOLDS,
        "came-back",
    )
    assert outcome(story().subscribe("c1/1").arrive("c1/1", "p0/1", redelivered=False), "RDL-002") == (
        FAILS,
        "unmarked",
    )
