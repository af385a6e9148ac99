"""The served broker for the live tests, and clients that do only what a test says: STOMP and OpenWire, plain or TLS."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from brokerproof.reference_broker.openwire.commands import Command, ConnectionInfo, WireFormatInfo
from brokerproof.reference_broker.openwire.connections import SessionInfo
from brokerproof.reference_broker.openwire.framing import ClientFraming
from brokerproof.reference_broker.session.framing import Limits
from brokerproof.reference_broker.stomp.codec import FrameDecoder, encode
from brokerproof.reference_broker.stomp.frames import Frame, Heartbeat

ROOT = Path(__file__).parents[2]
DEADLINE_S = 20.0


class Server:
    """A server process. ``stop`` ends it by its pid."""

    def __init__(self, *argv: str, module: str = "brokerproof.reference_broker.server") -> None:
        port = [] if "--connector" in argv else ["--port", "0"]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *port, "--admin-port", "0", *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # a line that was read ahead would hide from select
            cwd=ROOT,
            env=environment,
        )
        assert self.process.stdout is not None
        #: The admin port, the first port for clients.
        self.lines = [self.line(), self.line()]
        ports = [int(line.rsplit(":", 1)[1]) for line in self.lines]
        self.admin_port, self.port = ports
        self._admin = socket.create_connection(("127.0.0.1", self.admin_port), DEADLINE_S).makefile("rw")

    def line(self) -> str:
        """The next line that it says."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE_S)
        line = self.process.stdout.readline().decode() if ready else ""
        if not line:
            self.stop()
            pytest.fail("the server did not say that it listens")
        return line.strip()

    def ask(self, **request: object) -> dict[str, int]:
        self._admin.write(json.dumps(request) + "\n")
        self._admin.flush()
        answer = json.loads(self._admin.readline())
        assert "ok" in answer, answer
        ok: dict[str, int] = answer["ok"]
        return ok

    def counters(self, name: str = "queue://q") -> dict[str, int]:
        return self.ask(do="counters", dest=name)

    def pause(self) -> None:
        """It does nothing any more, until ``resume``."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """(exit code, what it wrote to standard error)."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            _, errors = self.process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        return self.process.returncode, errors.decode()


class Client:
    """A STOMP 1.2 client that does only what a test says."""

    def __init__(
        self,
        server: Server,
        *,
        connect: bool = True,
        receive_buffer: int = 0,
        heart_beat: str = "0,0",
        port: int = 0,
        context: ssl.SSLContext | None = None,
        **headers: str,
    ) -> None:
        self.socket = open_socket(port or server.port, context, receive_buffer)
        self.decoder = FrameDecoder()
        self.items: list[Frame | Heartbeat] = []
        if connect:
            self.send("CONNECT", {"accept-version": "1.2", "host": "b", "heart-beat": heart_beat, **headers})
            self.answer = self.frame()
            assert self.answer.command in {"CONNECTED", "ERROR"}

    def send(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        self.socket.sendall(encode(Frame(command, headers, body)))

    def frame(self) -> Frame:
        """The next frame; heart-beats are skipped."""
        while True:
            while self.items:
                item = self.items.pop(0)
                if isinstance(item, Frame):
                    return item
            data = self.socket.recv(65536)
            assert data, "the server closed the connection"
            self.items += self.decoder.feed(data)

    def closed(self, deadline_s: float = DEADLINE_S) -> float:
        """Wait for the end of the stream; returns the monotonic time at which it was seen."""
        self.socket.settimeout(deadline_s)
        with contextlib.suppress(ConnectionResetError):
            while self.socket.recv(65536):
                pass
        return time.monotonic()

    def request(self, command: str, headers: dict[str, str], body: bytes = b"") -> Frame:
        """Send with a receipt and return the answer."""
        self.send(command, {**headers, "receipt": "r"}, body)
        return self.frame()

    def works(self) -> bool:
        return self.request("SEND", {"destination": "/queue/probe"}, b"x").command == "RECEIPT"


class OpenWireClient:
    """An OpenWire client that does only what a test says."""

    def __init__(self, server: Server, *, port: int = 0, context: ssl.SSLContext | None = None) -> None:
        self.socket = open_socket(port or server.port, context)
        self.framing = ClientFraming(Limits(), "client-1")
        self.items: list[Command] = []
        self.send(WireFormatInfo())
        assert isinstance(self.command(WireFormatInfo), WireFormatInfo)

    def send(self, command: Command) -> None:
        self.socket.sendall(self.framing.encode(command))

    def command(self, *kinds: type[Command]) -> Command:
        """The next command of one of these kinds; others are skipped."""
        while True:
            while self.items:
                item = self.items.pop(0)
                if isinstance(item, kinds):
                    return item
            data = self.socket.recv(65536)
            assert data, "the server closed the connection"
            self.items += self.framing.feed(data)

    def connect(self, user: str = "", password: str = "") -> None:
        """Ask to be let in, then for a session; the answers are the test's."""
        info = ConnectionInfo("c", 1, True, connection_id="client-1", user_name=user, password=password)
        self.send(info)
        self.send(SessionInfo("client-1:1"))


def open_socket(port: int, context: ssl.SSLContext | None = None, receive_buffer: int = 0) -> socket.socket:
    """A socket to the broker."""
    plain = socket.socket()
    if receive_buffer:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    plain.settimeout(DEADLINE_S)
    plain.connect(("127.0.0.1", port))
    return plain if context is None else context.wrap_socket(plain, server_hostname="127.0.0.1")


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.02)
