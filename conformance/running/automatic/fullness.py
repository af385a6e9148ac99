"""A broker that takes ever more memory is stopped before the system refuses it any: an interpreter that is refused may
well end on the spot, and then there is no verdict.

Rules: looked at by processor time, as the watchdog does, with the timer that it leaves free; where nobody can tell how
much is taken (no ``/proc``) the system's refusal is all there is.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from brokerproof.conformance.running.watchdog import looking

#: Several times what any program takes on the sound broker.
FULL_BYTES = 1024**3
#: Processor time between two looks.
LOOK_S = 0.2
_TAKEN = Path("/proc/self/statm")


class Overfull(BaseException):
    """This process takes more than ``FULL_BYTES``. Nobody in between may take it for an error of his own."""


def taken_bytes() -> int:
    """What this process has in memory; 0: nobody can tell."""
    with suppress(OSError):
        return int(_TAKEN.read_text("ascii").split()[1]) * resource.getpagesize()
    return 0


@contextmanager
def bounded() -> Iterator[None]:
    """Raise ``Overfull`` when this process takes too much."""

    def look(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler's
        if taken_bytes() > FULL_BYTES:
            signal.setitimer(signal.ITIMER_PROF, 0)  # once: it must not interrupt what tells of it
            raise Overfull

    with looking(look, signal.ITIMER_PROF, signal.SIGPROF, LOOK_S):
        yield
