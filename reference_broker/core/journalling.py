"""Which events become journal records: policy ``journal``.

The destinations tell it what happened.

* Only persistent messages, and only on destinations that outlive their connection (not on temporary ones).
* A message is recorded when it is accepted, delayed or not, and once more when a delayed one becomes visible, because
  only then it has a place.
* It is removed from the journal when it leaves its destination for good: consumed, expired, poisoned, purged.
* ``region.journal`` is None unless the configuration says ``persistent``: that attribute is all that an idle journal
  costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.effects import Journalled
from brokerproof.reference_broker.core.instant import NS_PER_MS
from brokerproof.reference_broker.core.message import TEMP_QUEUE, TEMP_TOPIC
from brokerproof.reference_broker.core.records import (
    DestinationRemoved,
    MessageAdded,
    MessageRemoved,
    SubscriptionAdded,
    SubscriptionRemoved,
)

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.records import Record
    from brokerproof.reference_broker.core.region import Region


@mypyc_attr(allow_interpreted_subclasses=True)
class Journalling:
    """Policy ``journal``. Callers ask only for persistent messages."""

    def added(
        self, region: Region, destination: str, message: Message, order: int, holders: tuple[str, ...] = ()
    ) -> None:
        """A message stands on a destination, at its place ``order``."""
        if not destination.startswith((TEMP_QUEUE, TEMP_TOPIC)):
            self.write(region, MessageAdded(message, order, region.now.wall_ms, 0, holders))

    def scheduled(
        self, region: Region, destination: str, message: Message, due_ns: int, holders: tuple[str, ...] = ()
    ) -> None:
        """A message was accepted that becomes visible at ``due_ns``; until then it has no place."""
        if not destination.startswith((TEMP_QUEUE, TEMP_TOPIC)):
            wall_ms = region.now.wall_ms
            due_wall_ms = wall_ms + (due_ns - region.now.mono_ns) // NS_PER_MS
            self.write(region, MessageAdded(message, 0, wall_ms, due_wall_ms, holders))

    def removed(self, region: Region, destination: str, message: Message, holder: str = "") -> None:
        """A message has come to its end, for one durable subscription or altogether."""
        if not destination.startswith((TEMP_QUEUE, TEMP_TOPIC)):
            self.write(region, MessageRemoved(destination, message.message_id, holder))

    def destination_removed(self, region: Region, destination: str) -> None:
        """A destination is gone, with what was on it."""
        if not destination.startswith((TEMP_QUEUE, TEMP_TOPIC)):
            self.write(region, DestinationRemoved(destination))

    def subscribed(
        self, region: Region, key: str, client_id: str, destination: str, selector: str, *, no_local: bool
    ) -> None:
        """A durable subscription exists, or has changed."""
        self.write(region, SubscriptionAdded(key, client_id, destination, selector, no_local))

    def unsubscribed(self, region: Region, key: str) -> None:
        """A durable subscription has ended."""
        self.write(region, SubscriptionRemoved(key))

    def write(self, region: Region, record: Record) -> None:
        """The one way into the journal."""
        region.effects.append(Journalled(record))
        if region.store is not None:
            region.store.feed(record)

    # -- after a restart

    def places(self, added: list[MessageAdded]) -> list[MessageAdded]:
        """The waiting messages of one destination, in the order in which they are put on it again."""
        return sorted(added, key=_place)


def _place(added: MessageAdded) -> tuple[int, int]:
    return added.order, added.message.sequence
