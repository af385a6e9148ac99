"""Durable subscriptions, and noLocal: GEN-013, GEN-022, GEN-040 to GEN-044, GEN-051."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from brokerproof.conformance.experiment.history import Abort, Ack, Discard
from brokerproof.conformance.facts.deliveries import came_back, marks_departure, may_be_given_up, repeated
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS, but
from brokerproof.conformance.facts.presence import gone_ns, maybe_elsewhere, rest_after, roomy_ns, settles_unseen
from brokerproof.conformance.facts.pressure import scarce_ns
from brokerproof.conformance.facts.publishing import owed, taken
from brokerproof.conformance.facts.rows import RETURNED, Copy, Delivery, Send, Session, Subscription
from brokerproof.conformance.facts.selectors import surely_wants
from brokerproof.conformance.facts.spans import NEVER, ms
from brokerproof.conformance.rules.rule import Findings, broken, held, rule
from brokerproof.conformance.rules.selecting import durables

#: What an observer of one subscription can see past: others take nothing from it.
PAST = but("redelivery")


@rule("GEN-013", over=durables)
def kept_while_away(facts: Facts, subscription: Subscription) -> Findings:
    """A durable subscription gets what is published while its subscriber is away."""
    begin, sessions = subscription.begin, subscription.sessions
    if begin is None or subscription.doubtful or sessions[0].wild:
        return
    dest = sessions[0].dest
    if dest.kind == "advisory":
        return  # who looks at what the broker tells of itself is not told what came of that
    until_ns = min(subscription.sure_ns, scarce_ns(facts, dest))
    rests = sorted(ns for session in sessions for ns in roomy_ns(facts, session)[-1:] if ns < until_ns)
    came_ns = [session.opened[0] for session in sessions]
    for send in facts.published(dest).between(begin.t1, rests[-1] if rests else -1):
        if not owed(facts, send, rests[-1]) or not surely_wants(sessions[0], send):
            continue
        copy = send.copies.get(subscription.name)
        if copy is None or not copy.deliveries:
            if not any(may_have_swallowed(facts, session, send) for session in sessions):
                yield broken("missed", send, subscription, why=f"it had not come at rest at {ms(rests[-1])}")
                return
            continue
        latest = bisect_right(came_ns, send.event.t0) - 1
        there = latest >= 0 and send.event.t1 <= sessions[latest].lost_ns
        yield held("complete", "a subscriber was there" if there else "nobody was connected to it")


def may_have_swallowed(facts: Facts, session: Session, send: Send) -> bool:
    """Whether the broker may have settled it by writing it to a subscriber that never got it."""
    if not settles_unseen(session) or (session.known and not session.end):
        return False
    if gone_ns(facts, session) < send.accepted[0]:
        return False
    return not session.known or rest_after(facts, max(send.accepted[1], session.opened[1])) >= session.lost_ns


def durable_copies(facts: Facts) -> list[Copy]:
    """Durable subscriptions' copies that arrived."""
    copies = [copy for copy in facts.copies if copy.subscription is not None and copy.subscription.durable]
    return [copy for copy in copies if copy.deliveries]


@rule("GEN-040", over=durable_copies, handles=PAST)
def settled_is_settled(facts: Facts, copy: Copy) -> Findings:
    """What a durable subscription has settled does not come to it again, and one subscriber at a time has a message."""
    for first, second in pairwise(copy.deliveries):
        if repeated(facts, first, second):
            yield broken("again", first, second)
            return
        yield held("once", "a subscriber left it unsettled")


def durable_sessions(facts: Facts) -> list[Session]:
    """Subscribers of durable subscriptions."""
    return [session for subscription in facts.rows(durables) for session in subscription.sessions]


@rule("GEN-041", over=durable_sessions, handles=PAST)
def returned_comes_first(facts: Facts, session: Session) -> Findings:
    """What a durable subscriber left unsettled comes first when it is back, in the order of the topic."""
    newest: dict[tuple[object, ...], Delivery] = {}
    for delivery in session.deliveries:
        send, event = delivery.send, delivery.send.event
        # What was rejected may come after a pause, behind others.
        rejected = delivery.copy.rejected or any(one.requeued for one in delivery.copy.deliveries)
        if not taken(send) or send.timed or session.seen[send.message] is not delivery or rejected:
            continue
        key = (event.dest, event.host, event.priority, event.persistent)
        before = newest.get(key)
        if before is None or before.send.accepted[0] <= send.accepted[0]:
            newest[key] = delivery
        if before is None or not any(one.state == RETURNED for one in delivery.copy.deliveries):
            continue
        if send.accepted[1] > before.send.accepted[0]:
            yield held("in-order")
        elif not _may_be_late(facts, delivery.copy, session):
            yield broken("overtaken", send, before.send, before, delivery)
            return


def _may_be_late(facts: Facts, copy: Copy, session: Session) -> bool:
    """Somebody acknowledged it in a transaction that may have gone on when the session came: it comes back at its end,
    and not when its subscriber leaves.
    """
    settlements = [settlement for delivery in copy.deliveries for settlement in delivery.settlements]
    names = [one.tx for one in settlements if not isinstance(one, Discard) and one.tx is not None]
    ends = [facts.transactions[name].end for name in names]
    return any(end is None or end.result != "ok" or end.t1 > session.opened[0] for end in ends)


@rule("GEN-051", over=durable_copies, handles=but("redelivery", "operator"))
def left_comes_again(facts: Facts, copy: Copy) -> Findings:
    """What a durable subscriber had and left unsettled comes again when a subscriber is back."""
    one = copy.subscription
    for first in copy.deliveries[:-1]:
        if came_back(first):
            how = "closed" if first.session.end == "close" else "lost its connection"
            yield held("again", f"its subscriber {how}")
    if one is None or one.doubtful or one.sessions[0].wild or copy.dead_letters or may_be_given_up(copy):
        return
    if any(may_have_swallowed(facts, other, copy.send) for other in one.sessions):
        return
    undone_ns, until_ns = 0, min(one.sure_ns, scarce_ns(facts, one.sessions[0].dest))
    for last, after in zip(copy.deliveries, [*copy.deliveries[1:], None], strict=True):
        undone_ns = max(undone_ns, _undone_ns(facts, last))
        for session in one.sessions:
            # It was let in, so the one before it had gone; or it got it in the end.
            later = session.opened[0] >= last.event.t1 and session not in {last.session, after and after.session}
            end_ns = until_ns if after is None else min(until_ns, after.event.t0)
            rests = [ns for ns in roomy_ns(facts, session)[-1:] if undone_ns <= ns < end_ns] if later else []
            if rests and owed(facts, copy.send, rests[0]) and surely_wants(session, copy.send):
                why = f"it had not come again at rest at {ms(rests[0])}"
                yield broken("lost", last, last.session, session, why=why)
                return


def _undone_ns(facts: Facts, delivery: Delivery) -> int:
    """By when all that its subscriber did to settle it had come to nothing, for certain; 0: it did nothing, NEVER: it
    may be settled.
    """
    undone_ns = 0
    for event in delivery.settlements:
        transaction = facts.transactions.get(event.tx) if isinstance(event, Ack) and event.tx is not None else None
        end = transaction.end if transaction is not None and not transaction.mixed else None
        if not isinstance(end, Abort) or end.result != "ok":
            return NEVER
        undone_ns = max(undone_ns, end.t1)
    return undone_ns if delivery.state == RETURNED else NEVER


@rule("GEN-042", over=durable_copies, handles=PAST)
def marked_when_it_comes_again(facts: Facts, copy: Copy) -> Findings:
    """A message that a durable subscriber had and left unsettled is marked as redelivered when it comes again; one that
    nobody had is not.
    """
    first = copy.deliveries[0]
    if first.event.redelivered and not maybe_elsewhere(facts, first):
        yield broken("marked", first, why="no subscriber had had it before")
    for one, other in pairwise(copy.deliveries):
        had = one.state == RETURNED and one.consumed is not None and one.settlement is None
        if not had or other.session.opened[0] < one.event.t0 or facts.restarted(one.event.t0, other.event.t1):
            continue
        if other.event.redelivered:
            yield held("marked-again")
        elif other.event.redelivered is False and marks_departure(facts, one.session):
            yield broken("unmarked", one, other)


@rule("GEN-043", over=durable_copies, handles=PAST)
def nothing_older(_facts: Facts, copy: Copy) -> Findings:
    """A durable subscription gets nothing that was published before it began, also if another of its name went
    before.
    """
    subscription, send = copy.subscription, copy.send
    if subscription is None or subscription.begin is None or subscription.doubtful or not taken(send) or send.timed:
        return
    if send.accepted[1] < subscription.begin.t0:
        yield broken("retroactive", send, subscription, copy.deliveries[0])
    else:
        yield held("later-only")


def not_local(facts: Facts) -> list[Session]:
    """Consumers that asked for nothing of their own connection."""
    return [session for session in facts.sessions.values() if session.event is not None and session.event.no_local]


def _foreign(session: Session, outcome: str, situation: str) -> Findings:
    for delivery in session.deliveries:
        send, event = delivery.send, delivery.send.event
        if delivery.is_dead_letter:
            continue
        own = send.client is session.client and event.result == "ok" and not event.again
        if own and (not session.durable() or session.client.traits.anonymous):
            # What came while nobody used the subscription no connection of its consumer's had sent.
            own = send.connection == session.connection and session.opened[0] <= event.t1
        if own:
            yield broken("own", session, send, delivery)
            return
        if delivery.dest.topic or send.client is not session.client:
            yield held(outcome, situation)


@rule("GEN-044", over=not_local, handles=KINDS)
def others_only(_facts: Facts, session: Session) -> Findings:
    """A topic subscriber with noLocal does not get what its own connection publishes."""
    if session.dest.topic:
        yield from _foreign(session, "others-only", "of a durable subscription" if session.durable() else "")


@rule("GEN-022", over=not_local, handles=KINDS)
def nothing_of_its_own(_facts: Facts, session: Session) -> Findings:
    """A consumer of a queue that asked for no messages of its own connection (noLocal) gets none."""
    if not session.dest.topic:
        yield from _foreign(session, "foreign", "a message of another host came")
