"""Loading: judges MEM-009, MEM-016 and MEM-023, when a queue's memory may grow, and by how much.

Model (seed 002, notes on cursors). An arriving message stays in memory only below the high-water mark; what is in the
store only is read a page at a time, when a consumer comes or when the sweep looks for expired messages.

Analyses, each of two reads at rest, one after the other, of a queue that has only ever got persistent messages without
a delay:

1. MEM-009: the first found the queue at its mark or above, nobody has ever consumed from it, and between them messages
   arrived: its memory has not grown.
2. MEM-016: the same, but nothing arrived: its memory has not grown. Below the mark it has grown by a page
   (``max_expire_page_size``) for each sweep that may have come, at most. It holds where a sweep came for certain and
   something was in the store only.
3. MEM-023: the first found everything in the store only, and between them one consumer came, the first, and did not
   acknowledge: memory holds a page beyond what that consumer has in flight, at most, and a page for each sweep. A page
   in all is ``one-page``; more, because the window is larger, is acceptable.

Not checked: queues that anybody browsed, consumed from through a wildcard, or operated on; anything else that happened
between the two reads; brokers whose limits were changed.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.configuration import DestinationSpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_pattern, is_topic
from brokerproof.conformance.experiment.history import Browse, Counters, Event, Fault, Header, Operate, Send, Subscribe
from brokerproof.conformance.oracles.base import NS_PER_MS, Oracle
from brokerproof.conformance.oracles.books import OVERHEAD_MAX_BYTES, OVERHEAD_MIN_BYTES
from brokerproof.conformance.oracles.memory import MARK_PERCENT
from brokerproof.conformance.oracles.usage import most_specific
from brokerproof.conformance.oracles.wall import WallClocks

#: maxPageSize, by default.
PAGE: Final = 200


class Bed:
    """One queue, and what happened there since its last read at rest."""

    __slots__ = ("consumed", "first", "largest", "last", "odd", "sent", "spoilt")

    def __init__(self) -> None:
        self.last: Counters | None = None
        #: Something happened that these claims do not know: since the last read, ever.
        self.odd = False
        self.spoilt = False
        #: Somebody has consumed from it since the broker's start; the one who did so first, since the last read.
        self.consumed = False
        self.first: Subscribe | None = None
        #: Messages since the last read; the size of the largest that ever came, with all that it may cost.
        self.sent = 0
        self.largest = OVERHEAD_MAX_BYTES

    def turn(self, event: Counters) -> None:
        """It was read: the next interval begins."""
        self.last = event
        self.odd = False
        self.first = None
        self.sent = 0


class LoadingOracle(Oracle):
    """A fold over intervals between reads."""

    name = "loading"
    requirements = ("MEM-009", "MEM-016", "MEM-023")
    # fmt: off
    kinds = ("send", "subscribe", "leave", "ack", "nack", "consume", "discard", "browse", "commit", "abort", "operate",
             "counters", "closed", "start", "stop", "kill", "fault")
    # fmt: on

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._beds: dict[str, Bed] = {}
        self._entries: list[DestinationSpec] = []
        self._limit_bytes = 0
        #: An operator has changed something that concerns every queue, or a wildcard consumer came.
        self._spoilt = False

    def start(self, header: Header) -> None:
        self._entries = header.declared.destinations
        self._limit_bytes = header.declared.memory_limit_bytes

    def feed(self, event: Event) -> None:
        if isinstance(event, Counters):
            if event.dest is not None and event.at_rest and not is_topic(event.dest) and event.dest != DEAD_LETTERS:
                bed = self._bed(event.dest)
                self._judge(bed, event)
                bed.turn(event)
        elif isinstance(event, Send):
            self._send(event)
        elif isinstance(event, Subscribe):
            self._subscribe(event)
        elif isinstance(event, Browse):
            self._bed(event.dest).spoilt = True
        elif isinstance(event, Operate):
            self._spoilt = self._spoilt or not event.dest
            for name in (event.dest, event.to):
                self._bed(name).spoilt = True
        else:
            restarted = isinstance(event, Fault) and event.fault == "restart"
            for bed in self._beds.values():
                bed.odd = bed.odd or bed.consumed or restarted
                bed.consumed = bed.consumed and not restarted

    def _bed(self, dest: str) -> Bed:
        found = self._beds.get(dest)
        if found is None:
            found = self._beds[dest] = Bed()
        return found

    def _send(self, event: Send) -> None:
        bed = self._bed(event.dest)
        timed = event.delay_ms > 0 or event.deliver_at_ms is not None
        bed.largest = max(bed.largest, event.size + OVERHEAD_MAX_BYTES)
        bed.sent += 1
        if event.result != "fail":
            bed.spoilt = bed.spoilt or event.result != "ok" or not event.persistent or event.tx is not None or timed

    def _subscribe(self, event: Subscribe) -> None:
        if event.result == "fail":
            return
        if is_pattern(event.dest):
            self._spoilt = True
            return
        bed = self._bed(event.dest)
        if event.browser:
            bed.spoilt = True
        elif bed.consumed or event.result != "ok" or event.ack == "auto":
            bed.odd = True
        else:
            bed.first = event
        bed.consumed = True

    # -- two reads

    def _judge(self, bed: Bed, event: Counters) -> None:
        last = bed.last
        if last is None or bed.odd or bed.spoilt or self._spoilt:
            return
        entry = most_specific(self._entries, event.dest or "")
        if entry is None or event.memory_bytes is None or last.memory_bytes is None:
            return
        if bed.first is not None:
            if not bed.sent:
                self._woken(bed, last, event, entry)
        elif not bed.consumed:
            self._undisturbed(bed, last, event, entry)

    def _undisturbed(self, bed: Bed, last: Counters, event: Counters, entry: DestinationSpec) -> None:
        """MEM-009, MEM-016: nobody consumes there."""
        before, used = last.memory_bytes or 0, event.memory_bytes or 0
        limit = event.memory_limit_bytes
        if limit is None:
            limit = entry.memory_limit_bytes or self._limit_bytes
        mark = entry.high_water_percent or MARK_PERCENT
        full = 0 < limit * mark <= before * 100 and (self._limit_bytes <= 0 or limit <= self._limit_bytes)
        grown = f"the memory of {event.dest} grew from {before} to {used} of {limit} bytes, the mark being {mark} %"
        witness = [last.seq, event.seq]
        if bed.sent:
            claim = self.claims["MEM-009"]
            if full and used > before:
                text = f"nobody consumed and {bed.sent} persistent messages arrived: {grown}"
                claim.fail(text, witness, outcome="added")
            elif full:
                claim.hold("the mark had been reached", outcome="nothing-added")
            return
        claim = self.claims["MEM-016"]
        most = self._sweeps(last.t0, event.t1, entry) * entry.max_expire_page_size
        if used > before and (full or used - before > most * bed.largest):
            text = f"nobody consumed, nothing arrived, and sweeps may load {0 if full else most} messages: {grown}"
            claim.fail(text, witness, outcome="without-space" if full else "more-than-a-page")
        elif self._sweeps(last.t1, event.t0, entry) > 1 and (event.size or 0) * OVERHEAD_MIN_BYTES > before:
            situation = "memory was above the mark" if full else "messages were in the store only"
            claim.hold(situation, outcome="a-page-at-most")

    def _woken(self, bed: Bed, last: Counters, event: Counters, entry: DestinationSpec) -> None:
        """MEM-023: everything was in the store only, then one consumer came."""
        used = event.memory_bytes or 0
        size = last.size or 0
        page = entry.max_page_size or PAGE
        if last.memory_bytes or size <= page or not used:
            return
        claim = self.claims["MEM-023"]
        held = event.in_flight or 0
        swept = self._sweeps(last.t0, event.t1, entry) * entry.max_expire_page_size
        if used > (page + held + swept) * bed.largest:
            text = (
                f"{size} messages were in the store only; when a consumer came, {used} bytes of {event.dest} came into "
                f"memory: more than {page + swept} messages and the {held} that it has in flight can cost"
            )
            claim.fail(text, [last.seq, event.seq], outcome="more-than-a-page")
        elif used <= page * bed.largest:
            claim.hold("there was more than a page", outcome="one-page")
        else:
            claim.hold("there was more than a page", outcome="a-window", grade="acceptable")

    def _sweeps(self, t0_ns: int, t1_ns: int, entry: DestinationSpec) -> int:
        """How many sweeps an interval may have seen."""
        period_ns = entry.expire_period_ms * NS_PER_MS
        return (t1_ns - t0_ns) // period_ns + 1 if period_ns > 0 else 0
