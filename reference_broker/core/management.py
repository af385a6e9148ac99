"""What an operator may do to a running broker: purge, move, remove, limits, statistics.

Rules:

* An operation answers with ``Counted`` or ``Refused`` (connection 0) if it carries a request number. Whoever asks for a
  destination that does not exist is told so (``unknown-destination``), and nothing is created.
* A limit that is lowered bounds what is in flight only when that has been settled; what waits gives way at once under
  ``fair``, never in the generations G0 to G3. A destination without a limit of its own follows the broker's. Raising a
  limit counts at once.

Change together: ``events.py`` (the operations), the management room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_broker.core.effects import Counted, Logged, Refused
from reference_broker.core.events import Event, Operation, Purge, ResetStatistics, SetMemoryLimit

if TYPE_CHECKING:
    from reference_broker.core.destination import Destination
    from reference_broker.core.region import Region

LOGGER = "reference_broker.core.broker"


class Management:
    """The operations."""

    __slots__ = ("_region",)

    def __init__(self, region: Region) -> None:
        self._region = region

    def handlers(self) -> dict[type[Event], object]:
        """Event -> its handler, for the broker's table."""
        return {Purge: self._purge, ResetStatistics: self._reset, SetMemoryLimit: self._set_memory_limit}

    def _purge(self, event: Purge) -> None:
        destination = self._find(event)
        if destination is not None:
            before = destination.counters.dequeued
            destination.purge()
            self._answer(event, destination.counters.dequeued - before)

    def _set_memory_limit(self, event: SetMemoryLimit) -> None:
        region = self._region
        tree = region.memory
        limit_bytes = event.limit_bytes
        if limit_bytes < 0:
            text = f"memory limit {limit_bytes} is negative; give a number of bytes, or 0 for no limit"
            self._refuse(event, "bad-limit", text)
            return
        if event.destination:
            destination = self._find(event)
            if destination is None:
                return
            destination.has_own_limit = limit_bytes > 0
            concerned = [destination]
            self._limit(destination, limit_bytes or tree.root.limit_bytes)
        else:
            tree.root.limit_bytes = limit_bytes
            concerned = [one for one in region.destinations.values() if not one.has_own_limit]
            for one in concerned:
                self._limit(one, limit_bytes)
        tree.lowered = True
        tree.relieved = True
        for one in concerned:
            region.policies.memory.shrink(tree, one)
        self._answer(event, 0)

    def _limit(self, destination: Destination, limit_bytes: int) -> None:
        before = destination.usage.percent()
        destination.usage.limit_bytes = limit_bytes
        if destination.usage.percent() < before:
            self._region.wake(destination)

    def _reset(self, event: ResetStatistics) -> None:
        if event.destination:
            destination = self._find(event)
            chosen = [] if destination is None else [destination]
        else:
            chosen = list(self._region.destinations.values())
        for one in chosen:
            self._region.policies.ledger.reset(one.counters)
        if chosen or not event.destination:
            self._answer(event, sum(one.counters.size for one in chosen))

    def _find(self, event: Operation) -> Destination | None:
        destination = self._region.destinations.get(event.destination)
        if destination is None:
            text = f"{event.destination} does not exist; {type(event).__name__} ignored"
            self._region.effects.append(Logged("WARN", LOGGER, text))
            self._refuse(event, "unknown-destination", f"{event.destination!r} does not exist; name one that does")
        return destination

    def _refuse(self, event: Operation, code: str, text: str) -> None:
        if event.request:
            self._region.effects.append(Refused(0, event.request, code, text))

    def _answer(self, event: Operation, count: int) -> None:
        if event.request:
            self._region.effects.append(Counted(event.request, count))
