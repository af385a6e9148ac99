"""How a profile's broker is started and ended.

Rules
* Ready means that the protocol answers, unless the profile says otherwise; a start whose log says that an address is in
  use is tried again on other ports. A broker that dies is one error with the end of its log, and no process is left.
* ``start`` may be called again after ``stop`` or ``kill``: the same folder, ports and clock.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import msgspec
from msgspec import Struct

from brokerproof.chaos.brokers.archives import obtained
from brokerproof.chaos.brokers.hello import HELLOS, answers
from brokerproof.chaos.clocks import ClockFile, RatedClock, clock_environment, scrubbed
from brokerproof.chaos.ports import free_ports, held, says_port_in_use
from brokerproof.chaos.processes import (
    READY_TIMEOUT_MS,
    WHOLE_LOG_BYTES,
    NotReady,
    Process,
    ProcessDiedAtStart,
    Supervisor,
)
from brokerproof.chaos.tools import find_java
from brokerproof.conformance.agents.kinds import STOMP
from brokerproof.conformance.brokers.addresses import way_in
from brokerproof.conformance.brokers.line import Line, ProbeError
from brokerproof.conformance.brokers.placeholders import filled, ports_in
from brokerproof.conformance.brokers.profile import revealed
from brokerproof.conformance.brokers.settings import told_policies
from brokerproof.conformance.experiment.nearest import suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerproof.conformance.brokers.base import Access
    from brokerproof.conformance.brokers.profile import Located, Start
    from brokerproof.conformance.experiment.configuration import BrokerSpec

_TRIES = 3
_HTTP_S = 2.0


class Place(Struct, eq=False):
    """Where one broker process lives, and what it is told. ``clock`` None: it cannot be skewed."""

    located: Located
    supervisor: Supervisor
    folder: Path
    name: str
    spec: BrokerSpec
    arguments: Sequence[str]
    clock: ClockFile | RatedClock | None

    def __post_init__(self) -> None:
        self.folder = self.folder.absolute()

    def environment(self) -> dict[str, str]:
        """The environment of its process."""
        return scrubbed(os.environ) if self.clock is None else clock_environment(self.clock, os.environ)


class Launcher(ABC):
    """One broker process. Python classes in ``start.command`` are of this shape; they are made with a ``Place``."""

    #: The broker's loopback ports by name (``{port.NAME}``).
    ports: dict[str, int]
    #: What is paused, asked whether it lives, and whose log is read.
    process: Process

    @abstractmethod
    def __init__(self, place: Place) -> None:
        """Choose everything, start nothing."""

    @abstractmethod
    def start(self) -> None:
        """Start and wait until it serves. Raises ``ProcessDiedAtStart``, ``NotReady`` or ``UsageError``."""

    def stop(self) -> int:
        """Let it end; its exit code."""
        return self.process.stop()

    def kill(self) -> int:
        """End it as a crash would; its exit code."""
        return self.process.kill()

    def restart(self, how: str) -> dict[str, int]:
        """End it by a ``kill`` or a stop, and start it on the same ports; the evidence."""
        before = self.process.pid
        code = self.kill() if how == "kill" else self.stop()
        with held(*self.ports.values()):
            self.start()
        return {"pid_before": before, "exit_code": code, "pid_after": self.process.pid}


class CommandLauncher(Launcher):
    """The command, files and environment of ``[start]``."""

    def __init__(self, place: Place) -> None:
        self._place = place
        start = place.located.profile.start
        assert start is not None, "only what can be started is launched"
        self._start_table: Start = start
        self.ports = {}
        try:
            self._signal = signal.Signals[start.stop]
        except KeyError:
            near = suggestion(start.stop, signal.Signals.__members__)
            raise place.located.wrong("start.stop", f"{start.stop!r} is no signal; {near}for example SIGTERM") from None

    def start(self) -> None:
        for attempt in range(_TRIES):
            if attempt or not self.ports:
                self._choose_ports()
            values = self._values()
            argv = self._argv(values)
            self._write_files(values)
            env = self._place.environment()
            for name, text in self._start_table.env.items():
                line = f"start.env.{name}"
                env[name] = revealed(filled(text, values, self._place.located, line), self._place.located, line)
            place = self._place
            try:
                self.process = place.supervisor.spawn(
                    place.name, argv, env=env, cwd=place.folder, log=place.folder / "broker.log"
                )
                self._await_ready(values)
                return
            except ProcessDiedAtStart as error:
                if not says_port_in_use(error.log):
                    raise self._blamed(argv, error) from None
            except BaseException:
                if hasattr(self, "process"):
                    self.process.kill()
                raise
        tail = self.process.log_tail()
        raise place.located.wrong("start.command", f"its ports are in use, {_TRIES} times in a row\n{tail}")

    def stop(self) -> int:
        self.process.signal(self._signal)
        self.process.signal(signal.SIGCONT)
        code = self.process.wait(int(self._start_table.stop_s * 1000))
        return self.process.kill() if code is None else code

    def _blamed(self, argv: Sequence[str], error: ProcessDiedAtStart) -> Exception:
        """A command that cannot be executed is the file's fault, one that ends is a broker's that dies."""
        if error.returncode is None:
            return self._place.located.wrong("start.command", f"{argv[0]!r} cannot be started: {error.log_tail}")
        return error

    def _choose_ports(self) -> None:
        profile = self._place.located.profile
        texts = [text for text in msgspec.json.encode(profile).decode().split('"') if "{port." in text]
        names = ports_in(*texts)
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))

    def _values(self) -> dict[str, str]:
        folder = self._place.folder
        data, work = folder / "data", folder / "work"
        for part in (data, work):
            part.mkdir(parents=True, exist_ok=True)
        told = {"python": sys.executable, "here": str(self._place.located.here), "data": str(data), "work": str(work)}
        told |= {name: str(obtained(text)) for name, text in self._start_table.get.items()}
        if any("{java}" in word for word in self._start_table.command):
            told["java"] = str(find_java())
        return told | {f"port.{name}": str(port) for name, port in self.ports.items()}

    def _argv(self, values: dict[str, str]) -> list[str]:
        command = self._start_table.command
        assert not isinstance(command, str), "a class takes the place of this one"
        argv: list[str] = []
        for word in command:
            if word == "{settings}":
                argv += [filled(text, values, self._place.located, "settings") for text in self._place.arguments]
            else:
                argv.append(filled(word, values, self._place.located, "start.command"))
        return argv

    def _write_files(self, values: dict[str, str]) -> None:
        located = self._place.located
        told: dict[str, Any] = {name: value for name, value in values.items() if "." not in name}
        entries = told_policies(self._place.spec, located.profile.names.separator)
        policies = [msgspec.structs.asdict(entry) for entry in entries]
        told |= {"port": self.ports, "settings": self._place.spec, "policies": policies}
        for name, template in self._start_table.files.items():
            line = f"start.files.{name}"
            path = located.here / template
            target = (self._place.folder / "work" / name).resolve()
            if not target.is_relative_to(self._place.folder):
                raise located.wrong(line, f"{name!r} is outside {{work}}; give a path inside it")
            try:
                text = path.read_text(encoding="utf-8")
                written = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False).from_string(text)  # noqa: S701 - not HTML
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(written.render(told), encoding="utf-8")
            except OSError as error:
                raise located.wrong(line, f"{path}: {error.strerror}; the template stands beside the profile") from None
            except jinja2.TemplateError as error:
                known = ", ".join(sorted(told))
                raise located.wrong(line, f"{path}: {error}; a template sees {known}") from None

    def _await_ready(self, values: dict[str, str]) -> None:
        ready, located = self._start_table.ready, self._place.located
        if ready.log is not None:
            pattern = re.compile(ready.log)
            self.process.await_ready(lambda: pattern.search(self.process.log_tail(WHOLE_LOG_BYTES)))
        elif ready.http is not None:
            url = filled(ready.http, values, located, "start.ready.http")
            self.process.await_ready(lambda: _answers(url))
        else:
            endpoints = located.profile.endpoints
            spoken = [name for name in ("stomp", *HELLOS) if getattr(endpoints, name) is not None]
            protocol: str = ready.protocol or next(iter(spoken), "")
            url = getattr(endpoints, protocol).url if protocol in spoken else ""
            port = port_of(filled(url, values, located, f"endpoints.{protocol}.url"))
            if port is None:
                raise located.wrong("start.ready", 'say when it serves: { log = "a pattern" } or { http = "a URL" }')
            if protocol == STOMP:
                self._await_login(way_in(located, STOMP, values))
            else:
                self.process.await_ready(partial(answers, port, protocol=protocol), READY_TIMEOUT_MS)

    def _await_login(self, access: Access) -> None:
        """It lets in whom the profile names; else its last answer is told."""
        told = ""

        def lets_in() -> bool | None:
            nonlocal told
            try:
                with Line(access):
                    return True
            except ProbeError as error:
                told = f"{error}; {error.remedy}\n"
            except OSError:
                pass
            return None

        try:
            self.process.await_ready(lets_in, READY_TIMEOUT_MS)
        except NotReady as error:
            raise NotReady(f"{told}{error}") from None


def port_of(url: str) -> int | None:
    """The port that a URL names."""
    found = re.search(r":(\d+)/?$", url.split("?", maxsplit=1)[0])
    return int(found[1]) if found else None


def _answers(url: str) -> bool | None:
    """Whether a page is there, whatever it says."""
    if not url.startswith(("http://", "https://")):
        return None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(url, timeout=_HTTP_S).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return None
    return True
