"""What producers are told when there is no room, on hand-written histories."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import PolicySpec
from brokerproof.conformance.experiment.peers import Heard, Said
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from tests.fast.conformance.rules.history_builder import Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
STORE = 4000
TEMP = 4000
MEMORY = 1000
NO_ROOM = "javax.jms.ResourceAllocationException: no room in the store"


def new(**declared: Any) -> Builder:
    settings = {"persistent": True, "store_limit_bytes": STORE, "temp_limit_bytes": TEMP, "memory_limit_bytes": MEMORY}
    return Builder(**{**settings, **declared}).connect("p0").connect("c0")


def kept(story: Builder, *sizes: int, persistent: bool = True, **fields: Any) -> Builder:
    for number, size in enumerate(sizes):
        story.send(f"p0/{len(story.events)}{number}", size=size, persistent=persistent, **fields)
    return story


def judge(story: Builder, requirement: str) -> Verdict:
    return story.verdicts(requirement)[requirement]


def kind(story: Builder, requirement: str) -> VerdictKind:
    return judge(story, requirement).verdict


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


@pytest.mark.parametrize("what", ["taken", "purged", "auto", "mortal", "delayed", "transaction", "topic"])
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
    elif what == "auto":
        story.subscribe("c0/1", ack="auto")
    elif what == "taken":
        story.subscribe("c0/1").arrive("c0/1", message).ack("c0/1", message)
    assert kind(kept(story, 1), "MEM-028") is SILENT


@pytest.mark.parametrize("what", ["held", "wildcard", "purged elsewhere", "a consumer came later", "restart"])
def test_what_is_certain_to_be_there_fills_it(what: str) -> None:
    story = kept(new(), 9000)
    message = story.events[-1].message  # type: ignore[attr-defined]  # it is a send
    if what == "held":
        story.subscribe("c0/1").arrive("c0/1", message)
    elif what == "wildcard":
        story.subscribe("c0/1", "q*")
    elif what == "purged elsewhere":
        story.operate("purge", dest="q1")
    elif what == "restart":
        story.restart().connect("p0")
    kept(story, 1)
    if what == "a consumer came later":
        story.subscribe("c0/1", ack="auto")
    assert kind(story, "MEM-028") is FAILS


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


@pytest.mark.parametrize(("letters", "verdict"), [(False, FAILS), (True, SILENT)])
def test_dead_letters_of_what_is_not_persistent_are_in_the_store(letters: bool, verdict: VerdictKind) -> None:
    story = kept(new(dead_letter_non_persistent=letters), 2000, persistent=False)
    assert kind(kept(story, 1, result="fail", refusal=NO_ROOM), "MEM-030") is verdict


@pytest.mark.parametrize(
    ("before", "ms", "world", "generation", "room", "behind"),
    [
        (100, 1000, "simulated", "fair", FAILS, FAILS),
        (100, 999, "simulated", "fair", SILENT, HOLDS),
        (2000, 1000, "simulated", "fair", SILENT, FAILS),
        (100, 1000, "live", "fair", SILENT, HOLDS),  # a real library may keep back what follows
        (100, 1000, "simulated", "G3", SILENT, HOLDS),
    ],
)
def test_what_has_room_does_not_wait(
    before: int, ms: int, world: str, generation: str, room: VerdictKind, behind: VerdictKind
) -> None:
    story = kept(new(generation={"memory": generation}), before)
    story.header = msgspec.structs.replace(story.header, world=world)
    story.request_ms = ms
    kept(kept(story, 4000, persistent=False, result="unknown"), 1, result="unknown")
    assert kind(story, "MEM-030") is room
    assert kind(story.subscribe("c0/1", result="unknown").subscribe("p0/9", result="unknown"), "GEN-110") is behind


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize(("result", "verdict"), [("ok", FAILS), ("unknown", SILENT), ("fail", SILENT)])
def test_what_has_left_makes_room(persistent: bool, result: str, verdict: VerdictKind) -> None:
    story = new().send("p0/1", size=2000, persistent=persistent).send("p0/2", size=1000, persistent=persistent)
    story.subscribe("c0/1").arrive("c0/1", "p0/1").ack("c0/1", "p0/1", result=result)
    assert kind(kept(story, 1, persistent=persistent, result="fail", refusal=NO_ROOM), "MEM-030") is verdict


@pytest.mark.parametrize(("durable", "left", "verdict"), [("", True, FAILS), ("", False, SILENT), ("d", True, SILENT)])
def test_what_a_topic_keeps_for_nobody_makes_room(durable: str, left: bool, verdict: VerdictKind) -> None:
    story = new().subscribe("c0/1", "t0", durable=durable).send("p0/1", "t0", size=3000, persistent=False)
    if left:
        story.leave("c0/1").rest("t0")
    assert kind(kept(story, 1, persistent=False, result="fail", refusal=NO_ROOM), "MEM-030") is verdict


@pytest.mark.parametrize(("durable", "verdict"), [("d", FAILS), ("", SILENT)])
def test_only_what_is_not_stored_is_in_temporary_files(durable: str, verdict: VerdictKind) -> None:
    story = new().subscribe("c0/1", "t0", durable=durable).send("p0/1", "t0", size=3000)
    refused = story.send("p0/2", "t0", size=1, persistent=False, result="fail", refusal=NO_ROOM)
    assert kind(refused, "MEM-030") is verdict


@pytest.mark.parametrize(
    ("durable", "files", "verdict"),
    [("d", 3900, FAILS), ("", 3900, SILENT), ("", 100, FAILS), (None, 3900, FAILS)],
)
def test_a_persistent_publication_needs_files_for_who_is_not_durable(
    durable: str | None, files: int, verdict: VerdictKind
) -> None:
    story = kept(new(), files, persistent=False)
    if durable is not None:
        story.subscribe("c0/1", "t0", durable=durable)
    story.send("p0/7", "t0", size=1, result="fail", refusal=NO_ROOM)
    assert kind(story, "MEM-030") is verdict


def flood(**fields: Any) -> Builder:
    said = Said("stomp", "good", (0, 0), says="beats", every_ms=100, **fields)
    return new().probe(500, said, Heard())


@pytest.mark.parametrize(
    ("fields", "waited_ms", "verdict"),
    [
        ({"deaf": True}, 1100, FAILS),
        ({"deaf": True}, 1000, FAILS),
        ({"dialogues": ["hello"]}, 1100, SILENT),
    ],
)
def test_who_floods_takes_all_along(fields: dict[str, Any], waited_ms: int, verdict: VerdictKind) -> None:
    story = flood(**fields)
    story.request_ms = waited_ms
    assert kind(kept(story, 1, persistent=False, result="unknown"), "MEM-030") is verdict
    wild = flood(**fields)
    wild.request_ms = waited_ms
    wild.subscribe("c0/1", "t*", durable="d")
    assert kind(kept(wild, 1, persistent=False, result="unknown"), "MEM-030") is SILENT


def test_a_flood_may_still_have_filled_it() -> None:
    refused = kept(flood(deaf=True), 1, persistent=False, result="fail", refusal=NO_ROOM)
    assert kind(refused, "MEM-030") is SILENT
    later = kept(flood(deaf=True).wait(1000), 1, persistent=False, result="fail", refusal=NO_ROOM)
    assert kind(later, "MEM-030") is FAILS


@pytest.mark.parametrize(("size", "verdict"), [(4000, HOLDS), (3999, SILENT)])
@pytest.mark.parametrize("persistent", [True, False])
def test_the_other_kind_goes_through(size: int, verdict: VerdictKind, persistent: bool) -> None:
    story = kept(kept(new(), size, persistent=not persistent), 1, persistent=persistent)
    assert kind(story, "MEM-030") is verdict


# -- memory


def test_messages_beyond_the_limit_are_kept() -> None:
    def story() -> Builder:
        told = Builder(memory_limit_bytes=4000).connect("p0")
        return told.send("p0/1", size=1000).send("p0/2", size=1000).drain("q0")

    assert kind(story().arrive("drain/1", "p0/1", "p0/2").end(), "MEM-005") is HOLDS
    verdict = judge(story().arrive("drain/1", "p0/1").end(), "MEM-005")
    assert (verdict.verdict, verdict.outcome) == (FAILS, "lost")
    # The first one was within the limit: losing it is GEN-001's business.
    assert kind(story().arrive("drain/1", "p0/2").end(), "MEM-005") is HOLDS


def test_a_message_that_is_still_there_is_stuck_and_not_lost() -> None:
    told = Builder(memory_limit_bytes=4000).connect("p0").send("p0/1", size=1000).send("p0/2", size=1000).drain("q0")
    assert kind(told.arrive("drain/1", "p0/1").rest("q0", size=1).end(), "MEM-005") is SILENT


def test_a_persistent_message_is_not_refused_for_memory() -> None:
    def story(**fields: Any) -> Builder:
        return Builder().send("p0/1", result="fail", **fields)

    assert kind(story(refusal="Usage Manager memory limit reached"), "MEM-005") is FAILS
    assert kind(story(refusal="bad destination"), "MEM-005") is SILENT
    assert kind(story(refusal="memory limit reached", persistent=False), "MEM-005") is SILENT


@pytest.mark.parametrize(("match", "verdict"), [("q1", FAILS), ("q0", SILENT), (">", SILENT)])
def test_whoever_asked_for_refusals_gets_them(match: str, verdict: VerdictKind) -> None:
    story = Builder(policies=[PolicySpec(match, send_fail_if_no_space=True)])
    assert kind(story.send("p0/1", result="fail", refusal="memory limit reached"), "MEM-005") is verdict


def memory(limit: int, **declared: Any) -> Builder:
    return Builder(memory_limit_bytes=limit, **declared).connect("p0").connect("c0")


def test_no_limit() -> None:
    assert kind(memory(0).rest(None, memory_bytes=5, memory_percent=0), "MEM-012") is HOLDS
    assert kind(memory(0).rest(None, memory_bytes=5, memory_percent=1), "MEM-012") is FAILS
    refused = memory(0).send("p0/1", result="fail", refusal="no-space: memory")
    assert kind(refused, "MEM-012") is FAILS
    held_up = memory(0).send("p0/1").send("p0/2").subscribe("c0/1").arrive("c0/1", "p0/1")
    assert kind(held_up.rest("q0"), "MEM-012") is FAILS


@pytest.mark.parametrize(("match", "verdict"), [("q1", FAILS), ("q0", SILENT)])
def test_a_limit_of_another_queue_is_no_limit_here(match: str, verdict: VerdictKind) -> None:
    story = memory(0, policies=[PolicySpec(match, memory_limit_bytes=5)])
    story.send("p0/1", result="fail", refusal="no-space: memory")
    assert kind(story.send("p0/2").subscribe("c0/1").rest("q0"), "MEM-012") is verdict


LIMIT = 16_384


def test_large_messages() -> None:
    assert kind(memory(LIMIT).send("p0/1", size=LIMIT + 1, result="fail", refusal="memory limit"), "MEM-018") is FAILS
    delivered = memory(LIMIT).send("p0/1", size=LIMIT + 1).subscribe("c0/1").arrive("c0/1", "p0/1")
    assert kind(delivered, "MEM-018") is HOLDS
    pressed = memory(LIMIT).send("p0/1", size=9000).send("p0/2", size=LIMIT + 1, result="fail", refusal="memory limit")
    assert kind(pressed, "MEM-018") is SILENT


@pytest.mark.parametrize(
    ("fails", "waits_ms", "verdict"), [(True, 1000, FAILS), (True, 999, SILENT), (False, 1000, SILENT)]
)
def test_what_is_to_be_refused_does_not_wait(fails: bool, waits_ms: int, verdict: VerdictKind) -> None:
    entry = PolicySpec(send_fail_if_no_space=fails)
    story = memory(LIMIT, generation={"memory": "G3"}, policies=[entry])
    story.request_ms = waits_ms
    assert kind(story.send("p0/1", result="unknown").rest("q0"), "MEM-027") is verdict


def test_a_refused_send_never_arrives() -> None:
    def story(**refused: Any) -> Builder:
        return memory(LIMIT, generation={"memory": "G3"}).send("p0/1", **refused).subscribe("c0/1")

    refused = {"result": "fail", "refusal": "no-space: no memory"}
    assert kind(story(**refused).arrive("c0/1", "p0/1"), "MEM-027") is FAILS
    assert kind(story(result="fail", refusal="bad-destination").arrive("c0/1", "p0/1"), "MEM-027") is SILENT
    assert kind(story(result="unknown").arrive("c0/1", "p0/1"), "MEM-027") is HOLDS


@pytest.mark.parametrize(("percent", "verdict"), [(99, SILENT), (100, FAILS)])
def test_nothing_is_accepted_at_once_while_memory_is_full(percent: int, verdict: VerdictKind) -> None:
    story = memory(LIMIT, generation={"memory": "G3"}).rest("q0", memory_percent=percent).connect("p1").send("p1/1")
    assert kind(story, "MEM-027") is verdict
    freed = memory(LIMIT, generation={"memory": "G3"}).rest("q0", memory_percent=percent).operate("purge").send("p0/1")
    assert kind(freed, "MEM-027") is SILENT


@pytest.mark.parametrize(
    ("own", "whole", "refused", "world", "verdict"),
    [
        (LIMIT - 1, LIMIT - 1, "no memory", "simulated", FAILS),
        (None, LIMIT - 1, "no memory", "simulated", FAILS),
        (LIMIT - 1, LIMIT, "no memory", "simulated", SILENT),
        (LIMIT, LIMIT - 1, "no memory", "simulated", SILENT),
        (LIMIT - 1, LIMIT - 1, "bad-destination", "simulated", SILENT),
        (LIMIT - 1, LIMIT - 1, "no memory", "live", SILENT),
    ],
)
def test_nobody_is_refused_while_there_is_room_to_the_byte(
    own: int | None, whole: int, refused: str, world: str, verdict: VerdictKind
) -> None:
    entry = PolicySpec(send_fail_if_no_space=True, expire_period_ms=0)
    story = memory(LIMIT, generation={"memory": "G3"}, policies=[entry], world=world)
    told = {} if own is None else {"size": 3, "memory_bytes": own, "memory_limit_bytes": LIMIT}
    story.rest("q0", **told).rest("q1", size=0, memory_bytes=0).rest(None, memory_bytes=whole)
    assert kind(story.send("p0/1", result="fail", refusal=refused), "MEM-027") is verdict


@pytest.mark.parametrize(("size", "used", "verdict"), [(1, 5000, FAILS), (1, 3000, SILENT), (2, 5000, SILENT)])
def test_a_sweep_may_have_read_what_was_stored(size: int, used: int, verdict: VerdictKind) -> None:
    """One message of 3,000 bytes and what it weighs beside them is there for certain."""
    story = memory(LIMIT, generation={"memory": "G3"}, policies=[PolicySpec(send_fail_if_no_space=True)])
    story.send("p0/1", size=3000).rest("q0", size=size, memory_bytes=used, memory_limit_bytes=LIMIT)
    story.rest("q1", size=0, memory_bytes=0).rest(None, size=size, memory_bytes=used)
    assert kind(story.send("p0/2", result="fail", refusal="no memory"), "MEM-027") is verdict


def test_a_message_in_between_may_have_taken_the_room() -> None:
    story = memory(
        LIMIT, generation={"memory": "G3"}, policies=[PolicySpec(send_fail_if_no_space=True, expire_period_ms=0)]
    )
    story.rest("q0", size=3, memory_bytes=9, memory_limit_bytes=LIMIT).rest(None, memory_bytes=9)
    story.send("p0/1", "q1").send("p0/2", result="fail", refusal="no memory")
    assert kind(story, "MEM-027") is SILENT


@pytest.mark.parametrize(
    ("what", "verdict"),
    [
        ("backlog", FAILS),
        ("volatile", FAILS),
        ("to a queue", FAILS),
        ("kept in the store", SILENT),
        ("durable", SILENT),
        ("live", SILENT),
        ("limited", SILENT),
        ("settled", SILENT),
    ],
)
def test_backlogs_of_topics_fill_temporary_files(what: str, verdict: VerdictKind) -> None:
    limited = [PolicySpec(pending_message_limit=3)] if what == "limited" else []
    story = new(world="live" if what == "live" else "simulated", store_limit_bytes=0, policies=limited)
    story.subscribe("c0/1", "t0", durable="d1" if what == "durable" else "", prefetch=1)
    for number in range(4):
        story.send(f"p0/{number}", "t0", size=1500)
    story.arrive("c0/1", "p0/0", dest="t0")
    if what == "settled":
        story.ack("c0/1", "p0/0").arrive("c0/1", "p0/1", "p0/2", "p0/3", dest="t0")
    queue = what in {"to a queue", "kept in the store"}
    story.wait(1).send("p0/9", "q0" if queue else "t0", size=1, persistent=what not in {"volatile", "to a queue"})
    assert kind(story.wait(2000), "MEM-029") is verdict
