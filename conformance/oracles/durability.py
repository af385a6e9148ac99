"""Durability: judges GEN-007 and GEN-080 to GEN-082, what a broker that was restarted still knows, and DLY-025, what it
need not know.

Model. The broker stores a persistent message before it confirms it, and forgets it before it confirms its settlement.
After a restart its messages wait where they waited.

Events: ``fault`` ``restart`` with its interval, and the books.

Analyses:

1. GEN-080: a persistent message that was confirmed before a restart is unaccounted for at the end.
2. GEN-081: a message whose settlement was confirmed to a STOMP client (its receipt came) before a restart arrives at
   a consumer of the same queue that subscribed after it.
3. GEN-082: two persistent messages that one host had sent one after the other before a restart arrive in the wrong
   order at a consumer that subscribed after it; neither had been delivered before, and no other consumer could have
   had one.
4. DLY-025: a message with a delay that is not persistent arrives again after its settlement was taken for certain, or
   in a way that no correct queue can explain. Not at all is acceptable if the broker was restarted while it waited.
5. GEN-007: 1 or 2. It holds where in one run a message survived and the settlement of another one did.

Not checked: topics (``topics.py``); JMS acknowledgements in 2 (a library need not wait for an answer); what is settled
or sent in a transaction; queues that were purged, moved from, or whose consumers choose (3). What becomes of a delay is
judged by ``lifespan.py`` and its neighbours (DLY-023, DLY-024).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Final

from brokerproof.conformance.experiment.history import Ack, Event, Fault, Send
from brokerproof.conformance.oracles.base import NS_PER_MS
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import Consumer, Message, Passage
from brokerproof.conformance.oracles.wall import WallClocks

WAITING_RESTART: Final = "the broker was restarted while it waited"


class DurabilityOracle(BookOracle):
    """The claims about restarts."""

    name = "durability"
    requirements = ("GEN-007", "GEN-080", "GEN-081", "GEN-082", "DLY-025")
    faults = ("restart",)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._restarts: list[Fault] = []

    def sink(self, kind: type[Event]) -> Callable[[Event], None]:
        return self.feed if kind is Fault else self.books.feed

    def feed(self, event: Event) -> None:
        self.books.feed(event)
        if isinstance(event, Fault) and event.fault == "restart":
            self._restarts.append(event)

    def judge(self) -> None:
        for message in self.books.messages.values():
            send = message.send
            if send is not None and send.delay_ms > 0 and not send.persistent and send.tx is None:
                self._volatile(message, send)
        if not self._restarts:
            return
        for message in self.books.messages.values():
            send = message.send
            if send is None or send.result != "ok" or not send.persistent or self.books.queues[send.dest].topic:
                continue
            restarts = [restart for restart in self._restarts if restart.t0 >= send.t1]
            if not restarts:
                continue
            self._survival(message, send, restarts)
            self._settled(message)
        for consumer in self.books.consumers.values():
            self._order(consumer)
        survived, settled = self.claims["GEN-080"], self.claims["GEN-081"]
        if survived.exercised and settled.exercised:
            for situation in survived.situations:
                self.claims["GEN-007"].hold(situation, outcome="remembered")

    # -- DLY-025

    def _volatile(self, message: Message, send: Send) -> None:
        if send.result == "fail" or self.books.queues[send.dest].topic or send.dest in self.books.lens.moved:
            return
        claim = self.claims["DLY-025"]
        for first, second in combinations(message.passages, 2):
            after = first.settle is not None and first.settle.t1 < second.event.t0 and self.ask.settled(first)
            if after or self.ask.repeated(first, second):
                text = (
                    f"{message.name} (delay {send.delay_ms} ms, not persistent) arrived at {first.consumer.name} at "
                    f"{ms(first.event.t1)} and, though it can have come back from there in no way, at "
                    f"{second.consumer.name} at {ms(second.event.t1)}"
                )
                claim.fail(text, [send.seq, first.event.seq, second.event.seq], outcome="twice")
                return
        due_ns = send.t0 + send.delay_ms * NS_PER_MS
        restarted = any(send.t1 <= restart.t0 and restart.t1 < due_ns for restart in self._restarts)
        if not self.ask.ended or send.result != "ok":
            return
        if message.passages:
            claim.hold(WAITING_RESTART if restarted else "", outcome="at-most-once")
        elif restarted:
            claim.hold(WAITING_RESTART, outcome="lost", grade="acceptable")

    # -- GEN-080, GEN-081

    def _survival(self, message: Message, send: Send, restarts: list[Fault]) -> None:
        claim = self.claims["GEN-080"]
        first = restarts[0]
        if self.ask.missing(message):
            text = (
                f"persistent message {message.name} was confirmed on {send.dest} at {ms(send.t1)}, the broker was "
                f"restarted ({first.how}) at {ms(first.t0)}, and nobody has seen the message since"
            )
            claim.fail(text, [send.seq, first.seq], outcome="lost")
            self.claims["GEN-007"].fail(text, [send.seq, first.seq], outcome="lost")
        elif self.ask.ended and (message.passages or message.dead):
            waiting = all(passage.event.t0 > first.t0 for passage in message.passages)
            where = "while it was waiting" if waiting else "after it had been delivered"
            claim.hold(f"{'killed' if first.how == 'kill' else 'stopped'} {where}", outcome="survived")

    def _settled(self, message: Message) -> None:
        claim = self.claims["GEN-081"]
        for place, passage in enumerate(message.passages):
            settle = passage.settle
            if not isinstance(settle, Ack) or settle.tx is not None or passage.consumer.host.via != "stomp":
                continue
            restart = next((restart for restart in self._restarts if restart.t0 >= settle.t1), None)
            if restart is None or settle.result != "ok" or not self.ask.settled(passage):
                continue
            for later in message.passages[place + 1 :]:
                if later.queue is passage.queue and later.consumer.opened_ns >= restart.t0:
                    text = (
                        f"{message.name} was acknowledged by {passage.consumer.name}, confirmed at "
                        f"{ms(settle.t1)}; the broker was restarted ({restart.how}) at {ms(restart.t0)}, and "
                        f"{later.consumer.name} got the message again at {ms(later.event.t1)}"
                    )
                    witness = [settle.seq, restart.seq, later.event.seq]
                    claim.fail(text, witness, outcome="came-back")
                    self.claims["GEN-007"].fail(text, witness, outcome="came-back")
                    return
            if self.ask.ended:
                claim.hold(f"the broker was {'killed' if restart.how == 'kill' else 'stopped'}", outcome="stays-away")

    # -- GEN-082

    def _order(self, consumer: Consumer) -> None:
        restart = self._last_before(consumer.opened_ns)
        queue = consumer.queue
        lens = self.books.lens
        if restart is None or queue.topic or lens.clouded(queue.name) or lens.picky(queue.name):
            return
        claim = self.claims["GEN-082"]
        newest: dict[tuple[str, int, str], Passage] = {}
        for passage in consumer.passages:
            send = passage.message.send
            if send is None or not _plain(send, queue.name) or send.t1 > restart.t0 or passage.queue is not queue:
                continue
            if passage.message.passages[0] is not passage or self._shared(consumer, passage, restart):
                continue
            key = (send.host, send.priority, send.group)
            before = newest.get(key)
            if before is None or before.message.send is None or before.message.send.t0 <= send.t0:
                newest[key] = passage
                if before is not None:
                    claim.hold("both were waiting", outcome="in-order")
            elif send.t1 <= before.message.send.t0:
                text = (
                    f"after a restart ({restart.how}, {ms(restart.t0)}) {passage.message.name} arrived at "
                    f"{consumer.name} at {ms(passage.event.t1)}, after {before.message.name} ({ms(before.event.t1)}), "
                    f"which {send.host} had sent later"
                )
                claim.fail(text, [send.seq, restart.seq, before.event.seq, passage.event.seq], outcome="overtaken")
                return

    def _shared(self, consumer: Consumer, passage: Passage, restart: Fault) -> bool:
        """Whether another consumer may have had the message since the restart."""
        return any(
            other is not consumer and restart.t0 <= other.opened_ns <= passage.event.t1
            for other in consumer.queue.consumers
        )

    def _last_before(self, true_ns: int) -> Fault | None:
        return next((restart for restart in reversed(self._restarts) if restart.t1 <= true_ns), None)


def _plain(send: Send, queue: str) -> bool:
    """Confirmed on this queue, persistent, without a delay, outside a transaction."""
    return (
        send.result == "ok"
        and send.dest == queue
        and send.persistent
        and not send.delay_ms
        and send.deliver_at_ms is None
        and send.tx is None
    )
