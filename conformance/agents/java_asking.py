"""A consumer of a JMS provider, which asks for one message at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import jpype

from brokerproof.conformance.agents.java import Consumer, begun, receive

#: Says that a consumer was given a message, since when that may have been, and when it was; what the message is called.
Tell = Callable[[str, Any, int, int], str]


class Asking(Consumer):
    """A consumer whose ``receive`` goes on in a thread of its own: a library may wait for a broker that is silent."""

    def __init__(self, name: str, session: Any, consumer: Any, tell: Tell, *, ahead: bool) -> None:
        """``ahead``: what arrives may be here before it is asked for."""
        super().__init__(name, session, consumer)
        self._tell = tell
        self._thread: threading.Thread | None = None
        self._found: tuple[Any, str] | Exception | None = None
        #: Since when that may have been, 0: it may not.
        self._since_ns = time.monotonic_ns() if ahead else 0

    def ask(self, wait_ms: int) -> None:
        """Call ``receive``, unless an earlier call has not come back."""

        def call() -> None:
            since_ns = self._since_ns or time.monotonic_ns()
            try:
                message, at_ns = receive(self.consumer, wait_ms), time.monotonic_ns()
                self._since_ns = at_ns if self._since_ns else 0
                self._found = message, "" if message is None else self._tell(self.name, message, since_ns, at_ns)
            except jpype.JException as error:
                self._found = error

        if self._thread is None:
            self._thread = begun(call)

    def answered(self, wait_ms: int) -> bool:
        """Wait for it, at most so long; whether it has come back."""
        assert self._thread is not None, "it was asked"
        self._thread.join(wait_ms / 1000)
        return not self._thread.is_alive()

    def answer(self) -> tuple[Any, str]:
        """The message, or None, and what it is called. Raises what the library raised."""
        self._thread, found = None, self._found
        if isinstance(found, Exception):
            raise found
        assert found is not None, "it has come back"
        return found
