"""SEND and MESSAGE: a message's headers, in both directions.

Rules
* ActiveMQ's header conventions: ``expires`` and ``timestamp`` in epoch milliseconds, ``persistent:true``,
  ``AMQ_SCHEDULED_DELAY``, ``correlation-id``, ``reply-to``, ``type``, ``JMSXGroupID``, ``JMSXGroupSeq``. All other
  headers of a SEND travel as properties.
* A property whose name is a header of the frame's own is not written into a MESSAGE: it would change what the frame
  means.

Known exception: headers named like JMS fields (``JMSExpiration``, ``JMSXDeliveryCount``) set these fields in ActiveMQ;
here they are properties. What must change together: ``client.py`` for every header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reference_broker.core.events import Event, Send
from reference_broker.core.message import DEFAULT_PRIORITY, Message, property_text
from reference_broker.stomp.frames import V10, V12, Frame, StompProtocolError
from reference_broker.stomp.headers import number, refuse_unsupported, representable, required

if TYPE_CHECKING:
    from reference_broker.core.effects import Dispatch
    from reference_broker.core.instant import Now
    from reference_broker.stomp.broker import BrokerSession
    from reference_broker.stomp.subscriptions import Subscription

#: Headers of a SEND that are not properties: the frame's own, and those with a field of their own in the message.
_SEND_HEADERS: Final = frozenset(
    {
        "AMQ_SCHEDULED_DELAY",
        "JMSXGroupID",
        "JMSXGroupSeq",
        "ack",
        "browser",
        "content-length",
        "correlation-id",
        "destination",
        "expires",
        "message-id",
        "original-destination",
        "persistent",
        "priority",
        "receipt",
        "redelivered",
        "reply-to",
        "subscription",
        "timestamp",
        "transaction",
        "type",
    }
)
_UNSUPPORTED: Final[dict[str, str]] = dict.fromkeys(
    ("AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT", "AMQ_SCHEDULED_CRON"), "send one message per delivery"
)
_UNSUPPORTED_NAMES: Final = frozenset(_UNSUPPORTED)


def send(session: BrokerSession, frame: Frame, now: Now) -> list[Event]:
    """SEND."""
    headers = frame.headers
    if not _UNSUPPORTED_NAMES.isdisjoint(headers):
        refuse_unsupported(frame, _UNSUPPORTED)
    events: list[Event] = []
    destination = session.temporaries.resolve(required(frame, "destination"), events)
    delay_ms = number(headers, "AMQ_SCHEDULED_DELAY", 0)
    if delay_ms < 0:
        raise StompProtocolError(f"AMQ_SCHEDULED_DELAY:{delay_ms} is negative; send 0 or more milliseconds")
    message = Message(
        session.next_message_id(),
        destination,
        frame.body,
        timestamp_ms=number(headers, "timestamp", now.wall_ms),
        expiration_ms=number(headers, "expires", 0),
        delay_ms=delay_ms,
        persistent=headers.get("persistent") == "true",
        priority=min(max(number(headers, "priority", DEFAULT_PRIORITY), 0), 9),
        properties={name: value for name, value in headers.items() if name not in _SEND_HEADERS},
        correlation_id=headers.get("correlation-id", ""),
        jms_type=headers.get("type", ""),
        group_id=headers.get("JMSXGroupID", ""),
        group_sequence=number(headers, "JMSXGroupSeq", 0),
    )
    reply_to = headers.get("reply-to")
    if reply_to:
        message.reply_to = session.temporaries.resolve(reply_to, events)
    transaction = headers.get("transaction", "")
    events.append(Send(session.connection, message, transaction=transaction, request=session.request(frame)))
    return events


def render(session: BrokerSession, subscription: Subscription, dispatch: Dispatch) -> Frame:
    """MESSAGE, for a message that is being written now."""
    message = dispatch.message
    version = session.version
    headers = {
        "message-id": message.message_id,
        "destination": session.temporaries.write(message.destination),
        "expires": str(max(message.shown_expiration_ms(), 0)),
        "timestamp": str(message.timestamp_ms),
        "priority": str(message.priority),
        "content-length": str(len(message.body)),
    }
    if subscription.identity:
        headers["subscription"] = subscription.identity
    if message.persistent:
        headers["persistent"] = "true"
    if dispatch.redelivery_count > 0:
        headers["redelivered"] = "true"
    if message.original_destination:
        headers["original-destination"] = session.temporaries.write(message.original_destination)
    if message.correlation_id or message.reply_to or message.jms_type or message.group_id:
        _describe(session, message, headers)
    if subscription.ack_mode != "auto":
        ack_id = session.subscriptions.hold(subscription, message)
        if version == V12:
            headers["ack"] = ack_id
    if message.properties:
        headers |= {
            name: text
            for name, text in ((name, property_text(value)) for name, value in message.properties.items())
            if name not in _SEND_HEADERS and representable(name, text, version)
        }
    if dispatch.remaining_ttl_ms > 0:
        headers |= dict.fromkeys(session.config.relative_ttl_names[:1], str(dispatch.remaining_ttl_ms))
    if version == V10:
        headers = {name: value for name, value in headers.items() if representable(name, value, V10)}
    return Frame("MESSAGE", headers, message.body)


def _describe(session: BrokerSession, message: Message, headers: dict[str, str]) -> None:
    """The headers that most messages do not have."""
    if message.correlation_id:
        headers["correlation-id"] = message.correlation_id
    if message.reply_to:
        headers["reply-to"] = session.temporaries.write(message.reply_to)
    if message.jms_type:
        headers["type"] = message.jms_type
    if message.group_id:
        headers["JMSXGroupID"] = message.group_id
        if message.group_sequence:
            headers["JMSXGroupSeq"] = str(message.group_sequence)


HANDLERS: Final = {"SEND": send}
