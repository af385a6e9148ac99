"""Steps are total and normalise idempotently, in whatever state the world is."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment import traits
from brokerproof.conformance.experiment.chooser import RecordingChooser, ReplayChooser, SeededChooser
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import queues, topics
from brokerproof.conformance.experiment.history import Operate as Asked
from brokerproof.conformance.experiment.history import Skipped
from brokerproof.conformance.experiment.initial_state import state_of
from brokerproof.conformance.experiment.program import FORMAT, Program, parse_program
from brokerproof.conformance.experiment.state import ConsumerState
from brokerproof.conformance.experiment.steps import (
    FEATURES,
    REGISTRY,
    AnyStep,
    Begin,
    Nack,
    Operate,
    Send,
    Shape,
    Subscribe,
)
from brokerproof.conformance.experiment.steps.consume import acknowledged
from brokerproof.conformance.generate.programs import generate_program, program_for_seed
from brokerproof.conformance.generate.strategies import DrawingChooser
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from tests.tools import examples


def everything() -> Shape:
    """A shape that lets every field of every step be drawn."""
    return Shape(3, 3, 3, features=FEATURES, vias=["stomp", "jms", "jms"], sizes=[2048], counts=[3])


@pytest.mark.parametrize("kind", REGISTRY, ids=lambda kind: kind.__name__)
def test_normalise_is_idempotent_and_total(kind: type[AnyStep]) -> None:
    @settings(max_examples=examples(12), deadline=None)
    @given(st.integers(0, 1000), st.data())
    def check(seed: int, data: st.DataObject) -> None:
        program = program_for_seed(seed)
        world = SimulatedWorld()
        world.open(program)
        for step in program.steps[:15]:
            world.apply(step)
        step = kind.draw(DrawingChooser(data.draw), everything())
        concrete = step.normalise(world.state)
        if concrete is None:
            events = world.apply(step)  # type: ignore[arg-type]  # a step of the registry
            assert [type(event) for event in events] == [Skipped]
        else:
            assert concrete.normalise(world.state) == concrete
            assert type(concrete) is kind

    check()


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 10_000), st.data())
def test_any_subset_of_a_program_runs(seed: int, data: st.DataObject) -> None:
    program = program_for_seed(seed)
    kept = [step for step in program.steps if data.draw(st.booleans())]
    history = SimulatedWorld().run(program.with_steps(kept))
    assert [event.t1 for event in history.events] == sorted(event.t1 for event in history.events)


def test_recorded_choices_give_the_same_program() -> None:
    recorder = RecordingChooser(SeededChooser(42))
    program = generate_program(recorder)
    assert program == program_for_seed(42)
    assert generate_program(ReplayChooser(recorder.choices)) == program


def test_replay_survives_missing_choices() -> None:
    recorder = RecordingChooser(SeededChooser(42))
    generate_program(recorder)
    shorter = generate_program(ReplayChooser(recorder.choices[: len(recorder.choices) // 2]))
    assert parse_program(shorter.encode()) == shorter


def test_an_operator_gives_one_queue_a_limit_or_the_broker() -> None:
    step, hosts = Operate(op="limit", dest=1, limit_bytes=4096), [HostSpec("b", "broker")]
    for destinations, told in ((queues("q0"), ["q0"]), (topics("t0"), [""])):
        world = SimulatedWorld()
        world.open(Program(FORMAT, BrokerSpec(), hosts, destinations=destinations))
        events = world.apply(step)
        assert [event.dest for event in events if isinstance(event, Asked)] == told
        assert [event.dest for event in world.apply(Operate(op="limit")) if isinstance(event, Asked)] == [""]


@pytest.mark.parametrize(("scope", "tx"), [("connection", "c0/tx1"), ("session", "")])
def test_what_is_settled_is_part_of_transactions_that_cover_it(
    scope: Literal["connection", "session"], tx: str
) -> None:
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client")]
    state = state_of(Program(FORMAT, BrokerSpec(transacted_nacks=True), hosts, destinations=queues("q0")))
    client = state.clients[0]
    client.traits, client.transaction = msgspec.structs.replace(traits.STOMP, transaction_scope=scope), "c0/tx1"
    consumer = ConsumerState(client, Subscribe().resolve(state))
    consumer.unsettled = ["p0/1"]
    client.consumers.append(consumer)
    assert (Nack().resolve(state).tx, acknowledged(consumer, 0).tx) == (tx, tx)
    state.begun(acknowledged(consumer, 0))
    assert client.transacting is None  # it may take more meanwhile


def test_a_transaction_of_a_consumer_holds_what_that_consumer_settles() -> None:
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client", via="jms")]
    state = state_of(Program(FORMAT, BrokerSpec(), hosts, [LinkSpec("c0")], queues("q0"), [Begin()]))
    assert state.transacts
    client = state.clients[0]
    client.traits = msgspec.structs.replace(traits.JMS, transaction_scope="consumer")
    for ack in ("client", "client", "individual"):
        asked = Subscribe(ack=ack).resolve(state)
        state.begun(asked)
        consumer = ConsumerState(client, asked)
        consumer.unsettled = ["p0/1", "p0/2"]
        client.consumers.append(consumer)
    one, other, alone = client.consumers

    def begin() -> None:
        begun = Begin().resolve(state)
        state.begun(begun)
        state.happened(begun)

    begin()
    assert [acknowledged(each, 0).tx for each in (one, other, alone)] == ["c0/tx1", "c0/tx1", ""]
    state.begun(acknowledged(one, 0))
    one.unsettled = ["p0/3"]
    assert [acknowledged(each, 0).tx for each in (one, other)] == ["c0/tx1", ""]
    state.happened(ops.Abort(host="c0", tx="c0/tx1"))
    assert one.returned == ["p0/1", "p0/2"]
    begin()
    state.begun(Send(host=0, dest=0).resolve(state))
    assert acknowledged(other, 0).tx == ""
