"""Jolokia: a JVM broker's own counters, over plain HTTP on loopback.

Decides: which attributes are read, under which names they are given, and what a missing one means.
Rules: one request for many readings; a counter that this release does not have is absent, never 0 (contracts.md section
2); a queue that does not exist yet has all its counts at 0, because its bean appears with its first use.
Known exceptions: `timestamp` in the answers, the broker's wall clock, has whole seconds only.
Change together: `chaos/brokers/activemq.py` (the agent's options, above all `nodelay`: without it a kept-alive read
takes 44 ms).
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.clocks import ClockReading, reading
from chaos.ports import LOOPBACK

_TIMEOUT_S = 5.0
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


class JolokiaFailed(Exception):
    """The agent answers an error, or not at all."""


@dataclass(frozen=True)
class Answer:
    """One reading: its value, or why there is none (a Java exception's name)."""

    value: Any
    error: str | None
    no_instance: bool


class Jolokia:
    """One broker's management agent on a loopback port. May be used from several threads."""

    def __init__(self, port: int, broker_name: str = "b") -> None:
        self.port = port
        self.broker_bean = f"org.apache.activemq:type=Broker,brokerName={broker_name}"
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

    def execute(self, bean: str, operation: str, *arguments: Any) -> Any:
        """Call an operation; write the parentheses (`purge()`), because some names are overloaded in newer releases."""
        row = {"type": "exec", "mbean": bean, "operation": operation, "arguments": list(arguments)}
        (answer,) = [_answer(found) for found in self._post([row])]
        if answer.error is not None:
            raise JolokiaFailed(f"{operation} of {bean}: {answer.error}")
        return answer.value

    def queue_bean(self, queue: str) -> str:
        """The bean of a queue."""
        return f"{self.broker_bean},destinationType=Queue,destinationName={queue}"

    def queue_counters(self, queue: str) -> dict[str, int]:
        """A queue's counters; all 0 if it does not exist yet, and without those that this release lacks."""
        bean = self.queue_bean(queue)
        answers = self.read_many([(bean, attribute) for attribute in QUEUE_COUNTERS.values()])
        if all(answer.no_instance for answer in answers):
            return dict.fromkeys(("size", "in_flight", "enqueued", "dequeued", "dispatched", "expired"), 0)
        return _present(QUEUE_COUNTERS, answers)

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
        return reading(int(row["timestamp"]) * 1000, t0_ns, real0_ms, resolution_ms=1000)

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
                        raise JolokiaFailed(
                            f"no answer from the management agent on port {self.port}: {error}"
                        ) from error
        if status != 200:
            raise JolokiaFailed(f"the management agent on port {self.port} answers {status}: {text[:300]!r}")
        found = json.loads(text)
        return found if isinstance(found, list) else [found]

    def _exchange(self, body: str) -> tuple[bytes, int]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=_TIMEOUT_S)
        self._connection.request("POST", "/jolokia/", body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        return answer.read(), answer.status


def _answer(row: Mapping[str, Any]) -> Answer:
    if row.get("status") == 200:
        return Answer(row.get("value"), None, no_instance=False)
    kind = str(row.get("error_type"))
    return Answer(None, f"{kind}: {row.get('error')}", no_instance=kind == _NO_INSTANCE)


def _present(names: Mapping[str, str], answers: Sequence[Answer]) -> dict[str, int]:
    pairs = zip(names, answers, strict=True)
    return {name: answer.value for name, answer in pairs if isinstance(answer.value, int)}
