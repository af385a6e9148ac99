"""The types of acknowledgements past the library on hand-written histories."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.history import Acknowledge
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from tests.fast.conformance.rules.clocked_history import Clocked

VIOLATED, SATISFIED, NOT_EXERCISED = VerdictKind.VIOLATED, VerdictKind.SATISFIED, VerdictKind.NOT_EXERCISED


def judged(run: Clocked) -> dict[str, Verdict]:
    return run.verdicts("INF-009", "INF-015", "INF-017", "PRE-005")


def held(dest: str = "q0", prefetch: int = 3, count: int = 3) -> Clocked:
    """c0/1 holds three of the messages on a destination, at rest."""
    run = Clocked().connect("c0", "jms").connect("p0").subscribe("c0/1", dest, prefetch, ack="individual").at(10)
    run.request_ms = 0
    for number in range(count):
        run.post(f"p0/{number}", dest)
    run.arrive("c0/1", "p0/0", "p0/1", "p0/2").at(20)
    return read(run, dest, size=count)


def read(
    run: Clocked, dest: str = "q0", *, out: int = 0, dispatched: int = 3, expired: int = 0, size: int = 3
) -> Clocked:
    run.rest(dest, dispatched=dispatched, in_flight=dispatched - out, dequeued=out, expired=expired, size=size - out)
    return run.at(run.now_ms + 1)


def acted(run: Clocked, kind: str, *messages: str, settles: bool = True, **fields: object) -> Clocked:
    result = fields.pop("result", "ok")
    run._add(Acknowledge, "c0", consumer="c0/1", type=kind, messages=list(messages), result=result, **fields)
    if settles:
        run.ack("c0/1", *messages)
    return run


@pytest.mark.parametrize(
    ("kind", "messages", "out", "expired", "expected"),
    [
        ("standard", ["p0/0", "p0/1"], 2, 0, SATISFIED),
        ("standard", ["p0/0", "p0/1"], 1, 0, VIOLATED),
        ("poison", ["p0/0"], 1, 0, SATISFIED),
        ("poison", ["p0/0"], 0, 0, VIOLATED),
        ("redelivered", ["p0/0"], 0, 0, SATISFIED),
        ("redelivered", ["p0/0"], 1, 0, VIOLATED),
        ("individual", ["p0/1"], 1, 1, VIOLATED),
        ("expired", ["p0/1"], 1, 1, SATISFIED),
    ],
)
def test_each_type_counts_as_defined(
    kind: str, messages: list[str], out: int, expired: int, expected: VerdictKind
) -> None:
    run = acted(held(), kind, *messages, settles=False)
    assert judged(read(run, out=out, expired=expired).finish())["INF-009"].verdict is expected


def test_what_else_happens_spoils_the_comparison() -> None:
    run = acted(held(), "standard", "p0/0", settles=False).at(25).ack("c0/1", "p0/1")
    assert judged(read(run, out=3).finish())["INF-009"].verdict is NOT_EXERCISED


@pytest.mark.parametrize(("out", "expected"), [(1, SATISFIED), (3, VIOLATED)])
def test_individual_on_a_topic_means_one(out: int, expected: VerdictKind) -> None:
    run = acted(held("t0"), "individual", "p0/2", open_start=True, settles=False)
    assert judged(read(run, "t0", out=out).finish())["INF-015"].verdict is expected


@pytest.mark.parametrize(
    ("result", "out", "expected"), [("fail", 0, SATISFIED), ("fail", 2, VIOLATED), ("ok", 0, VIOLATED)]
)
def test_a_wrong_end_has_no_effect(result: str, out: int, expected: VerdictKind) -> None:
    run = acted(held(), "poison", "p0/0", "p0/1", wrong_end=True, settles=False, result=result)
    assert judged(read(run, out=out).finish())["INF-017"].verdict is expected


@pytest.mark.parametrize(
    ("more", "waiting", "outcome"), [(2, 4, "exact"), (1, 4, "too-few"), (1, 0, ""), (3, 4, "too-many")]
)
def test_delivered_opens_as_many_slots(more: int, waiting: int, outcome: str) -> None:
    run = acted(held(count=10), "delivered", "p0/0", "p0/1", settles=False)
    run.arrive("c0/1", *(f"p0/{number}" for number in range(3, 3 + more)))
    found = judged(read(run, dispatched=3 + more, size=3 + more + waiting).finish())["PRE-005"]
    assert found.outcome == outcome


@pytest.mark.parametrize(("kind", "slots"), [("standard", 3), ("poison", 4)])
def test_settlements_close_slots_again(kind: str, slots: int) -> None:
    run = acted(held(count=20), "delivered", "p0/0", "p0/1", settles=False).arrive("c0/1", "p0/3", "p0/4")
    run = acted(read(run, dispatched=5, size=20), kind, "p0/0", "p0/1")
    run.arrive("c0/1", *(f"p0/{number}" for number in range(5, 2 + slots)))
    assert judged(read(run, out=2, dispatched=2 + slots, size=20).finish())["PRE-005"].outcome == "exact"


@pytest.mark.parametrize(("result", "expected"), [("ok", SATISFIED), ("fail", VIOLATED)])
@pytest.mark.parametrize("kind", ["expired", "poison"])
def test_a_wrong_end_may_be_taken_as_none(kind: str, result: str, expected: VerdictKind) -> None:
    """Artemis makes dead letters of all that the consumer has; who refuses it may not."""
    run = acted(held(), kind, "p0/0", wrong_end=True, settles=False, result=result)
    run = run.close(at_ms=50).deliver("drain/1", "p0/2").dead_letter("p0/1").finish()
    assert run.verdicts("EXP-002")["EXP-002"].verdict is expected
