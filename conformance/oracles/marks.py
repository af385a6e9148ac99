"""Marks: which messages come back marked as redelivered, and with what count. Judges RDL-008 to RDL-011 and RDL-016.

Model. A consumer that goes gives back what it holds. Where the broker cannot know what its application was given (a
lost connection, a STOMP unsubscribe), everything counts as delivered. A JMS consumer that closes says how much its
application was given; the rest was never delivered. A durable subscription counts on, from one consumer to the next.

Events: the books.

Analyses of one delivery:

0. RDL-008: it is marked although it counts as the first, or not marked although it counts as a later one. Nothing is
   said where the protocol shows no count.

Analyses of two deliveries of a message in a row, the first one left unsettled when its consumer went:

1. RDL-009: a JMS consumer closed, and its application had been given neither the message nor any that came after it;
   nobody else can have had the message in between; yet the second delivery is marked, and the first was not.
2. RDL-010: the consumer's connection was lost, or it was a STOMP consumer that left; the second delivery is not marked,
   and was not made before the first.
3. RDL-016: both consumers were of one durable subscription, and the first one's connection was lost; the delivery count
   has not grown (or, where the protocol does not tell it, the second delivery is not marked).
4. RDL-011: the connection went with several consumers, each of which had given its application a message that was not
   settled; one of these messages comes again and is not marked.

Not checked: connections that are closed in order, consumer by consumer (4: that is RDL-009's business); after a restart
of the broker, except 0; queues that were purged or moved (1, 2); messages that somebody tried to
settle, also in a transaction.
"""

from __future__ import annotations

from itertools import pairwise

from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import LATE, RETURNED, Consumer, Message, Passage


class MarksOracle(BookOracle):
    """The five claims about marks."""

    name = "marks"
    requirements = ("RDL-008", "RDL-009", "RDL-010", "RDL-011", "RDL-016")

    def judge(self) -> None:
        for message in self.books.messages.values():
            for passage in (*message.passages, *message.dead):
                self._counted(passage)
        if self.books.restarted:
            return
        for message in self.books.messages.values():
            passages = message.passages
            if len(passages) < 2:
                continue
            queue = passages[0].consumer.queue
            if queue.topic:
                self._durable(message)
            elif not self.books.lens.clouded(queue.name):
                for first, second in pairwise(passages):
                    if self._gave_back(first, second):
                        self._on_queue(message, first, second)

    def _counted(self, passage: Passage) -> None:
        event = passage.event
        count = event.delivery_count
        if count is None:
            return
        claim = self.claims["RDL-008"]
        if event.redelivered == (count > 1):
            claim.hold("a later delivery" if count > 1 else "the first delivery", outcome="agree")
        else:
            mark = "is marked" if event.redelivered else "is not marked"
            text = (
                f"{event.message} arrived at {event.consumer} at {ms(event.t1)} with delivery count {count}, "
                f"and {mark} as redelivered"
            )
            claim.fail(text, [event.seq], outcome="disagree")

    def _gave_back(self, first: Passage, second: Passage) -> bool:
        """Whether the second delivery was made after the first one's consumer had gone with the message unsettled."""
        if first.fate != RETURNED or first.settle is not None or not first.consumer.known or second.fate == LATE:
            return False
        return second.consumer.lost_ns > first.event.t1

    def _on_queue(self, message: Message, first: Passage, second: Passage) -> None:
        if _unsaid(first):
            if second.event.redelivered:
                self.claims["RDL-010"].hold(self._situation(first), outcome="marked")
            else:
                text = self._text(message, first, second, "not marked redelivered")
                self.claims["RDL-010"].fail(text, [first.event.seq, second.event.seq], outcome="unmarked")
            if first.consumed and first.consumer.end != "close" and self._siblings(first.consumer):
                self._together(message, first, second)
        elif first.consumer.host.via == "jms" and first.consumer.end == "close":
            self._told(message, first, second)

    def _siblings(self, consumer: Consumer) -> bool:
        """Whether another consumer went with the same connection, and left what its application had been given."""
        return any(
            other is not consumer
            and other.host is consumer.host
            and (other.end, other.end_epoch) == (consumer.end, consumer.end_epoch)
            and any(p.consumed and p.fate == RETURNED and p.settle is None for p in other.passages)
            for other in self.books.consumers.values()
        )

    def _together(self, message: Message, first: Passage, second: Passage) -> None:
        claim = self.claims["RDL-011"]
        if second.event.redelivered:
            claim.hold(f"of a {first.consumer.host.via} client", outcome="marked")
        else:
            text = self._text(message, first, second, "not marked; other consumers went with the same connection")
            claim.fail(text, [first.event.seq, second.event.seq], outcome="unmarked")

    def _told(self, message: Message, first: Passage, second: Passage) -> None:
        passages = first.consumer.passages
        seen = any(passage.consumed for passage in passages[passages.index(first) :])
        if seen or first.event.redelivered or self._maybe_between(first, second):
            return
        if second.event.redelivered:
            text = self._text(message, first, second, "marked redelivered, though no application had been given it")
            self.claims["RDL-009"].fail(text, [first.event.seq, second.event.seq], outcome="marked")
        else:
            some = any(passage.consumed for passage in passages)
            self.claims["RDL-009"].hold("others had been given to it" if some else "", outcome="unmarked")

    def _maybe_between(self, first: Passage, second: Passage) -> bool:
        """Whether a third consumer may have had the message between these two."""
        for consumer in first.consumer.queue.consumers:
            if consumer in {first.consumer, second.consumer}:
                continue
            if consumer.opened_ns <= second.event.t1 and self.ask.gone(consumer) >= first.event.t0:
                return True
        return False

    def _durable(self, message: Message) -> None:
        latest: dict[tuple[str, str], Passage] = {}
        for passage in message.passages:
            subscribe = passage.consumer.subscribe
            if subscribe is None or not subscribe.durable:
                continue
            key = (passage.consumer.host.name, subscribe.durable)
            before = latest.get(key)
            latest[key] = passage
            if before is None or not self._gave_back(before, passage) or not _unsaid(before):
                continue
            old, new = before.event.delivery_count, passage.event.delivery_count
            grown = passage.event.redelivered if old is None or new is None else new > old
            if grown:
                self.claims["RDL-016"].hold("again" if before.event.redelivered else "", outcome="counted-on")
            else:
                count = "without a mark" if new is None else f"with delivery count {new}, after {old}"
                text = self._text(message, before, passage, count)
                self.claims["RDL-016"].fail(text, [before.event.seq, passage.event.seq], outcome="not-counted")

    def _situation(self, first: Passage) -> str:
        given = "given to the application" if first.consumed else "not given to the application"
        return f"it was {given}"

    def _text(self, message: Message, first: Passage, second: Passage, what: str) -> str:
        return (
            f"{message.name} was unsettled when {first.consumer.name} ({first.consumer.end}) went at "
            f"{ms(first.consumer.ended_ns)}, and came again at {second.consumer.name} at {ms(second.event.t1)}, {what}"
        )


def _unsaid(first: Passage) -> bool:
    """Whether the broker was not told what the application had been given."""
    consumer = first.consumer
    return consumer.end in {"drop", "kill", "closed"} or (consumer.end == "close" and consumer.host.via == "stomp")
