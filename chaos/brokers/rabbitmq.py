"""RabbitMQ (AMQP 0-9-1, STOMP by its plug-in): supervised children, private folder, loopback ports, nothing installed.

Decides: where RabbitMQ and Erlang come from (Debian's packages, extracted into the cache) and how a node is started.
Rules: the port mapper (epmd) is started first and by us, because the server would leave one of its own behind; ready
means an answer in STOMP and one in AMQP, whose listener begins after those of plug-ins. Anonymous STOMP connections are
RabbitMQ's user guest, who may connect from loopback only; the one virtual host is called localhost, because STOMP
clients name it in `host`.
Known exceptions: what we start is a shell script, the server is a process below it; a stop is a kill, because its own
takes six seconds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from pathlib import Path

from brokerproof.chaos.brokers.debian import extract
from brokerproof.chaos.brokers.stomp import handshake
from brokerproof.chaos.clocks import scrubbed
from brokerproof.chaos.ports import LOOPBACK, free_ports, says_port_in_use
from brokerproof.chaos.processes import READY_TIMEOUT_MS, Process, ProcessDiedAtStart, Supervisor
from brokerproof.chaos.tools import ToolFailed, cache_folder

_ERLANG = (
    *("asn1", "base", "crypto", "eldap", "ftp", "inets", "mnesia", "os-mon", "parsetools", "public-key"),
    *("runtime-tools", "snmp", "ssl", "syntax-tools", "tftp", "tools", "xmerl"),
)
PACKAGES = (*(f"erlang-{part}" for part in _ERLANG), "rabbitmq-server", "libwrap0")
_START_TRIES = 3  # with other ports, where one was taken meanwhile
_ANSWER_S = 2
_FIXED = "/usr/lib/erlang"  # the one path in Debian's `erl` that must be ours
_CONFIG = """\
listeners.tcp.1 = {host}:{amqp}
stomp.listeners.tcp.1 = {host}:{stomp}
default_vhost = localhost
stomp.default_user = guest
stomp.default_pass = guest
log.console = true
log.console.level = warning
log.file = false
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 50MB
"""


def home() -> Path:
    """The folder of the extracted packages; they are got if they are not there.

    Raises `ToolMissing` (no apt here) or `ToolFailed` (a download).
    """
    root = cache_folder("debian") / "rabbitmq"
    extract(root, PACKAGES, lambda folder: (folder / "usr/lib/rabbitmq/bin/rabbitmq-server").exists())
    erl = root / "usr/lib/erlang/bin/erl"
    text = erl.read_text(encoding="utf-8")
    ours = f"{root}{_FIXED}"
    if ours not in text:
        erl.write_text(text.replace(_FIXED, ours), encoding="utf-8")
    return root


class RabbitMQ:
    """One node."""

    def __init__(self, supervisor: Supervisor, folder: Path, name: str = "rabbitmq", plugins: str = "") -> None:
        """Get the packages, start nothing. ``plugins``: a folder with the plug-in of the delayed exchange, which no
        package has.
        """
        self._plugins = plugins
        self.supervisor = supervisor
        self.folder = folder.absolute()
        self.name = name
        self.home = home()
        self.server = ""
        self.stomp_port = self.amqp_port = 0
        self._children: list[Process] = []

    @property
    def process(self) -> Process:
        """The running (or last) server's shell; `ValueError` before the first start."""
        if not self._children:
            raise ValueError(f"{self.name} was not started")
        return self._children[-1]

    def start(self, timeout_ms: int = READY_TIMEOUT_MS) -> None:
        """Start and wait until it serves; raises `ProcessDiedAtStart` or `NotReady`, and then no process is left."""
        for _ in range(_START_TRIES - 1):
            try:
                self._start_once(timeout_ms)
            except ProcessDiedAtStart as error:
                if not says_port_in_use(error.log):
                    raise
            else:
                return
        self._start_once(timeout_ms)

    def _start_once(self, timeout_ms: int) -> None:
        self.stomp_port, self.amqp_port, epmd, distribution = free_ports(4)
        amqp = self.amqp_port
        for part in ("home", "mnesia"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        config = _CONFIG.format(host=LOOPBACK, amqp=amqp, stomp=self.stomp_port)
        (self.folder / "rabbitmq.conf").write_text(config, encoding="ascii")
        enabled = f"rabbitmq_stomp{',rabbitmq_delayed_message_exchange' if self._plugins else ''}"
        (self.folder / "enabled_plugins").write_text(f"[{enabled}].\n", encoding="ascii")
        mapper = self._mapper()
        log = self.folder / "broker.log"
        argv: list[str | Path] = [mapper, "-port", str(epmd), "-address", LOOPBACK]
        self._children = [self.supervisor.spawn(f"{self.name}-epmd", argv, cwd=self.folder, log=log)]
        try:
            server = self.home / "usr/lib/rabbitmq/bin/rabbitmq-server"
            env = self._environment(amqp, epmd, distribution)
            self._children.append(self.supervisor.spawn(self.name, [server], env=env, cwd=self.folder, log=log))
            self.server = self.process.await_ready(self._serving, timeout_ms)
        except BaseException:
            self.stop()
            raise

    def _serving(self) -> str | None:
        """What it calls itself, once it serves. A node that finds its AMQP port taken has served STOMP, and ends."""
        name = handshake(self.stomp_port)
        return name if name is not None and _speaks_amqp(self.amqp_port) else None

    def stop(self) -> None:
        """Kill the node, then the port mapper, and forget its data."""
        for child in reversed(self._children):
            child.kill()
        self._children = self._children[-1:]
        shutil.rmtree(self.folder / "mnesia", ignore_errors=True)

    def _mapper(self) -> Path:
        found = sorted((self.home / "usr/lib/erlang").glob("erts-*/bin/epmd"))
        if not found:
            raise ToolFailed("dpkg-deb", ["dpkg-deb", "-x"], "the packages hold no epmd", "")
        return found[-1]

    def _environment(self, amqp: int, epmd: int, distribution: int) -> dict[str, str]:
        folder = self.folder
        own = (self.home / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/plugins")
        more = {"RABBITMQ_PLUGINS_DIR": f"{next(own)}{os.pathsep}{self._plugins}"} if self._plugins else {}
        return {
            **more,
            **scrubbed(os.environ),
            "PATH": f"{self.home}/usr/lib/erlang/bin{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(folder / "home"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_NODENAME": f"bp{amqp}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution),
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none"
            " +sbwtdcpu none +sbwtdio none",
        }


def _speaks_amqp(port: int) -> bool:
    """Whether the protocol's header is answered by a method frame."""
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=_ANSWER_S) as line:
        line.sendall(b"AMQP\0\0\x09\x01")
        return line.recv(1) == b"\x01"
    return False
