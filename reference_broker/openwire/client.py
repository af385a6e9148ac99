"""A JMS client over OpenWire, at the level of commands: what ActiveMQ's Java client does with time and prefetch.

Rules
* Expiry is decided by *this host's* wall clock: expired is ``wall_ms > expiration_ms``, never for an expiration of 0 or
  less. It is checked when a message arrives (it never enters the prefetch buffer) and again when the application takes
  it. The second check alone writes ActiveMQ's DEBUG line.
* A discarded message is acknowledged at once with type EXPIRED, first = last = that message, never asking for an
  answer. So a client whose clock is fast destroys messages that others could still use: the symptom of AMQ-6361 that
  this project is named for.
* ``auto``: a STANDARD acknowledgement as soon as ``take`` returns. ``client``: ``acknowledge`` covers all that was
  taken, as JMS says. ``individual``: one.
* In ``client`` mode a DELIVERED acknowledgement leaves when half of the prefetch was taken without being acknowledged,
  so that the broker's window moves on.

Known exceptions
* ActiveMQ's session.close sends one last-delivered id for all its consumers, so that siblings come back unmarked; here
  each consumer tells its own.
* A listener is a ``take`` for each arrival; transactions and pull consumers are not here yet.

What must change together: ``broker.py`` and ``commands.py``.
"""

from __future__ import annotations

from collections import deque

from reference_broker.core.events import DELIVERED, EXPIRED, INDIVIDUAL, POISON, STANDARD
from reference_broker.core.instant import Now
from reference_broker.core.message import DEFAULT_PRIORITY, Message, Property
from reference_broker.inactivity import Monitor, negotiate
from reference_broker.notice import Connected, Delivered, Discarded, Failed, LogLine, Notice, Receipt
from reference_broker.openwire.commands import (
    Command,
    ConnectionFault,
    ConnectionInfo,
    ConsumerInfo,
    ExceptionResponse,
    KeepAliveInfo,
    MessageAck,
    MessageDispatch,
    ProducerMessage,
    RemoveInfo,
    Response,
    ShutdownInfo,
    WireFormatInfo,
)
from reference_broker.session import Client

CONSUMER_LOGGER = "org.apache.activemq.ActiveMQMessageConsumer"
ACK_MODES = ("auto", "client", "individual")
QUEUE_PREFETCH = 1000


class _Consumer:
    """One JMS consumer: what has arrived, and what its application has taken and not settled."""

    __slots__ = ("ack_mode", "buffer", "delivered_pending", "name", "prefetch", "taken")

    def __init__(self, name: str, prefetch: int, ack_mode: str) -> None:
        self.name = name
        self.prefetch = prefetch
        self.ack_mode = ack_mode
        self.buffer: deque[MessageDispatch] = deque()
        #: Message ids, oldest first.
        self.taken: dict[str, None] = {}
        #: Taken, and not yet covered by a DELIVERED acknowledgement.
        self.delivered_pending: list[str] = []


class ClientSession(Client):
    """See the module's header. ``consumer_expiry_check`` is ActiveMQ's option of the same name (AMQ-5406)."""

    __slots__ = (
        "_commands",
        "_consumers",
        "_expiry_check",
        "_initial_delay_ms",
        "_max_inactivity_ms",
        "_messages",
        "_started",
        "client_id",
    )

    def __init__(
        self,
        client_id: str,
        monitor: Monitor,
        *,
        max_inactivity_ms: int = 30_000,
        initial_delay_ms: int = 10_000,
        consumer_expiry_check: bool = True,
    ) -> None:
        """``client_id`` must be unique in the broker: the message ids are built from it."""
        if initial_delay_ms < 0:
            raise ValueError(
                f"initial delay {initial_delay_ms} ms is negative; ActiveMQ kills such a connection, use 0"
            )
        super().__init__(KeepAliveInfo(), monitor)
        self.client_id = client_id
        self._max_inactivity_ms = max_inactivity_ms
        self._initial_delay_ms = initial_delay_ms
        self._expiry_check = consumer_expiry_check
        self._consumers: dict[str, _Consumer] = {}
        self._commands = 0
        self._messages = 0
        self._started = False

    # -- requests

    def connect(self) -> str:
        """Say hello; returns the receipt's name."""
        self.outbox.append(WireFormatInfo(self._max_inactivity_ms, self._initial_delay_ms))
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
            f"{self.client_id}-{self._messages}",
            destination,
            body,
            timestamp_ms=0 if disable_timestamp else now.wall_ms,
            expiration_ms=now.wall_ms + ttl_ms if ttl_ms > 0 else 0,
            delay_ms=delay_ms,
            deliver_at_ms=deliver_at_ms,
            persistent=persistent,
            priority=priority,
            properties=properties,
        )
        self.outbox.append(ProducerMessage(message, self._number(), receipt))
        return message

    def subscribe(
        self,
        consumer: str,
        destination: str,
        *,
        prefetch: int = QUEUE_PREFETCH,
        dispatch_async: bool = True,
        ack: str = "auto",
        receipt: bool = False,
    ) -> str:
        """Create a consumer. ``ack``: auto, client or individual."""
        if ack not in ACK_MODES:
            raise ValueError(f"ack mode {ack!r} is unknown; one of {', '.join(ACK_MODES)}")
        if consumer in self._consumers:
            raise ValueError(f"consumer {consumer!r} exists already; close it first or use another name")
        self._consumers[consumer] = _Consumer(consumer, prefetch, ack)
        number = self._number()
        self.outbox.append(
            ConsumerInfo(
                consumer,
                destination,
                prefetch,
                dispatch_async=dispatch_async,
                command_id=number,
                response_required=receipt,
            )
        )
        return str(number)

    def close_consumer(self, consumer: str, *, receipt: bool = False) -> str:
        """Close a consumer: what waits in its buffer was never delivered, what was taken and not settled was."""
        taken = self._consumers.pop(consumer).taken
        number = self._number()
        self.outbox.append(
            RemoveInfo(consumer, last_delivered=len(taken), command_id=number, response_required=receipt)
        )
        return str(number)

    def disconnect(self) -> None:
        """Close all consumers, then say goodbye."""
        for consumer in list(self._consumers):
            self.close_consumer(consumer)
        self.outbox.append(ShutdownInfo(self._number()))

    def take(self, consumer: str, now: Now) -> tuple[Delivered | None, list[Notice]]:
        """The application receives: the next message that has not expired, and what happened on the way."""
        holder = self._consumers[consumer]
        notices: list[Notice] = []
        while holder.buffer:
            dispatch = holder.buffer.popleft()
            if self._expired(dispatch, now):
                text = f"{consumer} received expired message: {dispatch!r}"
                notices.append(LogLine("DEBUG", CONSUMER_LOGGER, text))
                notices.append(self._discard(dispatch))
                continue
            self._after_take(holder, dispatch.message_id)
            return _delivered(dispatch), notices
        return None, notices

    def waiting(self, consumer: str) -> int:
        """Messages in the consumer's prefetch buffer."""
        return len(self._consumers[consumer].buffer)

    def acknowledge(self, consumer: str, *, receipt: bool = False) -> list[str]:
        """``client`` mode: settle all that was taken. Returns the message ids, oldest first."""
        holder = self._consumers[consumer]
        covered = list(holder.taken)
        if covered:
            holder.taken.clear()
            holder.delivered_pending.clear()
            self._ack(consumer, STANDARD, covered[0], covered[-1], len(covered), receipt=receipt)
        return covered

    def acknowledge_one(self, consumer: str, message_id: str, *, receipt: bool = False) -> None:
        """``individual`` mode: settle one message that was taken."""
        del self._consumers[consumer].taken[message_id]
        self._ack(consumer, INDIVIDUAL, message_id, message_id, 1, receipt=receipt)

    def poison(self, consumer: str, message_id: str, *, receipt: bool = False) -> None:
        """Give a taken message up: the broker moves it to the dead-letter queue."""
        holder = self._consumers[consumer]
        del holder.taken[message_id]
        if message_id in holder.delivered_pending:
            holder.delivered_pending.remove(message_id)
        self._ack(consumer, POISON, message_id, message_id, 1, receipt=receipt)

    @property
    def last_command(self) -> str:
        """The name under which the latest request is answered."""
        return str(self._commands)

    # -- answers

    def receive(self, command: object, now: Now) -> list[Notice]:
        """One command from the broker.

        An arrival gives ``Delivered``, and ``Discarded`` after it if it had expired here.
        """
        if self.closed:
            return []
        if not isinstance(command, Command):
            raise TypeError(f"an OpenWire session takes commands, not {command!r}")
        self.monitor.frame_received(now.mono_ns)
        if isinstance(command, MessageDispatch):
            return self._arrived(command, now)
        if isinstance(command, ExceptionResponse):
            return [Failed(command.text, str(command.correlation_id), command.code)]
        if isinstance(command, Response):
            return [Receipt(str(command.correlation_id))]
        if isinstance(command, ConnectionFault):
            return [Failed(command.text, "", command.code)]
        if isinstance(command, KeepAliveInfo):
            if command.response_required:
                self.outbox.append(KeepAliveInfo(command.command_id))
            return []
        if isinstance(command, WireFormatInfo) and not self._started:
            self._started = True
            periods = negotiate(
                self._max_inactivity_ms,
                self._initial_delay_ms,
                command.max_inactivity_duration_ms,
                command.max_inactivity_duration_initial_delay_ms,
            )
            self.monitor.start(now.mono_ns, periods.read_ms, periods.write_ms, periods.initial_delay_ms)
            return [Connected("openwire")]
        return []

    def _arrived(self, dispatch: MessageDispatch, now: Now) -> list[Notice]:
        holder = self._consumers.get(dispatch.consumer_id)
        if holder is None:
            return []  # it was on its way when the consumer closed; the broker has taken it back already
        arrival = _delivered(dispatch)
        if self._expired(dispatch, now):
            return [arrival, self._discard(dispatch)]
        holder.buffer.append(dispatch)
        return [arrival]

    # -- inside

    def _expired(self, dispatch: MessageDispatch, now: Now) -> bool:
        return self._expiry_check and 0 < dispatch.expiration_ms < now.wall_ms

    def _discard(self, dispatch: MessageDispatch) -> Discarded:
        message_id = dispatch.message_id
        self._ack(dispatch.consumer_id, EXPIRED, message_id, message_id, 1, receipt=False)
        return Discarded(dispatch.consumer_id, message_id, "expired")

    def _after_take(self, holder: _Consumer, message_id: str) -> None:
        if holder.ack_mode == "auto":
            self._ack(holder.name, STANDARD, message_id, message_id, 1, receipt=False)
            return
        holder.taken[message_id] = None
        if holder.ack_mode != "client":
            return
        pending = holder.delivered_pending
        pending.append(message_id)
        if 2 * len(pending) >= holder.prefetch:
            self._ack(holder.name, DELIVERED, pending[0], pending[-1], len(pending), receipt=False)
            pending.clear()

    def _ack(self, consumer: str, kind: int, first: str, last: str, count: int, *, receipt: bool) -> None:
        self.outbox.append(
            MessageAck(
                consumer,
                kind,
                last,
                first_message_id=first,
                message_count=count,
                command_id=self._number(),
                response_required=receipt,
            )
        )

    def _number(self) -> int:
        self._commands += 1
        return self._commands


def _delivered(dispatch: MessageDispatch) -> Delivered:
    return Delivered(
        dispatch.consumer_id,
        dispatch.message_id,
        dispatch.destination,
        dispatch.body,
        expiration_ms=dispatch.expiration_ms,
        timestamp_ms=dispatch.timestamp_ms,
        priority=dispatch.priority,
        persistent=dispatch.persistent,
        redelivered=dispatch.redelivery_count > 0,
        delivery_count=dispatch.redelivery_count + 1,
        original_destination=dispatch.original_destination,
        properties=dispatch.properties,
        ack_id=dispatch.message_id,
    )
