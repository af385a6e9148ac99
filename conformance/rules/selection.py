"""Who may be given what (GEN-008, GEN-010, GEN-020, GEN-021, GEN-023 to GEN-025)."""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.history import Browse
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.absence import maybe_swallowed
from brokerproof.conformance.facts.deliveries import came_back
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.managed import asks
from brokerproof.conformance.facts.marks import KINDS, but
from brokerproof.conformance.facts.policy import PAGE
from brokerproof.conformance.facts.presence import gone_ns, maybe_elsewhere
from brokerproof.conformance.facts.pressure import pressed, scarce_ns
from brokerproof.conformance.facts.publishing import taken
from brokerproof.conformance.facts.rows import Delivery, Destination, Reading, Send, Session
from brokerproof.conformance.facts.selectors import chosen_by, surely_wants, wants
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

#: Whatever an operator or the broker itself gives back or brings has an order of its own.
BLIND: Final = marks.OPERATOR | marks.REDELIVERY | marks.REPEATED


def looks_beyond_a_page(facts: Facts) -> bool:
    """Whether nobody says of the broker that it looks no further than a page."""
    return not facts.paged


def queues(facts: Facts) -> list[Destination]:
    """Queues that clients use, with consumers."""
    dests = facts.destinations.values()
    return [d for d in dests if not d.topic and d.sessions and d.kind not in {"dead-letters", "pattern"}]


def _first(facts: Facts, delivery: Delivery) -> bool:
    """Nobody can have had it before, so that nothing but a choice explains its place."""
    copy = delivery.copy
    plain = copy.send.confirmed and copy.deliveries and copy.deliveries[0] is delivery and delivery.dest is copy.dest
    # ActiveMQ's store tells three priorities apart, its memory ten.
    elsewhere = maybe_elsewhere(facts, delivery, stored=not facts.paged)
    return bool(plain) and not delivery.marks & BLIND and not elsewhere


# -- selectors


def choosing(facts: Facts) -> list[Session]:
    """Consumers with a selector."""
    return [session for session in facts.sessions.values() if session.event is not None and session.event.selector]


def choosers(facts: Facts) -> list[Session | Browse]:
    """Consumers with a selector, and what browsers with one were shown."""
    looks = [event for event in facts.browses if event.messages and facts.browsers[event.consumer].selector]
    return [*facts.rows(choosing), *looks] if looks else [*facts.rows(choosing)]


@rule("GEN-020", over=choosers, handles=KINDS)
def only_what_is_true(facts: Facts, row: Session | Browse) -> Findings:
    """A consumer with a selector is given only messages for which the selector is true, not false and not unknown."""
    if isinstance(row, Browse):
        yield from _shown(facts, row)
        return
    for delivery in row.deliveries:
        wanted = wants(row, delivery.send) if delivery.dest.kind != "dead-letters" else None
        if wanted is False:
            why = _unwanted(delivery.send, row.event.selector if row.event else "")
            yield broken("unwanted", row, delivery.send, delivery, why=why)
            return
        if wanted:
            yield held("wanted", "a selector chose")


def _shown(facts: Facts, event: Browse) -> Findings:
    asked = facts.browsers[event.consumer]
    sends = [facts.sends[one] for one in event.messages if one in facts.sends]
    if facts.destination(asked.dest).kind == "dead-letters":
        return
    # Of a report on its reply queue a browser tells no more than the body, which may be the message's.
    replies = facts.destination(asked.dest).kind == "temporary"
    for send in sends:
        if replies and asks(send.event):
            continue
        wanted = chosen_by(asked.selector, send)
        if wanted is False:
            yield broken("unwanted", asked, send, event, why=_unwanted(send, asked.selector))
            return
        if wanted:
            yield held("wanted", "a selector chose")


def _unwanted(send: Send, selector: str) -> str:
    event = send.event
    said = {"kind": event.message_kind or "absent", "priority": event.priority, "group": event.group or "absent"}
    told = ", ".join(f"{name} {value}" for name, value in (said | event.headers).items())
    return f"{told} does not fulfil {selector!r}"


def choosing_readings(facts: Facts) -> list[Reading]:
    """Counters of queues at rest, read while a consumer with a selector had room."""
    dests = [
        session.dest
        for session in facts.rows(choosing)
        if not session.dest.topic and session.dest.kind != "dead-letters"
    ]
    found = [reading for dest in dict.fromkeys(dests) for reading in dest.readings]
    return [reading for reading in found if reading.waiting]


@rule("GEN-021", over=choosing_readings, handles=KINDS)
def not_hidden(facts: Facts, reading: Reading) -> Findings:
    """A message that a selector wants is not hidden by messages that it does not want."""
    dest, at = reading.dest, reading.event
    if (
        dest is None
        or pressed(facts, dest, reading)
        or (len(reading.waiting) >= min(PAGE, dest.applied.page) and not looks_beyond_a_page(facts))
    ):
        return
    for window in reading.windows:
        session = window.session
        if not session.known or session.event is None or not session.event.selector or not window.room():
            continue
        hidden = [copy for copy in reading.waiting if not copy.send.event.group and surely_wants(session, copy.send)]
        for copy in hidden:
            blind = facts.marks.on(dest.name, (copy.send.event.t0, at.t1)) & BLIND
            if not blind and at.t1 < _exclusive_ns(dest) and not maybe_swallowed(facts, copy):
                yield broken("hidden", session, copy, reading, why=f"it holds {window.held} of {session.prefetch}")
                return
        if window.arrived:
            yield held("given", "others were left waiting")


def _exclusive_ns(dest: Destination) -> int:
    """From when on there may be an exclusive consumer, so that nobody else need be served."""
    return min([s.opened[0] for s in dest.sessions if s.event is not None and s.event.exclusive], default=NEVER)


# -- exclusive consumers, groups, priorities of consumers


def owned(facts: Facts) -> list[Destination]:
    """Queues with an exclusive consumer."""
    return [
        dest for dest in facts.rows(queues) if any(s.known and s.event and s.event.exclusive for s in dest.sessions)
    ]


def arrivals(dest: Destination) -> list[Delivery]:
    """What arrived from a queue, in order."""
    found = [delivery for session in dest.sessions for delivery in session.deliveries if delivery.dest is dest]
    found.sort(key=lambda delivery: delivery.event.seq)
    return found


class Present:
    """Sessions that may matter to arrivals, which come in order: who is lost by one is gone for all later ones."""

    def __init__(self, sessions: list[Session]) -> None:
        self._sessions = sorted(sessions, key=lambda session: session.opened[0])
        self._next = 0
        self.there: list[Session] = []

    def at(self, true_ns: int) -> list[Session]:
        """Those that came by then, and stayed longer, for certain."""
        while self._next < len(self._sessions) and self._sessions[self._next].opened[0] <= true_ns:
            self.there.append(self._sessions[self._next])
            self._next += 1
        if any(session.lost_ns <= true_ns for session in self.there):
            self.there = [session for session in self.there if session.lost_ns > true_ns]
        return self.there


@rule("GEN-023", over=owned)
def alone(_facts: Facts, dest: Destination) -> Findings:
    """While an exclusive consumer is on a queue nobody else is given its messages; the first one, or one of higher
    priority, has the right.
    """
    owners = Present(
        [session for session in dest.sessions if session.known and session.event and session.event.exclusive]
    )
    for delivery in arrivals(dest):
        session, mine = delivery.session, delivery.session.event
        if mine is None or not session.known:
            continue
        for other in owners.at(delivery.event.t1):
            theirs = other.event
            if other is session or theirs is None or theirs.t1 > _given_ns(delivery):
                continue
            if mine.exclusive and (mine.priority > theirs.priority or mine.t0 <= theirs.t1):
                continue
            yield broken("shared", other, delivery.send, delivery)
            return
        if mine.exclusive and len(dest.sessions) > 1:
            yield held("alone", "an exclusive consumer had company")


def _given_ns(delivery: Delivery) -> int:
    """The earliest time at which a message can have been given to somebody; of what had come back, when it was sent."""
    first = delivery.copy.deliveries[0] is delivery
    return delivery.assigned[0] if first else delivery.send.event.t0


def grouped(facts: Facts) -> list[Destination]:
    """Queues with messages of groups."""
    return [dest for dest in facts.rows(queues) if any(send.event.group for send in dest.sends)]


@rule("GEN-024", over=grouped)
def groups_stay(_facts: Facts, dest: Destination) -> Findings:
    """All messages of a group go to one consumer as long as it is there."""
    owners: dict[str, list[Delivery]] = {}
    company, until_ns = len(dest.sessions) > 1, _exclusive_ns(dest)
    for delivery in arrivals(dest):
        send, session, at_ns = delivery.send, delivery.session, delivery.event.t1
        # A message that somebody discarded as expired may be offered to others, whatever its group.
        if not send.event.group or not session.known or delivery.copy.deliveries[0] is not delivery:
            continue
        if delivery.marks & BLIND or at_ns >= until_ns:
            continue
        firsts = [one for one in owners.get(send.event.group, []) if one.session.lost_ns > at_ns]
        given_ns = max(send.accepted[0], delivery.assigned[0])
        owner = next((one for one in firsts if one.event.t1 < given_ns), None)
        if owner is not None and owner.session is session and company:
            yield held("together", "a group stayed with its consumer")
        elif owner is not None and owner.session is not session and surely_wants(owner.session, send):
            yield broken(
                "torn", owner, send, delivery, why=f"group {send.event.group} had gone to {owner.session.name}"
            )
            return
        if all(one.session is not session for one in firsts):
            firsts.append(delivery)
        owners[send.event.group] = firsts


def ranked(facts: Facts) -> list[Destination]:
    """Queues with consumers of different priorities."""
    return [dest for dest in facts.rows(queues) if any(s.event is not None and s.event.priority for s in dest.sessions)]


@rule("GEN-025", over=ranked)
def higher_consumer_first(facts: Facts, dest: Destination) -> Findings:
    """A consumer of lower priority gets nothing that one of higher priority wants and has a free slot for."""
    present = Present([session for session in dest.sessions if session.known])
    lowest = min(session.event.priority for session in dest.sessions if session.event is not None)
    until_ns = min(scarce_ns(facts, dest), _exclusive_ns(dest))
    for delivery in arrivals(dest):
        send, session, at_ns = delivery.send, delivery.session, delivery.event.t1
        mine = session.event
        if mine is None or not session.known or at_ns >= until_ns or send.event.group:
            continue
        for other in present.at(at_ns):
            theirs = other.event
            if theirs is None or theirs.priority <= mine.priority or not surely_wants(other, send):
                continue
            if facts.credit.surely_free(other, _given_ns(delivery), at_ns) and _first(facts, delivery):
                yield broken("lower-first", other, send, delivery, why=f"{other.name} had a free slot")
                return
        if mine.priority > lowest:
            yield held("higher-first", "a consumer of higher priority was served")


# -- priorities of messages, and equals


def prioritized(facts: Facts) -> list[Session]:
    """Consumers of queues that honour priorities, where nobody says that the broker sees one page only."""
    dests = [
        dest for dest in facts.rows(queues) if dest.applied.entry.prioritized_messages and looks_beyond_a_page(facts)
    ]
    return [s for dest in dests for s in dest.sessions if s.known and not s.wild and len(s.deliveries) > 1]


@rule(
    "GEN-008",
    over=prioritized,
    handles=but("operator", "memory", "limit", "redelivery", "repeated"),
    absence=True,
)
def higher_priority_first(facts: Facts, session: Session) -> Findings:
    """Where the broker is told to honour priorities, a message of higher priority is delivered before waiting ones of
    lower priority.
    """
    firsts: dict[int, Delivery] = {}
    for delivery in session.deliveries:
        send, event = delivery.send, delivery.send.event
        if not taken(send) or send.accepted[1] > session.opened[0] or event.delay_ms or event.deliver_at_ms is not None:
            continue
        if delivery.dest is not delivery.copy.dest:
            continue
        anew = delivery.copy.deliveries[0] is delivery
        if not anew and not _had_returned(facts, delivery):
            continue
        for priority, earlier in firsts.items():
            if priority < event.priority and (not anew or (_first(facts, delivery) and _first(facts, earlier))):
                yield broken("lower-first", session, earlier, delivery)
                return
        if any(priority > event.priority for priority in firsts):
            yield held("higher-first", "messages of different priority waited")
        firsts.setdefault(event.priority, delivery)


def _had_returned(facts: Facts, delivery: Delivery) -> bool:
    """Whether it waited again when its session came: the one that had been given it before was gone. What that had
    rejected may come after a pause.
    """
    before = [one for one in delivery.copy.deliveries if one.event.seq < delivery.event.seq]
    if not before or not came_back(before[-1]) or not before[-1].session.known or delivery.marks & BLIND:
        return False
    return gone_ns(facts, before[-1].session) <= delivery.session.opened[0]


def shared(facts: Facts) -> list[Destination]:
    """Queues with several consumers."""
    return [dest for dest in facts.rows(queues) if len(dest.sessions) > 1 and dest.sends]


@rule("GEN-010", over=shared)
def spread_evenly(_facts: Facts, dest: Destination) -> Findings:
    """Among equal consumers with open windows messages are spread evenly."""
    first_ns = min(send.event.t0 for send in dest.sends)
    equals = [s for s in dest.sessions if s.event is not None and s.event.t1 < first_ns]
    others = [s.opened[0] for s in dest.sessions if s.event is None or s.event.t1 >= first_ns]
    until_ns = min([*others, *(s.lost_ns for s in equals)])
    if len(equals) < 2 or any(not s.known or s.selective or s.wild or s.least < len(dest.sends) for s in equals):
        return
    excuses = BLIND | marks.CHOOSING | marks.WILDCARD | marks.MEMORY | marks.LIMIT
    for reading in dest.readings:
        if not reading.at_rest or reading.event.t1 > until_ns or reading.again or reading.marks & excuses:
            continue
        got = [window.arrived for window in reading.windows]
        if sum(got) < len(equals) or len(got) < len(equals):
            continue
        if max(got) - min(got) > 1:
            shares = ", ".join(f"{window.session.name}: {window.arrived}" for window in reading.windows)
            yield broken("uneven", dest, reading, why=f"they had got {shares}")
            return
        yield held("even", "equal consumers had room")
