"""A JMS client over OpenWire, at the level of commands: what ActiveMQ's Java client does with time and prefetch.

* Nothing but the WireFormatInfo is written before the broker's has come: only then is it known how to write.
* Expiry is decided by *this host's* wall clock: expired is ``wall_ms > expiration_ms``, never for an expiration of 0 or
  less. It is checked when a message arrives (it never enters the prefetch buffer) and again when the application takes
  it. The second check alone writes ActiveMQ's DEBUG line.
* A discarded message is acknowledged at once with type EXPIRED, first = last = that message, never asking for an
  answer. So a client whose clock is fast destroys messages that others could still use (AMQ-6361).
* ``auto``: a STANDARD acknowledgement as soon as ``take`` returns. ``client``: ``acknowledge`` covers all that was
  taken, as JMS says. ``individual``: one.
* In ``client`` and ``transacted`` mode a DELIVERED acknowledgement leaves when half of the prefetch was taken without
  being acknowledged, so that the broker's window moves on.
* ``rollback`` brings back to the front of the consumer's buffer what was taken in the transaction: the broker does not
  dispatch it again. A commit that the broker refuses is a rollback.
* After a rollback ``redelivery_policy.py`` decides what comes again, after which pause (``next_due_ns`` tells its end),
  and what is given up: acknowledged POISON, outside any transaction.
* A pull consumer (prefetch 0) gets one message per ``pull``; ``Empty`` says that there was none.

Known exceptions
* ActiveMQ's session.close sends one last-delivered id for all its consumers; here each consumer tells its own.
* A listener is a ``take`` for each arrival. A connection is one session: all its transacted consumers share the
  transaction that is committed.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.events import DELIVERED, EXPIRED, INDIVIDUAL, POISON, REDELIVERED, STANDARD
from brokerproof.reference_broker.core.instant import NS_PER_MS, Now
from brokerproof.reference_broker.inactivity import Monitor, negotiate
from brokerproof.reference_broker.openwire.commands import (
    BEGIN,
    COMMIT_ONE_PHASE,
    ROLLBACK,
    Command,
    ConnectionFault,
    ConsumerInfo,
    EmptyDispatch,
    ExceptionResponse,
    KeepAliveInfo,
    MessageAck,
    MessageDispatch,
    MessagePull,
    RemoveInfo,
    Response,
    ShutdownInfo,
    TransactionInfo,
    WireFormatInfo,
)
from brokerproof.reference_broker.openwire.consumer import (
    ACK_MODES,
    AUTO,
    CLIENT,
    CONSUMER_LOGGER,
    TRANSACTED,
    JmsConsumer,
    PrefetchPolicy,
    TakenMessages,
    as_delivered,
)
from brokerproof.reference_broker.openwire.redelivery_policy import RedeliveryPolicy
from brokerproof.reference_broker.openwire.requests import Requests
from brokerproof.reference_broker.session.destination_options import apply_options, split_options
from brokerproof.reference_broker.session.notice import (
    Connected,
    Delivered,
    Discarded,
    Empty,
    Failed,
    LogLine,
    Notice,
    Receipt,
)


@mypyc_attr(allow_interpreted_subclasses=True)
class ClientSession(Requests):
    """See the module's header. ``consumer_expiry_check`` is ActiveMQ's option of the same name (AMQ-5406)."""

    __slots__ = ("_consumers", "_dispatch_async", "_expiry_check", "_held", "_pausing", "_prefetch_policy",
                 "_redelivery_policy", "_resting", "_started", "_transactions", "_use_monitor")  # fmt: skip

    def __init__(
        self,
        client_id: str,
        monitor: Monitor,
        *,
        max_inactivity_ms: int = 30_000,
        initial_delay_ms: int = 10_000,
        consumer_expiry_check: bool = True,
        connection_id: str = "",
        redelivery_policy: RedeliveryPolicy | None = None,
        prefetch_policy: PrefetchPolicy | None = None,
        dispatch_async: bool = True,
        disable_timestamps: bool = False,
        use_monitor: bool = True,
        user_name: str = "",
        password: str = "",
    ) -> None:
        """``client_id`` must be unique in the broker. The message ids are built from ``connection_id``, which must be
        another one for each connection; "" is the client id. ``use_monitor`` False: this end watches nothing, whatever
        it offers. The rest are the defaults of what is asked for later.
        """
        super().__init__(client_id, monitor, max_inactivity_ms, initial_delay_ms, connection_id)
        self.user_name, self.password = user_name, password
        self.disable_timestamps = disable_timestamps
        self._dispatch_async = dispatch_async
        self._use_monitor = use_monitor
        self._prefetch_policy = prefetch_policy if prefetch_policy is not None else PrefetchPolicy()
        self._expiry_check = consumer_expiry_check
        self._consumers: dict[str, JmsConsumer] = {}
        #: Open transactions: what was acknowledged in them.
        self._transactions: dict[str, list[TakenMessages]] = {}
        #: Command number -> what comes back if the broker refuses that commit.
        self._held: dict[int, list[TakenMessages]] = {}
        self._redelivery_policy = redelivery_policy if redelivery_policy is not None else RedeliveryPolicy()
        #: Consumers whose pause begins with the next command that is written, and those that are in it.
        self._pausing: list[JmsConsumer] = []
        self._resting: list[JmsConsumer] = []
        self._started = False

    # -- consumers

    def subscribe(
        self,
        consumer: str,
        destination: str,
        prefetch: int | None = None,
        *,
        dispatch_async: bool | None = None,
        ack: str = AUTO,
        selector: str = "",
        durable: str = "",
        no_local: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        browser: bool = False,
        retroactive: bool = False,
        pending_limit: int = 0,
        receipt: bool = False,
    ) -> str:
        """Create a consumer. ``ack``: auto, client, individual or transacted.

        ``prefetch`` None is ActiveMQ's default for the kind of consumer, which the broker may replace by its policy's;
        0 makes a pull consumer. ``durable`` is a subscription's name. The end of a browse is the notice ``Empty``.
        Options in the destination's name go before all these; ``BadOption`` for an unknown one.
        """
        if ack not in ACK_MODES:
            raise ValueError(f"ack mode {ack!r} is unknown; one of {', '.join(ACK_MODES)}")
        if consumer in self._consumers:
            raise ValueError(f"consumer {consumer!r} exists already; close it first or use another name")
        plain, options = split_options(destination)
        if prefetch is None:
            prefetch = self._prefetch_policy.prefetch(plain, durable=bool(durable), browser=browser)
        info = ConsumerInfo(
            consumer,
            plain,
            prefetch,
            dispatch_async=self._dispatch_async if dispatch_async is None else dispatch_async,
            selector=selector,
            subscription_name=durable,
            no_local=no_local,
            exclusive=exclusive,
            priority=priority,
            browser=browser,
            retroactive=retroactive,
            pending_limit=pending_limit,
            command_id=self._number(),
            response_required=receipt,
        )
        apply_options(info, options)
        self._consumers[consumer] = JmsConsumer(
            consumer, plain, info.prefetch, ack, self._redelivery_policy, browser=browser
        )
        self.outbox.append(info)
        return str(info.command_id)

    def close_consumer(self, consumer: str, *, receipt: bool = False) -> str:
        """Close a consumer: what waits in its buffer was never delivered, what was taken and not settled was."""
        holder = self._consumers.pop(consumer)
        held = [one.messages for kept in self._transactions.values() for one in kept if one.consumer is holder]
        number = self._number()
        self.outbox.append(
            RemoveInfo(
                consumer,
                last_sequence=holder.last_delivered(held),
                command_id=number,
                response_required=receipt,
            )
        )
        return str(number)

    def disconnect(self) -> None:
        """Close all consumers, then say goodbye."""
        for consumer in list(self._consumers):
            self.close_consumer(consumer)
        self.outbox.append(ShutdownInfo(self._number()))

    # -- transactions

    def begin(self, transaction: str, *, receipt: bool = False) -> str:
        """Begin a transaction under a name of ours."""
        self._transactions.setdefault(transaction, [])
        return self._end(transaction, BEGIN, receipt=receipt)

    def commit(self, transaction: str, *, receipt: bool = True) -> str:
        """What was sent and acknowledged in the transaction takes effect; if the broker refuses, it is a rollback."""
        self._acknowledge_transacted(transaction)
        held = self._transactions.pop(transaction, [])
        name = self._end(transaction, COMMIT_ONE_PHASE, receipt=receipt)
        for one in held:
            one.consumer.redeliveries.committed()
        if receipt:
            self._held[self._commands] = held
        return name

    def rollback(self, transaction: str, *, receipt: bool = True) -> str:
        """What was sent and acknowledged in the transaction does not take effect: the application gets it again."""
        self._acknowledge_transacted(transaction)
        held = self._transactions.pop(transaction, [])
        name = self._end(transaction, ROLLBACK, receipt=receipt)
        self._redeliver(held)
        return name

    def _end(self, transaction: str, kind: int, *, receipt: bool) -> str:
        number = self._number()
        self.outbox.append(TransactionInfo(transaction, kind, command_id=number, response_required=receipt))
        return str(number)

    def _acknowledge_transacted(self, transaction: str) -> None:
        for holder in self._consumers.values():
            if holder.ack_mode == TRANSACTED:
                self.acknowledge(holder.name, transaction=transaction)

    def _commit_refused(self, command: ExceptionResponse) -> None:
        self._redeliver(self._held.pop(command.correlation_id, []))

    def _redeliver(self, held: list[TakenMessages]) -> None:
        together: dict[str, list[MessageDispatch]] = {}
        mixed: dict[str, bool] = {}
        for one in held:
            name = one.consumer.name
            if self._consumers.get(name) is one.consumer:
                together.setdefault(name, []).extend(one.messages)
                mixed[name] = one.mixed or mixed.get(name, False)
        for name, messages in together.items():
            holder = self._consumers[name]
            given_up, again = holder.roll_back(messages)
            for message, cause in given_up:
                self._ack(name, POISON, message, message, 1, cause=cause)
            for first, last, count in holder.ranges(again, mixed=mixed[name]):
                self._ack(name, REDELIVERED, first, last, count)
            if again:
                self._pausing.append(holder)

    # -- time

    def next_output(self, now_ns: int) -> object | None:
        for holder in self._pausing:
            holder.resume_ns = now_ns + holder.pause_ms * NS_PER_MS
            holder.pause_ms = 0
            self._resting.append(holder)
        self._pausing.clear()
        if not self._started and self.outbox and not isinstance(self.outbox[0], WireFormatInfo):
            return None  # what both ends speak is not agreed on yet
        return super().next_output(now_ns)

    def next_due_ns(self) -> int | None:
        due_ns = super().next_due_ns()
        for holder in self._resting:
            if due_ns is None or holder.resume_ns < due_ns:
                due_ns = holder.resume_ns
        return due_ns

    def tick(self, now_ns: int) -> list[Notice]:
        self._resting = [holder for holder in self._resting if holder.paused(now_ns)]
        return super().tick(now_ns)

    # -- receiving

    def pull(self, consumer: str, timeout_ms: int, now: Now | None = None) -> None:
        """A consumer with prefetch 0 asks for one message. ``timeout_ms`` -1: what is there now (``receiveNoWait``);
        0: wait for ever. With ``now`` a pull whose message expires here is repeated with what is left of its time;
        without, with -1.
        """
        if timeout_ms < -1:
            raise ValueError(f"pull timeout {timeout_ms} ms is negative; use -1 (do not wait), 0 (for ever) or more")
        holder = self._consumers[consumer]
        holder.pulled(timeout_ms, now.mono_ns if now is not None else -(2**63))
        self._pull(holder, timeout_ms)

    def _pull(self, holder: JmsConsumer, timeout_ms: int) -> None:
        number = self._number()
        self.outbox.append(MessagePull(holder.name, timeout_ms, destination=holder.destination, command_id=number))

    def take(self, consumer: str, now: Now) -> tuple[Delivered | None, list[Notice]]:
        """The application receives: the next message that has not expired, and what happened on the way."""
        holder = self._consumers[consumer]
        notices: list[Notice] = []
        while holder.buffer and not holder.paused(now.mono_ns):
            dispatch = holder.next()
            if self._expired(dispatch, now):
                text = f"{consumer} received expired message: {dispatch!r}"
                notices.append(LogLine("DEBUG", CONSUMER_LOGGER, text))
                notices.append(self._discard(holder, dispatch, now))
                continue
            return as_delivered(dispatch, self._after_take(holder, dispatch)), notices
        return None, notices

    def waiting(self, consumer: str) -> int:
        """Messages in the consumer's prefetch buffer."""
        return len(self._consumers[consumer].buffer)

    def acknowledge(self, consumer: str, *, transaction: str = "", receipt: bool = False) -> list[str]:
        """``client`` mode: settle all that was taken. Returns the ack ids, oldest first."""
        holder = self._consumers[consumer]
        names = list(holder.taken)
        if not names:
            return names
        messages = list(holder.taken.values())
        self._hold(holder, transaction, messages)
        holder.taken.clear()
        holder.delivered_pending.clear()
        first, last = messages[0], messages[-1]
        if holder.shuffled:
            holder.acknowledged(messages)
            for one in messages[:-1]:
                self._ack(consumer, INDIVIDUAL, one, one, 1, transaction=transaction)
            self._ack(consumer, INDIVIDUAL, last, last, 1, transaction=transaction, receipt=receipt)
        else:
            self._ack(consumer, STANDARD, first, last, len(messages), transaction=transaction, receipt=receipt)
        return names

    def acknowledge_one(self, consumer: str, ack_id: str, *, transaction: str = "", receipt: bool = False) -> None:
        """``individual`` mode: settle one message that was taken."""
        holder = self._consumers[consumer]
        message = holder.taken.pop(ack_id)
        self._hold(holder, transaction, [message])
        self._ack(consumer, INDIVIDUAL, message, message, 1, transaction=transaction, receipt=receipt)

    def poison(self, consumer: str, ack_id: str, *, transaction: str = "", receipt: bool = False) -> None:
        """Give a taken message up: the broker moves it to the dead-letter queue.

        In a transaction the broker refuses it, so the message stays taken.
        """
        holder = self._consumers[consumer]
        message = holder.taken[ack_id]
        if not transaction:
            del holder.taken[ack_id]
            if message in holder.delivered_pending:
                holder.delivered_pending.remove(message)
        self._ack(consumer, POISON, message, message, 1, transaction=transaction, receipt=receipt)

    def acknowledge_as(
        self, consumer: str, kind: int, first: str, last: str, covered: list[str], *, count: int, receipt: bool = False
    ) -> None:
        """For tests of brokers: any acknowledgement of ``count`` messages, by message ids; ``covered`` (ack ids) are
        settled for us.
        """
        holder = self._consumers[consumer]
        for ack_id in covered:
            del holder.taken[ack_id]
        told = MessageAck(
            consumer, kind, last, first_message_id=first, message_count=count, destination=holder.destination
        )
        told.command_id, told.response_required = self._number(), receipt
        self.outbox.append(told)

    def _hold(self, holder: JmsConsumer, transaction: str, messages: list[MessageDispatch]) -> None:
        if transaction:
            self._transactions.setdefault(transaction, []).append(TakenMessages(holder, messages))

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
        if isinstance(command, EmptyDispatch):
            return [Empty(command.consumer_id)] if command.consumer_id in self._consumers else []
        if isinstance(command, ExceptionResponse):
            self._commit_refused(command)
            return [Failed(command.text, str(command.correlation_id), command.code)]
        if isinstance(command, Response):
            if self._held:
                self._held.pop(command.correlation_id, None)
            return [Receipt(str(command.correlation_id))]
        if isinstance(command, ConnectionFault):
            return [Failed(command.text, "", command.code)]
        if isinstance(command, KeepAliveInfo):
            if command.response_required:
                self.outbox.append(KeepAliveInfo(command.command_id))
            return []
        if isinstance(command, WireFormatInfo) and not self._started:
            self._started = True
            if not self._use_monitor:
                self.monitor.stop()
                return [Connected("openwire")]
            periods = negotiate(
                self.max_inactivity_ms,
                self.initial_delay_ms,
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
        arrival = as_delivered(dispatch, dispatch.message_id)
        if self._expired(dispatch, now):
            return [arrival, self._discard(holder, dispatch, now)]
        if holder.ack_mode == TRANSACTED:
            refused = holder.redeliveries.refused(dispatch.message_id, dispatch.redelivery_count)
            if refused is not None:
                self._ack(holder.name, POISON, dispatch, dispatch, 1, cause=refused.cause)
                return [arrival, Discarded(holder.name, dispatch.message_id, "redelivered too often")]
        holder.arrived(dispatch)
        return [arrival]

    # -- inside

    def _expired(self, dispatch: MessageDispatch, now: Now) -> bool:
        return self._expiry_check and 0 < dispatch.expiration_ms < now.wall_ms

    def _discard(self, holder: JmsConsumer, dispatch: MessageDispatch, now: Now) -> Discarded:
        self._ack(holder.name, EXPIRED, dispatch, dispatch, 1)
        if holder.prefetch == 0:
            self._pull(holder, holder.remaining_pull_ms(now.mono_ns))
        return Discarded(holder.name, dispatch.message_id, "expired")

    def _after_take(self, holder: JmsConsumer, dispatch: MessageDispatch) -> str:
        """The application has it; returns its ack id."""
        if holder.ack_mode == AUTO:
            self._ack(holder.name, STANDARD, dispatch, dispatch, 1)
            return dispatch.message_id
        ack_id = holder.ack_id(dispatch)
        holder.taken[ack_id] = dispatch
        # Without a prefetch there is no window that could be moved on.
        if holder.ack_mode not in {CLIENT, TRANSACTED} or holder.prefetch == 0:
            return ack_id
        if holder.shuffled:
            self._ack(holder.name, DELIVERED, dispatch, dispatch, 1)
            return ack_id
        pending = holder.delivered_pending
        pending.append(dispatch)
        if 2 * len(pending) >= holder.prefetch:
            self._ack(holder.name, DELIVERED, pending[0], pending[-1], len(pending))
            pending.clear()
        return ack_id

    def _ack(
        self,
        consumer: str,
        kind: int,
        first: MessageDispatch,
        last: MessageDispatch,
        count: int,
        *,
        transaction: str = "",
        cause: str = "",
        receipt: bool = False,
    ) -> None:
        self.outbox.append(
            MessageAck(
                consumer,
                kind,
                last.message_id,
                first_message_id=first.message_id,
                message_count=count,
                destination=last.destination,
                transaction=transaction,
                poison_cause=cause,
                command_id=self._number(),
                response_required=receipt,
            )
        )
