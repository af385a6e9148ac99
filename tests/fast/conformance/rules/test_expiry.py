"""Expiry on hand-written histories: each claim satisfied, violated (by a millisecond where it is timed), in doubt, not
exercised.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import DeadLetterSpec, PolicySpec, TimeStampingSpec
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from tests.fast.conformance.rules import clocked_history
from tests.fast.conformance.rules.clocked_history import PLUGIN, Clocked

VIOLATED, SATISFIED, INCONCLUSIVE, NOT_EXERCISED = (
    VerdictKind.VIOLATED,
    VerdictKind.SATISFIED,
    VerdictKind.INCONCLUSIVE,
    VerdictKind.NOT_EXERCISED,
)
REQUIREMENTS = tuple(f"EXP-{number:03d}" for number in range(1, 26))
SWEPT_EVERY_SECOND = [PolicySpec(">", 1000)]
BORDER = "a message was delivered in the very millisecond of its expiration"
SWEPT = "a message without expiration waited for longer than a sweep's period"
STEPPED_BACK = "the broker's clock stepped back while a message was waiting"
DEAD_ON_ARRIVAL = "the broker's clock was ahead by more than the time to live: dead on arrival"
BROKER_BEHIND = "the broker's clock was behind: delivered"
RESCUED = "the broker's clock was ahead by more than the time to live, and the plug-in rescued it"
FUTURE_ONLY = "the broker's clock was behind, and futureOnly left it alone: delivered"
DISCARDED = "the consumer's clock was ahead: discarded by a JMS consumer"
UNCHECKED = "the consumer's clock was ahead, but its library does not check: delivered"


def verdicts(run: Clocked) -> dict[str, Verdict]:
    return run.verdicts(*REQUIREMENTS)


def test_an_empty_run_exercises_nothing() -> None:
    for verdict in verdicts(Clocked().close().finish()).values():
        assert verdict.verdict is NOT_EXERCISED


# -- EXP-001


def dead_on_arrival(late_ms: int) -> Clocked:
    """The broker reads the send at exactly 1 ms; the message is dead from expiration + 1 on."""
    run = Clocked(skews={"p0": -1000}).at(1)
    run.request_ms = 0.1
    return run.post("p0/1", ttl_ms=1000 - late_ms)


def test_dead_on_arrival_is_delivered_to_nobody() -> None:
    run = dead_on_arrival(1).close(at_ms=10).dead_letter("p0/1").finish()
    found = verdicts(run)["EXP-001"]
    assert (found.verdict, found.outcome) == (SATISFIED, "not-delivered")
    assert found.situations == ["the producer's clock was behind the broker's"]


def test_one_millisecond_dead_on_arrival_and_delivered() -> None:
    found = verdicts(dead_on_arrival(1).close(at_ms=10).deliver("drain/1", "p0/1").finish())["EXP-001"]
    assert (found.verdict, found.outcome, found.slack_ns) == (VIOLATED, "delivered", -1)
    assert "1 ms too late" in found.text


def test_in_the_millisecond_of_its_expiration_it_lives() -> None:
    found = verdicts(dead_on_arrival(0).close(at_ms=1.5).deliver("drain/1", "p0/1").finish())
    assert found["EXP-001"].verdict is NOT_EXERCISED
    assert found["EXP-003"].situations == [BORDER]


def test_a_send_that_straddles_the_expiration_is_no_instance() -> None:
    run = Clocked(skews={"p0": -1000}).at(1)
    run.request_ms = 20
    found = verdicts(run.post("p0/1", ttl_ms=1005).close(at_ms=30).deliver("drain/1", "p0/1").finish())
    assert found["EXP-001"].verdict is NOT_EXERCISED


def test_the_plug_in_rescues() -> None:
    run = Clocked(skews={"p0": -300_000}, timestamping=PLUGIN).at(1)
    run.request_ms = 0.1
    run.post("p0/1", ttl_ms=120_000).close(at_ms=5)
    run.deliver("drain/1", "p0/1", timestamp_ms=run.wall_ms("b", 1), expiration_ms=run.wall_ms("b", 1) + 120_000)
    found = verdicts(run.finish())
    assert found["EXP-001"].verdict is NOT_EXERCISED
    assert found["EXP-007"].verdict is SATISFIED
    assert found["EXP-007"].situations == [RESCUED]


def test_without_clock_samples_nothing_can_be_said() -> None:
    found = verdicts(
        Clocked(sampled=False).at(1).post("p0/1", ttl_ms=5).close(at_ms=20).deliver("drain/1", "p0/1").finish()
    )
    for requirement in ("EXP-001", "EXP-003", "EXP-004", "EXP-007"):
        assert found[requirement].verdict is INCONCLUSIVE
        assert "never sampled" in found[requirement].text


# -- EXP-002


def test_without_expiration_it_is_delivered() -> None:
    run = Clocked(policies=SWEPT_EVERY_SECOND).at(1).post("p0/1").close(at_ms=5000).deliver("drain/1", "p0/1").finish()
    found = verdicts(run)["EXP-002"]
    assert (found.verdict, found.situations) == (SATISFIED, [SWEPT])


def test_without_expiration_it_is_no_dead_letter() -> None:
    found = verdicts(Clocked().at(1).post("p0/1").close(at_ms=50).dead_letter("p0/1").finish())["EXP-002"]
    assert (found.verdict, found.outcome) == (VIOLATED, "dead-lettered")


@pytest.mark.parametrize(("world", "expected"), [("live", SATISFIED), ("simulated", VIOLATED)])
def test_what_was_sent_again_may_be_dead_because_it_was_there(world: str, expected: VerdictKind) -> None:
    """ActiveMQ makes a dead letter of the second one; the reference broker knows none."""
    run = Clocked(world=world).at(1).post("p0/1", again=True).close(at_ms=50).deliver("drain/1", "p0/1")
    assert verdicts(run.dead_letter("p0/1").finish())["EXP-002"].verdict is expected


def test_a_rejected_message_is_a_rightful_dead_letter() -> None:
    run = (
        Clocked()
        .at(1)
        .connect("c0")
        .subscribe("c0/1")
        .post("p0/1")
        .at(5)
        .deliver("c0/1", "p0/1")
        .consume("c0/1", "p0/1")
    )
    found = verdicts(run.nack("c0/1", "p0/1").close(at_ms=50).dead_letter("p0/1").finish())["EXP-002"]
    assert (found.verdict, found.outcome) == (SATISFIED, "delivered")


# -- EXP-003


def waiting(*, found_at_ms: float, uncertainty_ms: int = 0) -> Clocked:
    """Sent at 1 ms with 100 ms to live: alive while the clock shows at most 101, dead from 102 on."""
    run = Clocked(uncertainty_ms=uncertainty_ms).at(1)
    run.request_ms = 0.1
    return run.post("p0/1", ttl_ms=100).close(at_ms=found_at_ms - 0.3).at(found_at_ms)


def test_found_dead_after_its_expiration() -> None:
    found = verdicts(waiting(found_at_ms=102).dead_letter("p0/1").finish())["EXP-003"]
    assert (found.verdict, found.outcome, found.slack_ns) == (SATISFIED, "alive-till-then", 0)


def test_found_dead_one_millisecond_early() -> None:
    found = verdicts(waiting(found_at_ms=101.9).dead_letter("p0/1").finish())["EXP-003"]
    assert (found.verdict, found.outcome, found.slack_ns) == (VIOLATED, "too-early", -100_000)


@pytest.mark.parametrize(
    ("jms", "found_at_ms", "verdict"),
    [(True, 101.9, VIOLATED), (False, 101.9, NOT_EXERCISED), (False, 100.9, VIOLATED)],
)
def test_only_jms_says_that_a_message_lives_until_its_expiration_has_passed(
    *, jms: bool, found_at_ms: float, verdict: VerdictKind
) -> None:
    """A broker by somebody else has it expire when its clock reads that."""
    story = waiting(found_at_ms=found_at_ms).dead_letter("p0/1").finish()
    words = [word for word in story.header.capabilities if jms or word != "jms-semantics"]
    story.header = msgspec.structs.replace(story.header, world="live", capabilities=words)
    assert verdicts(story)["EXP-003"].verdict is verdict


def test_found_dead_about_then_by_a_clock_that_is_not_known_better() -> None:
    found = verdicts(waiting(found_at_ms=102, uncertainty_ms=3).dead_letter("p0/1").finish())["EXP-003"]
    assert found.verdict is INCONCLUSIVE
    assert "undecided by 3.000 ms" in found.text


def test_a_clock_that_went_back_explains_it() -> None:
    run = Clocked().at(1)
    run.request_ms = 0.1
    run.post("p0/1", ttl_ms=100).at(10).step("b", 500).at(20).step("b", -500).close(at_ms=30).dead_letter("p0/1")
    found = verdicts(run.finish())["EXP-003"]
    assert (found.verdict, found.situations) == (SATISFIED, [STEPPED_BACK])


def test_a_jump_at_the_same_instant_is_judged_by_the_order_of_events() -> None:
    """Found at 50 ms, then the clock jumps at 50 ms: at the finding it had not jumped."""
    found = verdicts(waiting(found_at_ms=50).dead_letter("p0/1").step("b", 500).finish())["EXP-003"]
    assert found.verdict is VIOLATED
    found = verdicts(waiting(found_at_ms=50).step("b", 500).dead_letter("p0/1").finish())["EXP-003"]
    assert found.verdict is SATISFIED


def test_counted_as_expired_too_early() -> None:
    early = waiting(found_at_ms=101.9).rest("q0", size=0, expired=1, enqueued=1).finish()
    found = verdicts(early)["EXP-003"]
    assert found.verdict is VIOLATED
    assert "at most 0" in found.text
    assert (
        verdicts(waiting(found_at_ms=102).rest("q0", size=0, expired=1, enqueued=1).finish())["EXP-003"].verdict
        is SATISFIED
    )


def test_taken_for_dead_on_arrival_though_alive() -> None:
    run = waiting(found_at_ms=120).dead_letter("p0/1").rest("q0", size=0, expired=0, enqueued=0).finish()
    found = verdicts(run)["EXP-003"]
    assert found.verdict is VIOLATED
    assert "1 of 1 that nobody received" in found.text


def passed_over(arrival_ms: float) -> Clocked:
    run = Clocked().connect("c0").at(1)
    run.request_ms = 0.1
    run.post("p0/1", ttl_ms=100).post("p0/2").at(101.2).subscribe("c0/1").at(arrival_ms).deliver("c0/1", "p0/2")
    return run.close(at_ms=200).dead_letter("p0/1").finish()


def test_passed_over_while_it_lived() -> None:
    found = verdicts(passed_over(101.9))["EXP-003"]
    assert found.verdict is VIOLATED
    assert "passed over" in found.text
    assert verdicts(passed_over(102.1))["EXP-003"].verdict is SATISFIED


def test_a_consumer_may_have_discarded_it() -> None:
    run = Clocked(skews={"c0": 5000}).at(1)
    run.connect("c0", "jms", checks=True)
    run.subscribe("c0/1").post("p0/1", ttl_ms=100).deliver("c0/1", "p0/1").discard("c0/1", "p0/1")
    found = verdicts(run.close(at_ms=50).dead_letter("p0/1").finish())
    assert found["EXP-003"].verdict is NOT_EXERCISED
    assert found["EXP-007"].situations == [DISCARDED]


def unseen_discard(ahead_ms: int, **fields: Any) -> dict[str, Verdict]:
    """A checking library of a real client need not tell what it throws away; it had the message, or not."""
    run = Clocked(world="live", skews={"c0": ahead_ms}).at(1)
    run.connect("c0", "jms", checks=True)
    run.subscribe("c0/1").post("p0/1", ttl_ms=60_000, **fields).at(40).leave("c0/1")
    return verdicts(run.close(at_ms=50).dead_letter("p0/1").finish())


def test_what_a_library_may_have_thrown_away_unseen_accuses_nobody() -> None:
    """Its clock is ahead by the time to live: then it may have; otherwise the broker was too early."""
    found = unseen_discard(60_000)
    assert [found[name].verdict for name in ("EXP-003", "EXP-007", "EXP-008")] == [NOT_EXERCISED] * 3
    found = unseen_discard(59_000)
    assert (found["EXP-003"].outcome, found["EXP-007"].outcome) == ("too-early", "dead-lettered-alive")


# -- EXP-004


def behind_window(ack_ms: float, *, prefetch: int = 1) -> Clocked:
    """p0/2 (dead from 202 ms on) waits behind p0/1, whose acknowledgement opens the only slot at ``ack_ms``."""
    run = Clocked().at(1).connect("c0")
    run.request_ms = 0.1
    run.subscribe("c0/1", prefetch=prefetch).post("p0/1").at(2).post("p0/2", ttl_ms=199).deliver("c0/1", "p0/1")
    run.consume("c0/1", "p0/1").at(ack_ms).ack("c0/1", "p0/1")
    return run


def test_dead_before_the_window_opened_and_dispatched() -> None:
    found = verdicts(behind_window(202).deliver("c0/1", "p0/2").close().finish())["EXP-004"]
    assert (found.verdict, found.outcome, found.slack_ns) == (VIOLATED, "dispatched-dead", -1)


def test_alive_when_the_window_opened() -> None:
    run = behind_window(201.5)
    found = verdicts(run.at(201.9).deliver("c0/1", "p0/2").close().finish())["EXP-004"]
    assert (found.verdict, found.slack_ns) == (SATISFIED, 500_000)


def test_an_open_window_proves_nothing() -> None:
    found = verdicts(behind_window(202, prefetch=10).deliver("c0/1", "p0/2").close().finish())["EXP-004"]
    assert found.verdict is NOT_EXERCISED


def test_long_dead_over_an_open_link_is_suspicious() -> None:
    run = behind_window(2000, prefetch=10)
    found = verdicts(run.at(3000).deliver("c0/1", "p0/2").close().finish())["EXP-004"]
    assert found.verdict is INCONCLUSIVE
    stalled = behind_window(2000, prefetch=10).at(2500).stall("c0", "client").at(3000).deliver("c0/1", "p0/2")
    assert verdicts(stalled.close().finish())["EXP-004"].verdict is NOT_EXERCISED


def test_dead_before_anybody_subscribed() -> None:
    base = Clocked().at(1)
    found = verdicts(base.post("p0/1", ttl_ms=100).close(at_ms=300).deliver("drain/1", "p0/1").finish())["EXP-004"]
    assert found.verdict is VIOLATED
    good = Clocked().at(1).post("p0/1", ttl_ms=100).close(at_ms=300).dead_letter("p0/1").finish()
    assert verdicts(good)["EXP-004"].situations == ["nobody was subscribed while the message lived"]


def test_what_came_back_dead_is_not_handed_on() -> None:
    run = Clocked().at(1).connect("c0").subscribe("c0/1").post("p0/1", ttl_ms=100).deliver("c0/1", "p0/1")
    run.connect("c1").subscribe("c1/1").at(500).leave("c0/1")
    found = verdicts(run.deliver("c1/1", "p0/1", redelivered=True).close().finish())["EXP-004"]
    assert found.verdict is VIOLATED


# -- EXP-005


@pytest.mark.parametrize(
    ("letters", "outcome"),
    [(1, "one-copy"), (0, "missing"), (2, "duplicate")],
)
def test_a_persistent_message_has_one_dead_letter(letters: int, outcome: str) -> None:
    run = Clocked().at(1).post("p0/1", ttl_ms=100).close(at_ms=300)
    for _ in range(letters):
        run.dead_letter("p0/1")
    found = verdicts(run.finish())["EXP-005"]
    assert found.outcome == outcome
    assert found.verdict is (SATISFIED if outcome == "one-copy" else VIOLATED)


@pytest.mark.parametrize("fields", [{"expiration_ms": 1}, {"original_dest": None}, {"original_dest": "q1"}])
def test_fields_of_a_dead_letter(fields: dict[str, Any]) -> None:
    run = Clocked().at(1).post("p0/1", ttl_ms=100).close(at_ms=300).dead_letter("p0/1", **fields).finish()
    assert verdicts(run)["EXP-005"].outcome == "wrong-fields"


@pytest.mark.parametrize(
    ("kept", "letters", "outcome"),
    [(False, 0, "no-copy"), (False, 1, "uninvited"), (True, 1, "one-copy"), (True, 0, "missing")],
)
def test_non_persistent_messages(kept: bool, letters: int, outcome: str) -> None:
    run = Clocked(dead_letter_non_persistent=kept).at(1).post("p0/1", ttl_ms=100, persistent=False).close(at_ms=300)
    if letters:
        run.dead_letter("p0/1")
    assert verdicts(run.finish())["EXP-005"].outcome == outcome


def test_an_auto_consumer_may_have_swallowed_it() -> None:
    run = Clocked().at(1).connect("c0").subscribe("c0/1", ack="auto").stall("c0", "client").post("p0/1", ttl_ms=100)
    run.at(50).lose("c0").resume("c0")
    assert verdicts(run.close(at_ms=300).finish())["EXP-005"].verdict is NOT_EXERCISED


@pytest.mark.parametrize(("letters", "outcome"), [(1, "one-copy"), (0, "missing")])
def test_the_policy_entry_that_applies_is_the_most_specific(letters: int, outcome: str) -> None:
    """``>`` discards, ``*`` is shared: of these two, ``*`` applies to q0, wherever it stands."""
    entries = [
        PolicySpec(">", dead_letter=DeadLetterSpec("discarding")),
        PolicySpec("*", dead_letter=DeadLetterSpec("shared")),
    ]
    for order in (entries, entries[::-1]):
        run = Clocked(policies=order).at(1).post("p0/1", ttl_ms=100).close(at_ms=300)
        for _ in range(letters):
            run.dead_letter("p0/1")
        assert verdicts(run.finish())["EXP-005"].outcome == outcome


def test_a_message_to_two_queues_dies_on_each() -> None:
    run = Clocked().at(1).post("p0/1", "q0,q1", ttl_ms=100).close(at_ms=300).subscribe("drain/3", "q1")
    good = run.dead_letter("p0/1", original_dest="q0").dead_letter("p0/1", original_dest="q1").finish()
    assert verdicts(good)["EXP-005"].verdict is SATISFIED
    lost = Clocked().at(1).post("p0/1", "q0,q1", ttl_ms=100).close(at_ms=300).subscribe("drain/3", "q1")
    assert verdicts(lost.finish())["EXP-005"].outcome == "missing"


def test_without_a_drain_absence_is_not_judged() -> None:
    assert verdicts(Clocked().at(1).post("p0/1", ttl_ms=100).at(300).finish())["EXP-005"].verdict is NOT_EXERCISED


# -- EXP-006


def test_the_producer_of_a_dead_message_is_not_failed() -> None:
    assert verdicts(dead_on_arrival(5).close().finish())["EXP-006"].verdict is SATISFIED
    failed = (
        Clocked(skews={"p0": -1000}).at(1).post("p0/1", ttl_ms=100, result="fail", refusal="expired").close().finish()
    )
    found = verdicts(failed)["EXP-006"]
    assert (found.verdict, found.outcome) == (VIOLATED, "failed")


def test_a_refusal_that_explains_nothing_is_in_doubt() -> None:
    run = Clocked(skews={"p0": -1000}).at(1).post("p0/1", ttl_ms=100, result="fail", refusal="no").close().finish()
    assert verdicts(run)["EXP-006"].verdict is INCONCLUSIVE


def test_a_refusal_that_living_messages_met_too_is_not_about_expiry() -> None:
    run = Clocked(skews={"p0": -1000}).at(1).post("p0/1", ttl_ms=100, result="fail", refusal="full")
    assert (
        verdicts(run.post("p0/2", result="fail", refusal="full").close().finish())["EXP-006"].verdict is NOT_EXERCISED
    )


# -- EXP-007: the seed's stories, scaled down


def story(*, skews: dict[str, int], plugin: TimeStampingSpec | None = None, checks: bool = False) -> Clocked:
    run = Clocked(skews=skews, timestamping=plugin).at(1)
    run.request_ms = 0.1
    run.connect("c0", "jms" if checks else "stomp", checks=checks)
    run.subscribe("c0/1").post("p0/1", ttl_ms=120_000)
    return run


def test_story_broker_ahead() -> None:
    run = story(skews={"b": 300_000})
    assert verdicts(run.close().dead_letter("p0/1").finish())["EXP-007"].situations == [DEAD_ON_ARRIVAL]
    bad = verdicts(story(skews={"b": 300_000}).deliver("c0/1", "p0/1").close().finish())["EXP-007"]
    assert (bad.verdict, bad.outcome) == (VIOLATED, "delivered-dead")


def test_story_broker_behind() -> None:
    run = story(skews={"b": -300_000})
    assert verdicts(run.deliver("c0/1", "p0/1").close().finish())["EXP-007"].situations == [BROKER_BEHIND]
    bad = verdicts(story(skews={"b": -300_000}).close().dead_letter("p0/1").finish())["EXP-007"]
    assert (bad.verdict, bad.outcome) == (VIOLATED, "dead-lettered-alive")
    lost = verdicts(story(skews={"b": -300_000}).close().finish())["EXP-007"]
    assert (lost.verdict, lost.outcome) == (VIOLATED, "not-delivered")


def test_story_future_only() -> None:
    run = story(skews={"b": -300_000}, plugin=clocked_history.FUTURE_ONLY)
    assert verdicts(run.deliver("c0/1", "p0/1").close().finish())["EXP-007"].situations == [FUTURE_ONLY]


def test_story_consumer_ahead() -> None:
    skews = {"c0": 300_000}
    run = story(skews=skews, checks=True).deliver("c0/1", "p0/1").discard("c0/1", "p0/1")
    assert verdicts(run.close().dead_letter("p0/1").finish())["EXP-007"].situations == [DISCARDED]
    unchecked = story(skews=skews).deliver("c0/1", "p0/1").consume("c0/1", "p0/1")
    assert verdicts(unchecked.close().finish())["EXP-007"].situations == [UNCHECKED]


def discards(ahead_ms: int, *, checks: bool = True) -> Verdict:
    run = story(skews={"c0": ahead_ms}, checks=checks).at(2).deliver("c0/1", "p0/1").discard("c0/1", "p0/1")
    return verdicts(run.close().dead_letter("p0/1").finish())["EXP-007"]


def test_a_client_may_discard_only_what_its_own_clock_calls_expired() -> None:
    """Sent at 1 ms, arrived at 2 ms: the consumer's clock must be ahead by more than 119,999 ms."""
    assert discards(120_000).verdict is SATISFIED
    found = discards(119_999)
    assert (found.verdict, found.outcome, found.slack_ns) == (VIOLATED, "discarded-alive", -1_000_000)
    assert discards(300_000, checks=False).outcome == "discarded-alive"


def consumes(ahead_ms: int) -> Verdict:
    run = story(skews={"c0": ahead_ms}, checks=True).at(2).deliver("c0/1", "p0/1").consume("c0/1", "p0/1")
    return verdicts(run.close().finish())["EXP-007"]


def test_a_checking_client_hands_over_only_what_lives() -> None:
    assert consumes(119_999).verdict is SATISFIED
    assert consumes(120_000).outcome == "consumed-dead"


# -- EXP-008


def expired_ack(generation: str, *, handed_on: bool = False, letter: bool = False, loss: bool = False) -> Verdict:
    run = Clocked(skews={"c0": 5000}, generation={"expiry": generation}).at(1)
    run.connect("c0", "jms", checks=True)
    run.subscribe("c0/1").post("p0/1", ttl_ms=4000).deliver("c0/1", "p0/1").discard("c0/1", "p0/1")
    if loss:
        run.lose("c0", "kill")
    run.close(at_ms=1500)
    if handed_on:
        run.deliver("drain/1", "p0/1")
    if letter:
        run.dead_letter("p0/1")
    return verdicts(run.finish())["EXP-008"]


def test_the_classic_broker_believes_its_client() -> None:
    assert expired_ack("classic-5.14", letter=True).outcome == "dead-lettered"
    assert expired_ack("classic-5.14", handed_on=True).outcome == "handed-on"
    assert expired_ack("classic-5.14").outcome == "lost"
    assert expired_ack("classic-5.14", loss=True).verdict is NOT_EXERCISED


def test_the_documented_broker_believes_its_own_clock() -> None:
    assert expired_ack("documented", handed_on=True).outcome == "stays"
    assert expired_ack("documented", letter=True).outcome == "buried-alive"
    assert expired_ack("documented").outcome == "lost"


@pytest.mark.parametrize("room", [True, False])
def test_what_one_consumer_discarded_is_not_kept_from_another(*, room: bool) -> None:
    run = Clocked(skews={"c0": 5000}, generation={"expiry": "documented"}).at(1)
    run.connect("c0", "jms", checks=True).connect("c1").subscribe("c1/1", prefetch=int(room))
    run.subscribe("c0/1").post("p0/1", ttl_ms=4000).deliver("c0/1", "p0/1").discard("c0/1", "p0/1").at(1500)
    run.rest("q0", size=1, in_flight=0).close(at_ms=2000).deliver("drain/1", "p0/1")
    assert verdicts(run.finish())["EXP-008"].outcome == ("lost" if room else "stays")


# -- EXP-009


def swept(expired: int, *, at_ms: float, size: int = 0) -> Verdict:
    """Dead from 102 ms on, swept every second, one second of lateness: gone by 2102 ms."""
    run = Clocked(policies=SWEPT_EVERY_SECOND).at(1).post("p0/1", ttl_ms=100).at(at_ms)
    run.rest("q0", size=size, expired=expired, enqueued=1)
    return verdicts(run.close().finish())["EXP-009"]


def test_the_sweep_cannot_meet_what_an_auto_consumer_swallowed() -> None:
    run = Clocked(policies=SWEPT_EVERY_SECOND).at(1).connect("c0").subscribe("c0/1", ack="auto").stall("c0", "client")
    run.post("p0/1", ttl_ms=100).at(50).lose("c0").resume("c0").at(5000).rest("q0", size=0, expired=0, enqueued=1)
    assert verdicts(run.close().finish())["EXP-009"].verdict is NOT_EXERCISED


def test_the_sweep_meets_what_died_waiting() -> None:
    assert swept(1, at_ms=2102).verdict is SATISFIED
    found = swept(0, at_ms=2102)
    assert (found.verdict, found.outcome) == (VIOLATED, "left-behind")
    assert swept(1, at_ms=2102, size=1).verdict is VIOLATED
    assert swept(0, at_ms=2101).verdict is NOT_EXERCISED


@pytest.mark.parametrize(("page", "kind"), [(2, VIOLATED), (1, NOT_EXERCISED)])
def test_a_sweep_need_not_see_more_than_its_page(page: int, kind: VerdictKind) -> None:
    entry = PolicySpec(expire_period_ms=1000, max_expire_page_size=page)
    run = Clocked(policies=[entry]).at(1).post("p0/1", ttl_ms=100).post("p0/2", ttl_ms=100).at(5000)
    run.rest("q0", size=1, expired=1, enqueued=2)
    assert verdicts(run.close().finish())["EXP-009"].verdict is kind


@pytest.mark.parametrize(
    ("generation", "world", "read_ms", "verdict"),
    [
        ("documented", "simulated", 5000, VIOLATED),
        ("documented", "simulated", 2900, NOT_EXERCISED),
        ("documented", "live", 5000, NOT_EXERCISED),
        ("classic-5.14", "simulated", 5000, NOT_EXERCISED),
    ],
)
def test_what_a_client_discarded_is_swept_when_the_brokers_clock_agrees(
    generation: str, world: str, read_ms: float, verdict: VerdictKind
) -> None:
    run = Clocked(skews={"c0": 5000}, policies=SWEPT_EVERY_SECOND, generation={"expiry": generation}, world=world)
    run.at(1).connect("c0", "jms", checks=True).connect("c1").subscribe("c1/1", prefetch=1).subscribe("c0/1")
    run.post("p0/1", ttl_ms=100).deliver("c0/1", "p0/1").discard("c0/1", "p0/1").at(read_ms)
    run.rest("q0", size=1, in_flight=0, expired=0, enqueued=1).at(read_ms + 5)
    assert verdicts(run.close().finish())["EXP-009"].verdict is verdict


@pytest.mark.parametrize(("world", "verdict"), [("simulated", VIOLATED), ("live", NOT_EXERCISED)])
def test_what_dies_before_it_is_due_is_swept_in_virtual_time(world: str, verdict: VerdictKind) -> None:
    run = Clocked(policies=SWEPT_EVERY_SECOND, world=world).at(1).post("p0/1", ttl_ms=100, delay_ms=60_000)
    run.post("p0/2").at(5000)
    assert verdicts(run.rest("q0", size=1, expired=0, enqueued=1, scheduled=1).at(5005).close().finish())[
        "EXP-009"
    ].verdict is verdict  # fmt: skip


@pytest.mark.parametrize(("memory", "verdict"), [("G2", NOT_EXERCISED), ("fair", VIOLATED)])
def test_a_sweep_that_reads_pages_may_meet_nothing_beyond_a_lowered_limit(memory: str, verdict: VerdictKind) -> None:
    run = Clocked(policies=SWEPT_EVERY_SECOND, generation={"memory": memory}).at(1).post("p0/1", ttl_ms=100)
    run.operate("limit", limit_bytes=1).at(5000).rest("q0", size=1, expired=0, enqueued=1)
    assert verdicts(run.close().finish())["EXP-009"].verdict is verdict


def test_a_consumer_that_leaves_after_a_reading_hides_nothing_from_it() -> None:
    run = Clocked(policies=SWEPT_EVERY_SECOND).at(1).connect("c0").subscribe("c0/1", prefetch=1).post("p0/1")
    run.arrive("c0/1", "p0/1").post("p0/2", ttl_ms=100).at(5000).rest("q0", size=2, expired=0, enqueued=2)
    assert verdicts(run.leave("c0/1").close().finish())["EXP-009"].verdict is VIOLATED


@pytest.mark.parametrize(("expired", "verdict"), [(1, SATISFIED), (0, VIOLATED)])
def test_totals_begin_anew_with_the_broker(expired: int, verdict: VerdictKind) -> None:
    """What died before the restart is not counted after it; what died since must be."""
    run = Clocked(policies=SWEPT_EVERY_SECOND, persistent=True).at(1).post("p0/1", ttl_ms=100).at(5000).restart()
    run.at(6000).post("p0/2", ttl_ms=100).at(9000).rest("q0", size=0, expired=expired, enqueued=1)
    assert verdicts(run.close().finish())["EXP-009"].verdict is verdict


# -- EXP-010


def lives(arrive_ms: float, *, lead_ms: int = 1000, back_ms: int = 0) -> Verdict:
    """futureOnly: sent at 1 ms with 500 ms to live by a clock that is ahead; the consumer comes when it arrives."""
    run = Clocked(skews={"p0": lead_ms}, timestamping=clocked_history.FUTURE_ONLY).at(1)
    run.request_ms = 0
    run.post("p0/1", ttl_ms=500)
    if back_ms:
        run.at(10).step("b", -back_ms)
    run.at(arrive_ms).connect("c0").subscribe("c0/1").deliver("c0/1", "p0/1")
    return verdicts(run.close().finish())["EXP-010"]


def test_life_under_future_only_is_bounded() -> None:
    assert lives(1501).verdict is SATISFIED
    found = lives(1502.5)
    assert (found.verdict, found.outcome) == (VIOLATED, "longer")
    assert lives(5000, back_ms=9000).verdict is NOT_EXERCISED


# -- EXP-029

AHEAD = "the broker's local time was ahead of UTC"


@pytest.mark.parametrize(
    ("hours", "ttl_ms", "at_ms", "dies", "outcome"),
    [
        (9, 60_000, 20, False, "by-instants"),
        (9, 60_000, 20, True, "by-local-time"),
        (0, 60_000, 20, True, ""),
        (1, 7_200_000, 20, True, ""),  # dead by neither
        (-8, 100, 5000, False, "by-local-time"),
        (-8, 100, 5000, True, "by-instants"),
        (-8, 36_000_000, 5000, False, ""),  # alive by both
    ],
)
def test_local_time_decides_nothing(hours: int, ttl_ms: int, at_ms: int, dies: bool, outcome: str) -> None:
    run = Clocked(zones={"b": hours} if hours else {}).at(1).post("p0/1", ttl_ms=ttl_ms)
    run = run.close(at_ms=at_ms)
    run = run.dead_letter("p0/1") if dies else run.deliver("drain/1", "p0/1")
    found = run.finish().verdicts("EXP-029")["EXP-029"]
    assert found.outcome == outcome
    assert found.verdict is {"": NOT_EXERCISED, "by-instants": SATISFIED, "by-local-time": VIOLATED}[outcome]
