"""Deaths: what an expiry does to the books and to whom it leaves alone. Judges EXP-013, EXP-014 and EXP-016 to EXP-019.

Model. A message that expires on a queue leaves it once: expired and dequeued + 1, size - 1, nothing in flight. One that
a consumer holds is that consumer's; one that a browser looks at is nobody's. On the dead-letter queue there is no
second death. Every durable subscription lets its own copy die.

Events: the books; ``counters``, between which nothing else happened, for 1; ``browse`` and durable ``subscribe``.

Analyses:

1. EXP-013: between two reads at rest of a queue, with nothing between them but time, the expired count rose,
   and the dequeued count not as much, or the size did not fall as much, or the in-flight count changed.
2. EXP-014: at rest in the drain a queue has counted more expiries than messages that may have expired there, or fewer
   than dead letters that nothing else explains; or an expired message has two letters (as in RDL-006).
3. EXP-016: at rest more expiries are counted than messages that may have expired and were not certainly with consumers
   whose library does not check. It holds where an application was given a message that was dead by then.
4. EXP-017: what was sent to the dead-letter queue itself with an expiration arrives there as a copy: with an origin, or
   with another expiration.
5. EXP-018: a message that was on a queue while a browser looked, that nobody rejected and that cannot have expired by
   the broker's clock, is a dead letter or gone.
6. EXP-019: a message of a topic, for which several durable subscriptions had collected, arrives at a consumer of one of
   them that subscribed when it was dead for certain.

Not checked: queues that an operator touched, or whose messages a wildcard consumer may have got (1 to 3, 5); delayed
messages in 1; after a restart of the broker 1 to 3 and 5; with time-stamping, or a life by the broker's clock, the
lower bound of 2, and 4 and 6. Outside of the simulation a read counts in 1 only if its neighbour says the same: a timer
may act while figures are read.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Ack, Connect, Counters, Discard, Event, Send, Subscribe
from brokerproof.conformance.oracles.base import NS_PER_MS
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import JMS_DELIVERIES, SETTLED, Consumer, Message, Passage, Queue
from brokerproof.conformance.oracles.wall import WallClocks

SWEPT: Final = "nothing happened but time"


class Figures:
    """Reads at rest of one queue with nothing between them."""

    __slots__ = ("moved_seq", "reads")

    def __init__(self, moved_seq: int) -> None:
        self.moved_seq = moved_seq
        self.reads: list[Counters] = []


class DeathOracle(BookOracle):
    """See the module's header."""

    name = "deaths"
    requirements = ("EXP-013", "EXP-014", "EXP-016", "EXP-017", "EXP-018", "EXP-019")

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._figures: dict[str, list[Figures]] = {}
        #: Browsers: their subscriptions, and the end of their looks.
        self._looks: dict[str, Subscribe] = {}
        self._durable: list[Subscribe] = []
        #: Hosts whose library discards what is expired.
        self._checks: dict[str, bool] = {}

    def sink(self, kind: type[Event]) -> Callable[[Event], None]:
        return self.feed if kind in {Counters, Subscribe, Connect} else self.books.feed

    def feed(self, event: Event) -> None:
        self.books.feed(event)
        if isinstance(event, Counters):
            if event.at_rest and event.dest is not None and event.dest != DEAD_LETTERS:
                self._figure(event, event.dest)
        elif isinstance(event, Subscribe):
            if event.result != "ok":
                return
            if event.browser:
                self._looks[event.consumer] = event
            elif event.durable:
                self._durable.append(event)
        elif isinstance(event, Connect):
            self._checks[event.host] = self._checks.get(event.host, False) or event.expiry_check

    def _figure(self, event: Counters, dest: str) -> None:
        stretches = self._figures.setdefault(dest, [])
        if not stretches or stretches[-1].moved_seq != self.books.moved_seq:
            stretches.append(Figures(self.books.moved_seq))
        stretches[-1].reads.append(event)

    # -- the end

    def judge(self) -> None:
        plain = not self.books.restarted
        for dest, stretches in self._figures.items():
            if plain and not self.books.queue(dest).topic and not self.books.lens.clouded(dest):
                for stretch in stretches:
                    self._moved(dest, stretch)
                self._counted(self.books.queue(dest))
        for message in self.books.messages.values():
            send = message.send
            if send is None or not send.mortal():
                continue
            self._outlived(message)
            self._letters(message, send)
            if send.dest == DEAD_LETTERS:
                self._on_dead_letters(message, send)
            elif self.books.queue(send.dest).topic:
                self._shared(message, send)
        if plain and self.ask.ended:
            for look in self._looks.values():
                self._looked(look)

    # -- what is known of a message

    def _rejected(self, message: Message) -> bool:
        """Whether somebody gave it up, or may have."""
        return message.name in self.books.rejected or any(p.rollbacks >= JMS_DELIVERIES for p in message.passages)

    def _worked_on(self, message: Message) -> bool:
        """Whether a JMS library may have given it up without anybody seeing it, after too many rollbacks."""
        return any(
            passage.consumer.host.via == "jms"
            and passage.settle is not None
            and not isinstance(passage.settle, Discard)
            for passage in message.passages
        )

    def _maybe_discarded(self, message: Message, queue: Queue) -> bool:
        """Whether a library may have discarded it as expired, seen or not."""
        send = message.send
        if message.discarded() or self.books.simulated:
            return message.discarded()
        checked = any(self._checks.get(consumer.host.name, True) for consumer in queue.consumers)
        return checked and send is not None and (send.mortal() or self.books.stamps_expiry)

    # -- EXP-013

    def _moved(self, dest: str, stretch: Figures) -> None:
        reads = stretch.reads
        if not self.books.simulated:
            reads = [one for one, other in pairwise(reads) if _figures(one) == _figures(other)]
        if len(reads) < 2:
            return
        one, other = reads[0], reads[-1]
        if one.expired is None or other.expired is None or one.scheduled or other.scheduled:
            return
        if one.scheduled is None and self._is_delayed(dest):
            return
        died = other.expired - one.expired
        if died <= 0:
            return
        claim = self.claims["EXP-013"]
        for name, wanted in (("dequeued", died), ("size", -died), ("in_flight", 0), ("enqueued", 0)):
            before, after = getattr(one, name), getattr(other, name)
            if before is not None and after is not None and after - before != wanted:
                text = (
                    f"{died} messages of {dest} expired between {ms(one.t1)} and {ms(other.t0)}, and nothing else "
                    f"happened; {name} went from {before} to {after}, not by {wanted}"
                )
                claim.fail(text, [one.seq, other.seq], outcome="unbalanced")
                return
        claim.hold(SWEPT, outcome="balanced")

    def _is_delayed(self, dest: str) -> bool:
        return any(
            message.send is not None
            and message.send.dest == dest
            and (message.send.delay_ms > 0 or message.send.deliver_at_ms is not None)
            for message in self.books.messages.values()
        )

    # -- EXP-014, EXP-016

    def _counted(self, queue: Queue) -> None:
        for read in queue.reads:
            event = read.event
            if not event.at_rest or event.expired is None:
                continue
            if event.expired and not self._believable(queue, event, event.expired):
                return
            if event.seq > self.ask.drain_seq and self.ask.ended:
                self._least(queue, event, event.expired)

    def _believable(self, queue: Queue, read: Counters, expired: int) -> bool:
        """Whether so many of its messages can have expired."""
        may, held = self._most(queue, read)
        if expired > may:
            text = (
                f"{expired} expiries are counted on {queue.name} at {ms(read.t1)}; no more than {may} of "
                "its messages can have expired"
            )
            self.claims["EXP-014"].fail(text, [read.seq], outcome="counted-again")
            return False
        if expired > may - held:
            text = (
                f"{expired} expiries are counted on {queue.name} at {ms(read.t1)}; of the {may} messages "
                f"that can have expired, {held} were with consumers that do not check"
            )
            self.claims["EXP-016"].fail(text, [read.seq], outcome="taken-away")
        return True

    def _most(self, queue: Queue, read: Counters) -> tuple[int, int]:
        """How many messages may have expired there by a read; how many of these were certainly with consumers."""
        may = held = 0
        for message in self.books.messages.values():
            send = message.send
            if send is None or send.dest != queue.name or send.seq > read.seq or send.result == "fail":
                continue
            if not self.ask.maybe_timed_out(message, read.t1) and not self._maybe_discarded(message, queue):
                continue
            if any(isinstance(p.settle, Ack) and self._is_settled(p, read) for p in message.passages):
                continue
            may += 1
            held += any(self._is_held(passage, read) for passage in message.passages)
        return may, held

    def _is_settled(self, passage: Passage, read: Counters) -> bool:
        settle = passage.settle
        return settle is not None and settle.t1 <= read.t0 and self.ask.settled(passage)

    def _is_held(self, passage: Passage, read: Counters) -> bool:
        """Whether a consumer whose library does not check had it at the read, for certain."""
        consumer = passage.consumer
        if not consumer.known or consumer.ack == "auto" or self._checks.get(consumer.host.name, True):
            return False
        settle = passage.settle
        if settle is not None and settle.t0 < read.t1:
            return False
        return passage.event.t1 <= read.t0 and consumer.lost_ns > read.t1 and passage.rollbacks == 0

    def _least(self, queue: Queue, read: Counters, expired: int) -> None:
        certain = [message for message in self.books.messages.values() if self._expired_here(message, queue)]
        claim = self.claims["EXP-014"]
        if expired < len(certain):
            text = (
                f"{expired} expiries are counted on {queue.name} at the end, and {len(certain)} of its messages have "
                f"dead letters because they expired there: {', '.join(message.name for message in certain[:5])}"
            )
            claim.fail(text, [read.seq, certain[0].dead[0].event.seq], outcome="uncounted")
        elif certain:
            several = any(message.discarded() for message in certain)
            claim.hold("a client had seen it expire" if several else "the broker found it", outcome="once")

    def _expired_here(self, message: Message, queue: Queue) -> bool:
        """Whether it expired while it was on the queue, for certain: not on its arrival, and not for another reason."""
        send = message.send
        if send is None or send.dest != queue.name or send.result != "ok" or send.tx is not None or not message.dead:
            return False
        if not send.mortal() or self.ask.maybe_restamped(send) or self._rejected(message) or self._worked_on(message):
            return False
        return bool(message.passages) or not self.ask.maybe_expired(send.expiration_ms, send.t0, send.t1)

    def _letters(self, message: Message, send: Send) -> None:
        if send.dest == DEAD_LETTERS or self.books.queue(send.dest).topic or self._rejected(message):
            return
        for one, other in pairwise(message.dead):
            if self.ask.repeated(one, other):
                text = f"{message.name} expired, and came to the dead-letter queue twice, at {ms(one.event.t1)} and "
                text += ms(other.event.t1)
                self.claims["EXP-014"].fail(text, [one.event.seq, other.event.seq], outcome="two-letters")
                return

    def _outlived(self, message: Message) -> None:
        """EXP-016 holds: an application was given what was dead by then."""
        for passage in message.passages:
            event, consumer = passage.event, passage.consumer
            settle = passage.settle
            late_ns = settle.t0 if settle is not None else event.t1
            if self._checks.get(consumer.host.name, True) or not passage.consumed or consumer.ack == "auto":
                continue
            if self.ask.surely_expired(event.expiration_ms, late_ns, late_ns) and passage.fate == SETTLED:
                self.claims["EXP-016"].hold("it was settled after it had expired", outcome="received")

    # -- EXP-017

    def _on_dead_letters(self, message: Message, send: Send) -> None:
        if self.ask.maybe_restamped(send) or self._rejected(message) or self.books.lens.clouded(send.dest):
            return
        claim = self.claims["EXP-017"]
        for passage in message.dead:
            event = passage.event
            if event.expiration_ms != send.expiration_ms or event.original_dest:
                text = (
                    f"{message.name} was sent to the dead-letter queue with expiration {send.expiration_ms}, and came "
                    f"from there with {event.expiration_ms} and original destination {event.original_dest!r}: a copy"
                )
                claim.fail(text, [send.seq, event.seq], outcome="copied")
                return
        drain = self.books.phases.get("drain")
        if message.dead or drain is None or not self.ask.drained(self.books.queue(DEAD_LETTERS)):
            return
        if send.result == "ok" and self.ask.surely_expired(send.expiration_ms, drain.t0, self.ask.end_ns):
            claim.hold("nobody took it in time", outcome="gone")

    # -- EXP-018

    def _looked(self, look: Subscribe) -> None:
        claim = self.claims["EXP-018"]
        lens = self.books.lens
        if look.dest in lens.purged or look.dest in lens.moved:
            return
        for message in self.books.messages.values():
            send = message.send
            if send is None or not self._was_there(message, send, look):
                continue
            if message.dead or self.ask.missing(message):
                what = "is a dead letter" if message.dead else "was never seen again"
                text = (
                    f"{message.name} was on {look.dest} when the browser {look.consumer} came at {ms(look.t0)}; nobody "
                    f"rejected it, it cannot have expired, and it {what}"
                )
                witness = [send.seq, look.seq] + [passage.event.seq for passage in message.dead[:1]]
                claim.fail(text, witness, outcome="removed")
                return
            if message.passages:
                late = self._called_dead(send, look)
                claim.hold("the browser's clock called it expired" if late else "", outcome="left-alone")

    def _was_there(self, message: Message, send: Send, look: Subscribe) -> bool:
        """Whether it was on the queue when the browser came, nobody had had it, and nothing may have ended it since."""
        if send.dest != look.dest or send.result != "ok" or send.tx is not None or send.t1 > look.t0:
            return False
        if self._rejected(message) or self._maybe_discarded(message, self.books.queue(look.dest)):
            return False
        if self._worked_on(message):
            return False
        if any(passage.event.t0 < look.t0 for passage in message.passages):
            return False
        return not self.ask.maybe_timed_out(message, self.ask.end_ns)

    def _called_dead(self, send: Send, look: Subscribe) -> bool:
        if send.expiration_ms <= 0 or not self._checks.get(look.host, False) or not self.clocks.known(look.host):
            return False
        return self.clocks.bounds_ns(look.host, look.t0, look.t1)[0] >= (send.expiration_ms + 1) * NS_PER_MS

    # -- EXP-019

    def _shared(self, message: Message, send: Send) -> None:
        if send.result != "ok" or send.tx is not None or self.ask.maybe_restamped(send) or send.delay_ms:
            return
        names = {(one.host, one.durable) for one in self._durable if one.dest == send.dest and one.t1 <= send.t0}
        if len(names) < 2:
            return
        claim = self.claims["EXP-019"]
        spared: dict[tuple[str, str], bool] = {}
        for event in self._durable:
            consumer = self.books.consumers.get(event.consumer)
            if consumer is None or event.dest != send.dest or event.t0 < send.t1:
                continue
            passage = consumer.seen.get(message.name)
            if passage is not None and self.ask.surely_expired(send.expiration_ms, event.t0, passage.event.t1):
                text = (
                    f"{message.name} with expiration {send.expiration_ms} had been collected by {len(names)} durable "
                    f"subscriptions; it was dead when {event.consumer} took up {event.durable!r} at {ms(event.t0)}, "
                    "and arrived there"
                )
                claim.fail(text, [send.seq, event.seq, passage.event.seq], outcome="delivered")
                return
            if passage is None and self._is_over(send, event, consumer):
                spared[(event.host, event.durable)] = True
        if len(spared) > 1:
            claim.hold("several came back when it was dead", outcome="each-let-it-die")

    def _is_over(self, send: Send, event: Subscribe, consumer: Consumer) -> bool:
        """Whether it was dead when a consumer came, and had not come to it at rest."""
        rest_ns = self.ask.rest_after(event.t1)
        return rest_ns < consumer.lost_ns and self.ask.surely_expired(send.expiration_ms, event.t0, rest_ns)


def _figures(read: Counters) -> tuple[int | None, ...]:
    return (read.expired, read.dequeued, read.enqueued, read.size, read.in_flight, read.scheduled)
