"""Selecting: which rows rules run over. Each function is asked once per history, and shared by its rules."""

from __future__ import annotations

from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.rows import Copy, Reading, Send, Session, Subscription, Transaction


def sends(facts: Facts) -> list[Send]:
    """All messages that were sent."""
    return list(facts.sends.values())


def queue_copies(facts: Facts) -> list[Copy]:
    """Copies on queues, those that were refused included."""
    return [copy for copy in facts.copies if copy.subscription is None and not copy.dest.topic]


def copies_again(facts: Facts) -> list[Copy]:
    """Copies on queues that arrived more than once."""
    return [copy for copy in facts.rows(queue_copies) if len(copy.deliveries) > 1]


def sessions(facts: Facts) -> list[Session]:
    """All consumers that may have attached."""
    return list(facts.sessions.values())


def durables(facts: Facts) -> list[Subscription]:
    """Durable subscriptions."""
    return [subscription for subscription in facts.subscriptions if subscription.durable]


def transactions(facts: Facts) -> list[Transaction]:
    """All local transactions."""
    return list(facts.transactions.values())


def queue_readings(facts: Facts) -> list[Reading]:
    """Counters of queues, in order."""
    return facts.queue_readings


def broker_readings(facts: Facts) -> list[Reading]:
    """The broker's own counters, in order."""
    return facts.broker_readings


def queues_at_rest(facts: Facts) -> list[Reading]:
    """Counters of queues that were read while nothing moved, in order."""
    return facts.queue_rests


def reasoned(send: Send) -> bool:
    """Whether its refusal gives a queue manager's reason, which says more than any text."""
    return "MQRC_" in (send.event.refusal or "")
