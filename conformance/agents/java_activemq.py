"""ActiveMQ's stock Java client, watched from inside.

Rules
* Nothing of the library is replaced; one of its own options is set for the sake of observation: ``alwaysSyncSend``, so
  that a send's result is the broker's word.
* An ``arrive`` is seen by a transport listener, so also for a message that the application never gets. Its bytes may
  have been here earlier by the time the library's own threads took.
* The library does not tell what it throws away, but how many messages it holds: if as many of those that arrived are
  missing as have expired by this host's clock, it is these, and each is told as a ``discard``; else nothing is told,
  nor ever of a library that was told not to check.

Known exception: the initial delay of the library's inactivity monitor is also its time limit for the handshake, so less
than 100 ms is refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from zlib import crc32

import jpype
import msgspec

from brokerproof.conformance.agents.java import (
    SESSION_MODES,
    Consumer,
    JavaLibrary,
    Lost,
    Say,
    Wire,
    filled,
    receive,
    without_keeping,
)
from brokerproof.conformance.agents.library import RefusedError
from brokerproof.conformance.agents.message import ORIGINAL_ID, read_body
from brokerproof.conformance.agents.protocol import FEATURES, UNSUPPORTED, Arrive, Discard, jms_options, jms_url
from brokerproof.conformance.agents.stamps import NS_PER_MS, wall_reading
from brokerproof.conformance.experiment import traits
from brokerproof.conformance.experiment.operations import Connect, Send, Subscribe

#: ``ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE``; JMS itself has no such mode.
MODES = {**SESSION_MODES, "individual": 4}
DELAY_LEAST_MS = 100
#: While messages may have been thrown away, look this often.
LOOK_MS = 20
#: How long the broker may take to say that a consumer has gone; then nobody knows.
GONE_MS = 1000


class Arrived(msgspec.Struct, eq=False):
    """A message that reached this host and that the application has not taken."""

    message: str
    expiration_ms: int
    t0_ns: int


class Watched(Consumer):
    """A consumer and what has arrived for it."""

    def __init__(self, name: str, session: Any, consumer: Any) -> None:
        super().__init__(name, session, consumer)
        self.waiting: list[Arrived] = []
        #: What seemed to be thrown away at the last look.
        self.suspects: list[Arrived] = []
        #: What the application had before the listener heard that it had come.
        self.early: list[str] = []

    def dead(self, wall_ms: int) -> list[Arrived]:
        """What has expired by this host's clock, wherever it is."""
        return [one for one in self.waiting if 0 < one.expiration_ms < wall_ms]

    def thrown_away(self, wall_ms: int) -> list[Arrived]:
        """What must have been thrown away, if this look is not deceived by messages on their way inside the library."""
        if not self.waiting or self.session.hasUncomsumedMessages():
            return []
        dead = self.dead(wall_ms)
        missing = len(self.waiting) - int(self.consumer.getMessageSize())
        return dead if missing == len(dead) else []


class ActiveMQLibrary(JavaLibrary):
    """See the module's header."""

    name = "jms/1"
    capabilities = ("ttl", "delay", "prefetch", "take", "expiry-check", "sync-dispatch", *FEATURES)

    def __init__(self) -> None:
        #: Guards consumers and what has arrived for them against the library's threads.
        self._state = threading.RLock()
        self._looked_ns = 0
        #: Java's consumer id -> our consumer, and arrivals for ids that are not known yet.
        self._by_id: dict[str, Watched] = {}
        self._checks = True
        self._connection: Any = None
        self._orphans: list[tuple[str, Any, int, int]] = []

    def traits(self, request: Connect) -> traits.Traits:
        # A session for each consumer, and a transaction is one session's: it holds sends alone.
        return msgspec.structs.replace(traits.JMS, transaction_scope="session", checks_expiry=request.expiry_check)

    def connect(self, request: Connect, say: Say, lost: Lost) -> Wire:
        factory = jpype.JClass("org.apache.activemq.ActiveMQConnectionFactory")(connection_url(request))
        connection = factory.createConnection()
        wire = Wire(connection)
        self._say, self._by_id, self._orphans, self._connection = say, {}, [], connection
        self._checks = request.expiry_check
        ended = without_keeping(wire, lambda one, error: lost(one, str(error)))
        connection.addTransportListener(listener(without_keeping(wire, self._on_command), ended))
        connection.start()
        return wire

    def session(self, wire: Wire, mode: str) -> Any:
        return wire.connection.createSession(not MODES[mode], MODES[mode])

    def destination(self, session: Any, name: str) -> Any:
        kind, _, rest = name.partition("://")
        return session.createTopic(rest) if kind == "topic" else session.createQueue(rest)

    def message(self, session: Any, request: Send) -> Any:
        body = filled(session.createBytesMessage(), request)
        if request.delay_ms:
            body.setLongProperty("AMQ_SCHEDULED_DELAY", request.delay_ms)
        return body

    def attach(self, session: Any, request: Subscribe) -> Consumer:
        options = {} if request.prefetch is None else {"prefetchSize": str(request.prefetch)}
        if request.dispatch == "sync":
            options["dispatchAsync"] = "false"
        if request.exclusive:
            options["exclusive"] = "true"
        if request.priority:
            options["priority"] = str(request.priority)
        text = "&".join(f"consumer.{name}={value}" for name, value in options.items())
        target = self.destination(session, f"{request.dest}?{text}" if text else request.dest)
        selector = request.selector or None
        if request.durable:
            made = session.createDurableSubscriber(target, request.durable, selector, request.no_local)
        else:
            made = session.createConsumer(target, selector, request.no_local)
        consumer = Watched(request.consumer, session, made)
        with self._state:
            number = str(made.getConsumerId())
            self._by_id[number] = consumer
            early = [entry for entry in self._orphans if entry[0] == number]
            self._orphans = [entry for entry in self._orphans if entry[0] != number]
            for _, dispatch, t0_ns, at_ns in early:
                self._arrived(consumer, dispatch, t0_ns, at_ns)
        return consumer

    def content(self, message: Any) -> bytes:
        # Without touching the message: another thread may be reading it.
        content = message.getContent()
        if content is None:
            return b""
        data = bytes(content.getData())[content.getOffset() : content.getOffset() + content.getLength()]
        text = jpype.JClass("org.apache.activemq.command.ActiveMQTextMessage")
        # A text begins with its length in four bytes.
        return data[4:] if isinstance(message, text) else data

    def take(self, consumer: Consumer, wait_ms: int) -> tuple[Any, dict[str, object]]:
        message = receive(consumer.consumer, wait_ms)
        token = None if message is None else read_body(self.content(message))
        if token is not None and isinstance(consumer, Watched):
            with self._state:
                waiting = [arrived for arrived in consumer.waiting if arrived.message != token]
                if len(waiting) == len(consumer.waiting):
                    consumer.early.append(token)
                consumer.waiting = waiting
        return message, {"message": token}

    def acknowledge(self, consumer: Consumer, message: Any, *, individual: bool) -> None:
        del consumer, individual  # the session's mode decides
        message.acknowledge()

    def detach(self, consumer: Consumer) -> None:
        consumer.consumer.close()
        # The library does not wait for the broker, which has taken the goodbye when it answers what comes after it.
        command = jpype.JClass("org.apache.activemq.command.ConnectionControl")()
        if self._connection.syncSendPacket(command, GONE_MS) is None:
            raise TimeoutError(f"the broker did not say in {GONE_MS} ms that the consumer has gone")

    def drop(self, wire: Wire) -> None:
        # The socket itself: the library has no way to leave without a goodbye.
        wire.connection.getTransport().narrow(jpype.JClass("java.net.Socket").class_).close()

    def watches(self, wire: Wire, *, dead: bool = False) -> bool:
        with self._state:
            wall_ms = wall_reading()[0]
            return any(one.dead(wall_ms) if dead else one.waiting for one in wire.consumers.values())

    def look(self, wire: Wire) -> None:
        with self._state:
            wall_ms, now_ns = wall_reading()[0], time.monotonic_ns()
            if now_ns - self._looked_ns < LOOK_MS * NS_PER_MS:
                return
            self._looked_ns = now_ns
            # A library that was told not to check throws nothing away: what is missing there is on its way.
            for consumer in wire.consumers.values() if self._checks else ():
                dead = consumer.thrown_away(wall_ms)
                if dead != consumer.suspects:
                    # Seen twice, some time apart: then nothing is on its way.
                    consumer.suspects = dead
                    continue
                consumer.suspects = []
                for one in dead:
                    consumer.waiting.remove(one)
                    told = {"message": one.message, "reason": "expired by the client's clock"}
                    self._say(Discard(t0=one.t0_ns, t1=now_ns, consumer=consumer.name, **told))

    # -- what the library's threads bring

    def _on_command(self, wire: Wire, command: Any) -> None:
        """A command from the broker was handled."""
        now_ns = time.monotonic_ns()
        # The library's threads had it first; they are granted a moment, but not more than since the last command.
        t0_ns = max(wire.heard_ns, now_ns - LOOK_MS * NS_PER_MS)
        wire.heard_ns = now_ns
        if not isinstance(command, jpype.JClass("org.apache.activemq.command.MessageDispatch")):
            return
        if command.getMessage() is None:
            return
        number = str(command.getConsumerId())
        with self._state:
            consumer = self._by_id.get(number)
            if consumer is None:
                self._orphans.append((number, command, t0_ns, now_ns))
            else:
                self._arrived(consumer, command, t0_ns, now_ns)

    def _arrived(self, consumer: Watched, dispatch: Any, t0_ns: int, at_ns: int) -> None:
        body = dispatch.getMessage()
        content = self.content(body)
        message = read_body(content)
        expiration_ms = int(body.getExpiration())
        if message in consumer.early:
            consumer.early.remove(message)
        else:
            consumer.waiting.append(Arrived(message, expiration_ms, at_ns))
        original, about = body.getOriginalDestination(), body.getProperty(ORIGINAL_ID)
        self._say(
            Arrive(
                t0=t0_ns,
                t1=at_ns,
                consumer=consumer.name,
                message=message,
                redelivered=dispatch.getRedeliveryCounter() > 0,
                delivery_count=int(dispatch.getRedeliveryCounter()) + 1,
                expiration_ms=expiration_ms,
                timestamp_ms=int(body.getTimestamp()),
                original_dest=None if original is None else str(original.getQualifiedName()),
                original_id=None if about is None else str(about),
                dest=str(body.getDestination().getQualifiedName()),
                group=None if body.getGroupID() is None else str(body.getGroupID()),
                priority=int(body.getPriority()),
                body=crc32(content),
                persistent=bool(body.isPersistent()),
                properties=sorted(str(name) for name in body.getProperties().keySet()),
            )
        )


def listener(on_command: Callable[[Any], None], on_exception: Callable[[Any], None]) -> Any:
    """A Java object that passes the transport's calls on."""

    @jpype.JImplements("org.apache.activemq.transport.TransportListener")
    class Listener:
        @jpype.JOverride  # type: ignore[untyped-decorator]  # JPype publishes no types
        def onCommand(self, command: Any) -> None:  # noqa: N802 - Java's name
            on_command(command)

        @jpype.JOverride  # type: ignore[untyped-decorator]  # as above
        def onException(self, error: Any) -> None:  # noqa: N802
            on_exception(error)

        @jpype.JOverride  # type: ignore[untyped-decorator]  # as above
        def transportInterupted(self) -> None:  # noqa: N802
            pass

        @jpype.JOverride  # type: ignore[untyped-decorator]  # as above
        def transportResumed(self) -> None:  # noqa: N802
            pass

    return Listener()


def connection_url(request: Connect) -> str:
    """The library's URL with all options. Raises ``RefusedError``."""
    if request.monitor_ms is not None:
        read_ms, initial_delay_ms = request.monitor_ms
        if read_ms and initial_delay_ms < DELAY_LEAST_MS:
            text = (
                f"an initial delay of {initial_delay_ms} ms, which is also the library's time limit for the handshake"
            )
            raise RefusedError(UNSUPPORTED, f"{text}; at least {DELAY_LEAST_MS} ms are needed")
    own = {"jms.watchTopicAdvisories": "false", "jms.alwaysSyncSend": "true"}
    return jms_url(request, {**own, **jms_options(request)})
