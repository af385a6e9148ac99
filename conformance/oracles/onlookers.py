"""Onlookers and latecomers: browsers, pull consumers, and consumers beside one that does not read. Judges GEN-026,
PRE-006, PRE-011 and DLY-011.

Model. A browser is shown what is on the queue when it comes, oldest first, and is told when that was all. A pull
consumer is given one message for each time that it asks. An asynchronous dispatch is the business of its own
connection.

Events: those of the books; ``browse`` and ``subscribe`` for browsers, ``consume`` and ``discard`` for pulls.

Analyses:

1. GEN-026: a message was surely on the queue from before a browser came until the browser was told that it had seen
   everything, and it was not among them; or two such messages that nobody can have had were shown in the wrong order.
2. PRE-006: a second message arrived at a pull consumer whose application had not been given the first.
3. PRE-011: while a link toward one consumer of a queue was stalled, and all consumers of the queue had asked for
   asynchronous dispatch, a message was sent that went to another consumer, which had a free slot all the time; it
   arrived later than ``ISOLATION_MS`` after it was accepted, and only after the stall had ended.
4. DLY-011: while a delayed message waited, a pull was answered with nothing; and no delayed message arrived at a pull
   consumer before its delay was over, or while that consumer was not asking.

Not checked: GEN-026 for messages with timers, non-persistent ones, on queues that an operator touched, after a restart
and where memory may be scarce; PRE-011 on queues with consumers that may rightly be passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Arrive, Browse, Consume, Discard, Event, Poll, Subscribe
from brokerproof.conformance.oracles import wishes
from brokerproof.conformance.oracles.base import NS_PER_MS
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import NEVER, Consumer, Message, Passage, Queue
from brokerproof.conformance.oracles.wall import WallClocks

#: A message on a healthy link is never this late for the sake of another link.
ISOLATION_MS: Final = 1000
#: What real brokers show at most (maxBrowsePageSize).
BROWSED_MAX: Final = 400


class Look:
    """One browser: how it came, and what it was shown."""

    __slots__ = ("ended_ns", "shown", "subscribe", "witness")

    def __init__(self, subscribe: Subscribe) -> None:
        self.subscribe = subscribe
        self.shown: list[str] = []
        #: When it was told that it had seen everything.
        self.ended_ns = NEVER
        self.witness = subscribe.seq


class OnlookerOracle(BookOracle):
    """See the module's header."""

    name = "onlookers"
    requirements = ("GEN-026", "PRE-006", "PRE-011", "DLY-011")
    kinds = (*BookOracle.kinds, "poll")

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._looks: dict[str, Look] = {}
        #: Pull consumers: messages that arrived and were not given to the application yet.
        self._pulled: dict[str, list[str]] = {}
        #: What they asked, in order.
        self._polls: dict[str, list[Poll]] = {}

    def sink(self, kind: type[Event]) -> Callable[[Event], None]:
        return self.feed if kind in (Subscribe, Browse, Arrive, Consume, Discard, Poll) else self.books.feed

    def feed(self, event: Event) -> None:
        if isinstance(event, Poll):
            self._polls.setdefault(event.consumer, []).append(event)
            return
        self.books.feed(event)
        if isinstance(event, Arrive | Consume | Discard):
            if event.consumer in self._pulled:
                self._pull(event, self._pulled[event.consumer])
        elif isinstance(event, Subscribe):
            if event.browser and event.result == "ok":
                self._looks[event.consumer] = Look(event)
            elif event.prefetch == 0:
                self._pulled[event.consumer] = []
        elif isinstance(event, Browse) and event.consumer in self._looks:
            look = self._looks[event.consumer]
            look.shown += event.messages
            look.witness = event.seq
            if event.complete:
                look.ended_ns = event.t1

    # -- pulls

    def _pull(self, event: Arrive | Consume | Discard, pending: list[str]) -> None:
        claim = self.claims["PRE-006"]
        if not isinstance(event, Arrive):
            if event.message in pending:
                pending.remove(event.message)
                claim.hold("a pull brought a message", outcome="one")
            return
        pending.append(event.message)
        if len(pending) > 1:
            text = (
                f"{event.message} arrived at the pull consumer {event.consumer} although {pending[0]} had arrived and "
                "its application had not been given it yet"
            )
            claim.fail(text, [event.seq], outcome="several")

    # -- the end

    def judge(self) -> None:
        if not self.books.restarted and not self.ask.scarce:
            for look in self._looks.values():
                self._look(look)
        for queue in self.books.queues.values():
            if not queue.topic and queue.name != DEAD_LETTERS:
                self._isolation(queue)
        for name, polls in self._polls.items():
            consumer = self.books.consumers.get(name)
            if consumer is not None:  # else its subscription was refused
                self._in_vain(consumer, polls)

    def _look(self, look: Look) -> None:
        asked = look.subscribe
        lens = self.books.lens
        if look.ended_ns == NEVER or asked.dest in lens.purged or asked.dest in lens.moved:
            return
        queue = self.books.queues.get(asked.dest)
        wish = wishes.read(asked.selector) if asked.selector else None
        if queue is None or queue.limit_bytes or (asked.selector and wish is None) or len(look.shown) >= BROWSED_MAX:
            return
        there = [
            message
            for message in self.books.messages.values()
            if self._stayed(message, look, queue)
            and (wish is None or message.send is None or wish(message.send) is True)
        ]
        claim = self.claims["GEN-026"]
        for message in there:
            if message.name not in look.shown:
                send = message.send
                assert send is not None
                text = (
                    f"{message.name} was on {asked.dest} from {ms(send.t1)} on, and the browser {asked.consumer}, "
                    f"which came at {ms(asked.t0)} and had seen everything at {ms(look.ended_ns)}, was not shown it"
                )
                claim.fail(text, [send.seq, asked.seq, look.witness], outcome="missing")
                return
        self._order(look, there)
        if there:
            claim.hold("messages waited", outcome="shown")

    def _stayed(self, message: Message, look: Look, queue: Queue) -> bool:
        """Whether it was on the queue all the time, for certain."""
        send = message.send
        if send is None or send.dest != queue.name or not message.steady or send.t1 > look.subscribe.t0:
            return False
        if message.dead or self.ask.maybe_swallowed(message, queue):
            return False
        for passage in message.passages:
            if passage.consumer.ack == "auto" or (passage.settle is not None and passage.settle.t0 <= look.ended_ns):
                return False
        return True

    def _order(self, look: Look, there: list[Message]) -> None:
        place = {name: index for index, name in reversed(list(enumerate(look.shown)))}
        if look.subscribe.dest in self.books.lens.ranked:
            return
        fresh = [
            message
            for message in there
            if all(passage.event.t0 > look.ended_ns for passage in message.passages)
            and not self._touched(message, look)
        ]
        fresh.sort(key=lambda message: message.send.t0 if message.send is not None else 0)
        for one, other in pairwise(fresh):
            assert one.send is not None
            assert other.send is not None
            if one.send.t1 <= other.send.t0 and place[one.name] > place[other.name]:
                text = f"the browser {look.subscribe.consumer} was shown {other.name} before {one.name}, the older one"
                self.claims["GEN-026"].fail(text, [one.send.seq, other.send.seq, look.witness], outcome="disordered")
                return

    def _touched(self, message: Message, look: Look) -> bool:
        """Whether somebody may have been given it, and have lost it again, before the end of the look."""
        send = message.send
        queue = self.books.queues[look.subscribe.dest]
        since_ns = send.t0 if send is not None else 0
        return any(
            consumer.opened_ns <= look.ended_ns
            and consumer.lost_ns < look.ended_ns
            and self.ask.gone(consumer) >= since_ns
            for consumer in queue.consumers
        )

    # -- pulls before the time

    def _in_vain(self, consumer: Consumer, polls: list[Poll]) -> None:
        claim = self.claims["DLY-011"]
        queue = consumer.queue.name
        for passage in consumer.passages:
            send = passage.message.send
            if send is None or send.delay_ms <= 0 or passage is not passage.message.passages[0]:
                continue
            event = passage.event
            text = f"{send.message} (delay {send.delay_ms} ms) arrived at the pull consumer {consumer.name}"
            if event.t1 < send.t0 + send.delay_ms * NS_PER_MS:
                early_ms = ms(send.t0 + send.delay_ms * NS_PER_MS - event.t1)
                claim.fail(f"{text} {early_ms} early", [send.seq, event.seq], outcome="early")
            elif not any(poll.t0 <= event.t1 and (event.t0 <= poll.t1 or not poll.answered) for poll in polls):
                claim.fail(f"{text} at {ms(event.t1)}, when it asked for nothing", [event.seq], outcome="unasked")
        if self.books.lens.clouded(queue) or self.books.restarted:
            return
        delayed = [
            message.send
            for message in self.books.messages.values()
            if message.send is not None and message.send.dest == queue and message.send.delay_ms > 0
        ]
        for poll in polls:
            if poll.message is None and poll.answered:
                waited = [
                    send
                    for send in delayed
                    if send.result == "ok" and send.t1 <= poll.t0 and poll.t1 < send.t0 + send.delay_ms * NS_PER_MS
                ]
                if waited:
                    claim.hold("a delayed message waited", outcome="nothing")

    # -- isolation

    def _isolation(self, queue: Queue) -> None:
        consumers = queue.consumers
        if self.ask.scarce or queue.limit_bytes or self.books.restarted or self.books.lens.clouded(queue.name):
            return
        if any(consumer.sync or consumer.choosy or not consumer.known for consumer in consumers):
            return
        for deaf in consumers:
            for stall in deaf.host.stalls:
                end_ns = stall.end.t0 if stall.end is not None else self.ask.end_ns
                if stall.toward == "broker" or deaf.lost_ns <= end_ns:
                    continue
                for consumer in consumers:
                    if consumer.host is not deaf.host and not consumer.host.stalls:
                        self._beside(queue, deaf, consumer, stall.begin.t1, end_ns)

    def _beside(self, queue: Queue, deaf: Consumer, consumer: Consumer, from_ns: int, to_ns: int) -> None:
        bound_ns = ISOLATION_MS * NS_PER_MS
        claim = self.claims["PRE-011"]
        for passage in consumer.passages:
            send = passage.message.send
            if send is None or passage.queue is not queue or send.result != "ok" or send.tx is not None:
                continue
            if send.t0 < from_ns or send.t1 + bound_ns > to_ns or send.delay_ms or send.deliver_at_ms is not None:
                continue
            if passage.event.t1 <= send.t1 + bound_ns:
                claim.hold("another connection did not read", outcome="isolated")
                continue
            late = passage.event.t0 >= to_ns and passage.event.t0 > send.t1 + bound_ns
            if not late or not self._only_his(passage) or not self.ask.surely_free(consumer, send.t0, passage.event.t1):
                continue
            text = (
                f"{send.message} was accepted at {ms(send.t1)} and arrived at {consumer.name} at "
                f"{ms(passage.event.t0)}, when {deaf.host.name}, whose consumer {deaf.name} is on {queue.name} too, "
                "read again"
            )
            claim.fail(text, [send.seq, passage.event.seq], outcome="delayed")
            return

    def _only_his(self, passage: Passage) -> bool:
        message = passage.message
        return message.passages[0] is passage and not self.ask.maybe_elsewhere(message, passage)
