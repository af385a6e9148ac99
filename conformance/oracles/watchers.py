"""Watchers: who listens at the topics where a broker tells of itself, what they were told, and whether they surely were
there all the time. For oracles that see what happens aside.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Arrive, Counters, Event, Leave, Subscribe
from brokerproof.conformance.oracles.books import Books


class Watchers:
    """See the module's header. It follows the books of the same history."""

    __slots__ = ("_books", "_left", "_told", "by_topic")

    def __init__(self, books: Books) -> None:
        self._books = books
        #: Topic -> who consumes from it.
        self.by_topic: dict[str, list[Subscribe]] = {}
        #: Consumer -> the advisories that it got.
        self._told: dict[str, list[Arrive]] = {}
        #: Consumers that left.
        self._left: dict[str, int] = {}

    def feed(self, event: Event) -> None:
        """An event at a destination that only the broker fills."""
        if isinstance(event, Leave):
            if event.consumer is not None:
                self._left[event.consumer] = event.t0
        elif isinstance(event, Subscribe):
            if event.result == "ok":
                self.by_topic.setdefault(event.dest, []).append(event)
        elif isinstance(event, Arrive) and not event.message:  # anybody may send there, too
            self._told.setdefault(event.consumer, []).append(event)

    def told(self, watcher: Subscribe) -> list[Arrive]:
        """The advisories that it got, in order."""
        return self._told.get(watcher.consumer, [])

    def was_there(self, watcher: Subscribe, read: Counters) -> bool:
        """Whether its connection had been well from its coming to a read."""
        host = self._books.host(watcher.host)
        broken = [*host.ends, *host.closes, *(stall.begin for stall in host.stalls)]
        left_ns = self._left.get(watcher.consumer, read.t1 + 1)
        return left_ns > read.t1 and not any(watcher.t0 <= event.t1 and event.t0 <= read.t1 for event in broken)
