"""Selectors about values that messages have: each can be judged, most choose some and refuse some."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.chooser import SeededChooser
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Send, Shape, Subscribe
from brokerproof.conformance.experiment.steps.selecting import Known, draw_selector_about
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.facts.selectors import is_none, read
from brokerproof.conformance.generate.choices import looked_at, picked
from brokerproof.conformance.generate.templates import Template
from brokerproof.conformance.rules.areas import RULES
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

CHOOSY = ("GEN-020", "GEN-021", "GEN-026")


def program(template: Template, seed: int) -> Program:
    chooser = SeededChooser(seed)
    steps = template(chooser, Shape(2, 1, 2, vias=["stomp", "jms"], features=("groups",)))
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client"), HostSpec("c1", "client", via="jms")]
    return Program(FORMAT, BrokerSpec(), hosts, [], queues("q0"), steps)


@pytest.mark.parametrize("template", [looked_at, picked])
def test_every_selector_can_be_judged_and_the_broker_reads_it_alike(template: Template) -> None:
    assert "GEN-020" in RULES
    chosen = 0
    for seed in range(40):
        drawn = program(template, seed)
        texts = [step.selector for step in drawn.steps if isinstance(step, Subscribe)]
        assert all(read(text) is not None and not is_none(text) for text in texts), texts
        verdicts = judge_history(SimulatedWorld(seed=seed).run(drawn), wanted=CHOOSY)
        assert VerdictKind.VIOLATED not in {verdict.verdict for verdict in verdicts}, seed
        chosen += verdicts[0].verdict is VerdictKind.SATISFIED
    assert chosen >= 20


def test_conditions_meet_the_values() -> None:
    """A number's condition is about it or its neighbour; so is a text's, but for wildcards."""
    known = Known.of([Send(kind="b", priority=7, headers={"seat_no": 127})])
    texts = [draw_selector_about(SeededChooser(seed), known, 0) for seed in range(500)]
    for value in ("126", "127", "128", "6", "7", "8"):
        assert any(text.endswith(f" {value}") for text in texts), value
    assert any("LIKE" in text and "%" in text for text in texts)
