"""ActiveMQ Classic as a supervised child: private folder, loopback ports, its own clock, counters through Jolokia.

Decides: how a broker is started and when it serves, dies, or must be started again on other ports.
Rules: ready means that this very process listens on its ports, a STOMP answer and, with management, an answer of the
agent; a start whose log says that an address is in use is tried again with new ports; a broker that dies at start is
one error with the end of its log, and no process is left. It needs no root, no scripts of the package and no file
outside its folder.
Known exceptions: exit code 143 is a normal end after SIGTERM; the log often lacks the lines of the shutdown; the
agent's jar comes from Maven only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from brokerproof.chaos.brokers.beans import ActiveMQOptions, broker_xml
from brokerproof.chaos.brokers.jars import BrokerJars, jolokia_agent
from brokerproof.chaos.brokers.jolokia import Jolokia, JolokiaFailed
from brokerproof.chaos.brokers.stomp import handshake
from brokerproof.chaos.clocks import ClockFile, RatedClock, clock_environment, scrubbed
from brokerproof.chaos.ports import LOOPBACK, free_ports, owns_listener, says_port_in_use
from brokerproof.chaos.processes import (
    GRACE_MS,
    READY_TIMEOUT_MS,
    WHOLE_LOG_BYTES,
    Process,
    ProcessDiedAtStart,
    Supervisor,
)
from brokerproof.chaos.tools import find_java

_START_TRIES = 3
# Variables through which a machine's own settings would reach into our JVM.
_FOREIGN = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH")
_JUL = """\
handlers=java.util.logging.ConsoleHandler
.level=INFO
java.util.logging.ConsoleHandler.level=ALL
java.util.logging.ConsoleHandler.formatter=java.util.logging.SimpleFormatter
java.util.logging.SimpleFormatter.format=%1$tFT%1$tT.%1$tL %4$s %3$s %5$s%6$s%n
"""
_LOG4J = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c %m%n
"""


class ActiveMQ:
    """One broker instance. `start` may be called again after `stop` or `kill`: same folder, same ports, same clock."""

    def __init__(
        self,
        supervisor: Supervisor,
        jars: BrokerJars,
        folder: Path,
        *,
        options: ActiveMQOptions | None = None,
        clock: ClockFile | RatedClock | None = None,
        name: str = "activemq",
        management: bool = True,
    ) -> None:
        """Choose everything, start nothing. `management=False` does without counters, and without Maven.

        Raises `ToolMissing` or `ToolFailed` if Java, or the management agent, cannot be had.
        """
        self.supervisor = supervisor
        self.jars = jars
        self.folder = folder.absolute()
        self.options = options or ActiveMQOptions()
        self.clock = clock
        self.name = name
        self.java = find_java()
        self.agent = jolokia_agent() if management else None
        self.startup_ms = 0
        self.server = ""
        self.stomp_port = self.openwire_port = self.jolokia_port = 0
        self._process: Process | None = None
        self._jolokia: Jolokia | None = None

    @property
    def process(self) -> Process:
        """The running (or last) process; `ValueError` before the first start."""
        if self._process is None:
            raise ValueError(f"{self.name} was not started")
        return self._process

    @property
    def clock_rate(self) -> int:
        """How many times as fast as the machine it lives."""
        return self.clock.rate.times if isinstance(self.clock, RatedClock) else 1

    @property
    def jolokia(self) -> Jolokia:
        """The counters; `ValueError` if the broker runs without management."""
        if self._jolokia is None:
            raise ValueError(f"{self.name} runs without management, so it has no counters")
        return self._jolokia

    def start(self, timeout_ms: int = READY_TIMEOUT_MS) -> None:
        """Start and wait until it serves; raises `ProcessDiedAtStart` or `NotReady`, and then no process is left."""
        for attempt in range(_START_TRIES):
            if attempt or not self.stomp_port:
                self.stomp_port, self.openwire_port, self.jolokia_port = free_ports(3)
            begun_ns = time.monotonic_ns()
            self._write_files()
            log = self.folder / "broker.log"
            env = self._environment()
            self._process = self.supervisor.spawn(self.name, self._command(), env=env, cwd=self.folder, log=log)
            try:
                if self._await_serving(self._process, timeout_ms):
                    self.startup_ms = (time.monotonic_ns() - begun_ns) // 1_000_000
                    return
            except BaseException:
                self._process.kill()
                raise
            self._process.kill()
        raise ProcessDiedAtStart(self.name, self.process.argv, self.process.poll(), self.process.log_tail())

    def stop(self, grace_ms: int = GRACE_MS) -> int:
        """SIGTERM, grace, SIGKILL; the exit code (143 is normal)."""
        self._forget_jolokia()
        return self.process.stop(grace_ms)

    def kill(self) -> int:
        """SIGKILL, as a crash would be; the exit code."""
        self._forget_jolokia()
        return self.process.kill()

    def _await_serving(self, process: Process, timeout_ms: int) -> bool:
        """True when it serves; False when it must be started again on other ports."""
        try:
            self.server = process.await_ready(self._serving, timeout_ms)
            if self.agent is not None:
                self._jolokia = Jolokia(self.jolokia_port, self.options.name, witness=process.state)
                # The agent does not end the JVM when its port is taken, and then somebody else may answer there.
                process.await_ready(self._managed, timeout_ms)
        except ProcessDiedAtStart as error:
            if says_port_in_use(error.log):
                return False
            raise
        return not self._port_in_use()

    def _serving(self) -> str | None:
        if self._port_in_use():
            return "port in use"
        server = handshake(self.stomp_port)  # most are refused at once, and the table of sockets is long
        # Who took the port before us answers as politely.
        ours = server and all(owns_listener(self.process.pid, port) for port in (self.openwire_port, self.stomp_port))
        return server if ours else None

    def _managed(self) -> str | None:
        if self._port_in_use():
            return "port in use"
        try:
            return self.jolokia.version()
        except JolokiaFailed:
            return None

    def _port_in_use(self) -> bool:
        return says_port_in_use(self.process.log_tail(WHOLE_LOG_BYTES))

    def _forget_jolokia(self) -> None:
        if self._jolokia is not None:
            self._jolokia.close()

    def _write_files(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        xml = broker_xml(self.options, self.folder / "data", self.openwire_port, self.stomp_port)
        (self.folder / "activemq.xml").write_text(xml, encoding="utf-8")
        (self.folder / "logging.properties").write_text(_JUL, encoding="ascii")
        (self.folder / "log4j.properties").write_text(_LOG4J, encoding="ascii")

    def _environment(self) -> dict[str, str]:
        base: Mapping[str, str] = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
        return scrubbed(base) if self.clock is None else clock_environment(self.clock, base)

    def _command(self) -> list[str]:
        folder = self.folder
        agent = f"host={LOOPBACK},port={self.jolokia_port},discoveryEnabled=false"
        return [
            str(self.java),
            "-XX:TieredStopAtLevel=1",
            "-XX:+IgnoreUnrecognizedVMOptions",  # the next one is of Java 13
            "-XX:+ErrorFileToStderr",  # the report of a crash belongs into the log, not into a folder that goes
            "-XX:-UsePerfData",  # else a paused or killed JVM leaves a file in the temporary folder
            f"-Xmx{self.options.heap_mebibytes}m",
            "-Djava.net.preferIPv4Stack=true",
            "-Dsun.net.httpserver.nodelay=true",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            *([f"-javaagent:{self.agent}={agent}"] if self.agent else []),
            *(f"-Dactivemq.{part}={folder}" for part in ("home", "base", "conf")),
            f"-Dactivemq.data={folder / 'data'}",
            f"-Djava.util.logging.config.file={folder / 'logging.properties'}",
            *([f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}"] if self.jars.logging == "log4j" else []),
            "-cp",
            os.pathsep.join(str(jar) for jar in self.jars.class_path),
            "org.apache.activemq.console.Main",
            "start",
            f"xbean:file:{folder / 'activemq.xml'}",
        ]
