"""Selection: who may be given what. Judges GEN-020 to GEN-025, GEN-008 and GEN-010 from arrivals.

Model. A consumer states wishes when it subscribes: a selector, no messages of its own connection, to be the only one
(exclusive), to be asked first (priority). A producer states others: a group, a priority. Each wish rules out certain
arrivals, or certain orders of arrivals.

Events: those of the books.

Analyses, each of one arrival of a message M of a queue at a consumer Y (GEN-020 of topics as well):

1. GEN-020: Y's selector is readable and false or unknown for M as it was sent.
2. GEN-021: at rest a consumer that only has a selector has a free slot, and a message waits that it certainly wants.
3. GEN-022: Y wants nothing of its own connection, and M was sent by it.
4. GEN-023: M was sent after an exclusive consumer X had subscribed, X was there when M arrived, and Y is not exclusive,
   or came after X with no higher priority.
5. GEN-024: a message of M's group had gone to X, its first consumer, before M was sent, and X was there when M arrived
   at Y.
6. GEN-025: when M was sent, and until it arrived, a consumer X of higher priority had a free slot and wanted it.
7. GEN-008: on a queue with ``prioritized_messages`` Y got M before a message H of higher priority, although both waited
   when Y subscribed.
8. GEN-010: at rest, equal consumers that were there before the first message and never full have got numbers of
   messages that differ by more than one.

Not checked: what may have been with somebody else before (it may have come back, or lain aside); runs with a restart
for groups and priorities; GEN-021, GEN-025 and GEN-008 where memory may be scarce, and, in the memory generations that
look no further than a page, beyond one; GEN-021, GEN-024 and GEN-025 on queues where several of these wishes meet.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Send
from brokerproof.conformance.oracles import wishes
from brokerproof.conformance.oracles.inference import BookOracle, ms
from brokerproof.conformance.oracles.prefetch import PAGE
from brokerproof.conformance.oracles.records import Consumer, Passage, Queue, Read, Window, matches

#: How much of a queue is looked at for pairs of messages.
PAIRS_MAX: Final = 200


class SelectionOracle(BookOracle):
    """The claims about who may be given what."""

    name = "selection"
    requirements = ("GEN-008", "GEN-010", "GEN-020", "GEN-021", "GEN-022", "GEN-023", "GEN-024", "GEN-025")

    def judge(self) -> None:
        for consumer in self.books.consumers.values():
            if consumer.subscribe is not None and (consumer.subscribe.selector or consumer.subscribe.no_local):
                self._wishes(consumer)
        for queue in self.books.queues.values():
            if not queue.topic and queue.name != DEAD_LETTERS:
                self._queue(queue)

    def _wishes(self, consumer: Consumer) -> None:
        """What a consumer never wants, whatever happens."""
        assert consumer.subscribe is not None
        wish = wishes.read(consumer.subscribe.selector) if consumer.subscribe.selector else None
        for passage in consumer.passages:
            send = passage.message.send
            if send is None or passage.event.dest == DEAD_LETTERS:
                continue
            if wish is not None:
                self._wanted(consumer, passage, send, wish(send))
            if consumer.subscribe.no_local and not passage.queue.topic:
                self._foreign(consumer, passage, send)

    def _wanted(self, consumer: Consumer, passage: Passage, send: Send, truth: bool | None) -> None:
        if truth:
            self.claims["GEN-020"].hold("a selector chose", outcome="wanted")
            return
        assert consumer.subscribe is not None
        text = (
            f"{send.message} (kind {send.message_kind or 'absent'}, priority {send.priority}) arrived at consumer "
            f"{consumer.name}, whose selector {consumer.subscribe.selector!r} is "
            f"{'unknown' if truth is None else 'false'} for it"
        )
        self.claims["GEN-020"].fail(text, [consumer.subscribe.seq, send.seq, passage.event.seq], outcome="unwanted")

    def _foreign(self, consumer: Consumer, passage: Passage, send: Send) -> None:
        if send.host != consumer.host.name:
            self.claims["GEN-022"].hold("a message of another host came", outcome="foreign")
        elif send.result == "ok" and not send.again and passage.message.epoch == consumer.epoch:
            assert consumer.subscribe is not None
            text = f"{send.message} arrived at {consumer.name}, which wants nothing that {send.host} sends itself"
            self.claims["GEN-022"].fail(text, [consumer.subscribe.seq, send.seq, passage.event.seq], outcome="own")

    # -- one queue

    def _queue(self, queue: Queue) -> None:
        subscribes = [consumer.subscribe for consumer in queue.consumers]
        exclusive = [c for c in queue.consumers if c.subscribe is not None and c.subscribe.exclusive and c.known]
        ranked = any(one is not None and one.priority != 0 for one in subscribes)
        passages = [passage for consumer in queue.consumers for passage in consumer.passages if passage.queue is queue]
        grouped = any(p.message.send is not None and p.message.send.group for p in passages)
        calm = not self.books.lens.clouded(queue.name) and not self.books.restarted
        if exclusive:
            for passage in passages:
                self._alone(passage, exclusive)
        elif grouped:
            if calm:
                self._groups(passages)
        elif calm and not self.ask.scarce and not queue.limit_bytes:
            if ranked:
                for passage in passages:
                    self._higher(passage, queue)
            else:
                for read in queue.reads:
                    for window in read.windows:
                        self._hidden(queue, read, window)
                self._even(queue, passages)
            if self._prioritized(queue):
                for consumer in queue.consumers:
                    self._ranks(consumer, queue)

    def _first(self, passage: Passage) -> Send | None:
        """What was sent, if nobody can have had it before this arrival."""
        message = passage.message
        send = message.send
        if send is None or send.result != "ok" or send.tx is not None or not message.passages:
            return None
        return send if message.passages[0] is passage and not self.ask.maybe_elsewhere(message, passage) else None

    # -- exclusive consumers

    def _alone(self, passage: Passage, exclusive: list[Consumer]) -> None:
        send, consumer = passage.message.send, passage.consumer
        if send is None or consumer.subscribe is None or not consumer.known:
            return
        for other in exclusive:
            there = other.subscribe
            assert there is not None
            if other is consumer or there.t1 > send.t0 or other.lost_ns <= passage.event.t1:
                continue
            if consumer.subscribe.exclusive:
                higher = consumer.subscribe.priority > there.priority
                if higher or consumer.subscribe.t0 <= there.t1:
                    continue
            text = (
                f"{send.message} was sent at {ms(send.t0)} and arrived at {consumer.name}, although the exclusive "
                f"consumer {other.name} had been on {passage.queue.name} since {ms(there.t1)}"
            )
            self.claims["GEN-023"].fail(text, [there.seq, send.seq, passage.event.seq], outcome="shared")
            return
        if consumer in exclusive and any(one is not consumer for one in passage.queue.consumers):
            self.claims["GEN-023"].hold("an exclusive consumer had company", outcome="alone")

    # -- groups

    def _groups(self, passages: list[Passage]) -> None:
        by_group: dict[str, list[Passage]] = {}
        for passage in passages:
            send = passage.message.send
            # A message that somebody discarded as expired may be offered to others, whatever its group.
            if send is not None and send.group and passage.consumer.known and passage.message.passages[0] is passage:
                by_group.setdefault(send.group, []).append(passage)
        for group, members in by_group.items():
            members.sort(key=lambda one: one.event.seq)
            for index, passage in enumerate(members[:PAIRS_MAX]):
                self._member(group, members[:index], passage)

    def _member(self, group: str, before: list[Passage], passage: Passage) -> None:
        send = passage.message.send
        assert send is not None
        for earlier in before:
            owner = earlier.consumer
            if earlier.event.t1 >= send.t0 or owner.lost_ns <= passage.event.t1:
                continue
            if owner is passage.consumer:
                if any(other is not owner for other in passage.queue.consumers):
                    self.claims["GEN-024"].hold("a group stayed with its consumer", outcome="together")
                return
            text = (
                f"{send.message} of group {group} arrived at {passage.consumer.name}, although "
                f"{earlier.message.name} of the same group had gone to {owner.name}, which was still there"
            )
            witness = [earlier.event.seq, send.seq, passage.event.seq]
            self.claims["GEN-024"].fail(text, witness, outcome="torn")
            return

    # -- priorities of consumers

    def _higher(self, passage: Passage, queue: Queue) -> None:
        send = self._first(passage)
        mine = passage.consumer.subscribe
        if send is None or mine is None or not passage.consumer.known:
            return
        for other in queue.consumers:
            theirs = other.subscribe
            if theirs is None or not other.known or theirs.priority <= mine.priority:
                continue
            if not self.ask.surely_free(other, send.t0, passage.event.t1) or not self._surely_wants(other, send):
                continue
            text = (
                f"{send.message} arrived at {passage.consumer.name} (priority {mine.priority}) although "
                f"{other.name} (priority {theirs.priority}, prefetch {other.prefetch}) had a free slot"
            )
            self.claims["GEN-025"].fail(text, [theirs.seq, send.seq, passage.event.seq], outcome="lower-first")
            return
        if any(one.subscribe is not None and one.subscribe.priority < mine.priority for one in queue.consumers):
            self.claims["GEN-025"].hold("a consumer of higher priority was served", outcome="higher-first")

    def _surely_wants(self, consumer: Consumer, send: Send) -> bool:
        asked = consumer.subscribe
        if asked is None or (asked.no_local and send.host == consumer.host.name):
            return False
        if not asked.selector:
            return True
        wish = wishes.read(asked.selector)
        return wish is not None and wish(send) is True

    # -- equals

    def _even(self, queue: Queue, passages: list[Passage]) -> None:
        """Everybody is equal, was there from the beginning and has always had room."""
        sends = [m.send for m in self.books.messages.values() if m.send is not None and m.send.dest == queue.name]
        first_ns = min((send.t0 for send in sends), default=0)
        equals = [c for c in queue.consumers if c.subscribe is not None and c.subscribe.t1 < first_ns]
        later = [c.opened_ns for c in queue.consumers if c not in equals]
        until_ns = min([*later, *(c.lost_ns for c in equals)], default=0)
        if len(equals) < 2 or any(not c.known or c.choosy or c.queue is not queue for c in equals):
            return
        if any(c.prefetch < len(sends) for c in equals):
            return
        before = [passage.message.name for passage in passages if passage.event.t1 < until_ns]
        if len(before) > len(dict.fromkeys(before)):
            return  # something came back
        for read in queue.reads:
            if not read.event.at_rest or read.event.t1 > until_ns:
                continue
            got = {c.name: sum(1 for p in c.passages if p.event.t1 <= read.event.t0) for c in equals}
            if sum(got.values()) < len(got):
                continue
            if max(got.values()) - min(got.values()) <= 1:
                self.claims["GEN-010"].hold("equal consumers had room", outcome="even")
                continue
            shares = ", ".join(f"{name}: {count}" for name, count in got.items())
            text = (
                f"at rest at {ms(read.event.t1)}, consumers of {queue.name} with equal wishes and room had got {shares}"
            )
            witness = [c.subscribe.seq for c in equals if c.subscribe is not None]
            self.claims["GEN-010"].fail(text, [*witness, read.event.seq], outcome="uneven")
            return

    # -- what a selector wants is not hidden

    def _hidden(self, queue: Queue, read: Read, window: Window) -> None:
        consumer = window.consumer
        asked = consumer.subscribe
        if asked is None or not asked.selector or not consumer.known or asked.durable or asked.prefetch == 0:
            return
        if not window.room() or self.ask.pressed(queue, read) or (len(read.waiting) >= PAGE and not self._sees_all()):
            return
        for message in read.waiting:
            send = message.send
            if send is None or not self._surely_wants(consumer, send) or self.ask.maybe_swallowed(message, queue):
                continue
            text = (
                f"at rest at {ms(read.event.t1)}, {consumer.name} (selector {asked.selector!r}) holds {window.held} of "
                f"{consumer.prefetch} messages, and {message.name} (kind {send.message_kind or 'absent'}, priority "
                f"{send.priority}) waits on {queue.name}"
            )
            self.claims["GEN-021"].fail(text, [asked.seq, send.seq, read.event.seq], outcome="hidden")
            return
        if window.arrived and read.waiting:
            self.claims["GEN-021"].hold("others were left waiting", outcome="given")

    def _sees_all(self) -> bool:
        """Whether nobody says of the broker that it looks no further than a page, as ActiveMQ's generations do."""
        return self.books.header.declared.generation.get("memory", "fair") == "fair"

    # -- priorities of messages

    def _prioritized(self, queue: Queue) -> bool:
        declared = self.books.header.declared
        if declared.generation.get("memory", "fair") != "fair":
            return False
        fitting = [entry for entry in declared.destinations if matches(entry.match, queue.name)]
        return bool(fitting) and all(entry.prioritized_messages for entry in fitting)

    def _ranks(self, consumer: Consumer, queue: Queue) -> None:
        """Both waited when it subscribed, and nobody else can have had either."""
        asked = consumer.subscribe
        if asked is None or not consumer.known:
            return
        lower: list[tuple[Passage, Send]] = []
        for passage in consumer.passages[:PAIRS_MAX]:
            send = self._first(passage) if passage.queue is queue else None
            if send is None or send.t1 > asked.t0 or send.delay_ms or send.deliver_at_ms is not None:
                continue
            for earlier, sent in lower:
                if sent.priority >= send.priority:
                    continue
                text = (
                    f"{consumer.name} got {sent.message} (priority {sent.priority}) before {send.message} (priority "
                    f"{send.priority}), and both had waited on {queue.name} when it came"
                )
                self.claims["GEN-008"].fail(
                    text, [asked.seq, earlier.event.seq, passage.event.seq], outcome="lower-first"
                )
                return
            if any(sent.priority > send.priority for _, sent in lower):
                self.claims["GEN-008"].hold("messages of different priority waited", outcome="higher-first")
            lower.append((passage, send))
