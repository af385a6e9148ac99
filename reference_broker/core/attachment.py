"""Where a consumer consumes: its subscriptions at destinations, also at those created later.

* A consumer names one destination, a wildcard (``*`` one element, a last ``>`` the rest) or several of both, joined by
  commas. It has one subscription at each destination that any of them covers, and one window over all.
* A plain name creates its destination; a wildcard creates none, and covers only its own kind (``queue://>`` no topic,
  and nobody's temporary destinations).
* When a destination is created, every wildcard that covers it is attached, in the order of the consumers, before the
  first message arrives.
* A window closes at all destinations; when it opens they are asked in turn, beginning after the last one served.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.advisory import is_advisory
from brokerproof.reference_broker.core.browser import end_browse
from brokerproof.reference_broker.core.matching import covers, is_wild, members
from brokerproof.reference_broker.core.redelivery import UNKNOWN
from brokerproof.reference_broker.core.subscription import Subscription
from brokerproof.reference_broker.core.topic import Topic

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Consumer


@mypyc_attr(allow_interpreted_subclasses=True)
class Coverage:
    """Policy ``coverage``."""

    def covers(self, patterns: list[str], name: str) -> bool:
        """Whether one of a consumer's wildcards covers a destination."""
        return covers(patterns, name)

    def joins(self, destination: Destination) -> bool:  # noqa: ARG002 - a planted defect chooses by the destination
        """Whether a consumer takes its place at a destination that is created after it: always."""
        return True


class Attachments:
    """The places of all consumers."""

    __slots__ = ("_listeners", "_region", "_roamers", "_serial")

    def __init__(self, region: Region) -> None:
        self._region = region
        #: Consumers with a wildcard, by name, oldest first.
        self._roamers: dict[str, Consumer] = {}
        #: Those among them that listen to advisories: their wildcards for that.
        self._listeners: dict[str, list[str]] = {}
        self._serial = count(1)

    def attach(self, consumer: Consumer, asked: str) -> None:
        """A consumer comes, and takes all its places; ``asked`` is a usable destination as a client writes it."""
        names = members(asked)
        consumer.patterns = [name for name in names if is_wild(name)]
        places = {name: self._region.destination(name) for name in names if not is_wild(name)}
        if consumer.patterns:
            rules = self._region.policies.coverage
            for name, destination in self._region.destinations.items():
                if rules.covers(consumer.patterns, name):
                    places.setdefault(name, destination)
            self._roamers[consumer.name] = consumer
            heard = [pattern for pattern in consumer.patterns if is_advisory(pattern)]
            if heard:
                self._listeners[consumer.name] = heard
        for destination in places.values():
            self._place(consumer, destination)
        if consumer.browser and not places:
            end_browse(self._region, consumer)

    def created(self, destination: Destination) -> None:
        """A destination exists from now on."""
        rules = self._region.policies.coverage
        for consumer in self._roamers.values():
            if rules.covers(consumer.patterns, destination.name) and rules.joins(destination):
                self._place(consumer, destination)

    def leave(self, consumer: Consumer, last_delivered: int, last_sequence: int | None = None) -> None:
        """A consumer goes. What its application has seen is told as a count, or by the last one's number."""
        if consumer.patterns:
            self._roamers.pop(consumer.name, None)
            self._listeners.pop(consumer.name, None)
        if not consumer.prefetch:
            self._region.pulls.forget(consumer)
        last = None if last_sequence is None else number_of(consumer, last_sequence)
        for subscription in consumer.subscriptions:
            seen = last_delivered if last is None else count_up_to(subscription, last)
            subscription.destination.detach(subscription, seen)
            self._region.connection_registry.consumer_changed(subscription, gone=True)
        if consumer.durable:
            self._region.durables.left(consumer)

    def resize(self, consumer: Consumer, prefetch: int) -> None:
        """A consumer has another window from now on; what it holds stays. A pull that waits is forgotten."""
        if not (consumer.prefetch and prefetch):
            self._region.pulls.forget(consumer)
            consumer.extension = 0
        consumer.prefetch = prefetch
        for subscription in consumer.in_turn():
            if self._region.policies.prefetch.is_open(subscription):
                subscription.destination.window_opened(subscription)
            else:
                subscription.destination.window_closed(subscription)

    def awaits_advisory(self, topic: str) -> bool:
        """Whether somebody's wildcard of advisory topics covers one that may not exist yet."""
        rules = self._region.policies.coverage
        return any(rules.covers(patterns, topic) for patterns in self._listeners.values())

    def next_serial(self) -> int:
        """The number of a new place."""
        return next(self._serial)

    def _place(self, consumer: Consumer, destination: Destination) -> None:
        subscription = Subscription(consumer, destination, self.next_serial())
        consumer.subscriptions.append(subscription)
        consumer.scattered = len(consumer.subscriptions) > 1
        destination.attach(subscription)
        self._region.connection_registry.consumer_changed(subscription, gone=False)
        if isinstance(destination, Topic) and is_advisory(destination.name):
            self._region.connection_registry.advise_existing(subscription, destination)


def number_of(consumer: Consumer, last_sequence: int) -> int:
    """The place in dispatch order of the unsettled message that has this number, at any of a consumer's destinations; 0
    if none has. ``UNKNOWN`` stays unknown.
    """
    if last_sequence == UNKNOWN:
        return UNKNOWN
    for subscription in consumer.subscriptions:
        for delivery in subscription.deliveries():
            if delivery.reference.message.sequence == last_sequence:
                return delivery.number
    return 0


def count_up_to(subscription: Subscription, last_number: int) -> int:
    """How many of a subscription's unsettled messages, from the oldest, the application has seen if the last one that
    it saw has that place in dispatch order; ``UNKNOWN`` stays unknown.
    """
    if last_number == UNKNOWN:
        return UNKNOWN
    return sum(delivery.number <= last_number for delivery in subscription.deliveries())
