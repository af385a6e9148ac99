"""GEN-100 to GEN-109 on hand-written histories: what nothing forbids is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.history import Unsubscribe
from brokerproof.conformance.experiment.peers import Heard, Said
from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import EPOCH_MS, Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def kind(story: Builder, requirement: str) -> VerdictKind:
    return story.verdicts(requirement)[requirement].verdict


def told(**declared: Any) -> Builder:
    return Builder(**declared).connect("p0").connect("c0")


def without(story: Builder, capability: str) -> Builder:
    left = [one for one in story.header.capabilities if one != capability]
    story.header = msgspec.structs.replace(story.header, capabilities=left)
    return story


# -- GEN-100


def test_a_send_is_accepted_and_what_was_special_is_told() -> None:
    verdict = told().send("p0/1", group="g", delay_ms=10).verdicts("GEN-100")["GEN-100"]
    assert (verdict.verdict, verdict.situations) == (HOLDS, ["of a group", "with a delay"])


@pytest.mark.parametrize(
    "fields", [{}, {"group": "g"}, {"persistent": False}, {"delay_ms": 5}, {"deliver_at_ms": EPOCH_MS}, {"priority": 9}]
)
def test_a_send_that_nothing_forbids_may_not_be_refused(fields: dict[str, Any]) -> None:
    verdict = told().send("p0/1", result="fail", refusal="no", **fields).verdicts("GEN-100")["GEN-100"]
    assert verdict.verdict is FAILS
    assert "'no'" in verdict.text


def test_who_is_not_connected_may_not_send() -> None:
    story = Builder().connect("p0", result="unknown").send("p0/1", result="fail", refusal="not connected")
    assert kind(story, "GEN-100") is SILENT
    assert kind(told().closed("p0").send("p0/1", result="fail"), "GEN-100") is SILENT
    assert kind(told().lose("p0").send("p0/1", result="fail"), "GEN-100") is SILENT


def test_what_an_agent_says_that_had_no_connection_is_no_answer() -> None:
    """The connection may have ended between the request and the agent."""
    refused = told().subscribe("c0/1", result="fail", refusal="not-connected: there is no connection")
    assert kind(refused, "GEN-101") is SILENT
    assert kind(told().subscribe("c0/1", result="fail", refusal="refused: no"), "GEN-101") is FAILS


def test_the_error_that_closes_the_connection_is_the_refusal() -> None:
    story = told().at(20).send("p0/1", result="fail").at(20.5).closed("p0", host="p0", reason="refused")
    assert kind(story, "GEN-100") is FAILS


@pytest.mark.parametrize(
    "fields",
    [
        {"delay_ms": -1},
        {"delay_ms": 5000},
        {"deliver_at_ms": EPOCH_MS},
        {"size": 2 << 20},
        {"tx": "p0/tx1"},
        {"forged": 7},
    ],
)
def test_what_may_be_refused(fields: dict[str, Any]) -> None:
    assert kind(told(delay_max_ms=1000).send("p0/1", result="fail", **fields), "GEN-100") is SILENT


def test_an_option_that_is_not_offered_may_be_refused() -> None:
    assert kind(without(told(), "groups").send("p0/1", result="fail", group="g"), "GEN-100") is SILENT
    assert kind(without(told(), "groups").send("p0/1", result="fail"), "GEN-100") is FAILS


def test_a_send_may_be_refused_where_room_may_be_scarce() -> None:
    def story(**declared: Any) -> Builder:
        return told(**declared).send("p0/1", size=600).send("p0/2", result="fail")

    assert kind(story(memory_limit_bytes=1000, generation={"memory": "G3"}), "GEN-100") is not FAILS
    assert kind(story(memory_limit_bytes=1000), "GEN-100") is FAILS
    assert kind(story(store_limit_bytes=1000), "GEN-100") is not FAILS
    assert kind(story(memory_limit_bytes=1_000_000), "GEN-100") is FAILS


@pytest.mark.parametrize(("world", "expected"), [("simulated", FAILS), ("live", HOLDS)])
def test_a_real_broker_may_count_twice_what_it_is_storing(world: str, expected: VerdictKind) -> None:
    """ActiveMQ on a busy machine: the second message of 1 KiB was refused in 4 KiB."""
    story = Builder(world, memory_limit_bytes=4096, generation={"memory": "G3"}).connect("p0")
    assert kind(story.send("p0/1", size=1024).send("p0/2", size=1024, result="fail"), "GEN-100") is expected


def test_after_a_rollback_and_a_restart_as_before() -> None:
    story = told(persistent=True).begin("p0").send("p0/1", tx="p0/tx1").abort("p0")
    assert kind(story.send("p0/2", result="fail"), "GEN-100") is FAILS
    story = told(persistent=True).restart().connect("p0")
    assert kind(story.send("p0/2", result="fail"), "GEN-100") is FAILS


# -- GEN-101


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"selector": "kind = 'a'"},
        {"selector": "JMSPriority > 4"},
        {"exclusive": True},
        {"browser": True, "ack": "auto"},
        {"prefetch": 0},
        {"dest": "t0", "durable": "d"},
        {"dest": "q*"},
        {"dest": "t0", "no_local": True},
    ],
)
def test_a_consumer_that_nothing_forbids_may_not_be_refused(fields: dict[str, Any]) -> None:
    assert kind(told().subscribe("c0/1", **fields), "GEN-101") is HOLDS
    assert kind(told().subscribe("c0/1", result="fail", **fields), "GEN-101") is FAILS


@pytest.mark.parametrize(
    "fields",
    [
        {"selector": "JMSPriority >"},
        {"selector": "anything = 'a'"},
        {"dest": "t0", "browser": True},
        {"no_local": True},
        {"dest": "~p0"},
        {"dest": "ActiveMQ.Advisory.Expired.Queue.q0", "durable": "d"},
    ],
)
def test_what_does_not_fit_may_be_refused(fields: dict[str, Any]) -> None:
    assert kind(told().subscribe("c0/1", result="fail", **fields), "GEN-101") is SILENT


def test_a_durable_subscription_in_use_may_be_refused() -> None:
    def story() -> Builder:
        return told().subscribe("c0/1", "t0", durable="d")

    again = {"dest": "t0", "result": "fail", "durable": "d"}
    assert kind(story().subscribe("c0/2", **again), "GEN-101") is not FAILS
    assert kind(story().lose("c0").connect("c0").subscribe("c0/2", **again), "GEN-101") is not FAILS
    assert kind(story().lose("c0").rest(None).connect("c0").subscribe("c0/2", **again), "GEN-101") is FAILS
    assert kind(story().leave("c0/1").subscribe("c0/2", **again), "GEN-101") is FAILS


@pytest.mark.parametrize("jms", [True, False])
def test_only_jms_says_that_a_durable_subscription_goes_over_and_ends_by_its_name(*, jms: bool) -> None:
    """A broker by somebody else has one topic for each name, for ever."""
    left = told().subscribe("c0/1", "t0", durable="d").leave("c0/1")
    words = [word for word in left.header.capabilities if jms or word not in {"ends-durables", "jms-semantics"}]
    left.header = msgspec.structs.replace(left.header, capabilities=words)
    assert kind(left.subscribe("c0/2", "t1", result="fail", durable="d"), "GEN-101") is (FAILS if jms else HOLDS)
    story = told().subscribe("c0/1", "t0", durable="d").leave("c0/1")
    story.header = left.header
    story._add(Unsubscribe, "c0", 1.0, result="fail", durable="d")
    assert kind(story, "GEN-105") is (FAILS if jms else VerdictKind.NOT_APPLICABLE)


# -- GEN-102, GEN-103


def held() -> Builder:
    return told().subscribe("c0/1").send("p0/1").arrive("c0/1", "p0/1").consume("c0/1", "p0/1")


def test_what_its_consumer_holds_can_be_settled() -> None:
    assert kind(held().ack("c0/1", "p0/1"), "GEN-102") is HOLDS
    assert kind(held().ack("c0/1", "p0/1", result="fail"), "GEN-102") is FAILS
    unasked = held().ack("c0/1", "p0/1", result="fail", refusal="unsupported: its library settles all or nothing")
    assert kind(unasked, "GEN-102") is SILENT
    assert kind(held().nack("c0/1", "p0/1"), "GEN-103") is HOLDS
    assert kind(held().nack("c0/1", "p0/1", result="fail"), "GEN-103") is FAILS


def test_what_was_rolled_back_can_be_acknowledged_again() -> None:
    story = held().begin("c0").ack("c0/1", "p0/1", tx="c0/tx1").abort("c0")
    assert kind(story.ack("c0/1", "p0/1", result="fail"), "GEN-102") is FAILS


def test_what_it_may_not_hold_any_more() -> None:
    assert kind(held().ack("c0/1", "p0/1").ack("c0/1", "p0/1", result="fail"), "GEN-102") is HOLDS
    assert kind(held().ack("c0/1", "p0/2", result="fail"), "GEN-102") is SILENT
    assert kind(held().ack("c0/1", "p0/1", result="unknown").ack("c0/1", "p0/1", result="fail"), "GEN-102") is SILENT
    assert kind(held().operate("purge", count=0).ack("c0/1", "p0/1", result="fail"), "GEN-102") is SILENT


def test_what_a_subscription_held_that_was_ended_while_it_was_used() -> None:
    """Where that is not promised to be refused (GEN-109). The end of another one excuses nothing."""
    for ended, expected in (("d", SILENT), ("e", FAILS)):
        story = told().subscribe("c0/1", "t0", durable="d").send("p0/1", "t0").arrive("c0/1", "p0/1")
        story.consume("c0/1", "p0/1")._add(Unsubscribe, "c0", 1.0, result="ok", durable=ended)
        story.ack("c0/1", "p0/1", result="fail").at(60).closed("c0", reason="no")
        assert kind(story, "GEN-102") is expected


# -- GEN-104, GEN-105


def test_transactions_begin_and_end() -> None:
    assert kind(told().begin("p0").commit("p0"), "GEN-104") is HOLDS
    assert kind(told().begin("p0", result="fail"), "GEN-104") is FAILS
    assert kind(told().begin("p0").commit("p0", result="fail"), "GEN-104") is FAILS
    assert kind(told().begin("p0").abort("p0").begin("p0", "x", result="fail"), "GEN-104") is FAILS
    assert kind(told().begin("p0").begin("p0", "x", result="fail"), "GEN-104") is HOLDS
    assert kind(told().commit("p0", result="fail"), "GEN-104") is SILENT
    story = told().begin("p0").send("p0/1", tx="p0/tx1", result="unknown")
    assert kind(story.commit("p0", result="fail"), "GEN-104") is HOLDS


# -- GEN-106


def test_who_comes_again_is_let_in() -> None:
    assert kind(Builder().connect("p0", result="fail"), "GEN-106") is FAILS
    assert kind(told().lose("p0").rest(None).connect("p0", result="fail"), "GEN-106") is FAILS
    # Nobody knows whether the broker had noticed the end.
    assert kind(told().lose("p0").connect("p0", result="fail"), "GEN-106") is HOLDS


def test_a_raw_peer_with_a_good_hello_is_let_in() -> None:
    said = Said("stomp", "good", (0, 0), hello_ns=(1, 2))
    assert kind(Builder().probe(10, said, Heard(welcome_ns=5)), "GEN-106") is HOLDS
    assert kind(Builder().probe(10, said, Heard(refused="full")), "GEN-106") is FAILS
    bad = msgspec.structs.replace(said, hello="bad")
    assert kind(Builder().probe(10, bad, Heard(refused="bad")), "GEN-106") is SILENT
    for period_ms, verdict in ((-1, SILENT), (2**31 - 1, FAILS), (2**31, SILENT)):
        offering = msgspec.structs.replace(said, offer_ms=(0, period_ms))
        assert kind(Builder().probe(10, offering, Heard(refused="bad heart-beat")), "GEN-106") is verdict


# -- GEN-107


def test_operators_are_obeyed_where_the_queue_is() -> None:
    assert kind(told().send("p0/1").operate("purge", count=1), "GEN-107") is HOLDS
    assert kind(told().send("p0/1").operate("purge", result="fail"), "GEN-107") is FAILS
    assert kind(told().operate("purge", result="fail"), "GEN-107") is SILENT


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        (lambda story: story.send("p0/1"), FAILS),
        (lambda story: story.send("p0/1", delay_ms=100), HOLDS),
        (lambda story: story.begin("p0").send("p0/1", tx="p0/tx1"), HOLDS),
        (lambda story: story.send("p0/1", result="unknown"), HOLDS),
        (lambda story: story.subscribe("c0/1").send("p0/1").arrive("c0/1", "p0/1").leave("c0/1"), HOLDS),
        (lambda story: story.connect("c1").subscribe("c1/1", "q*").send("p0/1"), HOLDS),
    ],
)
def test_what_is_taken_from_a_queue_does_not_come_from_there(
    waits: Callable[[Builder], Builder], expected: VerdictKind
) -> None:
    story = waits(told()).rest("q0").operate("move", to="q1").subscribe("c0/2").arrive("c0/2", "p0/1")
    assert kind(story, "GEN-107") is expected
    back = waits(told()).operate("move", to="q1").operate("move", dest="q1", to="q0")
    assert kind(back.subscribe("c0/2").arrive("c0/2", "p0/1"), "GEN-107") is HOLDS


def test_what_is_left_behind_before_a_restart_stays_seen() -> None:
    moved = told().send("p0/1").rest("q0").operate("move", to="q1")
    assert kind(moved.subscribe("c0/2").arrive("c0/2", "p0/1").restart("stop"), "GEN-107") is FAILS
    back = told().send("p0/1").rest("q0").operate("move", to="q1").restart("kill").connect("c0")
    assert kind(back.subscribe("c0/2").arrive("c0/2", "p0/1"), "GEN-107") is HOLDS


# -- GEN-108


def test_what_is_no_selector_is_refused() -> None:
    assert kind(told().subscribe("c0/1", selector="kind = "), "GEN-108") is FAILS
    assert kind(told().subscribe("c0/1", selector="kind = ", result="fail"), "GEN-108") is HOLDS
    assert kind(told().subscribe("c0/1", selector="kind = ", result="unknown"), "GEN-108") is SILENT
    assert kind(told().subscribe("c0/1", selector="kind = 'a'"), "GEN-108") is SILENT
    assert kind(told().subscribe("c0/1", selector="anything # 'a'"), "GEN-108") is SILENT


# -- queue managers

MQ: dict[str, Any] = {"generation": {"delay": "ibm-mq"}}
SMALL = "ALTER QLOCAL(SYSTEM.DDELAY.LOCAL.QUEUE) MAXDEPTH(1)"


@pytest.mark.parametrize(
    ("mqsc", "fields", "expected"),
    [
        ([], {}, FAILS),
        ([], {"delay_ms": 5}, FAILS),
        ([], {"delay_ms": 5, "group": "g"}, SILENT),
        ([], {"delay_ms": 5, "expiration_ms": 3}, SILENT),
        ([], {"delay_ms": 5, "ttl_ms": 3}, SILENT),
        (["STOP DELAYPROC"], {"delay_ms": 5}, FAILS),
        (["ALTER QMGR CMDLEVEL(750)"], {"delay_ms": 5}, SILENT),
        (["ALTER QMGR CMDLEVEL(750)"], {}, FAILS),
        (["ALTER QLOCAL('q0') PUT(DISABLED)"], {}, SILENT),
        (["ALTER QLOCAL('q1') PUT(DISABLED)"], {}, FAILS),
        (["DEFINE QALIAS('q0') TARGET('q1')"], {}, SILENT),
        ([], {"dest": "t0", "delay_ms": 5}, SILENT),
        (["DEFINE TOPIC('t0') PMSGDLV(ALLAVAIL)"], {"dest": "t0", "delay_ms": 5}, FAILS),
    ],
)
def test_a_queue_manager_needs_a_reason(mqsc: list[str], fields: dict[str, Any], expected: VerdictKind) -> None:
    assert kind(told(mqsc=mqsc, **MQ).send("p0/1", result="fail", **fields), "GEN-100") is expected


def test_a_staging_queue_may_be_full() -> None:
    def story(mqsc: list[str]) -> Builder:
        return told(mqsc=mqsc, **MQ).send("p0/1", delay_ms=9).send("p0/2", delay_ms=9, result="fail")

    assert kind(story([SMALL]), "GEN-100") is not FAILS
    assert kind(story([]), "GEN-100") is FAILS


def test_queue_managers_take_consumers_and_commands() -> None:
    assert kind(told(**MQ).subscribe("c0/1", result="fail"), "GEN-101") is FAILS
    assert kind(told(**MQ).operate("mqsc", "", result="fail", command="STOP DELAYPROC"), "GEN-107") is FAILS
    assert kind(told(**MQ).operate("mqsc", "", result="fail", command="NONSENSE"), "GEN-107") is SILENT


# -- GEN-109


@pytest.mark.parametrize(("result", "expected"), [("fail", HOLDS), ("ok", FAILS), ("unknown", SILENT)])
@pytest.mark.parametrize("what", ["a second consumer", "its end"])
def test_what_is_in_use_is_left_alone(what: str, result: str, expected: VerdictKind) -> None:
    story = told().subscribe("c0/1", "t0", durable="d")
    if what == "its end":
        story._add(Unsubscribe, "c0", 1.0, result=result, durable="d")
    else:
        story.subscribe("c0/2", "t0", durable="d", result=result)
    verdict = story.rest("t0").verdicts("GEN-109")["GEN-109"]
    assert verdict.verdict is expected
    assert list(verdict.situations) == ([what] if expected is HOLDS else [])


def test_what_may_have_been_in_use_may_be_refused() -> None:
    """Intervals of one host may overlap, where nobody knows better."""
    story = (
        told().at(20).subscribe("c0/1", "t0", durable="d").at(25).subscribe("c0/2", "t0", durable="d", result="fail")
    )
    *_, refused = story.events
    story.events[-1] = msgspec.structs.replace(refused, t0=1_000_000)
    assert kind(story.rest("t0"), "GEN-101") is HOLDS


def test_what_nobody_uses_or_another_host_uses_is_free() -> None:
    left = told().subscribe("c0/1", "t0", durable="d").leave("c0/1").subscribe("c0/2", "t0", durable="d")
    assert kind(left.rest("t0"), "GEN-109") is SILENT
    other = told().subscribe("c0/1", "t0", durable="d").subscribe("p0/2", "t0", durable="d")
    assert kind(other.rest("t0"), "GEN-109") is SILENT
    lost = told().subscribe("c0/1", "t0", durable="d").lose("c0").connect("c0").subscribe("c0/2", "t0", durable="d")
    assert kind(lost.rest("t0"), "GEN-109") is SILENT


# -- GEN-194


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        ("refused: no such queue", HOLDS),
        ("not-authorized: ", HOLDS),  # a protocol that knows codes has said it
        ("refused: ", FAILS),
        ("refused", FAILS),
        ("", FAILS),
        (None, SILENT),
    ],
)
def test_a_refusal_says_why(refusal: str | None, expected: VerdictKind) -> None:
    assert kind(told().send("p0/1", result="fail", refusal=refusal), "GEN-194") is expected


def test_who_is_not_connected_is_told_nothing() -> None:
    assert kind(told().closed("p0").send("p0/1", result="fail", refusal="not connected"), "GEN-194") is SILENT
