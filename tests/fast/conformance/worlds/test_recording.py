"""What a history tells of an acknowledgement whose last message does not exist."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.history import Ack, Acknowledge, Nack, Result
from brokerproof.conformance.experiment.initial_state import state_of
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.worlds.port import Outcome, Recorder
from brokerproof.conformance.worlds.recording import record


@pytest.mark.parametrize(("said", "told"), [("ok", "unknown"), ("fail", "fail"), ("unknown", "unknown")])
@pytest.mark.parametrize(("kind", "event"), [("standard", Ack), ("poison", Nack)])
def test_who_says_that_all_is_well_need_not_have_settled_anything(
    said: Result, told: Result, kind: ops.AckType, event: type[Ack | Nack]
) -> None:
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client", "jms")]
    program = Program(FORMAT, BrokerSpec(), hosts, [LinkSpec("c0")], queues("q0"), [])
    state, recorder = state_of(program), Recorder()
    subscribe = ops.Subscribe(host="c0", dest="q0", consumer="c0/1", ack="individual")
    state.begun(subscribe)
    state.happened(subscribe)
    consumer = state.clients[0].consumers[0]
    for message in ("p0/1", "p0/2"):
        consumer.took(message)
    asked = ops.Acknowledge(host="c0", consumer="c0/1", messages=["p0/1"], type=kind, wrong_end=True)
    record(recorder, program.declared(), state, asked, Outcome(t0=0, t1=1, result=said))
    whole, settling = recorder.events
    assert isinstance(whole, Acknowledge)
    assert whole.result == said
    assert isinstance(settling, event)
    assert (settling.result, settling.messages) == (told, ["p0/1", "p0/2"])
