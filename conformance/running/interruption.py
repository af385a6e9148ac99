"""An interrupted suite: the first SIGINT or SIGTERM lets what has begun end and begins nothing more, so that what has
been judged is reported; the second one ends the command at once (``KeyboardInterrupt``).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Set once somebody asked for the end. Whoever starts a run asks first.
STOP = threading.Event()
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """``STOP``, which the signals set until the block ends. Outside of the main thread no signal is heard."""
    STOP.clear()
    if threading.current_thread() is not threading.main_thread():
        yield STOP
        return

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler's
        if STOP.is_set():
            raise KeyboardInterrupt
        STOP.set()

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield STOP
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        STOP.clear()
