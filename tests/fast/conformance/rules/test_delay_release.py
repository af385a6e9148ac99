"""What may be asked for, and releases (DLY-011, DLY-013, DLY-014, DLY-021, DLY-025, DLY-027, DLY-029 to DLY-031,
DLY-034 to DLY-036) on hand-written histories: satisfied, violated, not exercised.
"""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.configuration import PolicySpec
from brokerproof.conformance.experiment.destinations import ALL_TOPICS
from brokerproof.conformance.experiment.history import Pause, Poll, Unsubscribe
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.rules.delay_release import DEEP
from tests.fast.conformance.rules.clocked_history import Clocked

VIOLATED, SATISFIED, NOT_EXERCISED = VerdictKind.VIOLATED, VerdictKind.SATISFIED, VerdictKind.NOT_EXERCISED


NUMBERS = (11, 13, 14, 21, 25, 27, 29, 30, 31, 34, 35, 36)


def judged(run: Clocked) -> dict[str, Verdict]:
    return run.verdicts(*(f"DLY-{number:03d}" for number in NUMBERS))


def started(*, dest: str = "q0", durable: str = "", **declared: Any) -> Clocked:
    """c0/1 waits on a destination; requests take 0.1 ms; it is 10 ms."""
    run = Clocked(**declared).at(1).connect("c0").connect("p0").subscribe("c0/1", dest, durable=durable)
    run.request_ms = 0.1
    return run.at(10)


# -- DLY-021


@pytest.mark.parametrize(
    ("delivered", "ended", "expected"),
    [(True, "", SATISFIED), (False, "", VIOLATED), (False, "ok", NOT_EXERCISED), (False, "unknown", NOT_EXERCISED)],
)
def test_a_durable_subscription_need_not_be_there(delivered: bool, ended: Any, expected: VerdictKind) -> None:
    run = started(dest="t0", durable="d").leave("c0/1").at(20).post("p0/1", "t0", delay_ms=1000)
    if ended:
        run.events.append(Unsubscribe(99, 30_000_000, 30_000_000, "c0", ended, "d"))
    run.at(2000).subscribe("c0/2", "t0", durable="d")
    if delivered:
        run.at(2010).deliver("c0/2", "p0/1", dest="t0")
    assert judged(run.close(at_ms=5000).at(6000).finish())["DLY-021"].verdict is expected


def test_who_looks_what_a_durable_subscription_has_left_is_not_who_missed_it() -> None:
    run = started(dest="t0", durable="d").leave("c0/1").at(20).post("p0/1", "t0", delay_ms=1000)
    run.at(2000).subscribe("c0/2", "t0", durable="d").at(5000).leave("c0/2")
    run.at(5100).subscribe("c0/3", "t0", durable="d").at(5200).leave("c0/3")
    assert judged(run.close(at_ms=5300).at(6000).finish())["DLY-021"].verdict is VIOLATED


# -- DLY-005 and DLY-020, while a topic is full and afterwards


def full_topic(
    *,
    size: int = 20_000,
    settles: bool = True,
    other: str = "",
    later_ms: int = 3000,
    end_ms: int = 5000,
    used_bytes: int = 0,
    **fields: Any,
) -> Clocked:
    """p0/2 is due while c0/1 has p0/1, which fills the topic."""
    limited = [PolicySpec(memory_limit_bytes=16_384, **fields.pop("entry", {}))]
    run = started(dest="t0", policies=limited, memory_limit_bytes=0).post("p0/1", "t0", size=size)
    run.at(20).deliver("c0/1", "p0/1", dest="t0").at(30).post("p0/2", "t0", delay_ms=32, **fields)
    if settles:
        run.at(1200).ack("c0/1", "p0/1")
    if other:
        run.connect("c1").subscribe("c1/1", other, durable="d" if other == "t0" else "")
    run.at(1500).rest("t0", in_flight=0, memory_bytes=used_bytes)
    run.at(later_ms).rest("t0", in_flight=0, memory_bytes=used_bytes)
    return run.close(at_ms=end_ms).finish()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, VIOLATED),
        ({"settles": False}, NOT_EXERCISED),  # it may still wait for room
        ({"later_ms": 2000, "end_ms": 2100}, NOT_EXERCISED),  # it may be under way
        ({"used_bytes": 20_000}, NOT_EXERCISED),  # the broker says that memory is not free
        ({"other": "t0"}, NOT_EXERCISED),  # a durable subscriber may have something
        ({"other": ALL_TOPICS}, NOT_EXERCISED),
        ({"ttl_ms": 10}, NOT_EXERCISED),
        ({"entry": {"pending_message_limit": 1}}, NOT_EXERCISED),
        ({"size": 1}, VIOLATED),  # nothing was ever full
    ],
)
def test_what_was_due_while_its_topic_was_full_comes_when_there_is_room(
    fields: dict[str, Any], expected: VerdictKind
) -> None:
    found = full_topic(**fields).verdicts("DLY-005", "DLY-020")
    assert [found[name].verdict for name in ("DLY-005", "DLY-020")] == [expected, expected]


def test_what_does_not_fit_at_all_may_wait_for_ever() -> None:
    run = started(dest="t0", policies=[PolicySpec(memory_limit_bytes=1024)], memory_limit_bytes=0)
    run.post("p0/2", "t0", delay_ms=32, size=1024).at(1500).rest("t0").at(3000).rest("t0")
    assert run.close(at_ms=5000).finish().verdicts("DLY-005")["DLY-005"].verdict is NOT_EXERCISED


# -- DLY-029 to DLY-031


@pytest.mark.parametrize(
    ("result", "arrive_ms", "outcome"),
    [("fail", None, "refused"), ("ok", 11, "taken-as-none"), ("ok", 1500, "wrapped"), ("ok", None, "wrapped")],
)
def test_a_negative_delay(result: str, arrive_ms: float | None, outcome: str) -> None:
    run = started().post("p0/1", delay_ms=-5, result=result)
    if arrive_ms is not None:
        run.at(arrive_ms).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=3000).finish())["DLY-029"].outcome == outcome


@pytest.mark.parametrize(
    ("requirement", "declared"), [("DLY-030", {"delay_max_ms": 100}), ("DLY-031", {"delay_support": False})]
)
@pytest.mark.parametrize(("result", "expected"), [("fail", SATISFIED), ("ok", VIOLATED), ("unknown", NOT_EXERCISED)])
def test_what_is_not_taken_is_refused(
    requirement: str, declared: dict[str, Any], result: str, expected: VerdictKind
) -> None:
    run = started(**declared).post("p0/1", delay_ms=101, result=result)
    assert judged(run.close(at_ms=3000).finish())[requirement].verdict is expected


def test_a_negative_delay_may_be_none_where_there_are_no_delays() -> None:
    run = started(delay_support=False).post("p0/1", delay_ms=-1).at(11).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=3000).finish())["DLY-031"].verdict is NOT_EXERCISED


def test_what_is_not_too_long_is_no_instance() -> None:
    run = started(delay_max_ms=100).post("p0/1", delay_ms=100).at(111).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=3000).finish())["DLY-030"].verdict is NOT_EXERCISED


# -- DLY-034, DLY-035


@pytest.mark.parametrize(
    ("count", "arrive_ms", "expected"),
    [(DEEP, 111, SATISFIED), (DEEP, 1200, VIOLATED), (DEEP - 1, 1200, NOT_EXERCISED)],
)
def test_a_deep_backlog_makes_nothing_late(count: int, arrive_ms: float, expected: VerdictKind) -> None:
    run = started()
    for number in range(count):
        run.post(f"p0/{number + 2}", delay_ms=60_000)
    run.at(10).post("p0/1", delay_ms=100).at(arrive_ms).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=3000).finish())["DLY-035"].verdict is expected


@pytest.mark.parametrize(
    ("size", "arrive_ms", "expected"),
    [(1000, 111, SATISFIED), (1000, 1200, VIOLATED), (10, 1200, NOT_EXERCISED)],
)
def test_a_full_queue_makes_nothing_late_elsewhere(size: int, arrive_ms: float, expected: VerdictKind) -> None:
    entries = [PolicySpec(), PolicySpec("q1", memory_limit_bytes=1500)]
    run = started(policies=entries)
    for number in (2, 3):
        run.at(5 + number).post(f"p0/{number}", "q1", delay_ms=50, size=size)
    run.at(10).post("p0/1", delay_ms=100).at(arrive_ms).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=3000).finish())["DLY-034"].verdict is expected


# -- DLY-036


@pytest.mark.parametrize(("again_ms", "expected"), [(5012, SATISFIED), (7000, VIOLATED), (None, VIOLATED)])
def test_what_comes_back_does_not_wait_again(again_ms: float | None, expected: VerdictKind) -> None:
    run = started().connect("c1").at(2).subscribe("c1/1").at(10).post("p0/1", delay_ms=5000)
    run.at(5011).deliver("c0/1", "p0/1").at(5011.5).leave("c0/1")
    if again_ms is not None:
        run.at(again_ms).deliver("c1/1", "p0/1")
    assert judged(run.close(at_ms=9000).finish())["DLY-036"].verdict is expected


def test_what_was_settled_need_not_come_back() -> None:
    run = started().connect("c1").at(2).subscribe("c1/1").at(10).post("p0/1", delay_ms=5000)
    run.at(5011).deliver("c0/1", "p0/1").ack("c0/1", "p0/1").at(5013).leave("c0/1")
    assert judged(run.close(at_ms=9000).finish())["DLY-036"].verdict is NOT_EXERCISED


# -- DLY-025


@pytest.mark.parametrize(("again", "outcome"), [(False, "at-most-once"), (True, "twice")])
def test_what_is_not_persistent_comes_once(again: bool, outcome: str) -> None:
    run = started().post("p0/1", delay_ms=100, persistent=False).at(111).deliver("c0/1", "p0/1")
    run.at(112).ack("c0/1", "p0/1")
    if again:
        run.at(120).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=3000).finish())["DLY-025"].outcome == outcome


# -- DLY-011, DLY-013, DLY-014, DLY-027


@pytest.mark.parametrize(
    ("arrive_ms", "asked", "expected"), [(111, True, SATISFIED), (50, True, VIOLATED), (111, False, VIOLATED)]
)
def test_a_pull_before_the_time_brings_nothing(arrive_ms: float, asked: bool, expected: VerdictKind) -> None:
    run = Clocked().at(1).connect("c0", "jms").connect("p0").subscribe("c0/1", prefetch=0)
    run.request_ms = 0.1
    run.at(10).post("p0/1", delay_ms=100).at(20)._add(Poll, "c0", 20.0, consumer="c0/1", answered=True)
    run.at(arrive_ms).deliver("c0/1", "p0/1")
    if asked:
        run.at(45)._add(Poll, "c0", 100.0, consumer="c0/1", message="p0/1", answered=True)
    assert judged(run.close(at_ms=3000).finish())["DLY-011"].verdict is expected


@pytest.mark.parametrize(
    ("off_ms", "read_off_ms", "outcome"), [(100, 0, "as-sent"), (100, 1, "changed"), (102, 0, "otherwise")]
)
def test_both_ends_read_the_same_delivery_time(off_ms: int, read_off_ms: int, outcome: str) -> None:
    run = started(skews={"p0": 5000})
    asked_ms = run.wall_ms("p0") + off_ms
    run.post("p0/1", delay_ms=100, delivery_time_ms=asked_ms)
    run.at(111).deliver("c0/1", "p0/1", delivery_time_ms=asked_ms + read_off_ms)
    assert judged(run.close(at_ms=3000).finish())["DLY-013"].outcome == outcome


@pytest.mark.parametrize(
    ("world", "via", "expected"),
    [("live", "stomp", NOT_EXERCISED), ("live", "jms", VIOLATED), ("simulated", "stomp", VIOLATED)],
)
def test_only_who_has_a_word_for_it_reads_a_delivery_time(world: str, via: str, expected: VerdictKind) -> None:
    run = Clocked(world=world).at(1).connect("c0", via).connect("p0").subscribe("c0/1")
    run.post("p0/1", delivery_time_ms=run.wall_ms("p0")).at(20).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=3000).finish())["DLY-013"].verdict is expected


@pytest.mark.parametrize(("kept", "outcome"), [(False, "ignored"), (True, "kept")])
def test_what_the_application_had_set_is_not_seen(kept: bool, outcome: str) -> None:
    run = started(skews={"p0": 0}).post("p0/1", preset_ms=77)
    run.at(11).deliver("c0/1", "p0/1", delivery_time_ms=77 if kept else None)
    assert judged(run.close(at_ms=3000).finish())["DLY-014"].outcome == outcome


@pytest.mark.parametrize(
    ("arrives_ms", "outcome"), [([2001.0], "once"), ([2001.0, 2002.0], "twice"), ([], "late"), ([3500.0], "late")]
)
def test_what_became_due_in_a_pause_comes_after_it(arrives_ms: list[float], outcome: str) -> None:
    run = started().post("p0/1", delay_ms=1000).at(500)._add(Pause, "", 1500.0, target="b")
    for at_ms in arrives_ms:
        run.at(at_ms).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=9000).finish())["DLY-027"].outcome == outcome
