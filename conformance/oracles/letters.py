"""Letters: who gets a dead letter, as the destination's strategy says. Judges RDL-017 and RDL-018.

Model. A message that dies leaves one letter on the shared dead-letter queue, unless its destination's strategy discards
letters or has a queue of its own for them, or excludes expired or non-persistent messages.

Events: the books.

Analyses:

1. RDL-017: a letter came to the shared queue from a destination whose strategy discards letters or puts them elsewhere.
2. RDL-018: a letter came of a message that its strategy excludes: a non-persistent one; or one that nobody rejected, so
   that it can only have expired, where ``process_expired`` is off.

Not checked: letters on queues of their own (nobody looks there); dead letters that die again; what operators moved.
That the other messages do get their letter is EXP-005 and RDL-004.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Nack
from brokerproof.conformance.oracles.inference import BookOracle
from brokerproof.conformance.oracles.records import JMS_DELIVERIES, Message
from brokerproof.conformance.oracles.strategies import DISCARDING, SHARED, strategy_of


class LetterOracle(BookOracle):
    """The two claims about who gets a letter."""

    name = "letters"
    requirements = ("RDL-017", "RDL-018")

    def judge(self) -> None:
        for message in self.books.messages.values():
            send = message.send
            if send is None or send.dest == DEAD_LETTERS or send.dest in self.books.lens.moved:
                continue
            strategy = strategy_of(self.books.header.declared, send.dest)
            if strategy.strategy != SHARED:
                self._elsewhere(message, strategy.strategy == DISCARDING)
            else:
                persistent = send.persistent or strategy.process_non_persistent
                self._excluded(message, persistent=persistent, expired=strategy.process_expired)

    def _elsewhere(self, message: Message, discards: bool) -> None:
        claim = self.claims["RDL-017"]
        send = message.send
        where = "discards dead letters" if discards else "has a dead-letter queue of its own"
        if message.dead and send is not None:
            text = f"{message.name} has a letter on {DEAD_LETTERS}, though {send.dest}, where it died, {where}"
            claim.fail(text, [send.seq, message.dead[0].event.seq], outcome="letter")
        elif self._rejected(message) and self.ask.drained(self.books.queue(DEAD_LETTERS)):
            claim.hold("letters are discarded" if discards else "letters go elsewhere", outcome="no-letter")

    def _excluded(self, message: Message, *, persistent: bool, expired: bool) -> None:
        claim = self.claims["RDL-018"]
        send = message.send
        if send is None or (persistent and expired):
            return
        rejected = self._rejected(message)
        if message.dead:
            letter = message.dead[0].event
            if not persistent:
                text = f"{message.name} was not persistent, and has a letter; its strategy excludes it"
                claim.fail(text, [send.seq, letter.seq], outcome="letter")
            elif not rejected:
                text = (
                    f"{message.name} was rejected by nobody, and has a letter; its strategy excludes expired messages"
                )
                claim.fail(text, [send.seq, letter.seq], outcome="letter")
        elif self.ask.drained(self.books.queue(DEAD_LETTERS)):
            if not persistent and rejected:
                claim.hold("a non-persistent message was rejected", outcome="no-letter")
            elif not expired and self.ask.maybe_expired(send.expiration_ms, send.t0, self.ask.end_ns):
                claim.hold("a message expired", outcome="no-letter")

    def _rejected(self, message: Message) -> bool:
        """Whether a consumer, or its library after too many rollbacks, rejected it, or may have."""
        return any(
            isinstance(passage.settle, Nack)
            or message.name in self.books.rejected
            or passage.rollbacks >= JMS_DELIVERIES
            for passage in message.passages
        )
