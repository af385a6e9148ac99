"""How the suite's words are said in STOMP on a broker with conventions of its own; the defaults are ActiveMQ's."""

from __future__ import annotations

import msgspec

#: The suite's word -> the header that ActiveMQ has for it. ``life`` is a time to live by the broker's clock.
HEADERS: dict[str, str] = {
    "expiration": "expires",
    "life": "brokerproof_ttl_ms",
    "timestamp": "timestamp",
    "delay": "AMQ_SCHEDULED_DELAY",
    "persistent": "persistent",
    "priority": "priority",
    "group": "JMSXGroupID",
    "redelivered": "redelivered",
    "delivery_count": "redeliveryCounter",
    "original_destination": "original-destination",
    "prefetch": "activemq.prefetchSize",
    "durable": "activemq.subscriptionName",
    "selector": "selector",
    "exclusive": "activemq.exclusive",
    "no_local": "activemq.noLocal",
    "consumer_priority": "activemq.priority",
    "dispatch_async": "activemq.dispatchAsync",
}


class StompNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """``headers``: the suite's word (``HEADERS``) -> the broker's header; one that is "" does not exist there."""

    queue: str = "/queue/{name}"
    topic: str = "/topic/{name}"
    dead_letters: str = "/queue/ActiveMQ.DLQ"
    headers: dict[str, str] = {}
