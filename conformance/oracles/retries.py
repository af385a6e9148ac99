"""Retries: a broker that gives a rejected message another chance by itself. Judges RDL-023 and RDL-024.

Model. Where a policy entry has a redelivery, a rejected message of a queue comes again after a pause: the first is
``initial_ms``, each later one ``pause_ms``, or the one before times ``multiplier``, at most ``longest_ms``. After
``maximum`` such redeliveries a rejection makes it a dead letter, or lets it vanish.

Events: the books. No other oracle judges a history with such entries: a rejected message that comes again is a defect
elsewhere.

Analyses, of a message that one STOMP consumer after the other rejects, every time confirmed, and that nobody settles
otherwise:

1. RDL-023: after its n-th rejection it arrives again before the n-th pause has passed since that rejection was begun;
   or it arrives without a mark.
2. RDL-024: it arrives more than ``maximum`` times after a rejection; or it has a dead letter before, without having
   been able to expire, while no consumer had left; or it has none afterwards on the shared queue though it should, or
   one though it should not.

Not checked: upper bounds of pauses, and all of them where the first arrival was marked already; messages that came back
for another reason, or may have; topics; queues that an operator or a wildcard consumer touched; after a restart of the
broker.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import RedeliverySpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Nack, Send
from brokerproof.conformance.oracles.base import NS_PER_MS
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import Message, Passage
from brokerproof.conformance.oracles.strategies import INDIVIDUAL, entry_of, gets_letter, strategy_of


def pauses(policy: RedeliverySpec, count: int) -> list[int]:
    """The first pauses, in milliseconds."""
    found: list[int] = []
    for number in range(count):
        before_ms = found[-1] if found else 0
        if number == 0:
            pause_ms = policy.initial_ms
        elif policy.multiplier > 1 and before_ms > 0:
            pause_ms = before_ms * policy.multiplier
            if 0 <= policy.longest_ms < pause_ms:
                pause_ms = max(policy.longest_ms, policy.pause_ms)
        else:
            pause_ms = policy.pause_ms
        found.append(pause_ms)
    return found


class RetryOracle(BookOracle):
    """See the module's header."""

    name = "retries"
    requirements = ("RDL-023", "RDL-024")
    knows = ("broker-redelivery",)

    def judge(self) -> None:
        if self.books.restarted:
            return
        for message in self.books.messages.values():
            send = message.send
            if send is None or self.books.queue(send.dest).topic or self.books.lens.clouded(send.dest):
                continue
            policy = self._policy(send.dest)
            rejections = self._rejections(message)
            if policy is not None and rejections:
                self._pauses(message, policy, rejections)
                self._end(message, send, policy, rejections)

    def _policy(self, dest: str) -> RedeliverySpec | None:
        """The redelivery of the entry that applies to a queue."""
        entry = entry_of(self.books.header.declared, dest)
        return None if entry is None else entry.redelivery

    def _rejections(self, message: Message) -> list[Nack]:
        """Its rejections, one after each arrival but perhaps the last; [] if anything else happened to it."""
        found: list[Nack] = []
        for passage in message.passages:
            settle = passage.settle
            last = passage is message.passages[-1]
            if not isinstance(settle, Nack) or settle.result != "ok" or passage.consumer.host.via != "stomp":
                return found if last and not isinstance(settle, Nack) else []
            if not self._is_lasting(passage, settle):
                return []
            found.append(settle)
        return found

    def _is_lasting(self, passage: Passage, settle: Nack) -> bool:
        """Whether its consumer was there when it rejected it."""
        return passage.consumer.known and passage.consumer.lost_ns >= settle.t1 and settle.tx is None

    # -- RDL-023

    def _pauses(self, message: Message, policy: RedeliverySpec, rejections: list[Nack]) -> None:
        claim = self.claims["RDL-023"]
        if message.passages[0].event.redelivered:
            return  # its first pause is not the policy's first
        wanted = pauses(policy, len(rejections))
        for number, (rejection, pause_ms) in enumerate(zip(rejections, wanted, strict=True)):
            if number + 1 >= len(message.passages):
                return
            event = message.passages[number + 1].event
            waited_ns = event.t1 - rejection.t0
            if waited_ns < pause_ms * NS_PER_MS:
                text = (
                    f"{message.name} was rejected from {ms(rejection.t0)} on, for the {number + 1}. time, and came "
                    f"again at {ms(event.t1)}, {ms(waited_ns)} later; the pause is {pause_ms} ms"
                )
                slack_ns = waited_ns - pause_ms * NS_PER_MS
                claim.fail(text, [rejection.seq, event.seq], outcome="early", slack_ns=slack_ns)
            elif not event.redelivered:
                text = f"{message.name} was rejected, and came again at {ms(event.t1)}, not marked redelivered"
                claim.fail(text, [rejection.seq, event.seq], outcome="unmarked")
            else:
                situation = "the first time" if number == 0 else "a later time"
                claim.hold(situation, slack_ns=waited_ns - pause_ms * NS_PER_MS, outcome="after-the-pause")

    # -- RDL-024

    def _end(self, message: Message, send: Send, policy: RedeliverySpec, rejections: list[Nack]) -> None:
        claim = self.claims["RDL-024"]
        again = len(message.passages) - 1
        if 0 <= policy.maximum < again:
            text = f"{message.name} was rejected and came again {again} times; {policy.maximum} are allowed"
            claim.fail(text, [rejections[-1].seq, message.passages[-1].event.seq], outcome="too-often")
            return
        over = 0 <= policy.maximum < len(rejections)
        drained = self.ask.drained(self.books.queue(DEAD_LETTERS))
        if message.dead and not over and self._stayed(send) and not self.ask.maybe_timed_out(message, self.ask.end_ns):
            text = (
                f"{message.name} has a dead letter after {len(rejections)} rejections; {policy.maximum} redeliveries "
                "were owed to it"
            )
            claim.fail(text, [rejections[-1].seq, message.dead[0].event.seq], outcome="too-soon")
            return
        if not (over and drained and send.persistent):
            return
        declared = self.books.header.declared
        wanted = policy.dead_letter and gets_letter(declared, send.dest, send.persistent, expired=False)
        if bool(message.dead) != wanted:
            what = "has no dead letter" if wanted else "has a dead letter, though it should have none there"
            text = f"{message.name} was rejected once more after {policy.maximum} redeliveries, and {what}"
            claim.fail(text, [rejections[-1].seq], outcome="wrong-end")
        elif wanted or not policy.dead_letter or strategy_of(declared, send.dest).strategy != INDIVIDUAL:
            claim.hold("it became a dead letter" if message.dead else "it vanished", outcome="as-often-as-allowed")

    def _stayed(self, send: Send) -> bool:
        """Whether its queue had STOMP consumers alone, and none had left before the drain: one that leaves counts as a
        delivery, too, and a JMS library may give a message up, or discard it.
        """
        drain = self.books.phases.get("drain")
        return drain is not None and all(
            consumer.ended_ns >= drain.t0 and consumer.host.via == "stomp"
            for consumer in self.books.queue(send.dest).consumers
        )
