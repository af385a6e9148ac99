"""The oracle of room on the disk, on hand-written histories."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.oracles.room import RoomOracle
from tests.fast.chronicle import Chronicle

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
STORE = 4000
TEMP = 4000
MEMORY = 1000
NO_ROOM = "javax.jms.ResourceAllocationException: no room in the store"


def new(**declared: Any) -> Chronicle:
    settings = {"persistent": True, "store_limit_bytes": STORE, "temp_limit_bytes": TEMP, "memory_limit_bytes": MEMORY}
    return Chronicle(**{**settings, **declared}).connect("p0").connect("c0")


def kept(story: Chronicle, *sizes: int, persistent: bool = True, **fields: Any) -> Chronicle:
    for number, size in enumerate(sizes):
        story.send(f"p0/{len(story.events)}{number}", size=size, persistent=persistent, **fields)
    return story


def kind(story: Chronicle, requirement: str) -> VerdictKind:
    return story.judge(RoomOracle)[requirement].verdict


@pytest.mark.parametrize(
    ("size", "result", "verdict"),
    [
        (2000, "ok", FAILS),
        (2000, "fail", HOLDS),
        (2000, "unknown", HOLDS),
        (1999, "ok", SILENT),
        (1999, "fail", SILENT),
    ],
)
def test_the_store(size: int, result: str, verdict: VerdictKind) -> None:
    story = kept(kept(new(), 2000, size), 1, result=result)
    assert kind(story, "MEM-028") is verdict
    assert kind(story, "MEM-029") is SILENT


@pytest.mark.parametrize("declared", [{"persistent": False}, {"store_limit_bytes": 0}])
def test_without_a_store_or_a_limit(declared: dict[str, Any]) -> None:
    assert kind(kept(new(**declared), 9000, 9000), "MEM-028") is SILENT


@pytest.mark.parametrize(
    ("sizes", "result", "verdict"),
    [
        ([1000] * 9, "ok", FAILS),  # files, memory, and the largest message with all that it may cost: 8048
        ([1000] * 8, "ok", SILENT),
        ([1000] * 4, "unknown", HOLDS),
        ([1000] * 4, "fail", HOLDS),
        ([1000] * 3, "unknown", SILENT),
    ],
)
def test_temporary_files(sizes: list[int], result: str, verdict: VerdictKind) -> None:
    story = kept(kept(new(), *sizes, persistent=False), 1, persistent=False, result=result)
    assert kind(story, "MEM-029") is verdict


@pytest.mark.parametrize("what", ["given", "purged", "auto", "wildcard", "mortal", "delayed", "transaction", "topic"])
def test_what_may_have_gone_fills_nothing(what: str) -> None:
    story = new()
    fields = {
        "mortal": {"expiration_ms": 5},
        "delayed": {"delay_ms": 5},
        "transaction": {"tx": "p0/tx1"},
        "topic": {"dest": "t0"},
    }
    kept(story, 9000, **fields.get(what, {}))
    message = story.events[-1].message  # type: ignore[attr-defined]  # it is a send
    if what == "purged":
        story.operate("purge")
    elif what in {"given", "auto", "wildcard"}:
        story.subscribe("c0/1", dest="q*" if what == "wildcard" else "q0", ack="auto" if what == "auto" else "client")
        if what == "given":
            story.arrive("c0/1", message)
    assert kind(kept(story, 1), "MEM-028") is SILENT


@pytest.mark.parametrize(
    ("before", "persistent", "generation", "verdict"),
    [
        (1900, True, "fair", FAILS),
        (1951, True, "fair", SILENT),
        (1900, False, "fair", FAILS),
        (1900, True, "G3", SILENT),
    ],
)
def test_refusals(before: int, persistent: bool, generation: str, verdict: VerdictKind) -> None:
    story = kept(new(generation={"memory": generation}), before, persistent=persistent)
    kept(story, 1, persistent=persistent, result="fail", refusal=NO_ROOM)
    assert kind(story, "MEM-030") is verdict


@pytest.mark.parametrize(("size", "verdict"), [(4000, HOLDS), (3999, SILENT)])
@pytest.mark.parametrize("persistent", [True, False])
def test_the_other_kind_goes_through(size: int, verdict: VerdictKind, persistent: bool) -> None:
    story = kept(kept(new(), size, persistent=not persistent), 1, persistent=persistent)
    assert kind(story, "MEM-030") is verdict
