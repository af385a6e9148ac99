"""Presence: by when the broker had let a session go, who else may have been served, who stayed undisturbed.

At a reading at rest nothing was moving, so what was on its way before has arrived: goodbyes, settlements, messages.
"""

from __future__ import annotations

from bisect import bisect_left

from brokerproof.conformance.experiment.history import Poll, Unsubscribe
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.rows import Client, Copy, Delivery, Session
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, t1_of, touches
from brokerproof.conformance.facts.tables import Tables


def rest_after(tables: Tables, true_ns: int) -> int:
    """The first instant from ``true_ns`` on at which nothing was moving; ``NEVER`` if there is none."""
    return first_from(tables.rests_ns, true_ns)


def first_from(instants: list[int], true_ns: int) -> int:
    """The first of rising instants from ``true_ns`` on; ``NEVER`` if there is none."""
    index = bisect_left(instants, true_ns)
    return instants[index] if index < len(instants) else NEVER


def open_until(tables: Tables, session: Session) -> int:
    """Until when the broker has certainly not ended a connection that its client has seen ending: at rest nothing was
    on its way, in virtual time, the news of an end neither, unless a link held it.
    """
    if not tables.simulated or not tables.rests_ns or session.client.stalls:
        return session.opened[0]
    return max(session.opened[0], tables.rests_ns[-1])


def ended_since(client: Client, since_ns: int) -> bool:
    """Whether an end of a connection of its was seen at or after an instant."""
    return any(end.t1 >= since_ns for end in (*client.closes[-1:], *client.ends[-1:]))


def gone_ns(tables: Tables, session: Session) -> int:
    """By when the broker had let a session go, for certain; ``NEVER`` while it is open."""
    if not session.end:
        return NEVER
    rest_ns, leave = rest_after(tables, session.ended_ns), session.leave
    if rest_ns == session.ended_ns and leave is not None and tables.rests[rest_ns] < leave.seq:
        rest_ns = rest_after(tables, rest_ns + 1)  # nothing had moved before it went, at that very instant
    return min(session.gone_ns, rest_ns)


def settles_unseen(session: Session) -> bool:
    """Whether the broker settles what it writes to a session, so that nobody sees that who does not see it arrive."""
    return session.ack == "auto" and not session.traits.settles_by_itself


def departed_ns(session: Session) -> int:
    """When its goodbye was written, or had crossed a stalled link: all that is left to it is the way to the broker.
    ``NEVER``: it stays, or nobody knows.
    """
    leave, closed = session.leave, session.closed
    by_itself = closed is not None and closed.who == "client" and closed.host == session.client.name
    if leave is None or session.end == "broker" or (session.end == "closed" and not by_itself):
        return session.gone_ns
    for stall in session.client.stalls:
        low, high = stall.span()
        if low <= leave.t1 <= high:
            return high
    return leave.t1


def leaving_ns(session: Session) -> int:
    """The broker may have taken its messages back from here on; ``NEVER`` while it is open."""
    if session.leave is None:
        return NEVER
    bound = min(session.lost_ns, session.leave.t0)
    for stall in session.client.stalls:
        low, high = stall.span()
        if low <= session.leave.t1 <= high:
            bound = min(bound, low)
    return bound


def kept_connection(tables: Tables, client: Client, t0: int, t1: int) -> bool:
    """Whether no end of a client's connection was seen between two instants."""
    for ends in (client.closes, client.ends):
        place = bisect_left(ends, t0, key=t1_of)
        if place < len(ends) and ends[place].t0 <= t1:
            return False
    return not tables.restarted(t0, t1)


def is_bereft(session: Session, by_ns: int) -> bool:
    """Whether its durable subscription may have been ended under it, where a broker does that: nobody promises what
    becomes of what it holds, nor that it may still say goodbye.
    """
    used, leave = session.subscription, session.leave
    end = used.end if used is not None else None
    if not isinstance(end, Unsubscribe) or end.t0 > by_ns or session.opened[0] >= end.t1:
        return False
    return leave is None or leave.t0 > end.t0


def undisturbed(tables: Tables, session: Session) -> bool:
    """It stayed to the end, or was closed in the drain, when nothing was on its way any more."""
    if session.uncertain:
        return False
    if session.leave is None:
        return True
    drain = tables.phases.get("drain")
    return drain is not None and session.end == "close" and leaving_ns(session) >= drain.t0


def asks(session: Session) -> bool:
    """Whether a consumer is given only what it asks for, one at a time."""
    return session.prefetch == 0 and not session.auto


def roomy_ns(tables: Tables, session: Session) -> list[int]:
    """Instants, rising, at which nothing was moving while a session was there and had room, or from which on one that
    asks did so long in vain, for certain: all that it was owed by then had reached it.
    """
    if not session.known or session.event is None:
        return []
    if asks(session):
        return [poll.t0 for poll in tables.polls if poll.consumer == session.name and asked_in_vain(tables, poll)]
    rooms = session.rooms_ns[bisect_left(session.rooms_ns, session.event.t1) :]
    if len(session.deliveries) < session.least:
        rests = tables.rests_ns
        found = rests[bisect_left(rests, session.event.t1) : bisect_left(rests, session.lost_ns)]
        rooms = rooms if rooms[-1:] > found[-1:] else found
    busy = [] if tables.simulated else session.client.busy  # what a real slow link carries looks like nothing moving
    return [ns for ns in rooms if not any(low <= ns <= high for low, high in busy)] if busy else rooms


def disturbed(tables: Tables, client: Client, t0: int, t1: int) -> bool:
    """Whether a fault may have kept a client and the broker from hearing each other in ``[t0, t1]``."""
    monitor = tables.declared.monitor.get(client.name)
    if monitor is not None and monitor.read_ms < 0:
        return True
    return client.stalled(t0, t1) or bool(tables.marks.on("", (t0, t1)) & (marks.RESTART | marks.PAUSE))


def asked_in_vain(tables: Tables, poll: Poll) -> bool:
    """Whether a consumer asked for a message, for so long that the broker would have given it one, and got none: it was
    given before all that it was owed when it began to ask.
    """
    patience_ms, client = tables.declared.lateness_ms, tables.client(poll.host)
    if poll.message is not None or (poll.timeout_ms or 0) < patience_ms:
        return False
    waited = poll.t1 - poll.t0 >= patience_ms * NS_PER_MS
    kept_off = disturbed(tables, client, poll.t0, poll.t1) or touches(client.busy, (poll.t0, poll.t1))
    return waited and not kept_off


def unseen_ns(tables: Tables, session: Session) -> int:
    """How long what is published may be on its way to a session in real time, where nobody counts it and all looks at
    rest: a topic is not read. Who asks for messages has asked for that long (``roomy_ns``).
    """
    return 0 if tables.simulated or asks(session) else tables.declared.lateness_ms * NS_PER_MS


def sessions_of(copy: Copy) -> list[Session]:
    """Who may be given a copy: the sessions of its queue, or of its subscription."""
    return copy.dest.sessions if copy.subscription is None else copy.subscription.sessions


def maybe_elsewhere(tables: Tables, delivery: Delivery, *, stored: bool = False) -> bool:
    """Whether another session may have been assigned the copy, and have lost it, before this arrival. ``stored``: a
    restart is no excuse for what is in the store.
    """
    at_ns, since_ns = delivery.event.t1, delivery.send.event.t0
    subscription = delivery.copy.subscription
    # A durable one of which nobody knows when it began may be one before that.
    unclear = subscription is None or (subscription.durable and subscription.doubtful)
    for session in delivery.dest.sessions if unclear else sessions_of(delivery.copy):
        if session is delivery.session or session.opened[0] > at_ns or session.lost_ns > at_ns:
            continue
        if gone_ns(tables, session) >= since_ns:
            return True
    kept = stored and delivery.send.event.persistent and tables.remembers
    return not kept and tables.restarted(since_ns, at_ns)
