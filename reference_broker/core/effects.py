"""What the broker wants done: the outputs of ``Broker.handle``, in order.

The core performs nothing. The edge (``node.py``) puts a ``Dispatch`` on the connection's outbox and answers requests; a
simulation and a server treat them alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.in_flight import Counters
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.records import Record


class Effect:
    """Base of all outputs."""

    __slots__ = ()


class Dispatch(Effect):
    """Write this message to that consumer.

    ``asynchronous`` True: queue it on the connection's outbox and report ``Transmitted(dispatch)`` when the transport
    has written it. False: the broker counts it as transmitted already, because a synchronous dispatch does not return
    before the write is done; until that is reported (``Transmitted`` all the same) its destination gives nobody
    anything.
    """

    __slots__ = ("asynchronous", "connection", "consumer", "counters", "holder", "message",
                 "redelivery_count", "remaining_ttl_ms")  # fmt: skip

    def __init__(
        self,
        connection: int,
        consumer: str,
        message: Message,
        redelivery_count: int,
        asynchronous: bool,
        counters: Counters | None = None,
    ) -> None:
        self.connection = connection
        self.consumer = consumer
        self.message = message
        #: Copied when the message is assigned: a later redelivery must not rewrite what is on its way already.
        self.redelivery_count = redelivery_count
        self.asynchronous = asynchronous
        #: Where it is counted in flight when it is written: its destination's, also if that has been removed meanwhile.
        self.counters = counters
        #: The destination that waits for this write.
        self.holder: Destination | None = None
        #: What is left of a broker-relative time to live; 0: the message has none.
        self.remaining_ttl_ms = 0


class Accepted(Effect):
    """The request succeeded."""

    __slots__ = ("connection", "request")

    def __init__(self, connection: int, request: int) -> None:
        self.connection = connection
        self.request = request


class Refused(Effect):
    """The request failed and changed nothing. ``code`` is a stable word, ``text`` says the value and the remedy.
    ``transaction``: what it was to be a part of; "" is none.
    """

    __slots__ = ("code", "connection", "request", "text", "transaction")

    def __init__(self, connection: int, request: int, code: str, text: str, transaction: str = "") -> None:
        self.connection = connection
        self.request = request
        self.code = code
        self.text = text
        self.transaction = transaction


class Logged(Effect):
    """A line for the broker's log, with ActiveMQ's logger name where a seed quotes one."""

    __slots__ = ("level", "logger", "text")

    def __init__(self, level: str, logger: str, text: str) -> None:
        self.level = level
        self.logger = logger
        self.text = text


class NoMessage(Effect):
    """Tell a consumer that there is nothing (more): the end of a browse, or of a pull that found nothing (OpenWire:
    a MessageDispatch without a message).
    """

    __slots__ = ("connection", "consumer")

    def __init__(self, connection: int, consumer: str) -> None:
        self.connection = connection
        self.consumer = consumer


class Displaced(Effect):
    """Another connection has taken this one's place: it is gone for the broker, its socket may be closed."""

    __slots__ = ("connection", "text")

    def __init__(self, connection: int, text: str) -> None:
        self.connection = connection
        self.text = text


class Granted(Effect):
    """A consumer has another prefetch than it asked for, by the destination's policy."""

    __slots__ = ("connection", "consumer", "destination", "prefetch")

    def __init__(self, connection: int, consumer: str, destination: str, prefetch: int) -> None:
        self.connection = connection
        self.consumer = consumer
        self.destination = destination
        self.prefetch = prefetch


class Counted(Effect):
    """An operator's request succeeded and concerned so many messages; ``shown``: what it shows."""

    __slots__ = ("count", "request", "shown")

    def __init__(self, request: int, count: int, shown: list[str] | None = None) -> None:
        self.request = request
        self.count = count
        self.shown = shown or []


class Throttled(Effect):
    """Producer flow control: stop (``blocked``) or start again to read from a connection."""

    __slots__ = ("blocked", "connection")

    def __init__(self, connection: int, blocked: bool) -> None:
        self.connection = connection
        self.blocked = blocked


class Credited(Effect):
    """A producer with a window may send so many bytes more (OpenWire: ProducerAck)."""

    __slots__ = ("connection", "producer", "size_bytes")

    def __init__(self, connection: int, producer: str, size_bytes: int) -> None:
        self.connection = connection
        self.producer = producer
        self.size_bytes = size_bytes


class Journalled(Effect):
    """Something that must outlive the process. All records of one event are one unit: storage keeps all or none, and
    no ``Accepted`` of that event, nor any later one, may reach a client before they are safe.
    """

    __slots__ = ("record",)

    def __init__(self, record: Record) -> None:
        self.record = record


#: What one connection is told, beside the answer to a request that succeeded.
ToConnection = Refused | NoMessage | Throttled | Credited | Granted | Displaced
