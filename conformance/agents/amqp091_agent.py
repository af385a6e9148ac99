"""A host that speaks AMQP 0-9-1: ``python -m brokerproof.conformance.agents.amqp091_agent``, with pika.

Rules
* A queue is declared, durable, wherever it is named; with the arguments that the profile gives. A topic is a key of
  ``amq.topic``, a consumer of it has a queue of its own. The default exchange carries messages to queues.
* A channel for sending, in confirm mode, and one for each consumer, whose ``qos`` is its prefetch, and for each
  transaction, which holds sends alone.
* A delay, where the profile has a word for it, is that header in an exchange of type ``x-delayed-message``, to which
  queues are bound as well (RabbitMQ's plug-in).
* A life by the broker's clock is the property ``expiration``. There is no time to live by the sender's.
* The timestamp on the wire has whole seconds; that is what is told.
* ``basic.ack`` has no answer: it is done when it is written. All that a channel has been given up to a message is
  acknowledged at once, with ``multiple``.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any
from urllib.parse import urlsplit

import pika
import pika.exceptions
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.exchange_type import ExchangeType

from brokerproof.conformance.agents.async_agent import DONE, AsyncAgent, serve
from brokerproof.conformance.agents.library import RefusedError, Stamps
from brokerproof.conformance.agents.protocol import UNSUPPORTED
from brokerproof.conformance.agents.secure import context_of
from brokerproof.conformance.agents.stamps import NS_PER_S, wall_reading
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.traits import Traits

_TOPICS = "amq.topic"
_TOPIC = "topic://"
#: The exchange that holds messages back; its keys are addresses, as in the suite.
_DELAYED = "brokerproof.delayed"
_WINDOW_MAX = 65_535


class Amqp091Agent(AsyncAgent):
    """The process."""

    name = "amqp091/1"
    kind = "amqp091"
    capabilities = ("prefetch", "nack", "lifetimes", "transactions", "default-prefetch", "headers")
    traits = Traits(settles_on_write=True, transaction_scope="session", beats_twice=True, beats_in_seconds=True)
    fields = frozenset({"correlation-id", "type"})

    def __init__(self, requests: int, answers: int) -> None:
        super().__init__(requests, answers)
        self._connection: Any = None
        self._sending: Any = None
        #: Consumer, or transaction -> its channel.
        self._channels: dict[str, Any] = {}
        self._numbers = itertools.count(1)
        self._declared: set[str] = set()
        #: Channel -> what is still to be done on it, the first of it begun; each says whether it is done at once.
        self._begun: dict[Any, deque[Callable[[], bool]]] = {}

    # -- the connection

    def open(self, request: ops.Connect) -> None:
        url = urlsplit(request.url)
        beats = [max(1, round(ms / 1000)) for ms in request.heartbeat_ms if ms]
        told: dict[str, Any] = {"host": url.hostname, "port": url.port, "heartbeat": min(beats, default=0)}
        told |= {"virtual_host": request.virtual_host or "/", "connection_attempts": 1}
        if request.login:
            told["credentials"] = pika.PlainCredentials(request.login, request.passcode)
        if request.secure:
            told["ssl_options"] = pika.SSLOptions(context_of(request.ca), request.secure)
        self._connection = AsyncioConnection(
            pika.ConnectionParameters(**told),
            on_open_callback=self._greeted,
            on_open_error_callback=lambda _, error: self.lost("broker", _said(error)),
            on_close_callback=self._closed,
            custom_ioloop=self.loop,
        )

    def _greeted(self, connection: Any) -> None:
        self._declared.clear()
        self._begun.clear()

        def opened(_: Any) -> None:
            self.opened()
            if connection.params.heartbeat:
                self.heard()
                self._listen(connection, connection.bytes_received)

        def ready(channel: Any) -> None:
            self._sending = channel
            self._numbers = itertools.count(1)
            channel.confirm_delivery(self._confirmed, opened)
            channel.add_on_return_callback(lambda *_: None)
            channel.add_on_close_callback(self._sending_closed)

        connection.channel(on_open_callback=ready)

    def _listen(self, connection: Any, before: int) -> None:
        """Who was not heard for two intervals is gone (4.2.7); the library waits five seconds more than one."""
        if connection is not self._connection:
            return
        beat_s, octets = connection.params.heartbeat, connection.bytes_received
        if octets != before:
            self.heard()
        elif time.monotonic_ns() - self.heard_ns >= 2 * beat_s * NS_PER_S:
            self.lost("client", f"nothing arrived for two heart-beat intervals of {beat_s} s")
            return
        self.loop.call_later(beat_s / 4, self._listen, connection, octets)

    def _sending_closed(self, channel: Any, error: Any) -> None:
        if channel is self._sending:
            self.lost("broker", _said(error))

    def _closed(self, connection: Any, error: Any) -> None:
        if connection is self._connection:
            who = "client" if isinstance(error, pika.exceptions.AMQPHeartbeatTimeout) else "broker"
            self.lost("client" if who == "client" else "broker", _said(error))

    def farewell(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_open:
            connection.close()

    def drop(self) -> None:
        connection, self._connection, self._sending = self._connection, None, None
        self._channels.clear()
        if connection is not None:
            # Without a goodbye: the library has no other way to let go of its socket at once.
            transport = getattr(connection, "_transport", None)
            if transport is not None:
                transport.abort()

    # -- sending

    def _confirmed(self, frame: Any) -> None:
        self.heard()
        method = frame.method
        yes = isinstance(method, pika.spec.Basic.Ack)
        numbers = [method.delivery_tag]
        if method.multiple:
            sent = [key[1] for key in self._waiting if isinstance(key, tuple) and key[0] == "sent"]
            numbers = sorted(number for number in sent if number <= method.delivery_tag)
        for number in numbers:
            if yes:
                self.resolve(("sent", number))
            else:
                self.refuse(("sent", number), "nack", "the broker took no responsibility for the message")

    def send(self, operation: ops.Send, body: bytes) -> tuple[Hashable, Stamps]:
        now_ms = wall_reading()[0]
        timestamp_ms = {"client": now_ms // 1000 * 1000, "none": None, "zero": 0}[operation.stamp]
        fields, headers = self.labels(operation)
        if operation.delay_ms:
            if not self.words["delay"]:
                raise RefusedError(UNSUPPORTED, f"names.{self.kind}.headers.delay: there is no name for a delay")
            headers[self.words["delay"]] = operation.delay_ms
        # The library has no doubles to send; a number's text is the same number to everybody.
        headers = {name: str(value) if isinstance(value, float) else value for name, value in headers.items()}
        properties = pika.BasicProperties(
            delivery_mode=2 if operation.persistent else 1,
            priority=operation.priority,
            timestamp=None if timestamp_ms is None else timestamp_ms // 1000,
            expiration=str(operation.life_ms) if operation.life_ms else None,
            correlation_id=fields.get("correlation-id"),
            type=fields.get("type"),
            headers=headers or None,
        )
        topic = operation.dest.startswith(_TOPIC)
        address = self.names.address(operation.dest)
        stamps: Stamps = {"expiration_ms": 0, "timestamp_ms": timestamp_ms}
        channel = self._transacted(operation.tx) if operation.tx else self._sending
        exchange, key = (_DELAYED, operation.dest) if operation.delay_ms else (_TOPICS if topic else "", address)

        def declare() -> bool:
            self._declare(channel, operation.dest, lambda _: self._answered(channel))
            return False

        def publish() -> bool:
            if operation.delay_ms:
                self._declare_delayed(channel)
            channel.basic_publish(exchange, key, body, properties)
            return True

        if not topic and address not in self._declared:
            # The library holds a request back while another waits for its answer, but no message: that would be lost.
            self._in_order(channel, declare)
        self._in_order(channel, publish)
        return DONE if operation.tx else ("sent", next(self._numbers)), stamps

    def _in_order(self, channel: Any, work: Callable[[], bool]) -> None:
        """Do it as soon as all that was begun on the channel before is done."""
        begun = self._begun.setdefault(channel, deque())
        begun.append(work)
        if len(begun) == 1:
            self._go_on(channel, begun)

    def _answered(self, channel: Any) -> None:
        """What was begun last on a channel is done."""
        begun = self._begun.get(channel)
        if begun is not None:  # else it is of a connection that is no more
            begun.popleft()
            self._go_on(channel, begun)

    def _go_on(self, channel: Any, begun: deque[Callable[[], bool]]) -> None:
        while begun and channel.is_open and begun[0]():
            begun.popleft()

    def _transacted(self, tx: str) -> Any:
        channel = self._channels.get(tx)
        if channel is None:  # behind a stalled link the broker has not been heard of one
            raise RefusedError("unknown-transaction", f"there is no open transaction {tx!r}")
        return channel

    def _declare(self, channel: Any, dest: str, then: Callable[[Any], None]) -> None:
        queue = self.names.address(dest)

        def declared(frame: Any) -> None:
            self._declared.add(queue)
            then(frame)

        letters = self.names.dead_letters
        arguments = {} if queue == letters else dict(self.names.arguments)
        if arguments and letters and letters not in self._declared:  # a letter to a queue that is not there is dropped
            self._declared.add(letters)
            channel.queue_declare(letters, durable=True)
        if not self.words["delay"]:
            channel.queue_declare(queue, durable=True, arguments=arguments, callback=declared)
            return
        self._declare_delayed(channel)
        channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.queue_bind(queue, _DELAYED, dest, callback=declared)

    def _declare_delayed(self, channel: Any) -> None:
        told = {"x-delayed-type": "direct"}
        channel.exchange_declare(_DELAYED, "x-delayed-message", durable=True, arguments=told)

    # -- consuming

    def subscribe(self, operation: ops.Subscribe) -> Hashable:
        # Who is exclusive here keeps others out, instead of letting them wait.
        if operation.durable or operation.browser or operation.selector or operation.exclusive or operation.priority:
            raise RefusedError(UNSUPPORTED, f"{self.name} knows no such consumer")
        name, address = operation.consumer, self.names.address(operation.dest)
        key = ("consumer", name)

        def consume(channel: Any, queue: str) -> None:
            window = 0 if operation.prefetch is None else min(_WINDOW_MAX, max(1, operation.prefetch))
            # A broker serves requests of one channel in their order, so the window holds from the first delivery on.
            channel.basic_qos(prefetch_count=window)
            channel.basic_consume(
                queue,
                lambda _, method, properties, body: self._delivered(name, channel, method, properties, body),
                auto_ack=operation.ack == "auto",
                callback=lambda _: self.resolve(key),
            )

        def ready(channel: Any) -> None:
            if name not in self.consumers:  # it has left before a stalled broker answered
                channel.close()
                return
            self._channels[name] = channel
            channel.add_on_close_callback(lambda _, error: self.refuse(key, *_coded(error)))
            if operation.dest.startswith(_TOPIC):
                self._own_queue(channel, operation.dest, consume)
            else:
                self._declare(channel, operation.dest, lambda _: consume(channel, address))

        self._connection.channel(on_open_callback=ready)
        return key

    def _own_queue(self, channel: Any, dest: str, then: Callable[[Any, str], None]) -> None:
        def bound(frame: Any) -> None:
            queue = frame.method.queue
            if self.words["delay"]:
                self._declare_delayed(channel)
                channel.queue_bind(queue, _DELAYED, dest)
            channel.queue_bind(queue, _TOPICS, self.names.address(dest), callback=lambda _: then(channel, queue))

        channel.exchange_declare(_TOPICS, ExchangeType.topic, passive=True)
        channel.queue_declare("", exclusive=True, auto_delete=True, callback=bound)

    def _delivered(self, consumer: str, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.heard()
        if consumer not in self.consumers:
            return
        headers = properties.headers or {}
        origin, before = headers.get(self.words["original_destination"]), headers.get(self.words["delivery_count"])
        self.arrived(
            consumer,
            body,
            (channel, method.delivery_tag),
            redelivered=bool(method.redelivered),
            delivery_count=before + 1 if isinstance(before, int) else None,
            timestamp_ms=(properties.timestamp or 0) * 1000,
            original_dest=self.names.called(str(origin)) if origin else None,
            priority=properties.priority,
            persistent=properties.delivery_mode == 2,
            **self.labelled(
                {"correlation-id": properties.correlation_id, "type": properties.type}, headers, properties.reply_to
            ),
        )

    def settle(self, handles: list[Any], *, accept: bool, tx: str) -> Hashable:  # noqa: ARG002 - sends alone are part of it
        for channel in dict.fromkeys(channel for channel, _ in handles):
            tags = sorted(tag for one, tag in handles if one is channel)
            if accept and len(tags) > 1 and tags == self._held_on(channel)[: len(tags)]:
                channel.basic_ack(tags[-1], multiple=True)
                continue
            for tag in tags:
                if accept:
                    channel.basic_ack(tag)
                else:
                    channel.basic_reject(tag, requeue=self.names.reject == "requeue")
        return DONE

    def _held_on(self, channel: Any) -> list[int]:
        """Tags of what came over a channel and was not settled until now, rising."""
        return sorted(tag for handles in self.held.values() for one, tag in handles if one is channel)

    def detach(self, consumer: str) -> None:
        channel = self._channels.pop(consumer, None)
        if channel is not None and channel.is_open:
            channel.close()

    # -- transactions

    def other(self, operation: ops.ClientOperation) -> Hashable:
        if isinstance(operation, ops.Begin):
            name = operation.tx

            def ready(channel: Any) -> None:
                self._channels[name] = channel
                channel.tx_select(lambda _: self.resolve(name))

            self._connection.channel(on_open_callback=ready)
            return name
        if isinstance(operation, ops.Commit | ops.Abort):
            name = operation.tx
            channel = self._transacted(name)
            del self._channels[name]
            end = channel.tx_commit if isinstance(operation, ops.Commit) else channel.tx_rollback

            def ended(_: Any) -> None:
                self.resolve(name)
                channel.close()

            def finish() -> bool:
                end(ended)
                return True

            channel.add_on_close_callback(lambda _, error: self.refuse(name, *_coded(error)))
            self._in_order(channel, finish)
            return name
        return super().other(operation)


def _said(error: Any) -> str:
    return str(error) or type(error).__name__


def _coded(error: Any) -> tuple[str, str]:
    return str(getattr(error, "reply_code", "closed")), str(getattr(error, "reply_text", error))


if __name__ == "__main__":
    sys.exit(serve(Amqp091Agent))
