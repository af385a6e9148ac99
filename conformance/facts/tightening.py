"""Tightening: the fixed list of passes after the recording; each only shrinks spans, or puts marks, from all evidence.

1. *Acceptance*: nobody sees what was not accepted, so the first sight of a message bounds its acceptance.
2. *Departure*: a goodbye was read before whatever the broker confirmed later on the same connection.
3. *Assignment*: not before a slot of the window can have been free, nor before the session that had the copy earlier
   can have lost it.
4. *Marks*: each row carries the kinds of all marks that touch its life.
"""

from __future__ import annotations

from itertools import pairwise

from brokerproof.conformance.experiment.history import Discard, Nack
from brokerproof.conformance.facts.marks import WHOLE
from brokerproof.conformance.facts.presence import leaving_ns
from brokerproof.conformance.facts.pressure import began_ns, mark_pressure
from brokerproof.conformance.facts.rows import LATE, Copy, Session
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.facts.tables import Tables


def tighten(tables: Tables) -> None:
    """All passes, in order."""
    _bound_acceptance(tables)
    for copy in tables.copies:
        if len(copy.deliveries) > 1 and copy.subscription is None:
            _bound_returns(copy)
    windows = "prefetch" in tables.header.capabilities
    for session in tables.sessions.values():
        _bound_assignments(session, windows=windows)
    mark_pressure(tables)
    if not tables.marks.empty:
        _mark_rows(tables)


def _bound_acceptance(tables: Tables) -> None:
    for send in tables.sends.values():
        if send.seen is not None and send.seen.t1 < send.accepted[1]:
            send.accepted = (send.accepted[0], max(send.accepted[0], send.seen.t1))


def _bound_assignments(session: Session, *, windows: bool) -> None:
    session.freed_ns.sort()
    freed, prefetch = session.freed_ns, session.prefetch
    counted = windows and 0 < prefetch < NEVER and not session.auto
    for place, delivery in enumerate(session.deliveries):
        low, high = delivery.assigned
        low = max(low, session.opened[0])
        needed = place - prefetch + 1
        # Otherwise the window was overrun: another requirement's affair.
        if counted and 0 < needed <= len(freed) and freed[needed - 1] <= high:
            low = max(low, freed[needed - 1])
        delivery.assigned = (min(low, high), high)


def _bound_returns(copy: Copy) -> None:
    """A copy cannot have been assigned again before the session at which it arrived just before may have left, or
    anybody had refused it.
    """
    settlements = [event for delivery in copy.deliveries for event in delivery.settlements]
    refused_ns = min([event.t0 for event in settlements if isinstance(event, Discard | Nack)], default=NEVER)
    for earlier, delivery in pairwise(copy.deliveries):
        session = earlier.session
        if session is delivery.session or session.uncertain or session.leave is None:
            continue
        if delivery.state == LATE or any(
            stall.span()[1] >= earlier.event.t0 for stall in delivery.session.client.stalls
        ):
            continue  # it was on its way, or may have been, since before the other was given it
        leaving = leaving_ns(session)
        bound, (low, high) = min(leaving, refused_ns), delivery.assigned
        if earlier.event.t0 <= leaving and bound <= high:  # otherwise it came back in a way that nobody saw
            delivery.assigned = (max(low, bound), high)


def _mark_rows(tables: Tables) -> None:
    on = tables.marks.on
    for send in tables.sends.values():
        send.marks = on(send.event.dest, (send.event.t0, send.accepted[1]))
    for copy in tables.copies:
        copy.marks = on(copy.dest.name, (copy.send.event.t0, NEVER))
        for delivery in (*copy.deliveries, *copy.dead_letters):
            delivery.marks = on(delivery.dest.name, (copy.send.event.t0, delivery.event.t1))
    for session in tables.sessions.values():
        session.marks = on(session.dest.name, (session.opened[0], min(session.ended_ns, NEVER)))
    for reading in tables.readings:
        dest, end_ns = reading.dest, reading.event.t1
        reading.marks = on(WHOLE, (0, end_ns)) if dest is None else on(dest.name, (min(began_ns(dest), end_ns), end_ns))
