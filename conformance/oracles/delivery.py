"""Delivery: judges GEN-001 to GEN-006, GEN-012 and GEN-027: loss, duplication, order, topics, ghosts, refusals.

Model. Every confirmed message of a queue reaches exactly one application, or the dead-letter queue, or expires; one
holder at a time. A topic's message reaches everybody who was subscribed while it was sent, once. What one producer
sends to one destination arrives at one consumer in the order of sending.

Events: all that the books follow; ``phase`` tells when absence may be judged.

Analyses:

1. GEN-001: after the drain a confirmed queue message was never settled, discarded, drained or dead-lettered, and
   cannot have expired. Excuses: it was not due yet; the broker may have settled it by writing it to an
   auto-acknowledging consumer whose link died; non-persistent ones after a restart of the broker.
2. GEN-002: two deliveries of one queue message that no queue with one holder at a time can have made: the first
   holder still had it, or had settled it for certain, and the second cannot have been assigned it earlier.
3. GEN-003: at one consumer the first delivery of a message comes after that of a later one: same producer,
   destination, priority and persistence, no delay, both confirmed, the older one confirmed before the newer one was
   begun. On queues the older one must not have been with anybody else before.
4. GEN-004: at rest a topic consumer with a free window has not got a message that was sent while it was subscribed
   (no expiration, no delay); or it got one twice; or it got one that was confirmed before it began to subscribe.
5. GEN-005: something arrives that nobody sent, that was sent elsewhere, or before its sending began; a dead letter
   names another origin.
6. GEN-006: a message whose sending was refused arrives.
7. GEN-012: the sending of a message has an unknown result, and it arrives more often than one message can: as in 2 on a
   queue, twice at one subscriber of a topic.
8. GEN-027: the same of a message that its producer's library sent again after it had lost its connection.

Not checked: transactions; order across priorities, across persistent and non-persistent, and of messages whose result
is unknown; loss on topics without a read at rest while the consumer was open; topics while memory may have been
scarce.
"""

from __future__ import annotations

from itertools import pairwise

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Send
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import (
    RETURNED,
    Consumer,
    Message,
    Passage,
    Queue,
    Read,
    Window,
    is_limited,
)


class DeliveryOracle(BookOracle):
    """The eight claims about who gets what."""

    name = "delivery"
    requirements = ("GEN-001", "GEN-002", "GEN-003", "GEN-004", "GEN-005", "GEN-006", "GEN-012", "GEN-027")

    def judge(self) -> None:
        for message in self.books.messages.values():
            send = message.send
            if message.passages or message.dead:
                self._origin(message)
            if send is None:
                continue
            if send.result == "fail":
                self._refused(message)
            elif not self.books.queues[send.dest].topic:
                self._loss(message)
                if len(message.passages) > 1 and not self.books.lens.clouded(send.dest):
                    self._duplicates(message)
            if send is not None and send.tx is None and (send.again or send.result == "unknown"):
                self._taken_once(message, send)
        for consumer in self.books.consumers.values():
            if len(consumer.passages) > 1:
                self._order(consumer)
        for queue in self.books.queues.values():
            if queue.topic:
                self._topic(queue)

    # -- GEN-001

    def _loss(self, message: Message) -> None:
        send = message.send
        claim = self.claims["GEN-001"]
        if send is None or send.result != "ok":
            return
        if self.ask.missing(message):
            kind = "persistent" if send.persistent else "non-persistent"
            seen = f", last seen at {message.passages[-1].consumer.name}" if message.passages else ", never seen"
            text = (
                f"{kind} message {message.name} was accepted on {send.dest} at {ms(send.t1)}{seen}; "
                "it was neither settled nor drained nor dead-lettered, and it cannot have expired"
            )
            claim.fail(text, [send.seq], outcome="lost")
        elif self.ask.ended and (message.passages or message.dead):
            situation = ""
            if any(passage.fate == RETURNED for passage in message.passages):
                situation = "its consumer left before settling it"
            elif message.dead:
                situation = "it became a dead letter"
            claim.hold(situation, outcome="accounted-for")

    # -- GEN-002

    def _duplicates(self, message: Message) -> None:
        claim = self.claims["GEN-002"]
        passages = message.passages
        for index in range(len(passages) - 1):
            first = passages[index]
            second = passages[index + 1]
            if not self.ask.repeated(first, second):
                claim.hold("the first holder left, and another consumer got it", outcome="one-at-a-time")
                continue
            state = "had settled it" if self.ask.settled(first) else "still held it"
            text = (
                f"{message.name} was delivered to {first.consumer.name} at {ms(first.event.t1)} and to "
                f"{second.consumer.name} at {ms(second.event.t1)}, though {first.consumer.name} {state}"
            )
            claim.fail(text, [first.event.seq, second.event.seq], outcome="duplicated")
            return

    # -- GEN-012, GEN-027

    def _taken_once(self, message: Message, send: Send) -> None:
        """Nobody knows whether the broker took it, or which time; twice it cannot have."""
        claim = self.claims["GEN-027" if send.again else "GEN-012"]
        if self.books.lens.clouded(send.dest):
            return
        passages = message.passages
        topic = self.books.queues[send.dest].topic
        for first, second in pairwise(passages):
            again = first.consumer is second.consumer if topic else self.ask.repeated(first, second)
            if again and not (topic and self._is_durable(first)):
                why = (
                    f"{message.name} was sent again after a lost connection ({send.dest}, from {ms(send.t0)})"
                    if send.again
                    else f"whether the broker had taken {message.name} was not known ({send.dest}, from {ms(send.t0)})"
                )
                text = (
                    f"{why}; it arrived at {first.consumer.name} at {ms(first.event.t1)} and at {second.consumer.name} "
                    f"at {ms(second.event.t1)}: it was taken twice"
                )
                claim.fail(text, [send.seq, first.event.seq, second.event.seq], outcome="twice")
                return
        if not self.ask.ended:
            return
        if send.again:
            claim.hold("on a topic" if topic else "on a queue", outcome="once")
        else:
            claim.hold("it happened" if passages or message.dead else "it did not happen", outcome="once-or-never")

    def _is_durable(self, passage: Passage) -> bool:
        subscribe = passage.consumer.subscribe
        return subscribe is None or bool(subscribe.durable)

    # -- GEN-003

    def _order(self, consumer: Consumer) -> None:
        if consumer.queue.name == DEAD_LETTERS or self.books.lens.clouded(consumer.queue.name):
            return
        claim = self.claims["GEN-003"]
        newest: dict[tuple[str, int, bool, int, str], Passage] = {}
        for passage in consumer.passages:
            send = passage.message.send
            if send is None or not _plain(send):
                continue
            # A library need not wait until a non-persistent message is accepted, so a new connection may overtake it.
            loose = not send.persistent and self.books.host(send.host).via != "stomp"
            key = (send.host, send.priority, send.persistent, passage.message.epoch if loose else 0, send.group)
            before = newest.get(key)
            if before is None or before.message.send is None or before.message.send.t0 <= send.t0:
                newest[key] = passage
                if before is not None:
                    claim.hold("on a topic" if consumer.queue.topic else "on a queue", outcome="in-order")
            elif send.t1 <= before.message.send.t0 and self._first_here(passage):
                text = (
                    f"{passage.message.name} arrived at {consumer.name} at {ms(passage.event.t1)}, after "
                    f"{before.message.name} ({ms(before.event.t1)}), which {send.host} sent later"
                )
                claim.fail(text, [send.seq, before.event.seq, passage.event.seq], outcome="overtaken")
                return

    def _first_here(self, passage: Passage) -> bool:
        """Nobody can have had it before, so that nothing but disorder explains its place."""
        message = passage.message
        if passage.consumer.queue.topic:
            mine = _subscription(passage)
            return next(one for one in message.passages if _subscription(one) == mine) is passage
        return message.passages[0] is passage and not self.ask.maybe_elsewhere(message, passage)

    # -- GEN-004

    def _topic(self, topic: Queue) -> None:
        for consumer in topic.consumers:
            if not consumer.known:
                continue
            if len(consumer.seen) != len(consumer.passages):
                self._twice(consumer)
            for passage in consumer.passages:
                self._too_early(consumer, passage)
        judged: dict[str, int] = {}
        for read in topic.reads:
            for window in read.windows:
                if window.consumer.known and window.open() and not self.ask.pressed(topic, read):
                    self._audience(topic, read, window, judged)

    def _twice(self, consumer: Consumer) -> None:
        seen: dict[str, Passage] = {}
        for passage in consumer.passages:
            name = passage.message.name
            before = seen.get(name)
            if before is not None:
                text = (
                    f"{name} was published once and arrived at subscriber {consumer.name} twice: "
                    f"at {ms(before.event.t1)} and {ms(passage.event.t1)}"
                )
                self.claims["GEN-004"].fail(text, [before.event.seq, passage.event.seq], outcome="twice")
                return
            seen[name] = passage

    def _too_early(self, consumer: Consumer, passage: Passage) -> None:
        send = passage.message.send
        if send is None or not _plain(send) or (consumer.subscribe is not None and consumer.subscribe.durable):
            return
        if send.t1 < consumer.opened_ns and (send.persistent or self.books.host(send.host).via == "stomp"):
            text = (
                f"{passage.message.name} was published by {ms(send.t1)} and arrived at {consumer.name}, "
                f"which began to subscribe at {ms(consumer.opened_ns)}"
            )
            self.claims["GEN-004"].fail(text, [send.seq, passage.event.seq], outcome="retroactive")

    def _audience(self, topic: Queue, read: Read, window: Window, judged: dict[str, int]) -> None:
        """Everything that was published up to a read at rest has arrived at a subscriber with a free window."""
        consumer = window.consumer
        claim = self.claims["GEN-004"]
        start = judged.get(consumer.name, 0)
        several = len(read.windows) > 1
        place = start
        for place in range(start, len(topic.sends)):
            send = topic.sends[place]
            if send.seq > read.event.seq:
                break
            if not self._owed(send, consumer):
                continue
            passage = consumer.seen.get(send.message)
            if passage is None or passage.event.seq > read.event.seq:
                text = (
                    f"{send.message} was published on {topic.name} at {ms(send.t0)}; {consumer.name}, subscribed since "
                    f"{ms(consumer.opened_ns)}, had not got it at rest at {ms(read.event.t1)}, with {window.held} of "
                    f"{consumer.prefetch} slots taken"
                )
                claim.fail(text, [send.seq, read.event.seq], outcome="missed")
                return
            claim.hold("several subscribers" if several else "one subscriber", outcome="exactly-once")
        else:
            place = len(topic.sends)
        judged[consumer.name] = place

    def _owed(self, send: Send, consumer: Consumer) -> bool:
        subscribe = consumer.subscribe
        if subscribe is None or subscribe.t1 > send.t0 or self.books.stamps_expiry:
            return False
        if is_limited(self.books.header.declared.destinations, send.dest):
            return False
        return not send.mortal() and _plain(send)

    # -- GEN-005, GEN-006

    def _origin(self, message: Message) -> None:
        claim = self.claims["GEN-005"]
        send = message.send
        for passage in (*message.passages, *message.dead):
            event = passage.event
            if send is None:
                text = f"{message.name!r} arrived at {event.consumer} on {event.dest}, and nobody sent it"
                claim.fail(text, [event.seq], outcome="ghost")
                return
            moved = send.dest in self.books.lens.moved
            if event.dest not in {send.dest, DEAD_LETTERS} and not moved:
                text = f"{message.name} was sent to {send.dest} and arrived at {event.consumer} on {event.dest}"
                claim.fail(text, [send.seq, event.seq], outcome="misrouted")
                return
            if event.t1 < send.t0:
                text = f"{message.name} arrived at {ms(event.t1)}, before its sending began at {ms(send.t0)}"
                claim.fail(text, [send.seq, event.seq], outcome="too-early", slack_ns=event.t1 - send.t0)
                return
            origin = event.original_dest
            if event.dest == DEAD_LETTERS and origin is not None and origin != send.dest and not moved:
                text = f"the dead letter of {message.name} names {origin!r} as its origin; it was sent to {send.dest!r}"
                claim.fail(text, [send.seq, event.seq], outcome="misrouted")
                return
        claim.hold("a dead letter" if message.dead else "", outcome="sent-before")

    def _refused(self, message: Message) -> None:
        claim = self.claims["GEN-006"]
        send = message.send
        arrived = message.passages[:1] or message.dead[:1]
        if arrived and send is not None:
            text = (
                f"the sending of {message.name} was refused ({send.refusal or 'no reason given'}), and it arrived at "
                f"{arrived[0].consumer.name} at {ms(arrived[0].event.t1)}"
            )
            claim.fail(text, [send.seq, arrived[0].event.seq], outcome="delivered")
        elif self.ask.ended:
            claim.hold("", outcome="never-delivered")


def _plain(send: Send) -> bool:
    """Confirmed, without a delay, outside a transaction."""
    return send.result == "ok" and not send.delay_ms and send.deliver_at_ms is None and send.tx is None


def _subscription(passage: Passage) -> tuple[str, str]:
    """Whose copy of a publication it is: a durable subscription's, whoever stands in for it, or one consumer's."""
    consumer = passage.consumer
    durable = consumer.subscribe.durable if consumer.subscribe is not None else ""
    return (consumer.host.name, durable) if durable else ("", consumer.name)
