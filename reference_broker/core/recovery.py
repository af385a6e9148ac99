"""How a broker is built again from its journal.

Two steps: ``Recovered`` folds the records into what is left (and is the definition of what a journal means: every
storage must give what the fold gives), ``rebuild`` puts that on its destinations.

Rules:

* Waiting messages stand in the order of their places, whatever had been dispatched: all of them wait again, nobody has
  them in flight, none is marked as redelivered (the journal does not know).
* A delayed message waits for what is left by the stored wall times: at least 0, at most the original delay. One whose
  time has come joins behind those that were visible before, in the order of (due time, arrival).
* The statistics begin again: what was restored counts as enqueued once more, so that the books balance.
* The rebuilding itself writes only what changes the order (a delayed message that became visible), so a crash in the
  middle of it changes nothing.

Change together: ``records.py``, ``storage/sqlite.py``, ``recording.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_broker.core.records import (
    DestinationRemoved,
    MessageAdded,
    MessageRemoved,
    SubscriptionAdded,
    SubscriptionRemoved,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reference_broker.core.records import Record


class Recovered:
    """What a journal's records leave."""

    __slots__ = ("messages", "subscriptions")

    def __init__(self, records: Iterable[Record] = ()) -> None:
        #: (destination, id) -> the record that added it last.
        self.messages: dict[tuple[str, str], MessageAdded] = {}
        self.subscriptions: dict[str, SubscriptionAdded] = {}
        for record in records:
            self.feed(record)

    def feed(self, record: Record) -> None:
        """One more record. Removing what is not there changes nothing."""
        if isinstance(record, MessageAdded):
            self.messages[record.message.destination, record.message.message_id] = record
        elif isinstance(record, MessageRemoved):
            self._remove((record.destination, record.message_id), record.holder)
        elif isinstance(record, DestinationRemoved):
            for place in [place for place in self.messages if place[0] == record.destination]:
                del self.messages[place]
        elif isinstance(record, SubscriptionAdded):
            self.subscriptions[record.key] = record
        elif isinstance(record, SubscriptionRemoved):
            self.subscriptions.pop(record.key, None)
            for place, added in list(self.messages.items()):
                if record.key in added.holders:
                    self._remove(place, record.key)
        else:
            raise TypeError(f"{type(record).__name__} is not a record of a journal")

    def _remove(self, place: tuple[str, str], holder: str) -> None:
        added = self.messages.get(place)
        if added is None:
            return
        left = tuple(other for other in added.holders if other != holder)
        if not holder or not left:
            del self.messages[place]
        elif left != added.holders:
            self.messages[place] = MessageAdded(
                added.message, added.order, added.accepted_wall_ms, added.due_wall_ms, left
            )
