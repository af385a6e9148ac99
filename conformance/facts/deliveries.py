"""Deliveries: whether one was settled for certain, and whether two of one copy can be the work of a correct broker."""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Ack, Discard, Nack, Operate
from brokerproof.conformance.facts.presence import rest_after
from brokerproof.conformance.facts.rows import RETURNED, SETTLED, Copy, Delivery, Session
from brokerproof.conformance.facts.settling import gave_up, rolled_back
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.facts.tables import Tables


def settled(tables: Tables, delivery: Delivery) -> bool:
    """Whether the broker took the settlement of this delivery, for certain."""
    settlement = delivery.settlement
    if delivery.state != SETTLED or isinstance(settlement, Discard):
        return False
    session = delivery.session
    if settlement is not None and session.traits.awaits_receipt:
        return True
    if settlement is not None and session.end in {"", "close"} and session.lost_ns >= settlement.t1:
        # A library need not wait for an answer, but what it wrote before its goodbye was read before it.
        return True
    taken_ns = settlement.t1 if settlement is not None else delivery.event.t1
    rest_ns = rest_after(tables, taken_ns)
    return rest_ns < session.lost_ns or rested_first(tables, session, rest_ns)


def rested_first(tables: Tables, session: Session, rest_ns: int) -> bool:
    """Whether nothing was moving at the very instant from which on a session may have ended, in virtual time, where a
    step begins only when the one before it is over.
    """
    leave = session.leave
    if leave is None or not tables.simulated or not session.known or session.client.stalls:
        return False
    return rest_ns == session.lost_ns < NEVER and tables.rests[rest_ns] < leave.seq


def repeated(tables: Tables, first: Delivery, second: Delivery) -> bool:
    """Whether no correct broker can have made both deliveries of a copy, the first of which arrived first."""
    one, other = first.session, second.session
    if other.lost_ns <= first.event.t1 or (one is other and one.lost_ns <= second.event.t1):
        return False
    if tables.restarted(first.send.event.t0, second.event.t1):
        return False
    if first.undone_ns <= second.event.t1:
        return False
    refused = first.settlement
    if isinstance(refused, Discard) and refused.t0 <= second.event.t1:
        return False  # an expired-ack with which the broker's clock disagrees gives the message back
    if first.dest.applied.entry.redelivery is not None and gave_up(first):
        return False
    # Where a rejection is not the end, the broker may try again; one session may have rejected either of two.
    meant = [first, second] if one is other else [first]
    if first.event.message in one.twins:  # or another copy of it
        meant = [delivery for delivery in one.deliveries if delivery.event.message == first.event.message]
    for delivery in meant:
        for event in delivery.settlements:
            was_end = delivery.state == SETTLED and delivery.settlements[-1] is event
            if isinstance(event, Nack) and not (was_end or _is_undone(tables, event)) and event.t0 <= second.event.t1:
                return False
    return one is other or one.lost_ns > second.event.t1 or settled(tables, first)


def final(tables: Tables, delivery: Delivery) -> Ack | Nack | Discard | None:
    """Its settlement that was not rolled back: the first."""
    for event in (delivery.settlement, *delivery.settlements):
        if event is None or isinstance(event, Discard) or not _is_undone(tables, event):
            return event
    return None


def _is_undone(tables: Tables, event: Ack | Nack) -> bool:
    return event.tx is not None and tables.transactions[event.tx].committed is False


def marks_departure(tables: Tables, session: Session) -> bool:
    """Whether what a session had is marked when it comes again: a broker that marks by a count of its own need count no
    delivery that a consumer gave back when it said goodbye.
    """
    goodbye = session.end in {"", "close"} or not session.known
    return not (goodbye and "marks-by-count" in tables.header.capabilities)


def came_back(delivery: Delivery) -> bool:
    """Its session left it, and never tried to settle it."""
    return delivery.state == RETURNED and delivery.settlement is None


def may_be_given_up(copy: Copy) -> bool:
    """Whether it may have died for another reason than expiry: somebody rejected it, or a library gave it up."""
    if copy.rejected:
        return True
    consumed = sum(delivery.consumed is not None for delivery in copy.deliveries)
    counts = [rolled_back(d) + max(1, d.event.delivery_count or 1) for d in copy.deliveries]
    rounds = max([len(copy.deliveries), consumed, *counts])
    limits = [d.session.traits.gives_up_after for d in copy.deliveries if d.session.traits.gives_up_after]
    return bool(limits) and rounds >= min(limits) - 1


def moves(copy: Copy) -> list[Operate]:
    """Requests of operators that may have moved a copy away from its destination, or back."""
    sent_ns, home = copy.send.event.t0, copy.dest.name
    found = [one for one in copy.dest.purges if one.op == "move" and one.count != 0 and one.t1 >= sent_ns]
    left = any(one.dest == home or one.dest.startswith(DEAD_LETTERS) for one in found)
    return found if left else []


def is_beside_another(copy: Copy) -> bool:
    """Whether an operator may have moved another copy of its message to its destination."""
    home = copy.dest.name
    others = {one.dest.name for one in copy.send.copies.values()} - {home}
    unseen = copy.send.dest.kind == "virtual"  # queues of it that nobody consumes from may have copies
    return any(one.op == "move" and one.to == home and (unseen or one.dest in others) for one in copy.dest.purges)


def at_home(delivery: Delivery) -> bool:
    """Whether it arrived where it was sent to, and no operator can have brought it back there."""
    copy, dest = delivery.copy, delivery.dest
    if dest is not copy.dest or not dest.purges:
        return dest is copy.dest
    if copy.send.dest is not copy.dest and any(one.op == "move" and one.to == dest.name for one in dest.purges):
        return False  # another copy may have been brought
    return all(one.to != dest.name for one in moves(copy))


def is_own_letter(delivery: Delivery) -> bool:
    """Whether it may have died on the dead-letter queue that it was sent to, and come back there as a dead letter; or
    was a dead letter before an operator moved it.
    """
    event, dest = delivery.event, delivery.dest
    if delivery.is_moved and (event.original_dest or "").startswith(DEAD_LETTERS):
        return True
    told = bool(event.original_dest) or not event.expiration_ms
    return told and dest is delivery.copy.dest and dest.kind == "dead-letters"


def departure(session: Session) -> str:
    """How a session went, as a situation."""
    return {
        "close": "the consumer closed",
        "drop": "the consumer's connection was lost",
        "kill": "the consumer's process was killed",
        "closed": "the consumer's link was closed",
        "broker": "the broker was restarted",
    }.get(session.end, "")
