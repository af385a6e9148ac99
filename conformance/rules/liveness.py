"""Who is entitled to a message and has room is given it (GEN-120 to GEN-123); where figures are told, plain consumers:
``prefetch.py``.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

from brokerproof.conformance.experiment.history import Leave, Poll
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.absence import maybe_swallowed
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.policy import PAGE
from brokerproof.conformance.facts.presence import asked_in_vain, departed_ns, gone_ns, leaving_ns
from brokerproof.conformance.facts.pressure import pressed, scarce_ns
from brokerproof.conformance.facts.rows import RETURNED, Copy, Delivery, Destination, Reading, Session, Window
from brokerproof.conformance.facts.selectors import surely_wants
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, Span, ms
from brokerproof.conformance.facts.starvation import TRIES
from brokerproof.conformance.rules.rule import Findings, broken, held, rule
from brokerproof.conformance.rules.selecting import queues_at_rest

#: Whatever an operator takes, or the broker itself brings again.
BLIND: Final = marks.OPERATOR | marks.REDELIVERY | marks.REPEATED
#: So many messages of a queue are looked at: that were given at once, and later.
GIVEN: Final = 8
LATE: Final = 64


def with_owners(facts: Facts) -> list[Reading]:
    """Counters of queues at rest that have had an exclusive consumer, and have consumers."""
    exclusive = {s.dest.name: True for s in facts.sessions.values() if s.event is not None and s.event.exclusive}
    if not exclusive:
        return []
    readings = [one for one in queues_at_rest(facts) if one.destination.name in exclusive]
    return [one for one in readings if one.windows and not one.wild and _is_clear(facts, one)]


def _is_clear(facts: Facts, reading: Reading) -> bool:
    """Whether nothing but the broker decides who is given what: all that are there are known, and nothing is scarce."""
    windows = (*reading.windows, *reading.wild)
    known = all(window.session.known and window.session.event is not None for window in windows)
    held_now = sum(window.held + window.doubted for window in windows)
    paged = held_now >= reading.destination.applied.page or held_now + len(reading.waiting) >= PAGE
    return known and not paged and not pressed(facts, reading.destination, reading)


def _left_lying(facts: Facts, reading: Reading, windows: list[Window], *, groups: bool) -> Copy | None:
    """A copy that waits for certain although every one of these windows has room for it and wants it."""
    if not windows or not all(window.room() and window.session.prefetch > 0 for window in windows):
        return None
    dest, at_ns = reading.destination, reading.event.t1
    paged = facts.may_page(dest)
    if paged and any(one.session.selective or (one.session.event and one.session.event.no_local) for one in windows):
        return None  # the page is full of what nobody wants
    for copy in reversed(reading.waiting[-TRIES:]):
        if (copy.send.event.group != "") is not groups or maybe_swallowed(facts, copy):
            continue
        wanted = all(surely_wants(window.session, copy.send) for window in windows)
        if wanted and not facts.marks.on(dest.name, (copy.send.event.t0, at_ns)) & BLIND:
            return copy
    return None


@rule("GEN-120", over=with_owners, handles=KINDS)
def owners_are_served(facts: Facts, reading: Reading) -> Findings:
    """What waits on a queue with an exclusive consumer is given to it, and when it has left to its successor."""
    owners = [window for window in reading.windows if window.session.event and window.session.event.exclusive]
    copy = _left_lying(facts, reading, owners or reading.windows, groups=False)
    if copy is not None:
        session = (owners or reading.windows)[0].session
        yield broken("idle", session, copy, reading, why="it has room, and nobody else has the right")
    elif any(window.arrived for window in owners or reading.windows):
        yield held("served", "an exclusive consumer" if owners else "who came after it")


def with_groups(facts: Facts) -> list[Reading]:
    """Counters of queues at rest that got messages of groups, and have consumers."""
    readings = [one for one in queues_at_rest(facts) if one.destination.grouped and (one.windows or one.wild)]
    return [one for one in readings if _is_clear(facts, one)]


@rule("GEN-121", over=with_groups, handles=KINDS)
def groups_are_served(facts: Facts, reading: Reading) -> Findings:
    """A message of a group does not wait while every consumer of its queue has room for it."""
    windows = [*reading.windows, *reading.wild]
    if any(window.session.event is None or window.session.event.exclusive for window in windows):
        return  # its owner may be another one than the group's
    copy = _left_lying(facts, reading, windows, groups=True)
    if copy is not None:
        why = f"it is of group {copy.send.event.group!r}, and all {len(windows)} consumers have room"
        yield broken("idle", copy, windows[0].session, reading, why=why)
    elif any(window.arrived for window in windows):
        yield held("served", "its consumer had left" if reading.ended else "")


def empty_polls(facts: Facts) -> list[Poll]:
    """Pulls with some time that were answered, or that a library ended when it was over."""
    return [poll for poll in facts.polls if poll.timeout_ms and (poll.answered or poll.message is None)]


@rule("GEN-122", over=empty_polls)
def pulls_are_served(facts: Facts, poll: Poll) -> Findings:
    """A consumer that asks for a message, and gives the broker time, is given one that waits."""
    session = facts.sessions.get(poll.consumer)
    if poll.message is not None:
        yield held("served")
    elif session is not None and _is_owed(facts, session, poll):
        for copy in session.dest.copies:
            if copy.send.accepted[1] < poll.t0 and _waited(facts, copy, session, poll):
                yield broken("empty-handed", poll, session, copy, why=f"it waited {poll.timeout_ms} ms")
                return


def _is_owed(facts: Facts, session: Session, poll: Poll) -> bool:
    """Whether nothing but the broker kept messages from it."""
    dest: Destination = session.dest
    if not session.known or dest.topic or session.wild or scarce_ns(facts, dest) <= poll.t1:
        return False
    if not asked_in_vain(facts, poll):
        return False
    there = session.opened[1] <= poll.t0 and session.lost_ns > poll.t1
    alone = not any(one.event is None or one.event.exclusive or not one.known for one in dest.sessions)
    return there and alone and (len(dest.copies) < PAGE or not facts.paged)


def _waited(facts: Facts, copy: Copy, session: Session, poll: Poll) -> bool:
    """Whether a copy lay on its queue, held by nobody, all the time of a pull, and was wanted."""
    if not copy.steady or copy.send.event.group or copy.dead_letters or not surely_wants(session, copy.send):
        return False
    for delivery in copy.deliveries:
        if delivery.assigned[0] > poll.t1:
            break
        if delivery.event.t0 > poll.t1:
            return False  # it may have been on its way already
        if delivery.settlements or gone_ns(facts, delivery.session) >= poll.t0:
            return False
    if facts.marks.on(copy.dest.name, (copy.send.event.t0, poll.t1)) & (BLIND | marks.RESTART):
        return False
    return bool(copy.deliveries) and copy.deliveries[-1].event.t0 > poll.t1 and not maybe_swallowed(facts, copy)


class Offer(NamedTuple):
    """A copy that lay on its queue from some instant of ``span`` on, until it was ``given`` to somebody; ``back``: it
    had been delivered before; ``sessions``: consumers with room that waited for it meanwhile.
    """

    copy: Copy
    span: Span
    given: Delivery
    back: bool
    given_up: bool
    sessions: list[Session]


def offers(facts: Facts) -> list[Offer]:
    """Plain messages for which somebody waited, each time that they lay on their queue while memory was not scarce."""
    told = "memory-counters" in facts.header.capabilities and not facts.simulated
    found: list[Offer] = []
    lateness_ns = facts.declared.lateness_ms * NS_PER_MS
    for dest in facts.destinations.values():
        events = [session.event for session in dest.sessions]
        if (
            dest.topic
            or dest.grouped
            or not events
            or any(one is None or one.exclusive or one.no_local for one in events)
        ):
            continue
        lain = [one for copy in dest.copies for one in _lain(facts, copy)]
        if told:
            scarce_from_ns = scarce_ns(facts, dest)
            lain = [one for one in lain if one.given.event.t0 < scarce_from_ns]
        late = [one for one in lain if one.given.event.t0 > one.span[1] + lateness_ns]
        at_once = [one for one in lain if one.given.event.t0 <= one.span[1] + lateness_ns]
        settlements = [event.t1 for copy in dest.copies for one in copy.deliveries for event in one.settlements]
        ends = sorted(settlements) if late else []
        for one in (*at_once[:GIVEN], *late[:: 1 + len(late) // LATE]):
            if facts.delays.is_owed(one.copy.send, dest, one.span[1] + lateness_ns):
                sessions = facts.credit.waiting(one.copy.send, dest, one.span, slots=True)
                place = bisect_left(ends, one.given.event.t0) - 1
                if not sessions and place >= 0:  # perhaps when the last slot became free
                    since_ns = max(one.span[1], ends[place] + 1)
                    sessions = facts.credit.waiting(one.copy.send, dest, (since_ns, since_ns), slots=True)
                if sessions:
                    found.append(one._replace(sessions=sessions))
    return found


def _lain(facts: Facts, copy: Copy) -> list[Offer]:
    """Each time that it lay there for certain, because it was given to somebody later. Whether a delay was over is
    another requirement's affair; once it has been given to somebody, it is.
    """
    send, deliveries = copy.send, copy.deliveries
    if not send.confirmed or send.event.again or copy.rejected or copy.dead_letters:
        return []
    if any(copy.message in one.session.twins for one in deliveries):
        return []
    found: list[Offer] = []
    span: Span | None = send.accepted
    given_up = False
    for number, delivery in enumerate(deliveries):
        if span is None or delivery.dest is not copy.dest:
            break  # or it was moved, and lay there
        if number or not send.delayed:
            found.append(Offer(copy, span, delivery, number > 0, given_up, []))
        span = _came_back(facts, delivery)
        given_up = span is not None and _given_up_ns(facts, delivery.session) < span[0]
    return found


def _given_up_ns(facts: Facts, session: Session) -> int:
    """When the broker ended the connection of a session, as its own end of the link showed; ``NEVER``: it did not."""
    seen = [event for event in session.client.closes if event.host == facts.broker and event.who == "broker"]
    return min((event.t1 for event in seen if session.opened[1] <= event.t0 <= session.ended_ns), default=NEVER)


def _came_back(facts: Facts, delivery: Delivery) -> Span | None:
    """When a copy was on its queue again; None: nobody knows. A real broker may keep what a consumer that says goodbye
    holds until its connection ends (RabbitMQ: it belongs to the channel).
    """
    if delivery.requeued:
        event = delivery.settlements[-1]
        return event.t0, event.t1
    left_ns = min(departed_ns(delivery.session), _given_up_ns(facts, delivery.session))
    if delivery.state != RETURNED or delivery.settlements or not delivery.session.known or left_ns >= NEVER:
        return None
    leave = delivery.session.leave
    if isinstance(leave, Leave) and leave.consumer and not facts.simulated:
        return None
    return left_ns + 1, left_ns + 1


@rule("GEN-123", over=offers, handles=KINDS)
def room_is_used(facts: Facts, offer: Offer) -> Findings:
    """A message that waits on a queue is given to a consumer that has room for it, while that stays."""
    given = offer.given
    left_ns = min(leaving_ns(session) for session in offer.sessions)
    waited_ns = given.event.t0 - offer.span[1]
    if offer.given_up and waited_ns > 2 * facts.declared.lateness_ms * NS_PER_MS:
        why = f"it was given to nobody for {ms(waited_ns)} after the connection of who held it had been given up"
        yield broken("withheld", offer.copy, *offer.sessions, given, why=why)
    elif given.event.t0 <= left_ns or given.session in offer.sessions:
        yield held("given", "it had come back" if offer.back else "it was new")
    else:
        names = ", ".join(session.name for session in offer.sessions)
        yield broken("withheld", offer.copy, *offer.sessions, given, why=f"{names} had room until {ms(left_ns)}")
