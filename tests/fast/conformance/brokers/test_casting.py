"""Which programs may share a broker with others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from brokerproof.conformance.brokers.casting import cast, owns
from brokerproof.conformance.brokers.selector_forms import FORMS, Language
from brokerproof.conformance.experiment.program import Program, parse_program
from brokerproof.conformance.experiment.steps import Leave, Parallel, Send, Subscribe, Take

SEND = {"do": "send", "host": 0, "dest": 0}
DEAD_LETTERS = [{"name": "q0", "kind": "queue"}, {"name": "ActiveMQ.DLQ", "kind": "queue"}]


def program(*steps: dict[str, Any], broker: dict[str, Any] | None = None, dests: Any = None) -> Program:
    """A producer and a consumer of q0."""
    fields = {
        "format": "brokerproof/program/2",
        "broker": broker or {},
        "destinations": dests or DEAD_LETTERS[:1],
        "hosts": [
            {"name": "b", "role": "broker"},
            {"name": "p0", "role": "client"},
            {"name": "c0", "role": "client"},
        ],
        "links": [],
        "steps": [SEND, *steps],
    }
    return parse_program(json.dumps(fields).encode())


def test_what_touches_its_own_names_only_shares() -> None:
    assert not owns(program({"do": "subscribe", "host": 1, "dest": 0}, {"do": "clock", "host": 1, "jump_ms": 5}))


def test_wildcards_may_cover_topics_only() -> None:
    wild = {"do": "subscribe", "host": 1, "wild": True}
    dests = [{"name": "q0", "kind": "queue"}, {"name": "t0", "kind": "topic"}]
    asked = program({**wild, "dest": 0}, {**wild, "dest": 3}, dests=dests)

    def covers(*capabilities: str) -> list[bool]:
        return [step.wild for step in cast(asked, capabilities, ["stomp"]).steps if isinstance(step, Subscribe)]

    assert covers("wildcards") == [True, True]
    assert covers("wildcards", "topic-wildcards") == [False, True]
    assert covers() == [False, False]


@pytest.mark.parametrize(("vias", "played"), [(["stomp"], 1), (["stomp", "jms"], 2)])
def test_a_hello_of_openwire_is_said_where_somebody_speaks_it(vias: list[str], played: int) -> None:
    """At a port of another protocol it is noise, and who waits for its end tolerates nothing."""
    found = cast(program({"do": "probe", "hello": "bad"}, {"do": "probe", "hello": "bad", "via": "openwire"}), [], vias)
    assert len(found.steps) == 1 + played


def test_a_broker_may_take_no_acknowledgements_of_its_browsers() -> None:
    browser = {"do": "subscribe", "host": 1, "browser": True, "ack": "client"}
    asked = program(browser, {**browser, "browser": False})

    def acks(*capabilities: str) -> list[str]:
        return [step.ack for step in cast(asked, capabilities, ["stomp"]).steps if isinstance(step, Subscribe)]

    assert acks("browsers") == ["client", "client"]
    assert acks("browsers", "auto-browsers") == ["auto", "client"]


def test_a_transaction_rejects_where_the_broker_takes_that() -> None:
    asked = program(broker={"transacted_nacks": True})
    assert cast(asked, ["transacted-nacks"], ["stomp"]).broker.transacted_nacks
    assert not cast(asked, [], ["stomp"]).broker.transacted_nacks


def test_a_life_is_said_by_turns_in_each_way_that_the_broker_knows() -> None:
    def lives(*words: str, clock: tuple[dict[str, Any], ...] = ()) -> set[tuple[int, int]]:
        asked = program({**SEND, "ttl_ms": 9}, {**SEND, "ttl_ms": 9}, *clock)
        return {(one.ttl_ms, one.life_ms) for one in cast(asked, words, ["stomp"]).steps[1:] if isinstance(one, Send)}

    assert lives("ttl", "broker-ttl") == {(9, 0), (0, 9)}
    assert lives("ttl") == {(9, 0)}
    assert lives("ttl", "broker-ttl", clock=({"do": "clock", "host": 1, "jump_ms": 9},)) == {(9, 0)}


def test_logins_are_asked_for_where_the_broker_asks_for_them_whatever_the_program_says() -> None:
    assert cast(program(), ["logins"], ["stomp"]).broker.logins
    assert not cast(program(broker={"logins": True}), [], ["stomp"]).broker.logins


def test_what_is_sent_to_the_queue_of_all_dead_letters_would_be_drained_by_others() -> None:
    assert owns(program(dests=DEAD_LETTERS))


@pytest.mark.parametrize(
    "step",
    [
        {"do": "restart", "how": "kill"},
        {"do": "pause", "ms": 5},
        {"do": "operate", "op": "purge", "dest": 0},
        {"do": "clock", "host": 0, "jump_ms": 5},
        {"do": "freeze"},
        {"do": "exhaust", "what": "processor"},
    ],
    ids=lambda step: str(step["do"]),
)
def test_what_the_whole_broker_feels_needs_it_for_itself(step: dict[str, Any]) -> None:
    assert owns(program(step))


def test_a_memory_limit_is_the_brokers() -> None:
    assert owns(program(broker={"memory_limit_bytes": 1024}))


def asked(found: Program) -> list[str]:
    """The selectors that are left."""
    return [one.selector for one in found.steps if isinstance(one, Subscribe) and one.selector]


@pytest.mark.parametrize(
    ("selector", "jms"),
    [
        ("kind = 'a/b' AND JMSPriority > 4", False),
        ("a12 BETWEEN 1 AND 2.5 OR b LIKE '5L'", False),
        ("no_body = 0 OR x = 1000", False),
        ("JMSPriority / 2 = 2", True),
        ("x = 127L", True),
        ("x = 0x1f", True),
        ("n BETWEEN -5 AND 7 AND kind IN ('1', '2')", False),
        ("kind IN (1, 2)", True),
        ("was_paid <> FALSE", True),
        ("no-x IS NULL", True),  # a dash is a minus, to JMS
        ("JMSPriority + 1 > 5", True),
        ("5 - n > 1", True),
        ("(n) > 0", True),
        ("n <= -m", True),
        ("a = 'b' AND NOT was_paid", True),
        ("was_paid", True),
        ("(kind IS NOT NULL) OR NOT (n IS NULL) AND NOT kind = 'a'", False),
        ("(n > 0) AND kind IN ('a')", False),
        ("x = 017", True),
        ("x > 2.5f", True),
        ("x > - 1", True),
        ("x = .5 OR x = 7.", True),
        ("x = 1E2", True),
        ("x == 1", True),
        ("1 < x < 5", True),
        ("5", True),
        ("NOT 'a'", True),
        ("kind = 'a' OR 5", True),
        ("n BETWEEN 1 AND 5 AND kind = 'a'", False),
        ("n BETWEEN -m AND 5", True),
        ("n BETWEEN m AND 5", False),
        ("kind LIKE 5", True),
        ("kind LIKE 'a%' ESCAPE 'xy'", True),
        ("kind LIKE 'a%' ESCAPE '!'", False),
        ("kind IS 'a'", True),
        ("kind IN ()", True),
    ],
)
def test_what_only_jms_gives_a_meaning_is_not_asked_of_others(selector: str, jms: bool) -> None:
    asking = program({"do": "subscribe", "host": 1, "dest": 0, "selector": selector})
    for asks_jms in (False, True):
        language = Language(asks_jms, {"stomp": {"JMSPriority": "priority"}})
        assert bool(asked(cast(asking, ["selectors"], ["stomp"], language=language))) is (asks_jms or not jms)


@pytest.mark.parametrize(
    ("language", "kept"),
    [
        (Language(), ()),
        (Language(identifiers={"stomp": {"JMSPriority": "prio", "JMSDeliveryMode": ""}}), ("JMSPriority",)),
        (Language(jms=True), ("JMSPriority", "JMSXGroupID", "JMSDeliveryMode")),
        (Language(jms=True, identifiers={"stomp": {"JMSXGroupID": ""}}), ("JMSPriority", "JMSDeliveryMode")),
        (
            Language(jms=True, identifiers={"jms": {"JMSXGroupID": ""}}),
            ("JMSPriority", "JMSXGroupID", "JMSDeliveryMode"),
        ),
    ],
)
def test_a_field_that_selectors_have_no_name_for_is_not_asked_for(language: Language, kept: tuple[str, ...]) -> None:
    for field in ("JMSPriority", "JMSXGroupID", "JMSDeliveryMode"):
        asking = program({"do": "subscribe", "host": 1, "dest": 0, "selector": f"NOT ({field} IS NULL)"})
        assert bool(asked(cast(asking, ["selectors"], ["stomp"], language=language))) is (field in kept)
    assert language.has("kind = 'JMSPriority'", "stomp"), "a text is no field"


@pytest.mark.parametrize("form", FORMS)
def test_a_form_that_a_broker_refuses_is_asked_no_more(form: str) -> None:
    _, text = FORMS[form]
    assert Language().has(text, "stomp")
    assert Language(jms=True, refused=[form]).has(text, "stomp")
    assert not Language(refused=[form]).has(text, "stomp")
    for plain in ("kind = 'a' AND seat_no = 5", "(kind <> 'a') OR seat_no = 5"):
        assert Language(refused=list(FORMS)).has(plain, "stomp")


@pytest.mark.parametrize("fault", [{"do": "clock", "host": 1, "jump_ms": 9}, {"do": "freeze", "host": 0}])
def test_a_delay_by_the_brokers_clock_is_none_where_clocks_are_moved(fault: dict[str, Any]) -> None:
    for clock, delay_ms in (("broker-wall", 0), ("elapsed", 500)):
        steps = cast(program({**SEND, "delay_ms": 500}, fault), ["delay"], ["stomp"], delay_clock=clock).steps
        assert [one.delay_ms for one in steps if isinstance(one, Send)] == [0, delay_ms]
    (_, send) = cast(program({**SEND, "delay_ms": 500}), ["delay"], ["stomp"], delay_clock="broker-wall").steps
    assert isinstance(send, Send)
    assert send.delay_ms == 500


@pytest.mark.parametrize("taken", [(), ("1.1",), ("1.0", "1.1")])
def test_a_version_of_stomp_that_a_broker_does_not_take_is_not_offered_alone(taken: tuple[str, ...]) -> None:
    asking = program(SEND)
    for version in ("1.0", "1.1"):
        hosts = [replace(host, version=version if host.role == "client" else "") for host in asking.hosts]
        kept = {host.version for host in cast(replace(asking, hosts=hosts), [], ["stomp"], versions=taken).clients()}
        assert kept == {version if version in taken else ""}


def test_consumers_that_must_ask_do_so_also_where_no_program_asks() -> None:
    """At the end of any, all at once, and where none of its steps does once it has settled; as many as their window is
    wide, ten at most.
    """
    names: list[dict[str, Any]] = [
        {"do": "subscribe", "host": 1, "prefetch": 3},
        {"do": "subscribe", "host": 1},
        {"do": "send"},
    ]
    steps = [*names, {"do": "settle"}, {"do": "subscribe", "prefetch": 500}, {"do": "send"}]

    def asks(*more: dict[str, Any], pulls: bool) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
        found = cast(program(*steps, *more), ["prefetch"], ["jms"], pulls=pulls)
        at_once = [one for step in found.steps if isinstance(step, Parallel) for of in step.of for one in of]
        by_itself = [one for one in found.steps if isinstance(one, Take)]
        told = [[(t.host, t.consumer, t.count) for t in one if isinstance(t, Take)] for one in (by_itself, at_once)]
        return told[0], told[1]

    first, last = [(0, 0, 3), (0, 1, 1)], [(0, 0, 10), (1, 0, 3), (1, 1, 1)]
    assert asks(pulls=True) == (first, last)
    assert asks({"do": "settle"}, pulls=True) == (first, last)
    assert asks({"do": "take", "host": 1, "count": 2}, pulls=True) == ([(1, 0, 2)], last)
    assert asks(pulls=False) == ([], [])


@pytest.mark.parametrize(
    ("kind", "selector", "ms"), [("queue", "", 200), ("topic", "", 1100), ("queue", "a = 1", 1100)]
)
def test_who_is_not_counted_asks_for_longer(kind: str, selector: str, ms: int) -> None:
    asking = program({"do": "subscribe", "selector": selector}, dests=[{"name": "d", "kind": kind}])
    (last,) = [step for step in cast(asking, ["selectors"], ["jms"], pulls=True).steps if isinstance(step, Parallel)]
    assert [one.deadline_ms for of in last.of for one in of if isinstance(one, Take)] == [ms]


def test_where_there_are_no_queues_who_comes_first_has_had_a_durable_subscription_from_the_beginning() -> None:
    comes = {"do": "subscribe", "host": 1, "prefetch": 3}
    asking = program(comes, {"do": "leave"}, comes, {**comes, "dest": 1}, {**comes, "host": 0, "wild": True})
    found = cast(asking, ["durables", "wildcards", "prefetch"], ["mqtt"], queues=False).steps
    first = Subscribe(host=1, prefetch=3, durable="q0")
    assert found[:3] == [first, Leave(), Send()]
    durables = [step.durable for step in found[2:] if isinstance(step, Subscribe)]
    assert durables == ["q0", "", "", ""], "its name is used once; dead letters go nowhere; patterns have no name"
    assert first not in cast(asking, ["durables", "wildcards", "prefetch"], ["stomp"]).steps
    assert first not in cast(asking, ["wildcards", "prefetch"], ["mqtt"], queues=False).steps
