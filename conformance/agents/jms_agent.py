"""A host that speaks JMS with ActiveMQ's stock Java client: ``python -m brokerproof.conformance.agents.jms_agent``.

The Java virtual machine runs inside this process (JPype), so the library's clock is this host's faked clock. Here the
consumer's clock matters: the library throws away what it calls expired.

Rules
* One connection; one session per consumer, so that acknowledging covers that consumer alone; one more for producing,
  and one for each transaction, which therefore holds sends only.
  Nothing of the library is replaced; one of its own options is set for the sake of observation: ``alwaysSyncSend``, so
  that a send's result is the broker's word.
* ``take`` is the library's ``receive``. An ``arrive`` is seen by a transport listener, so also for a message that the
  application never gets. Its bytes may have been here earlier by the time the library's own threads took.
* The library does not tell what it throws away. But it tells how many messages it holds for the application: if as many
  of those that arrived are missing as have expired by this host's clock, it is these, and each is told as a
  ``discard``. In any other case nothing is told; the message's absence and its dead letter have to speak.
* ``ack`` in mode ``cumulative`` is ``Message.acknowledge()``: it settles everything that the session has delivered.
  ``nack`` does not exist in JMS.
* What the library does not finish by the deadline is ``unknown`` and goes on in a thread of its own.

Known exceptions: ``auto`` acknowledgement happens inside ``receive``. ``stamp`` none does not exist in JMS, zero is
``setDisableMessageTimestamp``, which also switches the time to live off (the answer tells the stamps that were used).
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import jpype
import msgspec

from brokerproof.chaos.tools import find_java, java_home
from brokerproof.conformance.agents.answers import Answers
from brokerproof.conformance.agents.java import (
    ACK_MODES,
    TRANSACTED,
    Arrived,
    Consumer,
    Wire,
    browser_of,
    close_quietly,
    connection_url,
    consumer_of,
    content_of,
    destination,
    listener,
    message_of,
    within,
)
from brokerproof.conformance.agents.library import RefusedError, Stamps
from brokerproof.conformance.agents.message import make_body, read_body
from brokerproof.conformance.agents.protocol import (
    ALONE,
    FEATURES,
    PROTOCOL,
    UNSUPPORTED,
    AnyOperation,
    Arrive,
    Browse,
    Closed,
    Discard,
    Fail,
    Hello,
    Quit,
    Request,
    parse_request,
)
from brokerproof.conformance.agents.stamps import NS_PER_MS, wall_reading
from brokerproof.conformance.experiment import traits
from brokerproof.conformance.experiment.operations import (
    Abort,
    Ack,
    Begin,
    Commit,
    Connect,
    Leave,
    ReadCounters,
    Send,
    Subscribe,
    Take,
    Unsubscribe,
)

NAME = "jms/1"
CAPABILITIES = ["ttl", "delay", "prefetch", "take", "expiry-check", "sync-dispatch", *FEATURES]
#: A session for each consumer, and a transaction is one session's: it holds sends alone.
TRAITS = msgspec.structs.replace(traits.JMS, transaction_scope="session")
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xmx96m", "-Djava.net.preferIPv4Stack=true")
#: While messages may have been thrown away, look this often.
_LOOK_MS = 20
_READ_BYTES = 65536


class Agent:
    """The process."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests = requests
        self._answers = Answers(answers)
        self._buffer = bytearray()
        #: Guards ``_wire`` and what hangs on it against the library's threads.
        self._state = threading.RLock()
        self._wire: Wire | None = None
        self._looked_ns = 0
        self._running = True

    def run(self) -> None:
        """Serve until ``quit`` or the end of the requests."""
        while self._running:
            ready, _, _ = select.select([self._requests], [], [], self._patience_s())
            if ready:
                part = os.read(self._requests, _READ_BYTES)
                self._buffer += part
                self._running = bool(part)
            while self._running and (end := self._buffer.find(b"\n")) >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._answer(parse_request(line))
            self._tell_discards()

    def _patience_s(self) -> float | None:
        with self._state:
            wire = self._wire
            waiting = wire is not None and any(consumer.waiting for consumer in wire.consumers.values())
        return _LOOK_MS / 1000 if waiting else None

    # -- requests

    def _answer(self, request: Request) -> None:
        t0_ns = time.monotonic_ns()
        operation = request.operation
        stamps: Stamps = {}
        try:
            if isinstance(operation, ALONE):
                ok = self._perform(operation)
            elif isinstance(operation, Send):
                ok = self._send(operation, request.deadline_ms, stamps)
            else:
                ok = within(request.deadline_ms, lambda: self._perform(operation))
        except RefusedError as refusal:
            self._answers.reply(request.id, t0_ns, fail=Fail(refusal.code, str(refusal)))
        except (TimeoutError, jpype.JException) as error:
            # The library says that it failed, not whether the broker heard of it.
            self._answers.reply(request.id, t0_ns, unknown=str(error), stamps=stamps or None)
        else:
            self._answers.reply(request.id, t0_ns, ok=ok)
        if isinstance(operation, Quit):
            self._running = False

    def _perform(self, request: AnyOperation) -> dict[str, object]:
        if isinstance(request, Hello):
            return {"agent": NAME, "protocol": PROTOCOL, "capabilities": CAPABILITIES}
        if isinstance(request, ReadCounters):
            return {}
        if isinstance(request, Connect):
            return self._connect(request)
        if isinstance(request, Subscribe):
            return self._subscribe(request)
        if isinstance(request, Take):
            return self._take(request)
        if isinstance(request, Ack):
            return self._ack(request)
        if isinstance(request, Begin | Commit | Abort):
            return self._transact(request)
        if isinstance(request, Unsubscribe):
            self._connected().producing.unsubscribe(request.durable)
            return {}
        if isinstance(request, Leave | Quit):
            return self._leave(request)
        raise RefusedError(UNSUPPORTED, f"{NAME} does not know {type(request).__name__.lower()!r}")

    def _connected(self) -> Wire:
        if self._wire is None:
            raise RefusedError("not-connected", "there is no connection; send connect first")
        return self._wire

    def _consumer(self, name: str) -> Consumer:
        consumer = self._connected().consumers.get(name)
        if consumer is None:
            raise RefusedError("no-consumer", f"there is no consumer {name!r}")
        return consumer

    def _connect(self, request: Connect) -> dict[str, object]:
        if self._wire is not None:
            raise RefusedError("connected", "there is a connection already; leave it first")
        factory = jpype.JClass("org.apache.activemq.ActiveMQConnectionFactory")(connection_url(request))
        try:
            connection = factory.createConnection()
            wire = Wire(connection)
            with self._state:
                self._wire = wire
            connection.addTransportListener(
                listener(lambda command: self.on_command(wire, command), lambda error: self.on_exception(wire, error))
            )
            connection.start()
            wire.producing = connection.createSession(False, ACK_MODES["auto"])
        except jpype.JException as error:
            self._forget()
            raise RefusedError("unreachable", f"{request.url}: {error}") from None
        own = msgspec.structs.replace(TRAITS, checks_expiry=request.expiry_check)
        return {"traits": msgspec.to_builtins(own)}

    def _send(self, request: Send, deadline_ms: int, stamps: Stamps) -> dict[str, object]:
        """Its ``stamps`` are known whatever the broker does."""
        wire = self._connected()
        session = wire.transacted[request.tx] if request.tx else wire.producing
        try:
            body = message_of(session, request)
        except jpype.JException as error:
            raise RefusedError("bad-message", str(error)) from None  # the library would not even make it
        producer = session.createProducer(destination(session, request.dest))
        producer.setDeliveryMode(2 if request.persistent else 1)
        producer.setPriority(request.priority)
        producer.setTimeToLive(request.ttl_ms)
        producer.setDisableMessageTimestamp(request.stamp == "zero")

        def send() -> dict[str, object]:
            producer.send(body)
            producer.close()
            return {}

        try:
            within(deadline_ms, send)
        finally:
            # The library stamps before it sends.
            stamps["expiration_ms"] = int(body.getJMSExpiration())
            stamps["timestamp_ms"] = int(body.getJMSTimestamp())
            stamps["body"] = crc32(make_body(request.message, request.size))
        return {**stamps}

    def _subscribe(self, request: Subscribe) -> dict[str, object]:
        wire = self._connected()
        session = wire.connection.createSession(False, ACK_MODES[request.ack])
        if request.browser:
            self._browse(session, request)
            return {}
        consumer = Consumer(request.consumer, session, consumer_of(session, request))
        with self._state:
            number = str(consumer.consumer.getConsumerId())
            wire.consumers[request.consumer] = wire.by_id[number] = consumer
            early = [entry for entry in wire.orphans if entry[0] == number]
            wire.orphans = [entry for entry in wire.orphans if entry[0] != number]
            for _, dispatch, t0_ns, at_ns in early:
                self._arrived(consumer, dispatch, t0_ns, at_ns)
        return {}

    def _browse(self, session: Any, request: Subscribe) -> None:
        """The library's browser is a cursor: it is read to its end at once."""
        browser = browser_of(session, request)
        cursor = browser.getEnumeration()
        while cursor.hasMoreElements():
            t0_ns = time.monotonic_ns()
            message = read_body(content_of(cursor.nextElement()))
            self._answers.say(Browse(t0=t0_ns, t1=time.monotonic_ns(), consumer=request.consumer, message=message))
        browser.close()
        now_ns = time.monotonic_ns()
        self._answers.say(Browse(t0=now_ns, t1=now_ns, consumer=request.consumer, complete=True))
        self._connected().browsed[request.consumer] = session

    def _transact(self, request: Begin | Commit | Abort) -> dict[str, object]:
        wire = self._connected()
        if isinstance(request, Begin):
            wire.transacted[request.tx] = wire.connection.createSession(True, TRANSACTED)
            return {}
        session = wire.transacted.pop(request.tx, None)
        if session is None:
            raise RefusedError("unknown-transaction", f"there is no open transaction {request.tx!r}")
        if isinstance(request, Commit):
            session.commit()
        else:
            session.rollback()
        session.close()
        return {}

    def _take(self, request: Take) -> dict[str, object]:
        consumer = self._consumer(request.consumer)
        receive = consumer.consumer.receive
        found = receive(request.deadline_ms) if request.deadline_ms else consumer.consumer.receiveNoWait()
        if found is None:
            return {"message": None}
        message = read_body(content_of(found))
        with self._state:
            consumer.waiting = [arrived for arrived in consumer.waiting if arrived.message != message]
            consumer.taken[message] = found
        return {"message": message}

    def _ack(self, request: Ack) -> dict[str, object]:
        consumer = self._consumer(request.consumer)
        known = [consumer.taken[message] for message in request.messages if message in consumer.taken]
        if not known or len(known) != len(request.messages):
            text = f"not all of {request.messages} were delivered to {request.consumer!r}"
            raise RefusedError("unknown-message", text)
        if request.mode == "individual":
            for message in known:
                message.acknowledge()
            settled = list(request.messages)
        else:
            known[-1].acknowledge()
            settled = list(consumer.taken)
        for name in settled:
            del consumer.taken[name]
        return {}

    def _leave(self, request: Leave | Quit) -> dict[str, object]:
        wire = self._wire
        if wire is None:
            return {}
        if isinstance(request, Leave) and request.consumer in wire.browsed:
            wire.browsed.pop(request.consumer).close()
            return {}
        if isinstance(request, Leave) and request.consumer is not None:
            consumer = self._consumer(request.consumer)
            self._last_look([consumer])
            with self._state:
                del wire.consumers[request.consumer]
            consumer.consumer.close()
            return {}
        self._last_look(list(wire.consumers.values()))
        wire.leaving = True
        if isinstance(request, Leave) and request.how == "drop":
            # The socket itself: the library has no way to leave without a goodbye.
            wire.connection.getTransport().narrow(jpype.JClass("java.net.Socket").class_).close()
        self._forget()
        return {}

    def _last_look(self, consumers: list[Consumer]) -> None:
        """Before consumers go: what they have thrown away is told now or never."""
        wall_ms = wall_reading()[0]
        if any(consumer.dead(wall_ms) for consumer in consumers):
            for _ in range(3):
                self._tell_discards()
                time.sleep(_LOOK_MS / 1000)

    def _forget(self) -> None:
        """Close what can be closed; whatever the library says about it."""
        with self._state:
            wire, self._wire = self._wire, None
        if wire is not None:
            wire.leaving = True
            threading.Thread(target=close_quietly, args=(wire.connection,), daemon=True).start()

    # -- what the library's threads bring

    def on_command(self, wire: Wire, command: Any) -> None:
        """A command from the broker was handled."""
        now_ns = time.monotonic_ns()
        # The library's threads had it first; they are granted a moment, but not more than since the last command.
        t0_ns = max(wire.heard_ns, now_ns - _LOOK_MS * NS_PER_MS)
        wire.heard_ns = now_ns
        if not isinstance(command, jpype.JClass("org.apache.activemq.command.MessageDispatch")):
            return
        if command.getMessage() is None:
            return
        number = str(command.getConsumerId())
        with self._state:
            consumer = wire.by_id.get(number)
            if consumer is None:
                wire.orphans.append((number, command, t0_ns, now_ns))
            else:
                self._arrived(consumer, command, t0_ns, now_ns)

    def _arrived(self, consumer: Consumer, dispatch: Any, t0_ns: int, at_ns: int) -> None:
        body = dispatch.getMessage()
        content = content_of(body)
        message = read_body(content)
        expiration_ms = int(body.getExpiration())
        consumer.waiting.append(Arrived(message, expiration_ms, at_ns))
        original = body.getOriginalDestination()
        self._answers.say(
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
                dest=str(body.getDestination().getQualifiedName()),
                group=None if body.getGroupID() is None else str(body.getGroupID()),
                priority=int(body.getPriority()),
                body=crc32(content),
                persistent=bool(body.isPersistent()),
                properties=sorted(str(name) for name in body.getProperties().keySet()),
            )
        )

    def on_exception(self, wire: Wire, error: Any) -> None:
        """The transport failed."""
        with self._state:
            if wire.leaving or self._wire is not wire:
                return
            self._wire = None
            wire.leaving = True
        now_ns = time.monotonic_ns()
        idle_ns = now_ns - wire.heard_ns
        # The library gives up by itself when it hears nothing: then it is the client who closed.
        who: Any = "client" if "inactive" in str(error) or "inactivity" in str(error).lower() else "broker"
        self._answers.say(Closed(t0=wire.heard_ns, t1=now_ns, who=who, reason=str(error), idle_ns=idle_ns))
        threading.Thread(target=close_quietly, args=(wire.connection,), daemon=True).start()

    def _tell_discards(self) -> None:
        """Tell which messages were thrown away, where there is no doubt."""
        with self._state:
            if self._wire is None:
                return
            wall_ms = wall_reading()[0]
            now_ns = time.monotonic_ns()
            if now_ns - self._looked_ns < _LOOK_MS * NS_PER_MS:
                return
            self._looked_ns = now_ns
            for consumer in self._wire.consumers.values():
                dead = consumer.thrown_away(wall_ms)
                if dead != consumer.suspects:
                    # Seen twice, some time apart: then nothing is on its way.
                    consumer.suspects = dead
                    continue
                consumer.suspects = []
                for one in dead:
                    consumer.waiting.remove(one)
                    reason = "expired by the client's clock"
                    self._answers.say(
                        Discard(t0=one.t0_ns, t1=now_ns, consumer=consumer.name, message=one.message, reason=reason)
                    )


def main(argv: Sequence[str] | None = None) -> int:
    """Serve stdin and stdout."""
    parser = argparse.ArgumentParser(description="A host that speaks JMS with ActiveMQ's Java client.")
    parser.add_argument("--class-path", required=True, help="the client's jars, separated as in a class path")
    given = parser.parse_args(argv)
    jvm = java_home(find_java()) / "lib" / "server" / "libjvm.so"
    # What the JVM prints must not come between our answers: standard output is the protocol.
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jpype.startJVM(*JVM_OPTIONS, jvmpath=str(jvm), classpath=given.class_path.split(os.pathsep), convertStrings=False)
    code = 1
    try:
        Agent(sys.stdin.fileno(), answers).run()
        code = 0
    except Exception:  # noqa: BLE001 - the last word of this process
        traceback.print_exc()
    # Threads of the library may never end by themselves.
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
