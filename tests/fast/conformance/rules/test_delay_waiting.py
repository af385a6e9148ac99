"""What surrounds a delay (DLY-010, DLY-012, DLY-015, DLY-017 to DLY-020, DLY-022 to DLY-024, DLY-026, DLY-028, DLY-037)
on hand-written histories: each claim satisfied, violated, not exercised.
"""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.experiment.history import Browse, Fault, Unsubscribe
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from tests.fast.conformance.rules.clocked_history import PLUGIN, Clocked

VIOLATED, SATISFIED, NOT_EXERCISED = VerdictKind.VIOLATED, VerdictKind.SATISFIED, VerdictKind.NOT_EXERCISED


NUMBERS = (10, 12, 15, 17, 18, 19, 20, 22, 23, 24, 26, 28, 37)


def judged(run: Clocked) -> dict[str, Verdict]:
    return run.verdicts(*(f"DLY-{number:03d}" for number in NUMBERS))


def started(*, consumer: bool = True, dest: str = "q0", **declared: Any) -> Clocked:
    """c0/1 waits; requests take 0.1 ms; it is 10 ms."""
    run = Clocked(**declared).at(1).connect("c0").connect("p0")
    if consumer:
        run.subscribe("c0/1", dest)
    run.request_ms = 0.1
    return run.at(10)


def test_a_run_without_delays_exercises_nothing() -> None:
    run = started().post("p0/1").at(20).deliver("c0/1", "p0/1").close(at_ms=100).finish()
    for verdict in judged(run).values():
        assert verdict.verdict is NOT_EXERCISED


# -- DLY-012


@pytest.mark.parametrize(("first", "second", "expected"), [(0, 1, SATISFIED), (1, 0, VIOLATED)])
def test_equal_delays_keep_the_order(first: int, second: int, expected: VerdictKind) -> None:
    names = ["p0/1", "p0/2"]
    run = started().post("p0/1", delay_ms=100).at(11).post("p0/2", delay_ms=100)
    run.at(120).deliver("c0/1", names[first]).at(121).deliver("c0/1", names[second])
    assert judged(run.close(at_ms=500).finish())["DLY-012"].verdict is expected


@pytest.mark.parametrize(
    "fields", [{"delay_ms": 99}, {"delay_ms": 100, "priority": 9}, {"delay_ms": 100, "group": "g"}]
)
def test_other_delays_priorities_and_groups_have_no_order(fields: dict[str, Any]) -> None:
    run = started().post("p0/1", delay_ms=100).at(11).post("p0/2", **fields)
    run.at(120).deliver("c0/1", "p0/2").at(121).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=500).finish())["DLY-012"].verdict is NOT_EXERCISED


@pytest.mark.parametrize(("left", "expected"), [(True, NOT_EXERCISED), (False, VIOLATED)])
def test_what_another_consumer_may_have_had_has_no_order(left: bool, expected: VerdictKind) -> None:
    run = started().connect("c1").subscribe("c1/1").at(11).post("p0/1", delay_ms=100).at(12).post("p0/2", delay_ms=100)
    run.at(120).deliver("c0/1", "p0/2")
    if left:
        run.leave("c1/1")
    run.at(121).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=500).finish())["DLY-012"].verdict is expected


# -- DLY-015


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, SATISFIED),
        ({"off_ms": 1}, VIOLATED),
        ({"priority": 4}, SATISFIED),
        ({"priority": 5}, VIOLATED),
        ({"group": "g"}, VIOLATED),
    ],
)
def test_waiting_changes_nothing(fields: dict[str, Any], expected: VerdictKind) -> None:
    run = started().post("p0/1", delay_ms=100)
    off_ms = fields.pop("off_ms", 0)
    run.at(120).deliver("c0/1", "p0/1", timestamp_ms=(run.sent("p0/1").timestamp_ms or 0) + off_ms, **fields)
    assert judged(run.close(at_ms=500).finish())["DLY-015"].verdict is expected


@pytest.mark.parametrize(("priority", "expected"), [(4, SATISFIED), (5, VIOLATED)])
def test_who_sends_no_timestamp_may_be_given_one(priority: int, expected: VerdictKind) -> None:
    run = started().post("p0/1", delay_ms=100, timestamp_ms=0).at(120)
    run.deliver("c0/1", "p0/1", timestamp_ms=77, priority=priority)
    assert judged(run.close(at_ms=500).finish())["DLY-015"].verdict is expected


def test_a_time_stamping_broker_may_change_the_timestamp() -> None:
    run = started(timestamping=PLUGIN).post("p0/1", delay_ms=100).at(120).deliver("c0/1", "p0/1", timestamp_ms=5)
    assert judged(run.close(at_ms=500).finish())["DLY-015"].verdict is SATISFIED


# -- DLY-017


@pytest.mark.parametrize(("letters", "outcome"), [(0, "unseen"), (1, "once"), (2, "several")])
def test_a_death_while_waiting_leaves_one_copy(letters: int, outcome: str) -> None:
    run = started().post("p0/1", delay_ms=100, ttl_ms=50).close(at_ms=500)
    for _ in range(letters):
        run.dead_letter("p0/1")
    assert judged(run.finish())["DLY-017"].outcome == outcome


def test_who_is_delivered_has_not_died_while_waiting() -> None:
    """ActiveMQ gives a message that is due a new expiration."""
    run = started().post("p0/1", delay_ms=100, ttl_ms=50).at(120).deliver("c0/1", "p0/1").close(at_ms=500)
    assert judged(run.finish())["DLY-017"].outcome == ""


@pytest.mark.parametrize(
    ("world", "dest", "outcome"), [("simulated", "~p0", "unseen"), ("live", "~p0", ""), ("live", "q0", "unseen")]
)
def test_nobody_drains_a_temporary_queue(world: str, dest: str, outcome: str) -> None:
    """ActiveMQ gives a message a new life when it is due, and does not look at it again behind a full window."""
    run = started(world=world, consumer=False).post("p0/1", dest, delay_ms=100, ttl_ms=50).close(at_ms=5000)
    assert judged(run.finish())["DLY-017"].outcome == outcome


# -- DLY-018, DLY-019


@pytest.mark.parametrize(
    ("commit_ms", "arrive_ms", "expected"),
    [(50, 111, SATISFIED), (50, 1200, VIOLATED), (500, 501, SATISFIED), (500, 1700, VIOLATED)],
)
def test_in_a_transaction_the_delay_counts_from_the_send(
    commit_ms: float, arrive_ms: float, expected: VerdictKind
) -> None:
    run = started().begin("p0").post("p0/1", delay_ms=100, tx="p0/tx1").at(commit_ms).commit("p0")
    run.at(arrive_ms).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=3000).finish())["DLY-018"].verdict is expected


@pytest.mark.parametrize(
    ("begins", "arrive_ms", "early", "late"),
    [
        ("send", 301, SATISFIED, SATISFIED),
        ("commit", 301, VIOLATED, SATISFIED),
        ("commit", 401, SATISFIED, SATISFIED),
        ("commit", 1350, SATISFIED, SATISFIED),
        ("commit", 1500, SATISFIED, VIOLATED),
    ],
)
def test_where_a_broker_documents_it_the_delay_counts_from_the_commit(
    begins: str, arrive_ms: float, early: VerdictKind, late: VerdictKind
) -> None:
    run = started(delay_begins=begins).begin("p0").post("p0/1", delay_ms=100, tx="p0/tx1").at(300).commit("p0")
    found = run.at(arrive_ms).deliver("c0/1", "p0/1").close(at_ms=3000).finish().verdicts("DLY-001", "DLY-002")
    assert (found["DLY-001"].verdict, found["DLY-002"].verdict) == (early, late)


@pytest.mark.parametrize(("arrive_ms", "outcome"), [(150, "before-commit"), (301, "as-committed")])
def test_nothing_is_visible_before_the_commit(arrive_ms: float, outcome: str) -> None:
    run = started().begin("p0").post("p0/1", delay_ms=100, tx="p0/tx1")
    run.at(arrive_ms).deliver("c0/1", "p0/1").at(300).commit("p0")
    assert judged(run.close(at_ms=3000).finish())["DLY-019"].outcome == outcome


@pytest.mark.parametrize(("arrives", "outcome"), [(True, "in-spite-of-rollback"), (False, "as-committed")])
def test_a_rollback_takes_it_away(arrives: bool, outcome: str) -> None:
    run = started().begin("p0").post("p0/1", delay_ms=100, tx="p0/tx1").at(50).abort("p0")
    if arrives:
        run.at(150).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=3000).finish())["DLY-019"].outcome == outcome


# -- DLY-020, DLY-022


@pytest.mark.parametrize(("came_ms", "expected"), [(5, SATISFIED), (11, VIOLATED)])
def test_the_audience_is_fixed_at_the_send(came_ms: float, expected: VerdictKind) -> None:
    run = started(consumer=False).at(came_ms).subscribe("c0/1", "t0").at(10).post("p0/1", "t0", delay_ms=100)
    run.at(120).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=500).finish())["DLY-020"].verdict is expected


@pytest.mark.parametrize(
    ("delay", "via", "got", "expected"),
    [
        ("jms", "stomp", False, NOT_EXERCISED),
        ("jms", "stomp", True, SATISFIED),
        ("ibm-mq", "stomp", False, NOT_EXERCISED),
        ("ibm-mq", "stomp", True, VIOLATED),
        ("ibm-mq", "jms", True, SATISFIED),  # its library may not have waited for an answer
    ],
)
def test_who_comes_between_a_send_and_its_commit_gets_it_as_its_broker_says(
    delay: str, via: str, got: bool, expected: VerdictKind
) -> None:
    """A queue manager finds out at the put who gets it; of others nobody knows."""
    run = started(consumer=False, generation={"delay": delay}).at(5).connect("p1", via).begin("p1", "x")
    run.at(10).post("p1/1", "t0", delay_ms=100, tx="x", persistent=False).at(20).subscribe("c0/1", "t0")
    run.at(30).commit("p1", "x")
    if got:
        run.at(120).deliver("c0/1", "p1/1", dest="t0")
    assert judged(run.at(3000).rest("t0").close(at_ms=5000).finish())["DLY-020"].verdict is expected


@pytest.mark.parametrize("ended", [True, False])
def test_a_durable_name_that_was_ended_is_another_subscription(ended: bool) -> None:
    run = started(consumer=False).at(5).subscribe("c0/1", "t0", durable="d").at(6).leave("c0/1")
    run.at(10).post("p0/1", "t0", delay_ms=100)
    if ended:
        run.at(20)._add(Unsubscribe, "c0", 0.1, result="ok", durable="d")
    run.at(30).subscribe("c0/2", "t0", durable="d").at(120).deliver("c0/2", "p0/1")
    found = judged(run.close(at_ms=500).finish())
    assert found["DLY-022"].verdict is (VIOLATED if ended else NOT_EXERCISED)
    assert found["DLY-020"].verdict is (NOT_EXERCISED if ended else SATISFIED)


def test_nothing_came_under_a_name_that_began_again() -> None:
    run = started(consumer=False).at(5).subscribe("c0/1", "t0", durable="d").at(6).leave("c0/1")
    run.at(10).post("p0/1", "t0", delay_ms=100)
    run.at(20)._add(Unsubscribe, "c0", 0.1, result="ok", durable="d")
    run.at(30).subscribe("c0/2", "t0", durable="d")
    found = judged(run.close(at_ms=500).finish())["DLY-022"]
    assert (found.verdict, found.situations) == (SATISFIED, ["its name began again"])


# -- DLY-026


@pytest.mark.parametrize(("arrive_ms", "expected"), [(210, SATISFIED), (208.9, VIOLATED), (209.999, VIOLATED)])
def test_an_absolute_time_by_the_brokers_clock_at_acceptance(arrive_ms: float, expected: VerdictKind) -> None:
    """At 10 ms the broker's clock reads 10; the producer's, which is ahead by 100, asked for its own 110 + 100."""
    run = started(skews={"p0": 100})
    run.post("p0/1", deliver_at_ms=run.wall_ms("b", 210)).at(arrive_ms).deliver("c0/1", "p0/1")
    assert judged(run.close(at_ms=500).finish())["DLY-026"].verdict is expected


# -- DLY-028


@pytest.mark.parametrize(("discarded", "expected"), [(True, VIOLATED), (False, SATISFIED)])
def test_no_library_drops_what_has_no_expiration(discarded: bool, expected: VerdictKind) -> None:
    run = started(skews={"c0": 300_000}).post("p0/1", delay_ms=100).at(120).deliver("c0/1", "p0/1").at(121)
    run = run.discard("c0/1", "p0/1") if discarded else run.consume("c0/1", "p0/1")
    found = judged(run.close(at_ms=500).finish())["DLY-028"]
    assert found.verdict is expected
    if not discarded:
        assert found.situations == ["the consumer's clock was ahead of the broker's"]


# -- DLY-037


@pytest.mark.parametrize(("scheduled", "expected"), [(1, SATISFIED), (0, VIOLATED), (2, VIOLATED)])
def test_the_figure_is_the_number_of_those_that_wait(scheduled: int, expected: VerdictKind) -> None:
    run = started(consumer=False).post("p0/1", delay_ms=100).at(11).post("p0/2").at(50).rest(scheduled=scheduled)
    assert judged(run.close(at_ms=500).finish())["DLY-037"].verdict is expected


# -- DLY-010


@pytest.mark.parametrize(
    ("at_ms", "shown", "expected"),
    [(100, True, VIOLATED), (100, False, SATISFIED), (120, True, SATISFIED), (120, False, NOT_EXERCISED)],
)
def test_a_browser_sees_only_what_is_due(at_ms: float, shown: bool, expected: VerdictKind) -> None:
    run = started(consumer=False).post("p0/1", delay_ms=100).at(at_ms)
    run._add(Browse, "c0", dest="q0", messages=["p0/1"] if shown else [], consumer="c0/1", complete=True)
    assert judged(run.close(at_ms=500).finish())["DLY-010"].verdict is expected


# -- DLY-023, DLY-024


def restarted(run: Clocked, at_ms: float, up_ms: float) -> Clocked:
    """The broker is killed, and is there again at ``up_ms``."""
    run.at(at_ms)._add(Fault, "", up_ms - at_ms, fault="restart", target="b", how="kill", evidence={"n": 1})
    return run.at(up_ms + 1).connect("c0").subscribe("c0/2")


@pytest.mark.parametrize(("arrive_ms", "outcome"), [(1010, "in-time"), (1008, "early"), (2500, "late"), (0, "lost")])
def test_a_restart_does_not_change_when_it_is_due(arrive_ms: float, outcome: str) -> None:
    run = restarted(started(consumer=False, persistent=True).post("p0/1", delay_ms=1000), 100, 200)
    if arrive_ms:
        run.at(arrive_ms).deliver("c0/2", "p0/1")
    found = judged(run.close(at_ms=5000).at(5100).finish())
    assert found["DLY-023"].outcome == outcome
    assert found["DLY-024"].verdict is NOT_EXERCISED


@pytest.mark.parametrize(("arrive_ms", "outcome"), [(201.5, "in-time"), (2500, "late"), (0, "lost")])
def test_what_became_due_while_it_was_down_comes_after_the_start(arrive_ms: float, outcome: str) -> None:
    run = restarted(started(consumer=False, persistent=True).post("p0/1", delay_ms=100), 100, 200)
    if arrive_ms:
        run.at(arrive_ms).deliver("c0/2", "p0/1")
    found = judged(run.close(at_ms=5000).at(5100).finish())
    assert found["DLY-024"].outcome == outcome
    assert found["DLY-023"].verdict is NOT_EXERCISED


def test_after_a_step_of_the_clock_a_restart_may_end_the_wait() -> None:
    run = started(consumer=False, persistent=True).post("p0/1", delay_ms=1000).at(50).step("b", 5000)
    restarted(run, 100, 200).at(210).deliver("c0/2", "p0/1")
    assert judged(run.close(at_ms=5000).at(5100).finish())["DLY-023"].verdict is NOT_EXERCISED


@pytest.mark.parametrize("fields", [{"persistent": False}, {"ttl_ms": 5000}])
def test_what_need_not_survive_is_no_instance(fields: dict[str, Any]) -> None:
    run = restarted(started(consumer=False, persistent=True).post("p0/1", delay_ms=1000, **fields), 100, 200)
    assert judged(run.close(at_ms=5000).at(5100).finish())["DLY-023"].verdict is NOT_EXERCISED
