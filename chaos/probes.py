"""Probes: proof that a foreign tool works on this machine, before anything is believed that depends on it.

Decides: what must be seen before a scenario may rely on a skewed clock, a stalled link, or a tool.
Rules: a probe does the thing and looks at the result through another channel: the child's own clocks, bytes at both
ends. It never raises for a tool that is missing or broken: it says so, with a remedy, and scenarios that need it are
*not run* (DESIGN.md section 7).
Known exceptions: the plain JVM probe sees the wall clock only; timed waits of a JVM are looked at through JPype.
"""

from __future__ import annotations

import datetime
import importlib.util
import os
import re
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from brokerproof.chaos import witness
from brokerproof.chaos.brokers import debian
from brokerproof.chaos.brokers.jars import jolokia_agent_path
from brokerproof.chaos.channels import ChannelError
from brokerproof.chaos.clocks import ClockFile, ClockReading, clock_environment, preload_active, reading, scrubbed
from brokerproof.chaos.links import LinkProxy, StallEvidence
from brokerproof.chaos.ports import LOOPBACK
from brokerproof.chaos.processes import NotReady, Process, ProcessDiedAtStart, Supervisor, SupervisorGone
from brokerproof.chaos.tools import (
    ToolFailed,
    ToolMissing,
    cache_folder,
    find_apt,
    find_go,
    find_java,
    find_maven,
    java_home,
    run_tool,
)
from brokerproof.chaos.toxiproxy import ToxiproxyFailed, ToxiproxyServer

SKEW_MS = 3_600_000
STEP_MS = -300_000
TOLERANCE_MS = 50
INSTALL_REMEDY = "brokerproof doctor --install"
_WAIT_LIMIT_NS = 500_000_000
_ANSWER_MS = 10_000
_MESSAGE = b"brokerproof probe"


@dataclass(frozen=True)
class ProbeResult:
    """What a probe found: `remedy` is empty when it is ok."""

    name: str
    ok: bool
    detail: str
    remedy: str
    seconds: float


class ProbeFailed(Exception):
    """A tool is there and does not do what scenarios need of it."""


Probe = Callable[[Supervisor], str]


def run_probe(name: str, probe: Probe, supervisor: Supervisor) -> ProbeResult:
    """Run one probe; whatever it finds wrong becomes a result."""
    begun = time.monotonic()
    ok, remedy = False, ""
    try:
        detail, ok = probe(supervisor), True
    except ToolMissing as error:
        detail, remedy = f"{error.tool} is not available", error.remedy
    except ToolFailed as error:
        detail, remedy = str(error), f"make this command work: {error.tool}"
    except (ProbeFailed, ToxiproxyFailed) as error:
        detail, remedy = str(error), "scenarios that need it are not run on this machine"
    except (ProcessDiedAtStart, NotReady, ChannelError, OSError, SupervisorGone) as error:
        detail, remedy = str(error), "see the log above; scenarios that need it are not run on this machine"
    return ProbeResult(name, ok, detail, remedy, round(time.monotonic() - begun, 3))


def faketime_python(supervisor: Supervisor) -> str:
    """A Python child on a skewed clock: wall clock skewed, stepped at run time, monotonic clock and sleep untouched."""
    clock = ClockFile(supervisor.folder / "probe-python.clock", SKEW_MS)
    argv: list[str | Path] = [sys.executable, "-I", witness.__file__]
    child = supervisor.spawn("probe-python", argv, env=clock_environment(clock, os.environ), channel=True)
    try:
        return _clocks_follow(child, clock, ("wall_ns", 1_000_000), "monotonic_ns", "slept_ns")
    finally:
        child.kill()


def faketime_jpype(supervisor: Supervisor) -> str:
    """A JVM inside a Python child (as the JMS agent is): the same of Java's clocks, and a timed wait of its threads."""
    if importlib.util.find_spec("jpype") is None:
        raise ToolMissing("JPype", "pip install 'brokerproof[jms]'")
    library = java_home(find_java()) / "lib" / "server" / "libjvm.so"
    clock = ClockFile(supervisor.folder / "probe-jpype.clock", SKEW_MS)
    argv: list[str | Path] = [sys.executable, "-I", witness.__file__, library]
    child = supervisor.spawn("probe-jpype", argv, env=clock_environment(clock, os.environ), channel=True)
    try:
        _clocks_follow(child, clock, ("wall_ns", 1_000_000), "monotonic_ns", "slept_ns")
        clock.set_offset_ms(SKEW_MS)
        return _clocks_follow(child, clock, ("java_wall_ms", 1), "java_monotonic_ns", "java_slept_ns")
    finally:
        child.kill()


def faketime_java(supervisor: Supervisor) -> str:
    """A plain `java` on a skewed clock, seen in the stamps of the JVM's own log: needs no compiler and no class."""
    clock = ClockFile(supervisor.folder / "probe-java.clock", SKEW_MS)
    argv: list[str | Path] = [find_java(), "-XX:-UsePerfData", "-Xlog:os=info:stdout:utctime", "-version"]
    t0_ns, real0_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
    said = run_tool("Java", argv, 60, env=clock_environment(clock, os.environ))
    stamp = re.search(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d{4})\]", said)
    if stamp is None:
        raise ProbeFailed(f"no time stamp in the JVM's log: {said[:300]!r}")
    wall = datetime.datetime.strptime(stamp[1], "%Y-%m-%dT%H:%M:%S.%f%z")
    seen = reading(round(wall.timestamp() * 1000), t0_ns, real0_ms)
    _require_skew(seen, SKEW_MS)
    return f"wall clock skewed by {SKEW_MS} ms as asked"


def toxiproxy_stall(supervisor: Supervisor) -> str:
    """A stalled link: bytes go in, none come out, in the asked direction only; they flow on when it is resumed."""
    server = ToxiproxyServer.start(supervisor)
    try:
        with (
            socket.create_server((LOOPBACK, 0)) as listener,
            server.link("probe", int(listener.getsockname()[1])) as link,
            socket.create_connection((LOOPBACK, link.port), timeout=5) as client,
        ):
            listener.settimeout(5)
            _transfer(client, None)
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(5)
                _transfer(None, peer)
                seen = [_stalled(link, "client", peer, client), _stalled(link, "broker", client, peer)]
        counts = " and ".join(
            f"{part.bytes_in} bytes in, {part.bytes_out} out toward the {part.toward}" for part in seen
        )
        return f"{counts}; held bytes flowed on when resumed"
    finally:
        server.process.kill()


def _stalled(
    link: LinkProxy, toward: Literal["client", "broker"], sender: socket.socket, receiver: socket.socket
) -> StallEvidence:
    """Stall one direction, offer bytes to it, use the other, resume, and take in what was held."""
    link.stall(toward)
    _transfer(sender, None)
    _transfer(receiver, sender)
    evidence = link.resume()
    if evidence is None:
        raise ProbeFailed(f"a stall toward the {toward} let bytes pass: {link.traffic()}")
    _transfer(None, receiver)
    return evidence


def java(_: Supervisor) -> str:
    """A Java runtime, 11 or later."""
    said = run_tool("Java", [find_java(), "-version"], 60, env=scrubbed(os.environ))
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found[1]) < 11:
        raise ProbeFailed(f"Java 11 or later is needed: {said.splitlines()[:1]}")
    return f"{find_java()}: {said.splitlines()[0]}"


def go(_: Supervisor) -> str:
    """A Go toolchain that can build Toxiproxy."""
    path = find_go()
    return f"{path}: {run_tool('Go', [path, 'version'], 60).strip()}"


def maven(_: Supervisor) -> str:
    """Maven, which brings the management agent and other releases of brokers."""
    path = find_maven()
    env = {**scrubbed(os.environ), "JAVA_HOME": str(java_home(find_java()))}
    lines = run_tool("Maven", [path, "-B", "-v"], 60, env=env).splitlines()
    return f"{path}: {next((line for line in lines if 'Maven' in line), 'no version')}"


def apt(_: Supervisor) -> str:
    """apt-get and dpkg-deb, which bring the Debian release of a broker without root."""
    path, dpkg = find_apt()
    run_tool("dpkg-deb", [dpkg, "--version"], 60)
    return f"{path}: {run_tool('apt-get', [path, '--version'], 60).splitlines()[0]}"


def activemq(_: Supervisor) -> str:
    """The Debian release of ActiveMQ, installed or extracted earlier; its start is left to the run."""
    for folder, origin in debian.places():
        if not debian.missing_jars(folder):
            return f"{debian.release(folder)} ({origin})"
    raise ToolMissing("ActiveMQ (Debian package)", INSTALL_REMEDY)


def jolokia(_: Supervisor) -> str:
    """The management agent's jar."""
    path = jolokia_agent_path(cache_folder("jars"))
    if not path.is_file():
        raise ToolMissing("Jolokia JVM agent", INSTALL_REMEDY)
    return path.name


PROBES: dict[str, Probe] = {
    "faketime-python": faketime_python,
    "faketime-java": faketime_java,
    "faketime-jpype": faketime_jpype,
    "toxiproxy": toxiproxy_stall,
    "java": java,
    "go": go,
    "maven": maven,
    "apt": apt,
    "activemq": activemq,
    "jolokia": jolokia,
}


def _clocks_follow(child: Process, clock: ClockFile, wall: tuple[str, int], monotonic: str, slept: str) -> str:
    """Skewed at first, stepped while it runs; monotonic clock shared with us; a wait takes its time."""
    seen = []
    for offset_ms in (SKEW_MS, STEP_MS):
        clock.set_offset_ms(offset_ms)
        t0_ns, real0_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        child.channel.send({})
        said: dict[str, Any] = child.channel.receive(_ANSWER_MS)
        skew = reading(said[wall[0]] // wall[1], t0_ns, real0_ms)
        _require_skew(skew, offset_ms)
        if not t0_ns <= said[monotonic] <= skew.t1_ns:
            raise ProbeFailed(f"its monotonic clock shows {said[monotonic]}, ours {t0_ns} to {skew.t1_ns}")
        if not witness.WAIT_NS - 1_000_000 <= said[slept] <= _WAIT_LIMIT_NS:
            raise ProbeFailed(f"a wait of {witness.WAIT_NS} ns took {said[slept]} ns")
        # Its monotonic clock is ours, so the instant of its answer is known exactly.
        real_ms = real0_ms + (said[monotonic] - t0_ns) // 1_000_000
        seen.append(abs(said[wall[0]] // wall[1] - real_ms - offset_ms))
    if not preload_active(child.pid):
        raise ProbeFailed("the library is not in its memory")
    return f"skews {SKEW_MS} and {STEP_MS} ms, followed within {max(seen)} ms; monotonic clock and waits real"


def _require_skew(seen: ClockReading, offset_ms: int) -> None:
    if not seen.agrees_with(offset_ms, TOLERANCE_MS):
        least, greatest = seen.skew_bounds_ms()
        raise ProbeFailed(f"a skew of {offset_ms} ms was asked for, one of {least} to {greatest} ms was seen")


def _transfer(sender: socket.socket | None, receiver: socket.socket | None) -> None:
    """Send the message from one end, or receive it whole at the other, or both."""
    if sender is not None:
        sender.sendall(_MESSAGE)
    got = b""
    while receiver is not None and len(got) < len(_MESSAGE):
        part = receiver.recv(len(_MESSAGE) - len(got))
        if not part:
            raise ProbeFailed(f"the link closed after {len(got)} of {len(_MESSAGE)} bytes")
        got += part
    if receiver is not None and got != _MESSAGE:
        raise ProbeFailed(f"the link changed {_MESSAGE!r} into {got!r}")
