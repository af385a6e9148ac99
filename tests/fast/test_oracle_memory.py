"""MEM-001 to MEM-005 on hand-written histories."""

from __future__ import annotations

from typing import Any

from brokerproof.conformance.experiment.configuration import DestinationSpec
from brokerproof.conformance.experiment.history import Operate
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.oracles.memory import MemoryOracle
from tests.fast.chronicle import DLQ, Chronicle

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
LIMIT = 16_384


def judge(story: Chronicle) -> dict[str, Verdict]:
    return story.judge(MemoryOracle)


def kind(story: Chronicle, requirement: str) -> VerdictKind:
    return judge(story)[requirement].verdict


def hoard(messages: int = 8, limit: int = LIMIT) -> Chronicle:
    """One message on q0, and a backlog on q1 that nobody consumes."""
    story = Chronicle(memory_limit_bytes=limit).connect("p0").connect("c0").send("p0/1")
    for number in range(2, messages + 2):
        story.send(f"p0/{number}", "q1", size=1024)
    return story.subscribe("c0/1", "q0")


def test_a_consumer_starves_beside_a_hoard() -> None:
    verdict = judge(hoard().rest("q0"))["MEM-001"]
    assert (verdict.verdict, verdict.outcome) == (FAILS, "starved")
    assert "p0/1" in verdict.text
    assert "q0" in verdict.text


def test_a_consumer_is_served_beside_a_hoard() -> None:
    verdict = judge(hoard().arrive("c0/1", "p0/1").rest("q0"))["MEM-001"]
    assert verdict.verdict is HOLDS
    assert verdict.situations == ["other destinations kept 70 % or more of the broker's memory"]


def test_without_pressure_a_stall_is_not_starvation() -> None:
    assert kind(hoard(limit=1_048_576).rest("q0"), "MEM-001") is SILENT
    assert kind(hoard(2).rest("q0"), "MEM-001") is SILENT


def test_while_things_move_nobody_starves() -> None:
    assert kind(hoard().read("q0"), "MEM-001") is SILENT


def test_a_consumer_whose_colleague_holds_messages_is_held_up_by_its_own_queue() -> None:
    story = hoard().connect("c1").send("p0/20").subscribe("c1/1").arrive("c1/1", "p0/1").rest("q0")
    assert kind(story, "MEM-001") is HOLDS


def test_a_starved_consumer_that_sleeps_on_when_memory_is_free_still_starves() -> None:
    story = hoard().connect("c1").subscribe("c1/1", "q1", 100)
    for number in range(2, 10):
        story.arrive("c1/1", f"p0/{number}").ack("c1/1", f"p0/{number}")
    assert kind(story.rest("q0"), "MEM-001") is FAILS


def test_the_brokers_limit() -> None:
    def story(**figures: Any) -> Chronicle:
        return Chronicle(memory_limit_bytes=LIMIT).send("p0/1", size=1000).read(None, **figures)

    assert kind(story(memory_bytes=LIMIT), "MEM-002") is HOLDS
    assert kind(story(memory_percent=100), "MEM-002") is HOLDS
    over = judge(story(memory_bytes=LIMIT + 1))["MEM-002"]
    assert (over.verdict, over.outcome, over.grade) == (HOLDS, "one-message-over", "acceptable")
    assert kind(story(memory_bytes=LIMIT + 1000 + 2048), "MEM-002") is HOLDS
    assert kind(story(memory_bytes=LIMIT + 1000 + 2049), "MEM-002") is FAILS
    assert kind(story(memory_percent=120), "MEM-002") is FAILS
    assert kind(story(memory_percent=10), "MEM-002") is SILENT
    assert kind(Chronicle(memory_limit_bytes=0).read(None, memory_bytes=1 << 40), "MEM-002") is SILENT


def test_a_destinations_own_limit() -> None:
    def story(dest: str, used: int, *entries: DestinationSpec) -> Chronicle:
        return Chronicle(destinations=list(entries)).read(dest, memory_bytes=used)

    own = DestinationSpec("q0", memory_limit_bytes=10_000)
    assert kind(story("q0", 9000, own), "MEM-004") is HOLDS
    assert kind(story("q0", 13_000, own), "MEM-004") is FAILS
    assert kind(story("q1", 13_000, own), "MEM-004") is SILENT
    everybody = DestinationSpec(">", memory_limit_bytes=20_000)
    assert kind(story("q0", 13_000, everybody, own), "MEM-004") is FAILS
    assert kind(story("q1", 13_000, everybody, own), "MEM-004") is HOLDS
    # Two wildcards that disagree: which one counts is the broker's business.
    assert kind(story("a.b", 1 << 30, DestinationSpec("a.*", memory_limit_bytes=1), everybody), "MEM-004") is SILENT


def test_an_empty_queue_keeps_nothing() -> None:
    def story(**figures: Any) -> Chronicle:
        return Chronicle().send("p0/1").rest("q0", **figures)

    assert kind(story(size=0, in_flight=0, memory_bytes=0), "MEM-003") is HOLDS
    assert kind(story(size=0, in_flight=0, memory_bytes=1), "MEM-003") is FAILS
    assert kind(story(size=0, in_flight=0, memory_percent=1), "MEM-003") is FAILS
    assert kind(story(size=1, in_flight=0, memory_bytes=1), "MEM-003") is SILENT
    assert kind(story(size=0, in_flight=0, scheduled=1, memory_bytes=1), "MEM-003") is SILENT
    assert kind(story(size=0, in_flight=0), "MEM-003") is SILENT


def test_the_broker_keeps_nothing_when_all_queues_are_empty() -> None:
    def story(letters: int) -> Chronicle:
        told = Chronicle().send("p0/1").connect("c0").subscribe("c0/1").arrive("c0/1", "p0/1").ack("c0/1", "p0/1")
        told.drain("q0", DLQ)
        return told.rest("q0", size=0, in_flight=0).rest(None, size=letters, memory_bytes=1)

    assert kind(story(0), "MEM-003") is FAILS
    assert kind(story(1), "MEM-003") is SILENT  # somebody else's messages


def test_unread_queues_leave_the_broker_unjudged() -> None:
    story = Chronicle().send("p0/1").send("p0/2", "q1").drain("q0", "q1", DLQ)
    assert kind(story.rest("q0", size=0, in_flight=0).rest(None, size=0, memory_bytes=1), "MEM-003") is SILENT


def test_messages_beyond_the_limit_are_kept() -> None:
    def story() -> Chronicle:
        told = Chronicle(memory_limit_bytes=4000).connect("p0")
        return told.send("p0/1", size=1000).send("p0/2", size=1000).drain("q0")

    assert kind(story().arrive("drain/1", "p0/1", "p0/2").end(), "MEM-005") is HOLDS
    verdict = judge(story().arrive("drain/1", "p0/1").end())["MEM-005"]
    assert (verdict.verdict, verdict.outcome) == (FAILS, "lost")
    # The first one was within the limit: losing it is GEN-001's business.
    assert kind(story().arrive("drain/1", "p0/2").end(), "MEM-005") is HOLDS


def test_a_message_that_is_still_there_is_stuck_and_not_lost() -> None:
    told = Chronicle(memory_limit_bytes=4000).connect("p0").send("p0/1", size=1000).send("p0/2", size=1000).drain("q0")
    assert kind(told.arrive("drain/1", "p0/1").rest("q0", size=1).end(), "MEM-005") is SILENT


def test_a_persistent_message_is_not_refused_for_memory() -> None:
    def story(**fields: Any) -> Chronicle:
        return Chronicle().send("p0/1", result="fail", **fields)

    assert kind(story(refusal="Usage Manager memory limit reached"), "MEM-005") is FAILS
    assert kind(story(refusal="bad destination"), "MEM-005") is SILENT
    assert kind(story(refusal="memory limit reached", persistent=False), "MEM-005") is SILENT


# -- many small backlogs, relief, purges


def small_hoards(each: int, limit: int = 32_768) -> Chronicle:
    """Backlogs of ``each`` messages on four queues, three kilobytes a message, and one message on q0."""
    story = Chronicle(memory_limit_bytes=limit).connect("p0").connect("c0")
    for number in range(4 * each):
        story.send(f"p0/{number + 1}", f"q{1 + number % 4}", size=2048)
    return story.send("p0/100").subscribe("c0/1", "q0")


def test_many_small_backlogs() -> None:
    assert kind(small_hoards(2).rest("q0"), "MEM-020") is FAILS
    assert kind(small_hoards(2).arrive("c0/1", "p0/100").rest("q0"), "MEM-020") is HOLDS
    assert kind(small_hoards(3).rest("q0"), "MEM-020") is SILENT  # each is large by itself
    assert kind(small_hoards(3).rest("q0"), "MEM-001") is FAILS
    assert kind(small_hoards(1).rest("q0"), "MEM-020") is SILENT


def waited(percent: int, *, purged: str = "", waits: bool) -> Chronicle:
    """A message waited beside a free slot when memory was full; later the broker shows ``percent``."""
    story = Chronicle(memory_limit_bytes=LIMIT).connect("p0").connect("c0").send("p0/1").subscribe("c0/1")
    story.rest("q0", memory_percent=0).rest(None, memory_percent=100)
    if purged:
        story._add(Operate, "", result="ok", op="purge", dest=purged)
    if not waits:
        story.arrive("c0/1", "p0/1")
    return story.rest("q0", memory_percent=0).rest(None, memory_percent=percent)


def test_relief() -> None:
    assert kind(waited(49, waits=True), "MEM-022") is FAILS
    assert kind(waited(49, waits=False), "MEM-022") is HOLDS
    assert kind(waited(50, waits=True), "MEM-022") is SILENT
    assert kind(waited(49, waits=True), "MEM-026") is SILENT


def test_relief_by_a_purge() -> None:
    assert kind(waited(0, purged="q1", waits=True), "MEM-026") is FAILS
    assert kind(waited(0, purged="q1", waits=False), "MEM-026") is HOLDS
    assert kind(waited(0, purged="q0", waits=True), "MEM-026") is SILENT
