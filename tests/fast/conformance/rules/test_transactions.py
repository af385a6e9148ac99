"""GEN-009, GEN-060 to GEN-066 on hand-written histories."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import DLQ, Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
TX = "p0/tx1"
CTX = "c0/tx1"


def outcome(story: Builder, requirement: str) -> tuple[VerdictKind, str]:
    verdict = story.verdicts(requirement)[requirement]
    return verdict.verdict, verdict.outcome


def sent(*messages: str, **fields: object) -> Builder:
    """A consumer waits; messages are sent in a transaction that is still open."""
    story = Builder().connect("p0").connect("c0").connect("c1").subscribe("c0/1").begin("p0")
    for message in messages or ("p0/1",):
        story.send(message, tx=TX, **fields)
    return story


def pledged(count: int = 2, dest: str = "q0") -> Builder:
    """A consumer has acknowledged what it holds in a transaction that is still open."""
    story = Builder().connect("p0").connect("c0").connect("c1")
    names = [f"p0/{number}" for number in range(1, count + 1)]
    for name in names:
        story.send(name, dest)
    story.subscribe("c0/1", dest).arrive("c0/1", *names).consume("c0/1", *names).begin("c0")
    return story.ack("c0/1", *names, tx=CTX)


# -- GEN-060


def test_what_comes_after_the_commit_is_right() -> None:
    assert outcome(sent().commit("p0").arrive("c0/1", "p0/1"), "GEN-060") == (HOLDS, "after-the-commit")


def test_what_comes_before_the_commit_is_wrong() -> None:
    assert outcome(sent().arrive("c0/1", "p0/1").commit("p0"), "GEN-060") == (FAILS, "early")


def test_frames_may_overtake_the_answer_to_the_commit() -> None:
    story = sent()
    asked_ms = story.now_ms
    story.at(asked_ms + 2).arrive("c0/1", "p0/1").at(asked_ms)
    story.request_ms = 5
    assert outcome(story.commit("p0"), "GEN-060") == (HOLDS, "after-the-commit")


def test_an_unknown_commit_may_have_happened() -> None:
    assert outcome(sent().commit("p0", result="unknown").arrive("c0/1", "p0/1"), "GEN-060")[0] is HOLDS


def test_a_dead_letter_of_what_was_dead_on_arrival_need_not_wait() -> None:
    story = sent(expiration_ms=1).subscribe("c1/1", DLQ).arrive("c1/1", "p0/1", original_dest="q0").commit("p0")
    assert outcome(story, "GEN-060")[0] is SILENT


# -- GEN-061, GEN-066


@pytest.mark.parametrize("result", ["ok", "unknown"])
def test_what_was_rolled_back_is_never_seen(result: str) -> None:
    story = sent().abort("p0", result=result)
    assert outcome(story.arrive("c0/1", "p0/1"), "GEN-061") == (FAILS, "delivered")
    assert outcome(story, "GEN-009") == (FAILS, "delivered")


def test_a_rollback_that_undoes() -> None:
    assert outcome(sent().abort("p0").drain("q0").end(), "GEN-061") == (HOLDS, "undone")
    assert outcome(sent().abort("p0"), "GEN-061")[0] is SILENT  # nobody looked to the end


@pytest.mark.parametrize(("seen", "expected"), [(True, (FAILS, "delivered")), (False, (HOLDS, "undone"))])
def test_a_lost_connection_rolls_back(seen: bool, expected: tuple[VerdictKind, str]) -> None:
    story = sent().lose("p0")
    if seen:
        story.arrive("c0/1", "p0/1")
    story.drain("q0").end()
    assert outcome(story, "GEN-066") == expected
    assert outcome(story, "GEN-061")[0] is SILENT


# -- GEN-062


def test_a_commit_is_whole() -> None:
    story = sent("p0/1", "p0/2").commit("p0").arrive("c0/1", "p0/1", "p0/2").drain("q0").end()
    assert outcome(story, "GEN-062") == (HOLDS, "whole")
    assert outcome(story, "GEN-009") == (HOLDS, "whole")


@pytest.mark.parametrize(("result", "word"), [("ok", "lost"), ("unknown", "torn")])
def test_a_part_is_missing(result: str, word: str) -> None:
    story = sent("p0/1", "p0/2").commit("p0", result=result).arrive("c0/1", "p0/1").drain("q0").end()
    assert outcome(story, "GEN-062") == (FAILS, word)


def test_an_unknown_commit_may_not_have_happened_at_all() -> None:
    story = sent("p0/1", "p0/2").commit("p0", result="unknown").drain("q0").end()
    assert outcome(story, "GEN-062")[0] is SILENT


@pytest.mark.parametrize("excuse", ["expires", "purged", "undrained"])
def test_what_may_be_missing(excuse: str) -> None:
    story = sent("p0/1", "p0/2", expiration_ms=1 if excuse == "expires" else 0).commit("p0").arrive("c0/1", "p0/1")
    if excuse == "purged":
        story.operate("purge")
    story = story.end() if excuse == "undrained" else story.drain("q0").end()
    assert outcome(story, "GEN-062")[0] is SILENT


# -- GEN-063


@pytest.mark.parametrize("dest", ["q0", "t0"])
def test_the_order_of_the_sends(dest: str) -> None:
    def story(*order: str) -> Builder:
        told = Builder().connect("p0").connect("c0").subscribe("c0/1", dest).begin("p0")
        told.send("p0/1", dest, tx=TX).send("p0/2", dest, tx=TX).commit("p0")
        return told.arrive("c0/1", *order)

    assert outcome(story("p0/1", "p0/2"), "GEN-063") == (HOLDS, "in-order")
    assert outcome(story("p0/2", "p0/1"), "GEN-063") == (FAILS, "reordered")


def test_order_says_nothing_where_somebody_may_have_had_the_first_before() -> None:
    story = sent("p0/1", "p0/2").subscribe("c1/1").commit("p0").lose("c1").arrive("c0/1", "p0/2", "p0/1")
    assert outcome(story, "GEN-063")[0] is SILENT


def test_other_priorities_and_delays_have_their_own_order() -> None:
    for fields in ({"priority": 9}, {"delay_ms": 1}):
        story = sent("p0/1").send("p0/2", tx=TX, **fields).commit("p0").arrive("c0/1", "p0/2", "p0/1")
        assert outcome(story, "GEN-063")[0] is SILENT


# -- GEN-064


def test_what_was_acknowledged_and_committed_comes_not_again() -> None:
    story = pledged().commit("c0").leave("c0/1").subscribe("c1/1")
    assert outcome(story, "GEN-064") == (HOLDS, "never-again")
    assert outcome(story.arrive("c1/1", "p0/1"), "GEN-064") == (FAILS, "redelivered")


@pytest.mark.parametrize(("lost", "expected"), [(False, FAILS), (True, SILENT)])
def test_who_said_goodbye_before_the_commit_had_acknowledged_it(lost: bool, expected: VerdictKind) -> None:
    story = pledged().leave("c0/1")
    story = story.lose("c0").connect("c0") if lost else story
    story.commit("c0").subscribe("c1/1").arrive("c1/1", "p0/1")
    assert outcome(story, "GEN-064")[0] is expected


def test_to_whom_it_goes_before_the_commit_is_open() -> None:
    story = pledged().leave("c0/1").subscribe("c1/1").arrive("c1/1", "p0/1").commit("c0")
    assert outcome(story, "GEN-064")[0] is not FAILS


@pytest.mark.parametrize("end", ["unknown", "rejected"])
def test_where_a_message_may_come_again(end: str) -> None:
    story = pledged()
    if end == "unknown":
        story.commit("c0", result="unknown").leave("c0/1")
    else:
        story.ack("c0/1", "p0/2", tx=CTX, result="fail").commit("c0").leave("c0/1")
    assert outcome(story.subscribe("c1/1").arrive("c1/1", "p0/1"), "GEN-064")[0] is SILENT


# -- GEN-065


@pytest.mark.parametrize(("again", "expected"), [(True, (HOLDS, "came-back")), (False, (FAILS, "lost"))])
def test_what_was_acknowledged_in_vain_comes_back(again: bool, expected: tuple[VerdictKind, str]) -> None:
    story = pledged().abort("c0").leave("c0/1").drain("q0")
    if again:
        story.arrive("drain/1", "p0/1", "p0/2", dest="q0")
    assert outcome(story.end(), "GEN-065") == expected


def test_unless_it_was_acknowledged_again() -> None:
    story = pledged().abort("c0").ack("c0/1", "p0/1", "p0/2").leave("c0/1").drain("q0").end()
    assert outcome(story, "GEN-065")[0] is SILENT


def test_what_a_lost_connection_had_acknowledged_comes_back() -> None:
    assert outcome(pledged().lose("c0").drain("q0").end(), "GEN-066") == (FAILS, "lost")


def test_also_what_a_consumer_had_acknowledged_that_left_before() -> None:
    left = pledged().leave("c0/1").lose("c0").drain("q0")
    assert outcome(left.end(), "GEN-066") == (FAILS, "lost")
    back = pledged().leave("c0/1").lose("c0").drain("q0").arrive("drain/1", "p0/1", "p0/2", dest="q0")
    assert outcome(back.end(), "GEN-066") == (HOLDS, "undone")
