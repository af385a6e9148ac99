"""What an operator may do to a running broker: purge, move, remove, limits, statistics.

Rules: an operation answers with ``Counted`` or ``Refused`` (connection 0) if it carries a request number. Whoever asks
for a destination that does not exist is told so and nothing is created.

Change together: ``events.py`` (the operations), the management room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_broker.core.effects import Counted, Logged
from reference_broker.core.events import Event, Operation, Purge

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
        return {Purge: self._purge}

    def _purge(self, event: Purge) -> None:
        destination = self._find(event)
        if destination is not None:
            before = destination.counters.dequeued
            destination.purge()
            self._answer(event, destination.counters.dequeued - before)

    def _find(self, event: Operation) -> Destination | None:
        destination = self._region.destinations.get(event.destination)
        if destination is None:
            text = f"{event.destination} does not exist; {type(event).__name__} ignored"
            self._region.effects.append(Logged("WARN", LOGGER, text))
        return destination

    def _answer(self, event: Operation, count: int) -> None:
        if event.request:
            self._region.effects.append(Counted(event.request, count))
