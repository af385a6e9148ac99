"""The admin port: one JSON object per line in, one out, in order. For tests and probes; not a management interface.

It exists because evidence must come through another channel than the one under test: a probe reads here which clocks
the broker's process really has, and an operator's requests do not take the way of the messages. A request that cannot
be understood, or that the broker refuses, gets ``fail`` and changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from brokerproof.reference_broker.core.events import (
    Move,
    Mqsc,
    Operation,
    Purge,
    RemoveQueue,
    ResetStatistics,
    SetMemoryLimit,
)
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.session.actions import Answered

_LONGEST_LINE: Final = 64 * 1024

_Request = dict[str, object]
_Result = dict[str, object]
Reply = Callable[[_Result], None]
Then = Callable[[Answered], None]


class BadRequestError(Exception):
    """The *prober* asked for something that does not exist."""


class Admin:
    """Answers requests about one node.

    ``flush`` carries out what a request has caused; ``stopping`` ends the server.
    """

    def __init__(
        self, node: Node, clocks: Callable[[], Now], flush: Callable[[Now], None], stopping: asyncio.Event
    ) -> None:
        self._node = node
        self._clocks = clocks
        self._flush = flush
        self._stopping = stopping
        #: Operations that the broker has not answered yet.
        self._waiting: dict[int, Then] = {}

    def ask(self, line: bytes, reply: Reply) -> None:
        """One line; ``reply`` gets the answer, at once or when the broker has given it."""
        try:
            request = _parse(line)
            make = _OPERATIONS.get(str(request.get("do")))
            if make is not None:
                self._operate(make(request), reply)
            else:
                reply({"ok": self._perform(request)})
        except BadRequestError as error:
            reply(_failed("bad-request", str(error)))

    def answered(self, action: Answered) -> None:
        """The broker has carried out an operation, or refused it."""
        then = self._waiting.pop(action.request, None)
        if then is not None:
            then(action)

    def submit(self, operation: Operation, then: Then) -> None:
        """Have the broker carry out an operation; ``then`` is told what became of it."""
        now = self._clocks()
        self._waiting[self._node.submit(operation, now)] = then
        self._flush(now)

    def _operate(self, operation: Operation, reply: Reply) -> None:
        self.submit(operation, lambda done: reply(_done(done)))

    def _perform(self, request: _Request) -> _Result:
        command = request.get("do")
        now = self._clocks()
        if command == "now":
            return {"wall_ms": now.wall_ms, "mono_ns": now.mono_ns}
        if command == "destinations":
            return {"destinations": self._node.broker.destinations()}
        if command == "counters" and request.get("dest") is None:
            return {**self._node.broker.broker_counters()}
        if command == "counters":
            return {**self._counters(request, now)}
        if command == "browse":
            return {"messages": self._browse(request)}
        if command == "quit":
            self._stopping.set()
            return {}
        raise BadRequestError(f"do = {command!r} is unknown; one of {', '.join((*_COMMANDS, *_OPERATIONS))}")

    def _browse(self, request: _Request) -> list[_Result]:
        name = _name(request, "dest")
        messages = self._node.broker.browse(name, _number(request, "limit", 100))
        if messages is None:
            raise BadRequestError(
                f"dest = {name!r} is no queue of this broker; ask for destinations, as in queue://NAME"
            )
        return [
            {
                "message_id": message.message_id,
                "body": message.body.decode("utf-8", "replace"),
                "expiration_ms": message.expiration_ms,
                "timestamp_ms": message.timestamp_ms,
                "priority": message.priority,
                "persistent": message.persistent,
                "redelivery_count": message.redelivery_count,
                "properties": message.properties,
            }
            for message in messages
        ]

    def _counters(self, request: _Request, now: Now) -> dict[str, int]:
        name = request.get("dest")
        counters = self._node.broker.counters(name, now) if isinstance(name, str) else None
        if counters is None:
            raise BadRequestError(f"dest = {name!r} does not exist; ask for destinations, as in queue://NAME")
        return counters


class AdminConnection(asyncio.Protocol):
    """One connection to the admin port.

    ``open_ones`` holds its transport while it lasts, for whoever closes the server.
    """

    def __init__(self, admin: Admin, open_ones: set[asyncio.Transport]) -> None:
        self._admin = admin
        self._open_ones = open_ones
        self._buffer = b""
        #: One entry per line, in order; empty until its answer is there.
        self._answers: deque[list[_Result]] = deque()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Of uvloop's transports not all are subclasses of asyncio's.
        self._transport = made = cast("asyncio.Transport", transport)
        self._open_ones.add(made)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        if self._transport is not None:
            self._open_ones.discard(self._transport)
            self._transport = None

    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._ask(line)
        if len(self._buffer) > _LONGEST_LINE and self._transport is not None:
            self._ask(self._buffer)
            self._transport.close()

    def _ask(self, line: bytes) -> None:
        answer: list[_Result] = []
        self._answers.append(answer)

        def reply(result: _Result) -> None:
            answer.append(result)
            self._write()

        self._admin.ask(line, reply)

    def _write(self) -> None:
        while self._answers and self._answers[0]:
            (result,) = self._answers.popleft()
            if self._transport is not None:
                self._transport.write(json.dumps(result).encode() + b"\n")


def _parse(line: bytes) -> _Request:
    try:
        request = json.loads(line)
    except ValueError:
        request = None
    if not isinstance(request, dict):
        raise BadRequestError(f"{line[:60].decode('utf-8', 'replace')!r} is not a JSON object; send one per line")
    return request


def _done(action: Answered) -> _Result:
    if action.code:
        return _failed(action.code, action.text)
    return {"ok": {"count": action.count, "shown": action.shown} if action.shown else {"count": action.count}}


def _failed(code: str, text: str) -> _Result:
    return {"fail": {"code": code, "text": text}}


def _name(request: _Request, field: str) -> str:
    name = request.get(field)
    if not isinstance(name, str) or not name:
        raise BadRequestError(f"{field} = {name!r} is not a destination; write it as in queue://NAME")
    return name


def _optional(request: _Request, field: str) -> str:
    """A destination, or "" for all of them (the broker)."""
    return "" if request.get(field) is None else _name(request, field)


def _number(request: _Request, field: str, default: int | None = None) -> int:
    number = request.get(field, default)
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise BadRequestError(f"{field} = {number!r} is not usable; send a number, 0 or more")
    return number


def _selector(request: _Request) -> str:
    text = request.get("selector", "")
    if not isinstance(text, str):
        raise BadRequestError(f"selector = {text!r} is not a text; send one, as in \"kind = 'a'\"")
    return text


def _move(request: _Request) -> Operation:
    count = _number(request, "count", 0)
    return Move(_name(request, "dest"), _name(request, "to"), selector=_selector(request), count=count)


_COMMANDS: Final = ("now", "counters", "destinations", "browse", "quit")
_OPERATIONS: Final[dict[str, Callable[[_Request], Operation]]] = {
    "purge": lambda request: Purge(_name(request, "dest")),
    "remove": lambda request: RemoveQueue(_name(request, "dest")),
    "move": _move,
    "reset": lambda request: ResetStatistics(_optional(request, "dest")),
    "mqsc": lambda request: Mqsc(str(request.get("command", ""))),
    "limit": lambda request: SetMemoryLimit(_optional(request, "dest"), _number(request, "bytes")),
}
