"""An interrupted suite: the first SIGINT or SIGTERM lets what has begun end and begins nothing more, so that what has
been judged is reported; the second one ends the command at once (``KeyboardInterrupt``), unless it comes with the
first: ``timeout`` signals its child and then the child's group.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

#: Set once somebody asked for the end. Whoever starts a run asks first.
STOP = threading.Event()
SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Two signals of one sender come within this time.
SAME_NS: Final = 200_000_000


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """``STOP``, which the signals set until the block ends. Outside of the main thread no signal is heard."""
    STOP.clear()
    if threading.current_thread() is not threading.main_thread():
        yield STOP
        return

    first_ns = 0

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler's
        nonlocal first_ns
        if not STOP.is_set():
            first_ns = time.monotonic_ns()
            STOP.set()
        elif time.monotonic_ns() - first_ns > SAME_NS:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield STOP
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        STOP.clear()
