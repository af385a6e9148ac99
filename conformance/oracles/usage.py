"""Usage: judges what memory figures say: MEM-006 to MEM-008, MEM-010 to MEM-014, MEM-017 to MEM-019, MEM-024,
MEM-027.

Model (seed 002, notes on ActiveMQ's usage tree). A message in memory is charged to its destination and to the broker.
Percentages are floored. A message costs its content and properties, and not less than a minimum (1024 bytes); at most
``OVERHEAD_MAX_BYTES`` beyond its body. What is in the store only costs nothing.

Events: ``counters`` (``memory_bytes``, ``memory_percent``, ``memory_limit_bytes``, ``destinations``, ``size``,
``enqueued``, ``scheduled``), ``send``, and all that the books follow.

Analyses, at rest unless stated:

1. MEM-006: one settle read all destinations that the broker has, and then the broker: the sums agree. More on
   destinations than in the broker is wrong even if some were not read. Live, a difference counts if two settles in a
   row show it.
2. MEM-007: the percentage of one read against its bytes and its limit.
3. MEM-008, MEM-010, MEM-014: while less than half of every limit has ever been sent, so that everything must be in
   memory, a queue's bytes fit the messages that it is known to hold, if it says itself that it holds as many. MEM-008
   before anybody consumed, MEM-010 afterwards; MEM-014 while a transaction is open that sent to it, and once one was
   rolled back.
4. MEM-011: no figure is negative, at any read.
5. MEM-012: a declared limit of 0: 0 %, no refusal for want of memory, no backlog beside a free slot.
6. MEM-013: after an operator has changed the broker's limit, destinations without one of their own show the new one;
   nothing else that rests on limits is judged in such a run. MEM-017: the limit that a destination shows is that of its
   most specific policy entry. Entries that cover each other are not judged.
7. MEM-018: a message larger than the broker's limit is not refused while less than half was ever sent, and not lost.
8. MEM-019: before anybody consumed, and while only persistent messages came: memory stays within the mark and one
   message, and, if one queue got everything and there is more than that, reaches the mark but for two messages. A
   queue that had been emptied and got little since has it all in memory.
9. MEM-024: between two reads nobody consumed from a queue and nothing arrived: its memory did not grow.
10. MEM-027: a send that was refused for want of memory never arrives anywhere; one whose answer did not come, in a
   broker whose producers may wait, arrives once (that it does not arrive twice is GEN-002).

Not checked: queues whose messages or figures change unseen (operators, browsers, wildcards), anything after a restart
of the broker, messages with a delay or an expiration where they matter.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import DestinationSpec
from brokerproof.conformance.experiment.destinations import is_topic
from brokerproof.conformance.experiment.history import Send
from brokerproof.conformance.oracles.books import OVERHEAD_MAX_BYTES, OVERHEAD_MIN_BYTES
from brokerproof.conformance.oracles.inference import PRESSURE_PERCENT, BookOracle
from brokerproof.conformance.oracles.memory import MARK_PERCENT, names_memory
from brokerproof.conformance.oracles.records import NEVER, Queue, Read, fitting, matches


class UsageOracle(BookOracle):
    """The claims about figures."""

    name = "usage"
    # fmt: off
    requirements = ("MEM-006", "MEM-007", "MEM-008", "MEM-010", "MEM-011", "MEM-012", "MEM-013", "MEM-014", "MEM-017",
                    "MEM-018", "MEM-019", "MEM-024", "MEM-027")
    # fmt: on

    def judge(self) -> None:
        books = self.books
        reads: list[tuple[Read, Queue | None]] = [(read, None) for read in books.reads]
        for name in books.queues:
            reads += [(read, books.queues[name]) for read in books.queues[name].reads]
        reads.sort(key=_seq)
        self._sums(reads)
        for read, queue in reads:
            self._figures(read, queue)
        sends = sorted(
            (message.send for message in books.messages.values() if message.send is not None), key=_seq_of_send
        )
        odd_seq = min((send.seq for send in sends if not _is_plain(send, books.stamps_expiry)), default=NEVER)
        first_seq = min((_first_consumer(queue) for queue in books.queues.values()), default=NEVER)
        for queue in books.queues.values():
            if queue.topic or books.restarted or books.lens.clouded(queue.name):
                continue
            self._loaded(queue)
            for read in queue.reads:
                if read.event.at_rest and read.event.memory_bytes is not None:
                    self._charged(queue, read)
                    if read.event.seq < min(odd_seq, first_seq) and not books.lens.limited:
                        self._mark(queue, read, sends)
        if not books.lens.limited:
            self._unlimited(sends)
            self._large(sends)
        self._refused(sends)

    # -- MEM-006

    def _sums(self, reads: list[tuple[Read, Queue | None]]) -> None:
        group: dict[str, int] = {}
        moved_seq = -1
        suspected: tuple[int, int] | None = None
        for read, queue in reads:
            used = read.event.memory_bytes
            if not read.event.at_rest or used is None:
                continue
            if read.moved_seq != moved_seq:
                group = {}
                moved_seq = read.moved_seq
            if queue is not None:
                group[queue.name] = used
                continue
            total = sum(group.values())
            complete = len(group) == read.event.destinations
            wrong = total > used or (complete and total != used)
            if wrong and (self.books.simulated or suspected == (total, used)):
                text = f"{len(group)} destinations use {total} bytes of memory together, the broker {used} bytes"
                self.claims["MEM-006"].fail(text, [read.event.seq], outcome="different")
            elif complete and used and not wrong:
                situation = "several destinations used memory" if sum(map(bool, group.values())) > 1 else ""
                self.claims["MEM-006"].hold(situation, outcome="equal")
            suspected = (total, used) if wrong else None
            group = {}

    # -- MEM-007, MEM-011, MEM-012, MEM-017

    def _figures(self, read: Read, queue: Queue | None) -> None:
        event = read.event
        who = "the broker" if queue is None else queue.name
        for figure in (event.memory_bytes, event.memory_percent):
            if figure is not None and figure < 0:
                text = f"{who} uses {event.memory_bytes} bytes of memory, {event.memory_percent} %"
                self.claims["MEM-011"].fail(text, [event.seq], outcome="negative")
            elif figure is not None and (event.dequeued or event.size):
                self.claims["MEM-011"].hold("nothing was left" if not event.size else "", outcome="not-negative")
        declared = self.books.header.declared.memory_limit_bytes
        limit = event.memory_limit_bytes
        if limit is None and self.books.lens.limited:
            return
        if limit is None:
            limit = queue.limit_bytes or declared if queue is not None else declared
        if event.memory_bytes is not None and event.memory_percent is not None and event.at_rest:
            floor = 100 * event.memory_bytes // limit if limit > 0 else 0
            claim = self.claims["MEM-007"]
            if event.memory_percent != floor:
                text = (
                    f"{who} shows {event.memory_percent} % for {event.memory_bytes} of {limit} bytes; "
                    f"the floor is {floor} %"
                )
                claim.fail(text, [event.seq], outcome="other")
            elif floor and 100 * event.memory_bytes % limit:
                claim.hold("between two percentages", outcome="floor")
        if declared == 0 and limit == 0 and not self.books.lens.limited and event.memory_percent is not None:
            claim = self.claims["MEM-012"]
            if event.memory_percent:
                text = f"{who} shows {event.memory_percent} % of memory, and there is no limit"
                claim.fail(text, [event.seq], outcome="limited")
            elif event.memory_bytes:
                claim.hold("memory was in use", outcome="unlimited")
        if queue is not None and event.memory_limit_bytes is not None:
            self._entry(queue, read)
            self._follows(queue, read)

    def _follows(self, queue: Queue, read: Read) -> None:
        """MEM-013: what a destination without a limit of its own shows after the broker's was changed."""
        event = read.event
        changes = self.books.lens.limits
        own = any(
            one.memory_limit_bytes for one in self.books.header.declared.destinations if matches(one.match, queue.name)
        )
        overlapping = any(one.t1 > event.t0 and one.t0 < event.t1 for one in changes)
        before = [one for one in changes if one.t1 <= event.t0 and one.seq < event.seq]
        if own or overlapping or not before or before[-1].result != "ok" or self.books.restarted:
            return
        claim = self.claims["MEM-013"]
        if event.memory_limit_bytes == before[-1].limit_bytes:
            claim.hold("the broker's limit had been changed", outcome="followed")
        else:
            text = (
                f"{queue.name} shows a memory limit of {event.memory_limit_bytes} bytes and has none of its own; the "
                f"broker's has been {before[-1].limit_bytes} bytes since it was changed"
            )
            claim.fail(text, [before[-1].seq, event.seq], outcome="left-behind")

    def _entry(self, queue: Queue, read: Read) -> None:
        declared = self.books.header.declared
        entry = most_specific(declared.destinations, queue.name)
        if entry is None or self.books.restarted or self.books.lens.limited:
            return
        limits = [one.memory_limit_bytes or 0 for one in declared.destinations if matches(one.match, queue.name)]
        if len(set(limits)) < 2:
            return
        wanted = entry.memory_limit_bytes or declared.memory_limit_bytes
        claim = self.claims["MEM-017"]
        shown = read.event.memory_limit_bytes
        if shown != wanted:
            text = (
                f"{queue.name} shows a memory limit of {shown} bytes; its most specific policy entry, "
                f"{entry.match!r}, gives it {wanted} bytes"
            )
            claim.fail(text, [read.event.seq], outcome="other-entry")
        else:
            exact = entry.match == queue.name
            claim.hold("an exact name beside a wildcard" if exact else "two wildcards", outcome="most-specific")

    # -- MEM-008, MEM-010

    def _charged(self, queue: Queue, read: Read) -> None:
        event = read.event
        used = event.memory_bytes
        if event.size != read.kept or read.ticking or read.unsure or used is None or self.ask.pressed(queue, read):
            return
        if any(consumer.auto and consumer.end for consumer in queue.consumers):
            return  # it may have been written one that nobody saw, and a send of unknown result may stand in its place
        consumed = _first_consumer(queue) < event.seq
        undone = self.books.uncommitted.undone.get(queue.name, NEVER) < event.seq
        transacted = read.uncommitted > 0 or undone
        if not (read.kept or transacted):
            return
        claim = self.claims["MEM-014" if transacted else "MEM-010" if consumed else "MEM-008"]
        count = read.kept + read.uncommitted
        bodies = read.held_bytes - OVERHEAD_MIN_BYTES * read.kept + read.uncommitted_bytes
        least = max(bodies, OVERHEAD_MIN_BYTES * count)
        most = bodies + OVERHEAD_MAX_BYTES * count
        if not least <= used <= most:
            more = f", {read.uncommitted} of them in open transactions," if read.uncommitted else ""
            text = (
                f"at rest {queue.name} holds {count} messages{more} with bodies of {bodies} bytes and uses {used} "
                f"bytes of memory; {least} to {most} bytes were expected"
            )
            claim.fail(text, [event.seq], outcome="too-little" if used < least else "too-much")
        elif transacted:
            claim.hold("a transaction was open" if read.uncommitted else "after a rollback", outcome="charged")
        elif not consumed:
            claim.hold("bodies are larger than the minimum" if bodies > least // 2 else "", outcome="charged")
        elif event.in_flight or event.dequeued:
            claim.hold("in flight" if event.in_flight else "after acknowledgements", outcome="charged")

    # -- MEM-019

    def _mark(self, queue: Queue, read: Read, sends: list[Send]) -> None:
        """Nobody has consumed anywhere, and only plain persistent messages came."""
        declared = self.books.header.declared
        broker_limit = declared.memory_limit_bytes
        limit = queue.limit_bytes or broker_limit
        entry = most_specific(declared.destinations, queue.name)
        used = read.event.memory_bytes
        if limit <= 0 or used is None or entry is None or 0 < broker_limit < limit:
            return
        before = [send for send in sends if send.seq < read.event.seq]
        here = [send for send in before if send.dest == queue.name]
        if not here or read.event.size != len(here):
            return
        mark = entry.high_water_percent or MARK_PERCENT
        largest = max(send.size for send in here) + OVERHEAD_MAX_BYTES
        claim = self.claims["MEM-019"]
        text = (
            f"before anybody consumed, {len(here)} persistent messages had come to {queue.name}; it keeps {used} of "
            f"{limit} bytes ({used * 100 // limit} %) in memory; the mark is {mark} %"
        )
        if used * 100 > mark * limit + 100 * largest:
            claim.fail(text, [read.event.seq], outcome="past-the-mark")
            return
        enough = read.held_bytes * 100 >= mark * limit + 200 * largest and (100 - mark) * limit >= 100 * largest
        if enough and len(here) == len(before):
            if used * 100 < mark * limit - 200 * largest:
                claim.fail(text, [read.event.seq], outcome="too-early")
            else:
                claim.hold("more had come than the mark admits", outcome="at-the-mark")

    # -- MEM-024

    def _loaded(self, queue: Queue) -> None:
        first_seq = _first_consumer(queue)
        claim = self.claims["MEM-024"]
        before: Read | None = None
        for read in queue.reads:
            event = read.event
            if event.seq > first_seq or not event.at_rest or event.memory_bytes is None or event.scheduled is None:
                continue
            still = before is not None and before.event.enqueued == event.enqueued and not before.event.scheduled
            if before is not None and still and not read.uncommitted and not read.unsure:
                used = before.event.memory_bytes or 0
                if event.memory_bytes > used:
                    text = (
                        f"nobody consumes from {queue.name} and nothing arrived, and its memory grew from {used} to "
                        f"{event.memory_bytes} bytes"
                    )
                    claim.fail(text, [before.event.seq, event.seq], outcome="loaded")
                elif before.held_bytes > used and event.size:
                    claim.hold("some messages were in the store only", outcome="left")
            before = read

    # -- MEM-012, MEM-018

    def _unlimited(self, sends: list[Send]) -> None:
        declared = self.books.header.declared
        if declared.memory_limit_bytes or any(entry.memory_limit_bytes for entry in declared.destinations):
            return
        if declared.store_limit_bytes or declared.temp_limit_bytes:
            return
        claim = self.claims["MEM-012"]
        for send in sends:
            if names_memory(send):
                text = f"{send.message} for {send.dest} was refused, and there is no memory limit: {send.refusal!r}"
                claim.fail(text, [send.seq], outcome="refused")
        if self.books.restarted:
            return
        for queue in self.books.queues.values():
            if queue.topic or self.books.lens.clouded(queue.name) or self.books.lens.picky(queue.name):
                continue
            for read in queue.reads:
                window = next((w for w in read.windows if w.open() and w.consumer.known), None)
                message = next((m for m in read.waiting if not self.ask.maybe_swallowed(m, queue)), None)
                if window is not None and message is not None:
                    text = (
                        f"at rest {message.name} waits on {queue.name} beside a free slot of {window.consumer.name}, "
                        "and there is no memory limit"
                    )
                    claim.fail(text, [read.event.seq], outcome="held-up")

    def _large(self, sends: list[Send]) -> None:
        declared = self.books.header.declared
        limit = declared.memory_limit_bytes
        if limit <= 0 or declared.store_limit_bytes or declared.temp_limit_bytes:
            return
        claim = self.claims["MEM-018"]
        before_bytes = 0
        for send in sends:
            scarce = before_bytes * 100 > limit * PRESSURE_PERCENT
            before_bytes += send.size + OVERHEAD_MAX_BYTES
            if send.size <= limit:
                continue
            message = self.books.message(send.message)
            if names_memory(send) and not scarce:
                text = f"{send.message} of {send.size} bytes was refused by an empty broker: {send.refusal!r}"
                claim.fail(text, [send.seq], outcome="refused")
            elif send.result == "ok" and self.ask.missing(message):
                text = f"{send.message} of {send.size} bytes, more than the limit, was accepted and never seen again"
                claim.fail(text, [send.seq], outcome="lost")
            elif message.passages:
                claim.hold("larger than the broker's memory", outcome="delivered")

    # -- MEM-027

    def _refused(self, sends: list[Send]) -> None:
        claim = self.claims["MEM-027"]
        declared = self.books.header.declared
        waits = declared.generation.get("memory", "fair") != "fair"
        waits = waits or declared.store_limit_bytes > 0 or declared.temp_limit_bytes > 0
        for send in sends:
            message = self.books.message(send.message)
            seen = [*message.passages, *message.dead]
            if names_memory(send):
                if seen:
                    text = (
                        f"{send.message} was refused for want of memory ({send.refusal!r}), and it arrived all the same"
                    )
                    claim.fail(text, [send.seq, seen[0].event.seq], outcome="kept")
                elif self.ask.ended:
                    claim.hold("a send was refused", outcome="exactly-once-or-never")
            elif send.result == "unknown" and waits and len(seen) == 1 and seen[0].event.t0 > send.t1:
                claim.hold("a send waited for memory", outcome="exactly-once-or-never")


def most_specific(entries: list[DestinationSpec], dest: str) -> DestinationSpec | None:
    """The policy entry that decides: its exact name, else the one whose pattern all others cover; None: none does."""
    applying = fitting(entries, dest)
    winners = [
        entry
        for entry in applying
        if all(
            other is entry or (matches(other.match, entry.match) and not matches(entry.match, other.match))
            for other in applying
        )
    ]
    return winners[0] if winners else None


def _seq(item: tuple[Read, Queue | None]) -> int:
    return item[0].event.seq


def _seq_of_send(send: Send) -> int:
    return send.seq


def _first_consumer(queue: Queue) -> int:
    """The event with which somebody may have begun to consume there; ``NEVER`` if nobody did."""
    return min((0 if c.subscribe is None else c.subscribe.seq for c in queue.consumers), default=NEVER)


def _is_plain(send: Send, stamps_expiry: bool) -> bool:
    """A persistent message of which nobody doubts that it went to its queue, to stay there."""
    if send.result != "ok" or not send.persistent or send.tx is not None or is_topic(send.dest):
        return False
    return not (send.expiration_ms > 0 or send.delay_ms or send.deliver_at_ms is not None or stamps_expiry)
