"""What a client's session tells its application, the same for every protocol.

A session's ``receive``, ``take`` and ``tick`` return these in the order in which they happened. They carry what an
outside observer can know: the times are the caller's business, because a session has no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Property


class Notice:
    """Base of all notices."""

    __slots__ = ()


class Connected(Notice):
    """The handshake is complete. ``version`` is the protocol's; ``heart_beat_ms`` what a STOMP broker says that it
    sends, and that it wants.
    """

    __slots__ = ("heart_beat_ms", "version")

    def __init__(self, version: str, heart_beat_ms: tuple[int, int] | None = None) -> None:
        self.version = version
        self.heart_beat_ms = heart_beat_ms


class Delivered(Notice):
    """A message reached this host. Times are wall-clock milliseconds; 0: the broker sent none.

    ``delivery_count`` is 1 for a first delivery and 0 where the protocol does not tell (STOMP). Destinations are
    written ``queue://NAME``. "" (0 in ``group_sequence``) is what a message does not have.
    """

    __slots__ = (
        "ack_id",
        "body",
        "consumer",
        "correlation_id",
        "delivery_count",
        "destination",
        "expiration_ms",
        "group",
        "group_sequence",
        "jms_type",
        "message_id",
        "original_destination",
        "persistent",
        "priority",
        "properties",
        "redelivered",
        "reply_to",
        "timestamp_ms",
    )

    def __init__(
        self,
        consumer: str,
        message_id: str,
        destination: str,
        body: bytes,
        *,
        expiration_ms: int,
        timestamp_ms: int,
        priority: int,
        persistent: bool,
        redelivered: bool,
        delivery_count: int,
        original_destination: str,
        properties: dict[str, Property],
        ack_id: str,
        correlation_id: str = "",
        reply_to: str = "",
        jms_type: str = "",
        group: str = "",
        group_sequence: int = 0,
    ) -> None:
        self.consumer = consumer
        self.message_id = message_id
        self.destination = destination
        self.body = body
        self.expiration_ms = expiration_ms
        self.timestamp_ms = timestamp_ms
        self.priority = priority
        self.persistent = persistent
        self.redelivered = redelivered
        self.delivery_count = delivery_count
        self.original_destination = original_destination
        self.properties = properties
        #: What an acknowledgement must name.
        self.ack_id = ack_id
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.jms_type = jms_type
        self.group = group
        self.group_sequence = group_sequence

    def __repr__(self) -> str:
        return f"Delivered({self.consumer!r}, {self.message_id!r}, expiration_ms={self.expiration_ms})"


class Discarded(Notice):
    """The client threw the message away before its application saw it (JMS: expired by the client's wall clock)."""

    __slots__ = ("consumer", "message_id", "reason")

    def __init__(self, consumer: str, message_id: str, reason: str) -> None:
        self.consumer = consumer
        self.message_id = message_id
        self.reason = reason


class Empty(Notice):
    """There is no (further) message for this consumer: a browse has ended, or a pull has found nothing."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: str) -> None:
        self.consumer = consumer


class Receipt(Notice):
    """The broker did what was asked under this name."""

    __slots__ = ("receipt",)

    def __init__(self, receipt: str) -> None:
        self.receipt = receipt


class Failed(Notice):
    """The broker refused.

    ``receipt`` names the request, or is empty when the broker did not say which; ``code`` is empty where the protocol
    has none.
    """

    __slots__ = ("code", "receipt", "text")

    def __init__(self, text: str, receipt: str = "", code: str = "") -> None:
        self.text = text
        self.receipt = receipt
        self.code = code


class Closed(Notice):
    """This end gave the connection up. ``idle_ns`` is the time since the last byte."""

    __slots__ = ("idle_ns", "reason")

    def __init__(self, reason: str, idle_ns: int) -> None:
        self.reason = reason
        self.idle_ns = idle_ns


class LogLine(Notice):
    """A line for the client's log, in ActiveMQ's words where a seed quotes them."""

    __slots__ = ("level", "logger", "text")

    def __init__(self, level: str, logger: str, text: str) -> None:
        self.level = level
        self.logger = logger
        self.text = text
