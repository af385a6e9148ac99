"""Occupancy: when a destination certainly kept more than its own memory limit allows.

Only bytes of bodies count, of messages that were confirmed, visible, immortal and settled by nobody.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from brokerproof.conformance.facts.due import due_of, is_delayed
from brokerproof.conformance.facts.expiration import may_die
from brokerproof.conformance.facts.rows import Copy, Destination
from brokerproof.conformance.facts.spans import NEVER, Span
from brokerproof.conformance.facts.tables import Tables


class Occupancy:
    """Of one queue with a memory limit of its own."""

    __slots__ = ("_came", "_delayed_came", "_delayed_went", "_went", "dest", "limit_bytes")

    def __init__(self, tables: Tables, dest: Destination) -> None:
        self.dest = dest
        self.limit_bytes = dest.applied.memory_limit_bytes
        kept = [(_stay(tables, copy), copy) for copy in dest.copies if copy.send.confirmed]
        stays = [(span, copy.send.event.size, is_delayed(copy.send)) for span, copy in kept if span[0] < span[1]]
        self._came = Sums([(span[0], size) for span, size, _ in stays])
        self._went = Sums([(span[1], size) for span, size, _ in stays])
        self._delayed_came = Sums([(span[0], 1) for span, _, delayed in stays if delayed])
        self._delayed_went = Sums([(span[1], 1) for span, _, delayed in stays if delayed])

    def full(self, span: Span) -> bool:
        """Over its limit all the time, with messages among them that had waited for their delivery time."""
        low, high = span
        kept_bytes = self._came.up_to(low) - self._went.up_to(high)
        return kept_bytes > self.limit_bytes and self._delayed_came.up_to(low) > self._delayed_went.up_to(high)


class Sums:
    """Sums of figures up to an instant."""

    __slots__ = ("_sums", "_times_ns")

    def __init__(self, figures: list[tuple[int, int]]) -> None:
        figures.sort()
        self._times_ns = [at_ns for at_ns, _ in figures]
        self._sums = [0, *accumulate(figure for _, figure in figures)]

    def up_to(self, at_ns: int) -> int:
        """Of all with a time that is not later."""
        return self._sums[bisect_right(self._times_ns, at_ns)]


def _stay(tables: Tables, copy: Copy) -> Span:
    """From when until when a copy was on its queue and visible, and settled by nobody, for certain."""
    send = copy.send
    due = due_of(tables, send) if is_delayed(send) else None
    if may_die(tables, send) or (due is None and is_delayed(send)):
        return 0, 0
    begin_ns = due.visible[1] if due is not None else send.accepted[1]
    ends = [event.t0 for delivery in copy.deliveries for event in delivery.settlements]
    ends += [letter.event.t0 for letter in copy.dead_letters]
    ends += [d.event.t0 for d in copy.deliveries if d.session.auto or not d.session.traits.known]
    ends += [event.t0 for event in (*tables.restarts, *copy.dest.purges) if event.t1 >= begin_ns]
    return begin_ns, min(ends, default=NEVER)
