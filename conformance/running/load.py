"""How many live programs run at once: as many as there are lanes, but fewer where processors are waited for.

Programs wait most of their time, so many fit side by side. Where they compute (each broker is a JVM that starts, the
machine is busy with something else) more of them are no faster, and each is late.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

#: With more threads of the machine that run or wait, for each of its processors, no program begins.
RUNNABLE_MAX: Final = 4
#: So many programs run whatever the load is.
LEAST: Final = 3
_LOOK_S: Final = 0.1
#: What is looked at is the mean of about so long.
_MEAN_S: Final = 2.0


def runnable() -> int:
    """How many threads of this machine run, or wait for a processor; 0 where the kernel does not say (proc(5))."""
    try:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("procs_running ")), 0)


class Load:
    """Lets programs in. Of several threads each waits in ``room``."""

    def __init__(
        self,
        look: Callable[[], int] = runnable,
        processors: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._most = RUNNABLE_MAX * (processors or os.cpu_count() or 1)
        self._clock = clock
        self._looked_s = clock()
        self._runnable = 0.0
        self._running = 0
        self._changed = threading.Condition()

    @contextmanager
    def room(self, is_over: Callable[[], bool]) -> Iterator[None]:
        """Wait until one more may run; not longer than until all is over."""
        with self._changed:
            while not self._admits() and not is_over():
                self._changed.wait(_LOOK_S)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _admits(self) -> bool:
        now_s = self._clock()
        if (since_s := now_s - self._looked_s) >= _LOOK_S:
            self._runnable += (self._look() - self._runnable) * min(1.0, since_s / _MEAN_S)
            self._looked_s = now_s
        return self._running < LEAST or self._runnable <= self._most
