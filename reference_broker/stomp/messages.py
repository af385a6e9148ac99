"""SEND and MESSAGE: a message's headers, in both directions.

* ActiveMQ's header conventions: ``expires`` and ``timestamp`` in epoch milliseconds, ``persistent:true``,
  ``AMQ_SCHEDULED_DELAY``, ``correlation-id``, ``reply-to``, ``type``, ``JMSXGroupID``, ``JMSXGroupSeq``. All other
  headers of a SEND travel as properties.
* A SEND with a ``content-length`` has octets for its body, one without has a text: so ActiveMQ chooses what a JMS
  client gets (``openwire/translation/bodies.py`` reads the other way).
* A property with the name of one of the frame's own headers is not written into a MESSAGE.

Known exception: headers named like JMS fields (``JMSExpiration``, ``JMSXDeliveryCount``) set these fields in ActiveMQ;
here they are properties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.events import Event, Send
from brokerproof.reference_broker.core.message import DEFAULT_PRIORITY, TEXT, Message, property_text
from brokerproof.reference_broker.openwire.translation.bodies import plain_body
from brokerproof.reference_broker.session.destination_options import plain_name
from brokerproof.reference_broker.stomp.frames import V10, V12, Frame, StompProtocolError
from brokerproof.reference_broker.stomp.headers import (
    MESSAGE_HEADERS,
    number,
    refuse_unsupported,
    representable,
    required,
    switch,
    writable,
)
from brokerproof.reference_broker.stomp.maps import map_text

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.effects import Dispatch
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.stomp.session_state import SessionState
    from brokerproof.reference_broker.stomp.subscriptions import Subscription

_UNSUPPORTED: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT", "AMQ_SCHEDULED_CRON"), "send one message per delivery"
    ),
    "transformation": "send the body as it is to be read",
}
_UNSUPPORTED_NAMES: Final = frozenset(_UNSUPPORTED)


#: A SEND with no other header has nothing to say of its message but where it goes and whether it is kept.
_BRIEF: Final = frozenset({"content-length", "destination", "persistent", "receipt", "transaction"})


def send(state: SessionState, frame: Frame, now: Now) -> list[Event]:
    """SEND."""
    headers = frame.headers
    events: list[Event] = []
    destination = state.temporaries.resolve(plain_name(required(frame, "destination")), events)
    persistent = switch(headers, "persistent")
    if headers.keys() <= _BRIEF:
        message = Message(
            state.next_message_id(), destination, frame.body, timestamp_ms=now.wall_ms, persistent=persistent
        )
    else:
        message = _described(state, frame, destination, persistent, now, events)
    if "content-length" not in headers:
        message.form = TEXT
    transaction = headers.get("transaction", "")
    events.append(Send(state.connection, message, transaction=transaction, request=state.request(frame)))
    return events


def _described(
    state: SessionState, frame: Frame, destination: str, persistent: bool, now: Now, events: list[Event]
) -> Message:
    """A message with all that its headers say of it."""
    headers = frame.headers
    if not _UNSUPPORTED_NAMES.isdisjoint(headers):
        refuse_unsupported(frame, _UNSUPPORTED)
    delay_ms = number(headers, "AMQ_SCHEDULED_DELAY", 0)
    if delay_ms < 0:
        raise StompProtocolError(f"AMQ_SCHEDULED_DELAY:{delay_ms} is negative; send 0 or more milliseconds")
    sequence = number(headers, "JMSXGroupSeq", 0)
    if not -(2**31) <= sequence < 2**31:
        # OpenWire has no room for it: every consumer that speaks it would lose its connection.
        raise StompProtocolError(f"JMSXGroupSeq:{sequence} is no integer of JMS; send -2147483648 to 2147483647")
    message = Message(
        state.next_message_id(),
        destination,
        frame.body,
        timestamp_ms=number(headers, "timestamp", now.wall_ms),
        expiration_ms=number(headers, "expires", 0),
        delay_ms=delay_ms,
        persistent=persistent,
        priority=min(max(number(headers, "priority", DEFAULT_PRIORITY), 0), 9),
        properties={name: value for name, value in headers.items() if name not in MESSAGE_HEADERS},
        correlation_id=headers.get("correlation-id"),
        jms_type=headers.get("type", ""),
        group_id=headers.get("JMSXGroupID", ""),
        group_sequence=sequence,
    )
    reply_to = headers.get("reply-to")
    if reply_to:
        message.reply_to = state.temporaries.resolve(reply_to, events)
    return message


def render(state: SessionState, subscription: Subscription, dispatch: Dispatch) -> Frame:
    """MESSAGE, for a message that is being written now."""
    message = dispatch.message
    body = message.body
    if message.form > TEXT:
        body = map_text(message) or plain_body(message.form, body)
    version = state.version
    headers = {
        "message-id": writable(message.message_id),
        "destination": state.temporaries.write(message.destination),
        "expires": str(max(message.shown_expiration_ms(), 0)),
        "timestamp": str(message.timestamp_ms),
        "priority": str(message.priority),
        "content-length": str(len(body)),
    }
    if subscription.identity:
        headers["subscription"] = subscription.identity
    if message.persistent:
        headers["persistent"] = "true"
    if dispatch.redelivery_count > 0:
        headers["redelivered"] = "true"
    if message.original_destination:
        headers["original-destination"] = state.temporaries.write(message.original_destination)
    if message.correlation_id is not None or message.reply_to or message.jms_type or message.group_id:
        _describe(state, message, headers)
    if subscription.ack_mode != "auto":
        ack_id = state.subscriptions.hold(subscription, message)
        if version == V12:
            headers["ack"] = ack_id
    if message.properties:
        headers |= {
            name: text
            for name, text in ((name, property_text(value)) for name, value in message.properties.items())
            if name not in MESSAGE_HEADERS and representable(name, text, version)
        }
    if dispatch.remaining_ttl_ms > 0:
        headers |= dict.fromkeys(state.config.relative_ttl_names[:1], str(dispatch.remaining_ttl_ms))
    if version == V10:
        headers = {name: value for name, value in headers.items() if representable(name, value, V10)}
    return Frame("MESSAGE", headers, body)


def _describe(state: SessionState, message: Message, headers: dict[str, str]) -> None:
    """The headers that most messages do not have."""
    if message.correlation_id is not None:
        headers["correlation-id"] = writable(message.correlation_id)
    if message.reply_to:
        headers["reply-to"] = state.temporaries.write(message.reply_to)
    if message.jms_type:
        headers["type"] = writable(message.jms_type)
    if message.group_id:
        headers["JMSXGroupID"] = writable(message.group_id)
        if message.group_sequence:
            headers["JMSXGroupSeq"] = str(message.group_sequence)


HANDLERS: Final = {"SEND": send}
