"""The garbage collector waits while facts are found and judged: all that is made lives until the verdicts are there, so
in a history of 100,000 events it would look through ever more, and find nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Let it wait, unless it does already: who stopped it lets it go on."""
    stopped = gc.isenabled()
    if stopped:
        gc.disable()
    try:
        yield
    finally:
        if stopped:
            gc.enable()
