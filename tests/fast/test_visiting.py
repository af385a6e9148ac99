"""Strangers of the live world: what is let go of when something goes wrong. Their sockets are real, nobody listens."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.conformance.worlds.live import visiting


def test_a_stranger_that_ends_before_it_was_listened_to_is_let_go() -> None:
    with socket.socket() as line:
        gone: Any = SimpleNamespace(socket=line, stranger=SimpleNamespace(ended_ns=1), speak=lambda: None)
        world: Any = SimpleNamespace(true_ns=time.monotonic_ns, pump=lambda _until_ns: None)
        visiting._attend(world, [gone], 60_000)


def test_strangers_that_have_come_go_when_the_next_one_cannot_come(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[socket.socket] = []

    def come(*_arguments: object) -> SimpleNamespace:
        if len(lines) == 2:
            raise ConnectionRefusedError("nobody listens")
        lines.append(socket.socket())
        return SimpleNamespace(socket=lines[-1], begin=lambda: None)

    monkeypatch.setattr(visiting, "Visitor", come)
    endpoint = SimpleNamespace(port=lambda _via: 1, resources=lambda: None)
    world: Any = SimpleNamespace(
        endpoint=endpoint, over_budget=lambda _ms: False, true_ns=time.monotonic_ns, start_ns=0
    )
    step: Any = SimpleNamespace(via="stomp", times=5, ms=60_000)
    with pytest.raises(ConnectionRefusedError):
        visiting.visit(world, step)
    assert [line.fileno() for line in lines] == [-1, -1]
