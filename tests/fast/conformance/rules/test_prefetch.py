"""PRE-001 to PRE-003, PRE-006 and PRE-011 on hand-written histories."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from brokerproof.conformance.experiment.history import Connect
from brokerproof.conformance.experiment.traits import Traits
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.starvation import waits
from tests.fast.conformance.rules.history_builder import EPOCH_MS, Builder, foreign

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
UNSURE = VerdictKind.INCONCLUSIVE


def kinds(story: Builder) -> dict[str, VerdictKind]:
    verdicts = story.verdicts("PRE-001", "PRE-002", "PRE-003")
    return {requirement: verdict.verdict for requirement, verdict in verdicts.items()}


def stocked(messages: int = 5, via: str = "stomp", world: str = "simulated", **fields: Any) -> Builder:
    """A queue with messages and a consumer on host c0."""
    story = Builder(world).connect("p0").connect("c0", via=via)
    for number in range(1, messages + 1):
        story.send(f"p0/{number}")
    return story.subscribe("c0/1", **fields)


def test_a_window_that_is_never_full_proves_nothing() -> None:
    assert kinds(stocked(prefetch=2).arrive("c0/1", "p0/1"))["PRE-001"] is SILENT


def test_one_message_beyond_the_window_is_too_many() -> None:
    assert kinds(stocked(prefetch=2).arrive("c0/1", "p0/1", "p0/2"))["PRE-001"] is HOLDS
    story = stocked(prefetch=2).arrive("c0/1", "p0/1", "p0/2", "p0/3")
    verdict = story.verdicts("PRE-001")["PRE-001"]
    assert verdict.verdict is FAILS
    assert "prefetch 2" in verdict.text
    assert "3 messages" in verdict.text
    assert len(verdict.witness) == 4


def test_what_was_rejected_may_pause_before_it_comes_again() -> None:
    def told(story: Builder) -> Builder:
        story.header = replace(story.header, capabilities=[*story.header.capabilities, "requeue"])
        return story.arrive("c0/1", "p0/1").nack("c0/1", "p0/1").rest()

    assert kinds(told(stocked(1, prefetch=2)))["PRE-002"] is not FAILS
    assert kinds(told(stocked(1, prefetch=2)).arrive("c0/1", "p0/1", redelivered=True))["PRE-002"] is not FAILS
    assert kinds(told(stocked(2, prefetch=2)))["PRE-002"] is FAILS, "the other one was not rejected"
    for messages, waiting in ((1, None), (2, "p0/2")):
        facts = Facts(told(stocked(messages, prefetch=2)).history())
        found = waits(facts, facts.readings[-1])
        assert (found and found.message) == waiting


@pytest.mark.parametrize(
    ("promised", "ends", "expected"),
    [(False, False, HOLDS), (True, False, FAILS), (True, True, HOLDS)],
)
def test_who_promises_it_makes_room_at_the_commit(promised: bool, ends: bool, expected: VerdictKind) -> None:
    story = stocked(prefetch=1)
    if promised:
        story.header = replace(story.header, capabilities=[*story.header.capabilities, "prefetch-until-commit"])
    story.arrive("c0/1", "p0/1").begin("c0").ack("c0/1", "p0/1", tx="c0/tx1")
    story = (story.commit("c0") if ends else story).arrive("c0/1", "p0/2")
    assert kinds(story if ends else story.commit("c0"))["PRE-001"] is expected


def test_a_settlement_may_take_effect_as_soon_as_it_is_begun() -> None:
    story = stocked(prefetch=1).arrive("c0/1", "p0/1")
    story.request_ms = 10
    story.ack("c0/1", "p0/1").wait(-9).arrive("c0/1", "p0/2")
    story.events.sort(key=lambda event: event.t1)
    for number, event in enumerate(story.events, start=1):
        event.seq = number
    assert kinds(story)["PRE-001"] is HOLDS


def test_an_arrival_a_millisecond_before_the_settlement_began_is_too_early() -> None:
    story = stocked(prefetch=1).arrive("c0/1", "p0/1", "p0/2").ack("c0/1", "p0/1")
    assert kinds(story)["PRE-001"] is FAILS


def test_unknown_and_refused_settlements_count_in_the_brokers_favour() -> None:
    for result in ("unknown", "fail"):
        story = stocked(prefetch=1).arrive("c0/1", "p0/1").ack("c0/1", "p0/1", result=result).arrive("c0/1", "p0/2")
        assert kinds(story)["PRE-001"] is HOLDS


def test_libraries_that_widen_their_window_are_not_judged() -> None:
    assert kinds(stocked(prefetch=1, via="jms").arrive("c0/1", "p0/1", "p0/2"))["PRE-001"] is SILENT
    assert kinds(stocked(prefetch=1, ack="auto").arrive("c0/1", "p0/1", "p0/2"))["PRE-001"] is SILENT


def test_a_library_that_settles_at_a_moment_of_its_own_is_not_judged() -> None:
    story = stocked(prefetch=2, ack="auto").arrive("c0/1", "p0/1", "p0/2", "p0/3")
    assert kinds(story)["PRE-001"] is SILENT  # STOMP: the broker settles what it writes
    own = Traits(settles_by_itself=True)  # Paho's PUBACK goes out with the arrival
    story.events = [replace(one, traits=own) if isinstance(one, Connect) else one for one in story.events]
    assert kinds(story)["PRE-001"] is SILENT


def test_what_may_have_expired_may_have_been_taken_back() -> None:
    def story(expiration_ms: int) -> Builder:
        told = Builder().connect("p0").connect("c0").send("p0/1").send("p0/2").subscribe("c0/1", prefetch=1)
        return told.arrive("c0/1", "p0/1", expiration_ms=expiration_ms).at(1000).arrive("c0/1", "p0/2").clock()

    assert kinds(story(EPOCH_MS + 999))["PRE-001"] is HOLDS
    assert kinds(story(EPOCH_MS + 1001))["PRE-001"] is FAILS


def test_late_frames_after_the_end_do_not_count() -> None:
    assert kinds(stocked(prefetch=1).arrive("c0/1", "p0/1").leave("c0/1").arrive("c0/1", "p0/2"))["PRE-001"] is HOLDS


def test_a_free_slot_beside_a_waiting_message_is_idle() -> None:
    assert kinds(stocked(2, prefetch=2).arrive("c0/1", "p0/1", "p0/2").rest())["PRE-002"] is HOLDS
    assert kinds(stocked(1, prefetch=2).arrive("c0/1", "p0/1").rest())["PRE-002"] is HOLDS
    verdict = stocked(3, prefetch=2).arrive("c0/1", "p0/1").rest().verdicts("PRE-002")["PRE-002"]
    assert verdict.verdict is FAILS
    assert "p0/2 waits" in verdict.text
    assert kinds(stocked(3, prefetch=2).arrive("c0/1", "p0/1").read())["PRE-002"] is SILENT


@pytest.mark.parametrize(
    ("world", "late_ms", "acts", "expected"),
    [
        ("live", 150, False, HOLDS),  # as if it waited for room for more, or was busy with something else
        ("live", 5000, False, FAILS),
        ("live", 150, True, FAILS),
        ("simulated", 150, False, FAILS),
    ],
)
def test_a_real_broker_may_fill_a_window_a_little_later(
    world: str, late_ms: int, acts: bool, expected: VerdictKind
) -> None:
    story = stocked(4, world=world, prefetch=2).arrive("c0/1", "p0/1", "p0/2").rest().ack("c0/1", "p0/1").at(200).rest()
    if acts:
        story.ack("c0/1", "p0/2")
    found = kinds(story.at(200 + late_ms).arrive("c0/1", "p0/3").rest())
    assert found["PRE-002"] is expected
    assert (found["PRE-003"] is FAILS) == (expected is FAILS)


@pytest.mark.parametrize(("dest", "expected"), [("q0", SILENT), ("q1", FAILS)])
def test_it_begins_with_the_message_and_another_queue_is_no_excuse(dest: str, expected: VerdictKind) -> None:
    story = Builder("live").connect("p0").connect("c0").subscribe("c0/1", "q*", prefetch=2)
    story.at(4000).send("p0/1", dest).send("p0/2").rest("q0").arrive("c0/1", "p0/1", dest=dest)
    assert kinds(story)["PRE-002"] is expected


def test_how_much_a_foreign_broker_gives_to_who_asked_for_no_number_is_its_own_affair() -> None:
    def story(messages: int) -> Builder:
        found = foreign().connect("p0").connect("c0")
        for number in range(1, messages + 1):
            found.send(f"p0/{number}")
        return found.subscribe("c0/1", prefetch=1000, asked=-1)

    assert kinds(story(2).arrive("c0/1", "p0/1").rest())["PRE-002"] is not FAILS
    assert kinds(story(2).rest())["PRE-002"] is FAILS, "one at least"


def test_an_auto_acknowledging_window_is_always_open() -> None:
    assert kinds(stocked(2, prefetch=1, ack="auto").arrive("c0/1", "p0/1", "p0/2").rest())["PRE-002"] is HOLDS
    assert kinds(stocked(2, prefetch=1, ack="auto").arrive("c0/1", "p0/1").rest())["PRE-002"] is FAILS


def test_messages_with_timers_do_not_wait_for_certain() -> None:
    for fields in ({"delay_ms": 5}, {"expiration_ms": EPOCH_MS + 5}, {"result": "unknown"}):
        story = Builder().connect("p0").connect("c0").send("p0/1", **fields).subscribe("c0/1")
        assert kinds(story.rest())["PRE-002"] is SILENT


@pytest.mark.parametrize(("via", "expected"), [("stomp", FAILS), ("jms", SILENT)])
def test_what_is_not_persistent_waits_where_the_broker_said_that_it_has_it(via: str, expected: VerdictKind) -> None:
    story = Builder().connect("p0", via).connect("c0").send("p0/1", persistent=False).subscribe("c0/1")
    assert kinds(story.rest())["PRE-002"] is expected


def test_a_message_that_came_back_waits_again() -> None:
    def story() -> Builder:
        return stocked(1).arrive("c0/1", "p0/1").leave("c0/1").rest().connect("c1").subscribe("c1/1")

    assert kinds(story().rest())["PRE-002"] is FAILS
    assert kinds(story().arrive("c1/1", "p0/1", redelivered=True).rest())["PRE-002"] is HOLDS


def test_scarce_memory_excuses_an_idle_slot() -> None:
    story = Builder(memory_limit_bytes=4096).connect("p0").connect("c0").send("p0/1", size=1024).subscribe("c0/1")
    assert kinds(story.rest())["PRE-002"] is SILENT


def test_an_unknown_consumer_may_hold_what_seems_to_wait() -> None:
    assert kinds(stocked(3).subscribe("c0/2", result="unknown").rest())["PRE-002"] is UNSURE


def test_a_message_may_have_been_written_to_an_auto_consumer_that_died() -> None:
    def story() -> Builder:
        told = Builder().connect("p0").connect("c0").connect("c1").subscribe("c1/1", ack="auto").send("p0/1")
        return told.lose("c1").subscribe("c0/1")

    assert kinds(story().rest())["PRE-002"] is SILENT


def test_settlements_free_exactly_their_slots() -> None:
    def story() -> Builder:
        return stocked(5, prefetch=2).arrive("c0/1", "p0/1", "p0/2").ack("c0/1", "p0/1", "p0/2")

    assert kinds(story().arrive("c0/1", "p0/3", "p0/4").rest())["PRE-003"] is HOLDS
    assert story().arrive("c0/1", "p0/3").rest().verdicts("PRE-003")["PRE-003"].outcome == "too-few"
    assert story().arrive("c0/1", "p0/3", "p0/4", "p0/5").rest().verdicts("PRE-003")["PRE-003"].outcome == "too-many"
    assert kinds(stocked(5, prefetch=2).arrive("c0/1", "p0/1", "p0/2").rest())["PRE-003"] is SILENT


def test_what_an_operator_may_have_taken_waits_no_more() -> None:
    def story() -> Builder:
        return stocked(1).arrive("c0/1", "p0/1").operate("purge").leave("c0/1").connect("c1").subscribe("c1/1")

    assert kinds(story().rest())["PRE-002"] is SILENT
    assert kinds(story().send("p0/2").rest())["PRE-002"] is FAILS


def test_a_wildcards_consumer_has_a_window_too() -> None:
    def story() -> Builder:
        return Builder().connect("p0").connect("c0").subscribe("c0/1", "q*", prefetch=1).send("p0/1").send("p0/2", "q1")

    assert kinds(story().rest())["PRE-002"] is FAILS
    assert kinds(story().arrive("c0/1", "p0/2", dest="q1").rest())["PRE-002"] is HOLDS


def test_an_exclusive_consumer_keeps_others_waiting_only_while_it_is_there() -> None:
    def story() -> Builder:
        return stocked(2).connect("c1").subscribe("c1/1", exclusive=True)

    assert kinds(story().rest())["PRE-002"] is SILENT
    assert kinds(story().leave("c1/1").rest())["PRE-002"] is FAILS


def test_a_pull_brings_one_message() -> None:
    def story() -> Builder:
        told = Builder().connect("p0").connect("c0").subscribe("c0/1", prefetch=0).send("p0/1").send("p0/2")
        return told.arrive("c0/1", "p0/1")

    assert story().verdicts("PRE-006")["PRE-006"].verdict is SILENT
    pulled = story().consume("c0/1", "p0/1").arrive("c0/1", "p0/2")
    assert pulled.verdicts("PRE-006")["PRE-006"].verdict is HOLDS
    assert story().arrive("c0/1", "p0/2").verdicts("PRE-006")["PRE-006"].verdict is FAILS


@pytest.mark.parametrize(("dispatch", "late"), [("async", True), ("async", False), ("sync", True)])
def test_a_deaf_neighbour_delays_nobody(dispatch: str, late: bool) -> None:
    story = Builder().connect("p0").connect("c0").connect("c1")
    story.subscribe("c0/1", dispatch=dispatch).subscribe("c1/1").stall("c0", "client").send("p0/1")
    if late:
        story.wait(5000).resume("c0").arrive("c1/1", "p0/1")
    else:
        story.arrive("c1/1", "p0/1").wait(5000).resume("c0")
    wanted = SILENT if dispatch == "sync" else FAILS if late else HOLDS
    assert story.rest(size=1).end().verdicts("PRE-011")["PRE-011"].verdict is wanted


@pytest.mark.parametrize("answers", [True, False])
def test_what_was_rejected_holds_no_slot_once_nothing_moves(answers: bool) -> None:
    """Also without an answer to the rejection (AMQP 0-9-1): it was read, or its session has ended."""
    story = Builder("live").connect("p0").connect("c0", awaits_receipt=answers)
    story.header = replace(story.header, capabilities=[*story.header.capabilities, "requeue"])
    story.send("p0/1").send("p0/2").send("p0/3").subscribe("c0/1", prefetch=2, ack="individual")
    story.arrive("c0/1", "p0/1", "p0/2").nack("c0/1", "p0/1").nack("c0/1", "p0/2").wait(5000)
    assert kinds(story.rest("q0", size=3, in_flight=0))["PRE-002"] is FAILS
