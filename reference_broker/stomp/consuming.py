"""SUBSCRIBE, UNSUBSCRIBE, ACK and NACK as events of the core; ``subscriptions.py`` remembers what they concern.

* In a transaction an acknowledgement is held: the delivery is no longer unsettled, and unsettled again after ABORT.
  ``ack:client`` is then told to the core message by message, because that widens the window until the transaction ends
  and no longer: ActiveMQ's DELIVERED leaves the window wide after an ABORT.
* A selector reads texts as numbers or booleans where they are compared with one, because STOMP has no other properties;
  ActiveMQ puts the same prefix before it.
* ``activemq.subscriptionName`` makes a durable subscription and needs ``client-id`` in CONNECT; in an UNSUBSCRIBE it
  ends one that is not in use.

Known exceptions
* NACK concerns one message also in ``ack:client``, as in ActiveMQ, whose poison acknowledgement names a single message;
  STOMP 1.2 would include the earlier ones.
* ``activemq.dispatchAsync:false`` is honoured, as ActiveMQ did before 5.15.5 (AMQ-7011 made it have no effect).
* Options in a destination's name (``?consumer.…``) are taken here too; ActiveMQ's STOMP passes over them.
* ``activemq.prefetchSize:0`` gets nothing, ever, as in ActiveMQ: STOMP has no frame to pull with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.config import QUEUE_PREFETCH
from brokerproof.reference_broker.core.events import (
    INDIVIDUAL,
    POISON,
    STANDARD,
    Ack,
    Event,
    RemoveSubscription,
    Subscribe,
    Unsubscribe,
)
from brokerproof.reference_broker.core.prefetch import UNASKED
from brokerproof.reference_broker.core.selector import CONVERSION
from brokerproof.reference_broker.session.destination_options import apply_options, split_options
from brokerproof.reference_broker.stomp.frames import V10, Frame, StompProtocolError
from brokerproof.reference_broker.stomp.headers import number, refuse_unknown, refuse_unsupported, required, switch
from brokerproof.reference_broker.stomp.maps import MAP_JSON, TRANSFORMATION

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.stomp.session_state import SessionState
    from brokerproof.reference_broker.stomp.subscriptions import Unsettled

ACK_MODES: Final = ("auto", "client", "client-individual")
_UNSUPPORTED: Final[dict[str, str]] = {
    # Artemis's and RabbitMQ's words
    "durable": "use activemq.subscriptionName",
    "durable-subscriber-name": "use activemq.subscriptionName",
    "durable-subscription-name": "use activemq.subscriptionName",
    "consumer-window-size": "use activemq.prefetchSize",
    "prefetch-count": "use activemq.prefetchSize",
    "no-local": "use activemq.noLocal",
    TRANSFORMATION: f"maps come as {MAP_JSON}, all other bodies as they were sent",
}
_UNSUPPORTED_NAMES: Final = frozenset(_UNSUPPORTED)
_REST: Final = {name: remedy for name, remedy in _UNSUPPORTED.items() if name != TRANSFORMATION}
_PREFIX: Final = "activemq."
_KNOWN: Final = frozenset(
    {
        "activemq.dispatchAsync",
        "activemq.exclusive",
        "activemq.maximumPendingMessageLimit",
        "activemq.noLocal",
        "activemq.prefetchSize",
        "activemq.priority",
        "activemq.retroactive",
        "activemq.subscriptionName",
    }
)


def subscribe(state: SessionState, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """SUBSCRIBE."""
    headers = frame.headers
    if not _UNSUPPORTED_NAMES.isdisjoint(headers):
        refuse_unsupported(frame, _UNSUPPORTED if headers.get(TRANSFORMATION) != MAP_JSON else _REST)
    refuse_unknown(frame, _PREFIX, _KNOWN)
    events: list[Event] = []
    text = required(frame, "destination")
    written, options = split_options(text)
    destination = state.temporaries.resolve(written, events)
    identity = headers.get("id", "") if state.version == V10 else required(frame, "id")
    key = identity or text
    if key in state.subscriptions.by_key:
        raise StompProtocolError(f"subscription {key!r} exists already; unsubscribe it first or use another id")
    ack_mode = headers.get("ack", "auto")
    if ack_mode not in ACK_MODES:
        raise StompProtocolError(f"ack:{ack_mode} is unknown; one of {', '.join(ACK_MODES)}")
    durable = headers.get("activemq.subscriptionName", "")
    if durable and not state.client_id:
        raise StompProtocolError(f"activemq.subscriptionName:{durable} needs a client-id; send that header in CONNECT")
    browser = _browser(headers, state.version)
    event = Subscribe(
        state.connection,
        "",
        destination,
        _prefetch(headers, browser=browser),
        dispatch_async=switch(headers, "activemq.dispatchAsync", default=True),
        auto_ack=ack_mode == "auto",
        selector=_selector(headers),
        no_local=switch(headers, "activemq.noLocal"),
        exclusive=switch(headers, "activemq.exclusive"),
        priority=_priority(headers),
        browser=browser,
        durable=durable,
        retroactive=switch(headers, "activemq.retroactive"),
        pending_limit=number(headers, "activemq.maximumPendingMessageLimit", 0),
    )
    apply_options(event, options)
    # Nothing is remembered before everything is known to be right.
    event.consumer = state.subscriptions.open(key, identity, text, ack_mode).consumer
    event.request = state.request(frame)
    events.append(event)
    return events


def _prefetch(headers: dict[str, str], *, browser: bool) -> int:
    if "activemq.prefetchSize" not in headers:
        return QUEUE_PREFETCH if browser else UNASKED  # as in ActiveMQ, a browser has a consumer's window
    prefetch = number(headers, "activemq.prefetchSize", 0)
    if prefetch < 0:
        raise StompProtocolError(f"activemq.prefetchSize:{prefetch} is negative; send 1 or more")
    return prefetch


def _selector(headers: dict[str, str]) -> str:
    text = headers.get("selector", "")
    return text if not text.strip() or text.startswith(CONVERSION) else CONVERSION + text


def _priority(headers: dict[str, str]) -> int:
    priority = number(headers, "activemq.priority", 0)
    if not -128 <= priority <= 127:
        raise StompProtocolError(f"activemq.priority:{priority} is no byte; send -128 to 127")
    return priority


def _browser(headers: dict[str, str], version: str) -> bool:
    asked = switch(headers, "browser")
    if asked and version == V10:
        # ActiveMQ ignores it and so consumes what was only to be looked at.
        raise StompProtocolError("browser:true needs STOMP 1.1; connect with accept-version:1.1,1.2")
    return asked


def unsubscribe(state: SessionState, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """UNSUBSCRIBE."""
    durable = frame.headers.get("activemq.subscriptionName", "")
    if durable:
        if not state.client_id:
            raise StompProtocolError(
                f"activemq.subscriptionName:{durable} needs a client-id; send that header in CONNECT"
            )
        return [RemoveSubscription(state.connection, durable, request=state.request(frame))]
    key = frame.headers.get("id", "")
    if not key and state.version == V10:
        key = state.subscriptions.key_for(frame.headers.get("destination", ""))
    if not key:
        raise StompProtocolError("UNSUBSCRIBE names no subscription; send the id of its SUBSCRIBE")
    subscription = state.subscriptions.close(key)
    return [Unsubscribe(state.connection, subscription.consumer, request=state.request(frame))]


def _meant(state: SessionState, frame: Frame) -> Unsettled | None:
    """The delivery that an ACK or NACK means; None: its subscription has ended, and all is said."""
    held = state.subscriptions
    try:
        return held.find(frame, state.version)
    except StompProtocolError:
        if not held.comes_late(frame, state.version):
            raise
    state.accepted(state.request(frame))
    return None


def ack(state: SessionState, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """ACK."""
    held = state.subscriptions
    delivery = _meant(state, frame)
    if delivery is None:
        return []
    if frame.headers.get("transaction"):
        return _ack_in_transaction(state, frame, delivery)
    subscription = delivery.subscription
    kind = INDIVIDUAL
    if subscription.ack_mode == "client":
        kind = STANDARD
        for earlier in held.up_to(delivery)[:-1]:
            held.settle(earlier)
    held.settle(delivery)
    return [
        Ack(
            state.connection,
            subscription.consumer,
            kind,
            delivery.message_id,
            destination=delivery.destination,
            request=state.request(frame),
        )
    ]


def _ack_in_transaction(state: SessionState, frame: Frame, delivery: Unsettled) -> list[Event]:
    held = state.subscriptions
    covered = held.up_to(delivery) if delivery.subscription.ack_mode == "client" else [delivery]
    state.transactions.hold(frame, covered)
    events: list[Event] = []
    for one in covered:
        held.settle(one)
        request = state.request(frame) if one is delivery else 0
        events.append(_individual(state, one, INDIVIDUAL, frame, request))
    return events


def _individual(state: SessionState, delivery: Unsettled, kind: int, frame: Frame, request: int) -> Ack:
    """An acknowledgement of one delivery."""
    return Ack(
        state.connection,
        delivery.subscription.consumer,
        kind,
        delivery.message_id,
        first=delivery.message_id,
        destination=delivery.destination,
        transaction=frame.headers.get("transaction", ""),
        request=request,
    )


def nack(state: SessionState, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """NACK."""
    if state.version == V10:
        raise StompProtocolError("NACK does not exist in STOMP 1.0; connect with accept-version:1.1,1.2")
    delivery = _meant(state, frame)
    if delivery is None:
        return []
    if frame.headers.get("transaction"):
        state.transactions.hold(frame, [delivery])
    state.subscriptions.settle(delivery)
    return [_individual(state, delivery, POISON, frame, state.request(frame))]


HANDLERS: Final = {"SUBSCRIBE": subscribe, "UNSUBSCRIBE": unsubscribe, "ACK": ack, "NACK": nack}
