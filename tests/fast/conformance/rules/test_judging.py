"""What the judge makes of the rows of one run: the worst violation is the verdict, the others are told beside it."""

from __future__ import annotations

from functools import reduce

from brokerproof.conformance.experiment.verdict import FURTHER_MAX, Verdict, VerdictKind, Violation
from brokerproof.conformance.rules.judge import of_both
from tests.fast.conformance.rules.history_builder import Builder


def lost(count: int) -> Builder:
    """So many confirmed messages of which nobody ever hears again."""
    story = Builder().connect("p0")
    for number in range(1, count + 1):
        story.send(f"p0/{number}")
    return story.drain("q0").end()


def test_every_violation_of_a_run_is_told() -> None:
    verdict = lost(3).verdicts("GEN-001")["GEN-001"]
    assert verdict.verdict is VerdictKind.VIOLATED
    texts = [verdict.text, *(one.text for one in verdict.further)]
    assert sorted(text.partition(": ")[2].split()[0] for text in texts) == ["p0/1", "p0/2", "p0/3"]
    assert all(one.witness and one.outcome == verdict.outcome for one in verdict.further)


def test_but_not_more_than_a_reader_needs() -> None:
    assert len(lost(FURTHER_MAX + 9).verdicts("GEN-001")["GEN-001"].further) == FURTHER_MAX


def test_what_is_kept_says_nothing_further() -> None:
    kept = Builder().connect("p0").send("p0/1").drain("q0").arrive("drain/1", "p0/1")
    assert kept.end().verdicts("GEN-001")["GEN-001"].further == []


def test_two_brokers_of_one_run_tell_what_violates_it_at_either() -> None:
    near = Verdict("GEN-001", VerdictKind.VIOLATED, text="b", witness=[2], further=[Violation("c")])
    far, sound = Verdict("GEN-001", VerdictKind.VIOLATED, text="a"), Verdict("GEN-001", VerdictKind.SATISFIED)
    for order in ((near, far, sound), (sound, far, near)):
        verdict = reduce(of_both, order)
        assert verdict.text == "a"
        assert sorted(one.text for one in verdict.further) == ["b", "c"]
