"""Local transactions (GEN-009, GEN-060 to GEN-066)."""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Abort, Event, Leave
from brokerproof.conformance.facts import marks
from brokerproof.conformance.facts.absence import absent, ended
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.presence import kept_connection, maybe_elsewhere
from brokerproof.conformance.facts.rows import LATE, RETURNED, Delivery, Send, Session, Transaction
from brokerproof.conformance.facts.spans import NEVER, t1_of
from brokerproof.conformance.rules.rule import Findings, broken, held, rule
from brokerproof.conformance.rules.selecting import transactions

#: What no observer of one delivery can see past.
BLIND = marks.OPERATOR | marks.REDELIVERY | marks.REPEATED | marks.MQSC

#: How many sessions are asked whether they were waiting, for a situation.
LOOKED_AT = 8


def _is_undone(transaction: Transaction) -> bool:
    """It was rolled back for certain: on request, or because its connection ended before a commit was asked for."""
    end = transaction.end
    return end is None or isinstance(end, Abort) or end.result == "fail"


def _sight(send: Send) -> Event | None:
    """The first time that anybody saw a message; but what is dead on arrival need not wait for a commit."""
    letters = [letter.event for copy in send.copies.values() for letter in copy.dead_letters]
    if not send.mortal or send.seen not in letters:
        return send.seen
    arrivals = [delivery.event for copy in send.copies.values() for delivery in copy.deliveries]
    return min(arrivals, key=t1_of, default=None)


@rule("GEN-060", over=transactions)
def not_before_the_commit(_facts: Facts, transaction: Transaction) -> Findings:
    """What is sent in a transaction is given to nobody before the transaction is committed."""
    commit = transaction.end
    if commit is None or _is_undone(transaction):
        return
    for send in transaction.sends:
        sight = _sight(send)
        if sight is None:
            continue
        if sight.t1 < commit.t0:
            yield broken("early", send, sight, transaction)
            return
        last = send.dest.sessions[-LOOKED_AT:]
        waiting = any(s.known and s.opened[0] < send.event.t0 and s.lost_ns > commit.t0 for s in last)
        yield held("after-the-commit", "a consumer was waiting" if waiting else "")


def _never_seen(facts: Facts, transaction: Transaction) -> Findings:
    for send in transaction.sends:
        sight = _sight(send)
        if sight is not None:
            yield broken("delivered", send, transaction, sight)
            return
        if send.event.result == "ok" and ended(facts):
            yield held("undone", "messages had been sent")


@rule("GEN-061", over=transactions)
def rolled_back_is_never_delivered(facts: Facts, transaction: Transaction) -> Findings:
    """What was sent in a transaction that was rolled back is never delivered."""
    if _is_undone(transaction) and transaction.end is not None:
        yield from _never_seen(facts, transaction)


@rule("GEN-062", over=transactions)
def all_or_nothing(facts: Facts, transaction: Transaction) -> Findings:
    """After a commit nothing of the transaction is missing; where the result of the commit is unknown, all of it is
    there or nothing.
    """
    sends = [send for send in transaction.sends if send.event.result == "ok"]
    seen = [send for send in sends if send.seen is not None]
    if _is_undone(transaction) or not (transaction.committed or any(send.seen for send in transaction.sends)):
        return
    for send in sends:
        for copy in send.copies.values():
            if not copy.deliveries and not copy.marks & marks.MQSC and absent(facts, copy):
                outcome = "lost" if transaction.committed else "torn"
                yield broken(outcome, copy, transaction, why=f"{len(seen)} of its {len(sends)} messages came")
                return
    if sends and transaction.committed and len(seen) == len(sends):
        yield held("whole", "several messages" if len(sends) > 1 else "")


@rule("GEN-009", over=transactions)
def together_or_not_at_all(facts: Facts, transaction: Transaction) -> Findings:
    """The messages of a transaction appear together at commit, and not at all after a rollback."""
    yield from all_or_nothing(facts, transaction)
    yield from rolled_back_is_never_delivered(facts, transaction)


@rule("GEN-063", over=transactions)
def in_the_order_of_sending(facts: Facts, transaction: Transaction) -> Findings:
    """What is sent in one transaction to one destination arrives in the order of sending."""
    latest: dict[tuple[object, ...], Delivery] = {}
    if _is_undone(transaction):
        return
    for send in transaction.sends:
        event = send.event
        for copy in send.copies.values() if not event.delay_ms and event.deliver_at_ms is None else ():
            first = copy.deliveries[0] if copy.deliveries else None
            if first is None or first.state == LATE or first.dest is not copy.dest or first.marks & BLIND:
                continue
            key = (first.session.name, copy.dest.name, event.priority, event.persistent, event.group)
            before = latest.get(key)
            if before is None or first.event.seq > before.event.seq:
                latest[key] = first
                if before is not None:
                    yield held("in-order", "on a topic" if copy.dest.topic else "on a queue")
            elif not (maybe_elsewhere(facts, first) or maybe_elsewhere(facts, before)):
                yield broken("reordered", before.send, send, first, before)
                return


@rule("GEN-064", over=transactions)
def settled_by_a_commit(facts: Facts, transaction: Transaction) -> Findings:
    """What was acknowledged in a committed transaction is not delivered again."""
    commit = transaction.end
    if not transaction.committed or commit is None or transaction.mixed:
        return
    for delivery in transaction.settled:
        session, copy = delivery.session, delivery.copy
        left = session.lost_ns < commit.t1
        if not session.known or copy.marks & BLIND or (left and not _left_alone(facts, session, commit)):
            continue
        # To whom it went before the commit, because its consumer had left, is open.
        since_ns, arrivals = commit.t1 if left else 0, copy.deliveries
        for other in arrivals[arrivals.index(delivery) + 1 :] if delivery in arrivals else ():
            if other.state != LATE and other.session.lost_ns > delivery.event.t1 and other.event.t0 >= since_ns:
                yield broken("redelivered", delivery, transaction, other)
                return
        yield held("never-again", "its consumer left afterwards" if session.end and not left else "")


def _left_alone(facts: Facts, session: Session, commit: Event) -> bool:
    """Whether a consumer said goodbye, and nothing else of the connection whose transactions its acknowledgements join
    ended before the commit.
    """
    goodbye = isinstance(session.leave, Leave) and session.leave.consumer and session.leave.result == "ok"
    whole = session.traits.transaction_scope == "connection"
    return bool(goodbye) and whole and kept_connection(facts, session.client, session.opened[0], commit.t1)


def _come_back(facts: Facts, transaction: Transaction, outcome: str, situation: str) -> Findings:
    """What was acknowledged in vain, and not again, comes back when its consumer has left."""
    for delivery in transaction.settled if not transaction.mixed else ():
        copy, session = delivery.copy, delivery.session
        if delivery.state != RETURNED or not session.known or copy.marks & BLIND or session.lost_ns >= NEVER:
            continue
        if not delivery.is_latest() or (copy.dead_letters and not delivery.is_dead_letter):
            yield held(outcome, situation)
        elif absent(facts, copy):
            yield broken("lost", delivery, transaction, session)
            return


@rule("GEN-065", over=transactions)
def unsettled_by_a_rollback(facts: Facts, transaction: Transaction) -> Findings:
    """What was acknowledged in a transaction that was rolled back is not settled: it comes back when its consumer
    leaves.
    """
    end = transaction.end
    if isinstance(end, Abort) and end.result == "ok":
        yield from _come_back(facts, transaction, "came-back", "acknowledged, rolled back")


@rule("GEN-066", over=transactions)
def lost_is_rolled_back(facts: Facts, transaction: Transaction) -> Findings:
    """A transaction whose connection is lost before the commit is rolled back, with what was sent and what was
    acknowledged in it.
    """
    if transaction.end is None:
        yield from _never_seen(facts, transaction)
        yield from _come_back(facts, transaction, "undone", "acknowledged, the connection was lost")
