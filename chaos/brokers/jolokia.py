"""Jolokia: a broker's own counters over HTTP: of a JVM by its agent, of ActiveMQ's console, of whoever offers the same.

Decides: which attributes are read, under which names they are given, and what a missing one means.
Rules: one request for many readings; a counter that this release does not have is absent, never 0 (contracts.md section
2); a queue that does not exist yet has all its counts at 0, because its bean appears with its first use; requests are
POSTed and carry an `Origin`, because the newest releases answer nothing else; an answer that is no Jolokia's, that is
too long or does not end is one clear error, because an operator may give any address.
Known exceptions: `timestamp` in the answers, the broker's wall clock, has whole seconds only.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerproof.chaos.clocks import ClockReading, reading
from brokerproof.chaos.ports import LOOPBACK

DOMAIN = "org.apache.activemq"
_TIMEOUT_S = 5.0
#: The whole answer, however slowly its bytes come, and how long it may be.
_WHOLE_S = 8.0
_MOST_BYTES = 64 * 1024 * 1024
_PIECE_BYTES = 64 * 1024
#: How often a queue is looked at that comes into being, or goes, while it is read.
_LOOKS = 5
_NO_INSTANCE = "javax.management.InstanceNotFoundException"
# name in a history's counters event -> attribute of the queue's bean
QUEUE_COUNTERS: Mapping[str, str] = {
    "size": "QueueSize",
    "in_flight": "InFlightCount",
    "enqueued": "EnqueueCount",
    "dequeued": "DequeueCount",
    "dispatched": "DispatchCount",
    "expired": "ExpiredCount",
    "consumers": "ConsumerCount",
    "memory_percent": "MemoryPercentUsage",
    "memory_bytes": "MemoryUsageByteCount",
    "memory_limit_bytes": "MemoryLimit",
    "cursor_percent": "CursorPercentUsage",
    "blocked_sends": "BlockedSends",
}
BROKER_COUNTERS: Mapping[str, str] = {
    "memory_percent": "MemoryPercentUsage",
    "memory_limit_bytes": "MemoryLimit",
    "store_percent": "StorePercentUsage",
    "temp_percent": "TempPercentUsage",
    "enqueued": "TotalEnqueueCount",
    "dequeued": "TotalDequeueCount",
    "consumers": "TotalConsumerCount",
    "producers": "TotalProducerCount",
    "messages": "TotalMessageCount",
}


_REMEDIES = {
    401: " (give user and password)",
    403: " (its policy forbids it)",
    404: " (is this the path of the endpoint?)",
}


class JolokiaFailed(Exception):
    """The agent answers an error, or not at all."""


class NoAnswer(JolokiaFailed):
    """Nobody is there, or nobody answers in time."""


@dataclass(frozen=True)
class Answer:
    """One reading: its value, or why there is none (a Java exception's name)."""

    value: Any
    error: str | None
    no_instance: bool


class Jolokia:
    """One broker's management endpoint. May be used from several threads."""

    def __init__(
        self,
        port: int,
        broker_name: str = "b",
        *,
        host: str = LOOPBACK,
        path: str = "/jolokia/",
        credentials: tuple[str, str] | None = None,
        secure: bool = False,
        witness: Callable[[], str] | None = None,
    ) -> None:
        """`credentials` are user and password, sent with every request; `secure` speaks TLS.

        `witness` tells what is known of the broker's process, for the error when there is no answer.
        """
        self.port = port
        self._witness = witness
        self.broker_bean = f"{DOMAIN}:type=Broker,brokerName={broker_name}"
        self._path = path
        self._make = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._host = host
        origin = f"http{'s' if secure else ''}://" + (f"[{host}]" if ":" in host else host)
        self._headers = {"Content-Type": "application/json", "Origin": origin}
        if credentials is not None:
            self._headers["Authorization"] = "Basic " + b64encode(":".join(credentials).encode()).decode("ascii")
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()

    def read_many(self, readings: Sequence[tuple[str, str]]) -> list[Answer]:
        """Many (bean, attribute) readings in one request, in order; each may fail alone."""
        rows = [{"type": "read", "mbean": bean, "attribute": attribute} for bean, attribute in readings]
        return [_answer(row) for row in self._post(rows)]

    def read(self, bean: str, attribute: str) -> Any:
        """One attribute; None if the bean does not exist, `JolokiaFailed` for any other error."""
        (answer,) = self.read_many([(bean, attribute)])
        if answer.error is not None and not answer.no_instance:
            raise JolokiaFailed(f"{attribute} of {bean}: {answer.error}")
        return answer.value

    def read_all(self, bean: str) -> dict[str, Any]:
        """All attributes of a bean; `JolokiaFailed` if it does not exist."""
        (answer,) = [_answer(found) for found in self._post([{"type": "read", "mbean": bean}])]
        if answer.error is not None:
            raise JolokiaFailed(f"{bean}: {answer.error}")
        return dict(answer.value)

    def read_pattern(self, pattern: str, attributes: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Attributes of all beans that match, by name; those that a bean lacks are absent. None match: empty."""
        return self.read_patterns([(pattern, attributes)])[0]

    def read_patterns(self, patterns: Sequence[tuple[str, Sequence[str]]]) -> list[dict[str, dict[str, Any]]]:
        """The same for several patterns, in one request."""
        rows = [{"type": "read", "mbean": pattern, "attribute": list(attributes)} for pattern, attributes in patterns]
        answers = [_answer(found) for found in self._post(rows)]
        for (pattern, _), answer in zip(patterns, answers, strict=True):
            if answer.error is not None and not answer.no_instance:
                raise JolokiaFailed(f"{pattern}: {answer.error}")
        return [dict(answer.value or {}) for answer in answers]

    def search(self, pattern: str) -> list[str]:
        """The names of the beans that match."""
        (answer,) = [_answer(found) for found in self._post([{"type": "search", "mbean": pattern}])]
        if answer.error is not None:
            raise JolokiaFailed(f"search {pattern}: {answer.error}")
        return list(answer.value)

    def find_broker(self) -> str:
        """Take the name of the broker that is there, and give it; `JolokiaFailed` if there is not exactly one."""
        names = self.search(f"{DOMAIN}:type=Broker,brokerName=*")
        if len(names) != 1:
            raise JolokiaFailed(f"{len(names)} brokers are managed at port {self.port}, not one: {', '.join(names)}")
        self.broker_bean = names[0]
        return names[0].rpartition("brokerName=")[2]

    def execute(self, bean: str, operation: str, *arguments: Any) -> Any:
        """Call an operation; write the parentheses (`purge()`), because some names are overloaded in newer releases."""
        row = {"type": "exec", "mbean": bean, "operation": operation, "arguments": list(arguments)}
        (answer,) = [_answer(found) for found in self._post([row])]
        if answer.error is not None:
            raise JolokiaFailed(f"{operation} of {bean}: {answer.error}")
        return answer.value

    def execute_all(self, beans: Sequence[str], operation: str) -> list[Answer]:
        """Call an operation of several beans in one request; each may fail alone."""
        rows = [{"type": "exec", "mbean": bean, "operation": operation, "arguments": []} for bean in beans]
        return [_answer(found) for found in self._post(rows)] if rows else []

    def queue_bean(self, queue: str) -> str:
        """The bean of a queue."""
        return f"{self.broker_bean},destinationType=Queue,destinationName={queue}"

    def queue_counters(self, queue: str) -> dict[str, int]:
        """A queue's counters; all 0 if it does not exist yet, and without those that this release lacks."""
        bean = self.queue_bean(queue)
        readings = [(bean, attribute) for attribute in QUEUE_COUNTERS.values()]
        for _ in range(_LOOKS):
            answers = self.read_many(readings)
            if all(answer.no_instance for answer in answers):
                return dict.fromkeys(("size", "in_flight", "enqueued", "dequeued", "dispatched", "expired"), 0)
            # The bean came or went between two attributes; what was read is of no instant.
            if not any(answer.no_instance for answer in answers):
                return _present(QUEUE_COUNTERS, answers)
        raise JolokiaFailed(f"{bean} came and went while it was read, {_LOOKS} times")

    def broker_counters(self) -> dict[str, int]:
        """The broker's own counters, without those that this release lacks."""
        answers = self.read_many([(self.broker_bean, attribute) for attribute in BROKER_COUNTERS.values()])
        return _present(BROKER_COUNTERS, answers)

    def purge(self, queue: str) -> None:
        """Throw away the messages of a queue."""
        self.execute(self.queue_bean(queue), "purge()")

    def version(self) -> str:
        """The release that the broker itself says it is (some releases greet with a template instead of a version)."""
        return str(self.read(self.broker_bean, "BrokerVersion"))

    def clock(self) -> ClockReading:
        """The broker's wall clock, to the second: proof of a skew through another channel than the clock file."""
        t0_ns, real0_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
        (row,) = self._post([{"type": "version"}])
        if not isinstance(row.get("timestamp"), int):
            raise JolokiaFailed(f"version: {_answer(row).error or 'no timestamp'}")
        return reading(row["timestamp"] * 1000, t0_ns, real0_ms, resolution_ms=1000)

    def close(self) -> None:
        """Close the kept-alive connection."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        body = json.dumps(list(rows))
        with self._lock:
            for attempt in (1, 2):
                kept_alive = self._connection is not None
                try:
                    text, status = self._exchange(body)
                    break
                except (OSError, http.client.HTTPException) as error:
                    self._close()
                    # The server may have closed a kept-alive connection; only then is a second try honest.
                    if attempt == 2 or not kept_alive:
                        known = f"; {self._witness()}" if self._witness else ""
                        raise NoAnswer(
                            f"no answer from the management agent on port {self.port}: {str(error).strip()}{known}"
                        ) from error
        if status != 200:
            remedy = _REMEDIES.get(status, "")
            raise JolokiaFailed(f"the management agent on port {self.port} answers {status}{remedy}: {text[:300]!r}")
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            # The agent failed before it looked at the rows.
            found = [found] * len(rows)
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
            raise JolokiaFailed(f"what answers on port {self.port} is no Jolokia: it says {text[:100]!r}")
        if len(found) != len(rows):
            raise JolokiaFailed(
                f"the management agent on port {self.port} gives {len(found)} answers to {len(rows)} requests"
            )
        return found

    def _exchange(self, body: str) -> tuple[bytes, int]:
        if self._connection is None:
            self._connection = self._make(self._host, self.port, timeout=_TIMEOUT_S)
        self._connection.request("POST", self._path, body, self._headers)
        answer = self._connection.getresponse()
        try:
            return _whole(answer), answer.status
        except JolokiaFailed as error:
            self._close()
            raise JolokiaFailed(f"port {self.port}: {error}") from None


def _whole(answer: http.client.HTTPResponse) -> bytes:
    """The body; not longer, and not for longer, than bounded."""
    body = bytearray()
    deadline = time.monotonic() + _WHOLE_S
    while piece := answer.read1(_PIECE_BYTES):
        body += piece
        if len(body) > _MOST_BYTES or time.monotonic() > deadline:
            raise JolokiaFailed(f"the answer does not end: {len(body)} bytes came, within {_WHOLE_S:.0f} s at most")
    # At the end of a body of known length, only this makes the connection ready for the next request.
    answer.read()
    return bytes(body)


def _answer(row: Mapping[str, Any]) -> Answer:
    if row.get("status") == 200:
        return Answer(row.get("value"), None, no_instance=False)
    kind = str(row.get("error_type"))
    return Answer(None, f"{kind}: {row.get('error')}", no_instance=kind == _NO_INSTANCE)


def _present(names: Mapping[str, str], answers: Sequence[Answer]) -> dict[str, int]:
    pairs = zip(names, answers, strict=True)
    return {name: answer.value for name, answer in pairs if isinstance(answer.value, int)}
