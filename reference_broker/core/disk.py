"""What lies on the disk: persistent messages in the store, others in temporary files (StoreUsage and TempUsage).

It counts; ``flow.py`` decides what a full one means for producers. A limit of 0 is no limit, and then nothing is
counted: ``region.store`` and ``memory.temp`` are None, which is all that they cost.

* The store is the journal of a persistent broker. A message is counted once, delayed or not, with the size that
  ``memory.py`` would charge, from its record until the record that removes it; uncommitted ones have no record yet.
  ``Store`` folds the records as a restart would, so both always agree on what is there.
* In temporary files is what waits, is not charged to memory and is not in the store: messages of queues that are not
  persistent, and the backlog of subscribers, save persistent messages of durable subscriptions.
* What has been accepted is never thrown away for want of space. So either may be exceeded: by a transaction, by dead
  letters and moved messages, by what a flush or an eviction takes out of memory.

Known exceptions: space comes back at once, in ActiveMQ when a whole file of the journal is unused; the newest releases
of ActiveMQ discard what a flush finds no space for. What has lain aside or was kept for a transaction is in no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.memory import Usage
from brokerproof.reference_broker.core.recovery import Recovered

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.memory import Memory
    from brokerproof.reference_broker.core.records import MessageAdded


class Store(Recovered):
    """What the journal holds, in bytes."""

    __slots__ = ("_memory", "sizes", "usage")

    def __init__(self, limit_bytes: int, memory: Memory) -> None:
        super().__init__()
        self.usage = Usage(limit_bytes, None, "room in the store")
        self._memory = memory
        #: By place, what each message is counted as.
        self.sizes: dict[tuple[str, str], int] = {}

    def fill(self, recovered: Recovered) -> None:
        """What a restart found there."""
        for place, added in recovered.messages.items():
            self.put(place, added)

    def put(self, place: tuple[str, str], added: MessageAdded) -> None:
        if place not in self.messages:
            size_bytes = self._memory.size_bytes(added.message)
            self.sizes[place] = size_bytes
            self.usage.change(size_bytes)
        super().put(place, added)

    def drop(self, place: tuple[str, str]) -> None:
        super().drop(place)
        self.usage.change(-self.sizes.pop(place))
