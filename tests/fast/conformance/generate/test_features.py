"""What programs are about: every feature has what it needs, and leaves its trace."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.chooser import SeededChooser
from brokerproof.conformance.experiment.history import (
    Arrive,
    Browse,
    Commit,
    Event,
    Fault,
    Operate,
    Probe,
    Send,
    Subscribe,
)
from brokerproof.conformance.experiment.steps import REGISTRY
from brokerproof.conformance.experiment.steps.base import FEATURES
from brokerproof.conformance.generate import features
from brokerproof.conformance.generate.features import (
    MIXES,
    OFFERED,
    TEMPLATES_OF,
    draw_features,
    draw_template,
    fit_frame,
)
from brokerproof.conformance.generate.programs import draw_frame, program_for_seed, shape_of
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld


def test_every_feature_has_a_template() -> None:
    assert set(TEMPLATES_OF) == set(FEATURES)
    assert set(OFFERED) <= set(FEATURES)
    steps = {step.__struct_config__.tag for step in REGISTRY}
    assert {name for mix in MIXES.values() for name in mix} <= steps


def test_about_half_of_all_programs_are_about_none() -> None:
    drawn = [draw_features(SeededChooser(seed)) for seed in range(1000)]
    plain = sum(not found for found in drawn)
    assert 400 < plain < 600
    assert max(len(found) for found in drawn) == 2
    assert {feature for found in drawn for feature in found} == set(OFFERED)


@pytest.mark.parametrize("feature", FEATURES)
def test_templates_are_made_of_steps_with_what_they_are_about(feature: str) -> None:
    for seed in range(30):
        chooser = SeededChooser(seed)
        frame = fit_frame(draw_frame(chooser), (feature,))
        steps = draw_template(chooser, shape_of(frame, (feature,)))
        assert steps
        assert all(type(step) in REGISTRY for step in steps)


def is_trace(feature: str, event: Event) -> bool:
    """Whether an event shows that the feature really was used."""
    if isinstance(event, Subscribe) and event.result == "ok":
        used = {
            "selectors": bool(event.selector),
            "exclusive": event.exclusive,
            "wildcards": event.dest.endswith("*"),
            "durables": bool(event.durable),
            "pull": event.prefetch == 0,
        }
        return used.get(feature, False)
    if isinstance(event, Arrive):
        return (feature == "groups" and event.group is not None) or (feature == "priorities" and event.priority == 9)
    if isinstance(event, Send):
        return feature == "lifetimes" and (event.life_ms > 0 or event.deliver_at_ms is not None)
    if isinstance(event, Fault):
        return feature == "restarts" and event.fault == "restart" and bool(event.evidence)
    if isinstance(event, Commit):
        return feature == "transactions" and event.result == "ok"
    if isinstance(event, Operate):
        return feature == "operator" and event.result == "ok"
    if isinstance(event, Probe):
        return feature == "raw-peers" and event.said.hello_ns is not None
    return isinstance(event, Browse) and feature == "browsers" and bool(event.messages)


@pytest.mark.parametrize("feature", OFFERED)
def test_programs_about_a_feature_use_it(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "OFFERED", (feature,))
    monkeypatch.setattr(features, "ONE_PERCENT", 100)
    used = 0
    for seed in range(12):
        history = SimulatedWorld(seed=seed).run(program_for_seed(seed))
        used += any(is_trace(feature, event) for event in history.events)
    assert used >= 6
