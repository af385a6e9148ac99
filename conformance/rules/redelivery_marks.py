"""Which messages come back marked as redelivered, and with what count (RDL-008 to RDL-011, RDL-016).

Where no mark exists on the wire (``Arrive.redelivered`` is null) none is missing.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Leave, Nack
from brokerproof.conformance.facts.deliveries import came_back
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS, RESTART
from brokerproof.conformance.facts.presence import gone_ns, sessions_of
from brokerproof.conformance.facts.returning import Redelivery, redeliveries
from brokerproof.conformance.facts.rows import Delivery, Session
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.rules.rule import Findings, broken, held, rule


def _told_twice(delivery: Delivery) -> bool:
    return delivery.event.delivery_count is not None and delivery.event.redelivered is not None


def counted(facts: Facts) -> list[Delivery]:
    """Deliveries whose protocol shows a count and a mark."""
    return [delivery for delivery in facts.deliveries if _told_twice(delivery)]


@rule("RDL-008", over=counted, handles=KINDS)
def mark_is_the_count(facts: Facts, delivery: Delivery) -> Findings:
    """The redelivered mark is set exactly when the delivery count is greater than 1."""
    event = delivery.event
    later = (event.delivery_count or 1) > 1
    if not later and event.redelivered and _may_not_count(facts, delivery):
        return
    if event.redelivered == later:
        yield held("agree", "a later delivery" if later else "the first delivery")
    else:
        yield broken("disagree", delivery, why=f"delivery count {event.delivery_count}")


def _may_not_count(facts: Facts, delivery: Delivery) -> bool:
    """Whether a broker may mark what comes back and not count it: a consumer that said goodbye, or was lost, has failed
    to process nothing where JMS does not say what a count is, unless losses are promised to count.
    """
    if facts.simulated or delivery.session.client.via == "jms":
        return False
    before = delivery.copy.deliveries[: delivery.copy.deliveries.index(delivery)]
    rejected = [one for one in before if isinstance(one.settlement, Nack) and _took_place(facts, one.settlement)]
    ends = [one.session.end for one in before if one not in rejected]
    counted = len(rejected)
    counted += sum(end in {"drop", "kill"} for end in ends) if facts.promises("losses-count") else 0
    return counted == 0


def _took_place(facts: Facts, rejection: Nack) -> bool:
    """Whether nothing can have undone it: it was made outside of a transaction, or committed."""
    return rejection.tx is None or facts.transactions[rejection.tx].committed is True


def marked_or_not(facts: Facts) -> list[Redelivery]:
    """Redeliveries that a mark, or its absence, says something about: it need not survive a restart of the broker."""
    told = [row for row in facts.rows(redeliveries) if row.second.event.redelivered is not None]
    return [row for row in told if not row.marks & RESTART]


def last_given(facts: Facts) -> dict[str, int]:
    """Consumers that closed, telling what was given -> place of the last delivery that the application had got."""
    closed = [s for s in facts.sessions.values() if _told_at_close(s)]
    return {s.name: max([d.place for d in s.deliveries if d.consumed is not None], default=-1) for s in closed}


def _told_at_close(session: Session) -> bool:
    """It closed, and nobody knows that the link kept its last words back."""
    heard = not isinstance(session.leave, Leave) or session.leave.result != "unknown"
    return heard and session.end == "close" and session.traits.tells_given and not session.dest.topic


def closed_telling(facts: Facts) -> list[Redelivery]:
    """Redeliveries on queues after a consumer closed that told what its application had been given: neither the message
    nor any that came after it.
    """
    rows = [row for row in marked_or_not(facts) if not row.first.event.redelivered and not row.first.dest.topic]
    given = facts.rows(last_given) if rows else {}
    return [row for row in rows if row.first.place > given.get(row.first.session.name, NEVER)]


@rule("RDL-009", over=closed_telling, handles=KINDS)
def close_marks_what_was_given(facts: Facts, row: Redelivery) -> Findings:
    """A close that tells the last delivered message marks exactly the messages up to that one."""
    first, second = row.first, row.second
    for session in sessions_of(first.copy):
        if session is first.session or session is second.session:
            continue
        if session.opened[0] <= second.event.t1 and gone_ns(facts, session) >= first.event.t0:
            return  # it may have had it in between
    if second.event.redelivered:
        yield broken("marked", first, first.session, second, why="no application had been given it")
    else:
        some = facts.rows(last_given)[first.session.name] >= 0
        yield held("unmarked", "others had been given to it" if some else "")


def untold(facts: Facts) -> list[Redelivery]:
    """Redeliveries on queues where the broker was not told what the application had been given."""
    return [row for row in marked_or_not(facts) if not row.first.dest.topic and row.unsaid()]


@rule("RDL-010", over=untold, handles=KINDS)
def loss_marks_everything(_facts: Facts, row: Redelivery) -> Findings:
    """A lost connection, and a STOMP unsubscribe, mark every message of the window, written or not."""
    if row.second.event.redelivered:
        yield held("marked", f"it was {'' if row.first.consumed is not None else 'not '}given to the application")
    else:
        yield broken("unmarked", row.first, row.first.session, row.second)


def lost_together(facts: Facts) -> list[Redelivery]:
    """Those of messages that the application had been given, where another consumer that went with the same connection
    had left such a message, too.
    """
    rows = [row for row in facts.rows(untold) if row.first.consumed is not None and row.first.session.end != "close"]
    leavers: dict[tuple[str, int], dict[str, bool]] = {}
    if rows:
        for delivery in facts.deliveries:
            if delivery.consumed is not None and came_back(delivery):
                session = delivery.session
                leavers.setdefault((session.client.name, session.end_connection), {})[session.name] = True
    return [row for row in rows if len(leavers[row.first.session.client.name, row.first.session.end_connection]) > 1]


@rule("RDL-011", over=lost_together, handles=KINDS)
def loss_marks_all_consumers(_facts: Facts, row: Redelivery) -> Findings:
    """Closing a session or connection marks the delivered messages of all its consumers."""
    if row.second.event.redelivered:
        yield held("marked", f"of a {'jms' if row.first.session.traits.tells_given else 'stomp'} client")
    else:
        why = "other consumers went with the same connection"
        yield broken("unmarked", row.first, row.first.session, row.second, why=why)


def reconnected(facts: Facts) -> list[Redelivery]:
    """Redeliveries of durable subscriptions after a lost connection."""
    found: list[Redelivery] = []
    for row in marked_or_not(facts):
        subscription = row.first.copy.subscription
        if subscription is not None and subscription.durable and row.unsaid():
            found.append(row)
    return found


@rule("RDL-016", over=reconnected, handles=KINDS)
def durable_counts_on(_facts: Facts, row: Redelivery) -> Findings:
    """A durable subscription that reconnects gets its unsettled messages with a higher delivery count each time."""
    before, after = row.first.event, row.second.event
    old, new = before.delivery_count, after.delivery_count
    if after.redelivered if old is None or new is None else new > old:
        yield held("counted-on", "again" if before.redelivered else "")
    else:
        why = "it was not marked" if new is None else f"its delivery count was {new} after {old}"
        yield broken("not-counted", row.first, row.first.session, row.second, why=why)
