"""What programs are about: everything can be drawn, together with everything else, and leaves its trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

import msgspec
import pytest

from brokerproof.conformance.experiment.chooser import SeededChooser
from brokerproof.conformance.experiment.configuration import (
    BrokerSpec,
    ConnectorSpec,
    DeadLetterSpec,
    HostSpec,
    LinkSpec,
    PolicySpec,
    RedeliverySpec,
    TimeStampingSpec,
)
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import FEATURES, REGISTRY, Exhaust, Freeze, Reset, Send, Shape, Subscribe
from brokerproof.conformance.experiment.steps.selecting import NONSENSE, draw_nonsense, draw_selector
from brokerproof.conformance.facts.selectors import read
from brokerproof.conformance.generate.chaos import chaotic
from brokerproof.conformance.generate.features import TEMPLATES_OF
from brokerproof.conformance.generate.frame import GENERATIONS, IMPLIED, MEMORY_GENERATIONS, SETTINGS, draw_frame
from brokerproof.conformance.generate.networks import FEATURE
from brokerproof.conformance.generate.programs import draw_features, generate_program, program_for_seed, shape_of
from brokerproof.conformance.generate.templates import TEMPLATES
from brokerproof.reference_broker.core.config import GENERATIONS as KNOWN_GENERATIONS

SEEDS = range(1500)
#: What no program draws: names are the frame's own, and what is equal everywhere.
NEVER_DRAWN = {"name", "role", "client", "format", "via", "host", "match"}


@pytest.fixture(scope="module")
def drawn() -> list[Program]:
    return [program_for_seed(seed) for seed in SEEDS]


@cache
def defaults_of(kind: type[msgspec.Struct]) -> list[tuple[str, object]]:
    """Each field with its default."""
    return [
        (field.name, field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory())
        for field in msgspec.structs.fields(kind)
    ]


def fields_set(found: object) -> Iterator[tuple[str, str]]:
    """(kind of data, field) wherever a value differs from the default."""
    if isinstance(found, list | tuple):
        for one in found:
            yield from fields_set(one)
    elif isinstance(found, msgspec.Struct):
        kind = type(found)
        for name, default in defaults_of(kind):
            value = getattr(found, name)
            if value != default:
                yield kind.__name__, name
            if isinstance(value, list | tuple | msgspec.Struct):
                yield from fields_set(value)


def test_every_field_of_steps_and_settings_is_drawn(drawn: list[Program]) -> None:
    faulty = [chaotic(program, "cruel", seed) for seed, program in enumerate(drawn[:100])]
    seen = {pair for program in [*drawn, *faulty] for pair in fields_set(program)}
    kinds: tuple[type[msgspec.Struct], ...] = (
        *REGISTRY, BrokerSpec, PolicySpec, DeadLetterSpec, RedeliverySpec, TimeStampingSpec, ConnectorSpec, HostSpec,
        LinkSpec,
    )  # fmt: skip
    wanted = {(kind.__name__, name) for kind in kinds for name in kind.__struct_fields__ if name not in NEVER_DRAWN}
    assert sorted(wanted - seen) == []


def test_every_generation_is_drawn(drawn: list[Program]) -> None:
    seen = {pair for program in drawn for pair in program.broker.generation.items()}
    others = {(area, name) for area, names in KNOWN_GENERATIONS.items() for name in names[1:]} - {("delay", "ibm-mq")}
    assert others - seen == set()
    early = {("in-flight", "assigned")}
    assert {("memory", name) for name in MEMORY_GENERATIONS} | set(GENERATIONS.items()) | early == others


def test_any_number_of_features_meets() -> None:
    found = [draw_features(SeededChooser(seed)) for seed in range(3000)]
    everything = (*FEATURES, *SETTINGS)
    assert min(len(one) for one in found) <= 2
    assert max(len(one) for one in found) >= len(everything) // 2
    pairs = {(one, other) for features in found for one in features for other in features}
    assert [(one, other) for one in everything for other in everything if (one, other) not in pairs] == []


def test_features_are_known_where_they_are_named() -> None:
    everything = {*FEATURES, *SETTINGS}
    named = {step.feature for step in REGISTRY} | set(TEMPLATES_OF) | set(TEMPLATES.values()) | set(IMPLIED)
    assert named - {"", FEATURE, Exhaust.feature, Reset.feature, Freeze.feature} <= everything
    assert {needed for wanted in IMPLIED.values() for needed in wanted} <= everything


@pytest.mark.parametrize("feature", TEMPLATES_OF)
def test_templates_are_made_of_steps(feature: str) -> None:
    features = (feature, *IMPLIED.get(feature, ()))
    for seed in range(30):
        chooser = SeededChooser(seed)
        shape = shape_of(draw_frame(chooser, features), features)
        for template in TEMPLATES_OF[feature]:
            steps = template(chooser, shape)
            assert steps
            assert all(type(step) in REGISTRY for step in steps)


def test_amounts_are_those_of_the_program_again(drawn: list[Program]) -> None:
    """A time to live that is an earlier wait, or a millisecond beside it, in every tenth program that has both."""
    near = both = 0
    for program in drawn:
        steps = json.loads(msgspec.json.encode(program.steps))
        waits = {step.get("ms", 0) for step in steps if step["do"] == "advance"}
        lives = {step["ttl_ms"] for step in steps if step["do"] == "send" and step.get("ttl_ms", 0) > 1}
        both += bool(waits and lives)
        near += any(life + more in waits for life in lives for more in (-1, 0, 1))
    assert both > 100
    assert near > both // 10


def test_selectors_can_be_judged_and_some_refuse() -> None:
    texts = [draw_selector(SeededChooser(seed)) for seed in range(400)]
    conditions = [read(text) for text in texts]
    assert None not in conditions
    words = ("AND", "OR", "NOT", "LIKE", "IN", "BETWEEN", "IS", "JMSPriority >", "<>")
    assert [word for word in words if not any(word in text for text in texts)] == []
    assert {draw_nonsense(SeededChooser(seed)) for seed in range(200)} == set(NONSENSE)
    assert [text for text in NONSENSE if read(text) is not None] == []


def test_a_step_draws_only_what_its_features_allow() -> None:
    plain, everything = Shape(2, 2, 2), Shape(2, 2, 2, features=FEATURES, vias=["stomp", "jms"])
    asked = ("ttl_ms", "delay_ms", "kind", "group", "life_ms", "forged", "network", "again")
    for seed in range(200):
        send, subscribe = Send.draw(SeededChooser(seed), plain), Subscribe.draw(SeededChooser(seed), plain)
        assert not any(getattr(send, name) for name in asked)
        assert not any((subscribe.selector, subscribe.durable, subscribe.wild, subscribe.browser))
    rich = [Send.draw(SeededChooser(seed), everything) for seed in range(400)]
    assert [name for name in asked if not any(getattr(send, name) for send in rich)] == []


def test_a_program_is_made_of_its_choices_alone() -> None:
    assert generate_program(SeededChooser(11)) == generate_program(SeededChooser(11)) == program_for_seed(11)
