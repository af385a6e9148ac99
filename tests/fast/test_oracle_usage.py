"""The oracle of memory figures on hand-written histories."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.configuration import DestinationSpec
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.oracles.usage import UsageOracle, most_specific
from tests.fast.chronicle import Chronicle

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
LIMIT = 16_384


def kind(story: Chronicle, requirement: str) -> VerdictKind:
    return story.judge(UsageOracle)[requirement].verdict


def new(limit: int = LIMIT, **declared: Any) -> Chronicle:
    return Chronicle(memory_limit_bytes=limit, **declared).connect("p0").connect("c0")


def read(story: Chronicle, dest: str | None = "q0", **figures: Any) -> Chronicle:
    """Counters at rest."""
    return story.read(dest, at_rest=True, **figures)


@pytest.mark.parametrize(
    ("used", "destinations", "verdict"),
    [(3000, 2, HOLDS), (3001, 2, FAILS), (2999, 2, FAILS), (3001, 3, SILENT), (2999, 3, FAILS)],
)
def test_sums(used: int, destinations: int, verdict: VerdictKind) -> None:
    """More on destinations than in the broker is wrong in any case, less only if all of them were read."""
    story = read(read(new(), "q0", memory_bytes=1000), "q1", memory_bytes=2000)
    assert kind(read(story, None, memory_bytes=used, destinations=destinations), "MEM-006") is verdict


def test_sums_of_different_moments_are_not_compared() -> None:
    story = read(new(), "q0", memory_bytes=1000).send("p0/1")
    assert kind(read(story, None, memory_bytes=10, destinations=1), "MEM-006") is SILENT


@pytest.mark.parametrize(
    ("used", "percent", "verdict"),
    [(11_468, 69, HOLDS), (11_468, 70, FAILS), (11_469, 70, HOLDS), (20_000, 122, HOLDS)],
)
def test_percentages(used: int, percent: int, verdict: VerdictKind) -> None:
    assert kind(read(new(), None, memory_bytes=used, memory_percent=percent), "MEM-007") is verdict


def test_percentages_of_a_limit_that_is_shown() -> None:
    def story(percent: int) -> Chronicle:
        return read(new(), "q0", memory_bytes=100, memory_percent=percent, memory_limit_bytes=150)

    assert kind(story(66), "MEM-007") is HOLDS
    assert kind(story(0), "MEM-007") is FAILS


@pytest.mark.parametrize(
    ("used", "verdict"),
    [(3 * 2000 - 1, FAILS), (3 * 2000, HOLDS), (3 * 3024, HOLDS), (3 * 4048, HOLDS), (3 * 4048 + 1, FAILS)],
)
@pytest.mark.parametrize("consumed", [False, True])
def test_charges(used: int, verdict: VerdictKind, consumed: bool) -> None:
    story = new(1 << 20)
    for number in range(1, 4):
        story.send(f"p0/{number}", size=2000)
    if consumed:
        story.subscribe("c0/1").arrive("c0/1", "p0/1")
    story = read(story, size=3, in_flight=int(consumed), memory_bytes=used)
    assert kind(story, "MEM-010" if consumed else "MEM-008") is verdict


@pytest.mark.parametrize(
    ("used", "end", "verdict"),
    [
        (3 * 2000 - 1, "", FAILS),
        (3 * 4048, "", HOLDS),
        (3 * 4048 + 1, "", FAILS),
        (2000, "abort", HOLDS),
        (4049, "abort", FAILS),
        (4049, "lost", SILENT),
        (4049, "closed", SILENT),
        (4049, "unknown", SILENT),
    ],
)
def test_what_open_transactions_have_sent_is_charged(used: int, end: str, verdict: VerdictKind) -> None:
    story = new(1 << 20).send("p0/1", size=2000).begin("p0")
    for number in (2, 3):
        story.send(f"p0/{number}", size=2000, tx="p0/tx1")
    if end == "abort":
        story.abort("p0")
    elif end == "lost":
        story.lose("p0")
    elif end == "closed":
        story.closed("p0")
    elif end == "unknown":
        story.abort("p0", result="unknown")
    story = read(story, size=1, memory_bytes=used)
    assert kind(story, "MEM-014") is verdict
    assert kind(story, "MEM-008") is SILENT


def test_charges_are_not_judged_under_pressure_or_when_the_size_is_another() -> None:
    story = read(new().send("p0/1", size=8000), size=1, memory_bytes=1)
    assert kind(story, "MEM-008") is SILENT
    story = read(new(1 << 20).send("p0/1", size=100), size=2, memory_bytes=1)
    assert kind(story, "MEM-008") is SILENT


def test_negative_figures() -> None:
    assert kind(read(new().send("p0/1"), size=0, memory_bytes=-1), "MEM-011") is FAILS
    assert kind(read(new().send("p0/1"), size=1, memory_bytes=0), "MEM-011") is HOLDS


def test_no_limit() -> None:
    assert kind(read(new(0), None, memory_bytes=5, memory_percent=0), "MEM-012") is HOLDS
    assert kind(read(new(0), None, memory_bytes=5, memory_percent=1), "MEM-012") is FAILS
    refused = new(0).send("p0/1", result="fail", refusal="no-space: memory")
    assert kind(refused, "MEM-012") is FAILS
    held_up = new(0).send("p0/1").send("p0/2").subscribe("c0/1").arrive("c0/1", "p0/1")
    assert kind(held_up.rest("q0"), "MEM-012") is FAILS


ENTRIES = [DestinationSpec(">", memory_limit_bytes=5000), DestinationSpec("q0", memory_limit_bytes=9000)]


@pytest.mark.parametrize(("dest", "shown", "verdict"), [("q0", 9000, HOLDS), ("q0", 5000, FAILS), ("q1", 9000, SILENT)])
def test_entries(dest: str, shown: int, verdict: VerdictKind) -> None:
    story = read(new(destinations=ENTRIES), dest, memory_limit_bytes=shown)
    assert kind(story, "MEM-017") is verdict


@pytest.mark.parametrize(
    ("patterns", "dest", "winner"),
    [
        ([">", "A.>", "A.b"], "A.b", "A.b"),
        ([">", "A.>"], "A.b", "A.>"),
        (["A.*", "A.>"], "A.b", None),
        (["A.*", "*.b"], "A.b", None),
        ([">"], "x", ">"),
        (["A.>"], "B", None),
    ],
)
def test_the_most_specific_entry(patterns: list[str], dest: str, winner: str | None) -> None:
    found = most_specific([DestinationSpec(pattern) for pattern in patterns], dest)
    assert (None if found is None else found.match) == winner


def test_large_messages() -> None:
    assert kind(new().send("p0/1", size=LIMIT + 1, result="fail", refusal="memory limit"), "MEM-018") is FAILS
    delivered = new().send("p0/1", size=LIMIT + 1).subscribe("c0/1").arrive("c0/1", "p0/1")
    assert kind(delivered, "MEM-018") is HOLDS
    pressed = new().send("p0/1", size=9000).send("p0/2", size=LIMIT + 1, result="fail", refusal="memory limit")
    assert kind(pressed, "MEM-018") is SILENT


@pytest.mark.parametrize(("used", "verdict"), [(5000, FAILS), (6000, HOLDS), (14_000, HOLDS), (14_542, FAILS)])
def test_the_mark(used: int, verdict: VerdictKind) -> None:
    """70 % of 16384 are 11469; a message costs at most 3072."""
    story = new()
    for number in range(1, 11):
        story.send(f"p0/{number}", size=1024)
    assert kind(read(story, size=10, memory_bytes=used), "MEM-019") is verdict


def test_the_mark_means_nothing_after_somebody_consumed_or_for_other_messages() -> None:
    story = new().subscribe("c0/1", "q1").send("p0/1")
    assert kind(read(story, size=1, memory_bytes=16_000), "MEM-019") is SILENT
    assert kind(read(new().send("p0/1", persistent=False), size=1, memory_bytes=16_000), "MEM-019") is SILENT


@pytest.mark.parametrize(("later", "verdict"), [(4000, HOLDS), (4001, FAILS)])
def test_loading(later: int, verdict: VerdictKind) -> None:
    story = new().send("p0/1", size=4000).send("p0/2", size=4000)
    read(story, size=2, enqueued=2, scheduled=0, memory_bytes=4000).wait(1000)
    assert kind(read(story, size=2, enqueued=2, scheduled=0, memory_bytes=later), "MEM-024") is verdict


def test_loading_for_a_consumer_is_right() -> None:
    story = read(new().send("p0/1", size=4000), size=1, enqueued=1, scheduled=0, memory_bytes=0).subscribe("c0/1")
    assert kind(read(story, size=1, enqueued=1, scheduled=0, memory_bytes=5000), "MEM-024") is SILENT


def test_a_refused_send_never_arrives() -> None:
    def story(**refused: Any) -> Chronicle:
        return new(generation={"memory": "G3"}).send("p0/1", **refused).subscribe("c0/1")

    refused = {"result": "fail", "refusal": "no-space: no memory"}
    assert kind(story(**refused).arrive("c0/1", "p0/1"), "MEM-027") is FAILS
    assert kind(story(result="fail", refusal="bad-destination").arrive("c0/1", "p0/1"), "MEM-027") is SILENT
    assert kind(story(result="unknown").arrive("c0/1", "p0/1"), "MEM-027") is HOLDS


@pytest.mark.parametrize(
    ("shown", "declared", "verdict"),
    [
        (500, {}, HOLDS),
        (LIMIT, {}, FAILS),
        (LIMIT, {"destinations": [DestinationSpec("q0", memory_limit_bytes=5)]}, SILENT),
    ],
)
def test_limits_follow_the_brokers(shown: int, declared: dict[str, Any], verdict: VerdictKind) -> None:
    story = read(new(**declared), memory_bytes=0, memory_limit_bytes=LIMIT)
    story.operate("limit", dest="", limit_bytes=500)
    assert kind(read(story, memory_bytes=0, memory_limit_bytes=shown), "MEM-013") is verdict


def test_what_rests_on_a_limit_that_was_changed_is_not_judged() -> None:
    story = new(0).operate("limit", dest="", limit_bytes=500).send("p0/1", result="fail", refusal="no space")
    story = read(story, memory_bytes=300, memory_percent=60)
    assert kind(story, "MEM-012") is kind(story, "MEM-007") is SILENT
