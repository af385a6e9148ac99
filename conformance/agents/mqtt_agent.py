"""A host that speaks MQTT 5: ``python -m brokerproof.conformance.agents.mqtt_agent``, with Eclipse Paho.

Rules
* A connection for sending and one for each consumer, because a connection's receive maximum is its prefetch and a
  durable subscription is a session that outlives its connection.
* Everything has quality of service 1. The agent acknowledges; an ``auto`` consumer at once, so it settles by itself.
* MQTT has topics only, no timestamps, no rejecting. A life by the broker's clock is the message expiry interval, in
  whole seconds.
* The host has lost its connection when any of these has.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import sys
import time
from collections.abc import Hashable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from brokerproof.conformance.agents.async_agent import DONE, AsyncAgent, serve
from brokerproof.conformance.agents.library import RefusedError, Stamps
from brokerproof.conformance.agents.protocol import UNSUPPORTED
from brokerproof.conformance.agents.secure import context_of
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.traits import Traits

_MISC_S = 0.25
#: How long a broker has to close what was said goodbye to; how much of the rest is read at a time.
_REST_S, _BYTES = 5, 65_536
_WINDOW_MAX = 65_535
_FOREVER_S = 2**32 - 1
_FAILURE = 128
#: Where the library's callbacks have the reason, behind the client.
_REASON = 2


class MqttAgent(AsyncAgent):
    """The process."""

    name = "mqtt/1"
    kind = "mqtt"
    capabilities = ("prefetch", "lifetimes", "durables", "durable-names", "default-prefetch", "headers", "wildcards")
    traits = Traits(settles_by_itself=True, settles_on_arrival=True, resumes=True, whole_seconds=True)
    fields = frozenset({"correlation-data"})

    def __init__(self, requests: int, answers: int) -> None:
        super().__init__(requests, answers)
        self._sending: mqtt.Client | None = None
        self._clients: dict[str, mqtt.Client] = {}
        self._numbers = itertools.count(1)
        #: Session of a durable subscription -> what it is subscribed to.
        self._durables: dict[str, str] = {}

    # -- connections

    def open(self, request: ops.Connect) -> None:
        self._request = request
        self._own_id = request.client_id or f"brokerproof-{time.monotonic_ns()}"
        self._durables |= {f"{self._own_id}-{name}": dest for name, dest in request.durables.items()}
        self._sending = self._dialled(self._own_id)

        def greeted(client: Any, *told: Any) -> None:
            reason, keep_alive_s = told[_REASON], client.keepalive  # the broker may have asked for another
            if reason.value >= _FAILURE:
                self.lost("broker", f"{reason}")
            elif client is self._sending:
                self.opened(broker_closes_ms=keep_alive_s * 1500 or None)

        self._sending.on_connect = greeted

    def _dialled(self, client_id: str, *, window: int = 0, keeps: bool = False, clean: bool = True) -> mqtt.Client:
        """A client whose CONNECT is on its way. Raises ``RefusedError``."""
        request, url = self._request, urlsplit(self._request.url)
        client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=mqtt.MQTTv5, manual_ack=True)
        if request.login:
            client.username_pw_set(request.login, request.passcode)
        if request.secure:
            client.tls_set_context(context_of(request.ca))
        client.on_socket_open = lambda c, _, sock: self.loop.add_reader(sock, self._read, c)
        client.on_socket_close = lambda _, __, sock: self._hung_up(sock)
        client.on_socket_register_write = lambda c, _, sock: self.loop.add_writer(sock, c.loop_write)
        client.on_socket_unregister_write = lambda _, __, sock: self._unwritten(sock)
        client.on_publish = self._published
        client.on_disconnect = self._disconnected
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # the library types it not
        if window:
            properties.ReceiveMaximum = min(_WINDOW_MAX, window)
        if keeps:
            properties.SessionExpiryInterval = _FOREVER_S
        beats = [-(-ms // 1000) for ms in request.heartbeat_ms if ms]
        try:
            client.connect(
                url.hostname or "",
                url.port or 0,
                keepalive=min(beats, default=0),
                clean_start=clean,
                properties=properties,
            )
        except OSError as error:
            raise RefusedError("unreachable", f"{request.url}: {error}") from None
        self._misc(client)
        return client

    def _mine(self, client: mqtt.Client) -> bool:
        return client is self._sending or client in self._clients.values()

    def _read(self, client: mqtt.Client) -> None:
        self.heard()
        client.loop_read()

    def _misc(self, client: mqtt.Client) -> None:
        """Keep-alives are the library's, whenever it is asked."""
        if client.loop_misc() == mqtt.MQTT_ERR_SUCCESS:
            self.loop.call_later(_MISC_S, self._misc, client)

    def _unwritten(self, sock: Any) -> None:
        self.loop.remove_writer(sock)

    def _let_go(self, sock: Any) -> None:
        if isinstance(sock, socket.socket) and sock.fileno() >= 0:
            self.loop.remove_reader(sock)
            self.loop.remove_writer(sock)

    def _hung_up(self, sock: Any) -> None:
        """The library is about to close a socket. With something unread there, that would reset the connection, and
        with it what the broker has not read yet: an acknowledgement, a goodbye.
        """
        there = isinstance(sock, socket.socket) and sock.fileno() >= 0
        self._let_go(sock)
        if there:
            rest = socket.socket(fileno=os.dup(sock.fileno()))
            rest.setblocking(False)
            with contextlib.suppress(OSError):
                rest.shutdown(socket.SHUT_WR)
            self.loop.add_reader(rest, self._read_out, rest)
            self.loop.call_later(_REST_S, partial(self._read_out, rest, is_over=True))

    def _read_out(self, rest: socket.socket, *, is_over: bool = False) -> None:
        if rest.fileno() < 0:
            return
        try:
            more = bool(rest.recv(_BYTES))
        except OSError as error:
            more = isinstance(error, BlockingIOError)
        if not more or is_over:
            self._let_go(rest)
            rest.close()

    def _disconnected(self, client: Any, *told: Any) -> None:
        if self._mine(client):
            # Nothing here hangs up by itself but the library's keep-alive.
            self.lost("client" if "eep alive" in str(told[_REASON]) else "broker", str(told[_REASON]))

    def farewell(self) -> None:
        clients, self._sending, self._clients = [self._sending, *self._clients.values()], None, {}
        for client in clients:
            if client is not None:
                client.disconnect()

    def drop(self) -> None:
        clients, self._sending, self._clients = [self._sending, *self._clients.values()], None, {}
        for client in clients:
            sock = client.socket() if client is not None else None
            if isinstance(sock, socket.socket):
                self._let_go(sock)
                sock.close()

    # -- sending

    def send(self, operation: ops.Send, body: bytes) -> tuple[Hashable, Stamps]:
        assert self._sending is not None, "it is connected"
        if operation.dest.startswith("queue://"):
            raise RefusedError(UNSUPPORTED, "MQTT has no queues")
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # as above
        if operation.life_ms:
            properties.MessageExpiryInterval = -(-operation.life_ms // 1000)
        fields, ours = self.labels(operation)
        if fields:
            properties.CorrelationData = fields["correlation-data"].encode()
        if ours:
            properties.UserProperty = [(name, _as_text(value)) for name, value in ours.items()]
        told = self._sending.publish(self.names.address(operation.dest), body, qos=1, properties=properties)
        return ("sent", told.mid), {"expiration_ms": 0, "timestamp_ms": None}

    def _published(self, _: Any, *told: Any) -> None:
        mid, reason = told[1], told[_REASON]
        if reason.value >= _FAILURE:
            self.refuse(("sent", mid), str(reason.value), str(reason))
        else:
            self.resolve(("sent", mid))

    # -- consuming

    def subscribe(self, operation: ops.Subscribe) -> Hashable:
        if operation.browser or operation.selector or operation.exclusive:
            raise RefusedError(UNSUPPORTED, f"{self.name} knows no such consumer")
        if operation.dest.startswith("queue://"):
            # The queue of all dead letters, which is asked for everywhere: there is none.
            return DONE
        name, durable = operation.consumer, operation.durable
        window = 0 if operation.prefetch is None else max(1, operation.prefetch)
        own_id = f"{self._own_id}-{durable or next(self._numbers)}"
        # A session keeps what it is subscribed to: a name that turns to another topic begins afresh, as in JMS.
        clean = not durable or self._durables.get(own_id, operation.dest) != operation.dest
        if durable:
            self._durables[own_id] = operation.dest
        client = self._clients[name] = self._dialled(own_id, window=window, keeps=bool(durable), clean=clean)
        key = ("consumer", name)

        def greeted(*told: Any) -> None:
            reason = told[1 + _REASON]
            if reason.value >= _FAILURE:
                self._turned_away(name, reason)
                return
            options = SubscribeOptions(qos=1, noLocal=operation.no_local)
            client.subscribe(self.names.address(operation.dest), options=options)

        def attached(*told: Any) -> None:
            refused = next((one for one in told[1 + _REASON] if one.value >= _FAILURE), None)
            if refused is None:
                self.resolve(key)
            else:
                self._turned_away(name, refused)

        client.on_connect, client.on_subscribe = greeted, attached
        client.on_message = lambda c, _, message: self._delivered(name, c, message)
        return key

    def _turned_away(self, consumer: str, reason: Any) -> None:
        """No such consumer. Its connection ends, too: a session goes on giving, and its name may be used again."""
        self.refuse(("consumer", consumer), str(reason.value), str(reason))
        self.detach(consumer)
        self._release(consumer)

    def _delivered(self, consumer: str, client: mqtt.Client, message: mqtt.MQTTMessage) -> None:
        if consumer not in self.consumers:
            return
        told, ours = message.properties, dict(getattr(message.properties, "UserProperty", []))
        data = getattr(told, "CorrelationData", None)
        fields = {"correlation-data": None if data is None else data.decode(errors="replace")}
        handle = (client, message.mid, message.qos)
        labels = self.labelled(fields, ours, getattr(told, "ResponseTopic", None))
        left_s = getattr(told, "MessageExpiryInterval", None)
        left_ms = None if left_s is None else 1000 * left_s
        if set("*>").intersection(self.consumers[consumer].dest):
            labels["dest"] = self.names.called(message.topic)
        self.arrived(consumer, bytes(message.payload), handle, redelivered=message.dup, left_ms=left_ms, **labels)
        if self.consumers[consumer].ack == "auto":  # after it was told of: this process may be killed in between
            client.ack(message.mid, message.qos)

    def settle(self, handles: list[Any], *, accept: bool, tx: str) -> Hashable:  # noqa: ARG002 - it offers no transactions
        if not accept:
            raise RefusedError(UNSUPPORTED, "MQTT knows no rejecting")
        for client, mid, qos in handles:
            client.ack(mid, qos)
        return DONE

    def detach(self, consumer: str) -> None:
        client = self._clients.pop(consumer, None)
        if client is not None:
            client.disconnect()

    def other(self, operation: ops.ClientOperation) -> Hashable:
        if not isinstance(operation, ops.Unsubscribe):
            return super().other(operation)
        # A session ends when its name connects afresh and leaves.
        own_id = f"{self._own_id}-{operation.durable}"
        self._durables.pop(own_id, None)
        client = self._dialled(own_id)
        key = ("unsubscribe", operation.durable)

        def greeted(*_: Any) -> None:
            client.disconnect()
            self.resolve(key)

        client.on_connect = greeted
        return key


def _as_text(value: object) -> str:
    """A property of any type: MQTT has texts only."""
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    sys.exit(serve(MqttAgent))
