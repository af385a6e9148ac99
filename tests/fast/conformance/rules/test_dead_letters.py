"""Dead letters: who gets one, where, once, and what it says (RDL-004, -006, -017, -018, -021, -022, -030), on
hand-written histories.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import DeadLetterSpec, PolicySpec
from brokerproof.conformance.experiment.destinations import own_dead_letters_of
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from tests.fast.conformance.rules.clocked_history import Clocked
from tests.fast.conformance.rules.history_builder import DLQ, EPOCH_MS, Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
OWN = own_dead_letters_of("q0")
SHARED, DISCARDING = DeadLetterSpec("shared"), DeadLetterSpec("discarding")


def outcome(story: Builder, requirement: str) -> tuple[VerdictKind, str]:
    verdict = story.verdicts(requirement)[requirement]
    return verdict.verdict, verdict.outcome


def kind(story: Builder, requirement: str) -> VerdictKind:
    return outcome(story, requirement)[0]


def violated(story: Builder) -> list[str]:
    return [v.requirement for v in judge_history(story.history()) if v.verdict is FAILS]


# -- RDL-004


def rejected(*, persistent: bool = True, store: bool = False, without: str = "", **declared: Any) -> Builder:
    story = Builder(persistent=store, **declared).connect("p0").connect("c0")
    capabilities = [name for name in story.header.capabilities if name != without]
    story.header = msgspec.structs.replace(story.header, capabilities=capabilities)
    story.send("p0/1", persistent=persistent).subscribe("c0/1")
    return story.arrive("c0/1", "p0/1").consume("c0/1", "p0/1").nack("c0/1", "p0/1")


def test_a_rejected_message_becomes_one_dead_letter() -> None:
    def letter(**fields: Any) -> Builder:
        return rejected().drain("q0", DLQ).arrive("drain/2", "p0/1", dest=DLQ, **fields)

    assert outcome(letter(original_dest="q0").end(), "RDL-004") == (HOLDS, "dead-lettered")
    assert outcome(rejected().drain("q0", DLQ).end(), "RDL-004") == (FAILS, "no-dead-letter")
    assert outcome(letter(original_dest="q1").end(), "RDL-004") == (FAILS, "wrong-origin")
    assert outcome(letter(expiration_ms=EPOCH_MS).end(), "RDL-004") == (FAILS, "expires")
    twice = letter(original_dest="q0").arrive("drain/2", "p0/1", dest=DLQ, original_dest="q0").end()
    assert outcome(twice, "RDL-004") == (FAILS, "twice")
    again = letter(original_dest="q0").arrive("drain/1", "p0/1", redelivered=True).end()
    assert outcome(again, "RDL-004") == (FAILS, "redelivered")


# -- RDL-030


def in_a_transaction(end: str, *, requeues: bool = False) -> Builder:
    """A message is rejected in a transaction, which is committed, rolled back or lost; then everything is drained."""
    story = Builder(transacted_nacks=True).connect("p0").connect("c0")
    lacks, more = ("nack", ["requeue"]) if requeues else ("", [])
    capabilities = [*(name for name in story.header.capabilities if name != lacks), "transacted-nacks", *more]
    story.header = msgspec.structs.replace(story.header, capabilities=capabilities)
    story.send("p0/1").subscribe("c0/1").arrive("c0/1", "p0/1").consume("c0/1", "p0/1")
    story.begin("c0").nack("c0/1", "p0/1", tx="c0/tx1")
    story = story.commit("c0") if end == "commit" else story.abort("c0") if end == "rollback" else story
    return story.lose("c0").drain("q0", DLQ)


@pytest.mark.parametrize("end", ["commit", "rollback", "loss"])
def test_a_rejection_in_a_transaction_is_one_with_its_commit(end: str) -> None:
    def letter(story: Builder) -> Builder:
        return story.arrive("drain/2", "p0/1", dest=DLQ, original_dest="q0").end()

    def again(story: Builder) -> Builder:
        return story.arrive("drain/1", "p0/1", redelivered=True).end()

    committed = end == "commit"
    assert outcome(letter(in_a_transaction(end)), "RDL-030") == (
        (HOLDS, "rejected") if committed else (FAILS, "buried")
    )
    assert outcome(again(in_a_transaction(end)), "RDL-030") == (
        (FAILS, "not-rejected") if committed else (HOLDS, "kept")
    )
    assert outcome(again(in_a_transaction(end, requeues=True)), "RDL-030")[0] is HOLDS
    if end != "rollback":
        assert ("RDL-004" in violated(in_a_transaction(end).end())) is committed, "there is no letter"
    gone = outcome(in_a_transaction("rollback").end(), "RDL-030")
    assert gone == (FAILS, "lost")


def test_what_was_settled_after_a_rollback_is_no_rejection() -> None:
    def story(*, rejects: bool) -> Builder:
        story = Builder(transacted_nacks=True).connect("p0").connect("c0")
        story.send("p0/1").subscribe("c0/1").arrive("c0/1", "p0/1").consume("c0/1", "p0/1")
        story.begin("c0").nack("c0/1", "p0/1", tx="c0/tx1").abort("c0")
        return story.nack("c0/1", "p0/1") if rejects else story.ack("c0/1", "p0/1")

    assert kind(story(rejects=False).drain("q0", DLQ).end(), "RDL-004") is SILENT
    assert outcome(story(rejects=True).drain("q0", DLQ).end(), "RDL-004") == (FAILS, "no-dead-letter")
    buried = story(rejects=False).drain("q0", DLQ).arrive("drain/2", "p0/1", dest=DLQ, original_dest="q0").end()
    assert outcome(buried, "RDL-030") == (FAILS, "buried")


def test_a_dead_letter_names_its_origin_where_others_do() -> None:
    def letters(origin: str | None, dest: str = "q0", *, persistent: bool = True) -> Builder:
        story = rejected(persistent=persistent).send("p0/2", dest)
        story.subscribe("c0/2", dest, durable="d" if dest == "t0" else "")
        story.arrive("c0/2", "p0/2").consume("c0/2", "p0/2").nack("c0/2", "p0/2").drain("q0", DLQ)
        story.arrive("drain/2", "p0/1", dest=DLQ)
        return story.arrive("drain/2", "p0/2", dest=DLQ, original_dest=origin).end()

    assert outcome(letters("q0"), "RDL-004") == (FAILS, "wrong-origin")
    assert outcome(letters("q0", persistent=False), "RDL-004") == (FAILS, "wrong-origin"), "a letter that need not be"
    assert outcome(letters(None), "RDL-004") == (HOLDS, "dead-lettered"), "nobody can read an origin here"
    assert outcome(letters("t0", "t0"), "RDL-004") == (HOLDS, "dead-lettered"), "perhaps of publications only"


def test_a_dead_letter_names_its_queue_where_the_profile_says_how() -> None:
    def letter(origin: str | None) -> tuple[VerdictKind, str]:
        story = rejected()
        story.header = msgspec.structs.replace(
            story.header, capabilities=[*story.header.capabilities, "letters-name-queues"]
        )
        return outcome(
            story.drain("q0", DLQ).arrive("drain/2", "p0/1", dest=DLQ, original_dest=origin).end(), "RDL-004"
        )

    assert letter(None) == (FAILS, "wrong-origin")
    assert letter("q0") == (HOLDS, "dead-lettered")


def test_a_durable_subscriber_s_rejection_leaves_a_letter_and_another_s_does_not() -> None:
    def told(durable: str) -> Builder:
        story = Builder().connect("p0").connect("c0").subscribe("c0/1", "t0", durable=durable)
        story.send("p0/1", "t0").arrive("c0/1", "p0/1").consume("c0/1", "p0/1").nack("c0/1", "p0/1")
        return story.drain(DLQ)

    letter = told("d").arrive("drain/1", "p0/1", dest=DLQ, original_dest="t0").end()
    assert outcome(letter, "RDL-004") == (HOLDS, "dead-lettered")
    assert outcome(told("d").end(), "RDL-004") == (FAILS, "no-dead-letter")
    assert kind(told("").end(), "RDL-004") is SILENT


def test_only_what_is_kept_for_dead_letters_is_expected_there() -> None:
    assert kind(rejected(persistent=False).drain("q0", DLQ).end(), "RDL-004") is SILENT
    assert kind(rejected(persistent=False, dead_letter_non_persistent=True).drain("q0", DLQ).end(), "RDL-004") is FAILS
    assert kind(rejected().drain("q0").end(), "RDL-004") is SILENT


def test_the_dead_letter_is_there_at_rest() -> None:
    assert outcome(rejected().rest(DLQ, size=0), "RDL-004") == (FAILS, "late")
    assert kind(rejected().rest(DLQ, size=1), "RDL-004") is HOLDS
    assert kind(rejected().read(DLQ, size=0), "RDL-004") is SILENT


def test_a_purge_takes_what_is_being_rejected() -> None:
    story = Builder().connect("p0").connect("c0").send("p0/1").subscribe("c0/1").arrive("c0/1", "p0/1")
    story.operate("purge").nack("c0/1", "p0/1").rest(DLQ, size=0)
    assert kind(story.drain("q0", DLQ).end(), "RDL-004") is SILENT


def test_a_restart_takes_letters_that_no_store_keeps() -> None:
    assert kind(rejected().restart().rest(DLQ, size=0), "RDL-004") is SILENT
    assert outcome(rejected(persistent=True, store=True).restart().rest(DLQ, size=0), "RDL-004") == (FAILS, "late")


@pytest.mark.parametrize("redelivered", [False, True])
def test_where_no_dead_letters_are_promised_a_broker_may_answer_a_rejection_with_another_delivery(
    redelivered: bool,
) -> None:
    for consumer in ("c0/1", "c1/1"):
        story = rejected(without="dead-letter").connect("c1").subscribe("c1/1")
        story.arrive(consumer, "p0/1", redelivered=redelivered).ack(consumer, "p0/1").drain("q0").end()
        assert violated(story) == []
        assert kind(story, "RDL-003") is HOLDS, "the acknowledgement was the end of it"
    assert violated(rejected().connect("c1").subscribe("c1/1").arrive("c1/1", "p0/1")) != []


# -- RDL-006


def test_one_dead_letter_may_be_delivered_again() -> None:
    def told() -> Builder:
        story = Builder().connect("p0").connect("c0").connect("c1").send("p0/1", expiration_ms=1)
        return story.subscribe("c0/1", DLQ).arrive("c0/1", "p0/1", original_dest="q0")

    assert kind(told(), "RDL-006") is HOLDS
    again = told().lose("c0").subscribe("c1/1", DLQ).arrive("c1/1", "p0/1", original_dest="q0", redelivered=True)
    assert kind(again, "RDL-006") is HOLDS
    second = told().subscribe("c1/1", DLQ).arrive("c1/1", "p0/1", original_dest="q0")
    assert outcome(second, "RDL-006") == (FAILS, "twice")
    settled = told().ack("c0/1", "p0/1").lose("c0").subscribe("c1/1", DLQ).arrive("c1/1", "p0/1", original_dest="q0")
    assert outcome(settled, "RDL-006") == (FAILS, "twice")


def test_each_copy_of_a_message_may_die_once() -> None:
    story = Builder().connect("p0").connect("c0").send("p0/1", "q0,q1").subscribe("c0/1", DLQ)
    story.arrive("c0/1", "p0/1", original_dest="q0").arrive("c0/1", "p0/1", original_dest="q1")
    assert kind(story, "RDL-006") is HOLDS
    assert kind(story.arrive("c0/1", "p0/1", original_dest="q1"), "RDL-006") is FAILS


# -- RDL-017, RDL-018


def given_to(
    *entries: PolicySpec, letter: bool, persistent: bool = True, rejects: bool = True, ttl_ms: int = 0
) -> Clocked:
    """A message is rejected, or expires, and has a letter on the shared queue or none."""
    story = Clocked(policies=list(entries)).connect("p0").connect("c0").at(1)
    story.post("p0/1", persistent=persistent, ttl_ms=ttl_ms).at(2)
    if rejects:
        story.subscribe("c0/1").at(4).deliver("c0/1", "p0/1").nack("c0/1", "p0/1").leave("c0/1")
    story.at(5000).close()
    if letter:
        story.dead_letter("p0/1")
    return story.at(6000).finish()


@pytest.mark.parametrize("strategy", [DISCARDING, DeadLetterSpec("individual")])
@pytest.mark.parametrize(("letter", "expected"), [(False, (HOLDS, "no-dead-letter")), (True, (FAILS, "dead-letter"))])
def test_nothing_comes_to_the_shared_queue_from_elsewhere(
    strategy: DeadLetterSpec, letter: bool, expected: tuple[VerdictKind, str]
) -> None:
    assert outcome(given_to(PolicySpec(dead_letter=strategy), letter=letter), "RDL-017") == expected


@pytest.mark.parametrize(
    "entries",
    [
        (PolicySpec(">", dead_letter=DISCARDING), PolicySpec("*", dead_letter=SHARED)),
        (PolicySpec("*", dead_letter=SHARED), PolicySpec(">", dead_letter=DISCARDING)),
        (PolicySpec("q1", dead_letter=DISCARDING), PolicySpec("q0", dead_letter=SHARED)),
        (PolicySpec("*", dead_letter=DISCARDING), PolicySpec("queue://q0")),
    ],
)
def test_the_entry_that_applies_says_where_letters_go(entries: tuple[PolicySpec, ...]) -> None:
    for letter, expected in ((True, HOLDS), (False, FAILS)):
        story = given_to(*entries, letter=letter)
        assert kind(story, "RDL-004") is expected
        assert violated(story) == ([] if letter else ["RDL-004"])


@pytest.mark.parametrize(("letter", "expected"), [(False, (HOLDS, "no-dead-letter")), (True, (FAILS, "dead-letter"))])
def test_what_a_strategy_excludes_gets_no_letter(letter: bool, expected: tuple[VerdictKind, str]) -> None:
    assert outcome(given_to(letter=letter, persistent=False), "RDL-018") == expected
    entry = PolicySpec(dead_letter=DeadLetterSpec(process_expired=False))
    assert outcome(given_to(entry, letter=letter, rejects=False, ttl_ms=100), "RDL-018") == expected
    assert kind(given_to(entry, letter=letter), "RDL-018") is SILENT, "it was rejected"


@pytest.mark.parametrize(("world", "expected"), [("live", SILENT), ("simulated", FAILS)])
def test_what_came_again_may_be_dead_because_it_was_there(world: str, expected: VerdictKind) -> None:
    """ActiveMQ makes a dead letter of the second one."""
    run = Clocked(world=world).at(1).post("p0/1", persistent=False, again=True).at(5000).close()
    assert kind(run.dead_letter("p0/1").at(6000).finish(), "RDL-018") is expected


# -- RDL-021, RDL-022


def individual(**strategy: Any) -> list[PolicySpec]:
    return [PolicySpec(">", dead_letter=DeadLetterSpec("individual", **strategy))]


def rejected_there(own: str = OWN, letters: int = 1, persistent: bool = True, **letter: Any) -> Builder:
    """A message is rejected, and has letters in the drain."""
    told = Builder(policies=individual()).connect("p0").connect("c0").send("p0/1", persistent=persistent)
    told.subscribe("c0/1").arrive("c0/1", "p0/1").consume("c0/1", "p0/1").nack("c0/1", "p0/1").leave("c0/1")
    told.drain("q0", DLQ, OWN)
    told.dests["drain/3"] = own
    for _ in range(letters):
        told.arrive("drain/3", "p0/1", **({"original_dest": "q0"} | letter))
    return told.end()


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, HOLDS),
        ({"letters": 0}, FAILS),
        ({"letters": 2}, FAILS),
        ({"own": own_dead_letters_of("q1")}, FAILS),
        ({"original_dest": "q1"}, FAILS),
        ({"expiration_ms": 5}, FAILS),
    ],
)
def test_a_letter_lies_on_its_sources_queue(options: dict[str, Any], verdict: VerdictKind) -> None:
    assert kind(rejected_there(**options), "RDL-021") is verdict


@pytest.mark.parametrize(("letters", "verdict"), [(0, HOLDS), (1, FAILS)])
def test_exclusions_hold_there_too(letters: int, verdict: VerdictKind) -> None:
    assert kind(rejected_there(letters=letters, persistent=False), "RDL-022") is verdict
    told = Clocked(policies=individual(process_expired=False)).post("p0/1", ttl_ms=100).at(5000).close()
    told.subscribe("drain/3", OWN, ack="individual")
    for _ in range(letters):
        told.arrive("drain/3", "p0/1", original_dest="q0")
    assert kind(told.finish(), "RDL-022") is verdict


def test_no_other_rule_takes_such_a_letter_for_the_message() -> None:
    found = {v.requirement: v for v in judge_history(rejected_there().history())}
    assert [name for name, verdict in found.items() if verdict.verdict is FAILS] == []
    assert found["RDL-003"].verdict is not FAILS
