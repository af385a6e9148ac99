"""A journal in memory: outlives a broker, not a process. For simulations, tests and measurements.

It keeps two lists of batches, safe and not yet safe, so that a simulated ``kill -9`` is one call (``crash``). Messages
are kept encoded, as on a disk: what the broker does to a message later must not reach its record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.records import MessageAdded, Record
from brokerproof.reference_broker.storage.codec import decode, encode_head
from brokerproof.reference_broker.storage.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class _Frozen(Record):
    """A ``MessageAdded`` and its message, encoded."""

    __slots__ = ("added", "body", "destination", "head", "message_id")

    def __init__(self, added: MessageAdded) -> None:
        message = added.message
        self.added = added
        self.destination = message.destination
        self.message_id = message.message_id
        self.head = encode_head(message)
        self.body = message.body

    def thaw(self) -> MessageAdded:
        """The record again, with a message of its own."""
        added = self.added
        message = decode(self.destination, self.message_id, self.head, self.body)
        return MessageAdded(message, added.order, added.accepted_wall_ms, added.due_wall_ms, added.holders)


class MemoryJournal(Journal):
    """See the module's header."""

    def __init__(self) -> None:
        self.safe: list[list[Record]] = []
        self.unsafe: list[list[Record]] = []

    def append(self, batch: Sequence[Record]) -> None:
        self.unsafe.append([_Frozen(record) if isinstance(record, MessageAdded) else record for record in batch])

    def sync(self, count: int | None = None) -> None:
        """``count``: of the batches that are not safe yet, how many there were when the sync began (default: all)."""
        # Counted first: an append that comes meanwhile is kept for the next sync.
        count = len(self.unsafe) if count is None else count
        self.safe += self.unsafe[:count]
        del self.unsafe[:count]

    def crash(self) -> int:
        """Lose what is not safe, as a process that is killed does; the number of batches lost."""
        lost = len(self.unsafe)
        self.unsafe.clear()
        self.incarnation += 1
        return lost

    def replay(self) -> Iterable[Record]:
        return [record.thaw() if isinstance(record, _Frozen) else record for batch in self.safe for record in batch]

    def close(self) -> None:
        self.unsafe.clear()
