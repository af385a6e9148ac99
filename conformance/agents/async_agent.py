"""The loop of an agent around somebody else's client library: requests on stdin, answers on stdout, its socket.

It owns the asyncio loop, what waits for an answer, and the deliveries that can still be settled; a subclass knows the
library.

Rules
* One thread. The loop looks whether anything is readable before it sleeps: that is when all sockets were last seen
  empty, so what arrives lies between then and now. Wider than the kernel's stamps, and as true.
* What asks the broker is answered when the library says so, else *unknown* after its deadline. A connection that ends
  leaves everything that waits *unknown*.
* ``take`` is not offered: the suite hands out what has arrived, and names it in an acknowledgement.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit
from zlib import crc32

import msgspec

from brokerproof.conformance.agents.answers import Answers, hello
from brokerproof.conformance.agents.library import RefusedError, Stamps
from brokerproof.conformance.agents.message import FIELDS, LAST_MS, make_body, read_body, read_by_applications
from brokerproof.conformance.agents.protocol import (
    NOT_CONNECTED,
    UNSUPPORTED,
    Arrive,
    Browse,
    Closed,
    Fail,
    Hello,
    Quit,
    Request,
    parse_request,
    refused_by_broker,
)
from brokerproof.conformance.agents.secure import secured
from brokerproof.conformance.agents.stamps import NS_PER_MS, wall_reading
from brokerproof.conformance.agents.wire import Waiting
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.traits import Traits
from brokerproof.conformance.experiment.wire_names import DEFAULTS, WORDS, WireNames

CONNECT_TIMEOUT_S = 5.0
_READ_BYTES = 65536
_IDLE_S = 0.02
#: What waits for the greeting of the broker.
HELLO: str = "hello"
#: Of an operation that is done when it is written.
DONE: None = None


class Watch(selectors.DefaultSelector):
    """It knows when nothing was readable."""

    empty_ns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        before_ns = time.monotonic_ns()
        ready = super().select(0)
        if not ready:
            self.empty_ns = before_ns
            ready = super().select(_IDLE_S if timeout is None else min(timeout, _IDLE_S))
        return ready


class AsyncAgent(ABC):
    """The process: one host, at most one connection."""

    name: ClassVar[str]
    kind: ClassVar[str]
    capabilities: ClassVar[tuple[str, ...]]
    traits: ClassVar[Traits]
    #: What the protocol's own fields for a correlation id and a type are called in profiles.
    fields: ClassVar[frozenset[str]]

    def __init__(self, requests: int, answers: int) -> None:
        self._requests = requests
        self.answers = Answers(answers)
        self._buffer = bytearray()
        self._watch = Watch()
        self.loop = asyncio.SelectorEventLoop(self._watch)
        self._waiting: dict[Hashable, Waiting] = {}
        self.connected = False
        self.names: WireNames = DEFAULTS[self.kind]
        self.words: Mapping[str, str] = WORDS[self.kind]
        self.heard_ns = 0
        #: Consumer -> how it was attached; (consumer, message) -> what the library settles it by, oldest first: what
        #: died in two subscriptions is two letters of one name.
        self.consumers: dict[str, ops.Subscribe] = {}
        self.held: dict[tuple[str, str], list[Any]] = {}
        self.failure: Exception | None = None

    # -- what a subclass knows

    @abstractmethod
    def open(self, request: ops.Connect) -> None:
        """Begin to connect; ``opened`` or ``lost`` is called later. Raises ``OSError`` or ``RefusedError``."""

    @abstractmethod
    def send(self, operation: ops.Send, body: bytes) -> tuple[Hashable, Stamps]:
        """Under which name it will be answered (``DONE``: it is), and how it was stamped."""

    @abstractmethod
    def subscribe(self, operation: ops.Subscribe) -> Hashable:
        """Attach a consumer."""

    @abstractmethod
    def settle(self, handles: list[Any], *, accept: bool, tx: str) -> Hashable:
        """Settle deliveries, oldest first."""

    @abstractmethod
    def detach(self, consumer: str) -> None:
        """A consumer says goodbye."""

    @abstractmethod
    def farewell(self) -> None:
        """The connection says goodbye, as far as that can be written at once."""

    @abstractmethod
    def drop(self) -> None:
        """Let go of socket and library, without a word."""

    def other(self, operation: ops.ClientOperation) -> Hashable:
        """Whatever else it can. Raises ``RefusedError``."""
        raise RefusedError(UNSUPPORTED, f"{self.name} does not know {type(operation).__name__.lower()!r}")

    # -- what a subclass tells

    def opened(self, **traits: object) -> None:
        """The broker has greeted. ``traits``: those that it decides."""
        self.connected = True
        self.resolve(HELLO, traits=msgspec.to_builtins(msgspec.structs.replace(self.traits, **traits)))

    def resolve(self, key: Hashable, **also: object) -> None:
        """The broker said yes."""
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            self.answers.reply(waiting.id, waiting.t0_ns, ok={**(waiting.stamps or {}), **also})

    def refuse(self, key: Hashable, code: str, text: str) -> None:
        """The broker said no."""
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            fail = refused_by_broker(code, text)
            self.answers.reply(waiting.id, waiting.t0_ns, fail=fail, stamps=waiting.stamps)

    def lost(self, who: Literal["client", "broker"], reason: str) -> None:
        """The connection is over, and nobody here had asked for that."""
        now_ns = time.monotonic_ns()
        if self.connected:
            idle_ns = now_ns - self.heard_ns
            self.answers.say(Closed(t0=self._watch.empty_ns, t1=now_ns, who=who, reason=reason, idle_ns=idle_ns))
        elif HELLO in self._waiting:
            self.refuse(HELLO, "refused", reason)
        self._forget(reason)

    def arrived(self, consumer: str, body: bytes, handle: Any, **told: Any) -> None:
        """A message is here."""
        t0_ns, t1_ns, message = self._watch.empty_ns, time.monotonic_ns(), read_body(body)
        if self.consumers[consumer].browser:
            self.answers.say(Browse(t0=t0_ns, t1=t1_ns, consumer=consumer, message=message))
            return
        self.held.setdefault((consumer, message), []).append(handle)
        self.answers.say(Arrive(t0=t0_ns, t1=t1_ns, consumer=consumer, message=message, body=crc32(body), **told))

    def browsed(self, consumer: str) -> None:
        """A browser was told that this was all."""
        now_ns = time.monotonic_ns()
        self.answers.say(Browse(t0=self._watch.empty_ns, t1=now_ns, consumer=consumer, complete=True))

    def heard(self) -> None:
        """Bytes came."""
        self.heard_ns = time.monotonic_ns()

    def dial(self, request: ops.Connect) -> socket.socket:
        """A connected socket, with TLS if that is asked for. Raises ``RefusedError``."""
        url = urlsplit(request.url)
        try:
            sock = socket.create_connection((url.hostname or "", url.port or 0), timeout=CONNECT_TIMEOUT_S)
        except OSError as error:
            raise RefusedError("unreachable", f"{request.url}: {error}") from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = secured(sock, request) if request.secure else sock
        sock.setblocking(False)
        return sock

    def expiration_ms(self, operation: ops.Send) -> int:
        """When a message of this host's expires, by its clock; 0: never."""
        now_ms = wall_reading()[0]
        return LAST_MS if operation.endless else now_ms + operation.ttl_ms if operation.ttl_ms else 0

    # -- what applications read

    def labels(self, operation: ops.Send) -> tuple[dict[str, str], dict[str, Any]]:
        """The protocol's own fields and the properties of a message. Raises ``RefusedError`` for what has no name."""
        fields: dict[str, str] = {}
        properties: dict[str, Any] = {name: value for name, value in operation.headers.items() if name not in FIELDS}
        if operation.kind:
            properties["kind"] = operation.kind
        for name in sorted(FIELDS & operation.headers.keys()):
            word, value = self.words[name], str(operation.headers[name])
            if not word:
                raise RefusedError(UNSUPPORTED, f"names.{self.kind}.headers: there is no name for the {name}")
            if word in self.fields:
                fields[word] = value
            else:
                properties[word] = value
        return fields, properties

    def labelled(self, fields: Mapping[str, object], properties: Mapping[str, Any], reply_to: object) -> dict[str, Any]:
        """The same of a message that arrived, as it is told."""
        words = {self.words[name]: name for name in sorted(FIELDS) if self.words[name]}
        both = {**properties, **fields}
        told = {name: str(both[word]) for word, name in words.items() if both.get(word) is not None}
        kind = properties.get("kind")
        its_own = {*words, *(self.words.get(word, "") for word in ("original_destination", "delivery_count"))}
        plain = {name: value for name, value in properties.items() if name not in its_own}
        return {
            "kind": None if kind is None else str(kind),
            "properties": sorted(words.get(str(name), str(name)) for name in properties),
            "headers": read_by_applications(plain, {**told, "reply-to": str(reply_to) if reply_to else None}),
        }

    # -- requests

    def run(self) -> None:
        """Serve until ``quit`` or the end of the requests. Raises what a library raised that nobody had expected."""
        self.loop.add_reader(self._requests, self._read_requests)
        self.loop.run_forever()
        if self.failure is not None:
            raise self.failure
        self._forget("the agent ends")

    def _read_requests(self) -> None:
        part = os.read(self._requests, _READ_BYTES)
        if not part:
            self.loop.stop()
        self._buffer += part
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._answer(parse_request(line))

    def _answer(self, request: Request) -> None:
        t0_ns = time.monotonic_ns()
        operation = request.operation
        try:
            ok = self._perform(request, t0_ns)
        except RefusedError as refusal:
            self.answers.reply(request.id, t0_ns, fail=Fail(refusal.code, str(refusal)))
            return
        except Exception as error:  # noqa: BLE001 - raised by ``run``: the loop would go on, and never answer
            self.failure = error
            self.loop.stop()
            return
        if ok is not None:
            self.answers.reply(request.id, t0_ns, ok=ok)
        if isinstance(operation, Quit):
            self.loop.stop()

    def _perform(self, request: Request, t0_ns: int) -> dict[str, object] | None:
        """Do it; None: the answer comes later."""
        operation = request.operation
        if isinstance(operation, Hello):
            return hello(self.name, self.capabilities)
        if isinstance(operation, ops.ReadCounters):
            return {}
        if isinstance(operation, Quit | ops.Leave):
            return self._leave(operation)
        if isinstance(operation, ops.Connect):
            self._connect(request, operation, t0_ns)
            return None
        if not self.connected:
            raise RefusedError(NOT_CONNECTED, "there is no connection; send connect first")
        key, stamps = self._ask(operation)
        if key is DONE:
            return dict(stamps)
        self._wait(key, Waiting(request, t0_ns, stamps=stamps or None))
        return None

    def _connect(self, request: Request, operation: ops.Connect, t0_ns: int) -> None:
        if self.connected or HELLO in self._waiting:
            raise RefusedError("connected", "there is a connection already; leave it first")
        self.names = operation.names or DEFAULTS[self.kind]
        self.words = {**WORDS[self.kind], **self.names.headers}
        self.heard()
        self._wait(HELLO, Waiting(request, t0_ns))
        try:
            self.open(operation)
        except BaseException:
            self._waiting.pop(HELLO, None)
            raise

    def _ask(self, operation: ops.ClientOperation) -> tuple[Hashable, Stamps]:
        if isinstance(operation, ops.Send):
            body = make_body(operation.message, operation.size)
            key, stamps = self.send(operation, body)
            return key, {**stamps, "body": crc32(body)}
        if isinstance(operation, ops.Subscribe):
            self.consumers[operation.consumer] = operation
            return self.subscribe(operation), {}
        if isinstance(operation, ops.Ack | ops.Nack):
            return self._settle(operation), {}
        return self.other(operation), {}

    def _settle(self, operation: ops.Ack | ops.Nack) -> Hashable:
        names = [(operation.consumer, message) for message in operation.messages]
        left = {name: list(self.held.get(name, ())) for name in names}
        if not names or any(len(left[name]) < names.count(name) for name in left):
            text = f"not all of {operation.messages} were delivered to {operation.consumer!r}"
            raise RefusedError("unknown-message", text)
        handles = [left[name].pop(0) for name in names]
        key = self.settle(handles, accept=isinstance(operation, ops.Ack), tx=operation.tx)
        for name, kept in left.items():  # what was refused is held as before
            if kept:
                self.held[name] = kept
            else:
                del self.held[name]
        return key

    def _wait(self, key: Hashable, waiting: Waiting) -> None:
        self._waiting[key] = waiting
        left_s = (waiting.deadline_ns - time.monotonic_ns()) / 1e9
        self.loop.call_later(max(0.0, left_s), self._expire, key, waiting)

    def _expire(self, key: Hashable, waiting: Waiting) -> None:
        if self._waiting.get(key) is waiting:
            del self._waiting[key]
            self.answers.reply(waiting.id, waiting.t0_ns, unknown="no answer in time", stamps=waiting.stamps)
            if key == HELLO:
                self._forget("no greeting in time")

    def _leave(self, operation: ops.Leave | Quit) -> dict[str, object]:
        if isinstance(operation, ops.Leave) and operation.consumer is not None:
            if operation.consumer in self.consumers:
                self.detach(operation.consumer)
                self._release(operation.consumer)
            return {}
        if self.connected and (isinstance(operation, Quit) or operation.how == "close"):
            self.farewell()
        self._forget("the host left")
        return {}

    def _release(self, consumer: str) -> None:
        self.consumers.pop(consumer, None)
        self.held = {name: handle for name, handle in self.held.items() if name[0] != consumer}

    def _forget(self, reason: str) -> None:
        """Let go of the connection; its deliveries can no longer be settled."""
        self.connected = False
        self.drop()
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            self.answers.reply(one.id, one.t0_ns, unknown=reason, stamps=one.stamps)
        self.consumers.clear()
        self.held.clear()


def serve(kind: type[AsyncAgent]) -> int:
    """Serve stdin and stdout; what a library prints goes to the log."""
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    kind(sys.stdin.fileno(), answers).run()
    return 0


__all__ = ["DONE", "HELLO", "NS_PER_MS", "AsyncAgent", "serve"]
