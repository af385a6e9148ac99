"""Files of version 1 are read as version 2; and what version 2 says beyond version 1."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec
from brokerproof.conformance.experiment.destinations import Destination, queues, topics
from brokerproof.conformance.experiment.history import Connect, Consume, History, Probe, Send, Skipped
from brokerproof.conformance.experiment.history_file import HistoryError, parse_history
from brokerproof.conformance.experiment.program import FORMAT, Program, ProgramError, parse_program
from brokerproof.conformance.experiment.steps import Probe as ProbeStep
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.experiment.traits import JMS, STOMP
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.experiment.versions import destinations_named
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

OLD_PROGRAM: dict[str, Any] = {
    "format": "brokerproof/program/1",
    "broker": {"destinations": [{"match": "q0", "expire_period_ms": 7}]},
    "hosts": [{"name": "b", "role": "broker"}, {"name": "c0", "role": "client"}],
    "dests": ["q0", "t0", "~c0", "q0,t1", "tv0", "A.tv0"],
    "steps": [{"do": "visit", "ms": 10}, {"do": "send", "ttl_ms": 5}],
}
OLD_HISTORY: list[dict[str, Any]] = [
    {
        "format": "brokerproof/history/1",
        "broker": "x",
        "declared": {"destinations": [{"match": ">"}], "copies": True, "temporaries": True},
    },
    {"seq": 1, "t0": 0, "t1": 0, "host": "c0", "kind": "connect", "result": "ok", "via": "jms", "expiry_check": True},
    {"seq": 2, "t0": 0, "t1": 0, "host": "c1", "kind": "connect", "result": "ok"},
    {"seq": 3, "t0": 1, "t1": 2, "host": "c0", "kind": "send", "result": "ok", "message": "c0/1", "dest": "t0"},
    {"seq": 4, "t0": 1, "t1": 2, "host": "c0", "kind": "send", "result": "ok", "message": "c0/2", "dest": "q0,q1"},
    {
        "seq": 5,
        "t0": 3,
        "t1": 4,
        "host": "stranger",
        "kind": "visit",
        "said": {"via": "stomp", "hello": "good", "offer_ms": [0, 0]},
        "heard": {},
    },
    {"seq": 6, "t0": 5, "t1": 5, "host": "", "kind": "skipped", "step": {"do": "visit"}},
]


def lines(events: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def test_a_program_of_version_1_is_one_of_version_2() -> None:
    program = parse_program(json.dumps(OLD_PROGRAM).encode())
    assert program.format == FORMAT
    assert program.broker.policies[0].expire_period_ms == 7
    assert program.steps == [ProbeStep(ms=10), SendStep(ttl_ms=5)]
    assert program.destinations == [
        *queues("q0"),
        *topics("t0"),
        Destination("~c0", "temporary", host="c0"),
        Destination("q0,t1", "composite", of=[*queues("q0"), *topics("t1")]),
        Destination("tv0", "virtual", of=queues("A.tv0")),
        *queues("A.tv0"),
    ]
    assert parse_program(program.encode()) == program


def test_version_1_has_a_queue_unless_it_says_otherwise() -> None:
    del (old := dict(OLD_PROGRAM))["dests"]
    assert parse_program(json.dumps(old).encode()).destinations == queues("q0")


@pytest.mark.parametrize("broken", [{"steps": ["send"]}, {"broker": []}, {"hosts": 5}, {"dests": [5]}, {"dest": []}])
def test_a_broken_program_of_version_1_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(ProgramError, match="p: not a brokerproof/program/2 program"):
        parse_program(json.dumps(OLD_PROGRAM | broken).encode(), "p")


def test_version_2_does_not_take_the_words_of_version_1() -> None:
    for old in ({"dests": ["q0"]}, {"broker": {"destinations": []}}, {"steps": [{"do": "visit"}]}):
        fields = {"format": FORMAT, "broker": {}, "hosts": OLD_PROGRAM["hosts"], **old}
        with pytest.raises(ProgramError):
            parse_program(json.dumps(fields).encode())


def test_a_history_of_version_1_is_one_of_version_2() -> None:
    history = parse_history(lines(OLD_HISTORY))
    jms, stomp, _, _, probe, skipped = history.events
    assert isinstance(jms, Connect)
    assert isinstance(stomp, Connect)
    assert (jms.traits, stomp.traits) == (JMS, STOMP)
    assert isinstance(probe, Probe)
    assert isinstance(skipped, Skipped)
    assert skipped.step == {"do": "probe"}
    assert history.header.destinations == destinations_named(["t0", "q0,q1"])
    assert len(history.header.declared.policies) == 1
    assert parse_history(history.encode()).encode() == history.encode()


def test_a_broken_line_of_version_1_is_shown_as_it_reads() -> None:
    for line in (b'{"kind": "visit"', b'["connect"]', b'{"kind": "visit", "seq": 1}'):
        with pytest.raises(HistoryError, match="h:2: not an event"):
            parse_history(lines(OLD_HISTORY[:1]) + line, "h")
    with pytest.raises(HistoryError, match="h:1: not a history header"):
        parse_history(lines([OLD_HISTORY[0] | {"declared": []}]), "h")


def test_a_queue_named_tasks_is_a_queue_and_its_losses_are_seen() -> None:
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client")]
    history = SimulatedWorld().run(
        Program(FORMAT, BrokerSpec(), hosts, destinations=queues("tasks"), steps=[SendStep()])
    )
    assert history.header.destinations == queues("tasks")
    assert _verdict(history) is VerdictKind.SATISFIED
    gone = [event for event in history.events if getattr(event, "message", "") != "p0/1" or isinstance(event, Send)]
    kept = [event for event in gone if "p0/1" not in getattr(event, "messages", [])]
    assert len(kept) < len(history.events)
    for number, event in enumerate(kept, start=1):
        event.seq = number
    assert _verdict(History(history.header, kept)) is VerdictKind.VIOLATED


def test_a_topic_may_be_called_anything() -> None:
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client")]
    history = SimulatedWorld().run(Program(FORMAT, BrokerSpec(), hosts, destinations=topics("q0"), steps=[SendStep()]))
    assert not [event for event in history.events if isinstance(event, Consume)], "nobody listened"
    assert _verdict(history) is not VerdictKind.VIOLATED


def _verdict(history: History) -> VerdictKind:
    (found,) = [one for one in judge_history(history) if one.requirement == "GEN-001"]
    return found.verdict


def test_an_agents_words_for_traits_are_those_of_a_history() -> None:
    assert msgspec.convert(msgspec.to_builtins(JMS), type(JMS)) == JMS
