"""How far a broker's clock is from this host's: readings become bounds, never a single number.

Rules
* A reading says: at some instant between ``t0`` and ``t1`` of this host's clock the broker's clock showed something
  between ``low`` and ``high``. So the offset (broker minus this host) is in ``[low - t1, high - t0]``.
* Many readings are intersected. If they contradict one another, a clock moved meanwhile: then the bounds are the hull
  of all, and ``steady`` is False.
* All in milliseconds of wall clocks, with fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FOREVER_MS: Final = float("inf")


@dataclass(frozen=True)
class Reading:
    """One look at the broker's clock. A bound that a look does not give is infinite."""

    t0_ms: float
    t1_ms: float
    low_ms: float
    high_ms: float

    def bounds(self) -> tuple[float, float]:
        """The offsets that it allows."""
        return self.low_ms - self.t1_ms, self.high_ms - self.t0_ms


@dataclass(frozen=True)
class Offset:
    """Broker minus this host: between ``low_ms`` and ``high_ms``. ``way`` says how it was measured."""

    low_ms: float
    high_ms: float
    way: str
    readings: int
    #: The quickest exchange, as a measure of the way to the broker and back.
    trip_ms: float
    steady: bool = True

    @property
    def middle_ms(self) -> float:
        return (self.low_ms + self.high_ms) / 2

    @property
    def plus_minus_ms(self) -> float:
        return (self.high_ms - self.low_ms) / 2

    def exceeds(self, limit_ms: float) -> bool | None:
        """Whether it is more than so much, either way; None: it may be or not."""
        if self.low_ms > limit_ms or self.high_ms < -limit_ms:
            return True
        return False if -limit_ms <= self.low_ms and self.high_ms <= limit_ms else None


def joined(readings: Sequence[Reading], way: str) -> Offset:
    """What all readings together allow. There must be one that bounds each side."""
    bounds = [reading.bounds() for reading in readings]
    low, high = max(one for one, _ in bounds), min(other for _, other in bounds)
    steady = low <= high
    if not steady:
        finite = [one for pair in bounds for one in pair if abs(one) < FOREVER_MS]
        low, high = min(finite), max(finite)
    trip_ms = min(reading.t1_ms - reading.t0_ms for reading in readings)
    return Offset(low, high, way, len(readings), trip_ms, steady)
