"""What an agent proves of a profile, at a broker that is a list."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.conformance.agents.kinds import AMQP, MQTT
from brokerproof.conformance.worlds.live.examining import Wrong
from brokerproof.conformance.worlds.live.proving import _Bench


class Bench(_Bench):
    """It gives a consumer no more than ``most`` at a time, whatever it asks for; a topic of MQTT keeps nothing."""

    def __init__(self, kind: str, most: int) -> None:
        self._kind = kind
        self._most = most
        self._window = self._held = 0
        self._waiting: list[str] = []

    def _desk(self, offset_ms: int = 0) -> Any:
        return offset_ms

    def _place(self) -> str:
        return "t0"

    def _attach(self, desk: Any, dest: str, consumer: str, prefetch: int = 10, **options: Any) -> None:
        self._window = min(prefetch, self._most)

    def _send(self, desk: Any, dest: str, message: str, **options: Any) -> None:
        if self._window or self._kind != MQTT:
            self._waiting.append(message)

    def _next(self, desk: Any, consumer: str, wait_ms: int = 0) -> str | None:
        if self._held == self._window or not self._waiting:
            return None
        self._held += 1
        return self._waiting.pop(0)

    def _said(self, desk: Any, operation: Any) -> dict[str, Any]:
        self._held -= len(operation.messages)
        return {}


@pytest.mark.parametrize("kind", [AMQP, MQTT])
def test_a_window_is_proven_by_one_of_two(kind: str) -> None:
    assert Bench(kind, 9)._prefetch() == "a window of 2 holds 2, and moves with an acknowledgement"
    with pytest.raises(Wrong, match=r"a window of 2 holds \['m0'\]"):
        Bench(kind, 1)._prefetch()
