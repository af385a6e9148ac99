"""Durable subscriptions: a subscriber of a topic that may go away and misses nothing.

Rules (JMS 2.0, 8.3.3; ActiveMQ's words):
* A durable subscription is known by the client id of its connection and its name (``client id:name``). Subscribing with
  that name makes it, or takes it up again. It ends when its client says so (RemoveSubscriptionInfo), never with a
  connection.
* At most one consumer is active on it: another is refused (``durable-in-use``), and so is ending it meanwhile. Ending
  one that does not exist is refused with ``unknown-subscription``.
* Taking it up with another topic, selector or noLocal ends the old one with its backlog and makes a new one.
* While nobody is active it collects what matches, persistent or not. It may name a wildcard: it collects from topics
  that are created later as well.
* A backlog costs no memory: its messages are in the store, and charged while they are in flight only. In the
  generations G0 to G3 of memory it has a cursor (``paging.py``).
* What was in flight when its consumer went comes first when it returns, in the order of the topic; which of it is
  marked as redelivered is the policy ``redelivery``'s. The marks are this subscription's own.
* Every subscription expires a message from its own backlog and settles it for itself alone; there is one dead letter
  per publication. A client's word that a message is expired is believed in every generation: nobody else could be given
  this subscription's copy.
* The backlog of a subscription without a consumer is swept; that of an active one is looked at when its turn comes,
  unless the configuration has it swept, too.
* noLocal excludes what any connection of the same client id sends, also while nobody is active.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.events import Subscribe
from brokerproof.reference_broker.core.matching import covers, is_temporary, is_wild, members
from brokerproof.reference_broker.core.message import TOPIC
from brokerproof.reference_broker.core.reference import Reference
from brokerproof.reference_broker.core.subscription import Consumer, Subscription
from brokerproof.reference_broker.core.topic import Topic

if TYPE_CHECKING:
    from collections import deque

    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.region import Region

IN_USE = "durable-in-use"
UNKNOWN_SUBSCRIPTION = "unknown-subscription"
#: No connection has this number.
NOBODY = -1
NO_CLIENT_ID = "no-client-id"


def topic_order(reference: Reference) -> int:
    """Sort key: the place on the topic."""
    return reference.order


@mypyc_attr(allow_interpreted_subclasses=True)
class Durability:
    """Policy ``durable``."""

    def keeps(self, subscription: Subscription, message: Message) -> bool:  # noqa: ARG002 - a planted defect chooses by the message
        """Whether a subscription that gets the message keeps it: always, also without a consumer."""
        return True

    def returns(self, reference: Reference) -> bool:  # noqa: ARG002 - a planted defect chooses by the message
        """Whether a message that was in flight at a departure comes back: always."""
        return True

    def put_back(self, pending: deque[Reference], references: list[Reference]) -> None:
        """Put what comes back where it was: in the order of the topic. What waits is in order."""
        coming = list(references)
        latest = max((reference.order for reference in references), default=0)
        while pending and pending[0].order < latest:
            coming.append(pending.popleft())
        coming.sort(key=topic_order)
        pending.extendleft(reversed(coming))

    def is_changed(self, durable: Durable, event: Subscribe) -> bool:
        """Whether a subscriber asks for another subscription under the old name."""
        return (
            durable.asked != event.destination
            or durable.absent.selector != event.selector
            or durable.absent.no_local != event.no_local
        )


class Durable:
    """One durable subscription. ``absent`` stands in for its consumer while there is none."""

    __slots__ = ("absent", "asked", "client_id", "consumer", "key", "names", "patterns", "subscriptions")

    def __init__(self, client_id: str, event: Subscribe) -> None:
        self.client_id = client_id
        self.key = key_of(client_id, event.durable)
        #: The destination as the client wrote it, the topics that it names, and its wildcards.
        self.asked = event.destination
        names = members(event.destination)
        self.names = [name for name in names if not is_wild(name)]
        self.patterns = [name for name in names if is_wild(name)]
        self.absent = Consumer(event, 0, extends=False)
        self.absent.connection = NOBODY
        self.consumer: Consumer | None = None
        #: Its places, one at each topic.
        self.subscriptions: list[Subscription] = []


def key_of(client_id: str, name: str) -> str:
    """The name under which the broker knows a durable subscription."""
    return f"{client_id}:{name}"


class Durables:
    """All durable subscriptions of the broker, oldest first."""

    __slots__ = ("_active", "_region", "known")

    def __init__(self, region: Region) -> None:
        self._region = region
        self.known: dict[str, Durable] = {}
        #: By the name of the consumer.
        self._active: dict[str, Durable] = {}

    def objection(self, client_id: str, event: Subscribe) -> tuple[str, str]:
        """Why a durable subscriber must be refused: (code, text); ("", "") if nothing is wrong with it."""
        if not client_id:
            text = f"durable subscription {event.durable!r} needs a client id; give one when connecting"
            return NO_CLIENT_ID, text
        for name in members(event.destination):
            if not name.startswith(TOPIC) or is_temporary(name):
                return "bad-destination", f"{name} cannot have a durable subscription; name a topic"
        known = self.known.get(key_of(client_id, event.durable))
        if known is not None and known.consumer is not None:
            text = f"durable subscription {known.key!r} is in use; close its consumer first"
            return IN_USE, text
        return "", ""

    def take_up(self, consumer: Consumer, client_id: str, event: Subscribe) -> None:
        """A subscriber comes, to a new durable subscription or to its old one."""
        durable = self.known.get(key_of(client_id, event.durable))
        if durable is not None and self._region.policies.durable.is_changed(durable, event):
            self._end(durable)
            durable = None
        if durable is None:
            durable = self.create(client_id, event)
        durable.consumer = consumer
        self._active[consumer.name] = durable
        consumer.patterns = durable.patterns
        for subscription in durable.subscriptions:
            self._take_place(consumer, subscription)

    def create(self, client_id: str, event: Subscribe) -> Durable:
        """A durable subscription begins; nobody is active on it yet."""
        durable = Durable(client_id, event)
        self.known[durable.key] = durable
        region = self._region
        if region.journal is not None:
            absent = durable.absent
            region.journal.subscribed(
                region, durable.key, client_id, durable.asked, absent.selector, no_local=absent.no_local
            )
        for name in durable.names:
            region.destination(name)
        for destination in list(region.destinations.values()):
            self._add_place(durable, destination)
        return durable

    def left(self, consumer: Consumer) -> None:
        """A durable subscriber has gone; its places have been told."""
        durable = self._active.pop(consumer.name, None)
        if durable is not None:
            durable.consumer = None

    def remove(self, client_id: str, name: str) -> tuple[str, str]:
        """End a durable subscription; (code, text) if that cannot be."""
        key = key_of(client_id, name)
        durable = self.known.get(key)
        if durable is None:
            return UNKNOWN_SUBSCRIPTION, f"there is no durable subscription {key!r}; give client id and name of one"
        if durable.consumer is not None:
            return IN_USE, f"durable subscription {key!r} is in use; close its consumer first"
        self._end(durable)
        return "", ""

    def created(self, destination: Destination) -> None:
        """A destination exists from now on."""
        for durable in self.known.values():
            place = self._add_place(durable, destination)
            if place is not None and durable.consumer is not None:
                self._take_place(durable.consumer, place)

    def _add_place(self, durable: Durable, destination: Destination) -> Subscription | None:
        if not isinstance(destination, Topic) or durable.key in destination.durables:
            return None
        if destination.name not in durable.names and not covers(durable.patterns, destination.name):
            return None
        subscription = Subscription(durable.absent, destination, self._region.attachments.next_serial())
        durable.subscriptions.append(subscription)
        destination.adopt(subscription, durable)
        return subscription

    def _take_place(self, consumer: Consumer, subscription: Subscription) -> None:
        subscription.consumer = consumer
        consumer.subscriptions.append(subscription)
        consumer.scattered = len(consumer.subscriptions) > 1
        subscription.destination.attach(subscription)

    def _end(self, durable: Durable) -> None:
        del self.known[durable.key]
        if self._region.journal is not None:
            self._region.journal.unsubscribed(self._region, durable.key)
        for subscription in durable.subscriptions:
            destination = subscription.destination
            if isinstance(destination, Topic):
                destination.forget(durable)
