"""Managed brokers for the live tests: a real ActiveMQ and the reference broker's server, under one supervisor."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from brokerproof.chaos.brokers import stomp
from brokerproof.chaos.brokers.activemq import ActiveMQ
from brokerproof.chaos.brokers.beans import ActiveMQOptions
from brokerproof.chaos.brokers.jars import obtain
from brokerproof.chaos.brokers.jolokia import Jolokia
from brokerproof.chaos.clocks import ClockFile, clock_environment
from brokerproof.chaos.processes import Process, Supervisor
from brokerproof.chaos.tools import ToolFailed, ToolMissing, find_java
from tests.tools import not_run

ROOT = Path(__file__).parents[2]
START_S = 20


@dataclass
class Managed:
    """A running broker: where it speaks STOMP, and its management."""

    name: str
    stomp_port: int
    jolokia: Jolokia
    process: Process
    openwire_port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.jolokia.port}/jolokia/"


def activemq(
    supervisor: Supervisor,
    *,
    version: str | None = None,
    options: ActiveMQOptions | None = None,
    clock: ClockFile | None = None,
) -> Managed:
    try:
        find_java()
        broker = ActiveMQ(supervisor, obtain(version), supervisor.folder / "amq", options=options, clock=clock)
        broker.start()
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))
    return Managed("activemq", broker.stomp_port, broker.jolokia, broker.process, broker.openwire_port)


def reference(supervisor: Supervisor, *argv: str, clock: ClockFile | None = None) -> Managed:
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    env = env if clock is None else clock_environment(clock, env)
    port = [] if "--connector" in argv else ["--port", "0"]
    command = [sys.executable, "-m", "brokerproof.reference_broker.server", *port, "--management-port", "0", *argv]
    process = supervisor.spawn("reference", command, env=env, cwd=ROOT, channel=True)
    deadline_ns = time.monotonic_ns() + START_S * 1_000_000_000
    lines = [process.channel.receive_line(deadline_ns).decode().strip() for _ in range(2)]
    assert lines[0].startswith("management on http://127.0.0.1:"), (lines, process.log_tail())
    management, listening = (int(line.rsplit(":", 1)[1]) for line in lines)
    return Managed("reference", listening, Jolokia(management), process)


class Line(stomp.Line):
    """A STOMP connection that waits for a receipt after every frame."""

    def __init__(self, broker: Managed, client_id: str) -> None:
        super().__init__(broker.stomp_port, 5000)
        self.send("CONNECT", {"accept-version": "1.1", "host": "x", "client-id": client_id})
        self.receive("CONNECTED")

    def ask(self, command: str, body: str = "", **headers: str) -> None:
        self.send(command, {"receipt": "r", **headers}, body)
        self.receive("RECEIPT")
