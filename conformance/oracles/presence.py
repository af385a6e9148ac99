"""Presence: whether those who ask are told which consumers come and go. Judges GEN-028.

Model. A destination's consumer advisories tell of each consumer that comes, and of each that goes; who begins to listen
is told first of those that are there. Nothing else is told on that topic.

Events: the books; what happens at topics that only the broker fills.

Analysis: a consumer was subscribed to the consumer advisories of a destination, and at rest it had got fewer of them,
or more, than consumers had come and gone since then and been there before.

Not checked: where the broker may have seen a coming or a going before or after that of the listener, or about the read;
destinations with browsers, durable subscriptions, or consumers whose coming has an unknown result; anything in a
history with wildcard consumers or a restart, or where memory may have been scarce; what an advisory says beside that it
comes.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerproof.conformance.experiment.destinations import presence_of
from brokerproof.conformance.experiment.history import Counters, Event, Subscribe
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import NEVER, Consumer, Queue
from brokerproof.conformance.oracles.wall import WallClocks
from brokerproof.conformance.oracles.watchers import Watchers


class PresenceOracle(BookOracle):
    """See the module's header."""

    name = "presence"
    requirements = ("GEN-028",)
    sees_aside = True

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._watchers = Watchers(self.books)
        #: Destinations with consumers of which the books know too little.
        self._odd: dict[str, bool] = {}

    def sink(self, kind: type[Event]) -> Callable[[Event], None]:
        return self.feed if kind is Subscribe else self.books.feed

    def feed(self, event: Event) -> None:
        if isinstance(event, Subscribe) and (event.browser or event.durable or event.result == "unknown"):
            self._odd[event.dest] = True
        self.books.feed(event)

    def feed_aside(self, event: Event) -> None:
        self._watchers.feed(event)

    def judge(self) -> None:
        if self.books.restarted or self.books.wild or self.ask.scarce:
            return
        for queue in self.books.queues.values():
            if queue.name not in self._odd:
                for watcher in self._watchers.by_topic.get(presence_of(queue.name), ()):
                    self._complete(queue, watcher)

    def _complete(self, queue: Queue, watcher: Subscribe) -> None:
        reads = [read.event for read in queue.reads if read.event.at_rest]
        reads = [read for read in reads if read.t0 >= watcher.t1 and self._watchers.was_there(watcher, read)]
        if watcher.ack != "auto":
            return
        for read in reversed(reads):
            owed = [self._owed(consumer, watcher, read) for consumer in queue.consumers]
            if None not in owed:
                self._compare(queue, watcher, read, sum(count for count in owed if count is not None))
                return

    def _compare(self, queue: Queue, watcher: Subscribe, read: Counters, owed: int) -> None:
        told = len([advisory for advisory in self._watchers.told(watcher) if advisory.seq < read.seq])
        claim = self.claims["GEN-028"]
        if told != owed:
            text = (
                f"{watcher.consumer} began to listen to the consumer advisories of {queue.name} at {ms(watcher.t0)}; "
                f"at rest at {ms(read.t1)} it should have been told {owed} times who comes, goes or was there, and was "
                f"{told} times"
            )
            claim.fail(text, [watcher.seq, read.seq], outcome="untold" if told < owed else "too-often")
        elif owed:
            before = any(consumer.opened_ns < watcher.t0 for consumer in queue.consumers)
            claim.hold("consumers were there before" if before else "", outcome="told")

    def _owed(self, consumer: Consumer, watcher: Subscribe, read: Counters) -> int | None:
        """How often a listener had to be told of one consumer before a read; None: that cannot be said."""
        come = consumer.subscribe
        if come is None or not consumer.known or consumer.host.stalls:
            return None
        if come.t0 >= read.t1:
            return 0
        gone = consumer.end != ""
        low_ns, high_ns = consumer.lost_ns, self.ask.gone(consumer) if gone else NEVER
        if come.t1 > read.t0 or (not gone and low_ns != NEVER):
            return None
        if come.t0 < watcher.t1:
            if come.t1 > watcher.t0:
                return None
            if high_ns <= watcher.t0:
                return 0
            if low_ns < watcher.t1:
                return None
        if low_ns >= read.t1:
            return 1
        return 2 if high_ns <= read.t0 else None
