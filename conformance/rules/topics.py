"""Topics and their subscribers, and consumers of wildcards: GEN-004, GEN-045, GEN-046, GEN-050."""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.absence import maybe_swallowed
from brokerproof.conformance.facts.deliveries import repeated
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS, but
from brokerproof.conformance.facts.presence import first_from, roomy_ns, unseen_ns
from brokerproof.conformance.facts.pressure import scarce_ns
from brokerproof.conformance.facts.publishing import owed, taken
from brokerproof.conformance.facts.rows import Copy, Delivery, Destination, Reading, Send, Session, Window
from brokerproof.conformance.facts.selectors import surely_wants
from brokerproof.conformance.facts.spans import ms
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

#: What an observer of one subscriber can see past: others take nothing from it.
PAST = but("operator", "redelivery")


def subscribers(facts: Facts) -> list[Session]:
    """Consumers of topics that attached for certain."""
    return [s for s in facts.sessions.values() if s.known and s.dest.topic and s.dest.kind != "advisory"]


# A queue manager's commands hold queues and what is delayed; what is published at once passes them.
@rule("GEN-004", over=subscribers, handles=PAST)
def everybody_once(facts: Facts, session: Session) -> Findings:
    """A topic's message reaches every consumer that was subscribed while it was sent, exactly once, and nobody who
    subscribed later.
    """
    seen: dict[tuple[str, str], Delivery] = {}
    for delivery in session.deliveries:
        key = (delivery.event.message, delivery.dest.name)
        if key in seen and delivery.event.t1 < seen[key].undone_ns:  # rolled back, it may be sent again
            yield broken("twice", seen[key], delivery)
            return
        seen.setdefault(key, delivery)
        if not session.durable() and _is_retroactive(delivery.send, session.opened[0]):
            yield broken("retroactive", delivery.send, session, delivery)
            return
    if not session.wild and not session.durable():
        yield from _missed(facts, session, seen)


def _is_retroactive(send: Send, begun_ns: int) -> bool:
    """Whether a message was published before a subscription began, for certain."""
    delayed = send.event.delay_ms or send.event.deliver_at_ms is not None
    return taken(send) and not delayed and send.accepted[1] < begun_ns


def _missed(facts: Facts, session: Session, seen: dict[tuple[str, str], Delivery]) -> Findings:
    """Whatever was published before a reading at rest at which it had room has reached it by then. ``seen``: when a
    message came first.
    """
    dest, rests, until_ns = session.dest, roomy_ns(facts, session), scarce_ns(facts, session.dest)
    if not rests and session.least < session.prefetch:  # nobody knows its window: what came says enough
        for came in seen.values():
            yield held("exactly-once", _readers(came.send))
    if not rests or _is_limited(dest):
        return
    late_ns = unseen_ns(facts, session)
    for send in facts.published(dest).between(session.opened[1], rests[-1]):
        delivery = seen.get((send.message, dest.name))
        rest_ns = first_from(rests, send.accepted[1])
        if delivery is None or delivery.event.t0 > rest_ns:
            rest_ns = first_from(rests, send.accepted[1] + late_ns)
        if rest_ns >= until_ns or not owed(facts, send, rest_ns) or not surely_wants(session, send):
            continue
        if delivery is None or delivery.event.t0 > rest_ns:
            rows = (send, session) if delivery is None else (send, session, delivery)
            yield broken("missed", *rows, why=f"it had not come at rest at {ms(rest_ns)}")
            return
        yield held("exactly-once", _readers(send))


def _readers(send: Send) -> str:
    """The situation of a publication."""
    return "several subscribers" if len(send.copies) > 1 else "one subscriber"


def wildcards(facts: Facts) -> list[Session]:
    """Consumers of wildcards that attached for certain."""
    return [session for session in facts.wild if session.known and session.event is not None]


@rule("GEN-045", over=wildcards, handles=but("redelivery"), absence=True)
def everything_covered(facts: Facts, session: Session) -> Findings:
    """A consumer of a wildcard gets messages from every destination that it covers, also from those created later."""
    rests = roomy_ns(facts, session)
    for dest in facts.destinations.values() if rests else ():
        if session in dest.sessions and dest is not session.dest and not _is_limited(dest):
            yield from _covered(facts, session, dest, rests)


def _covered(facts: Facts, session: Session, dest: Destination, rests: list[int]) -> Findings:
    from_ns = session.opened[1] if dest.topic or session is not _latest(facts, dest) else 0
    until_ns, late_ns = scarce_ns(facts, dest), unseen_ns(facts, session) if dest.topic else 0
    for send in facts.published(dest).between(from_ns, rests[-1] - late_ns):
        rest_ns = first_from(rests, send.accepted[1] + late_ns)
        if rest_ns >= until_ns or not owed(facts, send, rest_ns) or not surely_wants(session, send):
            continue
        copy = send.copies.get(dest.name)
        if send.message not in session.seen if dest.topic else _waits(facts, copy, rest_ns):
            yield broken("missed", send, session, dest, why=f"it had not come at rest at {ms(rest_ns)}")
            return
        yield held("complete", "topics" if dest.topic else "queues")


def _latest(facts: Facts, dest: Destination) -> Session | None:
    """The last wildcard consumer that takes whatever waits: what was sent before it came is judged with this one."""
    takers = (session for session in reversed(dest.sessions) if session.wild and not session.selective)
    return next((session for session in takers if roomy_ns(facts, session)), None)


def _waits(facts: Facts, copy: Copy | None, rest_ns: int) -> bool:
    """Whether a queue's copy had gone to nobody, for certain, and nothing but the wildcard's consumer is to blame."""
    if copy is None or copy.deliveries or copy.dead_letters or not copy.send.event.persistent:
        return False
    excuses = marks.OPERATOR | marks.REDELIVERY
    if facts.marks.on(copy.dest.name, (copy.send.event.t0, rest_ns)) & excuses or maybe_swallowed(facts, copy):
        return False
    # Somebody of whom it is not known whether he is there may hold it.
    return not any(session.selective or not (session.known or session.end) for session in copy.dest.sessions)


def wild_arrivals(facts: Facts) -> list[Delivery]:
    """What arrived at consumers of wildcards."""
    return [delivery for session in facts.rows(wildcards) for delivery in session.deliveries]


@rule("GEN-046", over=wild_arrivals, handles=KINDS)
def nothing_else(facts: Facts, delivery: Delivery) -> Findings:
    """A consumer of a wildcard gets nothing from other destinations, and each message of a topic once."""
    session, topic, at = delivery.session, delivery.session.dest.topic, delivery.event.dest
    first = next(one for one in (*delivery.copy.deliveries, delivery) if one.session is session)
    # Where a name is longer than the pattern, worlds ask for one part of it; others may ask for all that follow.
    longer = "." in at and facts.header.world != "external"
    if at == DEAD_LETTERS or longer or facts.names.pattern(at) != session.dest.name:
        yield broken("strange", session, delivery)
    elif topic and first is not delivery and repeated(facts, first, delivery):
        yield broken("twice", first, delivery)
    else:
        yield held("covered", "from a topic" if topic else "from a queue")


def limited(facts: Facts) -> list[Destination]:
    """Topics on which a slow subscriber may lose messages."""
    return [dest for dest in facts.destinations.values() if _is_limited(dest)]


def _is_limited(dest: Destination) -> bool:
    watched = dest.topic and dest.kind != "advisory"  # what arrives from advisories is no row
    return watched and dest.applied.entry.pending_message_limit is not None


@rule("GEN-050", over=limited)
def newest_kept(facts: Facts, dest: Destination) -> Findings:
    """A topic subscriber with a pending message limit of n gets what finds room in its window; when it is too slow, it
    keeps the newest n messages, and no more.
    """
    limit = dest.applied.entry.pending_message_limit or 0
    for session in dest.sessions:
        if session.known and not session.selective and not session.wild:
            yield from _newest(facts, session, limit)
    widened = {act.consumer for act in facts.acknowledges}  # or may have been, by those past the library
    for streak in _full(dest):
        session = streak.session
        # A library that widens its window by what its application has taken asks for more.
        taken = (ns for ns in session.freed_ns if streak.first.event.t0 <= ns <= streak.last.event.t1)
        if session.name in widened or (session.traits.widens_window and any(taken)):
            continue
        sends = facts.published(dest).between(streak.first.event.t1, streak.last.event.t0)
        got = [send for send in sends if not send.timed and send.message in streak.session.seen]
        if len(got) > limit:
            rows = (streak.first, streak.last, streak.session, got[0])
            yield broken("hoarded", *rows, why=f"{len(got)} of {len(sends)} came, and only {limit} may wait")
        elif len(sends) > limit:
            yield held("newest-kept", "its window was full")


class _Streak:
    """From one reading at rest to another a session's window was full, and nothing was settled."""

    def __init__(self, reading: Reading, window: Window) -> None:
        self.session = window.session
        self.tried = window.tried
        self.first = self.last = reading


def _full(dest: Destination) -> list[_Streak]:
    found: list[_Streak] = []
    current: dict[str, _Streak] = {}
    for reading in dest.readings:
        for window in reading.windows:
            session, streak = window.session, current.get(window.session.name)
            widened = sum(ns <= reading.event.t1 for ns in session.freed_ns) if session.traits.widens_window else 0
            if not is_steady(session) or window.held - widened < session.prefetch or window.doubted:
                current.pop(session.name, None)
            elif streak is not None and streak.tried == window.tried:
                streak.last = reading
            else:
                current[session.name] = _Streak(reading, window)
                found.append(current[session.name])
    return found


def is_steady(session: Session) -> bool:
    """Whether a subscriber certainly has what it holds, of all that its topic gets."""
    return session.known and not session.selective and not session.wild and session.ack != "auto"


def _newest(facts: Facts, session: Session, limit: int) -> Findings:
    """At rest with room for more, a message after which fewer than n others were published has arrived; so has one
    before which fewer were published, since the subscriber came, than its window takes: it never waited.
    """
    rests = [rest_ns for rest_ns in roomy_ns(facts, session) if rest_ns < scarce_ns(facts, session.dest)][-1:]
    published = facts.published(session.dest)
    # What comes at its time, perhaps more than once, is not counted.
    window = 0 if any(send.timed for send in published.sends) else session.prefetch
    for send in published.between(session.opened[1], rests[0] - unseen_ns(facts, session) if rests else -1):
        newest = published.later(send, rests[0]) < limit
        if not owed(facts, send, rests[0]) or not (newest or published.earlier(send, session.opened[0]) < window):
            continue
        if send.message not in session.seen:
            among = f"newest {limit}" if newest else f"first {window}"
            yield broken("newest-lost", send, session, why=f"of the {among}, and not there at {ms(rests[0])}")
            return
        yield held("newest-kept", "what came last" if newest else "")
