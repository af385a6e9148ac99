"""The time that random live programs have: it begins when the first one is drawn, and is kept.

Rules
* When it is over no program begins, and those that are running take no further step: they heal, drain and are judged.
* What showed a violation may still be run again, for ``AGAIN_S``.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from brokerproof.conformance.running.interruption import STOP

#: How long after the end a violation may be looked for again.
AGAIN_S = 20.0


class Allowance:
    """So many seconds from ``begin`` on; None: as many as it takes."""

    def __init__(self, budget_s: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._budget_s = budget_s
        self._clock = clock
        self._began: float | None = None

    def begin(self) -> None:
        """From now on."""
        self._began = self._clock()

    def _is_past(self, more_s: float) -> bool:
        if self._budget_s is None or self._began is None:
            return False
        return self._clock() - self._began > self._budget_s + more_s

    def is_over(self) -> bool:
        """Whether it is over, or somebody asked for the end."""
        return STOP.is_set() or self._is_past(0.0)

    def is_over_again(self) -> bool:
        """The same of what was run before."""
        return STOP.is_set() or self._is_past(AGAIN_S)
