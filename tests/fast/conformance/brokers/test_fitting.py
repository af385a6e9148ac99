"""Random programs for a broker of which a profile says little."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from brokerproof.conformance.brokers.probing import Found
from brokerproof.conformance.brokers.profile import parse_profile
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, PolicySpec
from brokerproof.conformance.experiment.destinations import Destination
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import Restart
from brokerproof.conformance.generate.live import OWNERS, live_program

START = '[start]\ncommand = ["mybroker", "{settings}"]\n'
HEAD = 'format = "brokerproof/broker/1"\nname = "mine"\n'
OFFERED = ["nack", "persistent", "topics", "transactions", "ttl"]


def adapter(text: str) -> ProfileAdapter:
    """Over STOMP, with what it claims."""
    promises = f'[promises]\nprofiles = ["jms"]\ncapabilities = {OFFERED}\n'
    tail = '[endpoints]\nstomp = { url = "stomp://127.0.0.1:1" }\n' + promises
    return ProfileAdapter(parse_profile(HEAD + text + tail, "mine.toml", Path("/nowhere")))


@pytest.fixture(autouse=True)
def probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProfileAdapter, "found", lambda _: Found(OFFERED, stamps=False))


def restarts(program: Program) -> list[str]:
    return [step.how for step in program.each_step() if isinstance(step, Restart)]


@pytest.mark.parametrize(("words", "allowed"), [("", set()), ("true", {"stop", "kill"}), ('"stop"', {"stop"})])
def test_nearly_every_random_program_fits(words: str, allowed: set[str]) -> None:
    mine = adapter(START + (f"restart = {words}\n" if words else ""))
    seeds = range(OWNERS - 1, 100 * OWNERS, OWNERS)
    fit = [mine.cast(mine.fitted(live_program(seed), seed)) for seed in seeds]
    assert sum(not mine.refusal(program) for program in fit) >= 95
    with_one = [program for program in fit if restarts(program)]
    assert {how for program in with_one for how in restarts(program)} == allowed
    assert not allowed or len(with_one) >= 40
    assert all(program.broker.persistent for program in with_one if len(restarts(program)) == 1) or not allowed


def test_what_a_broker_lacks_is_something_plain() -> None:
    part = Destination("q0", "queue")
    destinations = [
        part,
        Destination("q0,q0", "composite", of=[part, part]),
        Destination("tv0", "virtual", of=[Destination("A.tv0", "queue")]),
        Destination("~c0", "temporary", host="c0"),
        Destination("t0", "topic"),
    ]
    policies = [PolicySpec("q0", memory_limit_bytes=9, queue_prefetch=5), PolicySpec(">", max_page_size=7)]
    broker = BrokerSpec(memory_limit_bytes=9, store_limit_bytes=9, policies=policies)
    program = msgspec.structs.replace(live_program(OWNERS - 1), broker=broker, destinations=destinations)
    hosts = [
        msgspec.structs.replace(host, clock=ClockSpec(5) if host.role == "broker" else host.clock)
        for host in program.hosts
    ]
    program = msgspec.structs.replace(program, hosts=hosts)
    plain = adapter(START).fitted(program, 1)
    told = [("q0", "queue"), ("composite-1", "queue"), ("tv0", "topic"), ("temporary-3", "queue"), ("t0", "topic")]
    assert [(one.name, one.kind) for one in plain.destinations] == told
    assert (plain.broker.memory_limit_bytes, plain.broker.policies) == (
        BrokerSpec().memory_limit_bytes,
        BrokerSpec().policies,
    )
    assert plain.broker_host().clock == ClockSpec()
    settings = '[settings]\nstore_limit_bytes = ["-s", "{value}"]\nqueue_prefetch = ["-p", "{match}={value}"]\n'
    able = adapter(f'{START}clock = "libfaketime"\n{settings}').fitted(program, 1)
    assert (able.broker.store_limit_bytes, able.broker.memory_limit_bytes) == (9, BrokerSpec().memory_limit_bytes)
    assert able.broker.policies == [PolicySpec("q0", queue_prefetch=5)]
    assert able.broker_host().clock == ClockSpec(5)
    nowhere = settings.replace("{match}={value}", "{value}")
    assert adapter(f"{START}{nowhere}").fitted(program, 1).broker.policies == BrokerSpec().policies


def test_what_an_operator_tells_a_broker_stays() -> None:
    """No setting has a word for it (MQSC commands, which its operator gives before the program)."""
    program = live_program(OWNERS - 1)
    program = msgspec.structs.replace(program, broker=BrokerSpec(mqsc=["DEFINE QLOCAL('q0')"]))
    operator = '[operator]\ncommand = ["tell"]\n'
    assert adapter(START + operator).fitted(program, 1).broker.mqsc == program.broker.mqsc
    assert adapter(START).fitted(program, 1).broker.mqsc == []
