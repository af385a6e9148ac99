"""How a broker is built again from its journal.

Two steps: ``Recovered`` folds the records into what is left (and is the definition of what a journal means: every
storage must give what the fold gives), ``rebuild`` puts that on its destinations.

* Waiting messages stand in the order of their places, whatever had been dispatched: all of them wait again, nobody has
  them in flight, none is marked as redelivered (the journal does not know), save by the broker itself.
* A durable subscription is there again, without a consumer, with what it had not acknowledged.
* A delayed message waits for what is left by the stored wall times: at least 0, at most the original delay. One whose
  time has come joins behind those that were visible before, in the order of (due time, arrival).
* The statistics begin again: what was restored counts as enqueued once more, so that the counts balance.
* The rebuilding itself writes only what changes the order (a delayed message that became visible), so a crash in the
  middle of it changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.events import Subscribe
from brokerproof.reference_broker.core.records import (
    DestinationRemoved,
    MessageAdded,
    MessageRemoved,
    SubscriptionAdded,
    SubscriptionRemoved,
)
from brokerproof.reference_broker.core.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from brokerproof.reference_broker.core.journalling import Journalling
    from brokerproof.reference_broker.core.records import Record
    from brokerproof.reference_broker.core.region import Region


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
            self.put((record.message.destination, record.message.message_id), record)
        elif isinstance(record, MessageRemoved):
            self._remove((record.destination, record.message_id), record.holder)
        elif isinstance(record, DestinationRemoved):
            for place in [place for place in self.messages if place[0] == record.destination]:
                self.drop(place)
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
            self.drop(place)
        elif left != added.holders:
            self.put(place, MessageAdded(added.message, added.order, added.accepted_wall_ms, added.due_wall_ms, left))

    def put(self, place: tuple[str, str], added: MessageAdded) -> None:
        """A message is there, or is there now with another place or other holders."""
        self.messages[place] = added

    def drop(self, place: tuple[str, str]) -> None:
        """A message that was there is there no longer."""
        del self.messages[place]


def rebuild(region: Region, recovered: Recovered) -> None:
    """Put everything back on its destinations. The broker must be new."""
    journal = region.policies.journal
    waiting: dict[str, list[MessageAdded]] = {}
    delayed: list[MessageAdded] = []
    if region.store is not None:
        region.store.fill(recovered)
    for added in recovered.messages.values():
        message = added.message
        region.sequence = max(region.sequence, message.sequence)
        region.duplicate_detection.recovered(message.message_id)
        if message.path:
            region.duplicate_detection.crossed(message.destination, message.message_id)
        if added.due_wall_ms:
            delayed.append(added)
        else:
            waiting.setdefault(message.destination, []).append(added)
    writing, region.journal = region.journal, None
    for subscribed in recovered.subscriptions.values():
        name = subscribed.key.removeprefix(f"{subscribed.client_id}:")
        region.durables.create(
            subscribed.client_id,
            Subscribe(
                0,
                subscribed.key,
                subscribed.destination,
                0,
                selector=subscribed.selector,
                no_local=subscribed.no_local,
                durable=name,
            ),
        )
    for name, messages in waiting.items():
        destination = region.destination(name)
        for added in journal.places(messages):
            order = max(destination.next_order, added.order)
            if isinstance(destination, Topic):
                destination.recover_for(added.message, order, 0, added.holders)
            else:
                destination.recover(added.message, order)
    _delay_again(region, sorted(delayed, key=_due), writing)
    region.journal = writing


def _delay_again(region: Region, delayed: list[MessageAdded], writing: Journalling | None) -> None:
    """What had not been due yet; ``writing`` is the journal."""
    for added in delayed:
        destination = region.destination(added.message.destination)
        remaining_ms = region.policies.delay.left_ms(added.due_wall_ms, added.accepted_wall_ms, region.now)
        due_ns = region.policies.delay.due_ns(remaining_ms, region.now) if remaining_ms > 0 else 0
        if region.stage is not None:
            due_ns = max(1, due_ns)  # the delay processor puts it to its target, however late
        # What becomes visible has a place only now, and the next restart must find it there.
        region.journal = None if due_ns else writing
        if isinstance(destination, Topic):
            destination.recover_for(added.message, destination.next_order, due_ns, added.holders)
        elif due_ns:
            destination.schedule(added.message, due_ns)
        else:
            destination.publish(added.message)


def _due(added: MessageAdded) -> tuple[int, int]:
    return added.due_wall_ms, added.message.sequence
