"""What can happen to the broker: the inputs of ``Broker.handle(event, now)``.

They are OpenWire's commands without the wire. Each protocol's session (``stomp/``, ``openwire/``) turns its frames into
these, so that the core knows no protocol. ``connection`` is a number chosen by the edge, ``consumer`` a name that is
unique in the broker. ``request`` comes back in the answering effect (``Accepted`` or ``Refused``); 0 means that nobody
waits for an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.effects import Dispatch
    from brokerproof.reference_broker.core.message import Message

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
    """A client finished its protocol's handshake.

    ``identity``: the name that it keeps when it comes back over another socket; "" is none. ``exclusive``: nobody else
    may have its client id. ``user``: as whom it logs in; "" is nobody.
    """

    __slots__ = ("client_id", "connection", "exclusive", "identity", "request", "user")

    def __init__(
        self,
        connection: int,
        client_id: str,
        *,
        identity: str = "",
        exclusive: bool = False,
        request: int = 0,
        user: str = "",
    ) -> None:
        self.connection = connection
        self.client_id = client_id
        self.identity = identity
        self.exclusive = exclusive
        self.request = request
        self.user = user


class Disconnect(Event):
    """The connection is gone, with a goodbye or without. ``last_sequence`` as in ``Unsubscribe``, for all its
    consumers.
    """

    __slots__ = ("connection", "last_sequence")

    def __init__(self, connection: int, *, last_sequence: int = -2) -> None:
        self.connection = connection
        self.last_sequence = last_sequence


class Subscribe(Event):
    """A consumer attaches (ConsumerInfo).

    ``destination`` may be a wildcard or composite name. ``prefetch`` counts messages; 0 is a pull consumer, -1 asks for
    the default of its kind. ``dispatch_async`` False dispatches on the calling thread. ``auto_ack`` True: the broker
    settles a message as soon as it is written (STOMP ``ack:auto``). ``selector`` "" is none. ``durable`` is the name of
    a durable subscription, "" is none. ``priority`` is the consumer's (-128 to 127). ``exclusive``, ``no_local`` and
    ``browser`` as in JMS and ConsumerInfo. ``retroactive`` asks for what a topic remembers (``retention.py``),
    ``pending_limit`` lowers how many messages of a topic may wait beyond the window; 0 does not.
    """

    __slots__ = ("auto_ack", "browser", "connection", "consumer", "destination", "dispatch_async", "durable",
                 "exclusive", "no_local", "pending_limit", "prefetch", "priority", "request",
                 "retroactive", "selector")  # fmt: skip

    def __init__(
        self,
        connection: int,
        consumer: str,
        destination: str,
        prefetch: int,
        *,
        dispatch_async: bool = True,
        auto_ack: bool = False,
        selector: str = "",
        no_local: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        browser: bool = False,
        durable: str = "",
        retroactive: bool = False,
        pending_limit: int = 0,
        request: int = 0,
    ) -> None:
        self.connection = connection
        self.consumer = consumer
        self.destination = destination
        self.prefetch = prefetch
        self.retroactive = retroactive
        self.pending_limit = pending_limit
        self.dispatch_async = dispatch_async
        self.auto_ack = auto_ack
        self.selector = selector
        self.no_local = no_local
        self.exclusive = exclusive
        self.priority = priority
        self.browser = browser
        self.durable = durable
        self.request = request


class Unsubscribe(Event):
    """A consumer detaches (RemoveInfo).

    ``last_delivered`` is the number of this consumer's dispatched messages, from the oldest, that its application has
    seen; -2 when the protocol does not tell (STOMP, a lost connection), and then every unsettled message counts as
    delivered. A protocol may tell the broker's number of the last one instead (``last_sequence``; -1: none has been
    seen, -2: unknown); a number that the consumer does not hold counts as none.
    """

    __slots__ = ("connection", "consumer", "last_delivered", "last_sequence", "request")

    def __init__(
        self,
        connection: int,
        consumer: str,
        *,
        last_delivered: int = -2,
        last_sequence: int | None = None,
        request: int = 0,
    ) -> None:
        self.connection = connection
        self.consumer = consumer
        self.last_delivered = last_delivered
        self.last_sequence = last_sequence
        self.request = request


class Send(Event):
    """A producer sends one message. ``network``: it came over a bridge (non-empty broker path). ``transaction`` "" is
    none. ``credit_bytes``: what the message takes of the window of ``producer`` (a name of the session's), which gets
    it back when the broker has dealt with the message; 0: it has no window. ``number``: which one of the producer's it
    is, from 1, if it may come again (``duplicate_detection.py``); 0: it does not say.
    """

    __slots__ = ("connection", "credit_bytes", "message", "network", "number", "producer", "request", "transaction")

    def __init__(
        self,
        connection: int,
        message: Message,
        *,
        network: bool = False,
        transaction: str = "",
        request: int = 0,
        producer: str = "",
        credit_bytes: int = 0,
        number: int = 0,
    ) -> None:
        self.connection = connection
        self.message = message
        self.network = network
        self.transaction = transaction
        self.request = request
        self.producer = producer
        self.credit_bytes = credit_bytes
        self.number = number


class Ack(Event):
    """A consumer acknowledges dispatched messages.

    ``kind`` is one of the constants above. STANDARD, POISON, EXPIRED and DELIVERED cover the range from ``first`` ("" =
    the oldest unsettled one) to ``last`` inclusive, in dispatch order; INDIVIDUAL covers ``last`` alone.
    ``destination`` says which copy of ``last`` is meant, for consumers of several destinations; "": the oldest.
    ``cause`` says why a POISON one gives its messages up ("" does not say).
    """

    __slots__ = ("cause", "connection", "consumer", "destination", "first", "kind", "last", "request", "transaction")

    def __init__(
        self,
        connection: int,
        consumer: str,
        kind: int,
        last: str,
        *,
        first: str = "",
        destination: str = "",
        transaction: str = "",
        cause: str = "",
        request: int = 0,
    ) -> None:
        self.cause = cause
        self.connection = connection
        self.consumer = consumer
        self.destination = destination
        self.kind = kind
        self.first = first
        self.last = last
        self.transaction = transaction
        self.request = request


class Transmitted(Event):
    """The transport finished writing a dispatch (or gave up on it): the moment at which the in-flight count rises, if
    the dispatch was asynchronous, and at which its destination goes on, if it was synchronous (seed 003).
    """

    __slots__ = ("dispatch", "failed")

    def __init__(self, dispatch: Dispatch, failed: bool = False) -> None:
        self.dispatch = dispatch
        self.failed = failed


class Pull(Event):
    """A pull consumer (prefetch 0) asks for one message. ``timeout_ms`` -1: only what is there now; 0: wait for ever;
    above 0: wait so long. What ends the wait without a message is the effect ``NoMessage``.
    """

    __slots__ = ("connection", "consumer", "request", "timeout_ms")

    def __init__(self, connection: int, consumer: str, timeout_ms: int, *, request: int = 0) -> None:
        self.connection = connection
        self.consumer = consumer
        self.timeout_ms = timeout_ms
        self.request = request


class Resize(Event):
    """A client changes its consumer's prefetch (ConsumerControl)."""

    __slots__ = ("connection", "consumer", "prefetch", "request")

    def __init__(self, connection: int, consumer: str, prefetch: int, *, request: int = 0) -> None:
        self.connection = connection
        self.consumer = consumer
        self.prefetch = prefetch
        self.request = request


class Begin(Event):
    """A local transaction of a connection begins. ``transaction`` is a name of the client's, unique in its
    connection.
    """

    __slots__ = ("connection", "request", "transaction")

    def __init__(self, connection: int, transaction: str, *, request: int = 0) -> None:
        self.connection = connection
        self.transaction = transaction
        self.request = request


class Commit(Begin):
    """Everything sent and acknowledged in the transaction takes effect, at once and together. ``ends``: if that is
    refused it is a rollback, because the client will not name the transaction again.
    """

    __slots__ = ("ends",)

    def __init__(self, connection: int, transaction: str, *, request: int = 0, ends: bool = False) -> None:
        super().__init__(connection, transaction, request=request)
        self.ends = ends


class Rollback(Begin):
    """Nothing sent or acknowledged in the transaction takes effect."""

    __slots__ = ()


class AddDestination(Event):
    """A client creates a destination (DestinationInfo), for a temporary one the only way."""

    __slots__ = ("connection", "destination", "request")

    def __init__(self, connection: int, destination: str, *, request: int = 0) -> None:
        self.connection = connection
        self.destination = destination
        self.request = request


class AddProducer(AddDestination):
    """Somebody is going to send to that name, of one destination or several (ProducerInfo). ``producer`` is unique in
    the broker.
    """

    __slots__ = ("producer",)

    def __init__(self, connection: int, destination: str, producer: str, *, request: int = 0) -> None:
        super().__init__(connection, destination, request=request)
        self.producer = producer


class RemoveProducer(AddDestination):
    """A producer that had named a destination is closed (RemoveInfo)."""

    __slots__ = ("producer",)

    def __init__(self, connection: int, producer: str, *, request: int = 0) -> None:
        super().__init__(connection, "", request=request)
        self.producer = producer


class RemoveDestination(AddDestination):
    """A client deletes a destination that nobody consumes from."""

    __slots__ = ()


class RemoveSubscription(Event):
    """A client ends a durable subscription that is not in use (RemoveSubscriptionInfo, JMS ``unsubscribe``)."""

    __slots__ = ("connection", "name", "request")

    def __init__(self, connection: int, name: str, *, request: int = 0) -> None:
        self.connection = connection
        self.name = name
        self.request = request


class Operation(Event):
    """Base of what an operator asks for. The answer is ``Counted`` (how many messages it concerned) or ``Refused``,
    with connection 0.
    """

    __slots__ = ("destination", "request")

    def __init__(self, destination: str, *, request: int = 0) -> None:
        self.destination = destination
        self.request = request


class Purge(Operation):
    """Empty a queue."""

    __slots__ = ()


class RemoveQueue(Operation):
    """Purge a queue, forget it and what its store holds."""

    __slots__ = ()


class ResetStatistics(Operation):
    """Set the totals of a destination ("": of all) to 0."""

    __slots__ = ()


class Move(Operation):
    """Move messages that match ``selector`` ("": all) to another destination, at most ``count`` (0: all)."""

    __slots__ = ("count", "selector", "target")

    def __init__(self, destination: str, target: str, *, selector: str = "", count: int = 0, request: int = 0) -> None:
        super().__init__(destination, request=request)
        self.target = target
        self.selector = selector
        self.count = count


class SetMemoryLimit(Operation):
    """Change the memory limit of a destination, or of the broker (""), at run time; 0 is no limit."""

    __slots__ = ("limit_bytes",)

    def __init__(self, destination: str, limit_bytes: int, *, request: int = 0) -> None:
        super().__init__(destination, request=request)
        self.limit_bytes = limit_bytes


class Mqsc(Operation):
    """One command in IBM MQ's command language (``mq/mqsc.py``). What it shows is logged; ``Counted`` says how much."""

    __slots__ = ("text",)

    def __init__(self, text: str, *, request: int = 0) -> None:
        super().__init__("", request=request)
        self.text = text


class GetStaged(Operation):
    """Take a message off the staging queue by its correlation id, with the authority of ``principal``."""

    __slots__ = ("correlation_id", "principal")

    def __init__(self, principal: str, correlation_id: str, *, request: int = 0) -> None:
        super().__init__("", request=request)
        self.principal = principal
        self.correlation_id = correlation_id


class StorageChanged(Event):
    """The storage can take no more messages, or can again. ``code`` and ``text`` are those with which persistent
    messages are refused from now on; "" ends it.
    """

    __slots__ = ("code", "text")

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        self.text = text


class Tick(Event):
    """Time passed: whatever ``Broker.next_due_ns()`` asked for is to be looked at."""

    __slots__ = ()
