"""Tightening: the fixed list of passes after the recording; each only shrinks spans, or puts marks, from all evidence.

1. *Acceptance*: nobody sees what was not accepted, so the first sight of a message bounds its acceptance.
2. *Departure*: a goodbye was read before whatever the broker confirmed later on the same connection.
3. *Assignment*: not before a slot of the window can have been free, nor before the session that had the copy earlier
   can have lost it.
4. *Marks*: each row carries the kinds of all marks that touch its life.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Discard, Nack
from brokerproof.conformance.facts.presence import leaving_ns
from brokerproof.conformance.facts.pressure import mark_pressure
from brokerproof.conformance.facts.rows import Copy, Delivery, Session
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.facts.tables import Tables


def tighten(tables: Tables) -> None:
    """All passes, in order."""
    _bound_acceptance(tables)
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
        copy = delivery.copy
        if len(copy.deliveries) > 1 and copy.subscription is None:
            low = max(low, _returned_ns(copy, delivery))
        delivery.assigned = (min(low, high), high)


def _returned_ns(copy: Copy, delivery: Delivery) -> int:
    """A time before which the copy cannot have come back from the session at which it arrived just before; 0 if
    nothing is known.
    """
    earlier: Delivery | None = None
    for other in copy.deliveries:
        if other is delivery:
            break
        earlier = other
    if earlier is None or earlier.session is delivery.session:
        return 0
    session = earlier.session
    if session.uncertain or session.leave is None or earlier.event.t0 > leaving_ns(session):
        return 0
    at_ns = delivery.event.t1
    refused = [
        event.t0
        for one in copy.deliveries
        for event in one.settlements
        if isinstance(event, Discard | Nack) and event.t0 <= at_ns
    ]
    bound = min([leaving_ns(session), *refused])
    return bound if bound <= at_ns else 0  # otherwise it came back in a way that nobody saw


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
        reading.marks = on(reading.dest.name if reading.dest is not None else "", (0, reading.event.t1))
