"""The oracle of what is loaded when, on hand-written histories."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.configuration import DestinationSpec
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.oracles.loading import LoadingOracle
from tests.fast.chronicle import Chronicle

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
#: 70 % are 7000 bytes. A body of 952 bytes costs 3000 at most.
LIMIT = 10_000
BODY = 952


def new(**entry: Any) -> Chronicle:
    entry.setdefault("expire_period_ms", 0)
    story = Chronicle(memory_limit_bytes=LIMIT, destinations=[DestinationSpec(**entry)])
    return story.connect("p0").connect("c0")


def sent(story: Chronicle, *numbers: int, **fields: Any) -> Chronicle:
    for number in numbers:
        story.send(f"p0/{number}", size=BODY, **fields)
    return story


def read(story: Chronicle, used: int, size: int = 50, **figures: Any) -> Chronicle:
    return story.read("q0", at_rest=True, memory_bytes=used, size=size, **figures)


def kind(story: Chronicle, requirement: str) -> VerdictKind:
    return story.judge(LoadingOracle)[requirement].verdict


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(7000, 7000, HOLDS), (7000, 6000, HOLDS), (7000, 7001, FAILS), (6999, 9000, SILENT)],
)
def test_what_arrives_at_the_mark(before: int, after: int, verdict: VerdictKind) -> None:
    story = read(sent(read(sent(new(), 1), before), 2), after)
    assert kind(story, "MEM-009") is verdict
    assert kind(story, "MEM-016") is SILENT


@pytest.mark.parametrize(("entry", "verdict"), [({"high_water_percent": 80}, SILENT), ({"match": "x"}, SILENT)])
def test_another_mark_or_none_that_is_known(entry: dict[str, Any], verdict: VerdictKind) -> None:
    assert kind(read(sent(read(new(**entry), 7500), 2), 9000), "MEM-009") is verdict


@pytest.mark.parametrize("fields", [{"persistent": False}, {"delay_ms": 5}, {"tx": "p0/tx1"}, {"result": "unknown"}])
def test_queues_that_got_anything_else_are_not_judged(fields: dict[str, Any]) -> None:
    assert kind(read(sent(read(new(), 8000), 2, **fields), 9000), "MEM-009") is SILENT


@pytest.mark.parametrize("what", ["purge", "browser", "wildcard", "consumer"])
def test_queues_that_anybody_touched_are_not_judged(what: str) -> None:
    story = read(new(), 8000)
    if what == "purge":
        story.operate("purge")
    else:
        story.subscribe("c0/1", dest="q*" if what == "wildcard" else "q0", browser=what == "browser")
    assert kind(read(sent(story, 2), 9000), "MEM-009") is SILENT


@pytest.mark.parametrize(
    ("before", "after", "waited_ms", "verdict"),
    [
        (0, 12_000, 1001, HOLDS),  # two sweeps may have come: four messages
        (0, 12_001, 900, FAILS),
        (0, 3000, 500, SILENT),  # perhaps none came
        (7000, 7001, 1001, FAILS),
        (7000, 7000, 1001, HOLDS),
        (0, 6001, 100, FAILS),
    ],
)
def test_sweeps(before: int, after: int, waited_ms: float, verdict: VerdictKind) -> None:
    story = sent(new(expire_period_ms=1000, max_expire_page_size=2), 1)
    story = read(read(story, before).wait(waited_ms), after)
    assert kind(story, "MEM-016") is verdict


@pytest.mark.parametrize(
    ("used", "in_flight", "verdict", "outcome"),
    [
        (6000, 1, HOLDS, "one-page"),
        (9000, 1, HOLDS, "a-window"),
        (9001, 1, FAILS, "more-than-a-page"),
        (30_000, 8, HOLDS, "a-window"),
        (0, 1, SILENT, ""),
    ],
)
def test_the_first_consumer(used: int, in_flight: int, verdict: VerdictKind, outcome: str) -> None:
    story = sent(new(max_page_size=2), 1).restart()
    story = read(story, 0).subscribe("c0/1", prefetch=8)
    judged = read(story, used, in_flight=in_flight).judge(LoadingOracle)["MEM-023"]
    assert (judged.verdict, judged.outcome) == (verdict, outcome)


@pytest.mark.parametrize("what", ["another", "auto", "ack", "send", "in memory", "a page"])
def test_any_other_wake_up_is_not_judged(what: str) -> None:
    story = read(sent(new(max_page_size=2), 1), 1 if what == "in memory" else 0, size=2 if what == "a page" else 50)
    story.subscribe("c0/1", ack="auto" if what == "auto" else "client")
    if what == "another":
        story.subscribe("c0/2")
    elif what == "ack":
        story.ack("c0/1", "p0/1")
    elif what == "send":
        sent(story, 2)
    assert kind(read(story, 99_000), "MEM-023") is SILENT
