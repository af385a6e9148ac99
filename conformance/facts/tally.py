"""Tally: what counters can be, as bounds. Rules never add rows themselves: a row that nobody knows widens the sum, and
what makes totals begin anew moves what they are compared with.

A reading at rest is compared with the one before it of the same stretch (``ledger.py``), or with 0 at its beginning.
"""

from __future__ import annotations

from bisect import bisect_right

from brokerproof.conformance.facts.pressure import pressed
from brokerproof.conformance.facts.rows import RETURNED, SETTLED, Destination, Reading, Session
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, Span
from brokerproof.conformance.facts.tables import Tables, looks_at


def is_wide(reading: Reading) -> bool:
    """The reading took time, and a timer of the broker may have acted meanwhile, on what was not settled before: no
    other reading beside it says the same.
    """
    return reading.event.t1 > reading.event.t0 and has_timed(reading) and not _is_repeated(reading)


def _is_repeated(reading: Reading) -> bool:
    """Whether the one before it, or after it, has the same figures. Totals only grow, so nothing happened from the one
    to the other.
    """
    readings = [] if reading.dest is None else reading.dest.readings
    place = bisect_right(readings, reading.event.seq, key=lambda one: one.event.seq)
    beside = [one for one in (reading.before, *readings[place : place + 1]) if one is not None]
    figures = _told(reading)
    return figures is not None and any(one.restarts == reading.restarts and _told(one) == figures for one in beside)


def _told(reading: Reading) -> tuple[int | None, ...] | None:
    """Its totals, and what they have left; None: it lacks one of the totals."""
    event = reading.event
    if event.enqueued is None or event.dequeued is None:
        return None
    return event.enqueued, event.dequeued, event.dispatched, event.expired, event.size, event.in_flight


def has_timed(reading: Reading) -> bool:
    """Whether there may be something on which a timer may act: not all of a queue's had certainly left it."""
    dest = reading.dest
    if not reading.timed or dest is None or dest.topic:
        return reading.timed > 0
    if dest.over_ns is None:
        last = [copy.deliveries[-1] for copy in dest.copies if copy.send.timed and copy.deliveries]
        over = [one.settlement for one in last if one.state == SETTLED and one.transaction is None]
        dest.over_ns = sorted(event.t1 for event in over if event is not None)
    return reading.timed > bisect_right(dest.over_ns, reading.event.t0)


def is_crowded(tables: Tables, reading: Reading) -> bool:
    """Whether a free window may rightly stay free although a message waits: memory may be scarce, somebody may hold
    what seems to wait, a page is full, or a consumer or a group keeps others from messages.
    """
    windows, dest = (*reading.windows, *reading.wild), reading.destination
    for window in windows:
        event = window.session.event
        if event is None or not window.session.known or event.exclusive or event.priority:
            return True
    full = sum(window.held + window.doubted for window in windows) >= dest.applied.page
    return full or dest.grouped or pressed(tables, dest, reading)


def is_known(reading: Reading) -> bool:
    """All sessions that may be there are."""
    return all(window.session.known for window in (*reading.windows, *reading.wild))


def dispatched(reading: Reading) -> Span:
    """Least and greatest dispatched count at a reading at rest. Who left may have been sent what nobody saw, browsers
    count as well. What a timer let go during a wide reading, or was on its way to who had left, may be counted before
    it arrives.
    """
    base, ledger = reading.base, reading.ledger
    if base is not None and base.event.dispatched is not None:
        high = base.event.dispatched + ledger.arrived - base.ledger.arrived
        low = base.event.dispatched if is_wide(base) else high - (ledger.tardy - base.ledger.tardy)
        same = ledger.departed == base.ledger.departed
    elif base is None and ledger.zeroed:
        low = high = ledger.arrived
        same = not ledger.departed
    else:
        return 0, NEVER
    certain = same and not ledger.browsed and not is_wide(reading) and is_known(reading)
    return low, high if certain else NEVER


def came_since_purge(reading: Reading) -> int:
    """How many messages, at most, can have come since the last purge."""
    ledger, purge = reading.ledger, reading.ledger.purge
    return ledger.sent - purge.before + purge.loose if purge is not None else NEVER


def untransmitted(session: Session) -> int:
    """How many messages, at most, were assigned to a session and not transmitted when it left."""
    if not session.traits.awaits_receipt or session.auto:
        return session.prefetch
    kept = 0
    for delivery in session.deliveries:
        if delivery.state == RETURNED and delivery.settlement is None and delivery.event.t1 <= session.lost_ns:
            kept += 1
    return max(0, session.prefetch - kept)


class Consumers:
    """Who consumed from one destination, by time: when the first synchronous, the first asynchronous and the first
    consumer came that was not STOMP's; ``auto_seq``: the event until which the broker settled for all.
    """

    def __init__(self, tables: Tables, dest: Destination) -> None:
        self.sync_ns = self.async_ns = self.other_ns = NEVER
        self.auto_seq = NEVER if dest.sessions else 0
        offered = "sync-dispatch" in tables.header.capabilities
        opened: list[int] = []
        swings: list[tuple[int, int]] = []
        for session in dest.sessions:
            self._take(session)
            # A broker without synchronous dispatch gives everybody the other one, whatever was asked.
            if not (session.sync and offered):
                opened.append(session.opened[0])
                swings.append((session.lost_ns, untransmitted(session)))
        for event in tables.browsers.values():
            if looks_at(event, dest):
                self.async_ns, self.auto_seq = min(self.async_ns, event.t0), min(self.auto_seq, event.seq)
                opened.append(event.t0)
                swings.append((event.t0, event.prefetch))
        #: Real brokers run the callback that counts a moment after the write.
        self._opened_ns = sorted(opened) if not tables.simulated else []
        swings.sort()
        self._lost = [lost_ns for lost_ns, _ in swings]
        self._swings = [0]
        for _, most in swings:
            self._swings.append(self._swings[-1] + most)

    def _take(self, session: Session) -> None:
        at_ns, event = session.opened[0], session.event
        if session.sync:
            self.sync_ns = min(self.sync_ns, at_ns)
        else:
            self.async_ns = min(self.async_ns, at_ns)
        if session.client.via != "stomp":
            self.other_ns = min(self.other_ns, at_ns)
        if event is None or not session.auto or not session.known:
            self.auto_seq = min(self.auto_seq, event.seq if event is not None else 0)
        elif session.leave is not None:
            self.auto_seq = min(self.auto_seq, session.leave.seq)

    def swing(self, at_ns: int) -> int:
        """How far below zero the in-flight count can have been by then: what sessions that had left were assigned, and
        had not been transmitted.
        """
        return self._swings[bisect_right(self._lost, at_ns)] + bisect_right(self._opened_ns, at_ns)


class Tally:
    """Answers for one run; keeps what it has found per destination."""

    def __init__(self, tables: Tables) -> None:
        self._owed_ns: dict[str, list[int]] = {}
        self._tables = tables
        self._consumers: dict[str, Consumers] = {}
        self._earliest_ms: dict[str, int] = {}

    def consumers(self, dest: Destination) -> Consumers:
        """Who consumed from a destination."""
        found = self._consumers.get(dest.name)
        if found is None:
            found = self._consumers[dest.name] = Consumers(self._tables, dest)
        return found

    def waits(self, session: Session, reading: Reading) -> bool:
        """Whether, at a reading at rest, there is more for a session than its destination's consumers have."""
        event, dest = reading.event, reading.destination
        if not dest.topic:
            most = max(reading.ledger.in_flight[1], event.in_flight or 0)
            return event.size is not None and event.size > most and event.size > most + self._pledged(reading)
        owed_ns = self._owed_ns.get(session.name)
        if owed_ns is None:
            sends = [send.event for send in dest.sends if send.confirmed and send.transaction is None]
            owed_ns = sorted(send.t1 for send in sends if session.opened[1] <= send.t0)
            self._owed_ns[session.name] = owed_ns
        got = next((window.arrived for window in reading.windows if window.session is session), NEVER)
        return len(dest.sessions) == 1 and bisect_right(owed_ns, event.t0) > got

    def _pledged(self, reading: Reading) -> int:
        """How many messages may have been acknowledged in transactions that are open: nobody else gets these."""
        seq, count = reading.event.seq, 0
        for transaction in self._tables.transactions.values():
            if transaction.end is None or transaction.end.seq > seq:
                count += sum(len(ack.messages) for ack in transaction.acks if ack.seq < seq)
        return count

    def is_calm(self, dest: Destination, reading: Reading) -> bool:
        """Whether nothing there can have expired by then."""
        tables = self._tables
        earliest_ms = self._earliest_ms.get(dest.name)
        if earliest_ms is None:
            stamped = tables.declared.timestamping is not None
            mortal = [send.event for send in dest.sends if send.event.mortal()]
            limits = [0 if event.life_ms or stamped else event.expiration_ms for event in mortal]
            earliest_ms = self._earliest_ms[dest.name] = min([*limits, *([0] if stamped and dest.timed else []), NEVER])
        if earliest_ms == NEVER:
            return True
        clock = tables.broker_clock
        return clock.known and clock.bounds_ns(*reading.span)[1] < earliest_ms * NS_PER_MS
