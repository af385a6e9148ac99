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
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.requirements.catalogue import default_catalogue
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


def test_up_to_the_connection(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """IBM's client is got, told everything, and says that nobody listens."""
    try:
        class_path(read_profile(PROFILE))
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))
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
    try:
        path = class_path(read_profile(PROFILE))
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))
    done = subprocess.run([sys.executable, "-c", THROWN, path], check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["2053 MQRC_Q_FULL: jakarta.jms.JMSException: not sent", "None"], done.stderr
