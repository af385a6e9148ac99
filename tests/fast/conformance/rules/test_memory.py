"""Who is served while memory is short, on hand-written histories and in the founding document's own incident."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.fast.conformance.rules.history_builder import Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
LIMIT = 16_384


def judge(story: Builder, requirement: str) -> Verdict:
    return story.verdicts(requirement)[requirement]


def kind(story: Builder, requirement: str) -> VerdictKind:
    return judge(story, requirement).verdict


def hoard(messages: int = 8, limit: int = LIMIT, **declared: Any) -> Builder:
    """One message on q0, and a backlog on q1 that nobody consumes."""
    story = Builder(memory_limit_bytes=limit, **declared).connect("p0").connect("c0").send("p0/1")
    for number in range(2, messages + 2):
        story.send(f"p0/{number}", "q1", size=1024)
    return story.subscribe("c0/1", "q0")


# -- MEM-001


def test_a_consumer_starves_beside_a_hoard() -> None:
    verdict = judge(hoard().rest("q0"), "MEM-001")
    assert (verdict.verdict, verdict.outcome) == (FAILS, "starved")
    assert "p0/1" in verdict.text
    assert "q0" in verdict.text
    assert "16384 of 16384" in verdict.text


def test_a_consumer_is_served_beside_a_hoard() -> None:
    verdict = judge(hoard().arrive("c0/1", "p0/1").rest("q0"), "MEM-001")
    assert verdict.verdict is HOLDS
    assert verdict.situations == ["other destinations kept 70 % or more of the broker's memory"]


def test_without_pressure_a_stall_is_not_starvation() -> None:
    assert kind(hoard(limit=1_048_576).rest("q0"), "MEM-001") is SILENT
    assert kind(hoard(2).rest("q0"), "MEM-001") is SILENT


def test_while_things_move_nobody_starves() -> None:
    assert kind(hoard().read("q0"), "MEM-001") is SILENT


@pytest.mark.parametrize(("held", "elsewhere", "verdict"), [(2, False, FAILS), (3, False, HOLDS), (2, True, HOLDS)])
def test_what_consumers_hold_excuses_only_if_it_may_be_much(held: int, elsewhere: bool, verdict: VerdictKind) -> None:
    """Each message costs at most 3072 bytes; half of the limit is 8192."""
    story = hoard().connect("c1").subscribe("c1/1")
    for number in range(20, 20 + held):
        story.send(f"p0/{number}").arrive("c1/1", f"p0/{number}")
    if elsewhere:
        story.connect("c2").subscribe("c2/1", "q1")
    assert kind(story.rest("q0"), "MEM-001") is verdict


def test_a_starved_consumer_that_sleeps_on_when_memory_is_free_still_starves() -> None:
    story = hoard().connect("c1").subscribe("c1/1", "q1", 100)
    for number in range(2, 10):
        story.arrive("c1/1", f"p0/{number}").ack("c1/1", f"p0/{number}")
    assert kind(story.rest("q0"), "MEM-001") is FAILS


@pytest.mark.parametrize(("dest", "verdict"), [("q1", FAILS), ("q0", SILENT)])
def test_only_a_purge_of_the_queue_itself_explains_what_waits(dest: str, verdict: VerdictKind) -> None:
    assert kind(hoard().operate("purge", dest=dest).rest("q0"), "MEM-001") is verdict


def test_what_came_after_a_purge_starves() -> None:
    story = hoard().operate("purge").send("p0/20").rest("q0")
    assert kind(story, "MEM-001") is FAILS


def test_browsers_and_restarts_explain_nothing() -> None:
    assert kind(hoard().subscribe("c0/2", "q0", browser=True).rest("q0"), "MEM-001") is FAILS
    story = hoard(persistent=True).restart().connect("c0").subscribe("c0/2").rest("q0")
    assert kind(story, "MEM-001") is FAILS
    assert kind(hoard().restart().connect("c0").subscribe("c0/2").rest("q0"), "MEM-001") is SILENT  # not persistent


@pytest.mark.parametrize(("holds", "verdict"), [(False, FAILS), (True, HOLDS)])
def test_a_wildcard_consumer_is_one_of_the_queue(holds: bool, verdict: VerdictKind) -> None:
    story = hoard().send("p0/20").connect("c1").subscribe("c1/1", "q*")
    if holds:
        story.arrive("c1/1", "p0/20", dest="q0")
    assert kind(story.rest("q0"), "MEM-001") is verdict


@pytest.mark.parametrize("fields", [{"selector": "a = 1"}, {"exclusive": True}, {"priority": 1}, {"prefetch": 0}])
def test_a_consumer_that_chooses_need_not_be_served(fields: dict[str, Any]) -> None:
    assert kind(hoard().subscribe("c0/2", **fields).rest("q0"), "MEM-001") is SILENT


def test_the_limit_that_an_operator_set_counts() -> None:
    story = hoard(limit=1_048_576).operate("limit", dest="", limit_bytes=LIMIT)
    assert kind(story.rest("q0"), "MEM-001") is FAILS
    story = hoard().operate("limit", dest="", limit_bytes=1_048_576)
    assert kind(story.rest("q0"), "MEM-001") is SILENT


@pytest.mark.parametrize(("generation", "verdict"), [("fair", HOLDS), ("G0", HOLDS), ("G1", FAILS)])
def test_the_incident(generation: str, verdict: VerdictKind) -> None:
    """Messages stored on A, a restart, B fills memory to the mark, and a consumer of A comes."""
    program = programs()["memory-filled-after-a-restart"]
    broker = msgspec.structs.replace(program.broker, generation={"memory": generation})
    history = SimulatedWorld(seed=1).run(msgspec.structs.replace(program, broker=broker))
    assert judge_history(history, wanted=["MEM-001"])[0].verdict is verdict


def test_the_incident_kills_its_mutant() -> None:
    history = SimulatedWorld(seed=1, mutant="memory-starves").run(programs()["memory-filled-after-a-restart"])
    found = judge_history(history, wanted=["MEM-001", "MEM-022"])
    assert [(verdict.verdict, verdict.outcome) for verdict in found] == [(FAILS, "starved"), (FAILS, "asleep")]


# -- MEM-020


def small_hoards(each: int, limit: int = 32_768) -> Builder:
    """Backlogs of ``each`` messages on four queues, three kilobytes a message, and one message on q0."""
    story = Builder(memory_limit_bytes=limit).connect("p0").connect("c0")
    for number in range(4 * each):
        story.send(f"p0/{number + 1}", f"q{1 + number % 4}", size=2048)
    return story.send("p0/100").subscribe("c0/1", "q0")


def test_many_small_backlogs() -> None:
    assert kind(small_hoards(2).rest("q0"), "MEM-020") is FAILS
    assert kind(small_hoards(2).arrive("c0/1", "p0/100").rest("q0"), "MEM-020") is HOLDS
    assert kind(small_hoards(3).rest("q0"), "MEM-020") is SILENT  # each is large by itself
    assert kind(small_hoards(3).rest("q0"), "MEM-001") is FAILS
    assert kind(small_hoards(1).rest("q0"), "MEM-020") is SILENT


# -- MEM-022, MEM-026


def waited(percent: int, *, purged: str = "", waits: bool, restarts: bool = False) -> Builder:
    """A message waited beside a free slot when memory was full; later the broker shows ``percent``."""
    story = Builder(memory_limit_bytes=LIMIT, persistent=True).connect("p0").connect("c0").send("p0/1")
    story.subscribe("c0/1").rest("q0", memory_percent=0).rest(None, memory_percent=100)
    if purged:
        story.operate("purge", dest=purged)
    if restarts:
        story.restart().connect("c0").subscribe("c0/2")
    if not waits:
        story.arrive("c0/1", "p0/1")
    return story.rest("q0", memory_percent=0).rest(None, memory_percent=percent)


def test_relief() -> None:
    assert kind(waited(49, waits=True), "MEM-022") is FAILS
    assert kind(waited(49, waits=False), "MEM-022") is HOLDS
    assert kind(waited(50, waits=True), "MEM-022") is SILENT
    assert kind(waited(49, waits=True), "MEM-026") is SILENT


def test_a_restart_relieves_in_its_own_way() -> None:
    assert kind(waited(49, waits=True, restarts=True), "MEM-022") is SILENT
    story = Builder(memory_limit_bytes=LIMIT, persistent=True).connect("p0").restart().connect("p0").connect("c0")
    story.send("p0/1").subscribe("c0/1").rest("q0", memory_percent=0).rest(None, memory_percent=100)
    story.connect("c1").rest("q0", memory_percent=0).rest(None, memory_percent=49)
    assert kind(story, "MEM-022") is FAILS


def test_relief_by_a_purge() -> None:
    assert kind(waited(0, purged="q1", waits=True), "MEM-026") is FAILS
    assert kind(waited(0, purged="q1", waits=False), "MEM-026") is HOLDS
    assert kind(waited(0, purged="q0", waits=True), "MEM-026") is SILENT


# -- MEM-021


def slow(messages: int = 5, **declared: Any) -> Builder:
    """Messages of two kilobytes on q1, a consumer on q0."""
    story = Builder(memory_limit_bytes=LIMIT, **declared).connect("p0").connect("c0")
    for number in range(1, messages + 1):
        story.send(f"p0/{number}", "q1", size=1024)
    return story.subscribe("c0/1", "q0")


def late(story: Builder) -> Verdict:
    return judge(story.wait(5000).rest("q0").phase("end"), "MEM-021")


@pytest.mark.parametrize(("after_ms", "verdict"), [(0, HOLDS), (990, HOLDS), (1010, FAILS)])
def test_in_time(after_ms: int, verdict: VerdictKind) -> None:
    assert late(slow().send("p0/9").wait(after_ms).arrive("c0/1", "p0/9")).verdict is verdict


def test_never() -> None:
    verdict = late(slow().send("p0/9"))
    assert (verdict.verdict, verdict.outcome) == (FAILS, "late")
    assert "p0/9" in verdict.text
    assert "at least 10240" in verdict.text


def test_a_restart_before_slows_down_nobody() -> None:
    story = slow(persistent=True).restart().connect("p0").connect("c0").subscribe("c0/2", "q0")
    assert late(story.send("p0/9")).verdict is FAILS


def test_without_much_elsewhere_there_is_no_interference() -> None:
    assert late(slow(3).send("p0/9")).verdict is SILENT


def test_what_others_had_taken_is_not_kept() -> None:
    story = slow().connect("c1").subscribe("c1/1", "q1", 100)
    for number in range(1, 6):
        story.arrive("c1/1", f"p0/{number}").ack("c1/1", f"p0/{number}")
    assert late(story.send("p0/9")).verdict is SILENT


def test_what_others_hold_is_kept() -> None:
    story = slow().connect("c1").subscribe("c1/1", "q1", 100)
    for number in range(1, 6):
        story.arrive("c1/1", f"p0/{number}")
    assert late(story.send("p0/9")).verdict is FAILS


def test_a_message_behind_another_may_wait_for_it() -> None:
    story = slow().send("p0/9").arrive("c0/1", "p0/9").wait(3000).send("p0/10")
    assert late(story).verdict is HOLDS


def test_a_message_of_a_transaction_or_with_a_delay_is_not_judged() -> None:
    assert late(slow().send("p0/9", delay_ms=5)).verdict is SILENT
    assert late(slow().send("p0/9", tx="t")).verdict is SILENT


# -- MEM-025


def order(*numbers: int, limit: int = 8192, restarts: bool = False, **fields: Any) -> VerdictKind:
    """Six messages of two kilobytes, and the order in which they arrive."""
    story = Builder(memory_limit_bytes=limit, persistent=True).connect("p0").connect("c0")
    for number in range(1, 7):
        story.send(f"p0/{number}", size=1024, **fields)
    if restarts:
        story.restart().connect("c0")
    story.subscribe("c0/1")
    for number in numbers:
        story.arrive("c0/1", f"p0/{number}")
    return kind(story.rest("q0"), "MEM-025")


def test_order() -> None:
    assert order(1, 2, 3, 4, 5, 6) is HOLDS
    assert order(1, 2, 3, 4, 6, 5) is FAILS
    assert order(1, 2, 6, 3) is FAILS


def test_order_after_a_restart() -> None:
    assert order(1, 2, 3, 4, 5, 6, restarts=True) is HOLDS


def test_only_what_was_beyond_the_limit_counts() -> None:
    assert order(2, 1, 3) is SILENT
    assert order(1, 2, 6, 3, limit=1 << 20) is SILENT


def test_messages_of_other_kinds_are_not_judged() -> None:
    assert order(1, 2, 6, 3, persistent=False) is SILENT
    assert order(1, 2, 6, 3, delay_ms=5) is SILENT


# -- MEM-031


def durable(**options: Any) -> Builder:
    """A durable subscriber of t0, while q1 keeps half of the broker's memory; then p0/9 is published."""
    story = Builder(memory_limit_bytes=LIMIT).connect("p0").connect("c0")
    story.subscribe("c0/1", "t0", durable="d", **options)
    for number in range(1, 6):
        story.send(f"p0/{number}", "q1", size=1024)
    return story.rest(None, memory_percent=62).send("p0/9", "t0")


def test_a_durable_subscriber_starves() -> None:
    verdict = judge(durable().rest("t0"), "MEM-031")
    assert (verdict.verdict, verdict.outcome) == (FAILS, "starved")
    assert "p0/9" in verdict.text


def test_a_durable_subscriber_is_served() -> None:
    verdict = judge(durable().arrive("c0/1", "p0/9").rest("t0"), "MEM-031")
    assert (verdict.verdict, verdict.situations) == (HOLDS, ["half of the broker's memory had been in use"])


@pytest.mark.parametrize("options", [{"selector": "a = 1"}, {"prefetch": 0}, {"result": "unknown"}])
def test_a_durable_subscriber_that_need_not_be_served(options: dict[str, Any]) -> None:
    assert kind(durable(**options).rest("t0"), "MEM-031") is SILENT


def test_a_durable_subscriber_that_holds_messages_may_wait() -> None:
    story = durable().arrive("c0/1", "p0/9").send("p0/10", "t0").rest("t0")
    assert kind(story, "MEM-031") is HOLDS
    assert kind(story.ack("c0/1", "p0/9").rest("t0"), "MEM-031") is FAILS
