"""The oracle of order under paging on hand-written histories."""

from __future__ import annotations

from typing import Any

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.oracles.paging import PagingOracle
from tests.fast.chronicle import Chronicle


def kind(*order: int, limit: int = 8192, **fields: Any) -> VerdictKind:
    """Six messages of two kilobytes, and the order in which they arrive."""
    story = Chronicle(memory_limit_bytes=limit).connect("p0").connect("c0")
    for number in range(1, 7):
        story.send(f"p0/{number}", size=1024, **fields)
    story.subscribe("c0/1")
    for number in order:
        story.arrive("c0/1", f"p0/{number}")
    return story.rest("q0").judge(PagingOracle)["MEM-025"].verdict


def test_order() -> None:
    assert kind(1, 2, 3, 4, 5, 6) is VerdictKind.SATISFIED
    assert kind(1, 2, 3, 4, 6, 5) is VerdictKind.VIOLATED
    assert kind(1, 2, 6, 3) is VerdictKind.VIOLATED


def test_only_what_was_beyond_the_limit_counts() -> None:
    assert kind(2, 1, 3) is VerdictKind.NOT_EXERCISED
    assert kind(1, 2, 6, 3, limit=1 << 20) is VerdictKind.NOT_EXERCISED


def test_messages_of_other_kinds_are_not_judged() -> None:
    assert kind(1, 2, 6, 3, persistent=False) is VerdictKind.NOT_EXERCISED
    assert kind(1, 2, 6, 3, delay_ms=5) is VerdictKind.NOT_EXERCISED
