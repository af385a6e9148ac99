"""What is in memory and what in the store only, on hand-written histories."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.configuration import PolicySpec
from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
#: 70 % are 7000 bytes. A body of 952 bytes costs 3000 at most.
LIMIT = 10_000
BODY = 952


def new(**entry: Any) -> Builder:
    entry.setdefault("expire_period_ms", 0)
    story = Builder(memory_limit_bytes=LIMIT, policies=[PolicySpec(**entry)])
    return story.connect("p0").connect("c0")


def sent(story: Builder, *numbers: int, **fields: Any) -> Builder:
    for number in numbers:
        story.send(f"p0/{number}", size=BODY, **fields)
    return story


def read(story: Builder, used: int, size: int = 50, **counters: Any) -> Builder:
    return story.read("q0", at_rest=True, memory_bytes=used, size=size, **counters)


def kind(story: Builder, requirement: str) -> VerdictKind:
    return story.verdicts(requirement)[requirement].verdict


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
    judged = read(story, used, in_flight=in_flight).verdicts("MEM-023")["MEM-023"]
    assert (judged.verdict, judged.outcome) == (verdict, outcome)


@pytest.mark.parametrize("what", ["another", "auto", "ack", "send", "in memory", "a page"])
def test_any_other_wake_up_is_not_judged(what: str) -> None:
    story = read(sent(new(max_page_size=2), 1), 1 if what == "in memory" else 0, size=2 if what == "a page" else 50)
    story.subscribe("c0/1", ack="auto" if what == "auto" else "client")
    if what == "another":
        story.subscribe("c0/2")
    elif what == "ack":
        story.arrive("c0/1", "p0/1").ack("c0/1", "p0/1")
    elif what == "send":
        sent(story, 2)
    assert kind(read(story, 99_000), "MEM-023") is SILENT


# -- the mark

MARKED = 16_384


def backlog(messages: int = 10, **fields: Any) -> Builder:
    """A queue that keeps so many messages of a kilobyte."""
    story = Builder(memory_limit_bytes=MARKED, persistent=True).connect("p0").connect("c0")
    for number in range(1, messages + 1):
        story.send(f"p0/{number}", size=1024, **fields)
    return story


@pytest.mark.parametrize(("used", "verdict"), [(5000, FAILS), (6000, HOLDS), (14_000, HOLDS), (14_542, FAILS)])
def test_the_mark(used: int, verdict: VerdictKind) -> None:
    """70 % of 16384 are 11469; a message costs at most 3072."""
    assert kind(backlog().rest("q0", size=10, memory_bytes=used), "MEM-019") is verdict


@pytest.mark.parametrize(("elsewhere", "verdict"), [(0, FAILS), (1, FAILS), (2, SILENT)])
def test_what_others_keep_may_end_caching_early(elsewhere: int, verdict: VerdictKind) -> None:
    story = backlog()
    for number in range(elsewhere):
        story.send(f"c0/{number + 1}", "q1")
    assert kind(story.rest("q0", size=10, memory_bytes=2000), "MEM-019") is verdict


@pytest.mark.parametrize(("period_ms", "verdict"), [(0, FAILS), (1000, VerdictKind.INCONCLUSIVE)])
def test_a_real_sweep_may_have_read_what_was_in_the_store(period_ms: int, verdict: VerdictKind) -> None:
    policies = [PolicySpec(memory_limit_bytes=16_384, expire_period_ms=period_ms)]
    story = Builder(memory_limit_bytes=64 * 1024, generation={"memory": "G3"}, policies=policies, world="live").connect(
        "p0"
    )
    for number in range(1, 11):
        story.send(f"p0/{number}", size=1024)
    assert kind(story.rest("q0", size=10, memory_bytes=14_542), "MEM-019") is verdict


def test_what_was_seen_to_be_loaded_was_not_cached() -> None:
    story = backlog().rest("q0", size=10, memory_bytes=9000).rest("q0", size=10, memory_bytes=15_000)
    assert kind(story, "MEM-019") is HOLDS


def test_who_consumes_elsewhere_does_not_change_the_mark() -> None:
    story = backlog(1).subscribe("c0/1", "q1")
    assert kind(story.rest("q0", size=1, memory_bytes=16_000), "MEM-019") is FAILS


def durable_backlog(messages: int, memory: str = "G1") -> Builder:
    """A topic whose one durable subscriber has gone before so many messages of a kilobyte were published."""
    story = Builder(memory_limit_bytes=MARKED, generation={"memory": memory}).connect("p0").connect("c0")
    story.subscribe("c0/1", "t0", durable="d").leave("c0/1").rest("t0")
    for number in range(1, messages + 1):
        story.send(f"p0/{number}", "t0", size=1024)
    return story


@pytest.mark.parametrize(
    ("messages", "used", "verdict"),
    [(2, 4095, FAILS), (2, 4096, SILENT), (3, 0, SILENT), (9, 11_400, HOLDS), (9, 14_540, HOLDS), (9, 14_541, FAILS)],
)
def test_what_waits_for_a_durable_subscription(messages: int, used: int, verdict: VerdictKind) -> None:
    """70 % of 16384 are 11469; a message costs 2048 to 3072."""
    assert kind(durable_backlog(messages).rest("t0", memory_bytes=used), "MEM-019") is verdict
    assert kind(durable_backlog(messages, "fair").rest("t0", memory_bytes=used), "MEM-019") is SILENT
    there = durable_backlog(messages).connect("c0").subscribe("c0/2", "t0", durable="d")
    assert kind(there.rest("t0", memory_bytes=used), "MEM-019") is SILENT


def test_the_mark_means_nothing_after_somebody_consumed_or_for_other_messages() -> None:
    assert kind(backlog(1).subscribe("c0/1").rest("q0", size=1, memory_bytes=16_000), "MEM-019") is SILENT
    for odd in (backlog(1, persistent=False), backlog(1, expiration_ms=1), backlog(1).restart().connect("p0")):
        assert kind(odd.rest("q0", size=1, memory_bytes=16_000), "MEM-019") is SILENT


# -- without demand


def seen(story: Builder, used: int, size: int = 2) -> Builder:
    return story.rest("q0", size=size, enqueued=size, scheduled=0, memory_bytes=used).wait(1000)


#: Without sweeps, which load what they look at.
UNSWEPT = [PolicySpec(">", expire_period_ms=0)]


@pytest.mark.parametrize(("later", "verdict"), [(4000, HOLDS), (4001, FAILS)])
@pytest.mark.parametrize("restarts", [False, True])
def test_loading(later: int, verdict: VerdictKind, restarts: bool) -> None:
    story = Builder(memory_limit_bytes=MARKED, persistent=True, policies=UNSWEPT).connect("p0").connect("c0")
    if restarts:
        story.restart().connect("p0")
    story.send("p0/1", size=4000).send("p0/2", size=4000)
    assert kind(seen(seen(story, 4000), later), "MEM-024") is verdict


@pytest.mark.parametrize(("period_ms", "verdict"), [(500, HOLDS), (30_000, FAILS)])
def test_loading_for_a_sweep_is_right(period_ms: int, verdict: VerdictKind) -> None:
    policies = [PolicySpec(">", expire_period_ms=period_ms)]
    story = Builder(memory_limit_bytes=MARKED, persistent=True, policies=policies).connect("p0").connect("c0")
    story.send("p0/1", size=4000).send("p0/2", size=4000)
    assert kind(seen(seen(story, 4000), 8000), "MEM-024") is verdict


def test_loading_for_a_consumer_is_right() -> None:
    story = seen(
        Builder(memory_limit_bytes=MARKED, policies=UNSWEPT).connect("p0").connect("c0").send("p0/1", size=4000), 0, 1
    )
    assert kind(seen(story.subscribe("c0/1"), 5000, 1), "MEM-024") is SILENT


def test_a_consumer_elsewhere_explains_no_loading() -> None:
    story = seen(
        Builder(memory_limit_bytes=MARKED, policies=UNSWEPT).connect("p0").connect("c0").send("p0/1", size=4000), 0, 1
    )
    assert kind(seen(story.subscribe("c0/1", "q1"), 5000, 1), "MEM-024") is FAILS


# -- after a restart


def restarted(*, after: str = "", **fields: Any) -> Builder:
    story = Builder(persistent=True, policies=[PolicySpec()]).connect("p0").connect("c0")
    if after:
        story.send("p0/9", after)
    return story.send("p0/1", **fields).restart()


def fresh(story: Builder) -> VerdictKind:
    return kind(story, "MEM-015")


def test_nothing_is_in_memory_until_somebody_wants_it() -> None:
    assert fresh(restarted().rest("q0", size=1, memory_bytes=0)) is HOLDS
    assert fresh(restarted().rest("q0", size=1, memory_bytes=1)) is FAILS
    assert fresh(restarted().rest("q0", size=0, memory_bytes=0)) is SILENT
    assert fresh(restarted().subscribe("c0/1").rest("q0", size=1, memory_bytes=1)) is SILENT
    assert fresh(restarted(delay_ms=5).rest("q0", size=1, memory_bytes=1)) is SILENT


def test_what_somebody_wants_elsewhere_loads_nothing_here() -> None:
    assert fresh(restarted().subscribe("c0/1", "q1").rest("q0", size=1, memory_bytes=1)) is FAILS
    assert fresh(restarted().subscribe("c0/1", "q1").rest(None, size=1, memory_bytes=1)) is SILENT
    assert fresh(restarted(after="q1", delay_ms=5).rest("q1", size=1, memory_bytes=1)) is FAILS


def test_a_sweep_may_load() -> None:
    assert fresh(restarted().wait(1000).rest("q0", size=1, memory_bytes=1)) is SILENT


def test_what_was_not_persistent_is_gone() -> None:
    assert fresh(restarted(persistent=False).connect("c0").subscribe("c0/1").arrive("c0/1", "p0/1")) is FAILS
    assert fresh(restarted(persistent=False).connect("c0").subscribe("c0/1")) is HOLDS
    assert fresh(restarted().connect("c0").subscribe("c0/1").arrive("c0/1", "p0/1")) is SILENT
    dead = restarted(persistent=False).connect("c0").subscribe("c0/1", "ActiveMQ.DLQ")
    assert fresh(dead.arrive("c0/1", "p0/1", original_dest="q0")) is HOLDS
