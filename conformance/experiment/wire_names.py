"""How the suite's words are said on a wire, on a broker with conventions of its own.

STOMP's defaults are ActiveMQ's, the others' those of the protocol's own documents. A word that a protocol has no choice
about (a priority, a group) is not in its table.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from brokerproof.conformance.experiment.destinations import own_dead_letters_of

#: The property that says how long a message lives by the broker's clock, for brokers that know it (docs/agents.md).
LIFE: Final = "brokerproof_ttl_ms"
#: The suite's word -> the header that ActiveMQ has for it. ``life`` is a time to live by the broker's clock.
HEADERS: dict[str, str] = {
    "expiration": "expires",
    "life": LIFE,
    "timestamp": "timestamp",
    "delay": "AMQ_SCHEDULED_DELAY",
    "persistent": "persistent",
    "priority": "priority",
    "group": "JMSXGroupID",
    "redelivered": "redelivered",
    "delivery_count": "redeliveryCounter",
    "original_destination": "original-destination",
    "prefetch": "activemq.prefetchSize",
    "client_id": "client-id",
    "durable": "activemq.subscriptionName",
    "selector": "selector",
    "exclusive": "activemq.exclusive",
    "no_local": "activemq.noLocal",
    "consumer_priority": "activemq.priority",
    "dispatch_async": "activemq.dispatchAsync",
}
#: The word of JMS 2.0 for a delay; any other is the name of a property with milliseconds.
API = "setDeliveryDelay"
#: Protocol -> the suite's words that have a name there, and that name unless a profile says another.
WORDS: dict[str, dict[str, str]] = {
    "stomp": HEADERS,
    "amqp": {
        "expiration": "absolute-expiry-time",
        "life": "ttl",
        "delay": "x-opt-delivery-delay",
        "original_destination": "",
        "no_local": "",
        "correlation-id": "correlation-id",
        "type": "subject",
    },
    "amqp091": {
        "expiration": "",
        "life": "expiration",
        "delay": "",
        "original_destination": "x-first-death-queue",
        "no_local": "",
        "correlation-id": "correlation-id",
        "type": "type",
    },
    "mqtt": {
        "expiration": "",
        "life": "message-expiry-interval",
        "delay": "",
        "no_local": "",
        "correlation-id": "correlation-data",
        "type": "type",
    },
    "jms": {
        "expiration": "JMSExpiration",
        "life": "",
        "delay": API,
        "original_destination": "",
        "delivery_count": "JMSXDeliveryCount",
    },
}
_QUEUE, _TOPIC = "queue://", "topic://"
#: The suite's name of the queue of all dead letters.
_DEAD = "queue://ActiveMQ.DLQ"
#: How those of one queue's alone begin.
_APART = _QUEUE + own_dead_letters_of("")
#: The queue whose dead letters stand for all where there is no queue for all: nobody sends there.
NOBODY: Final = "none"


class WireNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """``headers``: the suite's word (``HEADERS``) -> the broker's header; one that is "" does not exist there.
    ``correlation-id`` and ``type`` of AMQP and MQTT are a field of the protocol's own, or else a property of that name.
    ``identifiers``: JMS header field -> what STOMP's selectors call it there; "": they cannot ask for it.
    ``arguments``: what AMQP 0-9-1 declares every queue with. ``queue`` "": there are none. ``reject``: AMQP 1.0's
    outcome, or 0-9-1's ``requeue``, of a NACK.
    ``dead_letters`` with ``{name}``: each queue's are in a queue of its own.
    """

    queue: str = "/queue/{name}"
    topic: str = "/topic/{name}"
    dead_letters: str = "/queue/ActiveMQ.DLQ"
    headers: dict[str, str] = {}
    identifiers: dict[str, str] = {}
    arguments: dict[str, str | int | bool] = {}
    reject: Literal["rejected", "released", "modified", "requeue", "discard"] = "rejected"

    @property
    def apart(self) -> bool:
        """Whether each queue has dead letters of its own."""
        return "{name}" in self.dead_letters

    def address(self, dest: str) -> str:
        """``queue://q0`` as the broker writes it."""
        if dest == _DEAD:
            return self.dead_letters.replace("{name}", NOBODY)
        if self.apart and dest.startswith(_APART):
            return self.dead_letters.replace("{name}", dest.removeprefix(_APART))
        if dest.startswith(_TOPIC):
            return self.topic.replace("{name}", dest.removeprefix(_TOPIC))
        return self.queue.replace("{name}", dest.removeprefix(_QUEUE))


#: Protocol -> what is called how there, unless a profile says otherwise.
DEFAULTS: dict[str, WireNames] = {
    "stomp": WireNames(),
    "amqp": WireNames(queue="{name}", topic="{name}", dead_letters="DLQ"),
    "amqp091": WireNames(queue="{name}", topic="{name}", dead_letters="DLQ", reject="discard"),
    "mqtt": WireNames(queue="", topic="{name}", dead_letters=""),
    "jms": WireNames(queue="{name}", topic="{name}", dead_letters="DLQ"),
}
