"""SUBSCRIBE, UNSUBSCRIBE, ACK and NACK: a connection's consumers and what they have not settled.

* What a client acknowledges is a delivery: STOMP 1.2 names it by its ``id``, 1.1 by subscription and message, 1.0 by
  message alone (then the oldest delivery of that message is meant).
* In a transaction an acknowledgement is held: the delivery is no longer unsettled, and unsettled again after ABORT.
  ``ack:client`` is then told to the core message by message, because that widens the window until the transaction ends
  and no longer: ActiveMQ's DELIVERED leaves the window wide after an ABORT.
* A delivery whose subscription has ended can still be acknowledged, once, which changes nothing: the ACK may have been
  on its way. Only the latest ``_REMEMBERED`` of them are remembered.
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
from brokerproof.reference_broker.core.message import TEMP_TOPIC, TOPIC
from brokerproof.reference_broker.core.selector import CONVERSION
from brokerproof.reference_broker.session.destination_options import apply_options, split_options
from brokerproof.reference_broker.stomp.frames import V10, V11, V12, Frame, StompProtocolError
from brokerproof.reference_broker.stomp.headers import number, refuse_unknown, refuse_unsupported, required, switch
from brokerproof.reference_broker.stomp.maps import MAP_JSON, TRANSFORMATION

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.stomp.broker import BrokerSession

QUEUE_PREFETCH: Final = 1000
TOPIC_PREFETCH: Final = 32767
DURABLE_PREFETCH: Final = 100
#: How many deliveries of subscriptions that have ended a connection remembers.
_REMEMBERED: Final = 10_000
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


class Subscription:
    """One SUBSCRIBE. ``unsettled``: ack id -> delivery, in the order of delivery; empty in ``ack:auto``."""

    __slots__ = ("ack_mode", "consumer", "destination", "identity", "several", "unsettled")

    def __init__(self, identity: str, consumer: str, destination: str, ack_mode: str) -> None:
        #: The client's ``id``; empty for a STOMP 1.0 subscription without one.
        self.identity = identity
        self.consumer = consumer
        #: As the client wrote it.
        self.destination = destination
        self.ack_mode = ack_mode
        #: It may get copies of one message from several destinations.
        self.several = "*" in destination or ">" in destination or "," in destination
        self.unsettled: dict[str, Unsettled] = {}


class Unsettled:
    """A delivery that waits for ACK or NACK. ``place`` grows with every delivery of the connection."""

    __slots__ = ("ack_id", "destination", "message_id", "place", "subscription")

    def __init__(self, subscription: Subscription, ack_id: str, message: Message, place: int) -> None:
        self.subscription = subscription
        self.ack_id = ack_id
        self.message_id = message.message_id
        #: The core's name; "" where the message id says it all.
        self.destination = message.destination if subscription.several else ""
        self.place = place


class Subscriptions:
    """All subscriptions of one connection."""

    __slots__ = ("_connection", "_late", "_opened", "_place", "_unsettled", "by_consumer", "by_key")

    def __init__(self, connection: int) -> None:
        self._connection = connection
        self._opened = 0
        self._place = 0
        #: Id, or destination without one -> subscription.
        self.by_key: dict[str, Subscription] = {}
        self.by_consumer: dict[str, Subscription] = {}
        self._unsettled: dict[str, Unsettled] = {}
        #: What was not settled when its subscription ended, under its ack id and its message id; oldest first.
        self._late: dict[str, Unsettled] = {}

    def open(self, key: str, identity: str, destination: str, ack_mode: str) -> Subscription:
        """A new one; its consumer's name is unique in the broker."""
        self._opened += 1
        subscription = Subscription(identity, f"{self._connection}.{self._opened}", destination, ack_mode)
        self.by_key[key] = self.by_consumer[subscription.consumer] = subscription
        return subscription

    def key_for(self, destination: str) -> str:
        """The key of the oldest subscription to what the client wrote so; without one, what it wrote."""
        if destination in self.by_key:
            return destination
        return next((key for key, one in self.by_key.items() if one.destination == destination), destination)

    def close(self, key: str) -> Subscription:
        """Forget one, with what it has not settled."""
        subscription = self.by_key.pop(key, None)
        if subscription is None:
            raise StompProtocolError(f"subscription {key!r} does not exist on this connection; subscribe first")
        del self.by_consumer[subscription.consumer]
        for delivery in subscription.unsettled.values():
            del self._unsettled[delivery.ack_id]
            self._late[delivery.ack_id] = self._late[delivery.message_id] = delivery
        while len(self._late) > 2 * _REMEMBERED:
            del self._late[next(iter(self._late))]
        return subscription

    def comes_late(self, frame: Frame, version: str) -> bool:
        """Whether an ACK or NACK means a delivery whose subscription has ended. It can do so once."""
        delivery = self._late.pop(frame.headers.get("id" if version == V12 else "message-id", ""), None)
        if delivery is None:
            return False
        self._late.pop(delivery.ack_id, None)
        self._late.pop(delivery.message_id, None)
        return True

    def hold(self, subscription: Subscription, message: Message) -> str:
        """A message is being written that must be settled; returns its ack id."""
        self._place += 1
        ack_id = f"{self._connection}-{self._place}"
        unsettled = Unsettled(subscription, ack_id, message, self._place)
        self._unsettled[ack_id] = subscription.unsettled[ack_id] = unsettled
        return ack_id

    def settle(self, delivery: Unsettled) -> None:
        """It is acknowledged."""
        del self._unsettled[delivery.ack_id]
        del delivery.subscription.unsettled[delivery.ack_id]

    def up_to(self, delivery: Unsettled) -> list[Unsettled]:
        """It and what its subscription got before it, oldest first."""
        covered: list[Unsettled] = []
        for earlier in delivery.subscription.unsettled.values():
            covered.append(earlier)
            if earlier is delivery:
                break
        return covered

    def restore(self, deliveries: list[Unsettled]) -> None:
        """A transaction was aborted: these are unsettled again, in their old places."""
        touched: dict[str, Subscription] = {}
        for delivery in deliveries:
            subscription = delivery.subscription
            if self.by_consumer.get(subscription.consumer) is subscription:
                self._unsettled[delivery.ack_id] = subscription.unsettled[delivery.ack_id] = delivery
                touched[subscription.consumer] = subscription
        for subscription in touched.values():
            by_place = sorted(subscription.unsettled.values(), key=lambda delivery: delivery.place)
            subscription.unsettled = {delivery.ack_id: delivery for delivery in by_place}

    def find(self, frame: Frame, version: str) -> Unsettled:
        """Which delivery an ACK or NACK means."""
        if version == V12:
            found = self._unsettled.get(frame.headers.get("id", ""))
            if found is None:
                raise _unknown(frame, required(frame, "id"))
            return found
        message_id = required(frame, "message-id")
        candidates = list(self.by_key.values())
        if version == V11 or "subscription" in frame.headers:
            named = self.by_key.get(required(frame, "subscription"))
            candidates = [named] if named is not None else []
        for subscription in candidates:
            for delivery in subscription.unsettled.values():
                if delivery.message_id == message_id:
                    return delivery
        raise _unknown(frame, message_id)


def subscribe(session: BrokerSession, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """SUBSCRIBE."""
    headers = frame.headers
    if not _UNSUPPORTED_NAMES.isdisjoint(headers):
        refuse_unsupported(frame, _UNSUPPORTED if headers.get(TRANSFORMATION) != MAP_JSON else _REST)
    refuse_unknown(frame, _PREFIX, _KNOWN)
    events: list[Event] = []
    text = required(frame, "destination")
    written, options = split_options(text)
    destination = session.temporaries.resolve(written, events)
    identity = headers.get("id", "") if session.version == V10 else required(frame, "id")
    key = identity or text
    if key in session.subscriptions.by_key:
        raise StompProtocolError(f"subscription {key!r} exists already; unsubscribe it first or use another id")
    ack_mode = headers.get("ack", "auto")
    if ack_mode not in ACK_MODES:
        raise StompProtocolError(f"ack:{ack_mode} is unknown; one of {', '.join(ACK_MODES)}")
    durable = headers.get("activemq.subscriptionName", "")
    if durable and not session.client_id:
        raise StompProtocolError(f"activemq.subscriptionName:{durable} needs a client-id; send that header in CONNECT")
    event = Subscribe(
        session.connection,
        "",
        destination,
        _prefetch(headers, destination, durable),
        dispatch_async=switch(headers, "activemq.dispatchAsync", default=True),
        auto_ack=ack_mode == "auto",
        selector=_selector(headers),
        no_local=switch(headers, "activemq.noLocal"),
        exclusive=switch(headers, "activemq.exclusive"),
        priority=_priority(headers),
        browser=_browser(headers, session.version),
        durable=durable,
        retroactive=switch(headers, "activemq.retroactive"),
        pending_limit=number(headers, "activemq.maximumPendingMessageLimit", 0),
    )
    apply_options(event, options)
    # Nothing is remembered before everything is known to be right.
    event.consumer = session.subscriptions.open(key, identity, text, ack_mode).consumer
    event.request = session.request(frame)
    events.append(event)
    return events


def _prefetch(headers: dict[str, str], destination: str, durable: str) -> int:
    default = QUEUE_PREFETCH
    if durable:
        default = DURABLE_PREFETCH
    elif destination.startswith((TOPIC, TEMP_TOPIC)):
        default = TOPIC_PREFETCH
    prefetch = number(headers, "activemq.prefetchSize", default)
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


def unsubscribe(session: BrokerSession, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """UNSUBSCRIBE."""
    durable = frame.headers.get("activemq.subscriptionName", "")
    if durable:
        if not session.client_id:
            raise StompProtocolError(
                f"activemq.subscriptionName:{durable} needs a client-id; send that header in CONNECT"
            )
        return [RemoveSubscription(session.connection, durable, request=session.request(frame))]
    key = frame.headers.get("id", "")
    if not key and session.version == V10:
        key = session.subscriptions.key_for(frame.headers.get("destination", ""))
    if not key:
        raise StompProtocolError("UNSUBSCRIBE names no subscription; send the id of its SUBSCRIBE")
    subscription = session.subscriptions.close(key)
    return [Unsubscribe(session.connection, subscription.consumer, request=session.request(frame))]


def _meant(session: BrokerSession, frame: Frame) -> Unsettled | None:
    """The delivery that an ACK or NACK means; None: its subscription has ended, and all is said."""
    held = session.subscriptions
    try:
        return held.find(frame, session.version)
    except StompProtocolError:
        if not held.comes_late(frame, session.version):
            raise
    session.accepted(session.request(frame))
    return None


def ack(session: BrokerSession, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """ACK."""
    held = session.subscriptions
    delivery = _meant(session, frame)
    if delivery is None:
        return []
    if frame.headers.get("transaction"):
        return _ack_in_transaction(session, frame, delivery)
    subscription = delivery.subscription
    kind = INDIVIDUAL
    if subscription.ack_mode == "client":
        kind = STANDARD
        for earlier in held.up_to(delivery)[:-1]:
            held.settle(earlier)
    held.settle(delivery)
    return [
        Ack(
            session.connection,
            subscription.consumer,
            kind,
            delivery.message_id,
            destination=delivery.destination,
            request=session.request(frame),
        )
    ]


def _ack_in_transaction(session: BrokerSession, frame: Frame, delivery: Unsettled) -> list[Event]:
    held = session.subscriptions
    covered = held.up_to(delivery) if delivery.subscription.ack_mode == "client" else [delivery]
    session.transactions.hold(frame, covered)
    events: list[Event] = []
    for one in covered:
        held.settle(one)
        request = session.request(frame) if one is delivery else 0
        events.append(_individual(session, one, INDIVIDUAL, frame, request))
    return events


def _individual(session: BrokerSession, delivery: Unsettled, kind: int, frame: Frame, request: int) -> Ack:
    """An acknowledgement of one delivery."""
    return Ack(
        session.connection,
        delivery.subscription.consumer,
        kind,
        delivery.message_id,
        first=delivery.message_id,
        destination=delivery.destination,
        transaction=frame.headers.get("transaction", ""),
        request=request,
    )


def nack(session: BrokerSession, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """NACK."""
    if session.version == V10:
        raise StompProtocolError("NACK does not exist in STOMP 1.0; connect with accept-version:1.1,1.2")
    delivery = _meant(session, frame)
    if delivery is None:
        return []
    session.subscriptions.settle(delivery)
    return [_individual(session, delivery, POISON, frame, session.request(frame))]


def _unknown(frame: Frame, name: str) -> StompProtocolError:
    return StompProtocolError(
        f"Unexpected {frame.command} received for message-id [{name}]; "
        "acknowledge each delivery once, on the connection that got it"
    )


HANDLERS: Final = {"SUBSCRIBE": subscribe, "UNSUBSCRIBE": unsubscribe, "ACK": ack, "NACK": nack}
