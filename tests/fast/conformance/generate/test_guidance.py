"""Guidance: what is drawn next depends on seeds and outcomes alone."""

from __future__ import annotations

import msgspec

from brokerproof.conformance.experiment.program import parse_program
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.generate.guidance import SLACK_NS, Drawn, Guidance, met_by
from brokerproof.conformance.generate.programs import program_for_seed

SEEDS = range(60)


def learned() -> Guidance:
    """Two programs met something."""
    guidance = Guidance()
    for seed in (7, 8):
        drawn = guidance.draw(seed)
        guidance.learn(drawn, [Verdict("EXP-001", VerdictKind.SATISFIED, f"outcome {seed}", decided=1)])
    return guidance


def test_nothing_learned_draws_the_seeds_own() -> None:
    guidance = Guidance()
    drawn = guidance.draw(7)
    guidance.learn(drawn, [Verdict("EXP-001", VerdictKind.NOT_EXERCISED)])  # which is nothing new
    assert [guidance.draw(seed).program for seed in range(5)] == [program_for_seed(seed) for seed in range(5)]


def test_children_depend_on_seed_and_outcomes_alone() -> None:
    one, other = learned(), learned()
    drawn = [one.draw(seed) for seed in SEEDS]
    assert drawn == [other.draw(seed) for seed in reversed(SEEDS)][::-1]
    children = [child.program for child in drawn if child.child]
    assert 15 < len(children) < 45, "about half"
    parents = [program_for_seed(7), program_for_seed(8)]
    assert any(child.hosts == parents[0].hosts and child.steps != parents[0].steps for child in children)
    assert any(child.hosts == parents[1].hosts for child in children)
    assert any(child.hosts not in [parent.hosts for parent in parents] for child in children), "a frame drawn again"
    for child in children:
        assert parse_program(msgspec.json.encode(child)) == child
    one.learn(Drawn(program_for_seed(9), ()), [Verdict("EXP-002", VerdictKind.VIOLATED, decided=1)])
    assert [one.draw(seed) for seed in SEEDS] != drawn, "what was met last decides, too"


def test_what_is_met() -> None:
    verdict = Verdict("EXP-001", VerdictKind.SATISFIED, "dead", situations=["a skew"], decided=1, unknown=["restart"])
    near, far = (msgspec.structs.replace(verdict, slack_ns=slack) for slack in (1_500_000, SLACK_NS))
    assert [what for _, what in met_by(near)] == ["satisfied dead", "a skew", "mark restart", "slack 1"]
    assert [what for _, what in met_by(far)] == ["satisfied dead", "a skew", "mark restart"]
    assert met_by(Verdict("EXP-001", VerdictKind.NOT_EXERCISED)) == []
