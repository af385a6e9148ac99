"""Redelivery and dead letters: judges RDL-001 to RDL-006 from the deliveries of each message.

Model. A queue's message has one holder at a time. It comes back when its holder leaves or loses its link before
settling it, ahead of the backlog, in the old order, and its next delivery says that it is one. Settled, it never
comes back. Rejected (NACK), it becomes one dead letter at once, without an expiration.

Events: ``send``, ``arrive``, ``consume``, ``ack``, ``nack``, ``discard``, ``leave``, ``closed`` through the books.

Analyses:

1. RDL-001: the first arrival of a message is marked redelivered (or counts more than one delivery) although nobody
   else can have been assigned it before. A consumer that left may have been assigned messages that never reached it;
   brokers may mark those, so such arrivals claim nothing. Nothing is redelivered on a topic.
2. RDL-002: what had arrived at a consumer that left, with no attempt to settle it, arrives again (judged after the
   drain; it may be dead-lettered or expired instead), marked redelivered where the application had been given it.
3. RDL-003: a message whose settlement the broker confirmed arrives again, though the second consumer cannot have been
   assigned it earlier.
4. RDL-004: a confirmed rejection of a persistent message leads to exactly one dead letter, at rest at the latest (by
   the size of the dead-letter queue), with expiration 0 and the right origin, and to no further delivery.
5. RDL-005: where one consumer at a time was attached and the next one came after the last one was gone for certain,
   what came back arrives first and in its old order.
6. RDL-006: two arrivals of one message at the dead-letter queue that no single dead letter can have made.

Not checked: marks after a restart of the broker (counts need not survive); rejections in transactions; non-persistent
rejected messages unless the broker is declared to keep them; topics, except in RDL-001; dead letters of topics (one
per subscription may be right); rejections of dead letters.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Discard, Nack
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import LATE, NEVER, RETURNED, Consumer, Message, Passage, Queue
from brokerproof.conformance.oracles.strategies import gets_letter


def describe(passage: Passage) -> str:
    """Which delivery this is, for a text."""
    mark = " marked redelivered" if passage.event.redelivered else ""
    return f"at {passage.consumer.name} at {ms(passage.event.t1)}{mark}"


def departure(consumer: Consumer) -> str:
    """How a consumer went, as a situation."""
    return {
        "close": "the consumer closed",
        "drop": "the consumer's connection was lost",
        "kill": "the consumer's process was killed",
        "closed": "the consumer's link was closed",
    }.get(consumer.end, "the consumer left")


class RedeliveryOracle(BookOracle):
    """The six claims about deliveries after the first, and about dead letters."""

    name = "redelivery"
    requirements = ("RDL-001", "RDL-002", "RDL-003", "RDL-004", "RDL-005", "RDL-006")

    def judge(self) -> None:
        for message in self.books.messages.values():
            passages = message.passages
            if passages:
                if self.books.lens.clouded(passages[0].queue.name):
                    continue
                self._first(message, passages[0])
                if passages[0].queue.topic:
                    continue
                self._again(message)
            if message.dead:
                self._letters(message)
        for queue in self.books.queues.values():
            lens = self.books.lens
            if not (queue.topic or lens.clouded(queue.name) or lens.picky(queue.name) or queue.name in lens.ranked):
                self._order(queue)
        self._at_once()

    # -- RDL-001

    def _first(self, message: Message, passage: Passage) -> None:
        event = passage.event
        if message.send is not None and message.send.forged:
            return  # RDL-015
        claim = self.claims["RDL-001"]
        if not event.redelivered and event.delivery_count in {None, 1}:
            situation = "its consumer was the first of all" if len(passage.consumer.queue.consumers) == 1 else ""
            claim.hold(situation, outcome="unmarked")
            return
        if passage.fate == LATE:
            # Bytes for a consumer that had left. ActiveMQ marks what it takes back before it has written the rest
            # (seen on 5.17.2), and no application is given it.
            return
        durable = passage.consumer.subscribe is not None and bool(passage.consumer.subscribe.durable)
        if durable or (not passage.queue.topic and self.ask.maybe_elsewhere(message, passage)):
            return
        count = "" if event.delivery_count is None else f" with delivery count {event.delivery_count}"
        text = (
            f"{message.name} arrived for the first time {describe(passage)}{count}; "
            "nobody else can have been given it before"
        )
        claim.fail(text, [event.seq], outcome="marked")

    # -- RDL-002, RDL-003, the second half of RDL-004

    def _again(self, message: Message) -> None:
        passages = message.passages
        last = len(passages) - 1
        for index, passage in enumerate(passages):
            settled = self.ask.settled(passage)
            if index < last:
                following = passages[index + 1]
                if settled:
                    self._resurrected(message, passage, passages[index + 1 :])
                else:
                    self._mark(message, passage, following)
            elif settled:
                self.claims["RDL-003"].hold("redelivered before" if index else "", outcome="never-again")
            if isinstance(passage.settle, Nack) and passage.settle.result == "ok" and settled:
                self._rejected(message, passage)
            if passage.fate == RETURNED and passage.settle is None:
                self._came_back(message, passage, index < last)

    def _mark(self, message: Message, passage: Passage, following: Passage) -> None:
        """The delivery after one that the application saw is marked, if it was made after it.

        Not after an acknowledgement of type expired: with that the client says that no application has seen it.
        """
        if isinstance(passage.settle, Discard):
            return
        if not passage.consumed or self.books.restarted or following.consumer.lost_ns <= passage.event.t1:
            return
        claim = self.claims["RDL-002"]
        if following.event.redelivered:
            claim.hold(departure(passage.consumer), outcome="marked")
        else:
            text = (
                f"{message.name} was given to the application of {passage.consumer.name} "
                f"({departure(passage.consumer)}), and came again {describe(following)}, not marked redelivered"
            )
            claim.fail(text, [passage.event.seq, following.event.seq], outcome="unmarked")

    def _came_back(self, message: Message, passage: Passage, again: bool) -> None:
        claim = self.claims["RDL-002"]
        if again or message.dead:
            claim.hold(departure(passage.consumer), outcome="came-back")
        elif self.ask.missing(message):
            text = (
                f"{message.name} arrived {describe(passage)}, unsettled when {departure(passage.consumer)} "
                f"at {ms(passage.consumer.ended_ns)}, and was never seen again"
            )
            claim.fail(text, [passage.event.seq], outcome="lost")

    def _resurrected(self, message: Message, passage: Passage, later: list[Passage]) -> None:
        settle = passage.settle
        taken_ns = settle.t0 if settle is not None else passage.event.t1
        for following in later:
            if following.event.t1 <= taken_ns or not self.ask.repeated(passage, following):
                continue
            how = "rejected" if isinstance(settle, Nack) else "acknowledged"
            text = (
                f"{message.name} was {how} by {passage.consumer.name} ({'auto' if settle is None else 'confirmed'} "
                f"at {ms(settle.t1 if settle is not None else passage.event.t1)}) and came again {describe(following)}"
            )
            witness = [passage.event.seq, following.event.seq] if settle is None else [settle.seq, following.event.seq]
            self.claims["RDL-003"].fail(text, witness, outcome="redelivered")
            if isinstance(settle, Nack):
                self.claims["RDL-004"].fail(text, witness, outcome="redelivered")
            return

    # -- RDL-004, RDL-006

    def _rejected(self, message: Message, passage: Passage) -> None:
        send = message.send
        settle = passage.settle
        if send is None or settle is None or not self.ask.drained(self.books.queue(DEAD_LETTERS)):
            return
        if not gets_letter(self.books.header.declared, send.dest, send.persistent, expired=False):
            return
        claim = self.claims["RDL-004"]
        if not message.dead:
            text = (
                f"{message.name} was rejected by {passage.consumer.name} at {ms(settle.t1)}; no dead letter of it came"
            )
            claim.fail(text, [settle.seq], outcome="no-dead-letter")
            return
        letter = message.dead[0].event
        origin = letter.original_dest
        if letter.expiration_ms > 0 and not self.books.stamps_expiry:
            text = f"the dead letter of {message.name}, which was rejected, still expires at {letter.expiration_ms} ms"
            claim.fail(text, [settle.seq, letter.seq], outcome="expires")
        elif origin is not None and origin != send.dest:
            text = f"the dead letter of {message.name} names {origin!r} as its origin; it was sent to {send.dest!r}"
            claim.fail(text, [settle.seq, letter.seq], outcome="wrong-origin")
        else:
            situation = "the rejected message had an expiration" if send.mortal() else "it never expires"
            claim.hold(situation, outcome="dead-lettered")

    def _letters(self, message: Message) -> None:
        send = message.send
        letters = message.dead
        if send is None or send.dest == DEAD_LETTERS or self.books.queue(send.dest).topic:
            return
        claim = self.claims["RDL-006"]
        for index in range(len(letters) - 1):
            if self.ask.repeated(letters[index], letters[index + 1]):
                text = (
                    f"{message.name} came to the dead-letter queue twice: {describe(letters[index])} "
                    f"and {describe(letters[index + 1])}; one dead letter cannot have made both"
                )
                witness = [letters[index].event.seq, letters[index + 1].event.seq]
                claim.fail(text, witness, outcome="twice")
                if any(isinstance(p.settle, Nack) for p in message.passages):
                    self.claims["RDL-004"].fail(text, witness, outcome="twice")
                return
        rejected = any(isinstance(passage.settle, Nack) for passage in message.passages)
        claim.hold("after a rejection" if rejected else "without a rejection", outcome="once")

    def _at_once(self) -> None:
        letters = self.books.queues.get(DEAD_LETTERS)
        if letters is None or self.books.restarted or any(c.ack == "auto" and c.end for c in letters.consumers):
            return
        for read in letters.reads:
            event = read.event
            if not event.at_rest or event.size is None or not read.poisoned:
                continue
            if event.size < read.poisoned:
                text = (
                    f"at rest {read.poisoned} rejected messages have become dead letters that nobody took yet, "
                    f"but the size of the dead-letter queue is {event.size}"
                )
                self.claims["RDL-004"].fail(text, [event.seq], outcome="late")
            else:
                self.claims["RDL-004"].hold("counted at rest", outcome="dead-lettered")

    # -- RDL-005

    def _order(self, queue: Queue) -> None:
        consumers = queue.consumers
        gone_ns = 0
        for index in range(len(consumers) - 1):
            one = consumers[index]
            other = consumers[index + 1]
            alone = gone_ns <= one.opened_ns and one.known and other.known and not one.auto
            gone_ns = max(gone_ns, self.ask.gone(one))
            if alone and one.passages and other.passages and self._gone_before(one, other):
                later = consumers[index + 2].opened_ns if index + 2 < len(consumers) else NEVER
                self._requeued(one, other, later)

    def _gone_before(self, one: Consumer, other: Consumer) -> bool:
        if self.ask.gone(one) <= other.opened_ns:
            return True
        # One connection keeps its order: the goodbye was read before the new subscription.
        same = one.host is other.host and one.end_epoch == other.epoch and one.host.via == "stomp"
        return same and one.end == "close" and one.ended_ns <= other.opened_ns

    def _requeued(self, one: Consumer, other: Consumer, until_ns: int) -> None:
        """Judge two consumers in a row: ``one`` left messages, ``other`` came next and was alone until ``until_ns``."""
        claim = self.claims["RDL-005"]
        back: dict[str, Passage] = {}
        places: dict[str, int] = {}
        for passage in one.passages:
            if passage.fate == RETURNED and passage.settle is None and passage.message.send is not None:
                places[passage.message.name] = len(places)
                back[passage.message.name] = passage
        latest = -1
        ahead: Passage | None = None
        for passage in other.passages:
            if passage.fate == LATE or passage.event.t1 >= until_ns:
                break
            name = passage.message.name
            if name not in back:
                if name not in one.seen and ahead is None and not _was_pledged(passage.message):
                    ahead = passage
                continue
            if ahead is not None and _priority(ahead) <= _priority(passage):
                text = (
                    f"{name} had come back from {one.name}, but {ahead.message.name}, which {one.name} had not been "
                    f"given, arrived before it {describe(ahead)}"
                )
                claim.fail(text, [ahead.event.seq, passage.event.seq], outcome="behind")
                return
            if places[name] < latest:
                text = f"what came back from {one.name} arrived at {other.name} in another order: {name} was late"
                claim.fail(text, [back[name].event.seq, passage.event.seq], outcome="reordered")
                return
            latest = places[name]
        if latest >= 0:
            claim.hold(departure(one), outcome="first-and-in-order")


def _was_pledged(message: Message) -> bool:
    """Whether a transaction may have held it, whose end brings it back whenever that is; or its send is not known."""
    return message.send is None or any(getattr(passage.settle, "tx", None) for passage in message.passages)


def _priority(passage: Passage) -> int:
    send = passage.message.send
    return send.priority if send is not None else 0
