"""Tally: what a counter can be, as bounds. Rules never add rows themselves: a row that nobody knows widens the sum."""

from __future__ import annotations

from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.rows import RETURNED, Reading, Session
from brokerproof.conformance.facts.spans import NEVER, Span
from brokerproof.conformance.facts.tables import Tables


def in_flight(tables: Tables, reading: Reading) -> Span:
    """Least and greatest in-flight count of a destination that agrees with what was seen, at a reading at rest."""
    low = high = 0
    for window in reading.windows:
        session = window.session
        if session.auto:
            continue
        if session.known:
            low += window.held
            high += window.held + window.doubted
        else:
            high += max(session.prefetch, window.held + window.doubted)
    if reading.dest is not None and tables.marks.on(reading.dest.name, reading.span) & (marks.BROWSER | marks.WILDCARD):
        high = NEVER
    return low, high


def untransmitted(session: Session) -> int:
    """How many messages, at most, were assigned to a session and not transmitted when it left."""
    if not session.traits.awaits_receipt or session.auto:
        return session.prefetch
    kept = 0
    for delivery in session.deliveries:
        if delivery.fate == RETURNED and delivery.settlement is None and delivery.event.t1 <= session.lost_ns:
            kept += 1
    return max(0, session.prefetch - kept)
