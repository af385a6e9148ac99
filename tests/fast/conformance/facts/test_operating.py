"""What operators do to dead letters, played on the sound broker."""

from __future__ import annotations

import pytest

from brokerproof.conformance.experiment.configuration import BrokerSpec, DeadLetterSpec, HostSpec, PolicySpec
from brokerproof.conformance.experiment.destinations import Destination
from brokerproof.conformance.experiment.history import Arrive
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import Advance, AnyStep, Leave, Operate, Send, Settle, Subscribe
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.running.engine import run_program

HOSTS = [HostSpec("b", "broker"), HostSpec("c0", "client"), HostSpec("c1", "client")]


@pytest.mark.parametrize("via", ["stomp", "jms"])
@pytest.mark.parametrize(
    ("letters", "source"),
    [
        ("ActiveMQ.DLQ.Queue.q1", Destination("q1", "queue")),
        ("ActiveMQ.DLQ.Topic.t0", Destination("t0", "topic")),
    ],
)
def test_dead_letters_that_are_moved_accuse_nobody(letters: str, source: Destination, via: str) -> None:
    policy = PolicySpec(dead_letter=DeadLetterSpec("individual"))
    there = [Destination("q0", "queue"), source, Destination(letters, "queue")]
    steps: list[AnyStep] = [
        Subscribe(dest=1, prefetch=1, durable="d1" if source.kind == "topic" else ""),
        *([Leave()] if source.kind == "topic" else [Send(dest=1)]),
        Send(dest=1, persistent=True, ttl_ms=500),
        Advance(ms=1000),
        Subscribe(dest=1, prefetch=1, durable="d1" if source.kind == "topic" else ""),
        Settle(),
        Operate(op="move", dest=2 if source.kind == "queue" else 1, to=0),
        Settle(),
    ]
    hosts = [HOSTS[0], *(HostSpec(one.name, "client", via=via) for one in HOSTS[1:])]
    result = run_program(
        Program(FORMAT, BrokerSpec(policies=[policy]), hosts, destinations=there, steps=steps), "moved"
    )
    assert result.history is not None
    came = [one for one in result.history.events if isinstance(one, Arrive) and one.dest == "q0"]
    assert [one.original_dest for one in came] == [letters]
    assert [one for one in result.verdicts if one.verdict is VerdictKind.VIOLATED] == []
