"""Figures by message, asked by the stock Java client: a real ActiveMQ and the reference broker answer alike."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokerproof.chaos.brokers.jars import client_class_path
from brokerproof.chaos.processes import Supervisor
from brokerproof.chaos.tools import find_java, java_home
from tests.live.managed import Managed, activemq, reference
from tests.tools import not_run

pytestmark = pytest.mark.live

# Two messages and a consumer that holds one; then requests. Prints, per request, its answers: name -> (type, text).
CLIENT = """
import json, sys, jpype
jpype.startJVM(sys.argv[1], "-XX:TieredStopAtLevel=1", "-Xmx64m", classpath=sys.argv[4:])
factory = jpype.JClass("org.apache.activemq.ActiveMQConnectionFactory")(sys.argv[2])
connection = factory.createConnection()
connection.setClientID("cid")
connection.start()
session = connection.createSession(False, 2)
queue = session.createQueue("Q?consumer.prefetchSize=1")
producer = session.createProducer(session.createQueue("Q"))
for _ in range(2):
    producer.send(session.createTextMessage("hello"))
consumer = session.createConsumer(queue)
assert consumer.receive(5000) is not None
found = {}
for name in json.loads(sys.argv[3]):
    reply = session.createTemporaryQueue()
    answers = session.createConsumer(reply)
    request = session.createMessage()
    request.setJMSReplyTo(reply)
    request.setJMSCorrelationID("7")
    session.createProducer(session.createQueue(name)).send(request)
    found[name] = []
    while (answer := answers.receive(1000)) is not None:
        entries = {}
        names = answer.getMapNames()
        while names.hasMoreElements():
            key = names.nextElement()
            value = answer.getObject(key)
            kind = None if value is None else str(value.getClass().getSimpleName())
            entries[str(key)] = [kind, str(value)]
        entries["JMSCorrelationID"] = [None, str(answer.getJMSCorrelationID())]
        found[name].append(entries)
    answers.close()
print(json.dumps(found))
connection.close()
"""
BROKER = "ActiveMQ.Statistics.Broker"
QUEUE = "ActiveMQ.Statistics.Destination.Q"
NONE = "ActiveMQ.Statistics.Destination.NONE"
CONSUMERS = "ActiveMQ.Statistics.Subscription"
NAMES = [BROKER, QUEUE, NONE, CONSUMERS]
#: What ActiveMQ tells and ours does not.
LACKING = {
    QUEUE: {
        "averageEnqueueTime",
        "averageMessageSize",
        "maxEnqueueTime",
        "messagesCached",
        "minEnqueueTime",
        "producerCount",
    },
    CONSUMERS: {"dequeueCounter", "dispatchedCounter", "enqueueCounter"},
}
LACKING[BROKER] = LACKING[QUEUE] | {"dataDirectory", "openwire", "ssl", "stomp", "stomp+ssl", "vm"}
SAME = {
    QUEUE: {
        "JMSCorrelationID",
        "brokerName",
        "consumerCount",
        "dequeueCount",
        "destinationName",
        "dispatchCount",
        "enqueueCount",
        "expiredCount",
        "inflightCount",
        "memoryLimit",
        "memoryPercentUsage",
        "size",
    },
    CONSUMERS: {
        "JMSCorrelationID",
        "clientId",
        "destinationName",
        "dispatchedQueueSize",
        "exclusive",
        "maximumPendingMessageLimit",
        "prefetchSize",
        "retroactive",
        "slowConsumer",
    },
    # Not what is in flight: ActiveMQ counts its advisories.
    BROKER: {"brokerName", "memoryLimit", "size", "JMSCorrelationID"},
}

Answers = dict[str, list[dict[str, list[Any]]]]


def ask(port: int) -> Answers:
    library = java_home(find_java()) / "lib" / "server" / "libjvm.so"
    argv = [sys.executable, "-c", CLIENT, str(library), f"tcp://127.0.0.1:{port}", json.dumps(NAMES)]
    env = {name: value for name, value in os.environ.items() if name != "CLASSPATH"}
    done = subprocess.run(
        [*argv, *map(str, client_class_path(None))], capture_output=True, text=True, timeout=90, check=False, env=env
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: Answers = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Answers, Answers]]:
    if importlib.util.find_spec("jpype") is None:
        not_run("JPype is not installed: pip install 'brokerproof[jms]'")
    folder: Path = tmp_path_factory.mktemp("statistics")
    config = folder / "broker.toml"
    config.write_text("[broker]\nstatistics = true\n", encoding="utf-8")
    with Supervisor(folder) as supervisor:
        theirs = activemq(supervisor)
        ours: Managed = reference(supervisor, "--connector", "tcp://127.0.0.1:0", "--config", str(config))
        yield ask(theirs.openwire_port), ask(ours.stomp_port)


@pytest.mark.parametrize("name", [BROKER, QUEUE, CONSUMERS])
def test_answers_agree(answers: tuple[Answers, Answers], name: str) -> None:
    theirs, ours = (_of_q(found[name]) for found in answers)
    assert set(theirs) - set(ours) == LACKING[name]
    assert set(ours) <= set(theirs)
    kinds = [{entry: found[entry][0] for entry in ours} for found in (theirs, ours)]
    assert kinds[0] == kinds[1], "the same Java types"
    assert {entry: theirs[entry] for entry in SAME[name]} == {entry: ours[entry] for entry in SAME[name]}


def _of_q(found: list[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    """The answer that concerns Q, or the only one."""
    chosen = [one for one in found if one.get("destinationName", [None, "Q"])[1] in {"Q", "queue://Q"}]
    assert len(chosen) == 1, found
    return chosen[0]


def test_what_does_not_exist_is_not_answered(answers: tuple[Answers, Answers]) -> None:
    assert [found[NONE] for found in answers] == [[], []]
