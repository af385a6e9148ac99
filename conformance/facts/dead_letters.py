"""Dead letters: which copies died for certain, and whether a dead letter of one would have been seen."""

from __future__ import annotations

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Nack
from brokerproof.conformance.facts.absence import drained, is_stuck, maybe_swallowed
from brokerproof.conformance.facts.deliveries import final, may_be_given_up, moves, settled
from brokerproof.conformance.facts.expiration import dead, death_of, maybe_timed_out
from brokerproof.conformance.facts.presence import gone_ns, rest_after, settles_unseen
from brokerproof.conformance.facts.rows import Copy, Delivery, Send
from brokerproof.conformance.facts.spans import NEVER, Span
from brokerproof.conformance.facts.tables import Tables


def rejection(tables: Tables, copy: Copy) -> tuple[Delivery, Nack] | None:
    """The delivery whose confirmed rejection was the end of a copy, and the request."""
    for delivery in copy.deliveries if copy.rejected else ():
        settlement = final(tables, delivery)
        ends = delivery.dest is copy.dest and copy.dest.applied.entry.redelivery is None
        if ends and isinstance(settlement, Nack) and settlement.result == "ok" and settled(tables, delivery):
            return delivery, settlement
    return None


def rejected_during(tables: Tables, nack: Nack) -> Span:
    """When the broker carried it out: between the request and the answer, or that to the commit."""
    end = tables.transactions[nack.tx].end if nack.tx is not None else None
    return nack.t0, nack.t1 if end is None else end.t1


def maybe_rejected(copy: Copy) -> bool:
    """Whether a session, or its library after a rollback, may have rejected a copy; of a topic's message nobody knows
    of which copy a dead letter is.
    """
    copies = copy.send.copies.values() if copy.dest.topic else (copy,)
    return any(may_be_given_up(one) or any(delivery.rollbacks for delivery in one.deliveries) for one in copies)


def owed(tables: Tables, copy: Copy, by_ns: int) -> str:
    """The queue on which a dead letter must be of a copy that was rejected by then; "": none need be."""
    applied = copy.dest.applied
    expired = maybe_timed_out(tables, copy, by_ns)
    if not applied.keeps_dead_letter(persistent=copy.send.event.persistent, expired=expired):
        return ""
    return DEAD_LETTERS if applied.is_shared() else applied.own_dead_letters()


def names_another(letter: Delivery) -> bool:
    """Whether a dead letter names another origin; the broker has a name of its own for a temporary queue."""
    home = letter.copy.dest
    if (letter.event.original_dest or "").startswith(DEAD_LETTERS):
        return False  # it died once more as a dead letter
    return letter.event.original_dest not in {None, home.name} and home.kind != "temporary"


def is_told(letter: Delivery) -> bool:
    """Whether it is known at which destination the message of this dead letter died."""
    if moves(letter.copy) or any(operation.op == "move" for operation in letter.dest.purges):
        return False
    return letter.event.original_dest is not None or letter.send.dest.kind not in {"composite", "virtual"}


def lacks_origin(tables: Tables, letter: Delivery) -> bool:
    """Whether it names no origin, although the broker's profile says where it does so; or whoever took it read those of
    other rejected messages of its kind of destination: what a broker never tells, or its client cannot read, is no
    fault of one letter.
    """
    kind = letter.copy.dest.kind
    if letter.event.original_dest is not None or kind == "temporary":
        return False
    if kind == "queue" and "letters-name-queues" in tables.header.capabilities:
        return True
    others = [one.copy for one in letter.session.deliveries if one.is_dead_letter and one.event.original_dest]
    return any(copy.rejected and copy.dest.kind == kind for copy in others)


def surely_expired_there(tables: Tables, copy: Copy) -> bool:
    """Whether a copy waited on its queue until it was dead, nobody having got it, and somebody then came for it."""
    event, drain = copy.send.event, tables.phases.get("drain")
    if copy.deliveries or not copy.send.confirmed or drain is None or not drained(tables, copy.dest):
        return False
    if copy.dest.topic or event.delay_ms or event.deliver_at_ms is not None or is_stuck(tables, copy.dest):
        return False
    if any(event.t0 <= operation.t1 for operation in copy.dest.purges) or not _is_kept(tables, copy.send, event.t0):
        return False
    death = death_of(tables, copy.send)
    return death is not None and dead(tables, death, drain.t0, tables.end_ns) and not maybe_swallowed(tables, copy)


def collected(tables: Tables, copy: Copy, place: str, made: Span) -> bool:
    """Whether somebody took whatever lay on a dead-letter queue at the end, and a letter of that copy, ``made`` then,
    must have been there.
    """
    if copy.dest.kind == "temporary" and place == copy.dest.applied.own_dead_letters():
        return False  # it is named after what the broker calls it
    others = [other for other in copy.send.copies.values() if other is not copy]
    if any(letter.dest.name == place for other in others for letter in other.dead_letters):
        return False  # a strategy audits: one letter of a message, whatever its copies
    sent_ns = copy.send.event.t0
    if any(sent_ns <= one.t1 and one.t0 <= made[1] for one in copy.dest.purges):
        return False
    return letter_collected(tables, copy.send, place, made)


def letter_collected(tables: Tables, send: Send, place: str, made: Span) -> bool:
    """Whether somebody took whatever lay on a dead-letter queue at the end, and no letter was lost there."""
    dest = tables.destination(place)
    if not place or not drained(tables, dest) or dest.purges or is_stuck(tables, dest):
        return False
    if not _is_kept(tables, send, made[0]):
        return False
    for session in dest.sessions:
        if not settles_unseen(session) or (session.known and not session.end):
            continue
        if gone_ns(tables, session) >= made[0] and rest_after(tables, made[1]) >= session.lost_ns:
            return False  # it may have been written to somebody who never got it
    return True


def _is_kept(tables: Tables, send: Send, since_ns: int) -> bool:
    """Whether nothing that happened to the broker from then on can have taken it."""
    kept = send.event.persistent and tables.declared.persistent
    return kept or not tables.restarted(since_ns, NEVER)
