"""Programs in words: every step has some, and names agree with what really ran."""

from __future__ import annotations

import re

import msgspec
import pytest

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Phase, Send, Subscribe
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import REGISTRY, AnyStep
from brokerproof.conformance.experiment.steps.consume import Subscribe as SubscribeStep
from brokerproof.conformance.experiment.steps.fault import Resume
from brokerproof.conformance.experiment.steps.operation import Operate
from brokerproof.conformance.experiment.steps.protocol import Acknowledge
from brokerproof.conformance.experiment.steps.send import Send as SendStep
from brokerproof.conformance.experiment.steps.waiting import Counters
from brokerproof.conformance.experiment.versions import destinations_named
from brokerproof.conformance.generate.networks import without_network
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.running.engine import run_program
from brokerproof.reports.render.story import STEPS_SHOWN, WORDS, ordinal, tell
from tests.fast.reports.store import samples

DESTINATIONS = destinations_named(["q0", "~c0", "q0,t1", "t1", DEAD_LETTERS, "q2"])


def test_every_step_of_the_registry_has_words() -> None:
    assert sorted(WORDS) == sorted(str(step.__struct_config__.tag) for step in REGISTRY)


def test_a_program_reads_as_sentences() -> None:
    story = tell(samples.program())
    assert [step.text for step in story.steps] == [
        "c0 subscribes to q0 as c0/1",
        "p0 sends p0/1 to q0",
        "the wall clock of b jumps by +1 h",
        "the link of p0 stalls silently, towards the client",
        "c0/1 takes a message from q0",
        "c0/1 acknowledges everything up to its 1st unsettled message",
    ]
    assert story.steps[1].details == "time to live 2 min, delivery delay 1 s"
    assert story.steps[1].raw == '{"do":"send","ttl_ms":120000,"delay_ms":1000}'
    assert story.hosts[2] == (
        "c0",
        "client over JMS, link latency 500 µs, inactivity monitor: read 1 s, initial delay 500 ms",
        "right, drifting +100 ppm",
    )
    assert ("time-stamping plug-in", "futureOnly") in story.broker
    assert story.dests == [("q0", "queue"), ("t1", "topic")]


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (Counters(dest=1), "read the broker's figures for t1"),
        (Counters(dest=2), "read the broker's figures for q2"),
        (Operate(op="move", dest=1), "an operator moves what waits on q2 to q0"),
        (Acknowledge(type="individual", wrong_end=True), "{} individual for its 1st unsettled message"),
        (Acknowledge(type="poison", upto=1), "{} poison from its 1st to its 2nd unsettled message"),
    ],
)
def test_ordinals_mean_what_they_mean_to_a_world(step: AnyStep, text: str) -> None:
    """Temporary queues, several names in one and the dead-letter queue are no places that a step can mean."""
    program = msgspec.structs.replace(samples.program(), destinations=DESTINATIONS)
    told = tell(program.with_steps([SubscribeStep(host=1, ack="individual"), step])).steps[1]
    assert told.text == text.format("c0/1 sends an acknowledgement of type")


def test_an_impossible_step_says_so() -> None:
    story = tell(samples.program().with_steps([Resume()]))
    assert story.steps[0].impossible
    assert "skipped" in story.steps[0].text


def test_long_programs_are_cut_and_counted() -> None:
    story = tell(samples.program(STEPS_SHOWN))
    assert len(story.steps) == STEPS_SHOWN
    assert story.hidden == 6


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_any_program_can_be_told(first: int) -> None:
    for seed in range(first, first + 40):
        program = program_for_seed(seed)
        assert len(tell(program).steps) == len(program.steps)


def names_in_words(program: Program) -> set[str]:
    """Consumers and messages that the sentences name as new."""
    names = set()
    for step in tell(program).steps:
        one = re.search(r" (?:as|sends) (\w+/\d+)", step.text)
        many = re.search(r" sends \d+ messages, (\w+)/(\d+) to \w+/(\d+),", step.text)
        if many:
            names.update(f"{many[1]}/{number}" for number in range(int(many[2]), int(many[3]) + 1))
        elif one:
            names.add(f"{step.verb} {one[1]}" if step.verb == "subscribe" else one[1])
    return names


def names_in_history(program: Program) -> set[str]:
    """Consumers and messages that really came into being before the drain."""
    history = run_program(program, "told").history
    assert history is not None
    names = set()
    for event in history.events:
        if isinstance(event, Phase) and event.name == "drain":
            break
        if isinstance(event, Subscribe):
            names.add(f"subscribe {event.consumer}")
        elif isinstance(event, Send):
            names.add(event.message)
    return names


def test_names_are_those_of_the_run() -> None:
    """Without faults nothing happens that the words cannot foresee, so the names must be the very same."""
    checked = 0
    for seed in range(60):
        program = without_network(program_for_seed(seed))
        calm = [step for step in program.steps if type(step).__name__ in {"Send", "Subscribe", "Take", "Leave"}]
        # A text that is no selector ends the connection, and so do a send that is made again and a name in use.
        plain = [
            msgspec.structs.replace(step, selector="", durable="") if isinstance(step, SubscribeStep) else step
            for step in calm
        ]
        plain = [msgspec.structs.replace(step, again=False) if isinstance(step, SendStep) else step for step in plain]
        program = program.with_steps(plain)
        told = names_in_words(program)
        assert told == names_in_history(program), seed
        checked += len(told)
    assert checked > 300


@pytest.mark.parametrize(
    ("number", "word"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (13, "13th"), (22, "22nd")]
)
def test_ordinals(number: int, word: str) -> None:
    assert ordinal(number) == word
