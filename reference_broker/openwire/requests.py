"""What the JMS client asks for that concerns no consumer: hello, sends, destinations, subscriptions.

Rules: every command has a number of its own, counted from 1; a request's receipt is named by that number. A message is
stamped by this host's wall clock, which the caller brings.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import DEFAULT_PRIORITY, TEMP_QUEUE, TEMP_TOPIC, Message, Property
from brokerproof.reference_broker.inactivity import Monitor
from brokerproof.reference_broker.openwire.commands import (
    ADD_DESTINATION,
    REMOVE_DESTINATION,
    ConnectionInfo,
    DestinationInfo,
    KeepAliveInfo,
    ProducerMessage,
    RemoveSubscriptionInfo,
    WireFormatInfo,
)
from brokerproof.reference_broker.openwire.connections import ProducerInfo, SessionInfo
from brokerproof.reference_broker.session.destination_options import plain_name
from brokerproof.reference_broker.session.session import Client

#: The property in which a message's delivery time travels.
DELIVERY_TIME: Final = "JMSDeliveryTime"
#: The last instant that a field of 64 bits holds.
LAST_MS: Final = 2**63 - 1


@mypyc_attr(allow_interpreted_subclasses=True)
class Requests(Client):
    """The half of a client's session that needs no memory of messages."""

    __slots__ = ("_commands", "_connection_id", "_messages", "_own_queue", "_producer_id", "_temporaries", "client_id",
                 "disable_timestamps", "fault_tolerant", "initial_delay_ms", "max_inactivity_ms",
                 "password", "user_name")  # fmt: skip

    def __init__(
        self, client_id: str, monitor: Monitor, max_inactivity_ms: int, initial_delay_ms: int, connection_id: str = ""
    ) -> None:
        if initial_delay_ms < 0:
            raise ValueError(
                f"initial delay {initial_delay_ms} ms is negative; ActiveMQ kills such a connection, use 0"
            )
        super().__init__(KeepAliveInfo(), monitor)
        self.client_id = client_id
        #: What the ids of its messages begin with: a client that comes back under the same client id must not use the
        #: same ids again.
        self._connection_id = connection_id or client_id
        self._producer_id = f"{self._connection_id}:1:1"
        self.max_inactivity_ms = max_inactivity_ms
        self.initial_delay_ms = initial_delay_ms
        self.user_name = ""
        self.password = ""
        #: Unless a send says otherwise.
        self.disable_timestamps = False
        #: It will come back if it loses its socket, and says so.
        self.fault_tolerant = False
        self._commands = 0
        self._messages = 0
        self._temporaries = 0
        self._own_queue = ""

    def heard(self, frame: object, now_ns: int) -> bool:
        if type(frame) is not KeepAliveInfo or frame.response_required or self.closed:
            return False
        self.monitor.frame_received(now_ns)
        return True

    def connect(self) -> str:
        """Say hello and announce the one session and the one producer; returns the receipt's name."""
        self.outbox.append(WireFormatInfo(self.max_inactivity_ms, self.initial_delay_ms))
        number = self._number()
        self.outbox.append(
            ConnectionInfo(
                self.client_id,
                number,
                response_required=True,
                connection_id=self._connection_id,
                fault_tolerant=self.fault_tolerant,
                user_name=self.user_name,
                password=self.password,
            )
        )
        self.outbox.append(SessionInfo(f"{self._connection_id}:1"))
        self.outbox.append(ProducerInfo(self._producer_id))
        return str(number)

    def send(
        self,
        destination: str,
        body: bytes,
        now: Now,
        *,
        ttl_ms: int = 0,
        persistent: bool = True,
        priority: int = DEFAULT_PRIORITY,
        delay_ms: int = 0,
        deliver_at_ms: int = 0,
        disable_timestamp: bool | None = None,
        transaction: str = "",
        group: str = "",
        group_sequence: int = 0,
        reply_to: str = "",
        correlation_id: str = "",
        jms_type: str = "",
        properties: dict[str, Property] | None = None,
        network: bool = False,
        numbered: bool = False,
        receipt: bool = False,
    ) -> Message:
        """Send a message stamped by this host's wall clock.

        Returns it for its stamps; it belongs to the broker: do not change it.

        ``ttl_ms`` 0 or less never expires, nor does one beyond the calendar. ``network``: this client is a network
        bridge, and the message has passed another broker. ``disable_timestamp`` sends timestamp 0 and leaves the
        expiration as it is. ``numbered``: it says which one of its producer's messages it is, as the wire does of all,
        because it may be sent again (``repeat``). A receipt's name is the number of the command, see
        ``last_command``.
        """
        self._messages += 1
        if disable_timestamp is None:
            disable_timestamp = self.disable_timestamps
        destination = plain_name(destination)
        properties = self.with_delivery_time(properties, delay_ms, deliver_at_ms, now.wall_ms)
        message = Message(
            f"{self._producer_id}:{self._messages}",
            destination,
            body,
            timestamp_ms=0 if disable_timestamp else now.wall_ms,
            expiration_ms=now.wall_ms + ttl_ms if 0 < ttl_ms <= LAST_MS - now.wall_ms else 0,
            delay_ms=delay_ms,
            deliver_at_ms=deliver_at_ms,
            persistent=persistent,
            priority=priority,
            properties=properties,
            correlation_id=correlation_id or None,
            reply_to=reply_to,
            jms_type=jms_type,
            group_id=group,
            group_sequence=group_sequence,
        )
        command = ProducerMessage(message, self._number(), receipt, transaction=transaction, network=network)
        if numbered:
            command.producer_id, command.number = self._producer_id, self._messages
        self.outbox.append(command)
        return message

    def repeat(self, message: Message, former: Requests, network: bool) -> str:
        """The client has come back under the connection id of ``former``, which was not answered: send its last
        message again, which was ``numbered``, and count on from there. Returns the receipt's name.
        """
        self._messages = former._messages
        self._temporaries = former._temporaries
        command = ProducerMessage(message, self._number(), True, network=network)
        command.producer_id, command.number = self._producer_id, self._messages
        self.outbox.append(command)
        return self.last_command

    def pass_on(self, message: Message) -> str:
        """Send a message that another broker has given away as it is, as a network bridge does. It belongs to the
        broker from here on. Returns the receipt's name.
        """
        command = ProducerMessage(message, self._number(), True, network=True)
        command.producer_id = self._producer_id
        self.outbox.append(command)
        return self.last_command

    def with_delivery_time(
        self, properties: dict[str, Property] | None, delay_ms: int, deliver_at_ms: int, wall_ms: int
    ) -> dict[str, Property] | None:
        """The properties with the delivery time that follows from the send; what the application had set is ignored
        (Jakarta Messaging 3.1, 3.4.11 and 3.4.13). Without a delay it is the time of the send, and is not sent.
        """
        if delay_ms > 0 or deliver_at_ms > 0:
            return {
                **(properties or {}),
                DELIVERY_TIME: min(wall_ms + delay_ms, LAST_MS) if delay_ms > 0 else deliver_at_ms,
            }
        if properties and DELIVERY_TIME in properties:
            return {name: value for name, value in properties.items() if name != DELIVERY_TIME}
        return properties

    def unsubscribe_durable(self, name: str, *, receipt: bool = True) -> str:
        """End a durable subscription of this client id that no consumer uses (JMS ``unsubscribe``)."""
        number = self._number()
        self.outbox.append(
            RemoveSubscriptionInfo(name, client_id=self.client_id, command_id=number, response_required=receipt)
        )
        return str(number)

    def own_queue(self) -> str:
        """The temporary queue of this connection that answers are asked for on; created when it is first wanted."""
        if not self._own_queue:
            self._own_queue = self.create_temporary("queue")
        return self._own_queue

    def create_temporary(self, kind: str) -> str:
        """Create a temporary "queue" or "topic" of this connection; returns its name, which others may send to."""
        if kind not in {"queue", "topic"}:
            raise ValueError(f"temporary {kind!r} is unknown; one of queue, topic")
        self._temporaries += 1
        name = (TEMP_QUEUE if kind == "queue" else TEMP_TOPIC) + f"{self._connection_id}:{self._temporaries}"
        self.outbox.append(DestinationInfo(name, ADD_DESTINATION, command_id=self._number(), response_required=True))
        return name

    def delete_destination(self, name: str) -> str:
        """Delete a destination that nobody consumes from; returns the receipt's name."""
        number = self._number()
        self.outbox.append(DestinationInfo(name, REMOVE_DESTINATION, command_id=number, response_required=True))
        return str(number)

    @property
    def last_command(self) -> str:
        """The name under which the latest request is answered."""
        return str(self._commands)

    def _number(self) -> int:
        self._commands += 1
        return self._commands
