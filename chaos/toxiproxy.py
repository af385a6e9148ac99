"""Toxiproxy: the real server, built from its pinned source, and a link whose line runs through it.

Decides: which release is used, how it is built and started, and which of its toxics makes which fault.
Rules:
* driven through `toxiproxy-python`; what that client says is not believed: after each change the server is read back
  with the standard library, and a difference is `ToxiproxyFailed`;
* a stall that holds bytes is the toxic `bandwidth` with rate 0 (it gives back what it holds when it is removed); a
  stall that loses them is `timeout` 0, whose removal closes the connections; latency comes in whole milliseconds;
* a connection that ends after so many bytes is `limit_data`, which counts from when it is added, on each connection;
* a reset is the proxy switched off and on: the toxic `reset_peer` acts only on connections made after it and only once
  data flows. The taps turn the end that they see into a reset for the client and for the broker.
Known exceptions: `toxiproxy-python` keeps host and port in one class for the whole process and its calls have no time
limit; so one call at a time is made here, with the address set before each.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import threading
import urllib.request
from pathlib import Path
from typing import Any, Self

from brokerproof.chaos.clocks import scrubbed
from brokerproof.chaos.links import LinkProxy, Toward, Way
from brokerproof.chaos.ports import LOOPBACK, free_port, owns_listener, says_port_in_use
from brokerproof.chaos.processes import Process, ProcessDiedAtStart, Supervisor
from brokerproof.chaos.tools import ToolMissing, cache_folder, find_go, one_at_a_time, run_tool

VERSION = "2.12.0"
MODULE = f"github.com/Shopify/toxiproxy/v2/cmd/server@v{VERSION}"
REMEDY = "brokerproof doctor --install (builds it with Go, about half a minute)"
_BUILD_TIMEOUT_S = 600
_START_TRIES = 3
_API_TIMEOUT_S = 5
_STREAMS: dict[Toward, tuple[str, ...]] = {
    "client": ("downstream",),
    "broker": ("upstream",),
    "both": ("upstream", "downstream"),
}
# Between two slices, so that what is on the other side of the proxy sees each of them.
SLICE_EVERY_US = 1000
_NAME = re.compile(r"[\w.-]+", re.ASCII)
_CLIENT_LOCK = threading.Lock()


class ToxiproxyFailed(Exception):
    """The server does not show what it was asked for."""


def binary_path(cache_dir: Path | None = None) -> Path:
    """Where the built server is kept; it need not exist."""
    return (cache_dir or cache_folder()) / "toxiproxy" / VERSION / "server"


def find_toxiproxy(cache_dir: Path | None = None) -> Path:
    """The built server; raises `ToolMissing` if it was not built."""
    path = binary_path(cache_dir)
    if not os.access(path, os.X_OK):
        raise ToolMissing("Toxiproxy server", REMEDY)
    return path


def install_toxiproxy(cache_dir: Path | None = None) -> Path:
    """Build the pinned server with Go unless it is there; raises `ToolMissing` or `ToolFailed`."""
    path = binary_path(cache_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(path.parent):
        if os.access(path, os.X_OK):
            return path
        staging = path.parent / f"build.{os.getpid()}"
        env = {**scrubbed(os.environ), "GOBIN": str(staging), "CGO_ENABLED": "0"}
        try:
            run_tool("Go", [find_go(), "install", MODULE], _BUILD_TIMEOUT_S, env=env, cwd=path.parent)
            said = run_tool("Toxiproxy server", [staging / "server", "-version"], 30)
            if "version" not in said:
                raise ToxiproxyFailed(f"the server just built does not say its version: {said!r}")
            (staging / "server").replace(path)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return path


class ToxiproxyServer:
    """A running server on a free loopback port, owned by the supervisor."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.port = port

    @classmethod
    def start(cls, supervisor: Supervisor, binary: Path | None = None) -> Self:
        """Start one; raises `ToolMissing`, `ProcessDiedAtStart` or `NotReady`."""
        program = binary or find_toxiproxy()
        for _ in range(_START_TRIES):
            port = free_port()
            argv: list[str | Path] = [program, "-host", LOOPBACK, "-port", str(port)]
            server = cls(supervisor.spawn("toxiproxy", argv), port)
            # A taken port does not end the server, it only logs it; so the log and the owner of the port are looked at.
            state = server.process.await_ready(server._started, timeout_ms=10_000)
            if state == "ready":
                return server
            server.process.kill()
        raise ProcessDiedAtStart("toxiproxy", server.process.argv, server.process.poll(), server.process.log_tail())

    def link(self, name: str, broker_port: int, broker_host: str = LOOPBACK) -> ToxiproxyLink:
        """A link through this server to a broker's port; names must differ."""
        return ToxiproxyLink(self, name, broker_port, broker_host)

    def get(self, path: str) -> Any:
        """Read the server's API without `toxiproxy-python`: what is really set."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=_API_TIMEOUT_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise ToxiproxyFailed(f"toxiproxy answers {answer.status} to GET {path}: {body[:300]!r}")
        return json.loads(body)

    def client(self) -> Any:
        """The `toxiproxy-python` client, set to this server; use it under `_CLIENT_LOCK`, and at once."""
        try:
            import toxiproxy  # an optional extra, and slow to import
        except ImportError as error:
            raise ToolMissing("toxiproxy-python", "pip install toxiproxy-python") from error
        # It follows the proxy variables of the environment, and would look for our loopback server somewhere else.
        for name in ("no_proxy", "NO_PROXY"):
            if LOOPBACK not in os.environ.get(name, "") and urllib.request.getproxies():
                os.environ[name] = ",".join(filter(None, [os.environ.get(name), LOOPBACK]))
        client = toxiproxy.Toxiproxy()
        client.update_api_consumer(LOOPBACK, self.port)
        return client

    def _started(self) -> str | None:
        if says_port_in_use(self.process.log_tail()):
            return "taken"
        try:
            version = self.get("/version")
        except OSError:
            return None
        return "ready" if version and owns_listener(self.process.pid, self.port) else None


class ToxiproxyLink(LinkProxy):
    """A link whose line is a proxy of the Toxiproxy server."""

    def __init__(self, server: ToxiproxyServer, name: str, broker_port: int, broker_host: str = LOOPBACK) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"link name {name!r}: only letters, digits, points and hyphens, for it becomes part of a path"
            )
        self.server = server
        super().__init__(name, broker_port, broker_host)

    def _make_line(self, target_port: int) -> int:
        with _CLIENT_LOCK:
            made = self.server.client().create(
                name=self.name, upstream=f"{LOOPBACK}:{target_port}", listen=f"{LOOPBACK}:0", enabled=True
            )
        shown = self.server.get(f"/proxies/{self.name}")
        if shown["upstream"] != f"{LOOPBACK}:{target_port}" or shown["listen"] != made.listen or not shown["enabled"]:
            raise ToxiproxyFailed(f"proxy {self.name} is not as it was asked for: {shown}")
        return int(str(shown["listen"]).rpartition(":")[2])

    def _ask_stall(self, toward: Toward, *, drop: bool) -> None:
        kind, attributes = ("timeout", {"timeout": 0}) if drop else ("bandwidth", {"rate": 0})
        for stream in _STREAMS[toward]:
            self._add(f"stall_{stream}", kind, stream, attributes)

    def _ask_resume(self) -> None:
        self._remove([name for name in self._toxics() if name.startswith("stall_")])

    def _ask_latency(self, latency_us: int) -> int:
        latency_ms = (latency_us + 500) // 1000
        self._remove([name for name in self._toxics() if name.startswith("latency_")])
        if latency_ms:
            for stream in _STREAMS["both"]:
                self._add(f"latency_{stream}", "latency", stream, {"latency": latency_ms, "jitter": 0})
        return latency_ms * 1000

    def _ask_sever(self, toward: Way, after_bytes: int) -> None:
        self._remove([name for name in self._toxics() if name.startswith("sever_")])
        if after_bytes:
            (stream,) = _STREAMS[toward]
            self._add(f"sever_{stream}", "limit_data", stream, {"bytes": after_bytes})

    def _ask_shape(self, jitter_us: int, slice_bytes: int) -> None:
        self._remove([name for name in self._toxics() if name.startswith(("jitter_", "slice_"))])
        jitter_ms = (jitter_us + 500) // 1000
        for stream in _STREAMS["both"]:
            if slice_bytes:
                attributes = {"average_size": slice_bytes, "size_variation": 0, "delay": SLICE_EVERY_US}
                self._add(f"slice_{stream}", "slicer", stream, attributes)
            if jitter_ms:  # about the mean, so from 0 to twice as much
                self._add(f"jitter_{stream}", "latency", stream, {"latency": jitter_ms, "jitter": jitter_ms})

    def _ask_reset(self) -> None:
        with _CLIENT_LOCK:
            proxy = self.server.client().get_proxy(self.name)
            proxy.disable()
            proxy.enable()
        if not self.server.get(f"/proxies/{self.name}")["enabled"]:
            raise ToxiproxyFailed(f"proxy {self.name} was not switched on again after the reset")

    def _unmake_line(self) -> None:
        if self.server.process.poll() is None:
            with _CLIENT_LOCK:
                client = self.server.client()
                client.destroy(client.get_proxy(self.name))

    def _toxics(self) -> dict[str, dict[str, Any]]:
        return {toxic["name"]: toxic for toxic in self.server.get(f"/proxies/{self.name}/toxics")}

    def _add(self, name: str, kind: str, stream: str, attributes: dict[str, int]) -> None:
        with _CLIENT_LOCK:
            proxy = self.server.client().get_proxy(self.name)
            proxy.add_toxic(name=name, type=kind, stream=stream, attributes=attributes)
        shown = self._toxics().get(name)
        if shown is None or shown["type"] != kind or shown["stream"] != stream or shown["attributes"] != attributes:
            raise ToxiproxyFailed(f"toxic {name} of {self.name} is not as it was asked for: {shown}")

    def _remove(self, names: list[str]) -> None:
        if not names:
            return
        with _CLIENT_LOCK:
            proxy = self.server.client().get_proxy(self.name)
            for name in names:
                proxy.destroy_toxic(name)
        left = set(names) & set(self._toxics())
        if left:
            raise ToxiproxyFailed(f"toxics of {self.name} that could not be removed: {sorted(left)}")
