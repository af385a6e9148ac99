"""What ``diagnose --watch`` keeps of each look at a broker: the verdict, and the curves that explain it.

Rules
* A look is ``sight.look``, so the verdict of each is that of ``diagnose``; between them nothing is guessed.
* The oldest message's age is not read (browsing moves memory) but followed: by the totals of a queue, what was enqueued
  before an instant waits as long as fewer have left since. It is the least age: the queue may be older than the watch.
  Where totals went back (statistics were reset) it begins anew.
* The broker's clock comes from the same endpoint; where that cannot be told it is absent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from brokerproof.chaos.brokers.jolokia import JolokiaFailed
from brokerproof.conformance.operating import starvation
from brokerproof.conformance.operating.diagnose import questions
from brokerproof.conformance.operating.measuring import CannotTell, by_management
from brokerproof.conformance.operating.offset import Offset
from brokerproof.conformance.operating.sight import Sight, look

if TYPE_CHECKING:
    from brokerproof.chaos.brokers.jolokia import Jolokia
    from brokerproof.conformance.operating.answer import Answer

#: Looks that are kept, and drawn.
KEPT: Final = 600


@dataclass(frozen=True)
class Row:
    """A destination at one look. ``percent``: its share of the broker's memory; ``oldest_s``: its oldest message has
    waited at least so long, None where nothing waits.
    """

    name: str
    percent: float
    messages: int
    in_flight: int
    consumers: int
    oldest_s: float | None = None
    starves: bool = False


@dataclass(frozen=True)
class Glance:
    """One look, ``at_s`` seconds after the first."""

    at_s: float
    broker: str
    percent: int | None
    rows: list[Row]
    answers: list[Answer]
    offset: Offset | None = None

    @property
    def troubles(self) -> list[Answer]:
        """The problems that are there."""
        return [answer for answer in self.answers if answer.is_trouble]

    @property
    def verdict(self) -> str:
        """In one line."""
        return "; ".join(one.id for one in self.troubles) or "no problem is seen"


@dataclass
class Watch:
    """All looks so far, the newest last."""

    glances: deque[Glance] = field(default_factory=lambda: deque(maxlen=KEPT))
    _totals: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)

    def add(self, at_s: float, sight: Sight, offset: Offset | None) -> Glance:
        """Take in a look."""
        starved = starvation.starved(sight)
        rows = [
            Row(
                name,
                starvation.share(sight, name),
                samples[-1].get("QueueSize", 0),
                samples[-1].get("InFlightCount", 0),
                samples[-1].get("ConsumerCount", 0),
                self._oldest_s(name, at_s, samples[-1]),
                name in starved,
            )
            for name, samples in sorted(sight.destinations.items())
            if samples
        ]
        answers = questions(sight)
        percent = sight.broker[-1].get("MemoryPercentUsage")
        self.glances.append(Glance(at_s, f"{sight.name} {sight.version}", percent, rows, answers, offset))
        return self.glances[-1]

    def _oldest_s(self, name: str, at_s: float, figures: dict[str, int]) -> float | None:
        """Since when the queue's first message is there, by its totals."""
        put, size = figures.get("EnqueueCount"), figures.get("QueueSize", 0)
        if put is None or size <= 0:
            self._totals.pop(name, None)
            return None
        seen = self._totals.setdefault(name, deque())
        if seen and seen[-1][1] > put:
            seen.clear()
        seen.append((at_s, put))
        # What had been put by an instant has all left when so many were put since as are there now, or more.
        while len(seen) > 1 and seen[1][1] <= put - size:
            seen.popleft()
        waited = [at for at, total in seen if total > put - size]
        return at_s - waited[0] if waited else None


def watched(ask: Callable[[], tuple[Sight, Offset | None]], clock: Callable[[], float]) -> Iterator[Watch]:
    """Look again and again, as ``ask`` does, by a ``clock`` of seconds; the same ``Watch`` after each look."""
    watch, begun_s = Watch(), clock()
    while True:
        sight, offset = ask()
        watch.add(clock() - begun_s, sight, offset)
        yield watch


def look_again(jolokia: Jolokia) -> tuple[Sight, Offset | None]:
    """One look, and the broker's clock where it can be told. Raises ``JolokiaFailed``."""
    sight = look(jolokia)
    try:
        return sight, by_management(jolokia)
    except (CannotTell, JolokiaFailed):
        return sight, None
