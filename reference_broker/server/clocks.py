"""The two clocks of this process, and the rate at which both may run (``--rate``).

Rules
* ``time.monotonic_ns`` for everything that is elapsed, ``time.time_ns`` for what is stamped or expires (a faked process
  clock changes the second alone).
* At a rate both run that many times as fast as the machine's from one anchor, and so does every timer of the node:
  what waits in real time divides (``real_s``, ``loop_s``).
"""

from __future__ import annotations

import time

from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.core.instant import NS_PER_MS, Now

NS_PER_S = 1_000_000_000
RATE_MAX = 100


class _Pace:
    """``anchor_ns``: when these clocks showed what the machine's do."""

    def __init__(self, times: int = 1, anchor_ns: int = 0) -> None:
        self.times = times
        self.anchor_ns = anchor_ns


_pace = _Pace()


def run_at(rate: str) -> None:
    """``N``: so many times as fast from now on; ``N@ANCHOR``: since an instant of the machine's monotonic clock, in
    nanoseconds. Raises ``ConfigError``.
    """
    times, at, anchor_ns = rate.partition("@")
    if not times.isdecimal() or not 1 <= int(times) <= RATE_MAX or (at and not anchor_ns.isdecimal()):
        raise ConfigError(f"--rate {rate!r} is no rate; give 1 to {RATE_MAX}, for example --rate 10")
    _pace.times, _pace.anchor_ns = int(times), int(anchor_ns) if at else time.monotonic_ns()


def read_clocks() -> Now:
    """Both."""
    machine_ns, wall_ns = time.monotonic_ns(), time.time_ns()
    if _pace.times == 1:
        return Now(machine_ns, wall_ns // NS_PER_MS)
    ahead_ns = (machine_ns - _pace.anchor_ns) * (_pace.times - 1)
    return Now(machine_ns + ahead_ns, (wall_ns + ahead_ns) // NS_PER_MS)


def real_s(span_ns: int) -> float:
    """How long a span of these clocks takes."""
    return span_ns / (_pace.times * NS_PER_S)


def loop_s(mono_ns: int) -> float:
    """When an instant of the monotonic clock is, by the event loop's."""
    return (_pace.anchor_ns + (mono_ns - _pace.anchor_ns) / _pace.times) / NS_PER_S


__all__ = ["loop_s", "read_clocks", "real_s", "run_at"]
