"""Batches: a JMS client rolls back several messages at once, and gives some of them up. Judges RDL-013.

Model. A library counts the deliveries of each message. What it has delivered too often it gives up, the rest of the
batch it delivers again. ActiveMQ's library asks the newest message of the batch alone: a fresh one may be condemned,
and an old one spared, by its neighbours.

Events: ``ack`` with its transaction, ``abort``, and the books.

Analysis: a message that nobody rejected and that cannot have expired is a dead letter, though its deliveries (what its
arrivals counted, and its rollbacks) were no more than ``JMS_DELIVERIES`` allow; and it was rolled
back together with another message. The claim holds where a batch was divided: one was given up, another one was not.

Not checked: dead letters that are rolled back; consumers that are not JMS; arrivals without a count; transactions of
unknown end; after a restart of the broker; queues that an operator touched. That a message is not delivered too often
is RDL-007.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Abort, Ack, Commit, Event, Nack
from brokerproof.conformance.oracles.inference import BookOracle
from brokerproof.conformance.oracles.records import JMS_DELIVERIES, Message
from brokerproof.conformance.oracles.wall import WallClocks


class BatchOracle(BookOracle):
    """See the module's header."""

    name = "batches"
    requirements = ("RDL-013",)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        #: Open transactions: what was acknowledged in them.
        self._open: dict[str, list[str]] = {}
        #: What was rolled back together.
        self._batches: list[list[str]] = []
        #: Hosts with a transaction that nobody knows the end of.
        self._unsure: dict[str, bool] = {}

    def sink(self, kind: type[Event]) -> Callable[[Event], None]:
        return self.feed if kind in {Abort, Ack, Commit} else self.books.feed

    def feed(self, event: Event) -> None:
        self.books.feed(event)
        if isinstance(event, Ack):
            if event.tx is not None:
                self._open.setdefault(event.tx, []).extend(event.messages)
                if event.result != "ok":
                    self._unsure[event.host] = True
        elif isinstance(event, Abort | Commit):
            batch = self._open.pop(event.tx, [])
            if event.result != "ok":
                self._unsure[event.host] = True
            elif isinstance(event, Abort) and len(batch) > 1:
                self._batches.append(batch)

    def judge(self) -> None:
        if self.books.restarted or not self._batches or not self.ask.drained(self.books.queue(DEAD_LETTERS)):
            return
        claim = self.claims["RDL-013"]
        for batch in self._batches:
            messages = [self.books.message(name) for name in batch]
            if not all(self._is_plain(message) for message in messages):
                continue
            counts = {message.name: _deliveries(message) for message in messages}
            for message in messages:
                if message.dead and counts[message.name] < JMS_DELIVERIES:
                    mates = ", ".join(f"{name} ({count})" for name, count in counts.items() if name != message.name)
                    letter = message.dead[0].event
                    text = (
                        f"{message.name} was delivered {counts[message.name]} times, nobody rejected it, and it has a "
                        f"dead letter; it had been rolled back together with {mates}"
                    )
                    claim.fail(text, [message.passages[0].event.seq, letter.seq], outcome="condemned")
            if any(message.dead for message in messages) and not all(message.dead for message in messages):
                claim.hold("one was given up, another one was not", outcome="divided")

    def _is_plain(self, message: Message) -> bool:
        """Its deliveries can be counted, and nothing but a library that gave it up explains a dead letter."""
        send = message.send
        if send is None or not message.passages or self.books.lens.clouded(send.dest):
            return False  # without any, what was rolled back was a dead letter
        if self.ask.maybe_timed_out(message, self.ask.end_ns) or message.name in self.books.rejected:
            return False
        if message.discarded():
            return False  # a library has called it expired, by a clock of its own, and the broker believes it
        return all(
            passage.consumer.host.via == "jms"
            and passage.event.delivery_count is not None
            and passage.consumer.host.name not in self._unsure
            and not isinstance(passage.settle, Nack)
            for passage in message.passages
            if passage.event.seq < self.ask.drain_seq
        )


def _deliveries(message: Message) -> int:
    """How often it was delivered to the application: what an arrival had counted before it, and each rollback since."""
    return max(((p.event.delivery_count or 1) - 1 + p.rollbacks for p in message.passages), default=0)
