"""GEN-050, RDL-027 on hand-written histories: ``c0/1`` has a window of one, and two messages may wait for it."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.configuration import PolicySpec
from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import DLQ, EPOCH_MS, Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def slow(count: int = 4, limit: int | None = 2, **fields: Any) -> Builder:
    """Message 1 fills the window; then ``count`` others are published."""
    story = Builder(policies=[PolicySpec(pending_message_limit=limit)]).connect("p0").connect("c0")
    story.subscribe("c0/1", "t0", 1, **fields).send("p0/1", "t0").arrive("c0/1", "p0/1").rest("t0")
    for number in range(count):
        story.send(f"p0/{number + 2}", "t0")
    return story.rest("t0").ack("c0/1", "p0/1")


def gets(story: Builder, *messages: str) -> Builder:
    for message in messages:
        story.arrive("c0/1", message).ack("c0/1", message)
    return story.rest("t0")


def outcome(story: Builder) -> tuple[VerdictKind, str]:
    verdict = story.verdicts("GEN-050")["GEN-050"]
    return verdict.verdict, verdict.outcome


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (("p0/4", "p0/5"), (HOLDS, "newest-kept")),
        (("p0/2", "p0/3"), (FAILS, "newest-lost")),
        (("p0/4",), (FAILS, "newest-lost")),
        (("p0/3", "p0/4", "p0/5"), (FAILS, "hoarded")),
        ((), (FAILS, "newest-lost")),
    ],
)
def test_the_newest_two_are_kept(messages: tuple[str, ...], expected: tuple[VerdictKind, str]) -> None:
    assert outcome(gets(slow(), *messages)) == expected


def test_fewer_than_the_limit_are_all_kept() -> None:
    assert outcome(gets(slow(2), "p0/2", "p0/3")) == (HOLDS, "newest-kept")
    assert outcome(gets(slow(1)))[0] is FAILS


@pytest.mark.parametrize(
    "story",
    [
        gets(slow(limit=None)),
        gets(slow(durable="d1")),
        gets(slow(selector="kind = 'a'")),
        gets(slow(result="unknown")),
        slow(),  # no room since
        slow().send("p0/9", "t0", expiration_ms=EPOCH_MS),
    ],
)
def test_where_nothing_is_promised(story: Builder) -> None:
    assert outcome(story)[0] is not FAILS


@pytest.mark.parametrize(
    ("sent", "arrived", "expected"),
    [
        (3, (1, 2, 3), HOLDS),
        (3, (1, 3), FAILS),
        (3, (), FAILS),
        (4, (1, 2, 3), HOLDS),  # the fourth found no room
        (4, (1, 2, 4), FAILS),
    ],
)
def test_what_finds_room_never_waits(sent: int, arrived: tuple[int, ...], expected: VerdictKind) -> None:
    story = Builder(policies=[PolicySpec(pending_message_limit=0)]).connect("p0").connect("p1").connect("c0")
    story.send("p0/9", "t0").subscribe("c0/1", "t0", 3)  # what was there before takes none of it
    for number in range(sent):
        story.send(f"p0/{number + 1}", "t0")
    story.arrive("c0/1", *(f"p0/{number}" for number in arrived)).rest("t0")
    assert outcome(story.ack("c0/1", *(f"p0/{number}" for number in arrived)).rest("t0"))[0] is expected
    assert outcome(story.send("p1/1", "t0", delay_ms=1).rest("t0"))[0] is not FAILS  # when it comes is not known


def test_who_settles_what_is_written_finds_room_as_well() -> None:
    for arrived, expected in ((("p0/1", "p0/2"), HOLDS), (("p0/2",), FAILS)):
        story = Builder(policies=[PolicySpec(pending_message_limit=0)]).connect("p0").connect("c0")
        story.subscribe("c0/1", "t0", 3, ack="auto").send("p0/1", "t0").send("p0/2", "t0")
        assert outcome(story.arrive("c0/1", *arrived).rest("t0").rest("t0"))[0] is expected


def test_a_settlement_in_between_opens_the_window() -> None:
    story = slow(0).arrive("c0/1").send("p0/2", "t0").arrive("c0/1", "p0/2").rest("t0")
    for number in range(3, 6):
        story.send(f"p0/{number}", "t0").arrive("c0/1", f"p0/{number}").ack("c0/1", f"p0/{number - 1}")
    assert outcome(story.rest("t0"))[0] is not FAILS


@pytest.mark.parametrize(
    ("limit", "sent", "fields", "letter", "expected"),
    [
        (2, 3, {}, False, FAILS),
        (2, 3, {}, True, HOLDS),
        (2, 2, {}, False, SILENT),  # both may wait
        (0, 3, {}, False, SILENT),  # nothing ever waits there
        (2, 3, {"persistent": False}, False, SILENT),
        (2, 3, {"expiration_ms": EPOCH_MS + 60_000}, False, SILENT),
    ],
)
def test_what_is_thrown_out_is_dead_lettered(
    limit: int, sent: int, fields: dict[str, Any], letter: bool, expected: VerdictKind
) -> None:
    story = Builder(policies=[PolicySpec(pending_message_limit=limit)]).connect("p0").connect("c0")
    story.subscribe("c0/1", "t0", prefetch=1).send("p0/1", "t0").arrive("c0/1", "p0/1")
    for number in range(2, 2 + sent):
        story.send(f"p0/{number}", "t0", **fields)
    story.drain(DLQ)
    if letter:
        story.arrive("drain/1", "p0/2", dest=DLQ, original_dest="t0")
    assert story.end().verdicts("RDL-027")["RDL-027"].verdict is expected
