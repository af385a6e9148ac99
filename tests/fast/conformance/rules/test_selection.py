"""Who may be given what, on hand-written histories: what fails, what holds, what proves nothing."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.chooser import SeededChooser
from brokerproof.conformance.experiment.configuration import PolicySpec
from brokerproof.conformance.experiment.history import Browse, Send
from brokerproof.conformance.experiment.steps.selecting import NONSENSE, draw_selector
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.facts.selector_grammar import Unreadable
from brokerproof.conformance.facts.selectors import is_none, read
from brokerproof.reference_broker.core.message import Message
from brokerproof.reference_broker.core.selector import BadSelector, parse
from tests.fast.conformance.rules.history_builder import CAPABILITIES, Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED


def said(story: Builder, requirement: str) -> VerdictKind:
    return story.verdicts(requirement)[requirement].verdict


def begun(*hosts: str, **declared: Any) -> Builder:
    story = Builder(**declared)
    for host in ("p0", "c0", "c1", *hosts):
        story.connect(host)
    return story


@pytest.mark.parametrize(
    ("selector", "kind", "priority", "truth"),
    [
        ("kind = 'a'", "a", 4, True),
        ("kind = 'a'", "b", 4, False),
        ("kind = 'a'", "", 4, None),
        ("kind <> 'a'", "", 4, None),
        ("NOT kind = 'a'", "", 4, None),
        ("kind IS NULL", "", 4, True),
        ("kind IS NOT NULL", "", 4, False),
        ("kind IN ('a', 'b')", "b", 4, True),
        ("kind NOT IN ('a', 'b')", "b", 4, False),
        ("kind IN ('a')", "", 4, None),
        ("JMSPriority > 4", "", 5, True),
        ("JMSPriority > 4 AND kind = 'a'", "", 3, False),
        ("JMSPriority > 4 OR kind = 'a'", "", 3, None),
        ("(JMSPriority <= 4) OR (kind = 'z')", "", 3, True),
        ("kind LIKE 'a%'", "ab", 4, True),
        ("kind LIKE '_'", "ab", 4, False),
        ("kind NOT LIKE 'a.'", "ab", 4, True),
        ("kind LIKE '%'", "", 4, None),
        ("JMSPriority BETWEEN 3 AND 5", "", 5, True),
        ("JMSPriority NOT BETWEEN 3 AND 5", "", 4, False),
        ("JMSPriority / 2 = 3", "", 7, True),
        ("JMSPriority / 2.0 = 3", "", 7, False),
        ("1 + JMSPriority * 2 = 9", "", 4, True),
        ("-JMSPriority - (2 - 1) = -5", "", 4, True),
        ("TRUE", "", 4, True),
        ("NOT FALSE", "", 4, True),
        ("JMSPriority > 010", "", 9, True),
        ("JMSPriority > 010", "", 8, False),
        ("JMSPriority = 0x7 AND 7 = JMSPriority AND JMSPriority < 7.5E0", "", 7, True),
        ("JMSPriority = 4 OR kind = 'a' AND kind = 'b'", "a", 4, True),
        ("NOT kind = 'a' AND JMSPriority = 4", "b", 4, True),
        ("kind LIKE 'a!%' ESCAPE '!'", "a", 4, False),
        ("kind LIKE 'a!!%' ESCAPE '!'", "a!b", 4, True),
        ("kind = JMSPriority", "a", 4, False),
        ("kind BETWEEN 1 AND 2", "a", 4, False),
        ("7 / -2 = -3", "", 4, True),
        ("no_body + 1 > 0 OR no_body IS NULL", "", 4, True),
        ("JMSDeliveryMode = 'PERSISTENT'", "", 4, True),
        ("JMSXGroupID = 'g1'", "", 4, None),
        ("JMSXGroupID IS NULL", "", 4, True),
    ],
)
def test_wishes(selector: str, kind: str, priority: int, truth: bool | None) -> None:
    wish = read(selector)
    assert wish is not None
    assert wish(Send(1, 0, 0, "p0", "ok", "p0/1", "q0", message_kind=kind, priority=priority)) is truth


@pytest.mark.parametrize(
    "selector",
    [
        "",
        "size > 3",
        "JMSPriority > 09",
        "JMSPriority > 3f",
        "'a' < kind",
        "kind + 'a' = 'aa'",
        "kind LIKE 3",
        "kind LIKE 'a!b' ESCAPE '!'",
        "kind LIKE 'ab!' ESCAPE '!'",
        "JMSPriority BETWEEN 1",
        "kind = 'a' OR",
        "(kind = 'a'",
    ],
)
def test_what_cannot_be_judged_is_not(selector: str) -> None:
    assert read(selector) is None


@pytest.mark.parametrize("selector", ["kind", "3 / JMSPriority > 1", "3 / 0.0 > 1", "kind <> 3", "kind > JMSXGroupID"])
def test_what_brokers_may_read_differently_is_not_judged(selector: str) -> None:
    wish = read(selector)
    assert wish is not None
    with pytest.raises(Unreadable):
        wish(Send(1, 0, 0, "p0", "ok", "p0/1", "q0", message_kind="a", group="g1", priority=0))


@pytest.mark.parametrize("text", NONSENSE)
def test_what_is_no_selector_for_judge_and_broker(text: str) -> None:
    assert is_none(text)
    assert read(text) is None
    with pytest.raises(BadSelector):
        parse(text)


def test_no_selector_of_the_grammar_is_taken_for_none() -> None:
    assert [text for text in (draw_selector(SeededChooser(seed)) for seed in range(3000)) if is_none(text)] == []


def test_judge_and_broker_read_alike() -> None:
    """Two readers of the same specification, whoever is asked."""
    messages = list(product(("", "a", "b"), ("", "g1"), (0, 4, 7, 9)))
    for seed in range(600):
        text = draw_selector(SeededChooser(seed))
        judged, selector = read(text), parse(text)
        assert judged is not None, text
        assert selector is not None, text
        for kind, group, priority in messages:
            sent = Send(1, 0, 0, "p0", "ok", "p0/1", "q0", message_kind=kind, group=group, priority=priority)
            message = Message(
                "1",
                "q0",
                b"",
                priority=priority,
                group_id=group,
                properties={"kind": kind} if kind else {},
                persistent=True,
            )
            try:
                truth = judged(sent)
            except Unreadable:
                continue
            assert (truth is True) is selector.selects(message), (text, sent)


@pytest.mark.parametrize(("kind", "verdict"), [("a", HOLDS), ("b", FAILS), ("", FAILS)])
def test_a_selector_rules_out_what_is_not_true(kind: str, verdict: VerdictKind) -> None:
    story = begun().subscribe("c0/1", selector="kind = 'a'").send("p0/1", message_kind=kind).arrive("c0/1", "p0/1")
    assert said(story, "GEN-020") is verdict


@pytest.mark.parametrize(
    ("words", "seat", "verdict"),
    [
        (["numeric-selectors"], 4, HOLDS),
        (["numeric-selectors"], 5, FAILS),
        (["numeric-selectors"], 5e20, SILENT),
        (["numeric-selectors"], True, SILENT),
        ([], 5, SILENT),
    ],
)
def test_numbers_that_travel_as_texts_are_judged_where_a_probe_saw_how_they_are_read(
    words: list[str], seat: float, verdict: VerdictKind
) -> None:
    story = Builder("live")
    story.header = msgspec.structs.replace(story.header, capabilities=[*CAPABILITIES, *words])
    story.connect("p0").connect("c0").subscribe("c0/1", selector="seat_no BETWEEN 2 AND 4")
    story.send("p0/1", headers={"seat_no": seat}).arrive("c0/1", "p0/1")
    assert said(story, "GEN-020") is verdict


@pytest.mark.parametrize(("kind", "verdict"), [("a", HOLDS), ("b", FAILS), ("", FAILS)])
def test_browsers_are_shown_what_their_selector_wants(kind: str, verdict: VerdictKind) -> None:
    story = begun().send("p0/1", message_kind=kind).subscribe("c0/1", browser=True, selector="kind = 'a'")
    shown = story._add(Browse, "c0", dest="q0", messages=["p0/1"], consumer="c0/1", complete=True)
    assert said(shown, "GEN-020") is verdict


def test_what_a_selector_wants_is_not_hidden_at_rest() -> None:
    def story(**fields: Any) -> Builder:
        told = begun().send("p0/1", message_kind="b").send("p0/2", message_kind="a")
        return told.subscribe("c0/1", selector="kind = 'a'", **fields)

    assert said(story().rest(size=2), "GEN-021") is FAILS
    assert said(story().arrive("c0/1", "p0/2").rest(size=2), "GEN-021") is HOLDS
    assert said(story().read(size=2), "GEN-021") is SILENT
    assert said(story(priority=-1).rest(size=2), "GEN-021") is FAILS


def test_no_local_counts_on_queues() -> None:
    story = begun().subscribe("c0/1", no_local=True).send("c0/1").arrive("c0/1", "c0/1")
    assert said(story, "GEN-022") is FAILS
    story = begun().subscribe("c0/1", no_local=True).send("p0/1").arrive("c0/1", "p0/1")
    assert said(story, "GEN-022") is HOLDS
    story = begun().send("c0/1").lose("c0").connect("c0").subscribe("c0/2", no_local=True).arrive("c0/2", "c0/1")
    assert said(story, "GEN-022") is SILENT


def test_nobody_shares_with_an_exclusive_consumer() -> None:
    def story(**fields: Any) -> Builder:
        return begun().subscribe("c0/1", exclusive=True).subscribe("c1/1", **fields).send("p0/1")

    assert said(story().arrive("c0/1", "p0/1"), "GEN-023") is HOLDS
    assert said(story().arrive("c1/1", "p0/1"), "GEN-023") is FAILS
    assert said(story(exclusive=True).arrive("c1/1", "p0/1"), "GEN-023") is FAILS
    assert said(story(exclusive=True, priority=1).arrive("c1/1", "p0/1"), "GEN-023") is not FAILS
    assert said(story().leave("c0/1").arrive("c1/1", "p0/1"), "GEN-023") is not FAILS
    early = begun().send("p0/1").subscribe("c1/1").subscribe("c0/1", exclusive=True).arrive("c1/1", "p0/1")
    assert said(early, "GEN-023") is not FAILS
    # It had been sent before, and was given away when somebody had the right to it.
    late = begun().send("p0/1").subscribe("c0/1", exclusive=True).subscribe("c1/1").arrive("c1/1", "p0/1")
    assert said(late, "GEN-023") is FAILS


def test_a_group_stays_with_its_consumer() -> None:
    def story() -> Builder:
        told = begun().subscribe("c0/1").subscribe("c1/1")
        return told.send("p0/1", group="g").arrive("c0/1", "p0/1").send("p0/2", group="g")

    assert said(story().arrive("c0/1", "p0/2"), "GEN-024") is HOLDS
    assert said(story().arrive("c1/1", "p0/2"), "GEN-024") is FAILS
    assert said(story().leave("c0/1").arrive("c1/1", "p0/2"), "GEN-024") is SILENT
    early = begun().subscribe("c0/1").subscribe("c1/1").send("p0/1", group="g").send("p0/2", group="g")
    assert said(early.arrive("c0/1", "p0/1").arrive("c1/1", "p0/2"), "GEN-024") is SILENT
    waiting = begun().send("p0/1", group="g").send("p0/2", group="g").subscribe("c0/1").arrive("c0/1", "p0/1")
    assert said(waiting.subscribe("c1/1").arrive("c1/1", "p0/2"), "GEN-024") is FAILS


def test_the_higher_consumer_is_served_first_if_it_has_room() -> None:
    def story(prefetch: int) -> Builder:
        told = begun().subscribe("c0/1", prefetch=prefetch, priority=5).subscribe("c1/1")
        return told.send("p0/1").arrive("c0/1", "p0/1").send("p0/2")

    assert said(story(2).arrive("c1/1", "p0/2").rest(size=2), "GEN-025") is FAILS
    assert said(story(1).arrive("c1/1", "p0/2").rest(size=2), "GEN-025") is not FAILS
    assert said(story(2).arrive("c1/1", "p0/2"), "GEN-025") is not FAILS
    assert said(story(2).arrive("c0/1", "p0/2").rest(size=2), "GEN-025") is HOLDS


def test_messages_of_higher_priority_come_first_where_the_broker_says_so() -> None:
    def story(first: str, second: str, *, prioritized: bool = True) -> VerdictKind:
        told = begun(policies=[PolicySpec(prioritized_messages=prioritized)])
        told.send("p0/1", priority=2).send("p0/2", priority=8).subscribe("c0/1").arrive("c0/1", first, second)
        return said(told, "GEN-008")

    assert story("p0/1", "p0/2") is FAILS
    assert story("p0/2", "p0/1") is HOLDS
    assert story("p0/1", "p0/2", prioritized=False) is SILENT


@pytest.mark.parametrize(("persistent", "verdict"), [(True, FAILS), (False, SILENT)])
def test_what_is_stored_keeps_its_priority(persistent: bool, verdict: VerdictKind) -> None:
    """After a restart of somebody else's broker all had the default one."""
    told = Builder("live", persistent=True, policies=[PolicySpec(prioritized_messages=True)]).connect("p0")
    told.send("p0/1", priority=2, persistent=persistent).send("p0/2", priority=8, persistent=persistent).restart()
    told.connect("c0").subscribe("c0/1").arrive("c0/1", "p0/1", "p0/2")
    assert said(told, "GEN-008") is verdict


def test_what_came_back_keeps_its_priority() -> None:
    def story(lost: int, *second: str, left: bool = True, rejected: bool = False) -> VerdictKind:
        told = begun(policies=[PolicySpec(prioritized_messages=True)])
        told.send("p0/1", priority=9).send("p0/2", priority=5).send("p0/3", priority=2)
        told.subscribe("c0/1", prefetch=1).arrive("c0/1", f"p0/{lost}")
        if rejected:
            told.nack("c0/1", f"p0/{lost}")
        if left:
            told.leave("c0/1").rest(size=3)
        return said(told.subscribe("c0/2").arrive("c0/2", *second), "GEN-008")

    assert story(1, "p0/1", "p0/2") is HOLDS
    assert story(1, "p0/2", "p0/1") is FAILS
    assert story(1, "p0/2") is not FAILS  # the former may have died
    assert story(1, "p0/2", "p0/1", left=False) is not FAILS
    assert story(1, "p0/2", "p0/1", rejected=True) is not FAILS  # it may come after a pause
    assert story(3, "p0/3", "p0/1", "p0/2") is not FAILS  # many brokers put what comes back before all that waits


def test_equals_share_evenly() -> None:
    def story(*consumers: str) -> Builder:
        told = begun().subscribe("c0/1").subscribe("c1/1")
        for number, consumer in enumerate(consumers, start=1):
            told.send(f"p0/{number}").arrive(consumer, f"p0/{number}")
        return told.rest(size=len(consumers)).end()

    assert said(story("c0/1", "c1/1", "c0/1"), "GEN-010") is HOLDS
    assert said(story("c0/1", "c0/1"), "GEN-010") is FAILS
    assert said(begun().send("p0/1").send("p0/2").subscribe("c0/1").rest(size=2), "GEN-010") is SILENT
