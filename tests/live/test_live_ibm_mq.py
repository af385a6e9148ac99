"""The profile of a real queue manager: IBM's client up to the connection, and the reference broker in its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from brokerproof.chaos.ports import free_ports
from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.conformance.brokers import HERE
from brokerproof.conformance.brokers.class_path import class_path
from brokerproof.conformance.brokers.profile import (
    At,
    Endpoints,
    Located,
    Names,
    OperatorAt,
    Ready,
    Start,
    StompAt,
    read_profile,
)
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.cli import main
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.exits import OK
from brokerproof.conformance.experiment.steps import Send
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.rules.delay_resolved import THROWS
from brokerproof.conformance.running.live import run_all
from tests.tools import not_run

pytestmark = pytest.mark.live

PROFILE = HERE / "ibm-mq.toml"
VARIABLES = {"MQ_QUEUE_MANAGER": "QM1", "MQ_CHANNEL": "DEV.APP.SVRCONN", "MQ_USER": "app", "MQ_PASSWORD": "secret"}
SERVER = "{python} -m brokerproof.reference_broker.server --config {here}/broker.toml --port {port.stomp}"
BROKER = """[broker]
generation.delay = "ibm-mq"
mqsc = ["ALTER QMGR DEADQ('ActiveMQ.DLQ')"]
"""
#: What a sender throws, in a Java machine of its own.
THROWN = """import sys, jpype
from brokerproof.conformance.agents.java import reason_of
jpype.startJVM(classpath=sys.argv[1].split(":"))
for number in (2053, 2009):
    thrown = jpype.JClass("jakarta.jms.JMSException")("not sent")
    thrown.setLinkedException(jpype.JClass("com.ibm.mq.MQException")(2, number, None))
    found = reason_of(thrown)
    print(found and found.text)
"""
#: What is told of the calls of producers of IBM's client that refuse one of them. Only the connection is not its own.
CALLED = """import sys, jpype
from types import SimpleNamespace
from brokerproof.conformance.agents.java import Wire
from brokerproof.conformance.agents.java_provider import ProviderLibrary
from brokerproof.conformance.agents.protocol import Called
from brokerproof.conformance.agents.provider import Provider
from brokerproof.conformance.experiment.operations import Send
jpype.startJVM(classpath=sys.argv[1].split(":"))
JMS = "com.ibm.msg.client.jakarta.jms."
cause = jpype.JClass("com.ibm.mq.MQException")(2, 2013, None)
class Producer:
    life = delay = 0
    def __init__(self, kind):
        self.kind = kind
    def look(self, life, delay):
        if 0 < life < delay:
            if self.kind == "simplified":
                raise jpype.JClass(JMS + "DetailedJMSRuntimeException")("no", "1", "", "", {}, cause)
            thrown = jpype.JClass(JMS + "DetailedJMSException")("no", "1", "", "", {})
            thrown.setLinkedException(cause)
            raise thrown
        self.life, self.delay = life, delay
    def setTimeToLive(self, ms):
        self.look(ms, self.delay)
    def setDeliveryDelay(self, ms):
        self.look(self.life, ms)
    def getTimeToLive(self):
        return self.life
    def getDeliveryDelay(self):
        return self.delay
    def __getattr__(self, name):
        return lambda *_: None
def session(kind):
    return SimpleNamespace(createQueue=str, createProducer=lambda *_: Producer(kind), close=lambda: None)
library = ProviderLibrary(Provider(factory="", facade="context"))
wire = Wire(SimpleNamespace(createContext=lambda _: session("simplified")))
wire.other = SimpleNamespace(createSession=lambda *_: session("classic"))
for calls in ("classic life delay send", "simplified delay life send", "simplified delay send life"):
    called = Called()
    library.calling(wire, Send(dest="queue://q0", message="p0/1", ttl_ms=9, delay_ms=10, calls=calls), called)(None)
    told = [(call, thrown.partition(": j")[0].partition(": c")[0]) for call, _, thrown in called.calls]
    print(told, called.ttl_ms, called.delay_ms)
"""
#: A program each, and what it must show. What concerns the queue manager itself is left out, as on a real one.
PLAYED = {
    "mq-table-of-refusals": ("DLY-049",),
    "mq-refuses-what-cannot-be-delayed": ("DLY-039",),
    "mq-target-inhibited-at-the-release": ("DLY-049",),
    "mq-refuses-while-put-is-disabled": ("DLY-049",),
    "mq-endings-of-a-release": ("DLY-032", "DLY-049"),
    "mq-no-room-on-either-queue": ("DLY-032", "DLY-049"),
    "mq-publications-on-the-staging-queue": ("DLY-020",),
    "mq-taken-off-the-staging-queue": ("DLY-020", "DLY-049"),
    "mq-cap-on-expiry": ("DLY-006",),
    "live-delay": ("DLY-001",),
    "live-delay-ttl": ("DLY-006",),
}


def instead(folder: Path) -> ProfileAdapter:
    """The profile with the reference broker, its ways in and its operator for those of a queue manager."""
    (folder / "broker.toml").write_text(BROKER, encoding="utf-8")
    profile = read_profile(PROFILE).profile
    assert profile.operator is not None
    told = msgspec.structs.replace(
        profile,
        start=Start(command=[*SERVER.split(), "--admin-port", "{port.admin}"], ready=Ready(log="listening on stomp")),
        endpoints=Endpoints(
            stomp=StompAt("stomp://127.0.0.1:{port.stomp}"), openwire=At("tcp://127.0.0.1:{port.stomp}")
        ),
        names=Names(),
        operator=OperatorAt(
            command=["{python}", "-m", "brokerproof", "mqsc", "--admin", "{port.admin}", "-"],
            queues=profile.operator.queues,
            after=[text.removesuffix(" PURGE") for text in profile.operator.after],
        ),
    )
    return ProfileAdapter(Located(told, str(PROFILE), folder))


def test_the_reference_broker_passes_its_programs(tmp_path: Path) -> None:
    adapter = instead(tmp_path)
    plan = [(name, adapter.cast(programs()[name])) for name in PLAYED]
    refused = {name: adapter.refusal(program) for name, program in plan if adapter.refusal(program)}
    assert not refused
    for result in run_all(adapter, plan, tuple(default_catalogue().select(None))):
        assert not result.problem, result.name
        assert not result.not_run, result.name
        found = {one.requirement: one for one in result.verdicts}
        assert [one.text for one in found.values() if one.verdict is VerdictKind.VIOLATED] == [], result.name
        kinds = [found[one].verdict for one in PLAYED[result.name]]
        assert kinds == [VerdictKind.SATISFIED] * len(kinds), (result.name, kinds)


def ibm_s_client() -> str:
    """The class path of IBM's client; not run where it cannot be had."""
    try:
        return class_path(read_profile(PROFILE))
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))


def with_ibm_s_client(script: str) -> subprocess.CompletedProcess[str]:
    """A script that is told the class path, in a process of its own."""
    argv = [sys.executable, "-c", script, ibm_s_client()]
    return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)


def test_up_to_the_connection(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """IBM's client is got, told everything, and says that nobody listens."""
    ibm_s_client()
    (port,) = free_ports(1)
    for name, value in {**VARIABLES, "MQ_HOST": "127.0.0.1", "MQ_PORT": str(port)}.items():
        monkeypatch.setenv(name, value)
    assert main(["profile", "check", str(PROFILE)]) != OK
    said = capfd.readouterr()
    assert "JMSWMQ0018: Failed to connect to queue manager 'QM1'" in said.out + said.err
    assert f"127.0.0.1({port})" in said.out + said.err
    assert "secret" not in said.out + said.err


def test_reasons_are_read_from_ibm_s_own_exceptions() -> None:
    """A refusal of a queue manager is one, though its client only throws; a broken connection is none."""
    done = with_ibm_s_client(THROWN)
    assert done.stdout.splitlines() == ["2053 MQRC_Q_FULL: jakarta.jms.JMSException: not sent", "None"], done.stderr


def test_calls_of_a_producer_are_told_with_ibm_s_reason_and_facade() -> None:
    """Which call was refused, by what its façade throws, and what the producer was left with."""
    done = with_ibm_s_client(CALLED)
    classic, simplified = (f"{name}: 2013 MQRC_EXPIRY_ERROR" for name in THROWS.values())
    assert done.stdout.splitlines() == [
        f"{[('life', ''), ('delay', classic), ('send', '')]} 9 0",
        f"{[('delay', ''), ('life', simplified), ('send', '')]} 0 10",
        f"{[('delay', ''), ('send', ''), ('life', simplified)]} 0 10",
    ], done.stderr


def test_a_real_queue_manager_is_asked_for_the_calls() -> None:
    adapter = ProfileAdapter(read_profile(PROFILE))
    program = adapter.cast(programs()["producer-calls-in-six-orders"])
    assert not adapter.refusal(program)
    assert sum(isinstance(step, Send) and bool(step.calls) for step in program.steps) == 17
