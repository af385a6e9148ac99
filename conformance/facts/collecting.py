"""When the garbage collector looks. Nearly all that a run, its facts and its judging make lives until the verdicts are
there: in a history of 100,000 events it would look through ever more, and find nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: New objects that make it look, where many runs follow each other: one makes thousands.
COLLECT_AFTER: Final = 100_000


@contextmanager
def uncollected() -> Iterator[None]:
    """Let it wait while one history is judged, unless it does already: who stopped it lets it go on."""
    stopped = gc.isenabled()
    if stopped:
        gc.disable()
    try:
        yield
    finally:
        if stopped:
            gc.enable()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let it look less often while any number of programs run; what it was set to before comes back."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
