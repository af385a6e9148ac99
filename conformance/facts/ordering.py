"""Ordering: which of two messages of one producer should have arrived first at a consumer, and did not."""

from __future__ import annotations

from collections.abc import Iterator

from brokerproof.conformance.facts.marks import CHOOSING, OPERATOR
from brokerproof.conformance.facts.presence import maybe_elsewhere
from brokerproof.conformance.facts.rows import Delivery, Session
from brokerproof.conformance.facts.tables import Tables


def neighbours(tables: Tables, session: Session, *, anew: bool = False) -> Iterator[tuple[Delivery, Delivery, bool]]:
    """Pairs of deliveries that one producer sent to one destination in the same way, as they arrived, and whether the
    second one was overtaken by the first: sent before it, and nobody can have had it in between. ``anew``: whoever had
    anything before had gone when the session came, so that all of it waited.
    """
    newest: dict[tuple[object, ...], Delivery] = {}
    for delivery in session.deliveries:
        send, event = delivery.send, delivery.send.event
        # One that went unanswered, and arrived, was taken after what its connection had sent before; unless it still
        # stood in a library that is asked by another thread meanwhile (``agents/jms_agent.py``).
        written = tables.simulated or not send.client.traits.stamps_expiration
        sure = send.confirmed or (event.result == "unknown" and not event.again and written)
        if not sure or event.tx is not None or event.delay_ms or event.deliver_at_ms is not None:
            continue
        if delivery.marks & OPERATOR or (
            delivery.dest is not delivery.copy.dest and (delivery.is_dead_letter or delivery.is_moved)
        ):
            continue
        # A library need not wait until a non-persistent message is accepted, so a new connection may overtake it.
        loose = not event.persistent and not send.client.traits.awaits_receipt
        connection = send.connection if loose or not send.confirmed else 0
        key = (event.dest, delivery.dest.name, event.host, event.priority, event.persistent, connection, event.group)
        before = newest.get(key)
        if before is None or before.send.event.t0 <= event.t0:
            newest[key] = delivery
            if before is not None:
                yield before, delivery, False
        elif event.t1 <= before.send.event.t0 and _first_here(tables, delivery, anew) and not _came_back(before):
            yield before, delivery, True


def _came_back(delivery: Delivery) -> bool:
    """A consumer that chooses may have had it before, and what comes back goes ahead of what nobody has had."""
    return bool(delivery.marks & CHOOSING) and delivery.copy.deliveries[0] is not delivery


def _first_here(tables: Tables, delivery: Delivery, anew: bool) -> bool:
    """Nobody can have had it before, so that nothing but disorder explains its place."""
    if delivery.copy.deliveries[0] is not delivery:
        return False
    return delivery.dest.topic or anew or not maybe_elsewhere(tables, delivery)
