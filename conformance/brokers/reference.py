"""The reference broker as a process of its own: ``reference_broker.server`` under its host's clock.

Rules
* A new process per run: it starts in a tenth of a second, and nothing of an earlier run can be left in it.
* Its settings go through its configuration file, as an operator's would. A policy for ``q0`` covers the run's physical
  name ``q0.RUN``, too (``told_policies``).
* Counters and clock come from the admin port, another channel than the one under test; reasons of closings from its
  log.

* JMS hosts are played by brokerproof's own OpenWire client, which needs no JVM: it is the client of the simulation, so
  both worlds can be compared.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from brokerproof.chaos.clocks import ClockReading, reading
from brokerproof.chaos.ports import LOOPBACK, held
from brokerproof.conformance.agents.kinds import JMS, OPENWIRE
from brokerproof.conformance.brokers.base import Access, Adapter, Endpoint, Operated
from brokerproof.conformance.brokers.settings import told_policies
from brokerproof.conformance.brokers.translation import ADVISORIES, CAPABILITIES, monitor_settings, redelivery_settings
from brokerproof.conformance.experiment.configuration import LOGIN
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.reference_broker.core.config import resolve_generation

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.chaos.clocks import ClockFile
    from brokerproof.chaos.processes import Process
    from brokerproof.conformance.brokers.base import Laboratory
    from brokerproof.conformance.brokers.chosen import Chosen
    from brokerproof.conformance.brokers.profile import Located
    from brokerproof.conformance.experiment.configuration import BrokerSpec
    from brokerproof.conformance.experiment.program import Program

START_MS = 15_000
STOP_MS = 2000
ADMIN_TIMEOUT_S = 5.0
_CLOSED = re.compile(r"connection \d+ closed: (.*?)(?: \| [\w.]+)?$", re.MULTILINE)


class Admin:
    """The admin port: one JSON object per line each way."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((LOOPBACK, port), timeout=ADMIN_TIMEOUT_S)
        self._file = self._socket.makefile("rwb")

    def ask(self, **request: object) -> dict[str, Any] | None:
        """The ``ok`` part of the answer; None if it was refused. Raises ``OSError`` when the server is gone."""
        return self.exchange(**request).get("ok")

    def exchange(self, **request: object) -> dict[str, Any]:
        """The whole answer: ``ok`` or ``fail``. Raises ``OSError`` when the server is gone."""
        self._file.write(json.dumps(request).encode() + b"\n")
        self._file.flush()
        line = self._file.readline()
        if not line:
            raise ConnectionResetError("the admin port was closed")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()


class ReferenceEndpoint(Endpoint):
    """One server process."""

    def __init__(self, spawn: Callable[[int], Process], clock: ClockFile | None, *, logins: bool) -> None:
        """``spawn`` starts a process that listens on a port (0: any); ``logins``: whether it lets in who names
        ``LOGIN``, and nobody else.
        """
        self.label = "reference"
        self._login, self._passcode = LOGIN if logins else ("", "")
        self.clock_file = clock
        self._spawn = spawn
        self._port = 0
        self._start()

    def _start(self) -> None:
        process = self._process = self._spawn(self._port)
        self._log_read = 0
        deadline_ns = time.monotonic_ns() + START_MS * 1_000_000
        self._admin = Admin(_port(process.channel.receive_line(deadline_ns), "admin on ", process))
        self._port = _port(process.channel.receive_line(deadline_ns), "listening on stomp://", process)

    def restart(self, how: str) -> dict[str, int] | None:
        before = self._process
        self._admin.close()
        code = before.kill() if how == "kill" else before.stop(grace_ms=STOP_MS)
        with held(self._port):
            self._start()
        return {"pid_before": before.pid, "exit_code": code, "pid_after": self._process.pid}

    def process(self) -> Process:
        return self._process

    def port(self, via: str) -> int:
        del via  # one listener for all protocols
        return self._port

    def access(self, via: str) -> Access:
        access = super().access(via)
        return msgspec.structs.replace(access, login=self._login, passcode=self._passcode)

    def library(self, via: str) -> str:
        return OPENWIRE if via == JMS else via

    def counters(self, dest: str | None) -> dict[str, int] | None:
        return self._admin.ask(do="counters", dest=dest) or {}

    def read_clock(self) -> ClockReading | None:
        t0_ns, real0_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        answer = self._admin.ask(do="now")
        return None if answer is None else reading(int(answer["wall_ms"]), t0_ns, real0_ms)

    def operate(self, op: str, dest: str, to: str, limit_bytes: int = 0) -> Operated | None:
        target: dict[str, object] = {"command" if op == "mqsc" else "to": to} if to else {}
        if op == "limit":
            target["bytes"] = limit_bytes
        answer = self._admin.exchange(do=op, dest=dest or None, **target)
        fail = answer.get("fail")
        return (
            Operated(int(answer["ok"]["count"]), shown=[str(line) for line in answer["ok"].get("shown", [])])
            if fail is None
            else Operated(None, f"{fail['code']}: {fail['text']}")
        )

    def closings(self) -> list[str]:
        text = self._process.log.read_text(encoding="utf-8", errors="replace")
        end = text.rfind("\n") + 1
        found = _CLOSED.findall(text[self._log_read : end])
        self._log_read = end
        return [str(reason) for reason in found]

    def reports(self, port: int) -> int:
        text = self._process.log.read_text(encoding="utf-8", errors="replace")
        return sum(reason.endswith(f":{port}") and "inactive" in reason for reason in _CLOSED.findall(text))

    def resources(self) -> dict[str, int]:
        folder = Path("/proc") / str(self._process.pid)
        sockets = sum(_points_to(entry).startswith("socket:") for entry in (folder / "fd").iterdir())
        return {"threads": len(list((folder / "task").iterdir())), "sockets": sockets}

    def stand_still(self, *, paused: bool) -> bool:
        if paused:
            self._process.pause()
        else:
            self._process.resume()
        return True

    def dispose(self, *, spoilt: bool = False) -> None:
        del spoilt
        self._admin.close()
        self._process.stop(grace_ms=STOP_MS)


class ReferenceAdapter(Adapter):
    """``mutant``: plant a defect of the registry."""

    name = "reference"
    label = "reference"
    workers = lanes = 18
    shares = False
    alone = True
    chooses_generations = True
    speed_max = 100

    def __init__(self, mutant: str | None = None) -> None:
        self.mutant = mutant

    @classmethod
    def of_profile(cls, located: Located, chosen: Chosen) -> ReferenceAdapter:
        del located  # the embedded broker is what it is
        return cls(chosen.mutant)

    def capabilities(self) -> list[str]:
        return [*CAPABILITIES, "network", "users"]

    def effective(self, program: Program) -> Program:
        generation = resolve_generation(program.broker.generation)
        most = -1 if program.broker.redeliveries_max is None else program.broker.redeliveries_max
        broker = msgspec.structs.replace(program.broker, generation=generation, redeliveries_max=most)
        return msgspec.structs.replace(program, broker=broker)

    def open(self, program: Program, laboratory: Laboratory) -> Endpoint:
        name = laboratory.fresh_name("reference")
        config = laboratory.folder / f"{name}.toml"
        config.write_text(configuration(program.broker, program.broker_host().name), encoding="utf-8")
        spec = program.broker_host().clock
        clock, env = laboratory.clock(name, spec.offset_ms, spec.zone_hours)
        rate = self.rate(program)
        start = (
            ["brokerproof.reference_broker.server.__main__"]
            if self.mutant is None
            else ["brokerproof.conformance.commands.serve", "--mutant", self.mutant]
        )
        storage = ["--data", str(laboratory.folder / f"{name}.data")] if program.broker.persistent else []

        def spawn(port: int) -> Process:
            argv = [sys.executable, "-m", *start, "--port", str(port), "--admin-port", "0", "--config", str(config)]
            fresh = name if port == 0 else laboratory.fresh_name(name)
            argv += [*storage, *(("--rate", f"{rate.times}@{rate.anchor_ns}") if rate.times > 1 else ())]
            return laboratory.supervisor.spawn(fresh, argv, env=env, cwd=laboratory.folder, channel=True, forked=True)

        return ReferenceEndpoint(spawn, clock, logins=program.broker.logins)


def configuration(broker: BrokerSpec, name: str = "b") -> str:
    """A program's broker settings as the server's configuration file; ``name`` is the broker's, which no two in a
    network share.
    """
    lines = [
        "[broker]",
        f"name = {_toml(name)}",
        f"memory_limit_bytes = {broker.memory_limit_bytes}",
        f"store_limit_bytes = {broker.store_limit_bytes}",
        f"temp_limit_bytes = {broker.temp_limit_bytes}",
        f"dead_letter_non_persistent = {_toml(broker.dead_letter_non_persistent)}",
        f"delay_support = {_toml(broker.delay_support)}",
        f"max_delay_ms = {broker.delay_max_ms}",
        f"redeliveries_max = {-1 if broker.redeliveries_max is None else broker.redeliveries_max}",
        f"transacted_nacks = {_toml(broker.transacted_nacks)}",
        f"mqsc = {_toml(broker.mqsc)}",
    ]
    lines += [f"generation.{area} = {_toml(name)}" for area, name in _quoted(broker.generation).items()]
    if broker.logins:
        lines = [f"security.users = [{{ name = {_toml(LOGIN[0])}, password = {_toml(LOGIN[1])} }}]", *lines]
    stamping = broker.timestamping
    if stamping is not None:
        lines += [
            "[broker.timestamping]",
            f"future_only = {_toml(stamping.future_only)}",
            f"ttl_ceiling_ms = {stamping.ttl_ceiling_ms}",
            f"zero_expiration_override_ms = {stamping.zero_expiration_override_ms}",
            f"process_network_messages = {_toml(stamping.process_network_messages)}",
            f"restamp_moved = {_toml(stamping.restamp_moved)}",
        ]
    monitor = monitor_settings(broker)
    if monitor:
        lines += ["[broker.monitor]", *(f"{name} = {_toml(value)}" for name, value in monitor.items())]
    for entry in told_policies(broker):
        lines += [
            "[[broker.destinations]]",
            f"match = {_toml(entry.match)}",
            f"expire_period_ms = {entry.expire_period_ms}",
            f"high_water_percent = {entry.high_water_percent}",
            f"max_page_size = {entry.max_page_size}",
            f"max_expire_page_size = {entry.max_expire_page_size}",
            f"producer_flow_control = {_toml(entry.producer_flow_control)}",
            f"send_fail_if_no_space = {_toml(entry.send_fail_if_no_space)}",
        ]
        if entry.memory_limit_bytes is not None:
            lines.append(f"memory_limit_bytes = {entry.memory_limit_bytes}")
        if entry.prioritized_messages:
            lines.append("prioritized_messages = true")
        if entry.pending_message_limit is not None:
            lines.append(f"pending_message_limit = {entry.pending_message_limit}")
        if entry.queue_prefetch is not None:
            lines.append(f"queue_prefetch = {entry.queue_prefetch}")
        if entry.durable_topic_prefetch is not None:
            lines.append(f"durable_topic_prefetch = {entry.durable_topic_prefetch}")
        if entry.dead_letter is not None:
            lines += [
                f"dead_letter.{name} = {_toml(value)}"
                for name, value in msgspec.structs.asdict(entry.dead_letter).items()
            ]
        if entry.redelivery is not None:
            settings = redelivery_settings(entry.redelivery)
            told = ", ".join(f"{name} = {_toml(value)}" for name, value in settings.items())
            lines.append(f"redelivery = {{ {told} }}")  # also where it says nothing of its own
        if entry.advisories:
            lines += [f"advisories.{name} = {_toml(value)}" for name, value in ADVISORIES.items()]
    return "\n".join(lines) + "\n"


def _quoted(table: dict[str, str]) -> dict[str, str]:
    return {json.dumps(key): value for key, value in table.items()}


def _points_to(link: Path) -> str:
    """Where a link of /proc leads; "" if it has gone meanwhile."""
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""


def _toml(value: object) -> str:
    """A text, a number or a truth value; for these TOML is written like JSON."""
    return json.dumps(value)


def _port(line: bytes, wanted: str, process: Process) -> int:
    text = line.decode("utf-8", "replace")
    found = re.fullmatch(rf"{re.escape(wanted)}\S+:(\d+)", text.strip())
    if found is None:
        raise SuiteProblem(
            f"{process.name} said {text!r}; {wanted!r} and an address were expected\n{process.log_tail()}"
        )
    return int(found[1])


__all__ = ["Admin", "ReferenceAdapter", "ReferenceEndpoint", "configuration"]
