"""The broker: one event in, its effects out.

``Broker.handle(event, now)`` is pure in the sense that matters here: no clock, no socket, no thread, no randomness; the
same events at the same instants give the same effects. This module decides who may ask for what, and what a refusal is
called; everything else is in the module named after the behaviour:

    a message arrives    arrival, timestamping, time_to_live, expiry, delay, matching, queue / topic, pending_list
    it goes to somebody  subscribing, dispatching, round_robin, prefetch, pull, browser, destination, in_flight
    not to just anybody  selective_dispatch, selection, selector, exclusive, groups, priority
    it comes to an end   acknowledgement, settlement, transaction, in_flight, deadletter, redelivery
    an operator asks     management
    what they share      region (order of work inside one event), policies (what can be swapped), invariants

* A request with a number is answered exactly once, by ``Accepted`` or ``Refused``, before the dispatches that it
  causes. A refused request has changed nothing.
* Refusal codes are stable words: ``unknown-connection``, ``bad-destination``, ``duplicate-consumer``,
  ``unknown-consumer``, ``bad-prefetch``, ``duplicate-id``, ``delay-negative``, ``delay-too-long``,
  ``delay-unsupported``, ``bad-ttl``, ``unknown-ack-kind``, ``no-space``, ``unknown-message``, ``unknown-transaction``,
  ``duplicate-transaction``, ``poison-in-transaction``, ``no-client-id``, ``durable-in-use``, ``unknown-subscription``,
  ``storage-full``, ``storage-failed``, ``bad-selector``, ``bad-pull``, ``unknown-destination``,
  ``foreign-destination``, ``destination-in-use``, ``retroactive-durable``, ``bad-pending-limit``, ``client-id-in-use``.
* Consumers are known by name in the whole broker; a consumer of another connection is unknown.
* Timers fire only in ``Tick``: due messages first, by (due time, arrival), then sweeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core import invariants, metrics
from brokerproof.reference_broker.core.arrival import Arrivals
from brokerproof.reference_broker.core.effects import Accepted, Effect, Logged, Refused
from brokerproof.reference_broker.core.events import (
    Ack,
    AddDestination,
    AddProducer,
    Begin,
    Commit,
    Connect,
    Disconnect,
    Event,
    Pull,
    RemoveDestination,
    RemoveProducer,
    RemoveSubscription,
    Resize,
    Rollback,
    Send,
    StorageChanged,
    Subscribe,
    Tick,
    Transmitted,
    Unsubscribe,
)
from brokerproof.reference_broker.core.flow import FlowControl, give_credit, is_needed, refuse
from brokerproof.reference_broker.core.instant import earlier
from brokerproof.reference_broker.core.management import Management
from brokerproof.reference_broker.core.policies import Policies
from brokerproof.reference_broker.core.recovery import Recovered, rebuild
from brokerproof.reference_broker.core.redelivery import UNKNOWN
from brokerproof.reference_broker.core.region import Region
from brokerproof.reference_broker.core.settlement import Settlements
from brokerproof.reference_broker.core.subscribing import SubscribeRefused, grant_prefetch, receive
from brokerproof.reference_broker.core.transaction import Transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from brokerproof.reference_broker.core.config import BrokerConfig
    from brokerproof.reference_broker.core.connection_registry import Connection
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.records import Record
    from brokerproof.reference_broker.core.subscription import Consumer

#: What only a connection that is there may ask for.
ASKED: Final = (AddDestination, Begin, RemoveSubscription, Send, Subscribe)


@mypyc_attr(allow_interpreted_subclasses=True)
class Broker:
    """The pure core."""

    __slots__ = ("_arrivals", "_connections", "_consumers", "_flow", "_handlers", "_management", "_region",
                 "_settlements", "_transactions")  # fmt: skip

    def __init__(self, config: BrokerConfig, policies: Policies | None = None) -> None:
        self._region = Region(config, policies if policies is not None else Policies.from_config(config))
        self._arrivals = Arrivals(self._region)
        self._settlements = Settlements(self._region)
        self._transactions = Transactions(self._region, self._arrivals, self._settlements)
        self._management = Management(self._region)
        #: Sends that wait for memory (G0 to G3) or for the disk; None: there is nothing to wait for.
        self._flow = self._region.flow = FlowControl(self._region) if is_needed(self._region) else None
        self._connections = self._region.connection_registry.connections
        self._consumers: dict[str, Consumer] = {}
        handlers: dict[type[Event], object] = {
            Ack: self._ack,
            AddDestination: self._change_destination,
            AddProducer: self._change_destination,
            Begin: self._begin,
            Commit: self._commit,
            Connect: self._connect,
            Disconnect: self._disconnect,
            Pull: self._pull,
            RemoveDestination: self._change_destination,
            RemoveProducer: self._change_destination,
            RemoveSubscription: self._remove_subscription,
            Resize: self._resize,
            Rollback: self._rollback,
            Send: self._send,
            StorageChanged: self._storage_changed,
            Subscribe: self._subscribe,
            Tick: self._tick,
            Transmitted: self._transmitted,
            Unsubscribe: self._unsubscribe,
            **self._management.handlers(),
        }
        # Each handler takes its own event; the table pairs them, which the type checker cannot see.
        self._handlers = cast("dict[type[Event], Callable[[Event], None]]", handlers)

    def handle(self, event: Event, now: Now) -> list[Effect]:
        """Everything that the event causes, in order. Raises ``TypeError`` for an event that no broker knows."""
        handler = self._handlers.get(type(event))
        if handler is None:
            raise TypeError(
                f"{type(event).__name__} is not an event; one of {', '.join(kind.__name__ for kind in self._handlers)}"
            )
        self._region.now = now
        if isinstance(event, ASKED) and event.connection not in self._connections:
            text = f"connection {event.connection} is not connected; connect first"
            self._refuse(event.connection, event.request, "unknown-connection", text)
        else:
            handler(event)
        return self._region.finish() if self._flow is None else self._finish(self._flow)

    def next_due_ns(self) -> int | None:
        """The monotonic time at which a ``Tick`` is wanted; None: nothing waits for time to pass."""
        region, flow = self._region, self._flow
        timer_ns = region.delays.next_due_ns()
        if region.sweeps.heap:
            timer_ns = earlier(timer_ns, region.sweeps.next_due_ns())
        if region.pulls.waiting:
            timer_ns = earlier(timer_ns, region.pulls.next_due_ns())
        return timer_ns if flow is None else earlier(timer_ns, flow.next_due_ns())

    def restore(self, records: Iterable[Record], now: Now) -> list[Effect]:
        """Build a new broker again from its journal. The effects tell what the journal must learn."""
        self._region.now = now
        rebuild(self._region, Recovered(records))
        return self._region.finish()

    # -- what an operator reads

    def destinations(self) -> list[str]:
        """The names of all destinations, in order of creation."""
        return list(self._region.destinations)

    def has(self, destination: str) -> bool:
        """Whether there is a destination of that name."""
        return destination in self._region.destinations

    def counters(self, destination: str, now: Now) -> dict[str, int] | None:  # noqa: ARG002 - for counters of ages, later
        """One destination's counters; None if there is no such destination."""
        found = self._region.destinations.get(destination)
        if found is None:
            return None
        return metrics.of_destination(found, 0 if self._flow is None else self._flow.count(destination))

    def broker_counters(self) -> dict[str, int]:
        """The broker's memory and the totals over all destinations."""
        return metrics.of_broker(self._region, len(self._connections), len(self._consumers), self._transactions.count())

    def browse(self, destination: str, limit: int = 0) -> list[Message] | None:
        """What is on a queue, in its order, at most ``limit`` (0: all); None: it does not exist. Nothing is taken."""
        return metrics.on_queue(self._region, destination, limit)

    def region(self) -> Region:
        """The whole state, for who reads more of it (``management/``) and changes nothing."""
        return self._region

    def consumers(self, connection: int) -> list[Consumer]:
        """The consumers of a connection, oldest first."""
        found = self._connections.get(connection)
        return [] if found is None else list(found.consumers.values())

    def get_own(self, connection: int, transaction: str, destination: str) -> Message | None:
        """Take back what an open transaction has sent itself (``Transactions.get_own``)."""
        return self._transactions.get_own(connection, transaction, destination)

    def durable_subscriptions(self) -> dict[str, dict[str, int]]:
        """The metrics of all durable subscriptions, by ``client id:name``, oldest first."""
        return {key: metrics.of_durable(durable) for key, durable in self._region.durables.known.items()}

    def check(self, recovered: Recovered | None = None) -> None:
        """Raise ``invariants.Inconsistent`` unless everything that must always hold, holds, and the broker is what the
        journal says (if given). For tests: it walks the whole broker.
        """
        invariants.check(self._region, self._consumers, self._transactions)
        if recovered is not None:
            invariants.check_journal(self._region, recovered)
        if self._flow is not None:
            invariants.check_flow(self._flow)
        invariants.check_transactions(self._region, self._consumers, self._transactions)

    # -- connections

    def _connect(self, event: Connect) -> None:
        if event.connection in self._connections:
            self._log(f"connection {event.connection} is connected already; Connect ignored")
            return
        code, text = self._region.connection_registry.objection(event)
        if code:
            self._refuse(event.connection, event.request, code, text)
            return
        predecessor = self._region.connection_registry.predecessor(event)
        if predecessor:
            self._disconnect(Disconnect(predecessor))
            self._region.connection_registry.displaced(predecessor, event.connection)
        self._region.connection_registry.connected(event)
        self._accept(event.connection, event.request)

    def _disconnect(self, event: Disconnect) -> None:
        connection = self._connections.pop(event.connection, None)
        if connection is None:
            return  # closed twice: the socket and the monitor may both say so
        self._transactions.forget(event.connection)
        # All its consumers go before anything is dispatched again, so that none inherits a message from its sibling.
        for consumer in connection.consumers.values():
            del self._consumers[consumer.name]
            self._region.attachments.leave(consumer, UNKNOWN, event.last_sequence)
        self._region.temporaries.left(event.connection)
        self._region.connection_registry.disconnected(event.connection, connection)

    def _subscribe(self, event: Subscribe) -> None:
        if event.consumer in self._consumers:
            text = f"consumer {event.consumer!r} exists already; choose another name"
            self._refuse(event.connection, event.request, "duplicate-consumer", text)
        else:
            self._take_in(self._connections[event.connection], event)

    def _take_in(self, connection: Connection, event: Subscribe) -> None:
        region = self._region
        try:
            consumer = receive(region, event)
        except SubscribeRefused as objection:
            self._refuse(event.connection, event.request, objection.code, objection.text)
            return
        if event.durable:
            code, text = region.durables.objection(connection.client_id, event)
        else:
            code, text = region.temporaries.objection(event.connection, event.destination)
        code, text = (code, text) if code else region.reserved(connection.principal, event)
        if code:
            self._refuse(event.connection, event.request, code, text)
            return
        self._consumers[event.consumer] = consumer
        connection.consumers[event.consumer] = consumer
        self._accept(event.connection, event.request)
        grant_prefetch(region, event, consumer)
        if event.durable:
            region.durables.take_up(consumer, connection.client_id, event)
        else:
            region.attachments.attach(consumer, event.destination)

    def _unsubscribe(self, event: Unsubscribe) -> None:
        consumer = self._owned(event.connection, event.consumer, event.request)
        if consumer is None:
            return
        del self._consumers[event.consumer]
        del self._connections[event.connection].consumers[event.consumer]
        self._accept(event.connection, event.request)
        self._region.attachments.leave(consumer, event.last_delivered, event.last_sequence)

    def _pull(self, event: Pull) -> None:
        consumer = self._owned(event.connection, event.consumer, event.request)
        if consumer is None:
            return
        if consumer.prefetch:
            text = f"consumer {event.consumer!r} has prefetch {consumer.prefetch}; subscribe with prefetch 0 to pull"
            self._refuse(event.connection, event.request, "bad-pull", text)
            return
        self._accept(event.connection, event.request)
        self._region.pulls.ask(consumer, event.timeout_ms)

    def _resize(self, event: Resize) -> None:
        consumer = self._owned(event.connection, event.consumer, event.request)
        if consumer is not None:
            self._accept(event.connection, event.request)
            self._region.attachments.resize(consumer, event.prefetch)

    def _remove_subscription(self, event: RemoveSubscription) -> None:
        client_id = self._connections[event.connection].client_id
        self._answer(event, self._region.durables.remove(client_id, event.name))

    def _change_destination(self, event: AddDestination) -> None:
        self._answer(event, self._region.temporaries.change(event))

    # -- messages

    def _send(self, event: Send) -> None:
        message = event.message
        message.sender = event.connection
        if self._suppresses(event):
            return
        code, text = self._objection_to_send(event)
        if code:
            refuse(self._region, event, code, text)
            return
        if self._flow is None or not self._flow.withholds(event, self._arrivals):
            self._arrivals.take_over(message, network=event.network)
            self._carry_out(event)

    def _suppresses(self, event: Send) -> bool:
        """Whether a send repeats one that was taken; then it is accepted, and that is all."""
        if not event.number and (not event.network or event.transaction):
            return False
        taken, message = self._region.duplicate_detection, event.message
        repeated = event.number > 0 and taken.is_repeated(event.producer, event.number)
        if not repeated and not (event.network and taken.has_crossed(message.destination, message.message_id)):
            return False
        self._log(f"suppressing duplicate message send {message.message_id}: it was taken before")
        self._take(event)
        return True

    def _carry_out(self, event: Send) -> None:
        """The rest of a send that the broker has taken over."""
        self._take(event)
        if event.number:
            self._region.duplicate_detection.taken(event.producer, event.number)
        if event.network and not event.transaction:
            self._region.duplicate_detection.crossed(event.message.destination, event.message.message_id)
        for one in self._arrivals.spread(event.message):
            if event.transaction:
                self._transactions.send(event.connection, event.transaction, one)
            else:
                self._arrivals.admit(one, self._arrivals.due_ns(one))

    def _take(self, event: Send) -> None:
        """The producer has done with it."""
        self._accept(event.connection, event.request)
        if event.credit_bytes:
            give_credit(self._region, event)

    def _finish(self, flow: FlowControl) -> list[Effect]:
        """Finish an event where sends may wait for memory: those that need not any longer go first."""
        if not flow.waiting:
            return self._region.finish()
        effects: list[Effect] = []
        event = flow.ready()
        while True:
            while event is not None:
                self._resume(event)
                event = flow.ready()
            effects += self._region.finish()
            event = flow.ready()
            if event is None:
                return effects

    def _resume(self, event: Send) -> None:
        """A send has waited for memory, and there is some: what spoke against nothing may be different now."""
        if self._suppresses(event):
            return
        code, text = self._objection_to_send(event)
        if code:
            refuse(self._region, event, code, text)
        else:
            self._carry_out(event)

    def _objection_to_send(self, event: Send) -> tuple[str, str]:
        message = event.message
        code, text = self._arrivals.objection(message)
        if not code and event.transaction:
            for one in self._arrivals.spread(message):
                code, text = self._transactions.refusal_of_send(event.connection, event.transaction, one)
                if code:
                    break
        return code, text

    def _ack(self, event: Ack) -> None:
        consumer = self._owned(event.connection, event.consumer, event.request)
        if consumer is None:
            return
        policies = self._region.policies
        rule = policies.acknowledgement.rule(event.kind)
        if rule is None:
            text = f"acknowledgement type {event.kind} is unknown; use 0 to 6"
            self._refuse(event.connection, event.request, "unknown-ack-kind", text)
            return
        deliveries = policies.acknowledgement.select(consumer, rule, event.first, event.last, event.destination)
        if deliveries is None:
            bounds = f"from {event.first!r} to {event.last!r}"
            text = f"{rule.name} acknowledgement {bounds} does not fit what consumer {event.consumer!r} holds"
            self._refuse(event.connection, event.request, "unknown-message", text, event.transaction)
            return
        if event.transaction:
            code, text = self._transactions.refusal_of_acknowledgement(event.connection, event.transaction, rule)
            if code:
                self._refuse(event.connection, event.request, code, text, event.transaction)
                return
            self._accept(event.connection, event.request)
            self._transactions.acknowledge(event.connection, event.transaction, consumer, rule, deliveries)
            return
        self._accept(event.connection, event.request)
        if not deliveries:
            self._region.effects.append(
                Logged("DEBUG", __name__, f"{rule.name} acknowledgement of {event.last!r} ignored")
            )
        else:
            self._settlements.apply(consumer, rule, deliveries, event.cause)

    def _transmitted(self, event: Transmitted) -> None:
        self._settlements.transmitted(event, self._consumers.get(event.dispatch.consumer))

    # -- transactions

    def _begin(self, event: Begin) -> None:
        self._answer(event, self._transactions.begin(event.connection, event.transaction))

    def _commit(self, event: Commit) -> None:
        code, text = self._transactions.objection_to_commit(event.connection, event.transaction)
        self._answer(event, (code, text))
        if not code:
            self._transactions.commit(event.connection, event.transaction)
        elif event.ends and code != "unknown-transaction":
            self._transactions.rollback(event.connection, event.transaction)

    def _rollback(self, event: Rollback) -> None:
        code, text = self._transactions.objection(event.connection, event.transaction)
        self._answer(event, (code, text))
        if not code:
            self._transactions.rollback(event.connection, event.transaction)

    def _answer(self, event: Begin | AddDestination | RemoveSubscription, objection: tuple[str, str]) -> None:
        code, text = objection
        if code:
            self._refuse(event.connection, event.request, code, text)
        else:
            self._accept(event.connection, event.request)

    # -- time

    def _tick(self, _event: Tick) -> None:
        region = self._region
        while (item := region.delays.take_due(region.policies.delay, region.now)) is not None:
            region.release(item)
        while (destination := region.sweeps.take_due(region.now.mono_ns)) is not None:
            destination.sweep(region.now)
        region.pulls.expire()
        if self._flow is not None:
            self._flow.expire()

    def _storage_changed(self, event: StorageChanged) -> None:
        self._region.storage_trouble = (event.code, event.text)

    # -- answers

    def _owned(self, connection: int, consumer: str, request: int) -> Consumer | None:
        """The consumer, if it exists and belongs to the connection; else the request is refused."""
        found = self._consumers.get(consumer)
        if found is not None and found.connection == connection:
            return found
        text = f"connection {connection} has no consumer {consumer!r}; subscribe first"
        self._refuse(connection, request, "unknown-consumer", text)
        return None

    def _accept(self, connection: int, request: int) -> None:
        if request:
            self._region.effects.append(Accepted(connection, request))

    def _refuse(self, connection: int, request: int, code: str, text: str, transaction: str = "") -> None:
        self._region.effects.append(Refused(connection, request, code, text, transaction))

    def _log(self, text: str) -> None:
        self._region.effects.append(Logged("WARN", __name__, text))
