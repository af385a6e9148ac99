"""OpenWire's commands as plain objects: what they mean, not how they are written.

The fields are those that this project uses, under OpenWire's names in our spelling; times are milliseconds.
``translation/`` turns them into what ``wire/`` writes.

Known differences to the wire
* Identifiers are strings, where OpenWire has structures.
* ``MessageDispatch`` carries a copy of the message's fields, because a command on its way must not change when the
  broker later moves the message.
* ``EmptyDispatch`` is a MessageDispatch without a message on the wire; a transaction is named by a text.
"""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.core.message import DEFAULT_PRIORITY, OCTETS, Message, Packed, Property

#: RemoveInfo.last_sequence: the client does not tell, so every unsettled message counts as delivered.
LAST_DELIVERED_UNKNOWN: Final = -2
# TransactionInfo.kind, by OpenWire's numbers.
BEGIN: Final = 0
COMMIT_ONE_PHASE: Final = 2
ROLLBACK: Final = 4
#: How the name of a distributed transaction begins.
XA: Final = "XA:"
# DestinationInfo.operation.
ADD_DESTINATION: Final = 0
REMOVE_DESTINATION: Final = 1


class Command:
    """Base of all commands. ``command_id`` is the sender's number; an answer refers to it."""

    __slots__ = ("command_id", "response_required")

    def __init__(self, command_id: int = 0, response_required: bool = False) -> None:
        self.command_id = command_id
        self.response_required = response_required


class WireFormatInfo(Command):
    """The first command of both sides. What it offers beside the monitor's periods is the business of ``framing.py``.

    None: the sender left the entry out of its map, which counts as 0 (inactivity.md 2.2). ``version`` 0: there are no
    bytes between the two ends (in the simulation), and nobody needs a BrokerInfo.
    """

    __slots__ = ("max_inactivity_duration_initial_delay_ms", "max_inactivity_duration_ms", "version")

    def __init__(
        self,
        max_inactivity_duration_ms: int | None = 30_000,
        max_inactivity_duration_initial_delay_ms: int | None = 10_000,
        version: int = 0,
    ) -> None:
        super().__init__()
        self.version = version
        self.max_inactivity_duration_ms = max_inactivity_duration_ms
        self.max_inactivity_duration_initial_delay_ms = max_inactivity_duration_initial_delay_ms


class ConnectionInfo(Command):
    """The client names itself.

    ``connection_id`` "": nobody else will name it. ``user_name`` "": no user. ``failover_reconnect``: it was here
    before, over another socket. It has no text of its own, so the password is in none.
    """

    __slots__ = ("client_id", "connection_id", "failover_reconnect", "fault_tolerant", "manageable",
                 "password", "user_name")  # fmt: skip

    def __init__(
        self,
        client_id: str,
        command_id: int = 0,
        response_required: bool = False,
        *,
        connection_id: str = "",
        user_name: str = "",
        password: str = "",
        failover_reconnect: bool = False,
        fault_tolerant: bool = False,
        manageable: bool = False,
    ) -> None:
        super().__init__(command_id, response_required)
        self.client_id = client_id
        self.connection_id = connection_id
        self.user_name = user_name
        self.password = password
        self.failover_reconnect = failover_reconnect
        #: It comes back when it loses its socket, and sends again what was not answered.
        self.fault_tolerant = fault_tolerant
        #: It understands ConnectionControl.
        self.manageable = manageable


class ConsumerInfo(Command):
    """A consumer attaches. ``prefetch`` counts messages; 0: it pulls. ``subscription_name`` is a durable's; "" is none.

    The other fields are those of ``core/events.py`` Subscribe.
    """

    __slots__ = ("browser", "consumer_id", "destination", "dispatch_async", "exclusive", "no_local", "pending_limit",
                 "prefetch", "priority", "retroactive", "selector", "subscription_name")  # fmt: skip

    def __init__(
        self,
        consumer_id: str,
        destination: str,
        prefetch: int,
        *,
        dispatch_async: bool = True,
        selector: str = "",
        subscription_name: str = "",
        no_local: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        browser: bool = False,
        retroactive: bool = False,
        pending_limit: int = 0,
        command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        super().__init__(command_id, response_required)
        self.consumer_id = consumer_id
        self.retroactive = retroactive
        self.pending_limit = pending_limit
        self.destination = destination
        self.prefetch = prefetch
        self.dispatch_async = dispatch_async
        self.selector = selector
        self.subscription_name = subscription_name
        self.no_local = no_local
        self.exclusive = exclusive
        self.priority = priority
        self.browser = browser


class RemoveInfo(Command):
    """A consumer detaches.

    ``last_sequence``: the broker's number of the last message that its application has seen; -1: it has seen none.
    """

    __slots__ = ("consumer_id", "last_sequence")

    def __init__(
        self,
        consumer_id: str,
        *,
        last_sequence: int = LAST_DELIVERED_UNKNOWN,
        command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        super().__init__(command_id, response_required)
        self.consumer_id = consumer_id
        self.last_sequence = last_sequence


class ProducerMessage(Command):
    """A message on its way to the broker (OpenWire: an ActiveMQMessage).

    The message belongs to the broker from here on. ``transaction`` "" is none (OpenWire: a field of the message).
    ``producer_id`` "": of no producer that was announced. ``network``: it came over a bridge.
    """

    __slots__ = ("message", "network", "number", "producer_id", "transaction")

    def __init__(
        self,
        message: Message,
        command_id: int = 0,
        response_required: bool = False,
        *,
        transaction: str = "",
        network: bool = False,
    ) -> None:
        # What the base does; of every message, so without the call.
        self.command_id = command_id
        self.response_required = response_required
        self.message = message
        self.transaction = transaction
        self.producer_id = ""
        #: Which one of its producer's it is, from 1; 0: it does not say.
        self.number = 0
        self.network = network


class RefusedCommand(Command):
    """A command whose content cannot be taken: the bytes were right, what they say is not offered."""

    __slots__ = ("text",)

    def __init__(self, text: str, command_id: int = 0, response_required: bool = False) -> None:
        super().__init__(command_id, response_required)
        self.text = text


class MessageDispatch(Command):
    """A message on its way to a consumer."""

    __slots__ = ("about", "body", "consumer_id", "correlation_id", "destination", "expiration_ms", "extra", "form",
                 "group_id", "group_sequence", "jms_type", "message_id", "opened", "original_destination", "packed",
                 "path", "persistent", "place", "priority", "redelivery_count", "reply_to", "sequence",
                 "timestamp_ms")  # fmt: skip

    #: Where it stands among the arrivals of its consumer; a client's, who sets it when it arrives.
    place: int

    def __init__(
        self,
        consumer_id: str,
        message_id: str,
        destination: str,
        body: bytes,
        *,
        redelivery_count: int = 0,
        expiration_ms: int = 0,
        timestamp_ms: int = 0,
        persistent: bool = False,
        priority: int = DEFAULT_PRIORITY,
        original_destination: str = "",
        properties: dict[str, Property] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        jms_type: str = "",
        group_id: str = "",
        group_sequence: int = 0,
        form: int = OCTETS,
        packed: Packed | None = None,
        extra: bytes = b"",
        path: tuple[str, ...] = (),
        sequence: int = 0,
        about: object = None,
    ) -> None:
        # What the base does; of every message, so without the call.
        self.command_id = 0
        self.response_required = False
        self.consumer_id = consumer_id
        self.message_id = message_id
        self.destination = destination
        self.body = body
        self.redelivery_count = redelivery_count
        self.expiration_ms = expiration_ms
        self.timestamp_ms = timestamp_ms
        self.persistent = persistent
        self.priority = priority
        self.original_destination = original_destination
        #: As in ``core/message.py``; so are ``form``, ``extra`` and ``path``.
        self.packed = packed
        self.opened = properties if properties is not None or packed is not None else {}
        self.form = form
        self.extra = extra
        self.path = path
        #: The broker's number.
        self.sequence = sequence
        #: What an advisory is about.
        self.about = about
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.jms_type = jms_type
        self.group_id = group_id
        self.group_sequence = group_sequence

    @property
    def properties(self) -> dict[str, Property]:
        """The properties by name."""
        if self.opened is None and self.packed is not None:
            self.opened = self.packed.unpack()
        return self.opened or {}

    def __repr__(self) -> str:
        return (
            f"MessageDispatch {{consumerId = {self.consumer_id}, destination = {self.destination}, "
            f"messageId = {self.message_id}, redeliveryCounter = {self.redelivery_count}, "
            f"expiration = {self.expiration_ms}}}"
        )


def as_dispatch(message: Message, consumer_id: str = "") -> MessageDispatch:
    """A message as it is now, on its way to a consumer; what the dispatch adds to it, the caller says."""
    return MessageDispatch(
        consumer_id,
        message.message_id,
        message.destination,
        message.body,
        expiration_ms=message.expiration_ms,
        timestamp_ms=message.timestamp_ms,
        persistent=message.persistent,
        priority=message.priority,
        properties=message.opened,
        correlation_id=message.correlation_id,
        reply_to=message.reply_to,
        jms_type=message.jms_type,
        group_id=message.group_id,
        group_sequence=message.group_sequence,
        form=message.form,
        packed=message.packed,
        extra=message.extra,
        path=message.path,
    )


class EmptyDispatch(Command):
    """Nothing (more) for a consumer: the end of a browse, or of a pull that found no message."""

    __slots__ = ("consumer_id",)

    def __init__(self, consumer_id: str) -> None:
        super().__init__()
        self.consumer_id = consumer_id


class MessagePull(Command):
    """A consumer with prefetch 0 asks for one message. ``timeout_ms`` -1: what is there now; 0: wait for ever.

    A dispatch answers it, empty or not; a Response only who asks for one.
    """

    __slots__ = ("consumer_id", "destination", "timeout_ms")

    def __init__(self, consumer_id: str, timeout_ms: int, *, destination: str = "", command_id: int = 0) -> None:
        super().__init__(command_id)
        self.consumer_id = consumer_id
        #: The consumer's, without which ActiveMQ does not answer; nobody reads it here.
        self.destination = destination
        self.timeout_ms = timeout_ms


class MessageAck(Command):
    """An acknowledgement.

    ``ack_type`` is one of the constants of ``core/events.py``; the range is [first, last] in dispatch order, "" = from
    the oldest. ``destination`` is that of the last message, "" does not say. ``transaction`` "" is none.
    ``poison_cause`` says why a POISON one gives its messages up.
    """

    __slots__ = ("ack_type", "consumer_id", "destination", "first_message_id", "last_message_id",
                 "message_count", "poison_cause", "transaction")  # fmt: skip

    def __init__(
        self,
        consumer_id: str,
        ack_type: int,
        last_message_id: str,
        *,
        first_message_id: str = "",
        message_count: int = 1,
        destination: str = "",
        transaction: str = "",
        poison_cause: str = "",
        command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        super().__init__(command_id, response_required)
        self.consumer_id = consumer_id
        self.ack_type = ack_type
        self.first_message_id = first_message_id
        self.last_message_id = last_message_id
        self.message_count = message_count
        self.destination = destination
        self.transaction = transaction
        self.poison_cause = poison_cause


class TransactionInfo(Command):
    """A step in the life of a transaction. ``kind`` is BEGIN, COMMIT_ONE_PHASE or ROLLBACK; the rest is XA."""

    __slots__ = ("kind", "transaction")

    def __init__(self, transaction: str, kind: int, *, command_id: int = 0, response_required: bool = False) -> None:
        super().__init__(command_id, response_required)
        self.transaction = transaction
        self.kind = kind


class DestinationInfo(Command):
    """A client creates (ADD_DESTINATION) or deletes (REMOVE_DESTINATION) a destination."""

    __slots__ = ("destination", "operation")

    def __init__(
        self, destination: str, operation: int, *, command_id: int = 0, response_required: bool = False
    ) -> None:
        super().__init__(command_id, response_required)
        self.destination = destination
        self.operation = operation


class RemoveSubscriptionInfo(Command):
    """JMS ``unsubscribe``: a durable subscription of this client id ends.

    ``client_id`` "" is the connection's own, which is the only one that counts.
    """

    __slots__ = ("client_id", "subscription_name")

    def __init__(
        self, subscription_name: str, *, client_id: str = "", command_id: int = 0, response_required: bool = False
    ) -> None:
        super().__init__(command_id, response_required)
        self.subscription_name = subscription_name
        self.client_id = client_id


class KeepAliveInfo(Command):
    """Proof of life; with ``response_required`` it is answered by one without."""

    __slots__ = ()


class Response(Command):
    """Yes, to the command ``correlation_id``."""

    __slots__ = ("correlation_id",)

    def __init__(self, correlation_id: int) -> None:
        super().__init__()
        self.correlation_id = correlation_id


class ExceptionResponse(Response):
    """No, to the command ``correlation_id``."""

    __slots__ = ("code", "text")

    def __init__(self, correlation_id: int, text: str, code: str = "") -> None:
        super().__init__(correlation_id)
        self.text = text
        self.code = code


class ConnectionFault(Command):
    """An error that answers no command (OpenWire: ConnectionError)."""

    __slots__ = ("code", "text")

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__()
        self.text = text
        self.code = code


class ShutdownInfo(Command):
    """Goodbye."""

    __slots__ = ()
