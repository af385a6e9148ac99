"""GEN-047 to GEN-049 and GEN-193 on hand-written histories."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from tests.fast.conformance.rules.history_builder import DLQ, Builder

HOLDS = VerdictKind.SATISFIED
FAILS = VerdictKind.VIOLATED
SILENT = VerdictKind.NOT_EXERCISED
COPIES = ("GEN-001", "GEN-002", "GEN-005", "GEN-006", "GEN-048", "GEN-049")


def copied(dest: str, *arrivals: str, result: str = "ok", limited: bool = False, **fields: Any) -> Builder:
    """A message goes to two queues, which have consumers; it arrives there in the drain."""
    queues = ["q0", "q1"] if "," in dest else ["A.tv0", "B.tv0"]
    told = Builder(**({"memory_limit_bytes": 4096} if limited else {})).connect("p0").connect("c0")
    for number, queue in enumerate(queues, start=1):
        told.subscribe(f"c0/{number}", queue).leave(f"c0/{number}")
    told.send("p0/1", dest, result=result, **fields).drain(*queues)
    for name in arrivals:
        told.arrive(f"drain/{1 + queues.index(name)}", "p0/1")
    return told.end()


@pytest.mark.parametrize(
    ("story", "requirement", "verdict", "others"),
    [
        (copied("q0,q1", "q0", "q1"), "GEN-049", HOLDS, []),
        (copied("q0,q1", "q0"), "GEN-049", FAILS, ["GEN-001"]),
        (copied("q0,q1", "q0", "q1", "q1"), "GEN-049", FAILS, ["GEN-002"]),
        (copied("q0,q1", result="fail"), "GEN-049", HOLDS, []),
        (copied("q0,q1", "q1", result="fail"), "GEN-049", FAILS, ["GEN-006"]),
        (copied("q0,q1", "q1", result="fail", limited=True), "GEN-049", FAILS, ["GEN-006"]),
        (copied("q0,q1", result="fail", limited=True), "GEN-049", HOLDS, []),
        (copied("q0,q1", "q0", expiration_ms=5), "GEN-049", HOLDS, []),
        (copied("tv0", "A.tv0", "B.tv0"), "GEN-048", HOLDS, []),
        (copied("tv0", "A.tv0"), "GEN-048", FAILS, ["GEN-001"]),
        (copied("tv0", "A.tv0", result="unknown"), "GEN-048", HOLDS, []),
    ],
)
def test_each_name_and_each_queue_gets_a_copy(
    story: Builder, requirement: str, verdict: VerdictKind, others: list[str]
) -> None:
    verdicts = story.verdicts(*COPIES)
    assert verdicts[requirement].verdict is verdict
    wrong = [name for name, one in verdicts.items() if one.verdict is FAILS]
    assert wrong == sorted([*others, *([requirement] if verdict is FAILS else [])])


@pytest.mark.parametrize(("dest", "there", "requirement"), [("q0,q1", "q0", "GEN-049"), ("tv0", "A.tv0", "GEN-048")])
def test_a_copy_may_be_kept_back_where_memory_is_scarce_and_the_broker_says_so(
    dest: str, there: str, requirement: str
) -> None:
    def kind(size: int) -> VerdictKind:
        told = copied(dest, there, limited=True)
        told.events.pop()
        missing = "q1" if there == "q0" else "B.tv0"
        return told.rest(missing, size=size).phase("end").verdicts(requirement)[requirement].verdict

    assert kind(1) is HOLDS  # the other copy came
    assert kind(0) is FAILS


def test_a_queue_without_a_consumer_need_not_get_a_copy() -> None:
    told = Builder().connect("p0").connect("c0").send("p0/1", "tv0").subscribe("c0/1", "A.tv0").leave("c0/1")
    assert told.drain("A.tv0").end().verdicts("GEN-048")["GEN-048"].verdict is SILENT


def test_a_queue_that_is_named_twice_gets_two() -> None:
    told = Builder().connect("p0").connect("c0").subscribe("c0/1", "A.tv0").send("p0/1", "tv0,A.tv0")
    verdicts = told.arrive("c0/1", "p0/1", "p0/1").drain("A.tv0").end().verdicts("GEN-002", "GEN-049")
    assert FAILS not in {verdict.verdict for verdict in verdicts.values()}


# -- temporary queues


def owned(*, foreign: bool = False, gone: bool = False, result: str = "fail", again: bool = False) -> Builder:
    """c0 has a temporary queue; c1 sends to it, while c0 is connected and, perhaps, after it has gone or come again."""
    told = Builder().connect("c0").connect("c1").subscribe("c0/1", "~c0").send("c1/1", "~c0")
    if foreign:
        return told.subscribe("c1/1", "~c0").arrive("c1/1", "c1/1")
    if gone:
        return told.lose("c0").rest("q0").send("c1/2", "~c0", result=result)
    if again:
        told.lose("c0").connect("c0").subscribe("c0/2", "~c0")
    return told.arrive("c0/2" if again else "c0/1", "c1/1")


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, HOLDS),
        ({"foreign": True}, FAILS),
        ({"gone": True}, HOLDS),
        ({"gone": True, "result": "ok"}, FAILS),
        ({"gone": True, "result": "unknown"}, SILENT),
        ({"again": True}, FAILS),
    ],
)
def test_a_temporary_queue_is_its_connections_own(options: dict[str, Any], verdict: VerdictKind) -> None:
    assert owned(**options).verdicts("GEN-047")["GEN-047"].verdict is verdict


# -- what copies say of themselves


@pytest.mark.parametrize(
    ("sent", "came", "origin", "verdict", "outcome"),
    [
        ("q0,q1", "q1", "q0,q1", HOLDS, "named"),
        ("q0,q1", "q1", "q1", FAILS, "otherwise"),
        ("q0,q1", "q1", None, FAILS, "otherwise"),
        ("tv0", "A.tv0", "tv0", HOLDS, "named"),
        ("tv0", "A.tv0", None, FAILS, "otherwise"),
        ("q0", "q0", "q0", FAILS, "invented"),
        ("q0", "q0", None, SILENT, ""),
        ("q0", DLQ, "q0", SILENT, ""),
    ],
)
def test_copies_name_where_their_message_was_sent_to(
    sent: str, came: str, origin: str | None, verdict: VerdictKind, outcome: str
) -> None:
    story = Builder().connect("p0").connect("c0").subscribe("c0/1", came).send("p0/1", sent)
    said = story.arrive("c0/1", "p0/1", original_dest=origin).verdicts("GEN-193")["GEN-193"]
    assert (said.verdict, said.outcome) == (verdict, outcome)


def test_what_an_operator_moved_says_where_it_had_been() -> None:
    story = Builder().connect("p0").connect("c0").send("p0/1", "q0,q1").operate("move", "q0", "q1", count=1)
    story.subscribe("c0/1", "q1").arrive("c0/1", "p0/1", original_dest="q0")
    assert story.verdicts("GEN-193")["GEN-193"].verdict is SILENT


def test_nothing_is_said_of_copies_where_nobody_promises_it() -> None:
    story = Builder().connect("p0").connect("c0").subscribe("c0/1", "q1").send("p0/1", "q0,q1").arrive("c0/1", "p0/1")
    kept = [word for word in story.header.capabilities if word != "origins"]
    story.header = msgspec.structs.replace(story.header, capabilities=kept)
    assert story.verdicts("GEN-193")["GEN-193"].verdict is VerdictKind.NOT_APPLICABLE
