"""A real ActiveMQ as a supervised child: start, counters, clock, death, ports, other releases."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.chaos.brokers import stomp
from brokerproof.chaos.brokers.activemq import ActiveMQ
from brokerproof.chaos.brokers.beans import ActiveMQOptions, PolicyEntry, TimeStamping
from brokerproof.chaos.brokers.jars import BrokerJars, client_class_path, obtain
from brokerproof.chaos.brokers.jolokia import JolokiaFailed
from brokerproof.chaos.clocks import ClockFile, preload_active
from brokerproof.chaos.ports import LOOPBACK, free_ports, owns_listener
from brokerproof.chaos.preload import library_path
from brokerproof.chaos.processes import ProcessDiedAtStart, Supervisor, pid_alive
from brokerproof.chaos.tools import ToolFailed, ToolMissing, find_java, java_home
from tests.tools import not_run

pytestmark = pytest.mark.live
CONNECT = {"accept-version": "1.1", "host": "x"}
# A JMS client in a process of its own, as the suite's agent is: sends one message with a time to live and takes it.
JMS_CLIENT = """
import sys
import jpype
jpype.startJVM(sys.argv[1], "-XX:TieredStopAtLevel=1", "-Xmx64m", classpath=sys.argv[3:])
connection = jpype.JClass("org.apache.activemq.ActiveMQConnectionFactory")(sys.argv[2]).createConnection()
connection.start()
session = connection.createSession(False, 1)
queue = session.createQueue("J")
producer = session.createProducer(queue)
producer.setTimeToLive(60000)
producer.send(session.createTextMessage("hello"))
message = session.createConsumer(queue).receive(5000)
print(message.getText(), message.getJMSExpiration() - message.getJMSTimestamp())
connection.close()
"""


@pytest.fixture(scope="module")
def jars() -> BrokerJars:
    return _jars(None)


def _jars(version: str | None) -> BrokerJars:
    try:
        find_java()
        return obtain(version)
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path) as made:
        yield made


def _made(supervisor: Supervisor, jars: BrokerJars, **choices: object) -> ActiveMQ:
    try:
        return ActiveMQ(supervisor, jars, supervisor.folder / "broker", **choices)  # type: ignore[arg-type]
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))


def _send(broker: ActiveMQ, queue: str, **headers: str) -> None:
    with stomp.Line(broker.stomp_port, 5000) as line:
        line.send("CONNECT", CONNECT)
        line.receive("CONNECTED")
        line.send("SEND", {"destination": f"/queue/{queue}", "receipt": "r", **headers}, "body")
        line.receive("RECEIPT")


def _await_size(broker: ActiveMQ, queue: str, size: int, timeout_s: float = 5) -> dict[str, int]:
    deadline = time.monotonic() + timeout_s
    while (counters := broker.jolokia.queue_counters(queue))["size"] != size:
        assert time.monotonic() < deadline, counters
        time.sleep(0.01)
    return counters


def test_it_starts_counts_and_stops(supervisor: Supervisor, jars: BrokerJars) -> None:
    broker = _made(supervisor, jars)
    broker.start()
    assert broker.startup_ms < 30_000
    assert broker.jolokia.version() == jars.version
    assert broker.server.startswith("ActiveMQ/")
    for port in (broker.stomp_port, broker.openwire_port, broker.jolokia_port):
        assert owns_listener(broker.process.pid, port)
    zero = dict.fromkeys(("size", "in_flight", "enqueued", "dequeued", "dispatched", "expired"), 0)
    assert broker.jolokia.queue_counters("Q") == zero
    for _ in range(3):
        _send(broker, "Q")
    counters = broker.jolokia.queue_counters("Q")
    assert {name: counters[name] for name in zero} == {**zero, "size": 3, "enqueued": 3}
    assert counters["memory_bytes"] > 0
    assert broker.jolokia.broker_counters()["memory_limit_bytes"] == 64 * 1024 * 1024
    broker.jolokia.purge("Q")
    assert broker.jolokia.queue_counters("Q")["size"] == 0
    pid = broker.process.pid
    assert broker.stop() == 143
    assert not pid_alive(pid)
    with pytest.raises(JolokiaFailed):
        broker.jolokia.version()


def test_its_clock_is_skewed_and_steps_and_two_channels_say_so(
    supervisor: Supervisor, jars: BrokerJars, tmp_path: Path
) -> None:
    try:
        library_path()
    except ToolMissing as error:
        not_run(str(error))
    clock = ClockFile(tmp_path / "clock", 3_600_000)
    broker = _made(supervisor, jars, clock=clock)
    broker.start()
    assert preload_active(broker.process.pid)
    for offset_ms in (3_600_000, 7_200_000, -300_000):
        clock.set_offset_ms(offset_ms)
        assert stomp.clock(broker.stomp_port).agrees_with(offset_ms)
        assert broker.jolokia.clock().agrees_with(offset_ms)
        assert not stomp.clock(broker.stomp_port).agrees_with(0)


def test_an_unfaked_broker_has_no_skew(supervisor: Supervisor, jars: BrokerJars) -> None:
    broker = _made(supervisor, jars, management=False)
    broker.start()
    assert stomp.clock(broker.stomp_port).agrees_with(0)
    assert not preload_active(broker.process.pid)
    with pytest.raises(ValueError, match="without management"):
        broker.jolokia.version()


def test_the_options_reach_the_broker(supervisor: Supervisor, jars: BrokerJars) -> None:
    """Memory limits, expiry scan, dead letters, scheduler and time-stamping plug-in, each by its effect."""
    options = ActiveMQOptions(
        scheduler=True,
        timestamping=TimeStamping(ttl_ceiling_ms=50),
        memory_limit_bytes=9_000_000,
        policies=(PolicyEntry(expire_period_ms=100, memory_limit_bytes=1_000_000),),
    )
    broker = _made(supervisor, jars, options=options)
    broker.start()
    _send(broker, "D", AMQ_SCHEDULED_DELAY="300")
    assert broker.jolokia.queue_counters("D")["size"] == 0
    far_ms = int(time.time() * 1000) + 60_000
    _send(broker, "E", expires=str(far_ms), timestamp=str(far_ms - 60_000))  # lowered to 50 ms by the plug-in
    expired = _await_size(broker, "ActiveMQ.DLQ", 1)
    assert expired["enqueued"] == 1
    assert expired["memory_limit_bytes"] == 1_000_000
    assert broker.jolokia.broker_counters()["memory_limit_bytes"] == 9_000_000
    _await_size(broker, "D", 1)


def test_killed_and_started_again_it_keeps_port_and_persistent_messages(
    supervisor: Supervisor, jars: BrokerJars
) -> None:
    broker = _made(supervisor, jars, options=ActiveMQOptions(store="kahadb"))
    broker.start()
    port = broker.stomp_port
    _send(broker, "P", persistent="true")
    assert broker.kill() == -9
    broker.start()
    assert broker.stomp_port == port
    assert _await_size(broker, "P", 1)["size"] == 1


def test_paused_it_does_not_answer_and_resumed_it_does(supervisor: Supervisor, jars: BrokerJars) -> None:
    broker = _made(supervisor, jars, management=False)
    broker.start()
    broker.process.pause()
    assert stomp.handshake(broker.stomp_port, timeout_ms=100) is None
    broker.process.resume()
    assert stomp.handshake(broker.stomp_port) == broker.server


def test_a_broker_that_dies_at_start_is_one_error_with_its_cause_and_no_process_is_left(
    supervisor: Supervisor, jars: BrokerJars
) -> None:
    options = ActiveMQOptions(policies=(PolicyEntry(attributes={"noSuchThing": "1"}),))
    broker = _made(supervisor, jars, options=options, management=False)
    with pytest.raises(ProcessDiedAtStart, match="exit code 1") as caught:
        broker.start()
    assert "noSuchThing" in caught.value.cause
    assert caught.value.log_tail
    assert [process.pid for process in supervisor.processes if pid_alive(process.pid)] == []


@pytest.mark.parametrize("taken", ["openwire_port", "jolokia_port"])
def test_a_taken_port_leads_to_a_start_on_others(supervisor: Supervisor, jars: BrokerJars, taken: str) -> None:
    broker = _made(supervisor, jars)
    broker.stomp_port, broker.openwire_port, broker.jolokia_port = free_ports(3)
    with socket.create_server((LOOPBACK, getattr(broker, taken))) as other:
        broker.start()
        assert getattr(broker, taken) != other.getsockname()[1]
        assert owns_listener(broker.process.pid, getattr(broker, taken))
    assert sum(pid_alive(process.pid) for process in supervisor.processes) == 1


@pytest.mark.parametrize("version", [None, "5.12.3"])
def test_the_client_class_path_works_in_a_jvm_of_its_own(supervisor: Supervisor, version: str | None) -> None:
    if importlib.util.find_spec("jpype") is None:
        not_run("JPype is not installed: pip install 'brokerproof[jms]'")
    broker = _made(supervisor, _jars(version), management=False)
    broker.start()
    library = java_home(find_java()) / "lib" / "server" / "libjvm.so"
    url = f"tcp://{LOOPBACK}:{broker.openwire_port}"
    argv = [sys.executable, "-c", JMS_CLIENT, str(library), url, *map(str, client_class_path(version))]
    env = {name: value for name, value in os.environ.items() if name != "CLASSPATH"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert done.stdout == "hello 60000\n", done.stderr


def test_an_older_release_says_its_version_by_its_bean_only(supervisor: Supervisor) -> None:
    """5.12.3 answers with a template that nobody filled in."""
    broker = _made(supervisor, _jars("5.12.3"), options=ActiveMQOptions(scheduler=True))
    broker.start()
    assert broker.server == "ActiveMQ/${project.version}"
    assert broker.jolokia.version() == "5.12.3"


def test_a_broker_that_has_crashed_says_where(supervisor: Supervisor, jars: BrokerJars) -> None:
    """The report of a JVM is longer than the end of a log that an error shows, and what matters stands at its head."""
    broker = _made(supervisor, jars)
    broker.start()
    assert "still runs; end of its log:" in broker.process.state()
    broker.process.signal(signal.SIGSEGV)
    assert broker.process.wait(30_000) == -signal.SIGABRT
    with pytest.raises(JolokiaFailed) as caught:
        broker.jolokia.queue_counters("Q")
    text = str(caught.value)
    assert "ended with exit code -6; its crash report:" in text
    assert text.count("SIGSEGV") == 1
    assert "# Problematic frame:" in text
