"""Accelerated time: a program's clock that runs a whole number of times as fast as the machine's, from one anchor.

Decides: how instants and spans of the program's time follow from the machine's monotonic clock.
Rules
* All processes of a run share rate and anchor, so their clocks agree for as long as it lasts; a child is told both by
  its environment.
* What is about the machine (how late a process may be) is real time; ``span_ns`` says how much of the program's that
  is.
* At rate 1 the program's clock is the machine's.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass

#: Where a child finds them: ``RATE@ANCHOR``, the anchor in nanoseconds of the machine's monotonic clock.
VARIABLE = "BROKERPROOF_RATE"
NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class Rate:
    """``times``: nanoseconds of the program in one of the machine's. ``anchor_ns``: when both clocks agreed."""

    times: int = 1
    anchor_ns: int = 0

    def now_ns(self) -> int:
        """The program's monotonic clock."""
        return self.of_ns(time.monotonic_ns())

    def of_ns(self, machine_ns: int) -> int:
        """An instant of the machine's monotonic clock as one of the program's."""
        return self.anchor_ns + (machine_ns - self.anchor_ns) * self.times

    def machine_ns(self, program_ns: int) -> int:
        """The reverse, rounded up: not before it."""
        return self.anchor_ns - (self.anchor_ns - program_ns) // self.times

    def span_ns(self, real_ms: int) -> int:
        """How much time of the program so many real milliseconds are."""
        return real_ms * self.times * NS_PER_MS

    def ahead_ns(self) -> int:
        """How far the program's clocks are ahead of the machine's now."""
        return (time.monotonic_ns() - self.anchor_ns) * (self.times - 1) if self.times > 1 else 0

    def environment(self) -> dict[str, str]:
        """What tells a child."""
        return {} if self.times == 1 else {VARIABLE: f"{self.times}@{self.anchor_ns}"}


REAL = Rate()


@functools.cache
def rate_of(times: int) -> Rate:
    """This process's rate of so many times, anchored when it was first asked for."""
    return REAL if times == 1 else Rate(times, time.monotonic_ns())


def told(environment: Mapping[str, str]) -> Rate:
    """What a process was told by ``environment``; raises ``ValueError`` for anything else."""
    times, _, anchor_ns = environment.get(VARIABLE, "1@0").partition("@")
    return Rate(int(times), int(anchor_ns))
