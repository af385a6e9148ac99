"""An agent of ``async_agent`` in this process: its requests are made directly, its answers are read from a pipe."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from brokerproof.conformance.agents.async_agent import AsyncAgent
from brokerproof.conformance.agents.protocol import AnyOperation, Request

A = TypeVar("A", bound=AsyncAgent)
_PATIENCE_S = 5.0


class Piped(Generic[A]):
    """The agent and what it has said."""

    def __init__(self, agent: A, answers: int) -> None:
        self.agent = agent
        self._answers = answers
        self._numbers = 0
        self.said: list[dict[str, Any]] = []

    def ask(self, operation: AnyOperation) -> int:
        """A request; its number."""
        self._numbers += 1
        self.agent._answer(Request(self._numbers, operation))
        return self._numbers

    def read(self) -> list[dict[str, Any]]:
        """All that it has said so far."""
        while True:
            try:
                part = os.read(self._answers, 1 << 20)
            except BlockingIOError:
                return self.said
            self.said += [json.loads(line) for line in part.splitlines()]

    def reply(self, number: int) -> dict[str, Any]:
        """The answer to a request, once its sockets have brought it."""
        return self.until(lambda: [one for one in self.read() if one.get("id") == number])[0]

    def event(self, name: str) -> dict[str, Any]:
        """The first event of a kind."""
        return self.until(lambda: [one for one in self.read() if one.get("event") == name])[0]

    def until(self, found: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Let its loop run until there is something. Raises ``TimeoutError``."""

        async def wait() -> list[dict[str, Any]]:
            async with asyncio.timeout(_PATIENCE_S):
                while not (there := found()):
                    await asyncio.sleep(0)
            return there

        return self.agent.loop.run_until_complete(wait())


@contextmanager
def piped(kind: type[A]) -> Iterator[Piped[A]]:
    """One that is ended when the test is."""
    requests, answers = os.pipe(), os.pipe()
    os.set_blocking(answers[0], False)
    agent = kind(requests[0], answers[1])
    try:
        yield Piped(agent, answers[0])
    finally:
        agent._forget("the test is over")
        agent.loop.close()
        for end in (*requests, *answers):
            os.close(end)
