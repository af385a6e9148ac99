"""What a broker is excused for while its process has too little of something, and what it is not."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.facts.marks import PAUSE, Marks
from brokerproof.conformance.facts.spans import NEVER
from tests.fast.conformance.rules.history_builder import Builder

HOLDS, FAILS, SILENT = VerdictKind.SATISFIED, VerdictKind.VIOLATED, VerdictKind.NOT_EXERCISED
WHAT = ("", "descriptors", "disk", "memory", "processor")
VITAL = WHAT[1:4]


def strained(what: str) -> Builder:
    story = Builder("live").connect("p0").connect("c0")
    return story.exhaust(what) if what else story


def verdict(story: Builder, requirement: str) -> VerdictKind:
    return story.verdicts(requirement)[requirement].verdict


@pytest.mark.parametrize("what", WHAT)
def test_a_refusal_is_excused_without_descriptors(what: str) -> None:
    story = strained(what).send("p0/1", result="fail", refusal="io: no file")
    assert verdict(story.end(), "GEN-100") is (SILENT if what in VITAL else FAILS)


@pytest.mark.parametrize(("since_ms", "expected"), [(1990, SILENT), (2010, FAILS)])
def test_it_is_excused_until_its_peers_have_got_over_it(since_ms: float, expected: VerdictKind) -> None:
    story = strained("descriptors").relieve("descriptors").wait(since_ms).send("p0/1", result="fail", refusal="io")
    assert verdict(story.end(), "GEN-100") is expected


@pytest.mark.parametrize("what", WHAT)
def test_whoever_comes_may_have_to_wait(what: str) -> None:
    story = strained(what)
    story.request_ms = 10_000
    story.connect("c1", result="unknown")
    assert (verdict(story.end(), "GEN-110") is FAILS) == (not what)


@pytest.mark.parametrize("what", WHAT)
def test_whoever_comes_may_be_turned_away(what: str) -> None:
    story = strained(what).connect("c1", result="fail")
    assert (verdict(story.end(), "GEN-106") is FAILS) == (not what)


@pytest.mark.parametrize("what", WHAT)
def test_a_process_may_end_that_can_open_nothing(what: str) -> None:
    assert verdict(strained(what).wait(50).crash().end(), "GEN-090") is (SILENT if what in VITAL else FAILS)


@pytest.mark.parametrize("what", WHAT)
def test_what_is_refused_may_have_been_taken_in_need(what: str) -> None:
    """MEM-005, MEM-027: the reason was named."""
    story = strained(what).send("p0/1", result="fail", refusal="out of memory", persistent=True)
    found = story.drain("q0").arrive("drain/1", "p0/1").end().verdicts("GEN-006", "MEM-005", "MEM-027")
    assert {one.verdict for one in found.values()} == {SILENT if what in VITAL else FAILS}


@pytest.mark.parametrize("what", WHAT)
def test_what_was_confirmed_is_owed_all_the_same(what: str) -> None:
    story = strained(what).send("p0/1", persistent=True)
    if what:
        story.relieve(what)
    assert verdict(story.wait(5000).drain("q0", "ActiveMQ.DLQ").end(), "GEN-001") is FAILS


@pytest.mark.parametrize("what", WHAT)
def test_what_takes_time_may_take_longer(what: str) -> None:
    """A delayed message for which a consumer with room waits."""
    story = strained(what).subscribe("c0/1").send("p0/1", delay_ms=1000).wait(3500)
    if what:
        story.relieve(what)
    story.arrive("c0/1", "p0/1").consume("c0/1", "p0/1").ack("c0/1", "p0/1")
    assert verdict(story.end(), "DLY-002") is (SILENT if what else FAILS)


def test_a_mark_that_ends_earlier_than_was_known() -> None:
    marks = Marks()
    marks.put(PAUSE, "", (10, NEVER))
    marks.put(PAUSE, "", (0, 5))
    assert marks.on("q0", (100, 110)) == PAUSE
    marks.end(PAUSE, "", (10, NEVER), 50)
    assert marks.on("q0", (100, 110)) == 0
    assert marks.on("q0", (50, 60)) == PAUSE
