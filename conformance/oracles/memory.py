"""Memory limits: judges MEM-001 to MEM-005, MEM-020, MEM-022 and MEM-026 from memory counters, reads at rest and what
was delivered.

Model (seed 002). A broker keeps messages in memory up to a limit, destinations may have limits of their own. Beyond a
limit persistent messages stay in the store and are loaded when memory allows. What one destination keeps must not
keep the consumers of another from being served.

Events: ``counters`` (``memory_percent``, ``memory_bytes``, ``size``, ``in_flight``, ``scheduled``), ``send``, and all
that the books follow.

Analyses:

1. MEM-001: other destinations were sent at least half of what the broker's limit holds; at rest a queue has a
   consumer with a free slot and a waiting message that nobody holds, nothing delays and nothing can have expired; and
   no consumer of that queue holds anything, so that nothing of its own stands in the way. It holds where they keep
   that much at this very moment.
2. MEM-002: the broker's memory exceeds its limit. One message beyond it is acceptable (brokers ask before they add);
   more is a violation.
3. MEM-003: at rest nothing is on a queue, in flight or scheduled, and memory is still in use: per destination at any
   rest; for the broker where the same settle found every queue empty, dead letters included, and no topic can hold
   anything. What open transactions have sent may be in memory.
4. MEM-004: MEM-002 for a destination with a limit of its own.
5. MEM-005: a persistent message for a queue is refused for want of memory, or was accepted while accepted messages
   already exceeded the limit and is missing at the end.

6. MEM-020: MEM-001 where no other destination keeps a quarter of the limit, so that it takes three or more.
7. MEM-022: at rest less than half of the broker's memory is in use, and of the destination's own; a consumer has a free
   slot and a message waits, though the broker's memory had been filled to 70 % before. It holds where a message had
   been waiting beside a free slot when memory was so full, and none is any more.
8. MEM-026: MEM-022 where an operator purged another queue in between.

Not checked: how much a message is charged (brokers differ); limits of a broker that declares none (0); the order in
which waiting messages are loaded; refusals that do not name memory as the reason.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.history import Counters, Send
from brokerproof.conformance.oracles.base import Claim
from brokerproof.conformance.oracles.books import OVERHEAD_MAX_BYTES
from brokerproof.conformance.oracles.inference import PRESSURE_PERCENT, BookOracle, ms
from brokerproof.conformance.oracles.records import NEVER, Queue, Read, matches

#: The mark at which cursors stop loading (cursorMemoryHighWaterMark), for situations only.
MARK_PERCENT: Final = 70
#: Words by which a refusal says that it is about memory.
REFUSALS: Final = ("memory", "space", "limit", "full", "usage", "resource")


class MemoryOracle(BookOracle):
    """The claims about limits and starvation."""

    name = "memory"
    requirements = ("MEM-001", "MEM-002", "MEM-003", "MEM-004", "MEM-005", "MEM-020", "MEM-022", "MEM-026")

    def judge(self) -> None:
        limit = 0 if self.books.lens.limited else self.books.header.declared.memory_limit_bytes
        largest = OVERHEAD_MAX_BYTES
        for message in self.books.messages.values():
            if message.send is not None:
                largest = max(largest, message.send.size + OVERHEAD_MAX_BYTES)
        for read in self.books.reads:
            if limit > 0:
                self._bounded("MEM-002", "the broker", read, limit, largest)
            if read.empty and not read.uncommitted and not read.unsure:
                self._zero(read.event, "the broker", self.books.sent_bytes > 0, read.drain)
        for queue in self.books.queues.values():
            own = queue.limit_bytes
            for read in queue.reads:
                if own > 0:
                    self._bounded("MEM-004", queue.name, read, own, largest)
                if read.event.at_rest:
                    self._empty(queue, read)
                    if read.windows and limit > 0:
                        self._starved(queue, read, limit)
            if limit > 0:
                self._relieved(queue)
        self._beyond()

    # -- MEM-002, MEM-004

    def _bounded(self, requirement: str, who: str, read: Read, limit: int, largest: int) -> None:
        event = read.event
        claim = self.claims[requirement]
        used = event.memory_bytes
        if used is None:
            if event.memory_percent is None:
                return
            used = limit * event.memory_percent // 100
        if used <= limit:
            share = used * 100 // limit
            if share > 50:
                situation = "more than nine tenths were used" if share > 90 else "more than half was used"
                claim.hold(situation, outcome="within")
        elif used <= limit + largest:
            claim.hold("the limit was exceeded by one message", outcome="one-message-over", grade="acceptable")
        else:
            text = f"{who} uses {used} bytes of memory ({used * 100 // limit} %); its limit is {limit} bytes"
            claim.fail(text, [event.seq], outcome="over")

    # -- MEM-003

    def _empty(self, queue: Queue, read: Read) -> None:
        event = read.event
        if self.books.lens.clouded(queue.name) or read.uncommitted or read.unsure:
            return
        if queue.topic or event.size != 0 or event.in_flight != 0 or event.scheduled:
            return
        self._zero(event, queue.name, bool(queue.sent_bytes), read.drain)

    def _zero(self, event: Counters, who: str, used_before: bool, drain: bool) -> None:
        bytes_left = event.memory_bytes
        percent = event.memory_percent
        if (bytes_left is None and percent is None) or not used_before:
            return
        claim = self.claims["MEM-003"]
        if bytes_left or percent:
            figure = f"{bytes_left} bytes" if bytes_left is not None else f"{percent} %"
            text = f"at rest nothing is left for {who}, and its memory in use is {figure}"
            claim.fail(text, [event.seq], outcome="leaked")
        else:
            claim.hold("after the drain" if drain else "between two bursts", outcome="released")

    # -- MEM-001

    def _starved(self, queue: Queue, read: Read, limit: int) -> None:
        others = read.sent_bytes - read.sent_here_bytes
        lens = self.books.lens
        if lens.clouded(queue.name) or lens.picky(queue.name):
            return
        if queue.topic or self.books.restarted or others * 100 < limit * PRESSURE_PERCENT:
            return
        claims = [self.claims["MEM-001"]]
        if read.most_elsewhere * 4 < limit and read.charged_elsewhere * 100 >= limit * PRESSURE_PERCENT:
            claims.append(self.claims["MEM-020"])
        pressed = read.charged_elsewhere * 100 >= limit * PRESSURE_PERCENT
        served = not read.waiting and read.arrived > 0
        if any(window.held or window.doubted or not window.consumer.known for window in read.windows):
            if pressed and any(window.held and window.consumer.known for window in read.windows):
                self._served(claims, read, limit)
            return
        waiting = next((m for m in read.waiting if not self.ask.maybe_swallowed(m, queue)), None)
        if waiting is None:
            if pressed and served:
                self._served(claims, read, limit)
            return
        consumer = next(window.consumer for window in read.windows if window.open())
        text = (
            f"at rest at {ms(read.event.t1)}, {len(read.waiting)} messages wait on {queue.name}, "
            f"first {waiting.name}; "
            f"consumer {consumer.name} (prefetch {consumer.prefetch}) has a free slot and nobody there holds any, "
            f"while other destinations keep at least {read.charged_elsewhere} of the broker's {limit} bytes"
        )
        witness = [read.event.seq] if waiting.send is None else [waiting.send.seq, read.event.seq]
        for claim in claims:
            claim.fail(text, witness, outcome="starved")

    def _served(self, claims: list[Claim], read: Read, limit: int) -> None:
        for claim in claims:
            claim.hold(self._pressure(read, limit), outcome="served")

    def _pressure(self, read: Read, limit: int) -> str:
        if read.charged_elsewhere * 100 >= limit * MARK_PERCENT:
            return "other destinations kept 70 % or more of the broker's memory"
        return "other destinations kept half of the broker's memory or more"

    def _may_refuse(self, dest: str) -> bool:
        """The operator asked for refusals."""
        entries = self.books.header.declared.destinations
        return any(entry.send_fail_if_no_space and matches(entry.match, dest) for entry in entries)

    # -- MEM-022, MEM-026

    def _relieved(self, queue: Queue) -> None:
        """Follow one queue from a full broker to one that has room again."""
        books = self.books
        name = queue.name
        if queue.topic or books.restarted or books.lens.clouded(name) or books.lens.picky(name):
            return
        full_ns = NEVER
        waited_ns = NEVER
        for read in queue.reads:
            event = read.event
            total = self._total(read)
            if not event.at_rest or total is None:
                continue
            beside = any(window.open() and window.consumer.known for window in read.windows)
            message = next((m for m in read.waiting if not self.ask.maybe_swallowed(m, queue)), None)
            if total >= MARK_PERCENT:
                full_ns = min(full_ns, event.t1)
                if beside and message is not None:
                    waited_ns = min(waited_ns, event.t1)
            elif full_ns < event.t0 and total < PRESSURE_PERCENT and (event.memory_percent or 0) < PRESSURE_PERCENT:
                claims = [self.claims["MEM-022"]]
                if any(full_ns < t1 < event.t0 for name, t1 in books.lens.purged.items() if name != queue.name):
                    claims.append(self.claims["MEM-026"])
                for claim in claims:
                    if beside and message is not None:
                        text = (
                            f"at rest at {ms(event.t1)}, {message.name} waits on {queue.name} beside a free slot, and "
                            f"only {total} % of the broker's memory are in use; at {ms(full_ns)} it had been full"
                        )
                        claim.fail(text, [event.seq], outcome="asleep")
                    elif waited_ns < event.t0 and beside:
                        claim.hold("a message had waited for memory", outcome="resumed")

    def _total(self, read: Read) -> int | None:
        """How much of its memory the broker used when everything was as at this read, in percent."""
        for total in self.books.reads:
            if total.moved_seq == read.moved_seq and total.event.seq > read.event.seq and total.event.at_rest:
                return total.event.memory_percent
        return None

    # -- MEM-005

    def _beyond(self) -> None:
        """Sends in their order, with what had been accepted and not yet been taken by then."""
        claim = self.claims["MEM-005"]
        for message in self.books.messages.values():
            send = message.send
            if send is None or not send.persistent or self.books.queue(send.dest).topic:
                continue
            if send.result == "fail":
                if names_memory(send) and not self._may_refuse(send.dest):
                    text = f"persistent message {send.message} for {send.dest} was refused: {send.refusal!r}"
                    claim.fail(text, [send.seq], outcome="refused")
            elif message.beyond:
                if self.ask.missing(message):
                    text = (
                        f"persistent message {send.message} was accepted on {send.dest} at {ms(send.t1)}, when "
                        "more than a memory limit holds had been accepted and not been taken, and was never seen again"
                    )
                    claim.fail(text, [send.seq], outcome="lost")
                elif message.passages or message.dead:
                    claim.hold("more had been accepted than the limit holds", outcome="kept")


def names_memory(send: Send) -> bool:
    """Whether a send was refused for want of memory."""
    reason = (send.refusal or "").lower()
    return send.result == "fail" and any(word in reason for word in REFUSALS)
