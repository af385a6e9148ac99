"""What memory counters say, on hand-written histories."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import PolicySpec
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from tests.fast.conformance.rules.history_builder import DLQ, Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
LIMIT = 16_384


def judge(story: Builder, requirement: str) -> Verdict:
    return story.verdicts(requirement)[requirement]


def kind(story: Builder, requirement: str) -> VerdictKind:
    return judge(story, requirement).verdict


def new(limit: int = LIMIT, **declared: Any) -> Builder:
    return Builder(memory_limit_bytes=limit, **declared).connect("p0").connect("c0")


def read(story: Builder, dest: str | None = "q0", **counters: Any) -> Builder:
    """Counters at rest."""
    return story.read(dest, at_rest=True, **counters)


def test_the_brokers_limit() -> None:
    def story(**counters: Any) -> Builder:
        return Builder(memory_limit_bytes=LIMIT).send("p0/1", size=1000).read(None, **counters)

    assert kind(story(memory_bytes=LIMIT), "MEM-002") is HOLDS
    assert kind(story(memory_percent=100), "MEM-002") is HOLDS
    over = judge(story(memory_bytes=LIMIT + 1), "MEM-002")
    assert (over.verdict, over.outcome, over.grade) == (HOLDS, "one-message-over", "acceptable")
    assert kind(story(memory_bytes=LIMIT + 1000 + 2048), "MEM-002") is HOLDS
    assert kind(story(memory_bytes=LIMIT + 1000 + 2049), "MEM-002") is FAILS
    assert kind(story(memory_percent=120), "MEM-002") is FAILS
    assert kind(story(memory_percent=10), "MEM-002") is SILENT
    assert kind(Builder(memory_limit_bytes=0).read(None, memory_bytes=1 << 40), "MEM-002") is SILENT


def test_open_transactions_may_hold_more_where_no_producer_waits_for_room() -> None:
    def story(used: int, *, controlled: bool = False) -> Builder:
        told = Builder(memory_limit_bytes=8192, policies=[PolicySpec(producer_flow_control=controlled)])
        told.connect("p0").begin("p0")
        for number in range(1, 5):
            told.send(f"p0/{number}", size=3000, tx="p0/tx1")
        return told.read(None, memory_bytes=used)

    assert kind(story(12_000), "MEM-002") is HOLDS
    assert kind(story(12_000, controlled=True), "MEM-002") is HOLDS
    assert kind(story(18_000), "MEM-002") is HOLDS
    assert kind(story(18_000, controlled=True), "MEM-002") is FAILS
    assert kind(story(8192 + 5 * (3000 + 2048) + 1), "MEM-002") is FAILS


def test_a_destinations_own_limit() -> None:
    def story(dest: str, used: int, *entries: PolicySpec) -> Builder:
        return Builder(policies=list(entries)).read(dest, memory_bytes=used)

    own = PolicySpec("q0", memory_limit_bytes=10_000)
    assert kind(story("q0", 9000, own), "MEM-004") is HOLDS
    assert kind(story("q0", 13_000, own), "MEM-004") is FAILS
    assert kind(story("q1", 13_000, own), "MEM-004") is SILENT
    everybody = PolicySpec(">", memory_limit_bytes=20_000)
    assert kind(story("q0", 13_000, everybody, own), "MEM-004") is FAILS
    assert kind(story("q1", 13_000, everybody, own), "MEM-004") is HOLDS
    # Of two wildcards the more specific one counts, whatever their order.
    narrow = PolicySpec("a.*", memory_limit_bytes=30_000)
    assert kind(story("a.b", 29_000, everybody, narrow), "MEM-004") is HOLDS
    assert kind(story("a.b", 33_000, narrow, everybody), "MEM-004") is FAILS


def test_an_empty_queue_keeps_nothing() -> None:
    def story(**counters: Any) -> Builder:
        return Builder().send("p0/1").rest("q0", **counters)

    assert kind(story(size=0, in_flight=0, memory_bytes=0), "MEM-003") is HOLDS
    assert kind(story(size=0, in_flight=0, memory_bytes=1), "MEM-003") is FAILS
    assert kind(story(size=0, in_flight=0, memory_percent=1), "MEM-003") is FAILS
    assert kind(story(size=1, in_flight=0, memory_bytes=1), "MEM-003") is SILENT
    assert kind(story(size=0, in_flight=0, scheduled=1, memory_bytes=1), "MEM-003") is SILENT
    assert kind(story(size=0, in_flight=0), "MEM-003") is SILENT


def test_what_waits_to_be_due_may_stand_in_memory() -> None:
    """Where nobody tells how much does so, nothing is known of what is in use."""

    def story(**counters: Any) -> Builder:
        return Builder().send("p0/1", delay_ms=5000).rest("q0", size=0, in_flight=0, memory_bytes=1, **counters)

    assert kind(story(), "MEM-003") is SILENT
    assert kind(story(scheduled=1), "MEM-003") is SILENT
    assert kind(story(scheduled=0), "MEM-003") is FAILS


def test_a_topic_keeps_nothing_for_who_has_settled_everything() -> None:
    def story(*, settled: bool, away: bool = False, **options: Any) -> Builder:
        told = new().subscribe("c0/1", "t0", **options)
        if away:
            told.connect("c1").subscribe("c1/1", "t*", durable="d").leave("c1/1")
        told.send("p0/1", "t0").arrive("c0/1", "p0/1")
        return read(told.ack("c0/1", "p0/1") if settled else told, "t0", size=0, in_flight=0, memory_bytes=1)

    assert kind(story(settled=True), "MEM-003") is FAILS
    assert kind(story(settled=False), "MEM-003") is SILENT
    assert kind(story(settled=True, durable="d"), "MEM-003") is SILENT
    assert kind(story(settled=True, away=True), "MEM-003") is SILENT


def test_the_broker_keeps_nothing_when_all_queues_are_empty() -> None:
    def story(letters: int) -> Builder:
        told = Builder().send("p0/1").connect("c0").subscribe("c0/1").arrive("c0/1", "p0/1").ack("c0/1", "p0/1")
        told.drain("q0", DLQ)
        return told.rest("q0", size=0, in_flight=0).rest(None, size=letters, memory_bytes=1)

    assert kind(story(0), "MEM-003") is FAILS
    assert kind(story(1), "MEM-003") is SILENT  # somebody else's messages


def test_unread_queues_leave_the_broker_unjudged() -> None:
    story = Builder().send("p0/1").send("p0/2", "q1").drain("q0", "q1", DLQ)
    assert kind(story.rest("q0", size=0, in_flight=0).rest(None, size=0, memory_bytes=1), "MEM-003") is SILENT


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
    def story(percent: int) -> Builder:
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
    story = read(new().send("p0/1", size=8000), size=1, memory_bytes=8000 + 2049)
    assert kind(story, "MEM-008") is FAILS  # more than there is can never be in use
    story = read(new(1 << 20).send("p0/1", size=100), size=2, memory_bytes=1)
    assert kind(story, "MEM-008") is SILENT


def test_negative_counters() -> None:
    assert kind(read(new().send("p0/1"), size=0, memory_bytes=-1), "MEM-011") is FAILS
    assert kind(read(new().send("p0/1"), size=1, memory_bytes=0), "MEM-011") is HOLDS


ENTRIES = [PolicySpec(">", memory_limit_bytes=5000), PolicySpec("q0", memory_limit_bytes=9000)]


@pytest.mark.parametrize(("dest", "shown", "verdict"), [("q0", 9000, HOLDS), ("q0", 5000, FAILS), ("q1", 9000, SILENT)])
def test_entries(dest: str, shown: int, verdict: VerdictKind) -> None:
    story = read(new(policies=ENTRIES), dest, memory_limit_bytes=shown)
    assert kind(story, "MEM-017") is verdict


@pytest.mark.parametrize(
    ("shown", "declared", "verdict"),
    [
        (500, {}, HOLDS),
        (LIMIT, {}, FAILS),
        (LIMIT, {"policies": [PolicySpec("q0", memory_limit_bytes=5)]}, SILENT),
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


def test_percentages_of_a_limit_that_was_changed() -> None:
    story = new(0).operate("limit", dest="", limit_bytes=500)
    assert kind(read(story, memory_bytes=301, memory_percent=60), "MEM-007") is HOLDS
    assert kind(read(story, memory_bytes=301, memory_percent=61), "MEM-007") is FAILS


def test_a_broker_over_a_limit_that_was_lowered_is_not_judged() -> None:
    story = new().operate("limit", dest="", limit_bytes=500)
    assert kind(story.read(None, memory_bytes=1 << 20), "MEM-002") is VerdictKind.INCONCLUSIVE


def test_what_a_browser_or_a_purge_leaves_is_nothing() -> None:
    for story in (new().send("p0/1").subscribe("c0/1", browser=True), new().send("p0/1").operate("purge")):
        assert kind(read(story, size=0, in_flight=0, memory_bytes=1), "MEM-003") is FAILS


def test_a_restart_ends_all_transactions() -> None:
    story = new(persistent=True).begin("p0").send("p0/1", tx="p0/tx1").restart()
    assert kind(read(story, size=0, in_flight=0, memory_bytes=1), "MEM-003") is FAILS


def test_charges_after_a_restart_are_judged_once_the_queue_was_seen_empty() -> None:
    def story(restarted: str) -> Builder:
        told = new(1 << 20, persistent=True)
        if restarted == "full":
            told.send("p0/1", size=2000)
        told.restart().connect("p0")
        return read(told.send("p0/2", size=2000), size=1 + (restarted == "full"), memory_bytes=1)

    assert kind(story("empty"), "MEM-008") is FAILS
    assert kind(story("full"), "MEM-008") is SILENT


@pytest.mark.parametrize(("used", "verdict"), [(2 * 1024 - 1, FAILS), (2 * 1024, SILENT)])
def test_what_is_in_flight_is_in_memory_however_scarce_that_is(used: int, verdict: VerdictKind) -> None:
    """But for one message of each consumer, which may be beyond the limit."""
    story = new(4000)
    for number in range(1, 6):
        story.send(f"p0/{number}", size=100)
    story.subscribe("c0/1").arrive("c0/1", "p0/1", "p0/2", "p0/3")
    assert kind(read(story, size=5, in_flight=3, memory_bytes=used), "MEM-010") is verdict


def lowered(used: int, *, newer: bool = False, **counters: Any) -> VerdictKind:
    """Two messages wait; the limit was 16 KiB and is 4 KiB from now on."""
    story = new().send("p0/1", size=3000).send("p0/2", size=3000).operate("limit", dest="", limit_bytes=4096)
    if newer:
        story.send("p0/3", size=3000)
    return kind(read(story, size=2, memory_limit_bytes=4096, memory_bytes=used, **counters), "MEM-032")


def test_what_waits_gives_way_to_a_lower_limit() -> None:
    assert lowered(4096) is HOLDS
    assert lowered(4097) is FAILS
    assert lowered(4097, in_flight=1) is SILENT
    assert lowered(0) is SILENT
    assert lowered(4097, newer=True) is SILENT  # it may be the one message that memory may have beyond its limit
    assert lowered(20_000, newer=True) is FAILS


def test_what_never_exceeded_the_lower_limit_shows_nothing() -> None:
    story = new().send("p0/1", size=100).operate("limit", dest="", limit_bytes=4096)
    assert kind(read(story, size=1, memory_limit_bytes=4096, memory_bytes=1124), "MEM-032") is SILENT


def test_only_what_may_go_to_the_store_gives_way() -> None:
    def story(**declared: Any) -> Builder:
        return new(**declared).send("p0/1", size=3000, persistent=bool(declared))

    for told in (story(), story(generation={"memory": "G1"})):
        told.operate("limit", dest="", limit_bytes=1024)
        assert kind(read(told, size=1, memory_limit_bytes=1024, memory_bytes=4000), "MEM-032") is SILENT


@pytest.mark.parametrize(("used", "verdict"), [(3 * 1124 - 1, FAILS), (3 * 1124, HOLDS), (3 * 1124 + 1, FAILS)])
def test_the_exact_charge(used: int, verdict: VerdictKind) -> None:
    def story(**fields: Any) -> Builder:
        told = new(1 << 20, **({"generation": {"memory": "G3"}} if fields.pop("paged", False) else {}))
        for number in range(1, 4):
            told.send(f"p0/{number}", size=100, **fields)
        return read(told.subscribe("c0/1").arrive("c0/1", "p0/1"), size=3, in_flight=1, memory_bytes=used)

    assert kind(story(), "MEM-033") is verdict
    assert kind(story(paged=True), "MEM-033") is SILENT
    short = read(new(1 << 20).send("p0/1", size=0), size=1, memory_bytes=1030)
    assert kind(short, "MEM-033") is SILENT  # its body is its name


def test_an_exact_charge_is_not_judged_while_memory_is_short() -> None:
    assert kind(read(new().send("p0/1", size=16_000), size=1, memory_bytes=1), "MEM-033") is SILENT


@pytest.mark.parametrize(
    ("via", "fields", "used", "verdict"),
    [
        ("stomp", {"message_kind": "a"}, 3 * (1124 + 5), HOLDS),
        ("stomp", {"message_kind": "a"}, 3 * 1124, FAILS),
        ("stomp", {"headers": {"trip_id": "x:y", "type": "order", "correlation-id": "1"}}, 3 * (1124 + 10), HOLDS),
        ("stomp", {"headers": {"trip_id": "x:y"}}, 3 * (1124 + 10) + 1, FAILS),
        ("stomp", {"headers": {"seat_no": 3}}, 1, SILENT),
        ("jms", {"headers": {"trip_id": "x:y"}}, 1, SILENT),
        ("stomp", {"headers": {"trip_id": "x:y"}, "group": "g1"}, 1, SILENT),
    ],
)
def test_texts_in_properties_are_charged(via: str, fields: dict[str, Any], used: int, verdict: VerdictKind) -> None:
    told = Builder(memory_limit_bytes=1 << 20).connect("p0", via)
    for number in range(1, 4):
        told.send(f"p0/{number}", size=100, **fields)
    assert kind(read(told, size=3, in_flight=0, memory_bytes=used), "MEM-033") is verdict


def test_properties_of_two_kinds_on_one_queue_are_not_judged() -> None:
    told = new(1 << 20).send("p0/1", size=100, message_kind="a").send("p0/2", size=100)
    assert kind(read(told, size=2, memory_bytes=1), "MEM-033") is SILENT
    other = told.send("p0/3", "q1", size=100)
    assert kind(read(other, dest="q1", size=1, memory_bytes=1), "MEM-033") is FAILS


# -- a limit that an operator gives one queue


def given(limit_bytes: int, *, before: bool = False, result: str = "ok", **declared: Any) -> Builder:
    """``q0`` is given a limit of its own, after a message of 3,000 bytes was sent there or before any."""
    story = new(**declared)
    if before:
        story.send("p0/1", size=3000)
    return story.operate("limit", limit_bytes=limit_bytes, result=result)


@pytest.mark.parametrize(
    ("limit", "used", "verdict"), [(9000, 9000, HOLDS), (9000, 12_000, FAILS), (0, 12_000, SILENT)]
)
def test_a_queue_is_within_the_limit_that_it_was_given(limit: int, used: int, verdict: VerdictKind) -> None:
    assert kind(read(given(limit), memory_bytes=used), "MEM-004") is verdict


@pytest.mark.parametrize(("exact", "delay_ms", "verdict"), [(False, 9, HOLDS), (False, 0, FAILS), (True, 9, FAILS)])
def test_what_came_due_may_exceed_a_limit_of_who_charges_it_only_then(
    exact: bool, delay_ms: int, verdict: VerdictKind
) -> None:
    story = Builder(policies=[PolicySpec("q0", memory_limit_bytes=4096)]).connect("p0")
    named = [one for one in story.header.capabilities if exact or one != "exact-charges"]
    story.header = msgspec.structs.replace(story.header, capabilities=named)
    for number in range(1, 6):
        story.send(f"p0/{number}", size=3000, delay_ms=delay_ms)
    assert kind(story.wait(20).read("q0", memory_bytes=15_500), "MEM-004") is verdict


def test_what_was_there_may_exceed_a_limit_that_was_given_later() -> None:
    own = PolicySpec("q0", memory_limit_bytes=12_000)
    assert kind(read(given(4096, before=True), memory_bytes=15_000), "MEM-004") is SILENT  # it had none before
    assert kind(read(given(4096, before=True, policies=[own]), memory_bytes=12_000), "MEM-004") is HOLDS
    assert kind(read(given(4096, before=True, policies=[own]), memory_bytes=20_000), "MEM-004") is FAILS
    assert kind(read(given(4096, result="unknown"), memory_bytes=15_000), "MEM-004") is SILENT


def test_a_limit_that_was_given_is_shown() -> None:
    def shown(limit: int, **declared: Any) -> VerdictKind:
        return kind(read(given(500, **declared), memory_bytes=0, memory_limit_bytes=limit), "MEM-013")

    assert shown(500) is HOLDS
    assert shown(LIMIT) is FAILS
    assert shown(500, policies=[PolicySpec("q0", memory_limit_bytes=700)]) is HOLDS
    assert shown(700, policies=[PolicySpec("q0", memory_limit_bytes=700)]) is FAILS


@pytest.mark.parametrize(("shown", "verdict"), [(700, HOLDS), (LIMIT, FAILS), (500, FAILS)])
def test_a_limit_that_was_taken_back_is_the_brokers(shown: int, verdict: VerdictKind) -> None:
    story = given(500).operate("limit", dest="", limit_bytes=700).operate("limit", limit_bytes=0)
    assert kind(read(story, memory_bytes=0, memory_limit_bytes=shown), "MEM-013") is verdict


def test_what_was_given_to_one_queue_is_no_others() -> None:
    story = given(500).rest("q1", memory_bytes=0, memory_limit_bytes=500)
    assert kind(story, "MEM-013") is FAILS
    assert kind(read(given(500), memory_bytes=301, memory_percent=60), "MEM-007") is HOLDS
    assert kind(given(500).rest("q1", memory_bytes=301, memory_percent=60), "MEM-007") is FAILS


def test_the_brokers_limit_holds_whatever_a_queue_is_given() -> None:
    """MEM-002 is not silenced."""
    story = given(4096).rest(None, memory_bytes=3 * LIMIT, memory_percent=300)
    assert kind(story, "MEM-002") is FAILS


@pytest.mark.parametrize(("used", "verdict"), [(2000, HOLDS), (4024, FAILS)])
def test_what_waits_gives_way_to_the_limit_of_its_queue(used: int, verdict: VerdictKind) -> None:
    story = read(given(2048, before=True), size=1, memory_limit_bytes=2048, memory_bytes=used)
    assert kind(story, "MEM-032") is verdict
    kept = new().send("p0/1", size=3000).operate("limit", dest="q1", limit_bytes=2048)
    assert kind(read(kept, size=1, memory_limit_bytes=LIMIT, memory_bytes=used), "MEM-032") is SILENT
