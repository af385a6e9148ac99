"""A message as the broker holds it, and the names of destinations.

A destination is written ``queue://NAME`` or ``topic://NAME``, as ActiveMQ writes it. Times are wall-clock milliseconds
since the epoch; 0 or less in ``expiration_ms`` means "never expires", 0 or less in ``timestamp_ms`` means "the producer
sent none" (both are exactly OpenWire's meaning).
"""

from __future__ import annotations

QUEUE = "queue://"
TOPIC = "topic://"
DEAD_LETTER_QUEUE = QUEUE + "ActiveMQ.DLQ"
DEFAULT_PRIORITY = 4


class Message:
    """What a producer sent, plus what the broker must remember about it while it is here."""

    __slots__ = (
        "accepted_mono_ns",
        "body",
        "delay_ms",
        "deliver_at_ms",
        "destination",
        "expiration_ms",
        "message_id",
        "original_destination",
        "persistent",
        "priority",
        "properties",
        "redelivery_count",
        "sequence",
        "timestamp_ms",
    )

    def __init__(
        self,
        message_id: str,
        destination: str,
        body: bytes,
        *,
        timestamp_ms: int = 0,
        expiration_ms: int = 0,
        delay_ms: int = 0,
        deliver_at_ms: int = 0,
        persistent: bool = False,
        priority: int = DEFAULT_PRIORITY,
        properties: dict[str, str] | None = None,
    ) -> None:
        self.message_id = message_id
        self.destination = destination
        self.body = body
        self.timestamp_ms = timestamp_ms
        self.expiration_ms = expiration_ms
        #: Relative delivery delay requested by the producer; 0 is none.
        self.delay_ms = delay_ms
        #: Absolute delivery time on the *sender's* wall clock (JMSDeliveryTime); 0 is none. Turned into a remaining
        #: delay when the broker accepts the message.
        self.deliver_at_ms = deliver_at_ms
        self.persistent = persistent
        self.priority = priority
        self.properties = properties if properties is not None else {}
        #: Deliveries attempted before the present one; JMSXDeliveryCount is this plus one.
        self.redelivery_count = 0
        #: Where a dead letter came from; empty for a message that was never moved.
        self.original_destination = ""
        #: Monotonic time at which the broker accepted it, the base of its delay.
        self.accepted_mono_ns = 0
        #: Broker-wide arrival number, the tie-break of every ordering.
        self.sequence = 0

    def __repr__(self) -> str:
        return f"Message({self.message_id!r}, {self.destination!r}, expiration_ms={self.expiration_ms})"
