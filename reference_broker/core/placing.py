"""Where a consumer consumes: its places at destinations, also at those that are created later.

Rules:

* A consumer names one destination, a wildcard (``*`` one element, a last ``>`` the rest) or several of both, joined by
  commas. It has one place at each destination that any of them covers, and one window over all of them.
* A plain name creates its destination; a wildcard creates none, and covers only its own kind (``queue://>`` no topic,
  and nobody's temporary destinations).
* When a destination is created, every wildcard that covers it gets its place, in the order of the consumers, before
  the first message arrives: nobody misses it.
* When the window of a consumer with several places closes, it closes at all of them; when it opens, they are asked in
  turn, beginning after the one that was served last, so that none starves.

Change together: ``matching.py`` (what covers what), ``durable.py``, ``audit.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from reference_broker.core.matching import covers, is_wild, members
from reference_broker.core.subscription import Subscription

if TYPE_CHECKING:
    from reference_broker.core.destination import Destination
    from reference_broker.core.region import Region
    from reference_broker.core.subscription import Consumer


@mypyc_attr(allow_interpreted_subclasses=True)
class Coverage:
    """Policy ``coverage``."""

    def covers(self, patterns: list[str], name: str) -> bool:
        """Whether one of a consumer's wildcards covers a destination."""
        return covers(patterns, name)

    def joins(self, destination: Destination) -> bool:  # noqa: ARG002 - a planted defect chooses by the destination
        """Whether a consumer takes its place at a destination that is created after it: always."""
        return True


class Places:
    """The places of all consumers."""

    __slots__ = ("_region", "_roamers", "_serial")

    def __init__(self, region: Region) -> None:
        self._region = region
        #: Consumers with a wildcard, by name, oldest first.
        self._roamers: dict[str, Consumer] = {}
        self._serial = 0

    def settle_in(self, consumer: Consumer, asked: str) -> None:
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
        for destination in places.values():
            self._place(consumer, destination)

    def created(self, destination: Destination) -> None:
        """A destination exists from now on."""
        rules = self._region.policies.coverage
        for consumer in self._roamers.values():
            if rules.covers(consumer.patterns, destination.name) and rules.joins(destination):
                self._place(consumer, destination)

    def leave(self, consumer: Consumer, last_delivered: int) -> None:
        """A consumer goes."""
        self._roamers.pop(consumer.name, None)
        if not consumer.prefetch:
            self._region.pulls.forget(consumer)
        for subscription in consumer.subscriptions:
            subscription.destination.detach(subscription, last_delivered)
        if consumer.durable:
            self._region.durables.left(consumer)

    def next_serial(self) -> int:
        """The number of a new place."""
        self._serial += 1
        return self._serial

    def _place(self, consumer: Consumer, destination: Destination) -> None:
        subscription = Subscription(consumer, destination, self.next_serial())
        consumer.subscriptions.append(subscription)
        consumer.scattered = len(consumer.subscriptions) > 1
        destination.attach(subscription)
