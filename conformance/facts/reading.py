"""Readings: what is known when counters are read. A part of the recording pass.

A reading at rest freezes what each open session has: nothing was moving, so the broker's view and the clients' agree.
"""

from __future__ import annotations

import msgspec

from brokerproof.conformance.experiment import destinations as names
from brokerproof.conformance.experiment.history import Counters, Nack
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.managed import is_queue_manager
from brokerproof.conformance.facts.rows import DOUBTFUL, SETTLED, Destination, Reading, Send, Subscription, Window
from brokerproof.conformance.facts.spans import NEVER, touches
from brokerproof.conformance.facts.tables import Tables, covers, looks_at


def read(tables: Tables, event: Counters) -> None:
    """Counters were read."""
    if event.at_rest and _overlaps_an_arrival(tables, event):
        event = msgspec.structs.replace(event, at_rest=False)
    dest = None if event.dest is None else tables.destination(event.dest)
    reading = Reading(event, dest)
    reading.drain = tables.phase in {"drain", "end"}
    reading.moved_seq = tables.moved_seq
    reading.sent_bytes = tables.sent_bytes
    reading.rejected = tables.rejected
    reading.restarts = len(tables.restarts)
    reading.unsure = bool(tables.unsure) if dest is None else dest.name in tables.unsure
    if tables.uncommitted:
        open_here = tables.uncommitted.values() if dest is None else [tables.uncommitted.get(dest.name, (0, 0))]
        reading.uncommitted = sum(count for count, _ in open_here)
        reading.uncommitted_bytes = sum(size for _, size in open_here)
    if event.at_rest and (not tables.rests_ns or tables.rests_ns[-1] < event.t0):
        tables.rests_ns.append(event.t0)
    if event.at_rest:
        tables.rests[event.t0] = event.seq
    if reading.at_rest:
        _settle(tables, reading)
    tables.readings.append(reading)
    if dest is None:
        reading.epoch = tables.epoch.copy()
        tables.destination(names.DEAD_LETTERS)
        reading.empty = _is_empty(tables, event)
        reading.idle = _count_idle(tables)
        tables.broker_readings.append(reading)
    else:
        reading.before = dest.readings[-1] if dest.readings else None
        _look(tables, reading, dest)
        dest.readings.append(reading)
        if not dest.topic:
            tables.queue_readings.append(reading)
            if event.at_rest:
                tables.queue_rests.append(reading)


def _overlaps_an_arrival(tables: Tables, event: Counters) -> bool:
    """Whether something arrived while figures were read, of which the reader was told too late: a busy agent."""
    return not tables.simulated and bool(tables.deliveries) and tables.deliveries[-1].event.t1 > event.t0


def _settle(tables: Tables, reading: Reading) -> None:
    """At rest destinations are read first, and then the broker."""
    if tables.settle and tables.settle[-1].moved_seq != reading.moved_seq:
        tables.settle = []
    if reading.dest is None:
        reading.parts, tables.settle = tables.settle, []
    else:
        tables.settle.append(reading)


def _look(tables: Tables, reading: Reading, dest: Destination) -> None:
    """Note what is known of a destination."""
    reading.charged_elsewhere = tables.charged - dest.charged
    if reading.charged_elsewhere:
        reading.most_elsewhere = max(other.charged for other in tables.destinations.values() if other is not dest)
    reading.ended = dest.ended > 0
    reading.arrived = dest.arrived
    reading.again = dest.again
    reading.sent_here_bytes = dest.sent_bytes
    reading.kept = dest.kept
    reading.charged = dest.charged
    reading.timed = dest.timed
    if not reading.at_rest:
        return
    event, last = reading.event, dest.rested
    reading.base = last if last is not None and last.ledger.stretch == reading.ledger.stretch else None
    if event.size is not None or event.enqueued is not None or event.in_flight is not None:  # else it is not there yet
        dest.rested = reading
    dest.ledger.act, dest.ledger.stirred = None, False
    if event.size == 0 and not event.in_flight and not event.scheduled and not dest.kept:
        dest.epoch.unclear = False  # what this reading itself says may still be of the time before
    reading.windows = [Window(session) for session in dest.open.values()]
    reading.wild = [Window(session) for session in tables.wild if not session.end and covers(session, dest)]
    roomy = [window.session for window in (*reading.windows, *reading.wild) if window.room()]
    for session in roomy:
        session.rooms_ns.append(event.t0)
    _count_in_flight(tables, reading, dest)
    _compare(reading)
    if dest.waiting and roomy:
        reading.waiting = list(dest.waiting.values())


def _count_in_flight(tables: Tables, reading: Reading, dest: Destination) -> None:
    """What is in flight, now that nothing moves. Of sessions of unknown existence nothing is certain."""
    ledger, unknown, guessed, doubt, unsure = reading.ledger, 0, 0, 0, 0
    for window in (*reading.windows, *reading.wild):
        if not window.session.known:
            unknown += window.held + window.doubted
            guessed += max(window.session.prefetch, window.held + window.doubted)
        elif tables.may_send_again(window.session):
            unsure += min(window.undone, max(0, window.held - window.session.prefetch))  # it waits for room again
        if window.session.known and window.session.traits.seen_when_taken:
            guessed += tables.unseen.get(window.session.name, 0)
        if not tables.simulated and touches(window.session.client.busy, reading.span):
            guessed += window.session.prefetch  # a real slow link may still carry them
    for browser in tables.lookers.values():
        if looks_at(browser.event, dest):
            ledger.browsing += browser.shown if browser.sure and browser.holds else 0
            doubt += 0 if browser.sure else NEVER
    if tables.transactions and not tables.simulated:
        guessed += _left_behind(dest)
    low = max(0, ledger.held + ledger.pledged - unknown - unsure)
    ledger.kept = max(0, ledger.pledged + ledger.undone - unsure)
    high = ledger.held + ledger.doubted - unknown + guessed + ledger.ghosts + doubt
    ledger.in_flight = (low + ledger.browsing, min(NEVER, high + ledger.browsing))


def _left_behind(dest: Destination) -> int:
    """What consumers that said goodbye had acknowledged in transactions that are open: a real broker may keep that with
    the transaction, or give it back at once.
    """
    gone = [delivery for session in dest.sessions if session.end == "close" for delivery in session.deliveries]
    open_ = [one for one in gone if one.transaction is not None and one.transaction.end is None]
    return sum(one.state == DOUBTFUL for one in open_)


def _compare(reading: Reading) -> None:
    """Whether as much has come, less what went, as is there: compared with the reading at rest before, or with 0."""
    base, event = reading.base, reading.event
    excess, earlier = _excess(event), _excess(base.event) if base is not None else 0
    if excess is None or earlier is None:
        return
    if base is not None or reading.ledger.from_start:
        kept, before = event.scheduled or 0, (base.event.scheduled or 0) if base is not None else 0
        counting = (excess == earlier) + 2 * (excess - kept == earlier - before)
        counting &= base.ledger.counting if base is not None else 3
        reading.ledger.conserved = counting > 0
        reading.ledger.counting = counting or 3
    elif reading.ledger.purge is not None and not excess:
        reading.ledger.conserved = True  # a purge leaves nothing, and nothing is missing, however it was counted


def _excess(event: Counters) -> int | None:
    """What a destination has counted in, not out, and does not have."""
    if event.enqueued is None or event.dequeued is None or event.size is None:
        return None
    return event.enqueued - event.dequeued - event.size


def _is_empty(tables: Tables, event: Counters) -> bool:
    """Whether nothing is anywhere; only the broker's own total speaks for what others may have left there."""
    if not event.at_rest or event.size != 0 or event.scheduled:
        return False
    topics = [dest for dest in tables.destinations.values() if dest.topic and dest.sent_bytes]
    for subscription in tables.subscriptions if topics else ():
        if subscription.durable and not all(_has_settled(subscription, send) for dest in topics for send in dest.sends):
            return False
    return all(_is_drained(tables, dest) for dest in tables.destinations.values())


def _has_settled(subscription: Subscription, send: Send) -> bool:
    """Whether a durable subscription has certainly dealt with a publication, or was never owed it."""
    begin = subscription.begin
    if subscription.ended or (begin is not None and not subscription.again and send.accepted[1] < begin.t0):
        return True
    copy = send.copies.get(subscription.name)
    return copy is not None and bool(copy.deliveries) and copy.deliveries[-1].state == SETTLED


def _is_drained(tables: Tables, dest: Destination) -> bool:
    """Whether a reading at rest since the last event found nothing there, or nothing can be there."""
    if not dest.sent_bytes and dest.name != names.DEAD_LETTERS:
        return True
    event = dest.readings[-1].event if dest.readings else None
    if event is not None and event.at_rest and event.seq > tables.moved_seq and not event.scheduled:
        if dest.topic:
            # Somebody may have said goodbye behind a message that the broker does not take.
            return not dest.open and not event.in_flight and (event.scheduled == 0 or not dest.timed)
        return event.size == 0 and event.in_flight == 0
    if dest.kind == "temporary":
        return not (dest.ledger.held or dest.ledger.doubted)  # nobody reads its figures; the total includes them
    return _is_idle(tables, dest)


def _count_idle(tables: Tables) -> int:
    """How many of which nobody reads the figures have nothing; none if some temporary queue may have
    something, or is gone, or be sent a queue manager's reports."""
    if is_queue_manager(tables):
        return 0
    for dest in tables.destinations.values():
        gone = dest.kind == "temporary" and tables.marks.spans(marks.OPERATOR, dest.name)
        if gone or (dest.kind == "temporary" and dest.sent_bytes and not _is_idle(tables, dest)):
            return 0
    untold = tables.uncommitted.keys() | tables.unsure.keys()  # somebody may have sent there in a transaction
    return sum(_is_idle(tables, one) for one in tables.destinations.values() if one.name not in untold)


def _is_idle(tables: Tables, dest: Destination) -> bool:
    """Nobody reads its figures, but somebody who would take anything is there and nobody holds anything: that is how
    dead letters are known gone, and what was sent to a temporary queue.
    """
    ledger = dest.ledger
    if dest.kind not in {"dead-letters", "temporary"} or dest.readings or dest.timed:
        return False
    if dest.kind == "dead-letters" and "~" in dest.name:
        return False  # it has the name that the broker gave the temporary queue
    if any(send.event.again for send in dest.sends):
        return False  # the broker may not have missed the connection yet, nor what that holds
    if any(isinstance(one.settlement, Nack) for session in dest.sessions for one in session.deliveries):
        return False  # what is rejected may wait for its next delivery
    there = dest.open.values()
    if any(looks_at(browser.event, dest) for browser in tables.lookers.values()):
        return False  # what it was shown may be in flight
    reached = any(s.known and s.prefetch for s in there) and not any(s.selective for s in there)
    if reached and not (ledger.held or ledger.doubted or ledger.ghosts):
        return True
    # Its consumer has left: what was sent there has been settled. Nothing sent: it may not be there yet.
    settled = bool(dest.sends) and all(_is_settled(send) for send in dest.sends)
    return dest.kind == "temporary" and settled and not ledger.ghosts


def _is_settled(send: Send) -> bool:
    copy = send.copy
    return copy is not None and bool(copy.deliveries) and copy.deliveries[-1].state == SETTLED
