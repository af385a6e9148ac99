"""What can happen to the broker: the inputs of ``Broker.handle(event, now)``.

They are OpenWire's commands without the wire. Each protocol's session (``stomp/``, ``openwire/``) turns its frames into
these, so that the core knows no protocol. ``connection`` is a number chosen by the edge, ``consumer`` a name that is
unique in the broker. ``request`` comes back in the answering effect (``Accepted`` or ``Refused``); 0 means that nobody
waits for an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reference_broker.core.effects import Dispatch
    from reference_broker.core.message import Message

# Acknowledgement types, by OpenWire's numbers (MessageAck.ackType).
DELIVERED: Final = 0
POISON: Final = 1
STANDARD: Final = 2
REDELIVERED: Final = 3
INDIVIDUAL: Final = 4
UNMATCHED: Final = 5
EXPIRED: Final = 6


class Event:
    """Base of all inputs."""

    __slots__ = ()


class Connect(Event):
    """A client finished its protocol's handshake."""

    __slots__ = ("client_id", "connection")

    def __init__(self, connection: int, client_id: str) -> None:
        self.connection = connection
        self.client_id = client_id


class Disconnect(Event):
    """The connection is gone. ``clean`` tells a goodbye (DISCONNECT, ShutdownInfo) from a lost socket or an inactivity
    close.
    """

    __slots__ = ("clean", "connection")

    def __init__(self, connection: int, clean: bool) -> None:
        self.connection = connection
        self.clean = clean


class Subscribe(Event):
    """A consumer attaches (ConsumerInfo). ``prefetch`` counts messages; ``dispatch_async`` False dispatches on the
    calling thread.

    ``auto_ack`` True: the broker settles a message as soon as it is written (STOMP ``ack:auto``).
    """

    __slots__ = ("auto_ack", "connection", "consumer", "destination", "dispatch_async", "prefetch", "request")

    def __init__(
        self,
        connection: int,
        consumer: str,
        destination: str,
        prefetch: int,
        *,
        dispatch_async: bool = True,
        auto_ack: bool = False,
        request: int = 0,
    ) -> None:
        self.connection = connection
        self.consumer = consumer
        self.destination = destination
        self.prefetch = prefetch
        self.dispatch_async = dispatch_async
        self.auto_ack = auto_ack
        self.request = request


class Unsubscribe(Event):
    """A consumer detaches (RemoveInfo).

    ``last_delivered`` is the number of this consumer's dispatched messages, from the oldest, that its application has
    seen; -2 when the protocol does not tell (STOMP, a lost connection), and then every unsettled message counts as
    delivered.
    """

    __slots__ = ("connection", "consumer", "last_delivered", "request")

    def __init__(self, connection: int, consumer: str, *, last_delivered: int = -2, request: int = 0) -> None:
        self.connection = connection
        self.consumer = consumer
        self.last_delivered = last_delivered
        self.request = request


class Send(Event):
    """A producer sends one message. ``network``: it came over a bridge (non-empty broker path)."""

    __slots__ = ("connection", "message", "network", "request")

    def __init__(self, connection: int, message: Message, *, network: bool = False, request: int = 0) -> None:
        self.connection = connection
        self.message = message
        self.network = network
        self.request = request


class Ack(Event):
    """A consumer acknowledges dispatched messages.

    ``kind`` is one of the constants above. STANDARD, POISON, EXPIRED and DELIVERED cover the range from ``first`` ("" =
    the oldest unsettled one) to ``last`` inclusive, in dispatch order; INDIVIDUAL covers ``last`` alone.
    """

    __slots__ = ("connection", "consumer", "first", "kind", "last", "request")

    def __init__(
        self, connection: int, consumer: str, kind: int, last: str, *, first: str = "", request: int = 0
    ) -> None:
        self.connection = connection
        self.consumer = consumer
        self.kind = kind
        self.first = first
        self.last = last
        self.request = request


class Transmitted(Event):
    """The transport finished writing an asynchronous dispatch (or gave up on it): the moment at which the in-flight
    count rises (seed 003).
    """

    __slots__ = ("dispatch", "failed")

    def __init__(self, dispatch: Dispatch, failed: bool = False) -> None:
        self.dispatch = dispatch
        self.failed = failed


class Purge(Event):
    """An operator empties a queue."""

    __slots__ = ("destination",)

    def __init__(self, destination: str) -> None:
        self.destination = destination


class Tick(Event):
    """Time passed: whatever ``Broker.next_due_ns()`` asked for is to be looked at."""

    __slots__ = ()
