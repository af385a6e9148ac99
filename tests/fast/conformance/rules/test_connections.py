"""GEN-143 and GEN-144 on hand-written histories: connections stay, and what comes can be understood."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from brokerproof.conformance.experiment.configuration import MonitorSpec
from brokerproof.conformance.experiment.history import PROTOCOL_BROKEN, READ_TO_THE_END, RELAYED_END, Leave, Unsubscribe
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from tests.fast.conformance.rules.history_builder import Builder

Told = Callable[[Builder], Builder]


def told(story: Builder, requirement: str = "GEN-143") -> Verdict:
    return story.verdicts(requirement)[requirement]


def connected() -> Builder:
    return Builder().connect("c0").send("c0/1")


def test_a_connection_that_stays() -> None:
    verdict = told(connected().rest(None).phase("end"))
    assert (verdict.verdict, verdict.outcome) == (VerdictKind.SATISFIED, "kept")


@pytest.mark.parametrize("host", ["b", "c0"])
def test_a_connection_that_ends_without_a_cause(host: str) -> None:
    verdict = told(connected().at(100).closed("c0", host=host, reason="enough").phase("end"))
    assert (verdict.verdict, verdict.outcome) == (VerdictKind.VIOLATED, "ended")
    assert "it said: enough" in verdict.text


def test_whose_cause_it_is_matters() -> None:
    """What another host asked, or what was refused on an earlier connection, ends nobody else's."""
    other = connected().connect("p0").send("p0/1", result="fail")
    assert told(other.at(100).closed("c0", reason="")).verdict is VerdictKind.VIOLATED
    earlier = connected().send("c0/2", result="fail").at(50).closed("c0", reason="no").at(60).connect("c0")
    assert told(earlier.at(100).closed("c0", reason="")).verdict is VerdictKind.VIOLATED


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (lambda story: story.send("c0/2", result="fail"), "no room"),
        (lambda story: story.restart(), "the broker's process ended"),
        (lambda story: story, "Channel was inactive for too (>1000) long"),
        (lambda story: story.stall("c0").at(90).resume("c0"), ""),
        (lambda story: story.pause("b", 20), ""),
    ],
)
def test_what_may_end_one(cause: Told, reason: str) -> None:
    assert told(cause(connected()).at(100).closed("c0", reason=reason)).verdict is VerdictKind.SATISFIED


@pytest.mark.parametrize(
    ("world", "at_ms", "expected"),
    [
        ("live", 25_000, VerdictKind.VIOLATED),
        ("live", 61_000, VerdictKind.SATISFIED),
        ("simulated", 61_000, VerdictKind.VIOLATED),
    ],
)
def test_real_brokers_end_what_is_silent_for_long_and_agreed_on_nothing(
    world: str, at_ms: int, expected: VerdictKind
) -> None:
    story = Builder(world).connect("c0", awaits_receipt=True).send("c0/1").at(at_ms)
    assert told(story.closed("c0", reason="not received data").phase("end")).verdict is expected


@pytest.mark.parametrize(
    ("traits", "expected"),
    [
        ({"beats_twice": True, "beats_in_seconds": True}, VerdictKind.VIOLATED),
        ({"beats_twice": True}, VerdictKind.VIOLATED),
        ({}, VerdictKind.SATISFIED),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_nobody_is_silent_whose_heart_beats_surely_came(
    traits: dict[str, bool], expected: VerdictKind, late: bool
) -> None:
    """Whatever a real broker says when it ends a link; unless a machine was late."""
    story = Builder("live", monitor={"c0": MonitorSpec(4000, 2000)}).connect("c0", awaits_receipt=True, **traits)
    story.request_ms = 600 if late else 1
    story = story.send("c0/1").at(5000).closed("c0", host="c0", reason="Transport indicated EOF").phase("end")
    assert told(story).verdict is (VerdictKind.SATISFIED if late else expected)


def test_who_said_goodbye_to_what_had_been_ended() -> None:
    story = connected().subscribe("c0/1", "t0", durable="d").at(20)
    story._add(Unsubscribe, "c0", 1.0, result="ok", durable="d")
    assert told(story.at(50).leave("c0/1").at(60).closed("c0", reason="")).verdict is VerdictKind.SATISFIED
    again = story.at(70).connect("c0").at(100).closed("c0", reason="")
    assert told(again).verdict is VerdictKind.VIOLATED, "that was on its connection before"
    early = connected().subscribe("c0/1", "t0", durable="d").at(20).leave("c0/1").at(40)
    early._add(Unsubscribe, "c0", 1.0, result="ok", durable="d")
    assert told(early.at(60).closed("c0", reason="")).verdict is VerdictKind.VIOLATED


def test_a_client_that_cannot_read_on_is_accused_once() -> None:
    story = connected().at(100).closed("c0", host="c0", reason=f"{PROTOCOL_BROKEN}nonsense").phase("end")
    assert told(story).verdict is not VerdictKind.VIOLATED
    assert told(story, "GEN-144").verdict is VerdictKind.VIOLATED


def test_its_client_may_end_it() -> None:
    assert told(connected().at(100).closed("c0", who="client", host="c0", reason="")).verdict is VerdictKind.SATISFIED


def test_what_cannot_be_understood() -> None:
    story = connected().at(100).closed("c0", host="c0", reason=f"{PROTOCOL_BROKEN}MESSAGE: no NUL follows")
    verdict = told(story, "GEN-144")
    assert (verdict.verdict, verdict.outcome) == (VerdictKind.VIOLATED, "broke-the-protocol")
    assert verdict.text.startswith("MESSAGE: no NUL follows")
    assert told(connected(), "GEN-144").verdict is VerdictKind.SATISFIED
    first = (
        Builder().connect("c0", result="fail").at(100).closed("c0", host="c0", reason=f"{PROTOCOL_BROKEN}no command")
    )
    assert told(first, "GEN-144").verdict is VerdictKind.VIOLATED


@pytest.mark.parametrize(
    ("reason", "size", "verdict"),
    [
        (READ_TO_THE_END, 64, VerdictKind.VIOLATED),
        (READ_TO_THE_END, 2**21, VerdictKind.SATISFIED),  # it may be more than a broker takes
        (RELAYED_END, 64, VerdictKind.SATISFIED),
        ("connection lost: reset by peer", 64, VerdictKind.SATISFIED),
    ],
)
def test_who_read_to_the_end_was_not_refused_with_words(reason: str, size: int, verdict: VerdictKind) -> None:
    story = Builder("live").connect("c0").send("c0/1", result="unknown", size=size)
    assert told(story.closed("c0", host="c0", reason=reason).phase("end")).verdict is verdict


@pytest.mark.parametrize(("seen_ms", "verdict"), [(105, VerdictKind.SATISFIED), (99, VerdictKind.VIOLATED)])
def test_a_goodbye_ends_a_connection_before_it_is_told(seen_ms: int, verdict: VerdictKind) -> None:
    story = Builder("live").connect("c0").send("c0/1").at(seen_ms).closed("c0", reason="end")
    story.now_ms = 100
    story._add(Leave, "c0", 20, result="ok", how="close")
    assert told(story.phase("end")).verdict is verdict


@pytest.mark.parametrize(("how", "verdict"), [("drop", VerdictKind.VIOLATED), ("close", VerdictKind.SATISFIED)])
def test_the_loss_that_an_end_is_to_its_client_is_no_cause(how: str, verdict: VerdictKind) -> None:
    """The end may have left the broker before it was seen, and the loss of the consumers begins then."""
    story = connected().at(120).closed("c0", reason="end")
    story.now_ms = 100
    story._add(Leave, "c0", 20, result="ok", how=how)
    assert told(story.phase("end")).verdict is verdict


@pytest.mark.parametrize(
    ("world", "reason", "verdict"),
    [
        ("simulated", "no frame", VerdictKind.VIOLATED),
        ("simulated", "Channel was inactive for too (>1000) long", VerdictKind.SATISFIED),
        ("live", "no frame", VerdictKind.SATISFIED),  # in which words a real broker's monitor ends one nobody knows
    ],
)
def test_a_monitor_is_a_cause_if_it_says_so(world: str, reason: str, verdict: VerdictKind) -> None:
    story = Builder(world, monitor={"c0": MonitorSpec(1000, 500)}).connect("c0").send("c0/1")
    assert told(story.at(100).closed("c0", reason=reason).phase("end")).verdict is verdict


def by_library(world: str = "simulated") -> Builder:
    """A client whose library does not wait for every answer; what it sends is stored, so that is answered."""
    return Builder(world).connect("c0", "jms").send("c0/1", persistent=True).subscribe("c0/1", "q0")


@pytest.mark.parametrize(
    ("did", "world", "verdict"),
    [
        (lambda story: story, "simulated", VerdictKind.VIOLATED),
        (lambda story: story.send("c0/2", result="unknown", persistent=True), "simulated", VerdictKind.VIOLATED),
        (lambda story: story, "live", VerdictKind.SATISFIED),
        (lambda story: story.send("c0/2", persistent=False), "simulated", VerdictKind.SATISFIED),
        (lambda story: story.arrive("c0/1", "c0/1"), "simulated", VerdictKind.SATISFIED),
        (lambda story: story.leave("c0/1"), "simulated", VerdictKind.SATISFIED),
        (lambda story: story.send("c0/2", result="fail", persistent=True), "simulated", VerdictKind.SATISFIED),
    ],
)
def test_who_does_not_wait_for_answers_may_have_been_refused_unseen(
    did: Told, world: str, verdict: VerdictKind
) -> None:
    assert told(did(by_library(world)).at(100).closed("c0", reason="enough").phase("end")).verdict is verdict


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda story: story, VerdictKind.VIOLATED),
        (lambda story: story.at(7000).send("c0/2"), VerdictKind.SATISFIED),
        (lambda story: story.at(1000).stall("c0").at(2000).resume("c0"), VerdictKind.SATISFIED),
        (lambda story: story.pause("b", 20), VerdictKind.SATISFIED),
    ],
)
def test_what_is_refused_without_an_answer_is_refused_at_once(change: Told, expected: VerdictKind) -> None:
    """Of a library that does not wait for answers nobody knows what it was refused, but when."""
    story = Builder("live").connect("c0", awaits_receipt=False).send("c0/1")
    story = change(story).at(9000).closed("c0", host="c0", reason="the connection is lost")
    assert told(story.phase("end")).verdict is expected
