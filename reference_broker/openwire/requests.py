"""What the JMS client asks for that concerns no consumer: hello, sends, destinations, subscriptions.

Rules: every command has a number of its own, counted from 1; a request's receipt is named by that number. A message is
stamped by this host's wall clock, which the caller brings.

What must change together: ``client.py``, ``commands.py``.
"""

from __future__ import annotations

from reference_broker.core.instant import Now
from reference_broker.core.message import DEFAULT_PRIORITY, TEMP_QUEUE, TEMP_TOPIC, Message, Property
from reference_broker.inactivity import Monitor
from reference_broker.openwire.commands import (
    ADD_DESTINATION,
    REMOVE_DESTINATION,
    ConnectionInfo,
    DestinationInfo,
    KeepAliveInfo,
    ProducerMessage,
    RemoveSubscriptionInfo,
    WireFormatInfo,
)
from reference_broker.session import Client


class Requests(Client):
    """The half of a client's session that needs no memory of messages."""

    __slots__ = (
        "_commands",
        "_connection_id",
        "_messages",
        "_temporaries",
        "client_id",
        "initial_delay_ms",
        "max_inactivity_ms",
    )

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
        self.max_inactivity_ms = max_inactivity_ms
        self.initial_delay_ms = initial_delay_ms
        self._commands = 0
        self._messages = 0
        self._temporaries = 0

    def connect(self) -> str:
        """Say hello; returns the receipt's name."""
        self.outbox.append(WireFormatInfo(self.max_inactivity_ms, self.initial_delay_ms))
        number = self._number()
        self.outbox.append(ConnectionInfo(self.client_id, number, response_required=True))
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
        disable_timestamp: bool = False,
        transaction: str = "",
        group: str = "",
        group_sequence: int = 0,
        reply_to: str = "",
        correlation_id: str = "",
        jms_type: str = "",
        properties: dict[str, Property] | None = None,
        receipt: bool = False,
    ) -> Message:
        """Send a message stamped by this host's wall clock.

        Returns it for its stamps; it belongs to the broker: do not change it.

        ``ttl_ms`` 0 or less never expires. ``disable_timestamp`` sends timestamp 0 and leaves the expiration as it is.
        A receipt's name is the number of the command, see ``last_command``.
        """
        self._messages += 1
        message = Message(
            f"{self._connection_id}-{self._messages}",
            destination,
            body,
            timestamp_ms=0 if disable_timestamp else now.wall_ms,
            expiration_ms=now.wall_ms + ttl_ms if ttl_ms > 0 else 0,
            delay_ms=delay_ms,
            deliver_at_ms=deliver_at_ms,
            persistent=persistent,
            priority=priority,
            properties=properties,
            correlation_id=correlation_id,
            reply_to=reply_to,
            jms_type=jms_type,
            group_id=group,
            group_sequence=group_sequence,
        )
        self.outbox.append(ProducerMessage(message, self._number(), receipt, transaction=transaction))
        return message

    def unsubscribe_durable(self, name: str, *, receipt: bool = True) -> str:
        """End a durable subscription of this client id that no consumer uses (JMS ``unsubscribe``)."""
        number = self._number()
        self.outbox.append(
            RemoveSubscriptionInfo(name, client_id=self.client_id, command_id=number, response_required=receipt)
        )
        return str(number)

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
