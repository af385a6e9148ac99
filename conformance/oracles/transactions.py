"""Local transactions: judges GEN-009, GEN-060 to GEN-066, INF-010, RDL-007 and RDL-012.

Model. What is sent in a transaction is nowhere until its commit, and on all its destinations after it. What is
acknowledged in it stays with its consumer, in flight, until the commit; after a rollback it is as if nothing had been
acknowledged. A transaction whose connection ends before the commit was asked for is rolled back.

Events: ``begin``, ``commit``, ``abort``, the ``tx`` of ``send`` and ``ack``, ``browse``, ``counters``, and the books.

Analyses:

1. GEN-060: a message was seen (delivered, browsed, dead-lettered) for certain before its commit was asked for, or while
   its transaction was still open at the end.
2. GEN-061: a message was seen whose transaction was rolled back.
3. GEN-062 (and, with 2, GEN-009): after a confirmed commit one of its messages is missing after the drain; or, where
   the commit's result is unknown, one was seen and another is missing.
4. GEN-063: of two messages of one transaction for one destination, of one priority and without a delay, the later
   arrived first at a consumer that got both, and nobody else can have had the earlier one before.
5. GEN-064: what was acknowledged in a committed transaction arrives again, although its consumer was there until the
   commit was confirmed.
6. GEN-065: what was acknowledged in a transaction that was rolled back is missing after its consumer has left.
7. GEN-066: 2 and 6 for a transaction whose connection ended.
8. INF-010: at rest, the size or the in-flight count of a queue is less than what open consumers acknowledged there in
   transactions that are still open or were rolled back.

9. RDL-012: the same, of messages that a JMS client keeps after a rollback: it tells the broker with an acknowledgement
   of type REDELIVERED.
10. RDL-007: a JMS application rolled back each time that it was given a message. It is given it seven times, and then
   the message is a dead letter, if it is persistent.

Not checked: queues that were purged or moved (3, 6, 8); topics (5, 6, 8); what expires (3, 6) or waits for its delivery
time; brokers that were restarted (5, 6, 8); transactions with a rejection.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import (
    Abort,
    Ack,
    Begin,
    Browse,
    Commit,
    Consume,
    Counters,
    Event,
    Nack,
    Send,
)
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import DOUBTFUL, JMS_DELIVERIES, LATE, NEVER, Consumer, Message, Passage
from brokerproof.conformance.oracles.wall import WallClocks

LOST = "the connection was lost"
ROLLED_BACK = "rolled back"


class Transaction:
    """One transaction, from outside. ``end`` None: nobody asked for an end."""

    __slots__ = ("acks", "begin", "end", "mixed", "name", "sends")

    def __init__(self, name: str) -> None:
        self.name = name
        self.begin: Begin | None = None
        self.end: Commit | Abort | None = None
        self.sends: list[Send] = []
        self.acks: list[Ack] = []
        #: It has a rejection, or something in it failed: brokers may end it on their own.
        self.mixed = False

    def committed(self) -> bool:
        """The commit was confirmed."""
        return isinstance(self.end, Commit) and self.end.result == "ok"

    def undone(self) -> bool:
        """It was rolled back for certain: on request, or because its connection ended before a commit was asked for."""
        return self.end is None or isinstance(self.end, Abort) or self.end.result == "fail"


class Pledges:
    """What a consumer acknowledged in transactions that did not commit (yet)."""

    __slots__ = ("consumer", "open", "undone")

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        #: message -> the transaction
        self.open: dict[str, Transaction] = {}
        self.undone: dict[str, Transaction] = {}


class TransactionOracle(BookOracle):
    """The claims about transactions."""

    name = "transactions"
    requirements = ("GEN-009", "GEN-060", "GEN-061", "GEN-062", "GEN-063", "GEN-064", "GEN-065", "GEN-066", "INF-010",
                    "RDL-007", "RDL-012")  # fmt: skip
    kinds = ("begin", *BookOracle.kinds)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._transactions: dict[str, Transaction] = {}
        self._pledges: dict[str, Pledges] = {}
        #: message -> what browsers saw of it
        self._browsed: dict[str, list[Browse]] = {}
        #: (JMS consumer, message) -> how often its application was given it, and rolled back.
        self._given: dict[tuple[str, str], int] = {}
        self._rolled: dict[tuple[str, str], int] = {}

    def sink(self, kind: type[Event]) -> Callable[[Event], None]:
        if kind in {Begin, Commit, Abort, Send, Ack, Nack, Browse, Consume, Counters}:
            return self.feed
        return self.books.feed

    def feed(self, event: Event) -> None:
        self.books.feed(event)
        if isinstance(event, Counters):
            if event.at_rest and self._pledges:
                self._at_rest(event)
        elif isinstance(event, Send | Ack | Nack):
            if event.tx is not None:
                self._part(event, self._transaction(event.tx))
            elif isinstance(event, Ack | Nack) and event.consumer in self._pledges:
                for message in event.messages:
                    self._pledges[event.consumer].undone.pop(message, None)
        elif isinstance(event, Consume):
            key = (event.consumer, event.message)
            self._given[key] = self._given.get(key, 0) + 1
        elif isinstance(event, Browse):
            for message in event.messages:
                self._browsed.setdefault(message, []).append(event)
        elif isinstance(event, Begin):
            self._transaction(event.tx).begin = event
        elif isinstance(event, Commit | Abort):
            self._ended(event)

    def _transaction(self, name: str) -> Transaction:
        found = self._transactions.get(name)
        if found is None:
            found = self._transactions[name] = Transaction(name)
        return found

    def _part(self, event: Send | Ack | Nack, transaction: Transaction) -> None:
        if isinstance(event, Send):
            transaction.sends.append(event)
        elif isinstance(event, Nack) or event.result == "fail":
            transaction.mixed = True
        else:
            transaction.acks.append(event)
            consumer = self.books.consumers.get(event.consumer)
            if consumer is None or event.result != "ok":
                return
            pledges = self._pledges.setdefault(event.consumer, Pledges(consumer))
            for message in event.messages:
                pledges.undone.pop(message, None)
                pledges.open[message] = transaction

    def _ended(self, event: Commit | Abort) -> None:
        transaction = self._transaction(event.tx)
        transaction.end = event
        for pledges in self._pledges.values():
            for message in [m for m, mine in pledges.open.items() if mine is transaction]:
                del pledges.open[message]
                if isinstance(event, Abort) and event.result == "ok":
                    key = (pledges.consumer.name, message)
                    self._rolled[key] = self._rolled.get(key, 0) + 1
                    if self._rolled[key] < JMS_DELIVERIES or pledges.consumer.host.via != "jms":
                        pledges.undone[message] = transaction

    # -- INF-010

    def _at_rest(self, event: Counters) -> None:
        dest = event.dest
        if dest is None or self.books.restarted or self.books.lens.clouded(dest):
            return
        opened = undone = by_jms = 0
        for pledges in self._pledges.values():
            consumer = pledges.consumer
            if consumer.queue.name == dest and not consumer.queue.topic and consumer.known and not consumer.end:
                opened += len(pledges.open)
                undone += len(pledges.undone)
                by_jms += len(pledges.undone) if consumer.host.via == "jms" else 0
        if not opened + undone:
            return
        claims = [self.claims["INF-010"], *([self.claims["RDL-012"]] if by_jms else [])]
        for word, figure in (("in-flight count", event.in_flight), ("size", event.size)):
            if figure is not None and figure < opened + undone:
                text = (
                    f"at rest the {word} of {dest} is {figure}, though its consumers acknowledged {opened} messages in "
                    f"open transactions and {undone} in transactions that were rolled back"
                )
                for claim in claims:
                    claim.fail(text, [event.seq], outcome="took-effect")
                return
        self.claims["INF-010"].hold("a transaction was open" if opened else "", outcome="no-effect")
        for claim in claims if undone else ():
            claim.hold("a transaction had been rolled back", outcome="no-effect")

    # -- the end of the history

    def judge(self) -> None:
        for transaction in self._transactions.values():
            seen = {send.message: self._first_sight(send.message) for send in transaction.sends}
            if transaction.undone():
                self._never_seen(transaction, seen)
                self._come_back(transaction)
            else:
                self._not_before(transaction, seen)
                self._whole(transaction, seen)
                self._in_order(transaction)
            if transaction.committed() and not transaction.mixed:
                self._never_again(transaction)

        for (consumer, message), rollbacks in self._rolled.items():
            self._given_up(self.books.consumers[consumer], self.books.messages[message], rollbacks)

    def _given_up(self, consumer: Consumer, message: Message, rollbacks: int) -> None:
        """A JMS client gives a message up when its application has rolled back seven times."""
        send = message.send
        if consumer.host.via != "jms" or len(message.passages) != 1 or send is None or consumer.queue.topic:
            return
        if send.mortal() or self.books.stamps_expiry or self.books.lens.clouded(consumer.queue.name):
            return
        claim = self.claims["RDL-007"]
        given = self._given.get((consumer.name, message.name), 0)
        text = f"{message.name} was given to the application of {consumer.name} {given} times"
        if given > JMS_DELIVERIES:
            claim.fail(f"{text}; {JMS_DELIVERIES} are allowed", [send.seq], outcome="too-often")
        elif message.dead and given < JMS_DELIVERIES and message.name not in self.books.rejected:
            claim.fail(f"{text}, and is a dead letter", [send.seq, message.dead[0].event.seq], outcome="too-early")
        elif rollbacks >= JMS_DELIVERIES and message.dead:
            claim.hold("it became a dead letter", outcome="seven-times")
        elif rollbacks >= JMS_DELIVERIES and send.persistent and self.ask.drained(self.books.queue(DEAD_LETTERS)):
            claim.fail(
                f"{text} and rolled back each time; no dead letter of it came", [send.seq], outcome="not-given-up"
            )

    def _first_sight(self, name: str) -> Event | None:
        """The first time that anybody saw the message."""
        sights: list[Event] = [*self._browsed.get(name, ())]
        message = self.books.messages.get(name)
        if message is not None:
            sights += [passage.event for passage in message.passages]
            if message.send is not None and not message.send.mortal():
                sights += [passage.event for passage in message.dead]  # what is dead on arrival need not wait
        return min(sights, key=lambda event: event.t1, default=None)

    def _not_before(self, transaction: Transaction, seen: dict[str, Event | None]) -> None:
        commit = transaction.end
        if commit is None:
            return
        claim = self.claims["GEN-060"]
        for send in transaction.sends:
            sight = seen[send.message]
            if sight is None:
                continue
            if sight.t1 < commit.t0:
                text = (
                    f"{send.message}, sent in {transaction.name}, was seen by {sight.host} at {ms(sight.t1)}; "
                    f"the commit was asked for at {ms(commit.t0)}"
                )
                claim.fail(text, [send.seq, sight.seq, commit.seq], outcome="early")
                return
            consumers = self.books.queue(send.dest).consumers
            waiting = any(c.known and c.opened_ns < send.t0 and c.lost_ns > commit.t0 for c in consumers)
            claim.hold("a consumer was waiting" if waiting else "", outcome="after-the-commit")

    def _never_seen(self, transaction: Transaction, seen: dict[str, Event | None]) -> None:
        end = transaction.end
        how = ROLLED_BACK if end is not None else LOST
        claims = [self.claims[name] for name in (("GEN-061", "GEN-009") if end is not None else ("GEN-066",))]
        for send in transaction.sends:
            sight = seen[send.message]
            if sight is not None:
                text = f"{send.message}, sent in {transaction.name} ({how}), was seen by {sight.host} at {ms(sight.t1)}"
                witness = [send.seq, sight.seq] if end is None else [send.seq, end.seq, sight.seq]
                for claim in claims:
                    claim.fail(text, sorted(witness), outcome="delivered")
                return
            if send.result == "ok" and self.ask.ended:
                for claim in claims:
                    claim.hold("messages had been sent", outcome="undone")

    def _whole(self, transaction: Transaction, seen: dict[str, Event | None]) -> None:
        commit = transaction.end
        accepted = [send for send in transaction.sends if send.result == "ok"]
        known = transaction.committed()
        if commit is None or commit.result == "fail" or (not known and not any(seen.values())):
            return
        claims = (self.claims["GEN-062"], self.claims["GEN-009"])
        for send in accepted:
            message = self.books.messages.get(send.message)
            if seen[send.message] is None and message is not None and self.ask.absent(message):
                others = sum(1 for sight in seen.values() if sight is not None)
                text = (
                    f"{send.message} was sent in {transaction.name}, whose commit was "
                    f"{'confirmed' if known else 'asked for'} at {ms(commit.t1)}, and was never seen; "
                    f"{others} of its {len(accepted)} messages were"
                )
                for claim in claims:
                    claim.fail(text, [send.seq, commit.seq], outcome="lost" if known else "torn")
                return
        if accepted and known and all(seen[send.message] is not None for send in accepted):
            for claim in claims:
                claim.hold("several messages" if len(accepted) > 1 else "", outcome="whole")

    def _in_order(self, transaction: Transaction) -> None:
        latest: dict[tuple[str, str, int], tuple[int, Passage]] = {}
        claim = self.claims["GEN-063"]
        for send in transaction.sends:
            message = self.books.messages.get(send.message)
            if message is None or not message.passages or send.delay_ms or send.deliver_at_ms is not None:
                continue
            passage = message.passages[0]
            consumer = passage.consumer
            if passage.fate == LATE or consumer.queue.name != send.dest or self.books.restarted:
                continue
            key = (consumer.name, send.dest, send.priority)
            before = latest.get(key)
            if before is None or passage.event.seq > before[1].event.seq:
                latest[key] = (send.seq, passage)
                if before is not None:
                    claim.hold("on a topic" if consumer.queue.topic else "on a queue", outcome="in-order")
            elif not self._maybe_had(message, passage):
                text = (
                    f"{send.message} was sent in {transaction.name} after {before[1].message.name} to the same "
                    f"destination, and arrived at {consumer.name} before it"
                )
                claim.fail(text, [before[0], send.seq, passage.event.seq, before[1].event.seq], outcome="reordered")
                return

    def _maybe_had(self, message: Message, passage: Passage) -> bool:
        """Whether order says nothing: somebody may have had one of them before, or an operator took a hand."""
        dest = passage.consumer.queue.name
        clouded = self.books.lens.clouded(dest)
        if clouded or passage.consumer.queue.topic:
            return clouded
        return len(passage.consumer.queue.consumers) > 1 and self.ask.maybe_elsewhere(message, passage)

    # -- acknowledgements

    def _never_again(self, transaction: Transaction) -> None:
        commit = transaction.end
        if commit is None or self.books.restarted:
            return
        claim = self.claims["GEN-064"]
        for passage, ack in self._acknowledged(transaction):
            if passage.consumer.lost_ns < commit.t1:
                continue
            again = self._after(passage)
            if again is not None:
                text = (
                    f"{passage.message.name} was acknowledged by {passage.consumer.name} in {transaction.name}, "
                    f"committed at {ms(commit.t1)}, and came again to {again.consumer.name} at {ms(again.event.t1)}"
                )
                claim.fail(text, [ack.seq, commit.seq, again.event.seq], outcome="redelivered")
                return
            claim.hold("its consumer left afterwards" if passage.consumer.end else "", outcome="never-again")

    def _after(self, passage: Passage) -> Passage | None:
        """A later delivery that cannot have been made before this one."""
        passages = passage.message.passages
        for other in passages[passages.index(passage) + 1 :]:
            if other.fate != LATE and other.consumer.lost_ns > passage.event.t1:
                return other
        return None

    def _acknowledged(self, transaction: Transaction) -> list[tuple[Passage, Ack]]:
        """The deliveries on queues that a transaction acknowledged for certain."""
        found: list[tuple[Passage, Ack]] = []
        for ack in transaction.acks:
            consumer = self.books.consumers.get(ack.consumer)
            if ack.result != "ok" or consumer is None or not consumer.known or consumer.queue.topic:
                continue
            if self.books.lens.clouded(consumer.queue.name):
                continue
            found += [(consumer.seen[name], ack) for name in ack.messages if name in consumer.seen]
        return found

    def _come_back(self, transaction: Transaction) -> None:
        end = transaction.end
        how = ROLLED_BACK if end is not None else LOST
        claim = self.claims["GEN-065" if end is not None else "GEN-066"]
        if (end is not None and end.result == "unknown") or self.books.restarted or transaction.mixed:
            return
        for passage, ack in self._acknowledged(transaction):
            message, consumer = passage.message, passage.consumer
            if passage.settle is not ack or not consumer.end or message.name not in self._unsettled(consumer, end):
                continue
            if end is None and consumer.end == "close":
                continue  # nobody saw the transaction's end
            if end is not None and passage.fate == DOUBTFUL:
                continue  # it may have acknowledged it once more
            if message.dead or not passage.is_latest():
                claim.hold(f"acknowledged, {how}", outcome="came-back" if end is not None else "undone")
            elif self._gone(message, passage):
                text = (
                    f"{message.name} was acknowledged by {consumer.name} in {transaction.name} ({how}), "
                    f"which left at {ms(consumer.ended_ns)}, and was never seen again"
                )
                claim.fail(text, [ack.seq], outcome="lost")
                return

    def _unsettled(self, consumer: Consumer, end: Event | None) -> dict[str, Transaction]:
        """What it acknowledged in vain and not again."""
        pledges = self._pledges.get(consumer.name)
        if pledges is None:
            return {}
        return pledges.open if end is None else pledges.undone

    def _gone(self, message: Message, passage: Passage) -> bool:
        """Whether a message that must have come back from this, its last, delivery is unaccounted for."""
        send = message.send
        queue = passage.consumer.queue
        if send is None or send.tx is not None or send.result != "ok" or len(message.passages) > 1:
            return False
        if self.ask.scarce or not self.ask.drained(queue) or passage.consumer.lost_ns >= NEVER:
            return False
        return not self.ask.maybe_timed_out(message, self.ask.end_ns) and not self.ask.maybe_swallowed(message, queue)
