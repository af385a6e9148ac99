"""GEN-083 to GEN-086 and RDL-025 on hand-written histories: what a restart, or a pause, leaves."""

from __future__ import annotations

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import PolicySpec, RedeliverySpec
from brokerproof.conformance.experiment.destinations import Destination, queues
from brokerproof.conformance.experiment.history import History
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from tests.fast.conformance.rules.history_builder import Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def outcome(story: Builder, requirement: str) -> tuple[VerdictKind, str]:
    verdict = story.verdicts(requirement)[requirement]
    return verdict.verdict, verdict.outcome


def kind(story: Builder, requirement: str) -> VerdictKind:
    return outcome(story, requirement)[0]


# -- durable subscriptions


def subscribed() -> Builder:
    story = Builder(persistent=True).connect("p0").connect("c0").subscribe("c0/1", "t0", durable="d")
    return story.send("p0/1", "t0").arrive("c0/1", "p0/1").consume("c0/1", "p0/1")


def back(story: Builder, how: str = "kill") -> Builder:
    return story.restart(how).connect("c0").subscribe("c0/2", "t0", durable="d")


def ended(story: Builder) -> Builder:
    return story.rest("t0").drain("q0").end()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_what_a_durable_has_settled_stays_away(how: str) -> None:
    assert outcome(ended(back(subscribed().ack("c0/1", "p0/1"), how)), "GEN-083") == (HOLDS, "stays-away")
    again = back(subscribed().ack("c0/1", "p0/1"), how).arrive("c0/2", "p0/1")
    assert outcome(ended(again), "GEN-083") == (FAILS, "came-back")
    doubtful = back(subscribed().ack("c0/1", "p0/1", result="unknown"), how).arrive("c0/2", "p0/1")
    assert kind(ended(doubtful), "GEN-083") is SILENT


def test_what_a_durable_has_not_settled_comes_again() -> None:
    assert outcome(ended(back(subscribed())), "GEN-084") == (FAILS, "lost")
    assert kind(ended(back(subscribed()).arrive("c0/2", "p0/1", redelivered=True)), "GEN-084") is HOLDS
    assert kind(ended(back(subscribed().ack("c0/1", "p0/1"))), "GEN-084") is SILENT
    assert kind(ended(back(subscribed().nack("c0/1", "p0/1"))), "GEN-084") is SILENT
    assert kind(back(subscribed()).drain("q0").end(), "GEN-084") is FAILS
    unsure = back(subscribed().send("p0/2", "t0", persistent=False)).arrive("c0/2", "p0/1", redelivered=True)
    assert kind(ended(unsure), "GEN-084") is HOLDS


def test_a_broker_that_remembers_nothing_promises_nothing() -> None:
    story = Builder().connect("p0").connect("c0").subscribe("c0/1", "t0", durable="d").send("p0/1", "t0")
    left = [one for one in story.header.capabilities if one != "persistent"]
    story.header = msgspec.structs.replace(story.header, capabilities=left)
    assert kind(ended(back(story)), "GEN-084") is VerdictKind.NOT_APPLICABLE


# -- transactions


def committed() -> Builder:
    story = Builder(persistent=True).connect("p0").connect("c0").subscribe("c0/1")
    story.send("p0/1").arrive("c0/1", "p0/1").consume("c0/1", "p0/1").begin("c0")
    return story.ack("c0/1", "p0/1", tx="c0/tx1").send("c0/1", "q1", tx="c0/tx1").commit("c0").restart()


def test_what_was_committed_is_there_and_what_was_acknowledged_is_not() -> None:
    assert kind(committed().drain("q0", "q1").arrive("drain/2", "c0/1").end(), "GEN-085") is HOLDS
    assert outcome(committed().drain("q0", "q1").end(), "GEN-085") == (FAILS, "lost")
    again = committed().drain("q0", "q1").arrive("drain/2", "c0/1").arrive("drain/1", "p0/1")
    assert outcome(again.end(), "GEN-085") == (FAILS, "came-back")


# -- copies


def test_every_copy_survives() -> None:
    def story(*arrivals: int) -> VerdictKind:
        told = Builder(persistent=True).connect("p0").send("p0/1", "both").restart().drain("q0", "q1")
        for number in arrivals:
            told.arrive(f"drain/{number}", "p0/1")
        told.end()
        found: History = told.history()
        found.header.destinations[:] = [*queues("q0", "q1"), Destination("both", "composite", queues("q0", "q1"))]
        return next(v.verdict for v in judge_history(found, wanted=["GEN-086"]))

    assert story(1, 2) is HOLDS
    assert story(1) is FAILS
    assert story() is FAILS


# -- a rejected message


def rejected(maximum: int = 3) -> Builder:
    policy = PolicySpec(redelivery=RedeliverySpec(maximum=maximum, initial_ms=1000, pause_ms=1000))
    story = Builder(policies=[policy]).connect("p0").connect("c0").subscribe("c0/1", ack="individual")
    return story.send("p0/1").arrive("c0/1", "p0/1").consume("c0/1", "p0/1").at(100).nack("c0/1", "p0/1")


def test_a_rejected_message_comes_again_when_its_pause_is_over() -> None:
    def story(ms: float) -> Builder:
        return rejected().at(ms).arrive("c0/1", "p0/1", redelivered=True, delivery_count=2).ack("c0/1", "p0/1")

    assert kind(story(1200), "RDL-025") is HOLDS
    assert kind(story(2101), "RDL-025") is HOLDS
    assert outcome(story(2200), "RDL-025") == (FAILS, "late")


def test_a_rejected_message_does_not_vanish() -> None:
    assert outcome(rejected().at(3000).drain("q0").end(), "RDL-025") == (FAILS, "lost")
    assert kind(rejected().at(1500).drain("q0").end(), "RDL-025") is SILENT  # it may still come
    assert kind(rejected(maximum=0).at(3000).drain("q0").end(), "RDL-025") is SILENT  # it need not
    assert kind(rejected().jump("b", -5000).at(3000).drain("q0").end(), "RDL-025") is SILENT


def test_what_a_departed_consumer_acknowledged_in_vain_is_not_lost() -> None:
    def story() -> Builder:
        told = Builder().connect("p0").connect("c0").subscribe("c0/1").send("p0/1").arrive("c0/1", "p0/1")
        told.consume("c0/1", "p0/1").begin("c0").ack("c0/1", "p0/1", tx="c0/tx1").leave("c0/1")
        return told.abort("c0").drain("q0")

    assert outcome(story().end(), "GEN-065") == (FAILS, "lost")
    assert kind(story().end(), "GEN-001") is FAILS
    assert kind(story().arrive("drain/1", "p0/1").end(), "GEN-065") is HOLDS
