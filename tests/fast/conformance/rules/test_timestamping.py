"""Time-stamping (TSP-001 to -012) on hand-written histories: each claim satisfied, violated by one millisecond, in
doubt where the clock leaves it open, not exercised.
"""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.configuration import TimeStampingSpec
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.facts.stamping import AHEAD, BEHIND, INT64_MAX, UNSTAMPED, stamps_of
from tests.fast.conformance.rules.clocked_history import FUTURE_ONLY, PLUGIN, Clocked

VIOLATED, SATISFIED, INCONCLUSIVE, NOT_EXERCISED = (
    VerdictKind.VIOLATED,
    VerdictKind.SATISFIED,
    VerdictKind.INCONCLUSIVE,
    VerdictKind.NOT_EXERCISED,
)
DAY_MS = 86_400_000


def verdicts(run: Clocked) -> dict[str, Verdict]:
    return run.verdicts(*(f"TSP-{number:03d}" for number in range(1, 13)))


def sent(spec: TimeStampingSpec | None, ttl_ms: int = 0, *, ahead_ms: int = 0, **fields: Any) -> Clocked:
    """p0/1 is sent and taken over in the millisecond 1 of the broker's clock."""
    run = Clocked(skews={"p0": ahead_ms}, timestamping=spec).at(1)
    run.request_ms = 0.1
    return run.post("p0/1", ttl_ms=ttl_ms, **fields)


def received(run: Clocked, timestamp_ms: int, expiration_ms: int = 0, **fields: object) -> dict[str, Verdict]:
    """It arrives in the drain with these stamps."""
    run.close(at_ms=5).deliver("drain/1", "p0/1", timestamp_ms=timestamp_ms, expiration_ms=expiration_ms, **fields)
    return verdicts(run.finish())


def test_an_empty_run_exercises_nothing() -> None:
    for verdict in verdicts(Clocked(timestamping=PLUGIN).close().finish()).values():
        assert verdict.verdict is NOT_EXERCISED


# -- TSP-001


@pytest.mark.parametrize(("off_ms", "expected"), [(0, SATISFIED), (1, VIOLATED), (-1, VIOLATED)])
def test_the_timestamp_is_the_brokers(off_ms: int, expected: VerdictKind) -> None:
    run = sent(PLUGIN, ahead_ms=300_000)
    found = received(run, run.wall_ms("b", 1) + off_ms)["TSP-001"]
    assert found.verdict is expected
    assert found.slack_ns == (-1_000_000 if off_ms else None)
    assert found.situations == ([] if off_ms else [AHEAD])


def test_a_long_send_leaves_room() -> None:
    run = Clocked(skews={"p0": -5000}, timestamping=PLUGIN).at(1)
    run.request_ms = 20
    run.post("p0/1")
    assert received(run, run.wall_ms("b", 21))["TSP-001"].verdict is SATISFIED


def test_a_kept_timestamp_that_may_be_the_brokers_is_in_doubt() -> None:
    run = Clocked(skews={"p0": 1000}, timestamping=PLUGIN).at(1)
    run.request_ms = 3000
    run.post("p0/1")
    found = received(run, run.sent("p0/1").timestamp_ms or 0)["TSP-001"]
    assert found.verdict is INCONCLUSIVE
    unknown = Clocked(skews={"p0": 1000}, timestamping=PLUGIN).at(1).post("p0/1", result="unknown")
    unknown.close(at_ms=3000).deliver("drain/1", "p0/1")
    assert verdicts(unknown.finish())["TSP-001"].verdict is NOT_EXERCISED


def test_without_clock_samples_nothing_can_be_said() -> None:
    run = Clocked(sampled=False, timestamping=PLUGIN).at(1).post("p0/1")
    assert received(run, run.wall_ms("b", 1))["TSP-001"].verdict is INCONCLUSIVE


def test_a_send_after_a_jump_at_the_same_instant() -> None:
    """The jump and the begin of the send share their nanosecond; the order of the events decides."""
    run = Clocked(timestamping=PLUGIN).at(1).step("b", 5000)
    run.request_ms = 0.1
    run.post("p0/1")
    assert received(run, run.wall_ms("b", 1) - 5000)["TSP-001"].verdict is VIOLATED


def test_a_send_that_ends_when_the_clock_jumps() -> None:
    run = sent(PLUGIN, ahead_ms=-7000).step("b", 5000)
    assert received(run, run.wall_ms("b", 1))["TSP-001"].verdict is VIOLATED
    run = sent(PLUGIN, ahead_ms=-7000).step("b", 5000)
    assert received(run, run.wall_ms("b", 1) - 5000)["TSP-001"].verdict is SATISFIED


def test_without_timestamp_the_broker_stamps() -> None:
    run = sent(PLUGIN, stamp=False)
    found = received(run, run.wall_ms("b", 1))["TSP-001"]
    assert (found.verdict, found.situations) == (SATISFIED, [UNSTAMPED])


# -- TSP-002, TSP-004


@pytest.mark.parametrize(
    ("ceiling_ms", "ttl_ms", "lived_ms", "requirement", "expected"),
    [
        (0, 2000, 2000, "TSP-002", SATISFIED),
        (0, 2000, 1999, "TSP-002", VIOLATED),
        (0, 2000, 2001, "TSP-002", VIOLATED),
        (2000, 2001, 2000, "TSP-004", SATISFIED),
        (2000, 2000, 2000, "TSP-004", SATISFIED),
        (2000, 1999, 1999, "TSP-002", SATISFIED),
        (2000, 2001, 2001, "TSP-004", VIOLATED),
        (2000, 5000, 1999, "TSP-004", VIOLATED),
    ],
)
def test_the_time_to_live(ceiling_ms: int, ttl_ms: int, lived_ms: int, requirement: str, expected: VerdictKind) -> None:
    run = sent(TimeStampingSpec(ttl_ceiling_ms=ceiling_ms), ttl_ms, ahead_ms=-300_000)
    now_ms = run.wall_ms("b", 1)
    found = received(run, now_ms, now_ms + lived_ms)[requirement]
    assert found.verdict is expected
    assert found.slack_ns == (None if expected is SATISFIED else -1_000_000)


# -- TSP-003, TSP-010


def test_future_only_leaves_a_later_expiration_alone() -> None:
    run = sent(FUTURE_ONLY, 2000, ahead_ms=300_000)
    send = run.sent("p0/1")
    found = received(run, send.timestamp_ms or 0, send.expiration_ms)
    assert found["TSP-003"].situations == [AHEAD]
    assert found["TSP-010"].verdict is SATISFIED


def test_future_only_never_lowers() -> None:
    run = sent(FUTURE_ONLY, 2000, ahead_ms=300_000)
    send = run.sent("p0/1")
    found = received(run, send.timestamp_ms or 0, send.expiration_ms - 1)
    assert (found["TSP-003"].verdict, found["TSP-003"].slack_ns) == (VIOLATED, -1_000_000)
    assert found["TSP-010"].verdict is VIOLATED


def test_future_only_raises_where_the_broker_is_ahead() -> None:
    run = sent(FUTURE_ONLY, 2000, ahead_ms=-300_000)
    now_ms = run.wall_ms("b", 1)
    found = received(run, now_ms, now_ms + 2000)
    assert found["TSP-003"].situations == [BEHIND]
    assert found["TSP-001"].verdict is SATISFIED
    assert found["TSP-010"].verdict is NOT_EXERCISED


def test_future_only_needs_a_later_expiration() -> None:
    """Both clocks show the same millisecond: nothing is later, so the timestamp must stay, which here shows nothing."""
    run = sent(FUTURE_ONLY, 2000)
    send = run.sent("p0/1")
    found = received(run, send.timestamp_ms or 0, send.expiration_ms)["TSP-010"]
    assert "both clocks showed the same millisecond" in found.situations


@pytest.mark.parametrize("ahead_ms", [300_000, -300_000])
@pytest.mark.parametrize(
    ("lived_ms", "expected"), [(1000, SATISFIED), (1001, VIOLATED), (2000, VIOLATED), (999, SATISFIED)]
)
def test_future_only_obeys_the_ceiling(ahead_ms: int, lived_ms: int, expected: VerdictKind) -> None:
    """Counted from the later of the two clocks. One millisecond less is TSP-003's."""
    run = sent(TimeStampingSpec(future_only=True, ttl_ceiling_ms=1000), 2000, ahead_ms=ahead_ms)
    from_ms = max(run.wall_ms("b", 1), run.sent("p0/1").timestamp_ms or 0)
    found = received(run, from_ms, from_ms + lived_ms)
    assert found["TSP-012"].verdict is expected
    assert found["TSP-010"].verdict is found["TSP-004"].verdict is NOT_EXERCISED
    lowered = ahead_ms > 0 and lived_ms < 1000
    assert found["TSP-003"].verdict is (VIOLATED if lowered else SATISFIED)


def test_a_ceiling_that_is_not_reached_is_no_instance() -> None:
    run = sent(TimeStampingSpec(future_only=True, ttl_ceiling_ms=2000), 2000, ahead_ms=300_000)
    send = run.sent("p0/1")
    found = received(run, send.timestamp_ms or 0, send.expiration_ms)
    assert found["TSP-012"].verdict is NOT_EXERCISED
    assert found["TSP-010"].verdict is SATISFIED


@pytest.mark.parametrize(("kept", "expected"), [(True, SATISFIED), (False, VIOLATED)])
def test_future_only_moves_no_timestamp_back(kept: bool, expected: VerdictKind) -> None:
    run = sent(FUTURE_ONLY, ahead_ms=300_000)
    sent_ms = run.sent("p0/1").timestamp_ms or 0
    found = received(run, sent_ms if kept else sent_ms - 1)["TSP-011"]
    assert (found.verdict, found.slack_ns) == (expected, 0 if kept else -1_000_000)


def test_an_expiration_does_not_fall_between_deliveries() -> None:
    run = sent(FUTURE_ONLY, 2000, ahead_ms=-300_000).at(3).connect("c0").subscribe("c0/1")
    now_ms = run.wall_ms("b", 1)
    run.deliver("c0/1", "p0/1", timestamp_ms=now_ms, expiration_ms=now_ms + 2000).leave("c0/1")
    run.close(at_ms=20)
    run.deliver("drain/1", "p0/1", timestamp_ms=now_ms, expiration_ms=now_ms + 1999, redelivered=True)
    assert verdicts(run.finish())["TSP-003"].verdict is VIOLATED


# -- TSP-005


@pytest.mark.parametrize(
    ("override_ms", "ceiling_ms", "lived_ms", "expected"),
    [
        (2000, 0, 2000, SATISFIED),
        (2000, 0, 2001, VIOLATED),
        (2000, 1000, 1000, SATISFIED),
        (2000, 1000, 2000, VIOLATED),
        (0, 0, None, SATISFIED),
        (0, 0, 5000, VIOLATED),
    ],
)
def test_the_override(override_ms: int, ceiling_ms: int, lived_ms: int | None, expected: VerdictKind) -> None:
    spec = TimeStampingSpec(zero_expiration_override_ms=override_ms, ttl_ceiling_ms=ceiling_ms)
    run = sent(spec, ahead_ms=-60_000)
    now_ms = run.wall_ms("b", 1)
    found = received(run, now_ms, 0 if lived_ms is None else now_ms + lived_ms)
    assert found["TSP-005"].verdict is expected


# -- TSP-006, TSP-007


@pytest.mark.parametrize(("spec", "requirement"), [(PLUGIN, "TSP-006"), (None, "TSP-007")])
@pytest.mark.parametrize(
    ("stamp_ms", "expiration_ms", "expected"), [(0, 0, SATISFIED), (1, 0, VIOLATED), (0, 1, VIOLATED)]
)
def test_what_must_not_be_touched(
    spec: TimeStampingSpec | None, requirement: str, stamp_ms: int, expiration_ms: int, expected: VerdictKind
) -> None:
    run = sent(spec, 2000, timestamp_ms=0 if spec else 77)
    send = run.sent("p0/1")
    found = received(run, (send.timestamp_ms or 0) + stamp_ms, send.expiration_ms + expiration_ms)
    assert found[requirement].verdict is expected


@pytest.mark.parametrize(("life_ms", "expected"), [(0, NOT_EXERCISED), (1, VIOLATED)])
def test_who_sends_no_timestamp_may_be_given_one(life_ms: int, expected: VerdictKind) -> None:
    run = sent(None, 2000, timestamp_ms=0)
    assert received(run, 5, run.sent("p0/1").expiration_ms + life_ms)["TSP-007"].verdict is expected


def test_delayed_messages_are_outside() -> None:
    run = sent(None, 2000, delay_ms=100)
    assert received(run, 5, 6)["TSP-007"].verdict is NOT_EXERCISED


# -- TSP-008, TSP-009


@pytest.mark.parametrize(("off_ms", "expected"), [(0, SATISFIED), (1, VIOLATED)])
def test_a_dead_letter_is_not_stamped_again(off_ms: int, expected: VerdictKind) -> None:
    run = sent(PLUGIN, 100, ahead_ms=DAY_MS)
    run.close(at_ms=500).dead_letter("p0/1", timestamp_ms=run.wall_ms("b", 1) + off_ms)
    assert verdicts(run.finish())["TSP-008"].verdict is expected


def test_a_dead_letter_gets_no_override() -> None:
    run = sent(TimeStampingSpec(zero_expiration_override_ms=100))
    now_ms = run.wall_ms("b", 1)
    run.close(at_ms=500).dead_letter("p0/1", timestamp_ms=now_ms, expiration_ms=run.wall_ms("b", 300))
    assert verdicts(run.finish())["TSP-008"].verdict is VIOLATED


def test_a_dead_letter_has_the_timestamp_that_an_earlier_delivery_showed() -> None:
    run = sent(PLUGIN, 100, ahead_ms=DAY_MS).at(3).connect("c0").subscribe("c0/1")
    now_ms = run.wall_ms("b", 1)
    run.deliver("c0/1", "p0/1", timestamp_ms=now_ms, expiration_ms=now_ms + 100).leave("c0/1")
    run.close(at_ms=500).dead_letter("p0/1", timestamp_ms=now_ms + 1)
    assert verdicts(run.finish())["TSP-008"].verdict is VIOLATED


@pytest.mark.parametrize(("off_ms", "expected"), [(0, SATISFIED), (1, VIOLATED), (None, VIOLATED)])
def test_dead_for_its_own_producer(off_ms: int | None, expected: VerdictKind) -> None:
    """The expiration lies before the timestamp but after the broker's clock, so it is delivered; it must keep it."""
    run = sent(PLUGIN, -1000, ahead_ms=300_000)
    now_ms = run.wall_ms("b", 1)
    send = run.sent("p0/1")
    stamp_ms = now_ms if off_ms is not None else send.timestamp_ms or 0
    found = received(run, stamp_ms, send.expiration_ms + (off_ms or 0))["TSP-009"]
    assert found.verdict is expected


def test_dead_for_its_own_producer_and_dead_lettered() -> None:
    run = sent(PLUGIN, -1000)
    run.close(at_ms=20).dead_letter("p0/1", timestamp_ms=run.wall_ms("b", 1))
    assert verdicts(run.finish())["TSP-009"].situations == ["it was dead-lettered"]


# -- the rule itself


@pytest.mark.parametrize(
    ("spec", "sent_ms", "expiration_ms", "wall_ms", "stamp_ms", "new_ms"),
    [
        (PLUGIN, 0, 500, 1000, 0, 500),
        (PLUGIN, -1, 0, 1000, -1, 0),
        (PLUGIN, 100, 0, 1000, 1000, 0),
        (PLUGIN, 100, -5, 1000, 1000, -5),
        (PLUGIN, 100, 150, 1000, 1000, 1050),
        (PLUGIN, 100, 100, 1000, 1000, 100),
        (PLUGIN, 100, 90, 1000, 1000, 90),
        (PLUGIN, 1, INT64_MAX, 1000, 1000, INT64_MAX),
        (FUTURE_ONLY, 2000, 2050, 1000, 2000, 2050),
        (FUTURE_ONLY, 1000, 1050, 1000, 1000, 1050),
        (FUTURE_ONLY, 999, 1049, 1000, 1000, 1050),
        (FUTURE_ONLY, 2000, 0, 1000, 1000, 0),
        (TimeStampingSpec(ttl_ceiling_ms=20), 100, 150, 1000, 1000, 1020),
        (TimeStampingSpec(ttl_ceiling_ms=50), 100, 150, 1000, 1000, 1050),
        (TimeStampingSpec(future_only=True, ttl_ceiling_ms=20), 990, 1040, 1000, 990, 1040),
        (TimeStampingSpec(future_only=True, ttl_ceiling_ms=20), 100, 150, 1000, 1000, 1020),
        (TimeStampingSpec(zero_expiration_override_ms=30), 100, 0, 1000, 1000, 1030),
        (TimeStampingSpec(zero_expiration_override_ms=30, ttl_ceiling_ms=20), 100, -1, 1000, 1000, 1020),
    ],
)
def test_the_rule(
    spec: TimeStampingSpec, sent_ms: int, expiration_ms: int, wall_ms: int, stamp_ms: int, new_ms: int
) -> None:
    stamps = stamps_of(spec, sent_ms, expiration_ms, wall_ms)
    assert (stamps.timestamp_ms, stamps.expiration_ms) == (stamp_ms, new_ms)


@pytest.mark.parametrize(("spec", "requirement"), [(None, "TSP-007"), (PLUGIN, "TSP-006")])
@pytest.mark.parametrize(("result", "expected"), [("ok", VIOLATED), ("unknown", NOT_EXERCISED)])
def test_a_library_that_was_given_up_may_have_stamped_later(
    spec: TimeStampingSpec | None, requirement: str, result: str, expected: VerdictKind
) -> None:
    """Nobody waited for the end of the send, so what it told of its stamps was told too early."""
    run = sent(spec, timestamp_ms=0, result=result)
    expiration_ms = run.sent("p0/1").expiration_ms + (0 if spec else 1)  # a timestamp alone may be filled in (TSP-007)
    assert received(run, 1_795_219_200_077, expiration_ms)[requirement].verdict is expected
