"""Sessions that resume: a delivery that had begun in an earlier stay of the subscriber goes on in this one.

Expiry is looked at before a delivery begins, not when it is repeated (MQTT 5, 3.3.2.3.3).
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Arrive
from brokerproof.conformance.facts.rows import Delivery


def is_resumed(delivery: Delivery) -> bool:
    """Whether it may have begun before its session did."""
    session = delivery.session
    if not session.traits.resumes or session.subscription is None or session.subscription.sessions[0] is session:
        return False
    return delivery.event.redelivered is not False or delivery.copy.deliveries[0] is not delivery


def begun(delivery: Delivery) -> tuple[int, Arrive]:
    """The earliest time at which it can have begun, and the arrival that proves that it had."""
    if not is_resumed(delivery):
        return delivery.assigned[0], delivery.event
    first = delivery.copy.deliveries[0]
    if first is not delivery:
        return begun(first)[0], first.event
    # Nobody saw the first attempt: it was on its way when a connection ended.
    sessions = delivery.session.subscription.sessions if delivery.session.subscription is not None else []
    return max(delivery.send.event.t0, sessions[0].opened[0]), delivery.event
