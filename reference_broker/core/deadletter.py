"""The dead-letter queue: which messages get a copy there, and what the copy looks like.

Rules (ActiveMQ's shared strategy):

* An expired or poisoned message of a queue is copied to ``ActiveMQ.DLQ`` if it is persistent, or if
  ``dead_letter_non_persistent``. So is a message that expires on a topic, once per publication; poison on a
  non-durable topic is consumed silently.
* A message that dies on the dead-letter queue itself disappears: no loop. Sending to that queue is an ordinary send.
* The copy: same id, timestamp, priority, body and properties; expiration 0, persistent, redelivery count 0, no delay,
  and the source as original destination. It carries ``originalExpiration`` (unless the message has one already),
  ``originalDeliveryMode`` if it was not persistent, and, when it expired, ``dlqDeliveryFailureCause``. A NACK has no
  cause, so a poisoned copy carries none.
* The copy does not pass the time-stamping plug-in or the arrival expiry check.

Exception: if a message with the same id is on the dead-letter queue already, the copy is not added (ActiveMQ's
duplicate audit, without its window)."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from reference_broker.core.message import DEAD_LETTER_QUEUE, Message

LOGGER = "org.apache.activemq.broker.region.RegionBroker"


def expiry_cause(message: Message) -> str:
    """The text with which ActiveMQ explains that a message expired."""
    return f"java.lang.Throwable: Message Expired. Expiration:{message.expiration_ms}"


@mypyc_attr(allow_interpreted_subclasses=True)
class DeadLetter:
    """Policy ``dead_letter``."""

    def __init__(self, non_persistent: bool) -> None:
        self.non_persistent = non_persistent

    def target(self) -> str:
        """The dead-letter destination."""
        return DEAD_LETTER_QUEUE

    def eligible(self, message: Message, source: str) -> bool:
        """Whether the message gets a copy at all."""
        return source != self.target() and (message.persistent or self.non_persistent)

    def copy(self, message: Message, source: str, cause: str) -> Message:
        """The dead letter. ``cause`` is "" when there is none to tell."""
        properties = dict(message.properties)
        properties.setdefault("originalExpiration", str(message.expiration_ms))
        if not message.persistent:
            properties["originalDeliveryMode"] = "NON_PERSISTENT"
        if cause:
            properties["dlqDeliveryFailureCause"] = cause
        letter = Message(
            message.message_id,
            self.target(),
            message.body,
            timestamp_ms=message.timestamp_ms,
            persistent=True,
            priority=message.priority,
            properties=properties,
        )
        letter.original_destination = source
        return letter
