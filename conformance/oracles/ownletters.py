"""Own letters: dead-letter queues that belong to one source, and advisories about what expired. Judges RDL-021, RDL-022
and EXP-020.

Model. Where a destination's strategy has a dead-letter queue for each source, a message that dies there leaves its one
letter on the queue named after it, with its origin, unless the strategy excludes it. Where advisories about expiries
are on, each expiry makes one, which names the message.

Events: the books; what happens at destinations that only the broker fills.

Analyses:

1. RDL-021: a confirmed rejection, or a certain death while the message waited, leads to no letter on the source's own
   queue, though its strategy does not exclude it; or to two; or a letter came to the queue of another source, names
   another origin, or still expires.
2. RDL-022: there is a letter on such a queue of a message that the strategy excludes: a non-persistent one; or one that
   nobody rejected, so that it can only have expired, where ``process_expired`` is off.
3. EXP-020: a consumer was subscribed to the advisory topic of a queue before anything was sent there, and at rest it
   had got fewer advisories than the queue had counted expiries, or more than messages that may have expired; or one
   without an original message id; or two with the same.

Not checked: absence where the drain did not look at the queue, on queues that an operator touched, and on topics,
where a rejection may leave nothing; 3 for queues that an operator or a wildcard consumer touched, after a restart of
the broker, and where memory may have been scarce.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, expiries_of, is_topic, own_letters_of
from brokerproof.conformance.experiment.history import Arrive, Counters, Event, Nack, Send, Subscribe
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.records import Message
from brokerproof.conformance.oracles.strategies import INDIVIDUAL, strategy_of
from brokerproof.conformance.oracles.wall import WallClocks
from brokerproof.conformance.oracles.watchers import Watchers


class OwnLetterOracle(BookOracle):
    """See the module's header."""

    name = "ownletters"
    requirements = ("RDL-021", "RDL-022", "EXP-020")
    sees_aside = True

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        #: Message -> its arrivals on dead-letter queues of one source.
        self._letters: dict[str, list[Arrive]] = {}
        self._watchers = Watchers(self.books)

    def feed_aside(self, event: Event) -> None:
        if isinstance(event, Arrive) and event.dest.startswith(DEAD_LETTERS):
            self._letters.setdefault(event.message, []).append(event)
        else:
            self._watchers.feed(event)

    def judge(self) -> None:
        for message in self.books.messages.values():
            send = message.send
            if send is None or send.dest in self.books.lens.moved:
                continue
            strategy = strategy_of(self.books.header.declared, send.dest)
            if strategy.strategy != INDIVIDUAL:
                self._stray(send)
                continue
            kept = send.persistent or strategy.process_non_persistent
            self._excluded(message, send, kept=kept, expired=strategy.process_expired)
            if kept:
                self._placed(message, send, expired=strategy.process_expired)
        for dest, watchers in self._watchers.by_topic.items():
            for queue in self.books.queues.values():
                if dest == expiries_of(queue.name):
                    self._advised(queue.name, watchers)

    # -- RDL-021, RDL-022

    def _stray(self, send: Send) -> None:
        for letter in self._letters.get(send.message, ()):
            text = f"{send.message} has a letter on {letter.dest}; {send.dest}, where it died, has no queue of its own"
            self.claims["RDL-021"].fail(text, [send.seq, letter.seq], outcome="misplaced")

    def _placed(self, message: Message, send: Send, *, expired: bool) -> None:
        claim = self.claims["RDL-021"]
        own = own_letters_of(send.dest)
        letters = self._letters.get(send.message, [])
        for letter in letters:
            wrong = ""
            if letter.dest != own:
                wrong = f"came to {letter.dest}, not to {own}"
            elif letter.original_dest not in {None, send.dest}:
                wrong = f"names {letter.original_dest!r} as its origin; it was sent to {send.dest!r}"
            elif letter.expiration_ms > 0 and not self.books.stamps_expiry:
                wrong = f"still expires at {letter.expiration_ms} ms"
            elif letter is not letters[0] and not letter.redelivered and letter.consumer == letters[0].consumer:
                wrong = f"came twice, at {ms(letters[0].t1)} and {ms(letter.t1)}"
            if wrong:
                claim.fail(f"the letter of {send.message} {wrong}", [send.seq, letter.seq], outcome="misplaced")
                return
        rejected = not is_topic(send.dest) and self._surely_rejected(message)
        if self.books.lens.clouded(send.dest):
            return
        if not letters and self._watched(own) and (rejected or (expired and self._surely_died(message, send))):
            how = "was rejected" if rejected else "expired"
            text = f"{send.message} {how} on {send.dest}, and nobody found a letter of it on {own}"
            claim.fail(text, [send.seq], outcome="no-letter")
        elif letters:
            claim.hold("a message was rejected" if rejected else "a message expired", outcome="on-its-own-queue")

    def _excluded(self, message: Message, send: Send, *, kept: bool, expired: bool) -> None:
        if kept and expired:
            return
        claim = self.claims["RDL-022"]
        letters = self._letters.get(send.message, [])
        given_up = message.name in self.books.rejected or any(passage.rollbacks for passage in message.passages)
        if letters and not (kept and given_up):
            why = "nobody rejected it" if kept else "it was not persistent"
            text = f"{send.message} has a letter on {letters[0].dest}; {why}, and its strategy excludes that"
            claim.fail(text, [send.seq, letters[0].seq], outcome="letter")
        elif not letters and self._watched(own_letters_of(send.dest)):
            if not kept and self._surely_rejected(message):
                claim.hold("a non-persistent message was rejected", outcome="no-letter")
            elif self._surely_died(message, send):
                claim.hold("a message expired", outcome="no-letter")

    def _watched(self, own: str) -> bool:
        """Whether the drain looked at a queue to the very end."""
        return self.ask.ended and any(event.seq > self.ask.drain_seq for event in self._watchers.by_topic.get(own, ()))

    def _surely_rejected(self, message: Message) -> bool:
        return any(
            isinstance(passage.settle, Nack) and passage.settle.result == "ok" and self.ask.settled(passage)
            for passage in message.passages
        )

    def _surely_died(self, message: Message, send: Send) -> bool:
        """It waited on its queue, nobody got it, and it was dead when the drain came for it."""
        drain = self.books.phases.get("drain")
        if message.passages or send.result != "ok" or send.tx is not None or is_topic(send.dest):
            return False
        if drain is None or self.books.lens.clouded(send.dest) or self.books.restarted:
            return False
        if self.ask.maybe_restamped(send) or self.ask.maybe_swallowed(message, self.books.queue(send.dest)):
            return False
        return self.ask.surely_expired(send.expiration_ms, drain.t0, self.ask.end_ns)

    # -- EXP-020

    def _advised(self, dest: str, watchers: list[Subscribe]) -> None:
        if is_topic(dest) or self.books.lens.clouded(dest) or self.books.restarted or self.ask.scarce:
            return
        sends = [message.send for message in self.books.messages.values() if message.send is not None]
        sends = [send for send in sends if send.dest == dest]
        first_ns = min((send.t0 for send in sends), default=0)
        reads = [read.event for read in self.books.queue(dest).reads if read.event.at_rest]
        for watcher in watchers:
            if watcher.t1 > first_ns or watcher.ack != "auto":
                continue
            told = self._watchers.told(watcher)
            before = [read for read in reads if self._watchers.was_there(watcher, read)]
            if self._names(dest, told) and before:
                self._complete(dest, told, before[-1], sends, watcher)

    def _names(self, dest: str, told: list[Arrive]) -> bool:
        """Whether every advisory names a message of its own."""
        claim = self.claims["EXP-020"]
        seen: dict[str, Arrive] = {}
        for advisory in told:
            name = advisory.original_id or ""
            if not name or name in seen:
                what = f"names {name!r}, as one before it did" if name else "names no message"
                witness = [seen[name].seq, advisory.seq] if name else [advisory.seq]
                claim.fail(f"an advisory about {dest}, at {ms(advisory.t1)}, {what}", witness, outcome="nameless")
                return False
            seen[name] = advisory
        return True

    def _complete(self, dest: str, told: list[Arrive], read: Counters, sends: list[Send], watcher: Subscribe) -> None:
        claim = self.claims["EXP-020"]
        expired = read.expired or 0
        heard = len([advisory for advisory in told if advisory.seq < read.seq])
        mortal = len([send for send in sends if send.result != "fail" and self._may_die(send)])
        if heard < expired or len(told) > mortal:
            text = (
                f"{expired} messages had expired on {dest} by {ms(read.t1)}, of {mortal} that could; "
                f"{watcher.consumer}, which had asked to be told at {ms(watcher.t0)}, had got {heard} advisories then, "
                f"and {len(told)} in all"
            )
            claim.fail(text, [watcher.seq, read.seq], outcome="incomplete")
        elif heard:
            claim.hold("several expired" if heard > 1 else "one expired", outcome="told")

    def _may_die(self, send: Send) -> bool:
        return send.mortal() or self.books.stamps_expiry
