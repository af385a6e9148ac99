"""What the broker asks of a storage, and what a storage may say no to.

* ``append`` takes the records of one event; they are safe together or not at all. It never waits for a disk and is
  called by the thread of the broker.
* ``sync`` makes everything safe that was appended before it was called; it may block, in one other thread, while the
  broker appends for the next one: that is the group commit.
* A sync that fails has lost nothing: what it could not write is written by the next one that succeeds.
* ``replay`` gives what is safe, before the first ``append``: records from which ``core/recovery.py`` builds the broker
  again. Replaying twice gives the same twice.
* ``trouble`` is asked after a sync: whether new messages must be refused now. A storage says so while it still has room
  for the removals that make space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from brokerproof.reference_broker.core.records import Record

#: The storage has no room for messages; the core's refusal code.
FULL: Final = "storage-full"
#: The storage cannot be written, for another reason.
FAILED: Final = "storage-failed"


class StorageError(Exception):
    """The storage cannot be opened, read or written. The text shows what and the remedy; ``code`` is ``FULL`` or
    ``FAILED``.
    """

    def __init__(self, text: str, code: str = FAILED) -> None:
        super().__init__(text)
        self.code = code


class Trouble:
    """Why persistent messages are refused: the refusal's code and its text."""

    __slots__ = ("code", "text")

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        self.text = text


class Journal(ABC):
    """See the module's header."""

    #: How often the storage had been opened before; what is named after it is never named twice.
    incarnation = 0

    @abstractmethod
    def append(self, batch: Sequence[Record]) -> None:
        """Take the records of one event."""

    @abstractmethod
    def sync(self) -> None:
        """Make safe what was appended. Raises ``StorageError``; then nothing of it is lost, and nothing is safe yet."""

    @abstractmethod
    def replay(self) -> Iterable[Record]:
        """What is safe. Raises ``StorageError`` for something that cannot be read."""

    def trouble(self) -> Trouble | None:
        """Why new messages must be refused now; None: they need not."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Let go of it; what was not synced is lost. Safe to call twice."""
