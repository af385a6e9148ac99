"""GEN-013 and GEN-040 to GEN-046 on hand-written histories."""

from __future__ import annotations

from typing import Any, Self

import msgspec
import pytest

from brokerproof.conformance.experiment.history import Connect, Poll, Unsubscribe
from brokerproof.conformance.experiment.traits import Traits
from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import DLQ, EPOCH_MS, Builder, foreign

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


class Story(Builder):
    """A run that knows durable subscriptions; ``d1`` is one of host ``c0`` on topic ``t0``."""

    def durable(self, consumer: str, **fields: Any) -> Self:
        wanted = {"dest": "t0", "durable": "d1", "ack": "individual", **fields}
        return self.subscribe(consumer, **wanted)

    def joined(self, host: str, traits: Traits) -> Self:
        return self._add(Connect, host, self.request_ms, result="ok", via="mqtt", traits=traits)

    def unsubscribe(self, result: str = "ok") -> Self:
        return self._add(Unsubscribe, "c0", self.request_ms, result=result, durable="d1")


def hosts(**declared: Any) -> Story:
    return Story(**declared).connect("p0").connect("c0")


def kind(story: Builder, requirement: str) -> VerdictKind:
    return story.verdicts(requirement)[requirement].verdict


def outcome(story: Builder, requirement: str) -> tuple[VerdictKind, str]:
    verdict = story.verdicts(requirement)[requirement]
    return verdict.verdict, verdict.outcome


# -- GEN-013


def away() -> Story:
    return hosts().durable("c0/1").leave("c0/1").send("p0/1", "t0").durable("c0/2")


def test_what_is_published_while_nobody_is_there_is_owed() -> None:
    assert kind(away().arrive("c0/2", "p0/1").rest("t0"), "GEN-013") is HOLDS
    assert outcome(away().rest("t0"), "GEN-013") == (FAILS, "missed")
    assert "durable subscription 'd1' of c0 on t0" in away().rest("t0").verdicts("GEN-013")["GEN-013"].text


@pytest.mark.parametrize(
    "story",
    [
        away(),  # nobody looked
        away().leave("c0/2").rest("t0"),  # it may have gone before its turn
        hosts().durable("c0/1", result="unknown").leave("c0/1").send("p0/1", "t0").durable("c0/2").rest("t0"),
        hosts().durable("c0/1").leave("c0/1").unsubscribe("unknown").send("p0/1", "t0").durable("c0/2").rest("t0"),
        hosts().durable("c0/1").leave("c0/1").send("p0/1", "t0").unsubscribe().durable("c0/2").rest("t0"),
        hosts().durable("c0/1").leave("c0/1").send("p0/1", "t0", result="unknown").durable("c0/2").rest("t0"),
        hosts().durable("c0/1").leave("c0/1").send("p0/1", "t0", delay_ms=9).durable("c0/2").rest("t0"),
        hosts().durable("c0/1").leave("c0/1").send("p0/1", "t0", life_ms=9).durable("c0/2").rest("t0"),
        hosts().durable("c0/1").leave("c0/1").send("p0/1", "t0", expiration_ms=EPOCH_MS).durable("c0/2").rest("t0"),
        hosts().durable("c0/1").leave("c0/1").send("p0/1", "t1").durable("c0/2").rest("t0"),
        hosts().durable("c0/1", ack="auto").send("p0/1", "t0").lose("c0").connect("c0").durable("c0/2").rest("t0"),
        hosts().send("p0/1", "t0").durable("c0/1").rest("t0"),
        hosts().durable("c0/1", prefetch=1).send("p0/1", "t0").arrive("c0/1", "p0/1").send("p0/2", "t0").rest("t0"),
        hosts(memory_limit_bytes=1).durable("c0/1").send("p0/1", "t0").rest("t0"),
    ],
)
def test_what_need_not_have_come(story: Builder) -> None:
    assert kind(story, "GEN-013") is not FAILS


def test_a_broker_that_forgets_on_a_restart_owes_nothing() -> None:
    story = hosts().durable("c0/1").send("p0/1", "t0").kill("b").connect("c0").durable("c0/2").rest("t0")
    assert kind(story, "GEN-013") is SILENT


# -- GEN-040, GEN-041, GEN-042


def test_settled_is_settled() -> None:
    def story(result: str = "ok") -> Story:
        told = hosts().durable("c0/1").send("p0/1", "t0").arrive("c0/1", "p0/1").consume("c0/1", "p0/1")
        return told.ack("c0/1", "p0/1", result=result).leave("c0/1").durable("c0/2").arrive("c0/2", "p0/1")

    assert outcome(story(), "GEN-040") == (FAILS, "again")
    assert kind(story("unknown"), "GEN-040") is HOLDS


def test_one_subscriber_holds_it() -> None:
    story = hosts().durable("c0/1").send("p0/1", "t0").arrive("c0/1", "p0/1").arrive("c0/1", "p0/1")
    assert kind(story, "GEN-040") is FAILS


def came_back(*order: str, redelivered: bool = True) -> Story:
    story = hosts().durable("c0/1").send("p0/1", "t0").arrive("c0/1", "p0/1").consume("c0/1", "p0/1").leave("c0/1")
    story.send("p0/2", "t0").durable("c0/2")
    for name in order:
        story.arrive("c0/2", name, redelivered=redelivered and name == "p0/1")
    return story


@pytest.mark.parametrize("how", ["close", "drop"])
def test_what_was_left_comes_again(how: str) -> None:
    def story(*again: str) -> Story:
        told = hosts().durable("c0/1").send("p0/1", "t0").arrive("c0/1", "p0/1")
        told = told.leave("c0/1") if how == "close" else told.lose("c0").connect("c0")
        return told.durable("c0/2").arrive("c0/2", *again, redelivered=True).rest("t0")

    assert outcome(story("p0/1"), "GEN-051") == (HOLDS, "again")
    assert outcome(story(), "GEN-051") == (FAILS, "lost")
    late = story().leave("c0/2").durable("c0/3").arrive("c0/3", "p0/1", redelivered=True).ack("c0/3", "p0/1").rest("t0")
    assert outcome(late, "GEN-051") == (FAILS, "lost"), "whoever got it in the end, another one had room before"


@pytest.mark.parametrize(("at_once", "expected"), [(False, FAILS), (True, SILENT)])
def test_what_an_auto_consumer_has_may_be_settled_before_it_is_taken(at_once: bool, expected: VerdictKind) -> None:
    traits = Traits(settles_by_itself=True, settles_on_arrival=at_once)
    told = Story().connect("p0").joined("c0", traits)
    told.durable("c0/1", ack="auto").send("p0/1", "t0").arrive("c0/1", "p0/1").leave("c0/1")
    assert kind(told.durable("c0/2").rest("t0"), "GEN-051") is expected


def test_what_nobody_has_to_bring_again() -> None:
    """Acknowledged, perhaps; given up; nobody is back; dead by then."""

    def story(**fields: Any) -> Story:
        return hosts().durable("c0/1").send("p0/1", "t0", **fields).arrive("c0/1", "p0/1")

    acknowledged = story().consume("c0/1", "p0/1").ack("c0/1", "p0/1", result="unknown").leave("c0/1")
    assert kind(acknowledged.durable("c0/2").rest("t0"), "GEN-051") is SILENT
    assert kind(story().leave("c0/1").rest("t0"), "GEN-051") is SILENT
    mortal = story(expiration_ms=EPOCH_MS + 1)
    assert kind(mortal.leave("c0/1").durable("c0/2").rest("t0"), "GEN-051") is SILENT


@pytest.mark.parametrize(("ended", "expected"), [("ok", FAILS), ("unknown", SILENT), ("late", SILENT)])
def test_what_was_acknowledged_in_vain_comes_again(ended: str, expected: VerdictKind) -> None:
    """In a transaction that was rolled back; if nobody knows by when, it may be settled or be on its way."""

    def story(*again: str) -> Story:
        told = hosts().durable("c0/1").send("p0/1", "t0").arrive("c0/1", "p0/1").begin("c0")
        told.ack("c0/1", "p0/1", tx="c0/tx1").leave("c0/1")
        if ended != "late":
            told.abort("c0", "c0/tx1", result=ended)
        told.durable("c0/2").arrive("c0/2", *again, redelivered=True).rest("t0")
        return told.abort("c0", "c0/tx1") if ended == "late" else told

    assert kind(story(), "GEN-051") is expected
    assert kind(story("p0/1"), "GEN-051") is not FAILS


def test_what_comes_back_comes_first() -> None:
    assert kind(came_back("p0/1", "p0/2"), "GEN-041") is SILENT  # one message, nothing before it
    assert outcome(came_back("p0/2", "p0/1"), "GEN-041") == (FAILS, "overtaken")


@pytest.mark.parametrize(("ended", "expected"), [("before", FAILS), ("after", HOLDS), ("unknown", HOLDS)])
def test_what_a_rollback_brought_back_before_comes_first_too(ended: str, expected: VerdictKind) -> None:
    told = hosts().durable("c0/1").send("p0/1", "t0").send("p0/2", "t0").arrive("c0/1", "p0/1", "p0/2")
    told.begin("c0").ack("c0/1", "p0/1", tx="c0/tx1").leave("c0/1")
    if ended != "after":
        told.abort("c0", "c0/tx1", result="ok" if ended == "before" else "unknown")
    told.durable("c0/2").arrive("c0/2", "p0/2").arrive("c0/2", "p0/1")
    assert kind(told.abort("c0", "c0/tx1") if ended == "after" else told, "GEN-041") is expected


@pytest.mark.parametrize("words", [[], ["requeue"]])
def test_what_was_rejected_may_come_behind_others(words: list[str]) -> None:
    """After a pause (live seed 10607057 of a broker by somebody else), or at once (10914041 of another)."""
    told = hosts()
    told.header = msgspec.structs.replace(told.header, capabilities=[*told.header.capabilities, *words])
    told.durable("c0/1", ack="individual").send("p0/1", "t0").send("p0/2", "t0").arrive("c0/1", "p0/1")
    told.consume("c0/1", "p0/1").nack("c0/1", "p0/1").arrive("c0/1", "p0/2").arrive("c0/1", "p0/1", redelivered=True)
    assert kind(told.leave("c0/1").durable("c0/2").arrive("c0/2", "p0/1", redelivered=True), "GEN-041") is SILENT


def test_topics_under_one_wildcard_are_ordered_each_for_itself() -> None:
    def story(*order: str) -> Story:
        told = hosts().durable("c0/1", dest="t*").send("p0/1", "t0").send("p0/2", "t0").send("p0/3", "t1")
        told.arrive("c0/1", "p0/1").arrive("c0/1", "p0/2").consume("c0/1", "p0/1").consume("c0/1", "p0/2")
        told.leave("c0/1").durable("c0/2", dest="t*")
        for name in order:
            told.arrive("c0/2", name, redelivered=name != "p0/3")
        return told

    assert kind(story("p0/3", "p0/1", "p0/2"), "GEN-041") is HOLDS
    assert kind(story("p0/3", "p0/2", "p0/1"), "GEN-041") is FAILS


def test_what_comes_back_is_marked() -> None:
    assert outcome(came_back("p0/1"), "GEN-042") == (HOLDS, "marked-again")
    assert outcome(came_back("p0/1", redelivered=False), "GEN-042") == (FAILS, "unmarked")
    fresh = hosts().durable("c0/1").send("p0/1", "t0").arrive("c0/1", "p0/1", redelivered=True)
    assert outcome(fresh, "GEN-042") == (FAILS, "marked")


# -- GEN-043


@pytest.mark.parametrize("change", [{"no_local": True}, {"selector": "kind = 'a'"}])
def test_another_wish_begins_anew(change: dict[str, object]) -> None:
    story = hosts().durable("c0/1").leave("c0/1").send("p0/1", "t0").durable("c0/2", **change)
    assert outcome(story.arrive("c0/2", "p0/1"), "GEN-043") == (FAILS, "retroactive")


@pytest.mark.parametrize("change", [{"no_local": True}, {"selector": "kind = 'a'"}])
def test_nobody_need_begin_anew_who_does_not_claim_what_jms_says(change: dict[str, object]) -> None:
    """STOMP knows no durable subscriptions; somebody's broker keeps the backlog when only no-local changes."""
    story = Story("live").connect("p0").connect("c0")
    words = [word for word in story.header.capabilities if word != "jms-semantics"]
    story.header = msgspec.structs.replace(story.header, capabilities=words)
    story.durable("c0/1").send("p0/1", "t0", headers={"kind": "a"}).arrive("c0/1", "p0/1").leave("c0/1")
    story.durable("c0/2", **change).arrive("c0/2", "p0/1", redelivered=True)
    assert FAILS not in [kind(story, name) for name in ("GEN-042", "GEN-043", "RDL-001")]


def test_the_same_wish_goes_on() -> None:
    assert kind(away().arrive("c0/2", "p0/1"), "GEN-043") is HOLDS


def test_after_its_end_it_begins_anew() -> None:
    story = hosts().durable("c0/1").leave("c0/1").send("p0/1", "t0").unsubscribe().durable("c0/2")
    assert kind(story.arrive("c0/2", "p0/1"), "GEN-043") is FAILS


# -- GEN-044


def test_no_local() -> None:
    def story(sender: str, **fields: Any) -> Story:
        told = hosts().subscribe("c0/1", "t0", no_local=True, **fields).send(f"{sender}/1", "t0")
        return told.arrive("c0/1", f"{sender}/1")

    assert outcome(story("c0"), "GEN-044") == (FAILS, "own")
    assert kind(story("p0"), "GEN-044") is HOLDS
    assert outcome(story("c0", durable="d1"), "GEN-044") == (FAILS, "own")
    assert kind(story("p0", durable="d1"), "GEN-044") is HOLDS


@pytest.mark.parametrize(("before", "verdict"), [(True, VerdictKind.SATISFIED), (False, VerdictKind.VIOLATED)])
def test_what_was_published_before_a_durable_came_back_no_connection_of_its_own_sent(
    before: bool, verdict: VerdictKind
) -> None:
    traits = Traits(anonymous=True)
    story = Story().joined("c0", traits).durable("c0/1", no_local=True).lose("c0").joined("c0", traits)
    story = story.send("c0/1", "t0") if before else story
    story = story.durable("c0/2", no_local=True)
    story = story if before else story.send("c0/1", "t0")
    assert kind(story.arrive("c0/2", "c0/1"), "GEN-044") is verdict


@pytest.mark.parametrize(("anonymous", "verdict"), [(False, VerdictKind.VIOLATED), (True, VerdictKind.SATISFIED)])
def test_a_durable_knows_another_connection_by_the_clients_name_alone(anonymous: bool, verdict: VerdictKind) -> None:
    traits = Traits(anonymous=anonymous)
    story = Story().joined("c0", traits).durable("c0/1", no_local=True).lose("c0")
    story = story.joined("c0", traits).send("c0/1", "t0").lose("c0").joined("c0", traits)
    story = story.durable("c0/2", no_local=True).arrive("c0/2", "c0/1")
    assert kind(story, "GEN-044") is verdict


def test_another_connection_of_the_same_host_is_not_local() -> None:
    story = hosts().send("c0/1", "t0").lose("c0").connect("c0").subscribe("c0/1", "t0", no_local=True)
    assert kind(story.arrive("c0/1", "c0/1"), "GEN-044") is HOLDS


# -- GEN-045, GEN-046


def wild(dest: str, **fields: Any) -> Story:
    return hosts().subscribe("c0/1", dest, **fields)


def test_a_wildcard_covers_every_topic() -> None:
    assert outcome(wild("t*").send("p0/1", "t7").rest(None), "GEN-045") == (FAILS, "missed")
    assert kind(wild("t*").send("p0/1", "t7").arrive("c0/1", "p0/1", dest="t7").rest(None), "GEN-045") is HOLDS
    assert kind(wild("t*").send("p0/1", "q7").rest(None), "GEN-045") is SILENT
    assert kind(hosts().send("p0/1", "t7").subscribe("c0/1", "t*").rest(None), "GEN-045") is SILENT


def test_a_wildcard_covers_every_queue() -> None:
    assert outcome(wild("q*").send("p0/1", "q7").rest(None), "GEN-045") == (FAILS, "missed")
    assert kind(wild("q*").send("p0/1", "q7").arrive("c0/1", "p0/1", dest="q7").rest(None), "GEN-045") is HOLDS
    assert kind(wild("q*", prefetch=0).send("p0/1", "q7").rest(None), "GEN-045") is SILENT
    assert kind(wild("q*", selector="kind = 'a'").send("p0/1", "q7").rest(None), "GEN-045") is SILENT
    other = wild("q*").subscribe("c0/2", "q7").send("p0/1", "q7").arrive("c0/2", "p0/1")
    assert kind(other.rest(None), "GEN-045") is HOLDS


@pytest.mark.parametrize(("dest", "source"), [("t*", "q0"), ("q*", "t0"), ("q*", DLQ)])
def test_a_wildcard_covers_nothing_else(dest: str, source: str) -> None:
    story = wild(dest).send("p0/1", source).arrive("c0/1", "p0/1", dest=source)
    assert outcome(story, "GEN-046") == (FAILS, "strange")


def test_a_message_of_a_topic_comes_once() -> None:
    story = wild("t*").send("p0/1", "t0").arrive("c0/1", "p0/1", dest="t0")
    assert kind(story, "GEN-046") is HOLDS
    assert outcome(story.arrive("c0/1", "p0/1", dest="t0"), "GEN-046") == (FAILS, "twice")
    again = wild("t*", ack="individual").send("p0/1", "t0").arrive("c0/1", "p0/1", dest="t0").consume("c0/1", "p0/1")
    again.header = msgspec.structs.replace(again.header, capabilities=[*again.header.capabilities, "requeue"])
    again.nack("c0/1", "p0/1").arrive("c0/1", "p0/1", dest="t0", redelivered=True)
    assert kind(again, "GEN-046") is HOLDS


@pytest.mark.parametrize(("waited_ms", "expected"), [(300, SILENT), (1500, FAILS)])
def test_on_a_real_broker_a_message_of_a_topic_may_be_on_its_way(waited_ms: int, expected: VerdictKind) -> None:
    """Two runs of one random program on a busy machine: after a silence of 0.2 s it came 0.6 s later."""
    story = hosts(world="live").subscribe("c0/1", dest="t0").send("p0/1", "t0").wait(waited_ms).rest("t0")
    assert kind(story, "GEN-004") is expected


@pytest.mark.parametrize(("asked_ms", "expected"), [(900, SILENT), (1100, FAILS)])
def test_who_asks_long_in_vain_was_given_all_before(asked_ms: int, expected: VerdictKind) -> None:
    story = hosts(world="live").subscribe("c0/1", "t0", prefetch=0).send("p0/1", "t0")
    story._add(Poll, "c0", asked_ms, consumer="c0/1", timeout_ms=asked_ms)
    assert kind(story, "GEN-004") is expected


@pytest.mark.parametrize(("came", "expected"), [(("p0/1", "p0/2"), HOLDS), (("p0/1", "p0/1"), FAILS), ((), FAILS),
                                                (("p0/1",), HOLDS)])  # fmt: skip
def test_what_came_through_a_window_that_nobody_knows_is_told(came: tuple[str, ...], expected: VerdictKind) -> None:
    """As HornetQ's, which counts in bytes: it owes one message, and all of them came."""
    story = foreign().connect("p0").connect("c0").subscribe("c0/1", "t0", prefetch=1000, asked=-1, ack="individual")
    story.send("p0/1", "t0").send("p0/2", "t0").arrive("c0/1", *came)
    assert kind(story.wait(2000).rest("t0"), "GEN-004") is expected


@pytest.mark.parametrize(("world", "expected"), [("live", FAILS), ("external", HOLDS)])
def test_a_wildcard_of_one_part_covers_no_longer_names(world: str, expected: VerdictKind) -> None:
    story = (
        Builder(world).connect("c0").subscribe("c0/1", "t*").send("p0/1", "t0.x").arrive("c0/1", "p0/1", dest="t0.x")
    )
    assert kind(story.phase("end"), "GEN-046") is expected
