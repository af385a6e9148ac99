"""The watchdog: one piece of work that never ends (a loop inside the broker) ends all the same, with the same verdict
on every machine.

Rules
* Processor time only raises the suspicion: nothing happened in the simulated world from one look to the next. Then the
  run is made again with every executed line of the broker counted, and ``LINES_MAX`` lines in one piece of work decide.
* A look costs nothing: the system's timer for this process's own processor time, in the main thread. Elsewhere nobody
  looks.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import CodeType, FrameType
from typing import Any

from brokerproof.conformance.worlds.simulated.agenda import EndlessError

#: Processor time between two looks.
LOOK_S = 1.0
#: Lines of the broker that one piece of work may execute: a second's, and thousands of times what any needs.
LINES_MAX = 5_000_000
_BROKER = "brokerproof.reference_broker."
_AGENDA = "brokerproof.conformance.worlds.simulated.agenda"


class Stuck(BaseException):
    """One piece of work takes long. Nobody in between may take it for an error of his own."""


@contextmanager
def looking(look: Callable[[int, FrameType | None], None], timer: int, number: int, every_s: float) -> Iterator[None]:
    """Call ``look`` at every signal ``number`` of a timer of this process."""
    before = signal.signal(number, look)
    signal.setitimer(timer, every_s, every_s)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)


@contextmanager
def watched(progress: Callable[[], int]) -> Iterator[None]:
    """Raise ``Stuck`` when ``progress()`` stays the same from one look to the next."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = -1

    def look(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler's
        nonlocal seen
        now = progress()
        if now == seen:
            raise Stuck
        seen = now

    with looking(look, signal.ITIMER_VIRTUAL, signal.SIGVTALRM, LOOK_S):
        yield


@contextmanager
def counted() -> Iterator[None]:
    """Raise ``EndlessError`` in a piece of work of the broker that executes more than ``LINES_MAX`` lines."""
    before = sys.gettrace()
    sys.settrace(Counter())
    try:
        yield
    finally:
        sys.settrace(before)


class Counter:
    """Counts the lines that the broker's files execute; everything that happens in the world begins anew."""

    def __init__(self) -> None:
        self._lines = 0
        #: Code object -> whether it is the broker's, or (None) the world's that lets things happen.
        self._known: dict[CodeType, bool | None] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG002 - a trace function's
        code = frame.f_code
        if code not in self._known:
            module = str(frame.f_globals.get("__name__", ""))
            self._known[code] = None if module == _AGENDA else module.startswith(_BROKER)
        kind = self._known[code]
        if kind is None:
            self._lines = 0
        return self._count if kind else None

    def _count(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG002 - a trace function's
        self._lines += 1
        if self._lines > LINES_MAX:
            self._lines = 0
            text = f"one piece of work executed {LINES_MAX} lines, the last in {frame.f_code.co_qualname}"
            # The interpreter forgets a trace function that raises.
            raise EndlessError(text, partial(sys.settrace, self))
        return self._count
