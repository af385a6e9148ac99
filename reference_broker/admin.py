"""The admin port: one JSON object per line in, one out. For tests and probes; not a management interface.

It exists because evidence must come through another channel than the one under test: a probe reads here which clocks
the broker's process really has. A request that cannot be understood gets ``fail`` and changes nothing. What must change
together: the table in ``docs/configuration.md``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Final

from reference_broker.core.events import Purge
from reference_broker.core.instant import Now
from reference_broker.node import Node

_COMMANDS: Final = ("now", "counters", "destinations", "purge", "quit")

_LONGEST_LINE: Final = 64 * 1024

_Result = dict[str, object]


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

    def answer(self, line: bytes) -> _Result:
        """The answer to one line."""
        try:
            return {"ok": self._perform(_parse(line))}
        except BadRequestError as error:
            return {"fail": {"code": "bad-request", "text": str(error)}}

    def _perform(self, request: dict[str, object]) -> _Result:
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
        if command == "purge":
            self._counters(request, now)
            self._node.submit(Purge(str(request["dest"])), now)
            self._flush(now)
            return {}
        if command == "quit":
            self._stopping.set()
            return {}
        raise BadRequestError(f"do = {command!r} is unknown; one of {', '.join(_COMMANDS)}")

    def _counters(self, request: dict[str, object], now: Now) -> dict[str, int]:
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
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            self._open_ones.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        if self._transport is not None:
            self._open_ones.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._reply(line)
        if len(self._buffer) > _LONGEST_LINE and self._transport is not None:
            self._reply(self._buffer)
            self._transport.close()

    def _reply(self, line: bytes) -> None:
        if self._transport is not None:
            self._transport.write(json.dumps(self._admin.answer(line)).encode() + b"\n")


def _parse(line: bytes) -> dict[str, object]:
    try:
        request = json.loads(line)
    except ValueError:
        request = None
    if not isinstance(request, dict):
        raise BadRequestError(f"{line[:60].decode('utf-8', 'replace')!r} is not a JSON object; send one per line")
    return request
