"""Acknowledgements: which deliveries a MessageAck means, whether it is valid, and what it does to the window.

Rules (``RULES`` is the table; numbers are OpenWire's):
* A range goes from ``first`` ("" = the oldest on the consumer's list) to ``last`` in dispatch order; INDIVIDUAL means
  ``last`` alone.
* Everything is validated before anything changes: an unknown or reversed bound is refused and has no effect, also for
  POISON and EXPIRED, where ActiveMQ processes the rest of the list before it complains.
* An unknown id in an INDIVIDUAL ack is ignored with a DEBUG line, as in ActiveMQ. A STOMP session refuses it earlier.
* What a transaction holds already (``pending_ack``) is settled by no other acknowledgement.
* DELIVERED only widens the window, REDELIVERED changes nothing, UNMATCHED is ignored.
* POISON is refused in a transaction, as in ActiveMQ, unless the broker takes it (``transacted_nacks``, STOMP 1.2): then
  it waits for the end like INDIVIDUAL.
* A delivery may be acknowledged before the transport has reported that it is written: the report may come late.

Exception: on a non-durable topic ActiveMQ lets an INDIVIDUAL ack settle everything before it as well; here it settles
one message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.destination import CLIENT_EXPIRED, CONSUMED, POISONED
from brokerproof.reference_broker.core.events import (
    DELIVERED,
    EXPIRED,
    INDIVIDUAL,
    POISON,
    REDELIVERED,
    STANDARD,
    UNMATCHED,
)

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.subscription import Consumer, Delivery

# Scope: which deliveries.
RANGE: Final = "range"
SINGLE: Final = "single"
NOTHING: Final = "nothing"

# Outcome, beside those of ``destination.py``.
KEPT: Final = "kept"  # they stay on the list

# How much the window's extension shrinks.
BY_COUNT: Final = "by count"
BY_ONE: Final = "by one"
NOT: Final = "not"

# In a transaction it waits for the end, acts at once as without one, or is refused.
WAITS: Final = "waits"
AT_ONCE: Final = "at once"
REFUSED: Final = "refused"


class Rule:
    """One row: what an acknowledgement type does."""

    __slots__ = ("in_transaction", "name", "narrows", "outcome", "scope", "widens", "widens_in_transaction")

    def __init__(
        self,
        name: str,
        scope: str,
        outcome: str,
        narrows: str,
        *,
        in_transaction: str = AT_ONCE,
        widens: bool = False,
        widens_in_transaction: bool = False,
    ) -> None:
        self.name = name
        self.scope = scope
        self.outcome = outcome
        self.narrows = narrows
        self.in_transaction = in_transaction
        self.widens = widens
        self.widens_in_transaction = widens_in_transaction


#: POISON of a broker that takes it in a transaction.
TRANSACTED_POISON: Final = Rule("POISON", RANGE, POISONED, BY_ONE, in_transaction=WAITS, widens_in_transaction=True)

RULES: Final[dict[int, Rule]] = {
    STANDARD: Rule("STANDARD", RANGE, CONSUMED, BY_COUNT, in_transaction=WAITS),
    INDIVIDUAL: Rule("INDIVIDUAL", SINGLE, CONSUMED, BY_COUNT, in_transaction=WAITS, widens_in_transaction=True),
    DELIVERED: Rule("DELIVERED", RANGE, KEPT, NOT, widens=True),
    POISON: Rule("POISON", RANGE, POISONED, BY_ONE, in_transaction=REFUSED),
    EXPIRED: Rule("EXPIRED", RANGE, CLIENT_EXPIRED, BY_ONE),
    REDELIVERED: Rule("REDELIVERED", RANGE, KEPT, NOT),
    UNMATCHED: Rule("UNMATCHED", NOTHING, KEPT, NOT),
}


@mypyc_attr(allow_interpreted_subclasses=True)
class Acknowledgement:
    """Policy ``acknowledgement``. ``transacted_nacks``: a transaction may reject."""

    def __init__(self, *, transacted_nacks: bool = False) -> None:
        self.transacted_nacks = transacted_nacks

    def rule(self, kind: int) -> Rule | None:
        """The row for an acknowledgement type; None if the number means nothing."""
        if kind == POISON and self.transacted_nacks:
            return TRANSACTED_POISON
        return RULES.get(kind)

    def select(
        self, consumer: Consumer, rule: Rule, first: str, last: str, destination: str = ""
    ) -> list[Delivery] | None:
        """The deliveries meant, oldest first; None if the acknowledgement fits nothing that this consumer holds.
        ``destination`` says which copy of ``last`` is meant, if there are several.
        """
        if rule.scope == RANGE:
            deliveries = consumer.dispatched.between(first, last, destination)
            if deliveries is not None and rule.outcome != KEPT:
                return [delivery for delivery in deliveries if delivery.pending_ack is None]
            return deliveries
        if rule.scope == NOTHING:
            return []
        delivery = consumer.dispatched.find(last, destination)
        return [] if delivery is None or delivery.pending_ack is not None else [delivery]
