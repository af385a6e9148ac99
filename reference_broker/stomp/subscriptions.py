"""The subscriptions of one STOMP connection and the deliveries that it has not settled.

* What a client acknowledges is a delivery: STOMP 1.2 names it by its ``id``, 1.1 by subscription and message, 1.0 by
  message alone (then the oldest delivery of that message is meant).
* A delivery whose subscription has ended can still be acknowledged, once, which changes nothing: the ACK may have been
  on its way. Only the latest ``_REMEMBERED`` of them are remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.stomp.frames import V11, V12, Frame, StompProtocolError
from brokerproof.reference_broker.stomp.headers import required

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message

#: How many deliveries of subscriptions that have ended a connection remembers.
_REMEMBERED: Final = 10_000


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


def _unknown(frame: Frame, name: str) -> StompProtocolError:
    return StompProtocolError(
        f"Unexpected {frame.command} received for message-id [{name}]; "
        "acknowledge each delivery once, on the connection that got it"
    )
