"""Backlog: what queues keep for certain, over time. Lower bounds, from messages that nothing but a consumer, an
operator or a restart takes from their queues.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import NamedTuple

from brokerproof.conformance.experiment.history import Discard
from brokerproof.conformance.facts.due import due_of
from brokerproof.conformance.facts.epochs import OVERHEAD_MIN_BYTES
from brokerproof.conformance.facts.expiration import may_die
from brokerproof.conformance.facts.presence import settles_unseen
from brokerproof.conformance.facts.rows import Copy, Delivery, Destination, Subscription
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, Span
from brokerproof.conformance.facts.tables import Tables


class Stay(NamedTuple):
    """One message on its queue, from ``begin_ns`` until ``end_ns`` for certain."""

    copy: Copy
    begin_ns: int
    end_ns: int


def stays(tables: Tables, *, delayed: bool = False) -> list[Stay]:
    """Of all messages of which that is known; ``delayed``: also those with a delay, from when it was over."""
    unseen = {dest.name: _unseen_ns(tables, dest) for dest in tables.destinations.values()}
    found: list[Stay] = []
    for copy in tables.copies:
        due = due_of(tables, copy.send) if delayed and copy.send.delayed else None
        if _is_kept(tables, copy, waited=due is not None):
            begin_ns = due.visible[1] if due is not None else copy.send.accepted[1]
            end_ns = _end_ns(tables, copy, unseen[copy.dest.name])
            if begin_ns < end_ns:
                found.append(Stay(copy, begin_ns, end_ns))
    return found


def spooled(tables: Tables) -> list[Stay]:
    """Of publications that wait for subscribers who are not durable, those that nobody throws out: each has a copy in
    temporary files, whatever its delivery mode (in virtual time; of a real broker's files nobody promises that).
    """
    found: list[Stay] = []
    if not tables.simulated or tables.declared.temp_limit_bytes <= 0:
        return found
    for send in tables.sends.values():
        lasting = send.confirmed and not send.timed and not send.event.again and not may_die(tables, send)
        if lasting and send.dest.kind == "topic" and send.dest.applied.entry.pending_message_limit is None:
            for one in send.dest.subscriptions:
                copy = send.copies.get(one.name) or Copy(send, one.name, send.dest, one)
                if _is_slow(one) and one.sessions[0].opened[1] < send.event.t0:
                    # What was on its way when its subscriber was lost waited no longer.
                    lost_ns = one.sessions[0].lost_ns - tables.declared.lateness_ms * NS_PER_MS
                    end_ns = min([lost_ns, *(delivery.assigned[0] for delivery in copy.deliveries)])
                    if send.accepted[1] < end_ns:
                        found.append(Stay(copy, send.accepted[1], end_ns))
    return found


def _is_slow(one: Subscription) -> bool:
    """Whether what one subscriber does not get is in its backlog."""
    session = one.sessions[0]
    known = session.known and not session.wild and not session.selective
    return known and not one.durable and not session.client.stalls


def _is_kept(tables: Tables, copy: Copy, *, waited: bool) -> bool:
    send = copy.send
    if not send.confirmed or send.copy is not copy or copy.dest.topic or copy.dest.kind == "dead-letters":
        return False
    if not send.event.persistent and not send.client.traits.awaits_receipt:
        return False  # its library need not wait until it is accepted
    if copy.dead_letters and not copy.deliveries:
        return False
    return (waited or not send.timed) and not may_die(tables, send)


def _unseen_ns(tables: Tables, dest: Destination) -> int:
    """From when on a message may have been written, and so be settled, without a trace: what was written before a rest
    that its consumer has seen had arrived by then.
    """
    unseen_ns = NEVER
    for session in dest.sessions:
        if settles_unseen(session):
            place = bisect_left(tables.rests_ns, session.lost_ns) if session.known else 0
            rest_ns = tables.rests_ns[place - 1] if place > 0 else 0
            unseen_ns = min(unseen_ns, max(session.opened[0], rest_ns))
    return unseen_ns


def _end_ns(tables: Tables, copy: Copy, unseen_ns: int) -> int:
    send, dest = copy.send, copy.dest
    ends = [unseen_ns, *(_leaves_ns(delivery) for delivery in copy.deliveries)]
    ends += [o.t0 for o in dest.purges if o.dest == dest.name and o.t1 >= send.event.t0]
    if tables.restarts and not (send.event.persistent and tables.declared.persistent):
        ends += [event.t0 for event in tables.restarts if event.t1 >= send.event.t0]
    return min(ends)


def _leaves_ns(delivery: Delivery) -> int:
    """The earliest time at which it can have left its queue."""
    session = delivery.session
    if session.auto:
        return delivery.assigned[0]
    if session.ack == "auto" or not session.traits.awaits_receipt:
        return delivery.event.t0  # its library may do what nobody sees
    return min([event.t0 for event in delivery.settlements if isinstance(event, Discard) or event.result != "fail"],
               default=NEVER)  # fmt: skip


def full_spans(kept: list[Stay], limit_bytes: int) -> list[Span]:
    """When the bodies of what was kept had so many bytes or more: spans in order, not overlapping."""
    changes = [(stay.begin_ns, stay.copy.send.event.size) for stay in kept]
    changes += [(stay.end_ns, -stay.copy.send.event.size) for stay in kept]
    changes.sort()  # what leaves at an instant leaves before something comes
    spans: list[Span] = []
    used_bytes, since_ns = 0, -1
    for at_ns, change in changes:
        used_bytes += change
        if since_ns < 0 and used_bytes >= limit_bytes:
            since_ns = at_ns
        elif since_ns >= 0 and used_bytes < limit_bytes:
            spans.append((since_ns, at_ns))
            since_ns = -1
    return [*spans, (since_ns, NEVER)] if since_ns >= 0 else spans


def lies_in(spans: list[Span], span: Span) -> bool:
    """Whether one of some spans began before another one and ended after it."""
    place = bisect_right(spans, span[0], key=lambda one: one[0]) - 1
    return place >= 0 and spans[place][0] < max(span[0], span[1]) and spans[place][1] > span[1]


class _Sums:
    """Bytes that had come, and that had gone, over time."""

    def __init__(self, kept: list[Stay]) -> None:
        come = sorted((stay.begin_ns, stay.copy.send.event.size + OVERHEAD_MIN_BYTES) for stay in kept)
        gone = sorted((stay.end_ns, stay.copy.send.event.size + OVERHEAD_MIN_BYTES) for stay in kept)
        self._come_ns, self._gone_ns = [at_ns for at_ns, _ in come], [at_ns for at_ns, _ in gone]
        self._come = [0, *accumulate(size for _, size in come)]
        self._gone = [0, *accumulate(size for _, size in gone)]

    def kept(self, t0: int, t1: int) -> int:
        """What came before ``t0`` and is certain to have stayed beyond ``t1``."""
        return self._come[bisect_right(self._come_ns, t0)] - self._gone[bisect_right(self._gone_ns, t1)]


class Kept:
    """What destinations keep, in bytes of memory that it costs at least; of messages that stay for ``long_ns``."""

    def __init__(self, kept: list[Stay], long_ns: int) -> None:
        staying = [stay for stay in kept if stay.end_ns - stay.begin_ns > long_ns and stay.copy.send.event.persistent]
        own: dict[str, list[Stay]] = {}
        for stay in staying:
            own.setdefault(stay.copy.dest.name, []).append(stay)
        self._all = _Sums(staying)
        self._own = {dest: _Sums(mine) for dest, mine in own.items()}

    def elsewhere(self, dest: str, t0: int, t1: int) -> int:
        """A lower bound of what other destinations keep throughout ``[t0, t1]``, a shorter time than ``long_ns``."""
        own = self._own.get(dest)
        return self._all.kept(t0, t1) - (own.kept(t0, t1) if own is not None else 0)
