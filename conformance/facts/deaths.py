"""Deaths: what a dead letter may be a sign of, when it was not the broker's clock that called the message expired.

Clients' libraries discard what *their* clock calls expired, and not all of them say so: what a library may have thrown
away unseen stays a possibility, bounded by its host's clock and by its stay.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Ack
from brokerproof.conformance.facts.absence import maybe_discarded_unseen, would_be_dead_letter
from brokerproof.conformance.facts.deliveries import is_beside_another, may_be_given_up, moves, settled
from brokerproof.conformance.facts.expiration import Death
from brokerproof.conformance.facts.managed import is_queue_manager
from brokerproof.conformance.facts.policy import believes_clients
from brokerproof.conformance.facts.pressure import scarce_ns
from brokerproof.conformance.facts.rows import Copy
from brokerproof.conformance.facts.spans import NEVER
from brokerproof.conformance.facts.tables import Tables


def maybe_discarded(tables: Tables, copy: Copy, death: Death) -> bool:
    """Whether a client called it expired, or its library may have thrown it away without anybody seeing it."""
    siblings = copy.send.copies.values() if copy.dest.topic or is_beside_another(copy) else [copy]
    if any(one.called_expired or (one.deliveries and one.discards()) for one in siblings):
        return True
    return maybe_discarded_unseen(tables, copy, death)


def given_up(copy: Copy) -> bool:
    """Whether its dead letter may have another reason than expiry: a rejection, a slow subscriber, an operator."""
    if copy.dest.topic and copy.dest.applied.entry.pending_message_limit is not None:
        return True
    return bool(moves(copy)) or any(may_be_given_up(one) for one in copy.send.copies.values())


def may_come_twice(tables: Tables, copy: Copy) -> bool:
    """Whether a real broker may make a dead letter of what was sent again, because it was there already (ActiveMQ:
    "duplicate from store", "duplicate paged in from cursor").
    """
    return copy.send.event.again and not tables.simulated


def otherwise_dead(tables: Tables, copy: Copy, death: Death) -> bool:
    """Whether its dead letter may have another reason than the broker's clock; of a delayed one it may be a target that
    could not take it (DLY-051).
    """
    if may_come_twice(tables, copy) or given_up(copy) or (copy.send.delayed and is_queue_manager(tables)):
        return True
    # A durable subscriber's word is always believed: nobody else could be given its copy.
    believed = believes_clients(tables.declared) or copy.dest.topic
    return believed and maybe_discarded(tables, copy, death)


def letter_is_due(tables: Tables, copy: Copy) -> bool:
    """Whether the dead letter of a copy that expired must have been found; of all copies of a message the first may be
    the only one that gets one.
    """
    if "dead-letter" not in tables.header.capabilities:
        return False  # it may throw away what has expired
    dest = copy.dest
    gone = any(operation.t1 >= copy.send.event.t0 for operation in dest.purges)
    letters = any(one.dead_letters for one in copy.send.copies.values())
    if dest.kind == "temporary" and not dest.applied.is_shared():
        return False  # nobody knows what the broker calls the queue
    if dest.kind == "temporary" and not tables.simulated and not copy.deliveries:
        return False  # the drain takes nothing there: behind a full window a broker need not look at it
    if tables.paged and not copy.deliveries and (tables.may_page(dest) or scarce_ns(tables, dest) < NEVER):
        return False  # such a broker may not come to look at it
    return not gone and not letters and would_be_dead_letter(tables, copy)


def consumed_ns(tables: Tables, copy: Copy) -> int:
    """By when an acknowledgement had consumed it, for certain; ``NEVER``: nobody knows of any."""
    bound = NEVER
    for delivery in copy.deliveries:
        if not settled(tables, delivery):
            continue
        for ack in delivery.settlements:
            if isinstance(ack, Ack) and ack.result == "ok":
                transaction = tables.transactions[ack.tx] if ack.tx is not None else None
                end = ack if transaction is None else transaction.end if transaction.committed else None
                bound = min(bound, end.t1 if end is not None else NEVER)
    return bound
