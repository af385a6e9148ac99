"""Returning: what a session left unsettled when it went: its redeliveries, and the queues that one left to the next.

A redelivery is the second of two deliveries of one copy in a row, made for certain after the session of the first was
gone; nobody had tried to settle the first one. What an operator may have moved meanwhile is none.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from brokerproof.conformance.facts.deliveries import at_home, came_back
from brokerproof.conformance.facts.presence import gone_ns
from brokerproof.conformance.facts.rows import LATE, Delivery, Destination, Session
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.facts.tables import Tables


class Redelivery(NamedTuple):
    """See the module's header. Its marks are those between the two arrivals."""

    first: Delivery
    second: Delivery
    marks: int

    def unsaid(self) -> bool:
        """The broker was not told what the application had been given."""
        session = self.first.session
        if session.end == "close":
            return session.traits.known and not session.traits.tells_given
        return session.end in {"drop", "kill", "closed"}


class Handover(NamedTuple):
    """A queue that ``one`` session, alone on it, left to the ``other``, which was alone until ``until_ns``."""

    dest: Destination
    one: Session
    other: Session
    until_ns: int
    marks: int


def redeliveries(tables: Tables) -> list[Redelivery]:
    """All of them."""
    found: list[Redelivery] = []
    for copy in tables.copies:
        for first, second in pairwise(copy.deliveries) if len(copy.deliveries) > 1 else ():
            if not came_back(first) or not first.session.known or second.state == LATE:
                continue
            if second.session.lost_ns > first.event.t1 and at_home(first) and at_home(second):
                span = (first.event.t0, second.event.t1)
                found.append(Redelivery(first, second, tables.marks.on(copy.dest.name, span)))
    return found


def handovers(tables: Tables) -> list[Handover]:
    """All of them, on queues."""
    found: list[Handover] = []
    for dest in tables.destinations.values():
        if dest.topic or len(dest.sessions) < 2:
            continue
        sessions = sorted(dest.sessions, key=lambda session: session.opened[0])
        opens = [*(session.opened[0] for session in sessions[2:]), NEVER]
        left_ns = 0
        for one, other, until_ns in zip(sessions, sessions[1:], opens, strict=False):
            alone = left_ns <= one.opened[0] and one.known and other.known and not one.auto
            left_ns = max(left_ns, gone_ns(tables, one))
            if alone and one.deliveries and other.deliveries and _gone_before(tables, one, other):
                span = (one.opened[0], min(until_ns, other.deliveries[-1].event.t1))
                found.append(Handover(dest, one, other, until_ns, tables.marks.on(dest.name, span)))
    return found


def _gone_before(tables: Tables, one: Session, other: Session) -> bool:
    if gone_ns(tables, one) <= other.opened[0]:
        return True
    # One connection keeps its order: the goodbye was read before the new subscription.
    same = one.client is other.client and one.end_connection == other.connection and one.traits.awaits_receipt
    return same and one.end == "close" and one.ended_ns <= other.opened[0]
