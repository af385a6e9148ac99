"""The clocks of an agent that stamps by itself: the program's, which may be faster than the machine's.

Rules
* An agent is told the rate (``chaos/rates.py``) once, by its environment, before it serves (``follow``).
* Its libraries get readings of these clocks only, so they live in the program's time; what waits divides (``real_s``).
"""

from __future__ import annotations

import os
import time

from brokerproof.chaos.rates import REAL, Rate, told

_rate: Rate = REAL


def follow() -> None:
    """Take the rate from the environment."""
    global _rate  # noqa: PLW0603 - a process has one
    _rate = told(os.environ)


def rate() -> Rate:
    """Of this process."""
    return _rate


def now_ns() -> int:
    """The program's monotonic clock."""
    return _rate.now_ns()


def wall_ns() -> int:
    """This host's wall clock."""
    return time.time_ns() + _rate.ahead_ns()


def real_s(span_ns: int) -> float:
    """How many real seconds a span of the program's time takes."""
    return span_ns / (_rate.times * 1_000_000_000)
