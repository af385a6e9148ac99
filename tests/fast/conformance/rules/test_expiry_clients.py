"""Expiry by the clocks of clients, of relative lives, browsers and durables, on hand-written histories."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import DeadLetterSpec, PolicySpec
from brokerproof.conformance.experiment.history import Poll
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from tests.fast.conformance.rules.clocked_history import PLUGIN, Clocked
from tests.fast.conformance.rules.history_builder import DLQ, EPOCH_MS

VIOLATED, SATISFIED, NOT_EXERCISED = VerdictKind.VIOLATED, VerdictKind.SATISFIED, VerdictKind.NOT_EXERCISED
REQUIREMENTS = tuple(f"EXP-{number:03d}" for number in (7, 8, 11, 12, 15, 16, 17, 18, 19, 22, 23, 24, 25))
AHEAD = "the consumer's clock was ahead of the broker's"
BEHIND = "the consumer's clock was behind the broker's"
AGREED = "the consumer's and the broker's clocks agreed"


def verdicts(run: Clocked) -> dict[str, Verdict]:
    return run.verdicts(*REQUIREMENTS)


def started(**declared: Any) -> Clocked:
    """c0/1 waits; requests take 0.1 ms; it is 10 ms."""
    run = Clocked(**declared).at(1).connect("c0").connect("p0").subscribe("c0/1")
    run.request_ms = 0.1
    return run.at(10)


def test_a_run_without_lives_exercises_nothing() -> None:
    found = verdicts(started().post("p0/1").close().deliver("drain/1", "p0/1").finish())
    assert {verdict.verdict for verdict in found.values()} == {NOT_EXERCISED}


# -- EXP-011


@pytest.mark.parametrize(("ack_ms", "expected"), [(111, SATISFIED), (110.5, NOT_EXERCISED), (110, NOT_EXERCISED)])
def test_an_acknowledgement_after_the_expiration_consumes(ack_ms: float, expected: VerdictKind) -> None:
    """Dead is more than the expiration of 110 ms."""
    run = started().post("p0/1", ttl_ms=100).at(20).deliver("c0/1", "p0/1")
    run.at(ack_ms).ack("c0/1", "p0/1")
    assert verdicts(run.close(at_ms=500).finish())["EXP-011"].verdict is expected


def test_a_dead_letter_of_what_was_acknowledged() -> None:
    run = started().post("p0/1", ttl_ms=100).at(20).deliver("c0/1", "p0/1").at(200).ack("c0/1", "p0/1")
    found = verdicts(run.close(at_ms=500).dead_letter("p0/1").finish())["EXP-011"]
    assert (found.verdict, found.outcome) == (VIOLATED, "dead-lettered")


def test_delivered_again_after_a_late_acknowledgement() -> None:
    run = started().post("p0/1", ttl_ms=100).at(20).deliver("c0/1", "p0/1").at(200).ack("c0/1", "p0/1")
    found = verdicts(run.close(at_ms=500).deliver("drain/1", "p0/1", redelivered=True).finish())["EXP-011"]
    assert (found.verdict, found.outcome) == (VIOLATED, "again")


# -- EXP-012


@pytest.mark.parametrize(("leave_ms", "expected"), [(111, VIOLATED), (110.9, NOT_EXERCISED)])
def test_what_died_with_its_consumer_goes_to_nobody_else(leave_ms: float, expected: VerdictKind) -> None:
    run = started().post("p0/1", ttl_ms=100).at(20).deliver("c0/1", "p0/1").at(leave_ms).leave("c0/1")
    run.at(120).connect("c1").subscribe("c1/1").at(130).deliver("c1/1", "p0/1", redelivered=True)
    found = verdicts(run.close(at_ms=500).finish())["EXP-012"]
    assert found.verdict is expected
    if expected is VIOLATED:
        assert found.slack_ns == -1, "the first nanosecond of the millisecond after"


@pytest.mark.parametrize(("later_ms", "expected"), [(0, VIOLATED), (300, NOT_EXERCISED)])
def test_a_delayed_message_may_have_a_new_life(later_ms: int, expected: VerdictKind) -> None:
    """ActiveMQ gives it one when it is due, which DLY-006 accuses. Then it had not died when its consumer left."""
    run = started().post("p0/1", ttl_ms=100, delay_ms=50)
    expiration_ms = run.sent("p0/1").expiration_ms + later_ms
    run.at(70).deliver("c0/1", "p0/1", expiration_ms=expiration_ms).at(150).leave("c0/1")
    run.at(160).connect("c1").subscribe("c1/1").at(170)
    run.deliver("c1/1", "p0/1", expiration_ms=expiration_ms, redelivered=True)
    assert verdicts(run.close(at_ms=500).finish())["EXP-012"].verdict is expected


def test_it_went_to_nobody() -> None:
    run = started().post("p0/1", ttl_ms=100).at(20).deliver("c0/1", "p0/1").at(150).leave("c0/1")
    found = verdicts(run.close(at_ms=500).dead_letter("p0/1").finish())["EXP-012"]
    assert (found.verdict, found.situations) == (SATISFIED, ["its consumer left: close"])


# -- EXP-007


@pytest.mark.parametrize(
    ("persistent", "letter", "restarts", "outcome"),
    [
        (True, True, False, "as-the-table-says"),
        (True, False, False, "no-letter"),
        (True, False, True, "no-letter"),
        (False, False, False, ""),
    ],
)
def test_what_died_on_its_queue_is_among_the_dead_letters(
    persistent: bool, letter: bool, restarts: bool, outcome: str
) -> None:
    """A broker by somebody else kept dead letters of expired messages in memory alone."""
    run = Clocked(skews={"c0": 0}, persistent=True).at(1).connect("p0").connect("c0")
    run.post("p0/1", ttl_ms=100, persistent=persistent).at(1000)
    if restarts:
        run.restart("kill").at(2000)
    run.close(at_ms=5000)
    if letter:
        run.dead_letter("p0/1")
    found = verdicts(run.finish())["EXP-007"]
    assert found.outcome == outcome
    assert (found.verdict is VIOLATED) is (outcome == "no-letter")


@pytest.mark.parametrize(("ahead_ms", "lost"), [(300_000, False), (0, True)])
def test_what_a_library_may_have_thrown_away_unseen_is_not_lost(ahead_ms: int, lost: bool) -> None:
    """Of a provider whose arrivals are seen when taken, and whose dead letters are none of what expires."""
    policies = [PolicySpec(dead_letter=DeadLetterSpec(process_expired=False))]
    run = Clocked(world="live", skews={"p0": 0, "c0": ahead_ms}, policies=policies).at(1).connect("p0")
    run.connect("c0", via="jms", checks=True, seen_when_taken=True).subscribe("c0/1", prefetch=0)
    run.post("p0/1", ttl_ms=120_000).at(1000)
    run._add(Poll, "c0", 100, consumer="c0/1", timeout_ms=100)
    run.sample_all().rest("q0", size=0, in_flight=0, dispatched=1).leave("c0/1").close(at_ms=2000).finish()
    found = run.verdicts("EXP-007", "GEN-001", "INF-004")
    assert {name for name, verdict in found.items() if verdict.verdict is VIOLATED} == (
        {"EXP-007", "GEN-001"} if lost else set()
    )


# -- EXP-024, EXP-025


@pytest.mark.parametrize(("came_ms", "expected"), [(100, SATISFIED), (110, SATISFIED), (112, VIOLATED)])
@pytest.mark.parametrize("ahead_ms", [-300_000, 300_000])
def test_a_relative_life_ends_by_the_brokers_clock(ahead_ms: int, came_ms: float, expected: VerdictKind) -> None:
    """Accepted in the millisecond 10, to live for 100: alive up to 110. The consumer comes just before."""
    run = Clocked(skews={"p0": ahead_ms, "c0": -ahead_ms}).at(1).connect("p0").connect("c0")
    run.request_ms = 0.1
    run.at(10).post("p0/1", life_ms=100)
    run.at(came_ms).subscribe("c0/1").at(came_ms + 0.2).deliver("c0/1", "p0/1")
    found = verdicts(run.close(at_ms=500).finish())
    assert found["EXP-024"].verdict is expected
    assert found["EXP-025"].situations == [AHEAD if ahead_ms < 0 else BEHIND]


@pytest.mark.parametrize(
    ("world", "jms", "came_ms", "violated"),
    [
        ("simulated", False, 150, True),
        ("live", False, 150, False),
        ("live", False, 212, True),
        ("live", True, 150, True),
    ],
)
def test_a_real_broker_may_count_a_life_from_the_end_of_its_delay(
    world: str, jms: bool, came_ms: float, *, violated: bool
) -> None:
    """Unless it promises what JMS says."""
    run = Clocked(skews={"p0": 0, "c0": 0}).at(1).connect("p0").connect("c0")
    words = [word for word in run.header.capabilities if word != "jms-semantics"]
    more = ["jms-semantics"] if jms else []
    run.header = msgspec.structs.replace(run.header, world=world, capabilities=[*words, *more])
    run.request_ms = 0.1
    run.at(10).post("p0/1", life_ms=100, delay_ms=100)
    run.at(came_ms).subscribe("c0/1").at(came_ms + 0.2).deliver("c0/1", "p0/1")
    found = verdicts(run.close(at_ms=500).finish())["EXP-024"].verdict
    assert (found is VIOLATED) is violated


def test_a_relative_life_that_ends_early() -> None:
    run = started().post("p0/1", life_ms=1000).close(at_ms=500).dead_letter("p0/1")
    found = verdicts(run.finish())["EXP-024"]
    assert (found.verdict, found.outcome) == (VIOLATED, "died-early")


def test_a_ceiling_caps_a_relative_life() -> None:
    spec = PLUGIN.__class__(ttl_ceiling_ms=50)
    run = started(timestamping=spec).post("p0/1", life_ms=1000).at(100).connect("c1").subscribe("c1/1")
    run.at(101).deliver("c1/1", "p0/1", expiration_ms=0)
    assert verdicts(run.close(at_ms=500).finish())["EXP-024"].verdict is VIOLATED


@pytest.mark.parametrize(
    ("world", "shown", "expected"),
    [
        ("simulated", False, SATISFIED),
        ("simulated", True, VIOLATED),
        ("live", False, SATISFIED),
        ("live", True, SATISFIED),
    ],
)
def test_consumers_are_told_no_expiration(world: str, shown: bool, expected: VerdictKind) -> None:
    run = started(skews={"c0": 0}).post("p0/1", life_ms=1000).at(20)
    run.header = msgspec.structs.replace(run.header, world=world)
    run.deliver("c0/1", "p0/1", expiration_ms=run.wall_ms("b") + 990 if shown else 0)
    found = verdicts(run.close(at_ms=500).finish())["EXP-025"]
    assert found.verdict is expected
    if shown and world == "live":
        assert found.outcome == "shown-to-who-does-not-act"
    if not shown:
        assert found.situations == [AGREED]


@pytest.mark.parametrize(
    ("world", "persistent", "properties", "expected"),
    [
        ("simulated", True, [], VIOLATED),
        ("simulated", True, ["brokerproof_ttl_ms"], SATISFIED),
        ("simulated", None, [], SATISFIED),
        ("live", True, [], SATISFIED),
    ],
)
def test_consumers_are_told_that_a_life_ends(
    world: str, persistent: bool | None, properties: list[str], expected: VerdictKind
) -> None:
    run = started(skews={"c0": 0}).post("p0/1", life_ms=1000).at(20)
    run.header = msgspec.structs.replace(run.header, world=world)
    run.deliver("c0/1", "p0/1", expiration_ms=0, persistent=persistent, properties=properties)
    assert verdicts(run.close(at_ms=500).finish())["EXP-025"].verdict is expected


@pytest.mark.parametrize(
    ("left_ms", "right"),
    [(None, True), (60_000, False), (57_000, False), (56_000, True), (55_000, True), (53_000, False)],
)
def test_what_is_left_of_a_life_counts_down(left_ms: int | None, *, right: bool) -> None:
    """After five seconds at the broker, which may count in whole ones."""
    run = started(skews={"c0": 0}).subscribe("c0/2", "t0", durable="d1").post("p0/1", "t0", life_ms=60_000)
    run.leave("c0/2").at(5000).subscribe("c0/3", "t0", durable="d1")
    run.deliver("c0/3", "p0/1", expiration_ms=0, left_ms=left_ms)
    found = verdicts(run.close(at_ms=9000).finish())["EXP-025"]
    assert (found.verdict, found.outcome) == ((SATISFIED, "not-shown") if right else (VIOLATED, "miscounted"))


@pytest.mark.parametrize(("came_ms", "expected"), [(2900, SATISFIED), (3500, NOT_EXERCISED), (4200, VIOLATED)])
def test_a_durable_backlog_dies_by_the_brokers_clock(came_ms: int, expected: VerdictKind) -> None:
    """Counted in whole seconds it may live for one more. What was begun may come again, however late."""
    run = Clocked(skews={"c0": 0}).at(1).connect("p0", whole_seconds=True).connect("c0")
    run.subscribe("c0/2", "t0", durable="d1").post("p0/1", "t0", life_ms=3000).leave("c0/2")
    run.at(came_ms).subscribe("c0/3", "t0", durable="d1").deliver("c0/3", "p0/1", expiration_ms=0)
    run.at(8000).leave("c0/3").subscribe("c0/4", "t0", durable="d1").deliver("c0/4", "p0/1", expiration_ms=0)
    assert verdicts(run.close(at_ms=9000).finish())["EXP-024"].verdict is expected


# -- EXP-022


@pytest.mark.parametrize(
    ("commit_ms", "arrives", "expected"),
    [(111, True, VIOLATED), (111, False, SATISFIED), (110, True, NOT_EXERCISED)],
)
def test_what_died_before_its_commit_reaches_nobody(commit_ms: float, arrives: bool, expected: VerdictKind) -> None:
    run = started().begin("p0").post("p0/1", ttl_ms=100, tx="p0/tx1").at(commit_ms).commit("p0")
    if arrives:
        run.at(commit_ms + 1).deliver("c0/1", "p0/1")
    assert verdicts(run.close(at_ms=500).finish())["EXP-022"].verdict is expected


# -- EXP-016 to EXP-019


def test_what_a_consumer_has_is_not_taken_away() -> None:
    def told(via: str, expired: int) -> Clocked:
        story = Clocked(skews={"c0": 0}).connect("p0").connect("c0", via).subscribe("c0/1")
        story.post("p0/1", ttl_ms=100).deliver("c0/1", "p0/1").consume("c0/1", "p0/1").at(5000)
        return story.rest("q0", expired=expired).ack("c0/1", "p0/1").close(at_ms=6000).finish()

    assert told("stomp", 0).verdicts(*REQUIREMENTS)["EXP-016"].verdict is SATISFIED
    assert told("stomp", 1).verdicts(*REQUIREMENTS)["EXP-016"].verdict is VIOLATED


def test_no_letter_of_a_letter() -> None:
    def told(strategy: Literal["shared", "individual"] = "shared", **copy: Any) -> VerdictKind:
        policies = [PolicySpec(dead_letter=DeadLetterSpec(strategy))]
        story = Clocked(policies=policies).connect("p0").post("p0/1", DLQ, ttl_ms=100).close(at_ms=5000)
        if copy:
            story.dead_letter("p0/1", **copy)
        return story.at(6000).finish().verdicts(*REQUIREMENTS)["EXP-017"].verdict

    assert told() is SATISFIED
    assert told(expiration_ms=0, original_dest=DLQ) is VIOLATED
    assert told(expiration_ms=0, original_dest=None) is VIOLATED
    # Then that queue has a dead-letter queue of its own.
    assert told("individual", expiration_ms=0, original_dest=DLQ) is NOT_EXERCISED


def test_a_browser_takes_nothing() -> None:
    def told(end: str) -> VerdictKind:
        story = Clocked(skews={"c0": 120_000}).connect("p0").connect("c0", "jms")
        story.post("p0/1", ttl_ms=60_000).subscribe("c0/1", browser=True).leave("c0/1").close()
        if end == "dead":
            story.dead_letter("p0/1")
        elif end == "there":
            story.deliver("drain/1", "p0/1")
        return story.finish().verdicts(*REQUIREMENTS)["EXP-018"].verdict

    assert [told("there"), told("dead"), told("gone")] == [SATISFIED, VIOLATED, VIOLATED]


def test_each_durable_subscription_lets_its_copy_die() -> None:
    def told(*, delivered: bool, subscribers: int = 2) -> VerdictKind:
        names = [f"c{number}" for number in range(subscribers)]
        story = Clocked().connect("p0")
        for name in names:
            story.connect(name).subscribe(f"{name}/1", "t0", durable="d1").leave(f"{name}/1")
        story.post("p0/1", "t0", ttl_ms=100).at(5000)
        for name in names:
            story.subscribe(f"{name}/2", "t0", durable="d1")
        if delivered:
            story.deliver("c0/2", "p0/1")
        return story.at(6000).rest("t0").at(6001).close().finish().verdicts(*REQUIREMENTS)["EXP-019"].verdict

    assert told(delivered=False) is SATISFIED
    assert told(delivered=True) is VIOLATED
    assert told(delivered=True, subscribers=1) is NOT_EXERCISED


# -- EXP-015, EXP-023


LETTER = {"body": 7, "original_expiration_ms": EPOCH_MS + 100, "cause": f"Expiration:{EPOCH_MS + 100}"}


@pytest.mark.parametrize(
    ("marks", "verdict"),
    [
        ({}, SATISFIED),
        ({"original_expiration_ms": None}, VIOLATED),
        ({"original_expiration_ms": EPOCH_MS}, VIOLATED),
        ({"cause": None}, VIOLATED),
        ({"cause": "rejected"}, VIOLATED),
        ({"timestamp_ms": EPOCH_MS + 1}, VIOLATED),
        ({"body": 8}, VIOLATED),
        ({"priority": 0}, VIOLATED),
        ({"body": None}, NOT_EXERCISED),
    ],
)
def test_a_letter_tells_when_and_why(marks: dict[str, Any], verdict: VerdictKind) -> None:
    told = Clocked().post("p0/1", ttl_ms=100, body=7).close(at_ms=5000).dead_letter("p0/1", **(LETTER | marks)).finish()
    assert told.verdicts(*REQUIREMENTS)["EXP-015"].verdict is verdict


@pytest.mark.parametrize(("world", "verdict"), [("live", SATISFIED), ("simulated", VIOLATED)])
def test_a_group_that_this_protocol_never_tells_is_not_missed_on_a_letter(world: str, verdict: VerdictKind) -> None:
    told = Clocked(world=world).post("p0/1", ttl_ms=100, body=7, group="g").close(at_ms=5000)
    told.dead_letter("p0/1", headers={}, **LETTER).finish()
    assert told.verdicts(*REQUIREMENTS)["EXP-015"].verdict is verdict


@pytest.mark.parametrize(
    ("via", "ttl_ms", "expiration_ms", "verdict"),
    [
        ("jms", 100, EPOCH_MS + 5100, SATISFIED),
        ("jms", 100, EPOCH_MS + 5101, SATISFIED),
        ("jms", 100, EPOCH_MS + 5099, VIOLATED),
        ("jms", 100, EPOCH_MS + 5102, VIOLATED),
        ("jms", 0, 0, SATISFIED),
        ("jms", -5, EPOCH_MS + 5000, VIOLATED),
        ("stomp", 100, EPOCH_MS, NOT_EXERCISED),
    ],
)
def test_an_expiration_is_the_send_plus_the_life(
    via: str, ttl_ms: int, expiration_ms: int, verdict: VerdictKind
) -> None:
    told = Clocked(skews={"p0": 5000}).connect("p0", via).at(0).send("p0/1", ttl_ms=ttl_ms, expiration_ms=expiration_ms)
    assert told.at(500).close().finish().verdicts(*REQUIREMENTS)["EXP-023"].verdict is verdict


@pytest.mark.parametrize(
    ("stamps", "verdict"),
    [
        ({}, NOT_EXERCISED),
        ({"expiration_ms": EPOCH_MS + 100}, SATISFIED),
        ({"timestamp_ms": EPOCH_MS}, VIOLATED),
        ({"expiration_ms": EPOCH_MS + 5102}, VIOLATED),
    ],
)
def test_a_library_may_give_up_before_it_stamps(stamps: dict[str, Any], verdict: VerdictKind) -> None:
    told = Clocked(skews={"p0": 0}).connect("p0", "jms").at(0)
    told.send("p0/1", result="unknown", ttl_ms=100, **({"timestamp_ms": 0} | stamps))
    assert told.at(500).close().finish().verdicts("EXP-023")["EXP-023"].verdict is verdict


@pytest.mark.parametrize(
    ("dest", "marks", "verdict"),
    [
        (DLQ, {}, SATISFIED),
        (DLQ, {"original_dest": DLQ, "expiration_ms": 7}, SATISFIED),
        (DLQ, {"expiration_ms": 7}, VIOLATED),
        ("q0", {}, VIOLATED),
    ],
)
def test_what_dies_where_its_letter_goes_may_come_back_as_one(
    dest: str, marks: dict[str, Any], verdict: VerdictKind
) -> None:
    """A broker may put a dead letter of what dies on the dead-letter queue there: then it has no expiration."""
    told = (
        Clocked(skews={"p0": 0}).connect("p0", "jms").at(0).send("p0/1", dest, ttl_ms=100, expiration_ms=EPOCH_MS + 100)
    )
    told.close(at_ms=5000).deliver("drain/2" if dest == DLQ else "drain/1", "p0/1", **({"expiration_ms": 0} | marks))
    found = told.finish().verdicts("EXP-023", "TSP-007")
    assert found["EXP-023"].verdict is verdict
    assert found["TSP-007"].verdict is (VIOLATED if verdict is VIOLATED else NOT_EXERCISED)
