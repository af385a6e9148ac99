"""What a client's session tells its application, the same for every protocol.

A session's ``receive``, ``take`` and ``tick`` return these in the order in which they happened. They carry what an
outside observer can know: the times are the caller's business, because a session has no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Property


class Notice(Struct, eq=False):
    """Base of all notices."""


class Connected(Notice):
    """The handshake is complete. ``version`` is the protocol's."""

    version: str


class Delivered(Notice):
    """A message reached this host. Times are wall-clock milliseconds; 0: the broker sent none.

    ``delivery_count`` is 1 for a first delivery and 0 where the protocol does not tell (STOMP). Destinations are
    written ``queue://NAME``. "" (0 in ``group_sequence``) is what a message does not have.
    """

    consumer: str
    message_id: str
    destination: str
    body: bytes
    expiration_ms: int
    timestamp_ms: int
    priority: int
    persistent: bool
    redelivered: bool
    delivery_count: int
    original_destination: str
    properties: dict[str, Property]
    #: What an acknowledgement must name.
    ack_id: str
    correlation_id: str = ""
    reply_to: str = ""
    jms_type: str = ""
    group: str = ""
    group_sequence: int = 0

    def __repr__(self) -> str:
        return f"Delivered({self.consumer!r}, {self.message_id!r}, expiration_ms={self.expiration_ms})"


class Discarded(Notice):
    """The client threw the message away before its application saw it (JMS: expired by the client's wall clock)."""

    consumer: str
    message_id: str
    reason: str


class Empty(Notice):
    """There is no (further) message for this consumer: a browse has ended, or a pull has found nothing."""

    consumer: str


class Receipt(Notice):
    """The broker did what was asked under this name."""

    receipt: str


class Failed(Notice):
    """The broker refused.

    ``receipt`` names the request, or is empty when the broker did not say which; ``code`` is empty where the protocol
    has none.
    """

    text: str
    receipt: str = ""
    code: str = ""


class Closed(Notice):
    """This end gave the connection up. ``idle_ns`` is the time since the last byte."""

    reason: str
    idle_ns: int


class LogLine(Notice):
    """A line for the client's log, in ActiveMQ's words where a seed quotes them."""

    level: str
    logger: str
    text: str
