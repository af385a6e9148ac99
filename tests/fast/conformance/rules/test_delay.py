"""DLY-001 to DLY-009 on hand-written histories: each claim satisfied, violated (by one millisecond where it is timed),
in doubt where intervals are wide, not exercised.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.rules.delay import BACK, FORWARD, IDLE
from tests.fast.conformance.rules.clocked_history import Clocked
from tests.fast.conformance.rules.history_builder import Builder

VIOLATED, SATISFIED, INCONCLUSIVE, NOT_EXERCISED = (
    VerdictKind.VIOLATED,
    VerdictKind.SATISFIED,
    VerdictKind.INCONCLUSIVE,
    VerdictKind.NOT_EXERCISED,
)


def verdicts(run: Clocked) -> dict[str, Verdict]:
    return run.verdicts(*(f"DLY-{number:03d}" for number in range(1, 10)))


def delayed(
    delay_ms: int = 100, *, prefetch: int = 10, consumer: bool = True, uncertainty_ms: int = 0, **fields: Any
) -> Clocked:
    """c0/1 waits; p0/1 is sent at 10 ms, within 0.1 ms, with a delay."""
    run = Clocked(uncertainty_ms=uncertainty_ms).at(1)
    run.connect("c0").connect("p0")
    if consumer:
        run.subscribe("c0/1", prefetch=prefetch)
    run.request_ms = 0.1
    return run.at(10).post("p0/1", delay_ms=delay_ms, **fields)


def test_a_run_without_delays_exercises_nothing() -> None:
    for verdict in verdicts(Clocked().post("p0/1").close().deliver("drain/1", "p0/1").finish()).values():
        assert verdict.verdict is NOT_EXERCISED


# -- DLY-001


@pytest.mark.parametrize(("arrive_ms", "expected"), [(110, SATISFIED), (109.1, VIOLATED), (109.999, VIOLATED)])
def test_never_before_the_delay_has_elapsed(arrive_ms: float, expected: VerdictKind) -> None:
    found = verdicts(delayed().at(arrive_ms).deliver("c0/1", "p0/1").close(at_ms=3000).finish())["DLY-001"]
    assert found.verdict is expected
    if expected is VIOLATED:
        assert found.slack_ns == round((arrive_ms - 110) * 1_000_000)
        assert "early" in found.text


@pytest.mark.parametrize(
    ("world", "arrive_ms", "expected"),
    [
        ("live", 109.1, INCONCLUSIVE),
        ("live", 108.9, VIOLATED),
        ("external", 109.1, INCONCLUSIVE),
        ("simulated", 109.1, VIOLATED),
    ],
)
def test_a_real_brokers_clock_shows_whole_milliseconds(world: str, arrive_ms: float, expected: VerdictKind) -> None:
    run = Clocked(world=world).at(1).connect("c0").connect("p0").subscribe("c0/1")
    run.request_ms = 0.1
    run.at(10).post("p0/1", delay_ms=100).at(arrive_ms).deliver("c0/1", "p0/1").close(at_ms=3000)
    assert verdicts(run.finish())["DLY-001"].verdict is expected


def test_a_defect_of_one_millisecond_hides_behind_a_way_of_one_millisecond() -> None:
    """Why programs with latency 0 or 10 us are needed: accepted 0.5 ms after the send began, released 1 ms early, 0.5
    ms to the consumer.
    """
    run = delayed().at(10 + 0.5 + 100 - 1 + 0.5).deliver("c0/1", "p0/1")
    assert verdicts(run.close(at_ms=3000).finish())["DLY-001"].verdict is SATISFIED


def test_an_arrival_that_took_long_is_in_doubt() -> None:
    run = delayed().at(105).deliver("c0/1", "p0/1")
    run.events[-1].t1 += 10_000_000
    assert verdicts(run.close(at_ms=3000).finish())["DLY-001"].verdict is INCONCLUSIVE


def test_a_send_that_took_long_is_in_doubt() -> None:
    run = Clocked().connect("c0").subscribe("c0/1").at(10)
    run.request_ms = 5000
    run.post("p0/1", delay_ms=6000).at(6010).deliver("c0/1", "p0/1")
    found = verdicts(run.close(at_ms=9000).finish())["DLY-001"]
    assert found.verdict is INCONCLUSIVE
    assert "undecided by 5000.000 ms" in found.text


def test_topics_are_not_early_either() -> None:
    run = Clocked().connect("c0").subscribe("c0/1", "t0").at(10).post("p0/1", "t0", delay_ms=100)
    run.at(60).deliver("c0/1", "p0/1")
    assert verdicts(run.close(at_ms=3000).finish())["DLY-001"].verdict is VIOLATED


# -- DLY-002


def test_on_time_while_a_consumer_waits() -> None:
    found = verdicts(delayed().at(150).deliver("c0/1", "p0/1").close(at_ms=5000).finish())["DLY-002"]
    assert (found.verdict, found.situations) == (SATISFIED, [IDLE])
    assert found.slack_ns == 960_100_000


@pytest.mark.parametrize(("arrive_ms", "expected"), [(1110.1, SATISFIED), (1110.2, VIOLATED), (None, VIOLATED)])
def test_later_than_the_declared_lateness(arrive_ms: float | None, expected: VerdictKind) -> None:
    run = delayed()
    if arrive_ms is not None:
        run.at(arrive_ms).deliver("c0/1", "p0/1")
    found = verdicts(run.close(at_ms=5000).finish())["DLY-002"]
    assert found.verdict is expected


@pytest.mark.parametrize("excuse", ["stall", "leave", "window", "late", "pause", "other", "uncertain"])
def test_what_excuses_lateness(excuse: str) -> None:
    run = delayed(prefetch=1 if excuse == "window" else 10, consumer=excuse != "late")
    if excuse == "stall":
        run.at(50).stall("c0", "client").at(60).resume("c0").at(90).stall("c0", "client").at(2000).resume("c0")
    elif excuse == "leave":
        run.at(200).leave("c0/1").subscribe("c0/2")
    elif excuse == "window":
        run.post("p0/2").deliver("c0/1", "p0/2")
    elif excuse == "late":
        run.at(500).subscribe("c0/1")
    elif excuse == "pause":
        run.at(100).pause("b")
    elif excuse == "other":
        run.connect("c1").subscribe("c1/1").at(90).stall("c1", "both")
    elif excuse == "uncertain":
        run.at(90).closed("c0")
    run.at(3000).deliver("c0/1", "p0/1")
    assert verdicts(run.close(at_ms=5000).finish())["DLY-002"].verdict is NOT_EXERCISED


def test_a_message_that_dies_need_not_be_on_time() -> None:
    found = verdicts(delayed(ttl_ms=500).close(at_ms=5000).dead_letter("p0/1").finish())
    assert found["DLY-002"].verdict is NOT_EXERCISED


def test_every_subscriber_of_a_topic_that_was_there_gets_it() -> None:
    run = (
        Clocked().connect("c0").subscribe("c0/1", "t0").subscribe("c0/2", "t0").at(10).post("p0/1", "t0", delay_ms=100)
    )
    run.subscribe("c0/3", "t0").at(112).deliver("c0/1", "p0/1")
    assert verdicts(run.close(at_ms=5000).finish())["DLY-002"].verdict is VIOLATED
    run = Clocked().connect("c0").subscribe("c0/1", "t0").at(10).post("p0/1", "t0", delay_ms=100)
    run.subscribe("c0/3", "t0").at(112).deliver("c0/1", "p0/1")
    assert verdicts(run.close(at_ms=5000).finish())["DLY-002"].verdict is SATISFIED


# -- DLY-003


def test_never_before_the_brokers_clock_has_advanced() -> None:
    good = verdicts(delayed().at(110.1).deliver("c0/1", "p0/1").close(at_ms=3000).finish())["DLY-003"]
    assert (good.verdict, good.grade) == (SATISFIED, "ok")
    bad = verdicts(delayed().at(109.1).deliver("c0/1", "p0/1").close(at_ms=3000).finish())["DLY-003"]
    assert (bad.verdict, bad.slack_ns) == (VIOLATED, -900_000)


def test_early_by_a_clock_that_went_back_is_acceptable() -> None:
    run = delayed().at(50).step("b", -1000).at(111).deliver("c0/1", "p0/1").close(at_ms=3000).finish()
    found = verdicts(run)["DLY-003"]
    assert (found.verdict, found.grade, found.outcome) == (SATISFIED, "acceptable", "early-by-a-clock-that-went-back")


def test_by_a_clock_that_is_hardly_known_it_is_in_doubt() -> None:
    run = delayed(2000, uncertainty_ms=1500).at(2011).deliver("c0/1", "p0/1").close(at_ms=5000).finish()
    assert verdicts(run)["DLY-003"].verdict is INCONCLUSIVE


# -- DLY-004, DLY-007, DLY-009


def behind_a_longer_one(arrive_ms: float, *, delay_ms: int = 0, prefetch: int = 10, longer_ms: int = 60_000) -> Clocked:
    """p0/1 waits for a minute; p0/2 is sent at 20 ms."""
    run = delayed(longer_ms, prefetch=prefetch).at(20).post("p0/2", delay_ms=delay_ms)
    return run.at(arrive_ms).deliver("c0/1", "p0/2").close(at_ms=65_000).deliver("drain/1", "p0/1").finish()


def test_a_plain_message_is_not_held_up() -> None:
    assert verdicts(behind_a_longer_one(21))["DLY-004"].outcome == "not-held-up"
    found = verdicts(behind_a_longer_one(1020.2))["DLY-004"]
    assert (found.verdict, found.outcome) == (VIOLATED, "late")
    assert len(found.witness) == 3
    assert verdicts(behind_a_longer_one(1020.2, longer_ms=500))["DLY-004"].verdict is NOT_EXERCISED


def test_a_shorter_delay_is_not_held_up() -> None:
    assert verdicts(behind_a_longer_one(521, delay_ms=500))["DLY-007"].outcome == "not-held-up"
    assert verdicts(behind_a_longer_one(1520.2, delay_ms=500))["DLY-007"].verdict is VIOLATED


def test_a_waiting_message_takes_no_slot() -> None:
    assert verdicts(behind_a_longer_one(21, prefetch=1))["DLY-009"].outcome == "no-slot-taken"
    assert verdicts(behind_a_longer_one(60_020, prefetch=1))["DLY-009"].verdict is VIOLATED
    assert verdicts(behind_a_longer_one(21, prefetch=2))["DLY-009"].verdict is NOT_EXERCISED


# -- DLY-005


def test_it_is_not_lost() -> None:
    assert verdicts(delayed().close(at_ms=5000).deliver("drain/1", "p0/1").finish())["DLY-005"].verdict is SATISFIED
    assert verdicts(delayed(ttl_ms=50).close(at_ms=5000).dead_letter("p0/1").finish())["DLY-005"].verdict is SATISFIED
    found = verdicts(delayed().close(at_ms=5000).finish())["DLY-005"]
    assert (found.verdict, found.outcome) == (VIOLATED, "lost")


def test_where_no_dead_letters_are_promised_what_expires_may_disappear() -> None:
    def found(*promised: str) -> VerdictKind:
        run = delayed(ttl_ms=50)
        run.header = replace(run.header, capabilities=["delay", "ttl", *promised])
        return verdicts(run.close(at_ms=5000).finish())["DLY-005"].verdict

    assert (found("dead-letter"), found()) == (VIOLATED, NOT_EXERCISED)


@pytest.mark.parametrize(
    "fields", [{"result": "unknown"}, {"delay_ms": 60_000}, {"persistent": False, "ttl_ms": 50}], ids=str
)
def test_what_may_be_missing(fields: dict[str, Any]) -> None:
    delay_ms = fields.pop("delay_ms", 100)
    run = delayed(delay_ms, consumer=False, **fields)
    assert verdicts(run.close(at_ms=5000).finish())["DLY-005"].verdict is NOT_EXERCISED


# -- DLY-006


def test_the_time_to_live_counts_from_the_send() -> None:
    """Sent at 10 ms with 50 ms to live and a delay of 100 ms: dead from 61 ms on."""
    run = delayed(ttl_ms=50).at(111).deliver("c0/1", "p0/1").close(at_ms=3000).finish()
    found = verdicts(run)["DLY-006"]
    assert (found.verdict, found.outcome) == (VIOLATED, "delivered-dead")
    good = verdicts(delayed(ttl_ms=50).close(at_ms=3000).dead_letter("p0/1").finish())["DLY-006"]
    assert (good.verdict, good.situations) == (SATISFIED, ["the time to live ended before the delay"])


@pytest.mark.parametrize(("ttl_ms", "expected"), [(100, SATISFIED), (99, VIOLATED)])
def test_at_the_very_millisecond(ttl_ms: int, expected: VerdictKind) -> None:
    """Due at 110 ms: with 100 ms to live it lives in that millisecond, with 99 ms it is dead."""
    run = delayed(ttl_ms=ttl_ms).at(110.2).deliver("c0/1", "p0/1").close(at_ms=3000).finish()
    assert verdicts(run)["DLY-006"].verdict is expected


def test_the_expiration_is_not_moved() -> None:
    run = delayed(ttl_ms=50)
    run.at(111).deliver("c0/1", "p0/1", expiration_ms=run.wall_ms("p0", 111) + 50).close(at_ms=3000).finish()
    assert verdicts(run)["DLY-006"].outcome == "restarted"


# -- DLY-008


@pytest.mark.parametrize(("jump_ms", "situation"), [(1000, FORWARD), (-1000, BACK)])
def test_a_step_of_the_brokers_clock_changes_nothing(jump_ms: int, situation: str) -> None:
    run = delayed().at(50).step("b", jump_ms).at(111).deliver("c0/1", "p0/1").close(at_ms=5000).finish()
    found = verdicts(run)
    assert (found["DLY-008"].verdict, found["DLY-008"].situations) == (SATISFIED, [situation])
    assert found["DLY-002"].verdict is NOT_EXERCISED


def test_a_step_forward_releases_nothing_early() -> None:
    run = delayed().at(50).step("b", 1000).at(109.1).deliver("c0/1", "p0/1").close(at_ms=5000).finish()
    assert verdicts(run)["DLY-008"].outcome == "early"


def test_a_step_back_strands_nothing() -> None:
    run = delayed().at(50).step("b", -5000).at(3000).deliver("c0/1", "p0/1").close(at_ms=5000).finish()
    assert verdicts(run)["DLY-008"].outcome == "late"


# -- absolute delivery times


def test_an_absolute_delivery_time_is_related_to_the_brokers_clock() -> None:
    """The producer's clock is ahead by a second; the broker must wait for 1100 ms of its own."""

    def arriving(arrive_ms: float) -> Verdict:
        run = Clocked(skews={"p0": 1000}).connect("c0").subscribe("c0/1").at(10)
        run.request_ms = 0.1
        run.post("p0/1", deliver_at_ms=run.wall_ms("p0") + 100).at(arrive_ms).deliver("c0/1", "p0/1")
        return verdicts(run.close(at_ms=5000).finish())["DLY-001"]

    assert arriving(1110.2).verdict is SATISFIED
    assert arriving(1109.1).verdict is VIOLATED


@pytest.mark.parametrize(("world", "back_ms", "expected"), [
    ("live", 0, VIOLATED), ("live", 60_000, NOT_EXERCISED), ("live", 1000, VIOLATED), ("simulated", 60_000, VIOLATED),
])  # fmt: skip
def test_who_waits_by_a_clock_that_was_set_back_may_still_be_waiting(
    world: str, back_ms: int, expected: VerdictKind
) -> None:
    """And forth again: late, not lost, unless it had the time."""
    story = Builder(world).connect("p0").send("p0/1", delay_ms=100)
    if back_ms:
        story.jump("b", -back_ms).clock("b", -back_ms).wait(500).jump("b", back_ms).clock("b")
    story.wait(4000).drain("q0", "ActiveMQ.DLQ").end()
    found = story.verdicts("DLY-005", "GEN-001")
    assert [found[name].verdict for name in ("DLY-005", "GEN-001")] == [expected, expected]


@pytest.mark.parametrize(("world", "early_us", "expected"), [
    ("live", 52, VerdictKind.INCONCLUSIVE), ("live", 999, VerdictKind.INCONCLUSIVE), ("live", 1000, VIOLATED),
    ("simulated", 52, VIOLATED), ("live", 0, SATISFIED),
])  # fmt: skip
def test_a_program_that_reads_whole_milliseconds_may_be_short_of_a_delay(
    world: str, early_us: int, expected: VerdictKind
) -> None:
    story = Builder(world).connect("p0").connect("c0").subscribe("c0/1").at(100).send("p0/1", delay_ms=500)
    story.at(600 - early_us / 1000).arrive("c0/1", "p0/1").consume("c0/1", "p0/1").ack("c0/1", "p0/1").end()
    assert story.verdicts("DLY-001")["DLY-001"].verdict is expected


@pytest.mark.parametrize(
    ("arrives_ms", "expected"),
    [(100, VerdictKind.VIOLATED), (5000, VerdictKind.NOT_EXERCISED), (12_000, VerdictKind.SATISFIED)],
)
def test_after_a_restart_on_a_stepped_clock_nobody_promises_which_clock_counts(
    arrives_ms: float, expected: VerdictKind
) -> None:
    told = Builder(persistent=True).connect("p0").connect("c0").clock("b").send("p0/1", delay_ms=10_000)
    told = told.subscribe("c0/1")
    if arrives_ms > 1000:
        told = told.at(1000).jump("b", 6000).clock("b").restart().connect("c0").subscribe("c0/2")
    told = told.at(arrives_ms).arrive("c0/2" if arrives_ms > 1000 else "c0/1", "p0/1").end()
    assert told.verdicts("DLY-001")["DLY-001"].verdict is expected
