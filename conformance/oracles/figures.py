"""Figures: a queue's counters after an operator's request, of consumers that read nothing, and of wildcards. Judges
INF-008, INF-011 to INF-014, INF-018 and INF-019.

Model. Resetting the statistics begins the totals anew and leaves the levels (size, in flight) as they are. A purge
empties a queue at once; what was in flight then leaves the in-flight count with its late settlement, and is counted
nowhere else again. A consumer that the broker settles for is never in flight before it is written. A destination's
count is changed by what happens there, whoever else the consumer consumes from.

Events: ``operate``, ``counters``, and the books.

Analyses:

1. INF-008: a count below zero on a queue all of whose consumers are STOMP's ``auto`` and still there.
2. INF-018: at rest, a destination's count is below zero after a consumer of a wildcard over it has left; INF-011 if
   that was a durable subscriber.
3. INF-012: at rest after a reset, a count is below zero, or less than what consumers hold for certain.
4. INF-013: at rest after a purge, with nothing sent since, the size is not 0; or more has been counted out than in.

5. INF-014: at rest, on a queue with browsers: what is in flight is what consumers and browsers that are there hold, and
   enqueued - dequeued is the size. Browsers that acknowledge what they see hold nothing.
6. INF-019: at rest, the count of wasted dispatches is above zero though no consumer has left, or less than the
   deliveries that consumers were seen to leave behind unsettled.

Not checked: after a restart of the broker; purged queues with delayed messages or sends of unknown result (4).
"""

from __future__ import annotations

from collections.abc import Callable

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_pattern, is_topic
from brokerproof.conformance.experiment.history import (
    Browse,
    Closed,
    Commit,
    Counters,
    Event,
    Leave,
    Operate,
    Send,
    Subscribe,
)
from brokerproof.conformance.oracles.inference import BookOracle
from brokerproof.conformance.oracles.inflight import expected
from brokerproof.conformance.oracles.records import RETURNED, Consumer
from brokerproof.conformance.oracles.wall import WallClocks


class Request:
    """An operator's request that was carried out, and how many messages were held for certain by then."""

    __slots__ = ("event", "held")

    def __init__(self, event: Operate, held: int) -> None:
        self.event = event
        self.held = held


class Looker:
    """A browser, and how many messages it has been shown. ``sure``: it is known whether it is there."""

    __slots__ = ("gone", "holds", "shown", "subscribe", "sure")

    def __init__(self, subscribe: Subscribe) -> None:
        self.subscribe = subscribe
        self.shown = 0
        self.gone = False
        self.sure = subscribe.result == "ok"
        #: It does not acknowledge what it sees.
        self.holds = subscribe.ack != "auto"


class FiguresOracle(BookOracle):
    """The claims about figures."""

    name = "figures"
    requirements = ("INF-008", "INF-011", "INF-012", "INF-013", "INF-014", "INF-018", "INF-019")

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._resets: dict[str, Request] = {}
        self._purges: dict[str, Request] = {}
        #: Destinations to which something came after the purge, or may come at any time.
        self._fed: dict[str, bool] = {}
        #: Consumers of wildcards.
        self._wild: list[Consumer] = []
        #: Browsers, by name.
        self._lookers: dict[str, Looker] = {}

    def sink(self, kind: type[Event]) -> Callable[[Event], None]:
        mine = {Operate, Counters, Send, Commit, Subscribe, Browse, Leave, Closed}
        return self.feed if kind in mine else self.books.feed

    def feed(self, event: Event) -> None:
        self.books.feed(event)
        if isinstance(event, Counters):
            if event.dest is not None and not self.books.restarted:
                self._look(event, event.dest)
        elif isinstance(event, Send):
            delayed = event.delay_ms or event.deliver_at_ms is not None
            if event.dest in self._purges or delayed or event.result == "unknown":
                self._fed[event.dest] = True
        elif isinstance(event, Operate):
            self._operated(event)
        elif isinstance(event, Commit):
            for dest in self._purges:
                self._fed[dest] = True
        elif isinstance(event, Subscribe):
            self._subscribed(event)
        else:
            self._looked(event)

    def _subscribed(self, event: Subscribe) -> None:
        consumer = self.books.consumers.get(event.consumer)
        if event.browser:
            self._lookers[event.consumer] = Looker(event)
        elif is_pattern(event.dest) and event.result == "ok" and consumer is not None:
            self._wild.append(consumer)

    def _looked(self, event: Event) -> None:
        """Something about a browser."""
        if isinstance(event, Browse):
            looker = self._lookers.get(event.consumer)
            if looker is not None:
                looker.shown += len(event.messages)
        elif isinstance(event, Leave | Closed):
            name = event.consumer if isinstance(event, Leave) else None
            host = event.host if isinstance(event, Leave) else event.link or event.host
            for looker in self._lookers.values():
                if looker.subscribe.host == host and name in {None, looker.subscribe.consumer}:
                    looker.gone = True
                    looker.sure = looker.sure and isinstance(event, Leave) and event.result == "ok"

    def judge(self) -> None:
        """Everything was judged when it was read."""

    def _operated(self, event: Operate) -> None:
        if event.op == "move":
            self._fed[event.to] = True
        if event.result != "ok":
            self._fed[event.dest] = True
        elif event.op == "reset":
            self._resets[event.dest] = Request(event, self._held(event.dest))
        elif event.op == "purge" and event.dest not in self._purges and not is_topic(event.dest):
            self._purges[event.dest] = Request(event, self._held(event.dest))

    def _held(self, dest: str) -> int:
        """What consumers of exactly this destination hold for certain."""
        queue = self.books.queues.get(dest)
        if queue is None:
            return 0
        return sum(consumer.held for consumer in queue.open.values() if consumer.known and not consumer.auto)

    def _look(self, event: Counters, dest: str) -> None:
        count = event.in_flight
        if count is not None:
            self._unread(event, dest, count)
        if not event.at_rest:
            return
        reset = self._resets.get(dest)
        if reset is not None and count is not None and event.t0 >= reset.event.t1:
            self._after_reset(event, reset, count)
        if count is not None and self._wild:
            self._after_wild(event, dest, count)
        if self._lookers and count is not None and not is_topic(dest) and not self._wild and reset is None:
            self._beside_browsers(event, dest, count)
        if event.wasted is not None and reset is None:
            self._waste(event, dest, event.wasted)
        purge = self._purges.get(dest)
        if purge is not None and dest not in self._fed and dest != DEAD_LETTERS and event.t0 >= purge.event.t1:
            self._after_purge(event, purge, reset is not None)

    def _unread(self, event: Counters, dest: str, count: int) -> None:
        queue = self.books.queues.get(dest)
        if queue is None or queue.topic or not queue.consumers or self.books.lens.clouded(dest):
            return
        if any(not consumer.auto or not consumer.known or consumer.end for consumer in queue.consumers):
            return
        if count < 0:
            text = (
                f"the in-flight count of {dest} is {count}; all {len(queue.consumers)} consumers leave the "
                "acknowledgement to the broker, and none has left"
            )
            self.claims["INF-008"].fail(text, [event.seq], outcome="negative")
        elif any(consumer.host.stall is not None for consumer in queue.consumers):
            self.claims["INF-008"].hold("a consumer did not read", outcome="counted")

    def _beside_browsers(self, event: Counters, dest: str, count: int) -> None:
        queue = self.books.queues.get(dest)
        lookers = [looker for looker in self._lookers.values() if looker.subscribe.dest == dest]
        lens = self.books.lens
        if not lookers or queue is None or dest in lens.purged or dest in lens.moved or dest in self._fed:
            return
        if not all(looker.sure and self.books.host(looker.subscribe.host).via == "stomp" for looker in lookers):
            return
        read = queue.reads[-1]
        low, high = expected(read)
        if low != high or (read.ticking and event.t1 > event.t0):
            return
        claim = self.claims["INF-014"]
        holding = sum(looker.shown for looker in lookers if looker.holds and not looker.gone)
        if count != low + holding:
            text = (
                f"at rest {count} messages of {dest} are in flight; its consumers hold {low}, and browsers that are "
                f"still there have been shown {holding}"
            )
            claim.fail(text, [event.seq], outcome="otherwise")
        elif event.enqueued is not None and event.dequeued is not None and event.size is not None:
            if event.enqueued - event.dequeued not in {event.size, event.size + (event.scheduled or 0)}:
                text = (
                    f"somebody browsed {dest}, and at rest {event.enqueued} messages were enqueued there, "
                    f"{event.dequeued} dequeued, and {event.size} are left"
                )
                claim.fail(text, [event.seq], outcome="dequeued")
            elif holding:
                claim.hold("a browser held what it had seen", outcome="while-it-looked")
            elif any(looker.gone and looker.shown for looker in lookers):
                claim.hold("a browser had gone", outcome="while-it-looked")

    def _waste(self, event: Counters, dest: str, wasted: int) -> None:
        queue = self.books.queues.get(dest)
        if queue is None or queue.topic or not queue.consumers or self.books.lens.clouded(dest):
            return
        claim = self.claims["INF-019"]
        gone = [consumer for consumer in queue.consumers if consumer.end or not consumer.known]
        left = sum(
            1 for c in gone for passage in c.passages if c.known and passage.fate == RETURNED and passage.settle is None
        )
        if wasted < left:
            text = f"at rest {dest} counts {wasted} wasted dispatches; {left} were left behind by consumers that went"
            claim.fail(text, [event.seq], outcome="uncounted")
        elif wasted and not gone:
            text = f"at rest {dest} counts {wasted} wasted dispatches, though no consumer has left"
            claim.fail(text, [event.seq], outcome="invented")
        else:
            claim.hold("consumers had left messages behind" if left else "", outcome="counted")

    def _after_reset(self, event: Counters, reset: Request, count: int) -> None:
        claim = self.claims["INF-012"]
        held = self._held(event.dest or "") if not is_topic(event.dest or "") else 0
        if count < 0 or count < held:
            text = (
                f"at rest the in-flight count of {event.dest} is {count}, after its statistics were reset with "
                f"{reset.held} messages in flight; consumers hold {held}"
            )
            claim.fail(text, [reset.event.seq, event.seq], outcome="forgotten")
        else:
            claim.hold("messages were in flight" if reset.held else "", outcome="kept")

    def _after_wild(self, event: Counters, dest: str, count: int) -> None:
        gone = [c for c in self._wild if c.end and is_topic(c.queue.name) == is_topic(dest)]
        if not gone:
            return
        durable = all(consumer.subscribe is not None and consumer.subscribe.durable for consumer in gone)
        claim = self.claims["INF-011" if durable else "INF-018"]
        if count < 0:
            text = f"at rest the in-flight count of {dest} is {count}; {gone[-1].name} left its wildcard"
            claim.fail(text, [event.seq], outcome="charged")
        elif any(passage.settle is None for consumer in gone for passage in consumer.passages):
            claim.hold("it left messages unsettled", outcome="left-alone")

    def _after_purge(self, event: Counters, purge: Request, was_reset: bool) -> None:
        claim = self.claims["INF-013"]
        size, enqueued, dequeued = event.size, event.enqueued, event.dequeued
        if size:
            text = f"at rest the size of {event.dest} is {size}; it was purged, and nothing was sent since"
            claim.fail(text, [purge.event.seq, event.seq], outcome="left")
            return
        if not was_reset and enqueued is not None and dequeued is not None and dequeued > enqueued:
            text = f"at rest {event.dest} has counted {enqueued} messages in and {dequeued} out, since it was purged"
            claim.fail(text, [purge.event.seq, event.seq], outcome="counted-again")
            return
        later = purge.held and not self._held(event.dest or "")
        claim.hold("messages were in flight" if purge.held else "", outcome="empty")
        if later:
            claim.hold("they were settled afterwards")
