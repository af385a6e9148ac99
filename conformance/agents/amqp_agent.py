"""A host that speaks AMQP 1.0: ``python -m brokerproof.conformance.agents.amqp_agent``, with Qpid Proton's engine.

Rules
* One session. A link per destination that is sent to, and one per consumer, whose credit is its prefetch: what is
  settled gives credit for one more.
* An ``auto`` consumer asks for settled deliveries, so the broker settles what it writes. All others settle one by one.
* A send is answered by the broker's outcome; ``released`` and ``modified`` are refusals. A disposition that settles has
  no answer in AMQP: it is done when it is written, so no receipt is promised.
* A broker may refuse an idle timeout that is too short for it (2.4.5); then none is asked for.
* A time to live is an absolute expiry time, a life by the broker's clock is the header's ``ttl``; a message has one of
  them.
* A durable subscription is a link of its name whose terminus never expires: who leaves detaches, an unsubscribe closes.
  A name has one link at a time, so the next one waits until the broker has let go of the last.
* A transaction may hold whatever the connection sends and settles. What it settles is settled at once and gives its
  credit back, so the broker has it again after a rollback.
* A broker that leaves out a filter that it was asked for does not filter: the consumer goes (3.5.3, filter).
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import msgspec
from proton import (
    Collector,
    Connection,
    Delivery,
    Endpoint,
    Event,
    Link,
    Message,
    Receiver,
    Sender,
    Terminus,
    Transport,
    TransportException,
    symbol,
)

from brokerproof.conformance.agents.amqp_links import ask_kind, ask_source, asker_of, filters_of, receiver_of
from brokerproof.conformance.agents.amqp_transactions import (
    DECLARED,
    TRANSACTIONAL,
    Coordinator,
    outcome_in,
    settled_in,
)
from brokerproof.conformance.agents.async_agent import DONE, AsyncAgent, serve
from brokerproof.conformance.agents.library import RefusedError, Stamps
from brokerproof.conformance.agents.message import LAST_MS
from brokerproof.conformance.agents.protocol import UNSUPPORTED
from brokerproof.conformance.agents.stamps import wall_reading
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.history import PROTOCOL_BROKEN
from brokerproof.conformance.experiment.traits import Traits

_BYTES = 65536
_DEFAULT_CREDIT = 1000
_OUTCOMES = {"rejected": Delivery.REJECTED, "released": Delivery.RELEASED, "modified": Delivery.MODIFIED}


class AmqpAgent(AsyncAgent):
    """The process."""

    name = "amqp/1"
    kind = "amqp"
    capabilities = (
        "ttl",
        "delay",
        "prefetch",
        "nack",
        "endless",
        "lifetimes",
        "browsers",
        "groups",
        "headers",
        "default-prefetch",
        "selectors",
        "durables",
        "transactions",
    )
    traits = Traits(
        settles_on_write=True,
        keeps_types=True,
        transaction_scope="connection",
        returns_rollbacks=True,
        beats_twice=True,
    )
    fields = frozenset({"correlation-id", "subject"})

    def __init__(self, requests: int, answers: int) -> None:
        super().__init__(requests, answers)
        self._socket: socket.socket | None = None
        self._senders: dict[str, Sender] = {}
        self._receivers: dict[str, Receiver] = {}
        #: Name of a link that is about to end -> what waits for that name.
        self._leaving: dict[str, list[Callable[[], None]]] = {}
        self._tags = 0
        self._timer: asyncio.TimerHandle | None = None
        #: The request to connect once more, without an idle timeout.
        self._again: ops.Connect | None = None

    # -- the connection

    def open(self, request: ops.Connect) -> None:
        self._transport, self._connection, self._collector = Transport(), Connection(), Collector()
        self._connection.collect(self._collector)
        self._connection.container = request.client_id or f"brokerproof-{time.monotonic_ns()}"
        self._connection.hostname = request.virtual_host or "localhost"
        sasl = self._transport.sasl()
        sasl.allow_insecure_mechs = True
        sasl.allowed_mechs("PLAIN" if request.login else "ANONYMOUS")
        if request.login:
            self._connection.user, self._connection.password = request.login, request.passcode
        sends_ms, wants_ms = request.heartbeat_ms
        self._again = msgspec.structs.replace(request, heartbeat_ms=(0, 0)) if sends_ms or wants_ms else None
        if self._again is not None:
            self._transport.idle_timeout = (wants_ms or sends_ms) / 1000
        self._socket = self.dial(request)
        self._transport.bind(self._connection)
        self._connection.open()
        self._session = self._connection.session()
        self._session.open()
        self._coordinator = Coordinator(self._session)
        self.loop.add_reader(self._socket, self._readable)
        self._tick()

    def _tick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            due_s = self._transport.tick(time.monotonic())
            self._work()
            self._timer = self.loop.call_later(max(0.001, due_s - time.monotonic()), self._tick) if due_s else None

    def _readable(self) -> None:
        while self._socket is not None:
            capacity = self._transport.capacity()
            if capacity <= 0:
                break
            try:
                part = self._socket.recv(min(_BYTES, capacity))
            except BlockingIOError:
                break
            except OSError as error:
                self.lost("broker", f"connection lost: {error}")
                return
            if not part:
                self._ended("the broker closed the connection")
                return
            self.heard()
            try:
                self._transport.push(part)
            except TransportException as error:
                self.lost("broker", f"{PROTOCOL_BROKEN}{error}")
                return
            self._work()

    def _work(self) -> None:
        """Handle what the engine found out, and write what it has to say."""
        while (event := self._collector.peek()) is not None:
            self._happened(event)
            self._collector.pop()
        self._write()

    def _write(self) -> None:
        while self._socket is not None and (size := self._transport.pending()) > 0:
            try:
                written = self._socket.send(self._transport.peek(size) or b"")
            except BlockingIOError:
                self.loop.add_writer(self._socket, self._write)
                return
            except OSError:
                return  # the read finds the end of the stream
            self._transport.pop(written)
        if self._socket is not None:
            self.loop.remove_writer(self._socket)

    def _ended(self, reason: str) -> None:
        condition = self._connection.remote_condition or self._transport.condition
        again, self._again = self._again, None
        if condition and again is not None and not self.connected and "idle" in str(condition.description).lower():
            self.drop()
            self.loop.call_soon(self._redial, again)
            return
        self.lost("broker", f"{reason} ({condition.name}: {condition.description})" if condition else reason)

    def _redial(self, request: ops.Connect) -> None:
        try:
            self.open(request)
        except RefusedError as error:
            self.lost("broker", str(error))

    def farewell(self) -> None:
        self._connection.close()
        self._work()

    def drop(self) -> None:
        sock, self._socket = self._socket, None
        self._senders.clear()
        self._receivers.clear()
        self._leaving.clear()
        if sock is not None:
            self.loop.remove_reader(sock)
            self.loop.remove_writer(sock)
            sock.close()

    # -- what the engine finds out

    def _happened(self, event: Any) -> None:
        if self._socket is None:
            return
        kind = event.type
        if kind == Event.CONNECTION_REMOTE_OPEN:
            # A broker that refuses opens and closes at once.
            if not self._connection.state & Endpoint.REMOTE_CLOSED and self._connection.remote_condition is None:
                self.opened(broker_waits_ms=round(self._transport.remote_idle_timeout * 1000))
                # What its peer wants to hear is known now; until SASL is over the engine keeps no time at all.
                self.loop.call_soon(self._tick)
        elif kind in {Event.CONNECTION_REMOTE_CLOSE, Event.SESSION_REMOTE_CLOSE}:
            if not self._connection.state & Endpoint.LOCAL_CLOSED:
                said = event.session.remote_condition if kind == Event.SESSION_REMOTE_CLOSE else None
                self._ended(f"closed: {said.name}: {said.description}" if said else "the broker closed the connection")
        elif kind == Event.TRANSPORT_ERROR:
            condition = self._transport.condition
            said_by = "client" if condition and "local-idle" in str(condition.description) else "broker"
            text = f"{condition.name}: {condition.description}" if condition else "the transport failed"
            self.lost("client" if said_by == "client" else "broker", text)
        elif kind == Event.LINK_REMOTE_OPEN:
            self._attached(event.link)
        elif kind in {Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH}:
            self._gone(event.link, closed=kind == Event.LINK_REMOTE_CLOSE)
        elif kind == Event.LINK_FLOW and event.link.is_receiver:
            self._flowed(event.link)
        elif kind == Event.DELIVERY:
            self._delivery(event.delivery)

    def _attached(self, link: Link) -> None:
        if not isinstance(link, Receiver) or link.remote_source.address is None:
            return
        consumer = asker_of(link)
        if not isinstance(consumer, str):
            link.close()  # the broker knows the durable subscription that is to end
        elif (asked := filters_of(link.source)) <= filters_of(link.remote_source):
            if asked:
                self._give_credit(link)
            self.resolve(consumer)
        else:
            self.refuse(consumer, "amqp:not-implemented", "the broker attached the link without its filter")
            self.detach(consumer)
            self._release(consumer)

    def _gone(self, link: Link, *, closed: bool) -> None:
        """The broker ends a link, or answers its end."""
        condition, left = link.remote_condition, False
        code, text = (condition.name, condition.description or "") if condition else ("detached", "the broker detached")
        if link.is_sender:
            self._coordinator.lost(link)
            self._senders = {address: sender for address, sender in self._senders.items() if sender != link}
            for tag in [tag for name, tag in self._sent if name == link.name]:
                self.refuse(tag, code, text)
        else:
            asker = asker_of(link)
            left = self._receivers.get(asker) != link
            if not left:
                del self._receivers[asker]
            if left and condition is None:
                self.resolve(asker)
            else:
                self.refuse(asker, code, text)
        if not link.state & Endpoint.LOCAL_CLOSED:
            # What is closed is over for good, and a durable subscription need not be.
            (link.close if closed else link.detach)()
        if left:
            self._write()
            link.free()  # the engine would take the next link of this name for this one
            for then in self._leaving.pop(link.name, []):
                self._once_free(link.name, then)

    def _flowed(self, link: Receiver) -> None:
        consumer = asker_of(link)
        browsing = consumer in self.consumers and self.consumers[consumer].browser
        # What of the credit was not used is gone, and the engine no longer calls that draining.
        if browsing and not link.credit and link.drained():
            self.browsed(consumer)

    def _delivery(self, delivery: Delivery) -> None:
        link = delivery.link
        if link.is_sender:
            if delivery.updated:
                self._outcome(delivery)
            return
        if not delivery.readable or delivery.partial:
            return
        data = link.recv(delivery.pending) or b""
        link.advance()
        name = asker_of(link)
        if name not in self.consumers:
            return
        message = Message()
        message.decode(data)
        consumer = self.consumers[name]
        if consumer.ack == "auto" or consumer.browser:
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()
            if not consumer.browser:
                link.flow(1)
        self.arrived(name, _bytes(message.body), delivery, **self._told(message))

    def _told(self, message: Message) -> dict[str, Any]:
        annotations = {str(name): value for name, value in (message.annotations or {}).items()}
        properties: dict[Any, Any] = message.properties or {}
        origin = {**properties, **annotations}.get(self.words["original_destination"])
        count = int(message.delivery_count)
        return {
            # A link that ends with a delivery unsettled need not count it: AMQP 1.0, 3.2.1, delivery-count.
            "redelivered": True if count else None,
            "delivery_count": count + 1,
            "expiration_ms": min(LAST_MS, round(message.expiry_time * 1000)) if message.expiry_time else 0,
            "timestamp_ms": round(message.creation_time * 1000) if message.creation_time else 0,
            "original_dest": self.names.called(str(origin)) if origin else None,
            "group": message.group_id or None,
            "priority": int(message.priority),
            "persistent": bool(message.durable),
            **self.labelled(
                {"correlation-id": message.correlation_id, "subject": message.subject}, properties, message.reply_to
            ),
        }

    def _outcome(self, delivery: Delivery) -> None:
        state: int = delivery.remote_state
        condition = delivery.remote.condition
        if state == TRANSACTIONAL:
            state, condition = outcome_in(delivery.remote.data)
            if not state and not delivery.settled:
                return
        if state == DECLARED:
            told: Any = delivery.remote.data
            self._coordinator.begun(delivery.tag, told[0])
        if state in {Delivery.ACCEPTED, DECLARED}:
            self.resolve(delivery.tag)
        elif state:
            code, text = (condition.name, condition.description or "") if condition else (str(state).lower(), "")
            self.refuse(delivery.tag, code, text or f"the broker answered {delivery.remote_state}")
        delivery.settle()

    # -- operations

    @property
    def _sent(self) -> list[tuple[str, str]]:
        """What is under way: the name of its link, its tag."""
        return [(tag.partition("#")[0], tag) for tag in self._waiting if isinstance(tag, str) and "#" in tag]

    def send(self, operation: ops.Send, body: bytes) -> tuple[Hashable, Stamps]:
        tx_id = self._coordinator.id_of(operation.tx) if operation.tx else None
        address = self.names.address(operation.dest)
        sender = self._senders.get(address)
        if sender is None:
            sender = self._senders[address] = self._session.sender(f"to-{len(self._senders)}-{address}")
            sender.target.address = address
            ask_kind(sender.target, operation.dest)
            sender.open()
        expiration_ms = self.expiration_ms(operation)
        timestamp_ms = {"client": wall_reading()[0], "none": None, "zero": 0}[operation.stamp]
        message = Message(body=body, inferred=True, durable=operation.persistent, priority=operation.priority)
        message.creation_time = (timestamp_ms or 0) / 1000
        told: Any = message
        told.expiry_time = Fraction(expiration_ms, 1000)  # a float would round the calendar's last instant beyond it
        message.ttl = operation.life_ms / 1000
        if operation.group:
            message.group_id = operation.group
        fields, told.properties = self.labels(operation)
        told.correlation_id, told.subject = fields.get("correlation-id"), fields.get("subject")
        if operation.delay_ms:
            message.annotations = {symbol(self.words["delay"]): operation.delay_ms}
        self._tags += 1
        tag = f"{sender.name}#{self._tags}"
        delivery: Any = sender.delivery(tag)
        if tx_id is not None:
            delivery.local.data = [tx_id]
            delivery.update(TRANSACTIONAL)
        sender.stream(message.encode())
        sender.advance()
        self._write()
        return tag, {"expiration_ms": expiration_ms, "timestamp_ms": timestamp_ms}

    def subscribe(self, operation: ops.Subscribe) -> Hashable:
        if operation.exclusive or self._is_taken(operation.durable):
            raise RefusedError(UNSUPPORTED, f"{self.name} knows no such consumer")
        if operation.no_local and not self.words["no_local"]:
            raise RefusedError(UNSUPPORTED, f"names.{self.kind}.headers.no_local: there is no name for the filter")
        self._once_free(operation.durable, lambda: self._attach(operation))
        self._write()
        return operation.consumer

    def _attach(self, operation: ops.Subscribe) -> None:
        if operation.consumer not in self.consumers:
            return  # it left before it could come
        name = operation.durable or operation.consumer
        receiver = self._receivers[operation.consumer] = receiver_of(self._session, name, operation.consumer)
        ask_source(receiver.source, operation, self.names.address(operation.dest), self.words["no_local"])
        if operation.ack == "auto":
            receiver.snd_settle_mode = Link.SND_SETTLED
        receiver.open()
        if not filters_of(receiver.source):
            self._give_credit(receiver)

    def _give_credit(self, receiver: Receiver) -> None:
        """What a link may have in flight. One that is to filter gets none until the broker has said that it will: what
        a broker that does not had sent by then would be lost with the link.
        """
        operation = self.consumers.get(asker_of(receiver))
        if operation is None:
            return  # it has left
        if operation.browser:
            receiver.drain(_DEFAULT_CREDIT)
        else:
            receiver.flow(_DEFAULT_CREDIT if operation.prefetch is None else max(1, operation.prefetch))

    def _is_taken(self, durable: str) -> bool:
        """Whether a consumer uses it: the broker cannot be asked for another link of that name."""
        return durable != "" and any(one.name == durable for one in self._receivers.values())

    def _once_free(self, durable: str, then: Callable[[], None]) -> None:
        if durable in self._leaving:
            self._leaving[durable].append(then)
        else:
            then()

    def settle(self, handles: list[Any], *, accept: bool, tx: str) -> Hashable:
        tx_id = self._coordinator.id_of(tx) if tx else None
        outcome = Delivery.ACCEPTED if accept else _OUTCOMES[self.names.reject]
        for delivery in handles:
            # A rejection is a delivery in vain, whatever the outcome says of it.
            delivery.local.failed = not accept
            if tx_id is not None:
                delivery.local.data = settled_in(tx_id, outcome, failed=not accept)
            delivery.update(outcome if tx_id is None else TRANSACTIONAL)
            delivery.settle()
            delivery.link.flow(1)
        self._write()
        return DONE

    def detach(self, consumer: str) -> None:
        receiver = self._receivers.pop(consumer, None)
        if receiver is None:
            return
        if receiver.source.durability == Terminus.NONDURABLE:
            receiver.close()
        else:
            self._leaving[receiver.name] = []
            receiver.detach()
        self._write()

    def other(self, operation: ops.ClientOperation) -> Hashable:
        if isinstance(operation, ops.Unsubscribe):
            if self._is_taken(operation.durable):
                raise RefusedError(UNSUPPORTED, "a consumer uses it, and its name has one link")
            self._once_free(operation.durable, lambda: self._end(operation.durable))
            key: Hashable = ("unsubscribe", operation.durable)
        elif isinstance(operation, ops.Begin):
            key = self._coordinator.declare(operation.tx)
        elif isinstance(operation, ops.Commit | ops.Abort):
            key = self._coordinator.discharge(operation.tx, fails=isinstance(operation, ops.Abort))
        else:
            return super().other(operation)
        self._write()
        return key

    def _end(self, durable: str) -> None:
        """Attach to a durable subscription, whatever it is, to close it; as Qpid JMS does."""
        asker = ("unsubscribe", durable)
        if self._is_taken(durable):
            self.refuse(asker, "amqp:resource-locked", "a consumer has come for it")
            return
        self._leaving[durable] = []
        receiver = receiver_of(self._session, durable, asker)
        receiver.source.type = Terminus.UNSPECIFIED
        receiver.open()


def _bytes(body: object) -> bytes:
    return body.encode() if isinstance(body, str) else bytes(body) if isinstance(body, bytes | memoryview) else b""


if __name__ == "__main__":
    sys.exit(serve(AmqpAgent))
