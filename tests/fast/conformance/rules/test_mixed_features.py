"""Programs in which features meet, each of which a rule once accused the reference broker of something it had not done
(or had: then the broker was mended). They are small, so that it is plain who is right.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brokerproof.conformance.experiment.program import parse_program
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.engine import expected
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.false_positives.weakening import WEAKENINGS, weakened

PROGRAMS = [json.loads(line) for line in Path(__file__).with_name("mixed_features.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: f"{case['requirement']}: {case['why']}")
def test_nobody_is_accused(case: dict[str, Any]) -> None:
    history = SimulatedWorld().run(parse_program(json.dumps(case["program"]).encode()))
    if "weakening" in case:  # a less fortunate observer's
        world, weakenings = WEAKENINGS[case["weakening"]]
        history = weakened(history, world, case["seed"], *weakenings)
    verdicts = expected(judge_history(history), history.header.declared.generation)
    assert [verdict for verdict in verdicts if verdict.verdict is VerdictKind.VIOLATED] == []
