"""Backlogs: judges GEN-050: what a topic subscriber that is too slow loses, and what it keeps.

Model. A broker that declares ``pending_message_limit`` n for a topic keeps at most n messages for a subscriber beyond
its window, and throws out the oldest.

Events: all that the books follow.

Analyses, for subscribers that are not durable, want everything and settle by themselves:

1. At a rest with room in its window, a message after which fewer than n others were published has arrived.
2. Its window was full at two rests, and it settled nothing in between: of what was published between them at most n
   arrive, ever.

Not checked: messages with an expiration, a delay or in a transaction; runs where memory may have been scarce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import pending_limit

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.history import Send
    from brokerproof.conformance.oracles.records import Consumer, Queue, Read, Window


class BacklogOracle(BookOracle):
    """The one claim."""

    name = "backlog"
    requirements = ("GEN-050",)

    def judge(self) -> None:
        if self.ask.scarce or self.books.restarted:
            return
        for topic in list(self.books.queues.values()):
            limit = pending_limit(self.books.header.declared.destinations, topic.name) if topic.topic else -1
            if limit < 0:
                continue
            for consumer in topic.consumers:
                if consumer.known and consumer.queue is topic and not consumer.choosy and consumer.ack != "auto":
                    self._kept(topic, consumer, limit)
                    self._bounded(topic, consumer, limit)

    def _kept(self, topic: Queue, consumer: Consumer, limit: int) -> None:
        event = consumer.subscribe
        rests = [read for read in topic.reads if any(w.consumer is consumer and w.open() for w in read.windows)]
        if event is None or not rests:
            return
        at = rests[-1].event
        # Whatever may have been published counts against an older message.
        sends = [m.send for m in self.books.messages.values() if m.send is not None and m.send.dest == topic.name]
        for send in topic.sends:
            if not self._is_plain(send) or send.t0 < event.t1 or send.t1 > at.t0:
                continue
            later = sum(1 for other in sends if other is not send and other.result != "fail" and other.t1 >= send.t0)
            if later >= limit:
                continue
            if send.message in consumer.seen:
                self.claims["GEN-050"].hold("what came last", outcome="newest-kept")
                continue
            text = (
                f"{send.message} was published on {topic.name} at {ms(send.t0)}, {later} others after it; "
                f"{consumer.name}, for which {limit} may wait, had not got it at rest at {ms(at.t1)} with room for it"
            )
            self.claims["GEN-050"].fail(text, [event.seq, send.seq, at.seq], outcome="newest-lost")

    def _bounded(self, topic: Queue, consumer: Consumer, limit: int) -> None:
        start: tuple[Read, Window] | None = None
        for read in topic.reads:
            window = next((one for one in read.windows if one.consumer is consumer), None)
            full = window is not None and window.held >= consumer.prefetch and not window.doubted
            if window is None or not full:
                start = None
            elif start is None or start[1].tried != window.tried:
                start = (read, window)
            else:
                self._between(topic, consumer, limit, start[0], read)

    def _between(self, topic: Queue, consumer: Consumer, limit: int, one: Read, other: Read) -> None:
        sends = [send for send in topic.sends if one.event.t1 <= send.t0 and send.t1 <= other.event.t0]
        got = [send for send in sends if self._is_plain(send) and send.message in consumer.seen]
        if len(sends) <= limit:
            return
        if len(got) <= limit:
            self.claims["GEN-050"].hold("its window was full", outcome="newest-kept")
            return
        text = (
            f"{len(got)} of {len(sends)} messages that were published on {topic.name} between {ms(one.event.t1)} and "
            f"{ms(other.event.t0)} arrived at {consumer.name}, whose window was full all that time; {limit} may wait"
        )
        self.claims["GEN-050"].fail(text, [one.event.seq, other.event.seq, got[0].seq], outcome="hoarded")

    def _is_plain(self, send: Send) -> bool:
        sure = send.tx is None and (send.persistent or self.books.host(send.host).via == "stomp")
        return sure and not send.timed() and not self.books.stamps_expiry
