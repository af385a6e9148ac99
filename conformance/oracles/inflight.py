"""In-flight accounting: judges INF-001 to INF-006, and PRE-007, from the broker's counters and what arrived where.

Model (seed 003). Each dispatch that was transmitted adds one to the count of its queue; each settlement takes one
off; the end of a consumer takes off all that was assigned to it and not settled. Under asynchronous dispatch the last
may come before the first, so the count may swing below zero for a while, by no more than what was assigned and not
yet transmitted.

Events: ``counters`` (of queues), and ``subscribe``, ``arrive``, ``ack``, ``nack``, ``discard``, ``leave``, ``closed``
through the books.

Analyses:

1. INF-001: at rest the count equals the messages that arrived at consumers still open and are not settled. Messages
   in doubt widen that to a range; inside a range nothing is claimed.
2. INF-002: a count below zero, at any read, while no consumer of that queue has ever asked for asynchronous dispatch.
3. INF-003: at rest, enqueued - dequeued = size (messages that a scheduler keeps may count as enqueued or not).
4. INF-004: dispatched never falls; at rest it is at least the number of arrivals, and exactly that while no consumer
   has left (one that leaves may take transmitted messages with it that nobody saw) and nobody browsed.
5. INF-005: INF-001 where every consumer has left: the count is 0.
6. INF-006: a count below zero is no lower than what the consumers that had left by then can have had untransmitted:
   their prefetch, less what had arrived there and was not settled. In the live world one more is granted for each
   consumer: brokers run the callback that counts a moment after the write.
7. PRE-007: INF-002 where every consumer so far was STOMP's, which asked for synchronous dispatch by a header.

Not checked: topics (their accounting has other rules); queues whose messages came and went unseen (``lens.py``);
counters after a restart of the broker (baselines are lost), except INF-001 and INF-005; upper bounds between reads at
rest (JMS clients widen their own windows).
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Counters
from brokerproof.conformance.oracles.inference import BookOracle
from brokerproof.conformance.oracles.records import NEVER, RETURNED, Consumer, Queue, Read


def expected(read: Read) -> tuple[int, int]:
    """Least and greatest in-flight count that agrees with what was seen, at a read at rest."""
    low = 0
    high = 0
    for window in read.windows:
        consumer = window.consumer
        if consumer.auto:
            continue
        if consumer.known:
            low += window.held
            high += window.held + window.doubted
        else:
            high += max(consumer.prefetch, window.held + window.doubted)
    return low, high


def untransmitted(consumer: Consumer) -> int:
    """How many messages, at most, were assigned to a consumer and not transmitted when it left."""
    if consumer.host.via != "stomp" or consumer.auto:
        return consumer.prefetch
    kept = 0
    for passage in consumer.passages:
        if passage.fate == RETURNED and passage.settle is None and passage.event.t1 <= consumer.lost_ns:
            kept += 1
    return max(0, consumer.prefetch - kept)


class InFlightOracle(BookOracle):
    """The claims about counters."""

    name = "inflight"
    requirements = ("INF-001", "INF-002", "INF-003", "INF-004", "INF-005", "INF-006", "PRE-007")

    def judge(self) -> None:
        for queue in self.books.queues.values():
            if queue.topic or self.books.lens.clouded(queue.name):
                continue
            sync_ns = min((c.opened_ns for c in queue.consumers if c.sync), default=NEVER)
            async_ns = min((c.opened_ns for c in queue.consumers if not c.sync), default=NEVER)
            previous: Counters | None = None
            for read in queue.reads:
                event = read.event
                if event.at_rest:
                    self._balance(read)
                    self._conservation(read)
                if event.dispatched is not None:
                    self._dispatched(queue, read, previous)
                    previous = event
                if event.in_flight is not None:
                    self._sign(queue, read, sync_ns, async_ns)
                    self._swing(queue, read)

    def _unsure(self, read: Read) -> bool:
        """The read took time, and a timer of the broker may have acted meanwhile."""
        return read.ticking and read.event.t1 > read.event.t0

    def _mismatch(self, requirement: str, read: Read, text: str, outcome: str) -> None:
        claim = self.claims[requirement]
        event = read.event
        if self._unsure(read):
            claim.doubt(f"{text}; a timer may have acted during the read", [event.seq], event.t1 - event.t0)
        else:
            claim.fail(text, [event.seq], outcome=outcome)

    def _balance(self, read: Read) -> None:
        event = read.event
        count = event.in_flight
        if count is None:
            return
        low, high = expected(read)
        if not low <= count <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            text = (
                f"at rest the in-flight count of {event.dest} is {count}; "
                f"its {len(read.windows)} open consumers hold {wanted} unsettled messages"
            )
            self._mismatch("INF-001", read, text, "unbalanced")
        elif low == high:
            situation = "messages were in flight" if low else "nothing was in flight"
            self.claims["INF-001"].hold(situation, outcome="balanced")
            if read.ended:
                self.claims["INF-001"].hold("a consumer had left")
        if read.windows or not read.ended:
            return
        if count:
            text = f"every consumer of {event.dest} has left, and at rest its in-flight count is {count} instead of 0"
            self._mismatch("INF-005", read, text, "left-over")
        else:
            self.claims["INF-005"].hold("every consumer had left", outcome="zero")

    def _conservation(self, read: Read) -> None:
        event = read.event
        if event.enqueued is None or event.dequeued is None or event.size is None or self.books.restarted:
            return
        kept = event.enqueued - event.dequeued
        if kept in {event.size, event.size + (event.scheduled or 0)}:
            if event.enqueued:
                situation = "messages were left on the queue" if event.size else "the queue was empty again"
                self.claims["INF-003"].hold(situation, outcome="conserved")
            return
        text = (
            f"at rest {event.dest} has enqueued {event.enqueued} and dequeued {event.dequeued} messages, "
            f"so {kept} must be left; its size is {event.size}"
        )
        self._mismatch("INF-003", read, text, "unbalanced")

    def _dispatched(self, queue: Queue, read: Read, previous: Counters | None) -> None:
        event = read.event
        count = event.dispatched
        if count is None or self.books.restarted:
            return
        claim = self.claims["INF-004"]
        if previous is not None and previous.dispatched is not None and previous.t1 <= event.t0:
            if count < previous.dispatched:
                text = f"the dispatched count of {queue.name} fell from {previous.dispatched} to {count}"
                claim.fail(text, [previous.seq, event.seq], outcome="fell")
            elif count > previous.dispatched:
                claim.hold("the count rose", outcome="monotonic")
        if not event.at_rest:
            return
        exact = not read.ended and not queue.browsed and all(window.consumer.known for window in read.windows)
        if count < read.arrived or (exact and count > read.arrived):
            wanted = "" if exact else "at least "
            text = f"at rest {queue.name} has dispatched {count} messages; {wanted}{read.arrived} arrived at consumers"
            self._mismatch("INF-004", read, text, "miscounted")
        elif read.arrived:
            claim.hold("messages had been delivered again" if read.again else "messages had been delivered once")

    def _sign(self, queue: Queue, read: Read, sync_ns: int, async_ns: int) -> None:
        event = read.event
        count = event.in_flight
        if count is None or sync_ns > event.t1:
            return
        claim = self.claims["INF-002"]
        if async_ns <= event.t1:
            return
        stomp = all(consumer.host.via == "stomp" for consumer in queue.consumers if consumer.opened_ns <= event.t1)
        if count < 0:
            text = f"the in-flight count of {event.dest} is {count}; all its consumers so far are synchronous"
            claim.fail(text, [event.seq], outcome="negative")
            if stomp:
                self.claims["PRE-007"].fail(f"{text}, and STOMP's", [event.seq], outcome="asynchronous")
        else:
            situation = "a synchronous consumer had left" if read.ended else "synchronous consumers were attached"
            claim.hold(situation, outcome="never-negative")
            if stomp and read.ended and not event.at_rest:
                self.claims["PRE-007"].hold("a consumer had just left", outcome="synchronous")

    def _swing(self, queue: Queue, read: Read) -> None:
        event = read.event
        count = event.in_flight
        claim = self.claims["INF-006"]
        if count is None or count >= 0:
            if read.ended:
                claim.hold("a consumer had left", outcome="bounded")
            return
        bound = 0
        # A broker that has no synchronous dispatch to offer gives everybody the other one, whatever was asked.
        offered = "sync-dispatch" in self.books.header.capabilities
        for consumer in queue.consumers:
            if (consumer.sync and offered) or consumer.opened_ns > event.t1:
                continue
            if not self.books.simulated:
                bound += 1
            if consumer.lost_ns <= event.t1:
                bound += untransmitted(consumer)
        if count < -bound:
            text = (
                f"the in-flight count of {event.dest} is {count}; the consumers that had left by then "
                f"can have had at most {bound} messages assigned and not transmitted"
            )
            claim.fail(text, [event.seq], outcome="unbounded")
        else:
            claim.hold("the count was negative", outcome="bounded")
