"""What a restart leaves of durable subscriptions, transactions and copies (GEN-083 to GEN-086); of plain messages on
queues: ``durability.py``.
"""

from __future__ import annotations

from typing import NamedTuple

from brokerproof.conformance.experiment.history import Event, Nack
from brokerproof.conformance.facts.absence import ended, missing
from brokerproof.conformance.facts.deliveries import may_be_given_up
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.marks import KINDS
from brokerproof.conformance.facts.presence import roomy_ns
from brokerproof.conformance.facts.pressure import scarce_ns
from brokerproof.conformance.facts.publishing import owed
from brokerproof.conformance.facts.rows import RETURNED, Copy, Delivery, Send, Subscription, Transaction
from brokerproof.conformance.facts.selectors import surely_wants
from brokerproof.conformance.facts.spans import ms
from brokerproof.conformance.rules.durability import confirmed_survives, down_after, is_kill, persistent, stays_away
from brokerproof.conformance.rules.durables import durable_copies, may_have_swallowed
from brokerproof.conformance.rules.rule import Findings, broken, held, rule


def restarted_durables(facts: Facts) -> list[Copy]:
    """Durable subscriptions' copies that arrived, where the broker was restarted."""
    return durable_copies(facts) if facts.restarts else []


@rule("GEN-083", over=restarted_durables, handles=KINDS, faults=("restart",))
def settled_by_a_durable(facts: Facts, copy: Copy) -> Findings:
    """What a durable subscription has settled, with a confirmation, does not come to it again after a restart."""
    return stays_away(facts, copy)


class Return(NamedTuple):
    """A durable subscription before and after a restart: at ``rest_ns`` a subscriber was back and had room."""

    subscription: Subscription
    down: Event
    rest_ns: int


def returns(facts: Facts) -> list[Return]:
    """All of them, where the broker remembers subscriptions."""
    found: list[Return] = []
    if not facts.restarts or not facts.remembers:
        return found
    for one in facts.subscriptions:
        down = down_after(facts, one.begin.t1) if one.begin is not None and one.durable and not one.doubtful else None
        if down is None or one.sessions[0].wild or one.sessions[0].dest.kind == "advisory":  # nobody need keep these
            continue
        until_ns = min(one.sure_ns, scarce_ns(facts, one.sessions[0].dest))
        back = [session for session in one.sessions if session.opened[0] >= down.t1]
        rests = [ns for session in back for ns in roomy_ns(facts, session)[-1:] if ns < until_ns]
        if rests:
            found.append(Return(one, down, max(rests)))
    return found


@rule("GEN-084", over=returns, faults=("restart",))
def publications_survive(facts: Facts, row: Return) -> Findings:
    """What was published, persistent and confirmed, and is not settled by a durable subscription comes to it after a
    restart of the broker, whatever others have settled.
    """
    one, down, rest_ns = row
    begin = one.begin
    assert begin is not None, "selected so"
    for send in facts.published(one.sessions[0].dest).between(begin.t1, down.t0):
        if not send.event.persistent or not owed(facts, send, rest_ns) or not surely_wants(one.sessions[0], send):
            continue
        copy = send.copies.get(one.name)
        deliveries = copy.deliveries if copy is not None else []
        if any(delivery.session.opened[0] >= down.t0 for delivery in deliveries):
            how = "killed" if is_kill(down) else "stopped"
            yield held("survived", f"{how} after it had been delivered" if deliveries[0].event.t0 < down.t0 else how)
        elif _is_open(facts, one, send, copy):
            yield broken("lost", send, one, down, *deliveries[-1:], why=f"it had not come at rest at {ms(rest_ns)}")
            return


def _is_open(facts: Facts, one: Subscription, send: Send, copy: Copy | None) -> bool:
    """Whether a subscription has certainly not settled a message."""
    if any(may_have_swallowed(facts, session, send) for session in one.sessions):
        return False
    if copy is None:
        return True
    unsettled = all(delivery.state == RETURNED and not delivery.settlements for delivery in copy.deliveries)
    return unsettled and not copy.dead_letters and not may_be_given_up(copy)


def committed(facts: Facts) -> list[tuple[Transaction, Event]]:
    """Transactions that were committed before the broker went down."""
    if not facts.restarts or not facts.remembers:
        return []
    ends = [(one, one.end) for one in facts.transactions.values() if one.committed and one.end is not None]
    downs = [(one, down_after(facts, end.t1)) for one, end in ends]
    return [(one, down) for one, down in downs if down is not None]


@rule("GEN-085", over=committed, handles=KINDS, faults=("restart",))
def commits_survive(facts: Facts, row: tuple[Transaction, Event]) -> Findings:
    """After a restart what a confirmed commit has sent is there, and what it has acknowledged is not."""
    transaction, down = row
    how = "the broker was killed" if is_kill(down) else "the broker was stopped"
    for send in transaction.sends:
        for copy in send.copies.values() if send.event.persistent and send.event.result == "ok" else ():
            if missing(facts, copy):
                yield broken("lost", copy, transaction, down)
                return
            if ended(facts) and any(delivery.event.t0 > down.t0 for delivery in copy.deliveries):
                yield held("as-committed", how)
    for delivery in transaction.settled if not transaction.mixed else ():
        if isinstance(delivery.settlement, Nack) or not delivery.session.known:
            continue
        again = _after(delivery, down)
        if again is not None:
            yield broken("came-back", delivery, transaction, down, again)
            return
        if ended(facts):
            yield held("as-committed", how)


def _after(delivery: Delivery, down: Event) -> Delivery | None:
    """The same copy, delivered once more from there after the broker had gone down."""
    later = [one for one in delivery.copy.deliveries if one.session.opened[0] >= down.t0]
    return next((one for one in later if one.dest is delivery.dest), None)


def spread(facts: Facts) -> list[Copy]:
    """Persistent copies of what was sent to several names, or to a virtual topic, before a restart."""
    return [copy for copy in persistent(facts) if copy.send.dest.kind in {"composite", "virtual"}]


@rule("GEN-086", over=spread, handles=KINDS, faults=("restart",), absence=True)
def every_copy_survives(facts: Facts, copy: Copy) -> Findings:
    """Of a persistent message that was sent to several names, or to a virtual topic with queues, every copy survives a
    restart of the broker.
    """
    return confirmed_survives(facts, copy)
