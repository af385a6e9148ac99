"""The oracle of interference on hand-written histories."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.oracles.interference import InterferenceOracle
from tests.fast.chronicle import Chronicle

LIMIT = 16_384


def hoard(messages: int = 5) -> Chronicle:
    """Messages of two kilobytes on q1, a consumer on q0."""
    story = Chronicle(memory_limit_bytes=LIMIT).connect("p0").connect("c0")
    for number in range(1, messages + 1):
        story.send(f"p0/{number}", "q1", size=1024)
    return story.subscribe("c0/1", "q0")


def judge(story: Chronicle) -> Verdict:
    return story.wait(5000).rest("q0").judge(InterferenceOracle)["MEM-021"]


@pytest.mark.parametrize(
    ("after_ms", "verdict"), [(0, VerdictKind.SATISFIED), (990, VerdictKind.SATISFIED), (1010, VerdictKind.VIOLATED)]
)
def test_in_time(after_ms: int, verdict: VerdictKind) -> None:
    assert judge(hoard().send("p0/9").wait(after_ms).arrive("c0/1", "p0/9")).verdict is verdict


def test_never() -> None:
    verdict = judge(hoard().send("p0/9"))
    assert (verdict.verdict, verdict.outcome) == (VerdictKind.VIOLATED, "late")
    assert "p0/9" in verdict.text
    assert "at least 10240" in verdict.text


def test_without_much_elsewhere_there_is_no_interference() -> None:
    assert judge(hoard(3).send("p0/9")).verdict is VerdictKind.NOT_EXERCISED


def test_what_others_had_taken_is_not_kept() -> None:
    story = hoard().connect("c1").subscribe("c1/1", "q1", 100)
    for number in range(1, 6):
        story.arrive("c1/1", f"p0/{number}").ack("c1/1", f"p0/{number}")
    assert judge(story.send("p0/9")).verdict is VerdictKind.NOT_EXERCISED


def test_a_message_behind_another_may_wait_for_it() -> None:
    story = hoard().send("p0/9").arrive("c0/1", "p0/9").wait(3000).send("p0/10")
    verdict = judge(story)
    assert verdict.verdict is VerdictKind.SATISFIED


def test_a_message_of_a_transaction_or_with_a_delay_is_not_judged() -> None:
    assert judge(hoard().send("p0/9", delay_ms=5)).verdict is VerdictKind.NOT_EXERCISED
    assert judge(hoard().send("p0/9", tx="t")).verdict is VerdictKind.NOT_EXERCISED
