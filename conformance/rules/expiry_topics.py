"""Expiry on topics: what a durable subscription's backlog lets die leaves a dead letter (EXP-026), and is swept from
there while nobody uses it (EXP-027); what is dead when it comes is counted (EXP-028).

A claim exists only where it is certain that the subscription had the message and nobody was given it alive: each of its
sessions had gone before the message was sent, or came when it was dead, and one of these came to rest with room. Of one
publication one letter is due, whoever let it die: one that has another reason is not told from it, and counts.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.absence import cleared
from brokerproof.conformance.facts.dead_letters import maybe_rejected, names_another
from brokerproof.conformance.facts.deaths import given_up
from brokerproof.conformance.facts.expiration import maybe_restamped, surely_expired
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import but
from brokerproof.conformance.facts.policy import gets_expiration
from brokerproof.conformance.facts.presence import gone_ns, roomy_ns
from brokerproof.conformance.facts.pressure import scarce_ns
from brokerproof.conformance.facts.publishing import taken
from brokerproof.conformance.facts.rows import Reading, Send, Session, Subscription
from brokerproof.conformance.facts.selectors import surely_wants
from brokerproof.conformance.facts.spans import NEVER, NS_PER_MS, ms
from brokerproof.conformance.rules.expiry import CLOCKS
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

#: What an observer of a backlog can see past: others take nothing from it, and who chooses is asked what it wants.
PAST = but("operator", "memory", "limit", "redelivery")


def left_to_die(facts: Facts) -> list[Send]:
    """Messages to topics with an expiration of their own, of which a dead letter is kept wherever they die."""
    found: list[Send] = []
    for send in facts.dying:
        dest, event = send.dest, send.event
        if dest.kind != "topic" or send.delayed or event.again or maybe_restamped(facts, send):
            continue
        if taken(send) and dest.applied.keeps_dead_letter(persistent=event.persistent, expired=True):
            found.append(send)
    return found


@rule("EXP-026", over=left_to_die, handles=PAST, faults=CLOCKS, absence=True)
def a_letter_from_a_backlog(facts: Facts, send: Send) -> Findings:
    """A persistent message that expires in the backlog of a durable subscription is copied to the dead-letter queue of
    its topic, without expiration and with the topic as its origin, once for all of the topic's subscriptions.
    """
    letters = [letter for copy in send.copies.values() for letter in copy.dead_letters]
    place = DEAD_LETTERS if send.dest.applied.is_shared() else send.dest.applied.own_dead_letters()
    due = next((one for one in send.dest.subscriptions if _let_it_die(facts, send, one) < NEVER), None)
    if due is None:
        return
    if not letters:
        at_ns = _let_it_die(facts, send, due)
        if _is_kept(facts, send) and cleared(facts, facts.destination(place)) and at_ns <= facts.end_ns:
            why = f"it was dead, and its subscriber had come, at {ms(at_ns)}; nobody found a letter of it on {place}"
            yield broken("missing", send, due, why=why)
        return
    letter = letters[0]
    if any(given_up(copy) or maybe_rejected(copy) for copy in send.copies.values()):
        return  # it may have died twice
    if letter.event.expiration_ms > 0 and not gets_expiration(facts.declared):
        yield broken("wrong-fields", send, letter, why="the letter expires, too")
    elif letter.event.original_dest is None or names_another(letter) or letter.dest.name != place:
        yield broken("wrong-fields", send, letter, why=f"a letter of {send.dest.name} belongs on {place}")
    else:
        several = sum(_let_it_die(facts, send, one) < NEVER for one in send.dest.subscriptions) > 1
        yield held("one-letter", "several subscriptions let it die" if several else "one subscription let it die")


def _let_it_die(facts: Facts, send: Send, subscription: Subscription) -> int:
    """By when a durable subscription that nobody had used while it lived had let a message die; ``NEVER``: unknown."""
    begin, sessions = subscription.begin, subscription.sessions
    if not subscription.durable or begin is None or subscription.doubtful or begin.result != "ok" or not sessions:
        return NEVER
    if begin.t1 > send.event.t0 or sessions[0].wild or not surely_wants(sessions[0], send):
        return NEVER
    until_ns, found_ns = min(subscription.sure_ns, scarce_ns(facts, send.dest)), NEVER
    for session in sessions:
        if send.message in session.seen:
            return NEVER
        if gone_ns(facts, session) < send.event.t0:
            continue
        if not _came_late(facts, send, session):
            return NEVER
        rests = roomy_ns(facts, session)[-1:]
        if rests and rests[0] < until_ns:
            found_ns = min(found_ns, rests[0])
    return found_ns


def _came_late(facts: Facts, send: Send, session: Session) -> bool:
    """Whether the message was dead when a session came, and ever after: no clock was set back before its end."""
    if session.opened[0] <= send.accepted[1] or facts.end_ns <= session.opened[0]:
        return False
    return surely_expired(facts, send.event.expiration_ms, session.opened[0], facts.end_ns)


def _is_kept(facts: Facts, send: Send) -> bool:
    """Whether nothing but its expiry can have taken the message, or its letter, from the broker."""
    if facts.paged or send.dest.purges:
        return False
    return (send.event.persistent and facts.remembers) or not facts.restarted(send.event.t0, NEVER)


# -- the sweep of backlogs


def swept(facts: Facts) -> list[tuple[Reading, list[Send]]]:
    """Counters at rest of topics with durable subscriptions, and the messages that a sweep must have met by then;
    before the broker was restarted, or counters reset.
    """
    if facts.paged:
        return []
    found: list[tuple[Reading, list[Send]]] = []
    for dest in facts.destinations.values():
        if dest.kind == "topic" and not dest.purges and any(one.durable for one in dest.subscriptions):
            due: list[Send] = []
            until_ns = facts.counted_until_ns(dest.name)
            for reading in dest.readings:
                if reading.at_rest and reading.event.expired is not None and reading.event.t1 < until_ns:
                    due = due + [send for send in dest.sends if send not in due and _is_due(facts, send, reading)]
                    found.append((reading, due))
    return found


@rule("EXP-027", over=swept, handles=PAST, faults=CLOCKS, absence=True)
def a_backlog_is_swept(_facts: Facts, row: tuple[Reading, list[Send]]) -> Findings:
    """A persistent message that expires in the backlog of a durable subscription nobody uses is counted as expired
    within the period of the sweep.
    """
    reading, due = row
    if due and (reading.event.expired or 0) < len(due):
        why = f"{len(due)} of its messages had been dead in unused backlogs for longer than a period of the sweep"
        yield broken("left-behind", due[0], reading, why=why)
    elif due:
        yield held("swept")


def _is_due(facts: Facts, send: Send, reading: Reading) -> bool:
    """Whether, until a reading, a message had been dead in an unused backlog for a period of the sweep, for certain."""
    event, applied, until_ns = send.event, send.dest.applied, reading.event.t0
    if not event.persistent or send.delayed or event.again or not taken(send) or maybe_restamped(facts, send):
        return False
    from_ns = until_ns - (applied.expire_period_ms + facts.declared.lateness_ms) * NS_PER_MS
    if send.accepted[1] > from_ns or not surely_expired(facts, event.expiration_ms, from_ns, reading.event.t1):
        return False
    if applied.expire_period_ms <= 0 or len(send.dest.sends) > applied.entry.max_expire_page_size:
        return False
    still = any(low <= until_ns and high >= from_ns for low, high in facts.marks.spans(marks.PAUSE, send.dest.name))
    if still or scarce_ns(facts, send.dest) <= until_ns:
        return False
    return any(_is_unused(facts, send, one, from_ns, reading) for one in send.dest.subscriptions)


def _is_unused(facts: Facts, send: Send, subscription: Subscription, from_ns: int, reading: Reading) -> bool:
    """Whether a durable subscription was owed a message that nobody got, and nobody used it until a reading."""
    begin, sessions, until_ns = subscription.begin, subscription.sessions, reading.event.t1
    if not subscription.durable or begin is None or subscription.doubtful or begin.result != "ok" or not sessions:
        return False
    if begin.t1 > send.event.t0 or sessions[0].wild or not surely_wants(sessions[0], send):
        return False
    end = subscription.end
    if subscription.sure_ns <= until_ns or (end is not None and end.t0 <= until_ns and end.seq < reading.event.seq):
        return False
    later = [
        one.event is not None and one.event.seq > reading.event.seq and one.opened[0] >= until_ns for one in sessions
    ]
    return all(late or _left_it(facts, send, one, from_ns) for one, late in zip(sessions, later, strict=True))


def _left_it(facts: Facts, send: Send, session: Session, by_ns: int) -> bool:
    """Whether a session had gone by then, and had not got a message, or had left it unsettled."""
    gone, delivery = gone_ns(facts, session), session.seen.get(send.message)
    left = delivery is None or (delivery.returned() and not delivery.settlements and send.message not in session.twins)
    return gone < send.event.t0 or (gone <= by_ns and left and session.ack != "auto")


# -- what is dead when it comes


def stillborn(facts: Facts) -> list[tuple[Reading, list[Send]]]:
    """Counters at rest of topics, and the messages that were dead when they came there before, for certain; before the
    broker was restarted, or counters reset.
    """
    found: list[tuple[Reading, list[Send]]] = []
    for dest in facts.destinations.values():
        dead = [send for send in dest.sends if _is_stillborn(facts, send)] if dest.kind == "topic" else []
        until_ns = facts.counted_until_ns(dest.name)
        rests = [one for one in dest.readings if one.at_rest and one.event.t1 < until_ns and not dest.purges]
        readings = [one for one in rests if one.event.expired is not None]
        found += [(one, [send for send in dead if send.accepted[1] <= one.event.t0]) for one in readings]
    return [row for row in found if row[1]]


def _is_stillborn(facts: Facts, send: Send) -> bool:
    event = send.event
    if not send.confirmed or send.delayed or event.again or event.tx is not None or maybe_restamped(facts, send):
        return False
    return surely_expired(facts, event.expiration_ms, event.t0, send.accepted[1])


@rule("EXP-028", over=stillborn, handles=PAST, faults=CLOCKS)
def dead_on_arrival_is_counted(_facts: Facts, row: tuple[Reading, list[Send]]) -> Findings:
    """A message that is dead when it comes to a topic is counted as expired there."""
    reading, dead = row
    if (reading.event.expired or 0) < len(dead):
        yield broken("not-counted", dead[0], reading, why=f"{len(dead)} messages had been dead when they came")
    else:
        yield held("counted", "nobody subscribed" if not reading.dest or not reading.dest.sessions else "")
