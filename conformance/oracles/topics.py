"""Topics: judges GEN-013, GEN-040 to GEN-046 and MEM-031: durable subscriptions, noLocal on topics, wildcard consumers.

Model. A durable subscription gets everything that is published while it lives, whether a subscriber is there or not;
one subscriber at a time holds a message, and once it is settled it does not come again. A consumer of a wildcard is a
consumer of every destination that the wildcard covers, with one window over all.

Events: all that the books follow, and ``unsubscribe``.

Analyses:

1. GEN-013: at a rest, a subscriber whose window was never full has been there; a message that was published while its
   subscription lived has arrived at none of its subscribers. Excuses: a STOMP subscriber with ``ack:auto`` may have
   been given it and have lost it; a restart.
2. GEN-040: two arrivals at one durable subscription that one holder at a time cannot have had.
3. GEN-041: at one subscriber a message arrives after one that was published later to the same topic, and an earlier
   subscriber had left it unsettled.
4. GEN-042: an application had a message and its subscriber left without settling it, and it comes again unmarked; or a
   message that nobody of the subscription can have had is marked.
5. GEN-043: a message that was confirmed before a subscription began arrives at it.
6. GEN-044: a subscriber with noLocal gets what its own connection sent; a durable one, what its own host sent.
7. GEN-045: at a rest, a wildcard consumer whose window was never full has been there, and a message that was published
   to a topic that it covers has not arrived at it, or one that waits on a queue that it covers has arrived at nobody.
8. GEN-046: a wildcard consumer gets a message from a destination that its wildcard does not cover, or one of a topic
   twice.

9. MEM-031: where memory may have been scarce, at the last rest that a durable subscriber has seen: it had settled
   whatever it got, so that its window was free, and a message that was published while its subscription lived has
   arrived at none of its subscribers. It holds for what arrived after half of the broker's memory was seen in use.

Not checked: messages with an expiration, a delay or in a transaction; whether subscriptions with a selector are
complete; anything else where memory may have been scarce.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_pattern, is_topic, pattern_of
from brokerproof.conformance.experiment.history import Header, Send, Subscribe, Unsubscribe
from brokerproof.conformance.oracles.inference import PRESSURE_PERCENT, BookOracle, ms
from brokerproof.conformance.oracles.lives import Life, lives_of
from brokerproof.conformance.oracles.records import NEVER, RETURNED, Consumer, Message, Passage, is_limited

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.experiment.history import Event
    from brokerproof.conformance.oracles.wall import WallClocks


class TopicsOracle(BookOracle):
    """The nine claims."""

    name = "topics"
    requirements = ("GEN-013", "GEN-040", "GEN-041", "GEN-042", "GEN-043", "GEN-044", "GEN-045", "GEN-046", "MEM-031")
    kinds = (*BookOracle.kinds, "unsubscribe")

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._ends: list[Unsubscribe] = []

    def start(self, header: Header) -> None:
        super().start(header)
        self._ends = []

    def feed(self, event: Event) -> None:
        if isinstance(event, Unsubscribe):
            self._ends.append(event)
        else:
            self.books.feed(event)

    def sink(self, kind: type[Event]) -> Callable[[Event], None]:
        return self.feed if kind is Unsubscribe else self.books.feed

    def judge(self) -> None:
        for life in lives_of(self.books, self._ends):
            if not life.doubtful and not (self.books.restarted and not self.books.header.declared.persistent):
                self._life(life)
        for consumer in self.books.consumers.values():
            event = consumer.subscribe
            if event is None or not consumer.known:
                continue
            if event.no_local and not event.durable and is_topic(event.dest):
                self._own_messages(consumer, event)
            if is_pattern(event.dest):
                self._wildcard(consumer, event)

    # -- what is known of a message and a consumer

    def _is_plain(self, send: Send) -> bool:
        """Confirmed by the broker, nothing special about it: whoever is owed it is owed it now."""
        sure = send.result == "ok" and send.tx is None and (send.persistent or self._via(send.host) == "stomp")
        return sure and not send.timed() and not self.books.stamps_expiry

    def _is_tight(self, dest: str) -> bool:
        """Whether the destination's own memory limit may have held messages back."""
        queue = self.books.queues[dest]
        return 0 < queue.limit_bytes * PRESSURE_PERCENT < queue.sent_bytes * 100

    def _via(self, host: str) -> str:
        return self.books.host(host).via

    def _rest_of(self, consumer: Consumer) -> int:
        """The last instant at which nothing was moving and the broker had room for it, for certain; -1: none."""
        event = consumer.subscribe
        if event is None or not consumer.known or self.ask.scarce or len(consumer.passages) >= consumer.prefetch:
            return -1
        rests = [rest_ns for rest_ns in self.books.rests_ns if event.t1 <= rest_ns < consumer.lost_ns]
        return rests[-1] if rests else -1

    # -- durable subscriptions

    def _life(self, life: Life) -> None:
        messages = [message for message in self.books.messages.values() if message.send is not None]
        rest_ns = max((self._rest_of(consumer) for consumer in life.consumers), default=-1)
        for message in messages:
            send = message.send
            if send is None:
                continue
            passages = life.passages(message)
            if passages:
                self._arrivals(life, message, send, passages)
            if send.dest == life.begin.dest and rest_ns >= 0 and not self._is_tight(send.dest):
                self._owed(life, send, passages, rest_ns)
        for consumer in life.consumers:
            self._order(life, consumer)
            if self.ask.scarce:
                self._pressed(life, consumer, messages)

    def _pressed(self, life: Life, consumer: Consumer, messages: list[Message]) -> None:
        """Memory was short: has a subscriber with a free window been served all the same?"""
        event = consumer.subscribe
        if event is None or not consumer.known or life.begin.selector or consumer.prefetch < 1:
            return
        rests = [rest_ns for rest_ns in self.books.rests_ns if event.t1 <= rest_ns < consumer.lost_ns]
        if not rests:
            return
        rest_ns = rests[-1]
        reads = [read.event for read in self.books.reads if read.event.at_rest]
        full = [read for read in reads if (read.memory_percent or 0) >= PRESSURE_PERCENT]
        idle = all(self._is_settled_by(passage, rest_ns) for passage in consumer.passages)
        claim = self.claims["MEM-031"]
        for message in messages:
            send = message.send
            if send is None or send.dest != life.begin.dest or not self._is_owed(life, send, rest_ns):
                continue
            arrived = [one.event.t0 for one in life.passages(message) if one.event.t0 <= rest_ns]
            if arrived:
                if any(read.t1 < arrived[0] for read in full):
                    claim.hold("half of the broker's memory had been in use", outcome="served")
            elif idle and not any(self._may_have_swallowed(one) for one in life.consumers):
                text = (
                    f"{message.name} was published on {send.dest} at {ms(send.t0)}; at rest at {ms(rest_ns)} "
                    f"{consumer.name}, a subscriber of {life.title()}, had settled all that it ever got, and had not "
                    "got it"
                )
                claim.fail(text, [life.begin.seq, send.seq], outcome="starved")

    def _is_settled_by(self, passage: Passage, rest_ns: int) -> bool:
        settle = passage.settle
        return settle is not None and settle.t1 <= rest_ns and self.ask.settled(passage)

    def _owed(self, life: Life, send: Send, passages: list[Passage], rest_ns: int) -> None:
        if not self._is_owed(life, send, rest_ns):
            return
        claim = self.claims["GEN-013"]
        if passages:
            away = not any(c.opened_ns <= send.t0 and send.t1 <= c.lost_ns for c in life.consumers)
            claim.hold("nobody was connected to it" if away else "a subscriber was there", outcome="complete")
        elif not any(self._may_have_swallowed(consumer) for consumer in life.consumers):
            text = (
                f"{send.message} was published on {send.dest} at {ms(send.t0)}; {life.title()}, which exists since "
                f"{ms(life.begin.t1)}, had not got it at rest at {ms(rest_ns)}"
            )
            claim.fail(text, [life.begin.seq, send.seq], outcome="missed")

    def _is_owed(self, life: Life, send: Send, rest_ns: int) -> bool:
        """Whether a durable subscription must have been given a message by then."""
        if not self._is_plain(send) or life.begin.selector or send.t1 > rest_ns or send.t0 < life.begin.t1:
            return False
        own = life.begin.no_local and send.host == life.host
        return not own and (send.persistent or not self.books.restarted)

    def _may_have_swallowed(self, consumer: Consumer) -> bool:
        """Whether the broker may have settled it by writing it to an auto-acknowledging consumer that never got it."""
        if consumer.ack != "auto" or consumer.host.via == "jms":
            return False
        return not consumer.known or consumer.lost_ns != NEVER or bool(consumer.end)

    def _arrivals(self, life: Life, message: Message, send: Send, passages: list[Passage]) -> None:
        first = passages[0]
        if self._is_plain(send) and send.t1 < life.begin.t0:
            text = (
                f"{message.name} was published by {ms(send.t1)} and arrived at {first.consumer.name}, a subscriber of "
                f"{life.title()}, which began at {ms(life.begin.t0)}"
            )
            self.claims["GEN-043"].fail(text, [send.seq, life.begin.seq, first.event.seq], outcome="retroactive")
        elif self._is_plain(send):
            self.claims["GEN-043"].hold(outcome="later-only")
        if life.begin.no_local:
            self._local(send, first, send.host == life.host)
        if self._was_first(life, first):
            self._mark(first, None)
        for one, other in pairwise(passages):
            self._again(life, one, other)

    def _was_first(self, life: Life, passage: Passage) -> bool:
        """Nobody of the subscription can have had it before."""
        return life.consumers[0] is passage.consumer and not self.books.restarted

    def _again(self, life: Life, one: Passage, other: Passage) -> None:
        claim = self.claims["GEN-040"]
        if self.ask.repeated(one, other):
            state = "had settled it" if self.ask.settled(one) else "still held it"
            text = (
                f"{one.message.name} arrived at {one.consumer.name} at {ms(one.event.t1)} and at {other.consumer.name} "
                f"at {ms(other.event.t1)}, both subscribers of {life.title()}, though {one.consumer.name} {state}"
            )
            claim.fail(text, [one.event.seq, other.event.seq], outcome="again")
            return
        claim.hold("a subscriber left it unsettled", outcome="once")
        if one.fate == RETURNED and one.consumed and one.settle is None and not self.books.restarted:
            self._mark(other, one)

    def _mark(self, passage: Passage, before: Passage | None) -> None:
        """``before``: an application had it and left it unsettled; None: nobody can have had it."""
        claim = self.claims["GEN-042"]
        name, at = passage.message.name, f"{passage.consumer.name} at {ms(passage.event.t1)}"
        if before is None:
            if passage.event.redelivered:
                text = f"{name} arrived at {at} marked as redelivered, and no subscriber had had it before"
                claim.fail(text, [passage.event.seq], outcome="marked")
            return
        if passage.event.redelivered:
            claim.hold(outcome="marked-again")
        else:
            text = f"{before.consumer.name} had {name} and left it unsettled; it arrived at {at} without a mark"
            claim.fail(text, [before.event.seq, passage.event.seq], outcome="unmarked")

    def _order(self, life: Life, consumer: Consumer) -> None:
        """What earlier subscribers left unsettled comes in the order of the topic, before what nobody has had."""
        if self.books.restarted or any(
            passage.settle is not None and getattr(passage.settle, "tx", None) is not None
            for one in life.consumers
            for passage in one.passages
        ):
            return
        claim = self.claims["GEN-041"]
        newest: dict[tuple[str, str, int, bool], Passage] = {}
        for passage in consumer.passages:
            send = passage.message.send
            if send is None or not self._is_plain(send) or consumer.seen[passage.message.name] is not passage:
                continue
            # A subscription to a wildcard covers several topics, and between topics nothing orders.
            key = (send.dest, send.host, send.priority, send.persistent)
            before = newest.get(key)
            if before is None or before.message.send is None or before.message.send.t0 <= send.t0:
                newest[key] = passage
            returned = any(one.fate == RETURNED for one in life.passages(passage.message))
            if not returned or before is None or before.message.send is None:
                continue
            if send.t1 <= before.message.send.t0:
                text = (
                    f"{passage.message.name}, which a subscriber had left unsettled, arrived at {consumer.name} at "
                    f"{ms(passage.event.t1)}, after {before.message.name} ({ms(before.event.t1)}), which {send.host} "
                    "published later"
                )
                claim.fail(text, [send.seq, before.event.seq, passage.event.seq], outcome="overtaken")
                return
            claim.hold(outcome="in-order")

    # -- noLocal

    def _own_messages(self, consumer: Consumer, event: Subscribe) -> None:
        for passage in consumer.passages:
            send = passage.message.send
            if send is not None and send.host == event.host:
                same = passage.message.epoch == consumer.epoch and send.result == "ok" and not send.again
                self._local(send, passage, same)
            elif send is not None:
                self._local(send, passage, False)

    def _local(self, send: Send, passage: Passage, own: bool) -> None:
        claim = self.claims["GEN-044"]
        if own:
            text = (
                f"{send.message} arrived at {passage.consumer.name}, a noLocal subscriber of {send.host}, who sent it"
            )
            claim.fail(text, [send.seq, passage.event.seq], outcome="own")
        else:
            claim.hold("of a durable subscription" if self._is_durable(passage) else "", outcome="others-only")

    def _is_durable(self, passage: Passage) -> bool:
        event = passage.consumer.subscribe
        return event is not None and bool(event.durable)

    # -- wildcards

    def _wildcard(self, consumer: Consumer, event: Subscribe) -> None:
        topic = is_topic(event.dest)
        claim = self.claims["GEN-046"]
        seen: dict[str, Passage] = {}
        for passage in consumer.passages:
            at = passage.event
            before = seen.get(at.message)
            if at.dest == DEAD_LETTERS or pattern_of(at.dest) != event.dest:
                text = f"{at.message} arrived at {consumer.name} from {at.dest}, which {event.dest} does not cover"
                claim.fail(text, [event.seq, at.seq], outcome="strange")
            elif topic and before is not None:
                text = f"{at.message} arrived at {consumer.name} twice, at {ms(before.event.t1)} and {ms(at.t1)}"
                claim.fail(text, [before.event.seq, at.seq], outcome="twice")
            else:
                claim.hold("from a topic" if topic else "from a queue", outcome="covered")
            seen[at.message] = passage
        rest_ns = self._rest_of(consumer)
        if rest_ns < 0 or event.selector or event.no_local or self.books.restarted:
            return
        for message in self.books.messages.values():
            send = message.send
            if send is None or not self._is_plain(send) or send.t1 > rest_ns or pattern_of(send.dest) != event.dest:
                continue
            if self._is_tight(send.dest):
                continue
            if topic:
                self._published(consumer, event, message, send, rest_ns)
            else:
                self._waiting(consumer, event, message, send, rest_ns)

    def _published(self, consumer: Consumer, event: Subscribe, message: Message, send: Send, rest_ns: int) -> None:
        if send.t0 < event.t1 or is_limited(self.books.header.declared.destinations, send.dest):
            return
        claim = self.claims["GEN-045"]
        if message.name in consumer.seen:
            claim.hold("topics", outcome="complete")
        else:
            text = (
                f"{message.name} was published on {send.dest} at {ms(send.t0)}; {consumer.name}, which consumes from "
                f"{event.dest} since {ms(event.t1)}, had not got it at rest at {ms(rest_ns)}"
            )
            claim.fail(text, [event.seq, send.seq], outcome="missed")

    def _waiting(self, consumer: Consumer, event: Subscribe, message: Message, send: Send, rest_ns: int) -> None:
        lens = self.books.lens
        queue = self.books.queues[send.dest]
        if send.dest == DEAD_LETTERS or lens.picky(send.dest) or lens.picky(event.dest) or send.dest in lens.purged:
            return
        claim = self.claims["GEN-045"]
        if message.passages or message.dead:
            claim.hold("queues", outcome="complete")
        elif not queue.browsed and not self.ask.maybe_swallowed(message, queue):
            text = (
                f"{message.name} was sent to {send.dest} at {ms(send.t0)} and had arrived at nobody at rest at "
                f"{ms(rest_ns)}; {consumer.name}, which consumes from {event.dest} since {ms(event.t1)}, had room"
            )
            claim.fail(text, [event.seq, send.seq], outcome="missed")
