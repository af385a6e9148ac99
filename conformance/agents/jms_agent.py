"""A host that speaks JMS with a Java library: ``python -m brokerproof.conformance.agents.jms_agent``.

The Java virtual machine runs inside this process (JPype), so the library's clock is this host's faked clock.

Rules
* One connection; one session per consumer, so that acknowledging covers that consumer alone; one more for producing.
* A transaction is a session's: of a consumer, if it begins with an acknowledgement and the library's scope is the
  consumer's; else a new one, of sends only. Such consumers have transacted sessions where there are transactions, and
  acknowledge by a commit.
* ``take`` is the library's ``receive``. ``ack`` in mode ``cumulative`` is ``acknowledge()``: it settles everything that
  the session has delivered. ``nack`` does not exist in JMS.
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
from functools import partial
from typing import Any
from zlib import crc32

import jpype
import msgspec

from brokerproof.chaos.tools import find_java, java_home
from brokerproof.conformance.agents.answers import Answers, hello
from brokerproof.conformance.agents.java import (
    TRANSACTED,
    Consumer,
    JavaLibrary,
    Transaction,
    Wire,
    begun,
    close_quietly,
    reason_of,
    within,
)
from brokerproof.conformance.agents.java_activemq import LOOK_MS, ActiveMQLibrary
from brokerproof.conformance.agents.java_provider import ProviderLibrary
from brokerproof.conformance.agents.library import RefusedError, Stamps
from brokerproof.conformance.agents.message import make_body, read_body
from brokerproof.conformance.agents.protocol import (
    ALONE,
    NOT_CONNECTED,
    UNSUPPORTED,
    AnyOperation,
    Browse,
    Called,
    Closed,
    Fail,
    Hello,
    Quit,
    Request,
    parse_request,
)
from brokerproof.conformance.agents.provider import Provider
from brokerproof.conformance.agents.stamps import wall_reading
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

#: Without memory it must not go on: what it then cannot do is nobody's refusal.
JVM_OPTIONS = (
    *("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true"),
    *("-Xmx192m", "-XX:+ExitOnOutOfMemoryError"),
)
_READ_BYTES = 65536


class Agent:
    """The process."""

    def __init__(self, library: JavaLibrary, requests: int, answers: int) -> None:
        self._library = library
        self._requests = requests
        self._answers = Answers(answers)
        self._buffer = bytearray()
        #: Guards ``_wire`` against the library's threads.
        self._state = threading.RLock()
        self._wire: Wire | None = None
        self._running = True

    def run(self) -> None:
        """Serve until ``quit`` or the end of the requests."""
        while self._running:
            wire = self._wire
            patience_s = LOOK_MS / 1000 if wire is not None and self._library.watches(wire) else None
            ready, _, _ = select.select([self._requests], [], [], patience_s)
            if ready:
                part = os.read(self._requests, _READ_BYTES)
                self._buffer += part
                self._running = bool(part)
            while self._running and (end := self._buffer.find(b"\n")) >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._answer(parse_request(line))
            if self._wire is not None:
                self._library.look(self._wire)

    # -- requests

    def _answer(self, request: Request) -> None:
        t0_ns = time.monotonic_ns()
        operation = request.operation
        stamps: Stamps = {}
        called = Called() if isinstance(operation, Send) and operation.calls else None
        try:
            if isinstance(operation, ALONE):
                ok = self._perform(operation)
            elif isinstance(operation, Send):
                ok = self._send(operation, request.deadline_ms, stamps, called)
            else:
                ok = within(request.deadline_ms, lambda: self._perform(operation))
        except RefusedError as refusal:
            self._answers.reply(request.id, t0_ns, fail=Fail(refusal.code, str(refusal)), stamps=stamps, called=called)
        except (TimeoutError, jpype.JException) as error:
            # The library says that it failed, and only IBM's whether that was the broker's refusal.
            if why := reason_of(error):
                self._answers.reply(request.id, t0_ns, fail=why, stamps=stamps, called=called)
            else:
                self._answers.reply(request.id, t0_ns, unknown=str(error), stamps=stamps, called=called)
        else:
            self._answers.reply(request.id, t0_ns, ok=ok, called=called)
        if isinstance(operation, Quit):
            self._running = False

    def _perform(self, request: AnyOperation) -> dict[str, object]:
        if isinstance(request, Hello):
            return hello(self._library.name, self._library.capabilities)
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
        word = type(request).__name__.lower()
        raise RefusedError(UNSUPPORTED, f"{self._library.name} does not know {word!r}")

    def _connected(self) -> Wire:
        if self._wire is None:
            raise RefusedError(NOT_CONNECTED, "there is no connection; send connect first")
        return self._wire

    def _consumer(self, name: str) -> Consumer:
        consumer: Consumer | None = self._connected().consumers.get(name)
        if consumer is None:
            raise RefusedError("no-consumer", f"there is no consumer {name!r}")
        return consumer

    def _connect(self, request: Connect) -> dict[str, object]:
        if self._wire is not None:
            raise RefusedError("connected", "there is a connection already; leave it first")
        try:
            wire = self._library.connect(request, self._answers.say, self.on_lost)
            with self._state:
                self._wire = wire
            wire.producing = self._library.session(wire, "auto")
            traits = self._library.traits(request)
            wire.transacts = request.transacts and traits.transaction_scope == "consumer"
        except jpype.JException as error:
            self._forget()
            raise RefusedError("unreachable", f"{request.url}: {error}") from None
        return {"traits": msgspec.to_builtins(traits)}

    def _send(self, request: Send, deadline_ms: int, stamps: Stamps, called: Called | None) -> dict[str, object]:
        """Its ``stamps`` are known whatever the broker does."""
        wire, library, made = self._connected(), self._library, list[Any]()
        transaction = self._transaction(request.tx) if request.tx else None

        def send() -> dict[str, object]:
            session = wire.producing
            if transaction is not None:
                session = transaction.session = transaction.session or library.session(wire, TRANSACTED)
            try:
                body = library.message(session, request)
            except jpype.JException as error:
                raise RefusedError("bad-message", str(error)) from None  # the library would not even make it
            send_now = library.calling(wire, request, called) if called else library.sender(session, request)
            with self._state:
                made.append(body)
                if len(made) > 1:
                    return {}  # too late
            send_now(body)
            return {}

        try:
            within(deadline_ms, send)
        except TimeoutError:
            with self._state:
                made.append(None)
            if made[0] is None:  # nor will it be sent
                now_ms = wall_reading()[0]
                stamps |= {"timestamp_ms": now_ms, "expiration_ms": now_ms + request.ttl_ms if request.ttl_ms else 0}
            raise
        finally:
            stamps["body"] = crc32(make_body(request.message, request.size))
            if made and made[0] is not None:
                # The library stamps before it sends.
                stamps |= library.stamps(made[0], request)
        return {**stamps}

    def _subscribe(self, request: Subscribe) -> dict[str, object]:
        wire, library = self._connected(), self._library
        transacted = wire.transacts and request.ack == "client" and not request.browser
        session = library.session(wire, TRANSACTED if transacted else request.ack)
        if request.browser:
            self._browse(session, request)
            return {}
        with self._state:
            wire.coming[request.consumer] = False
        try:
            consumer = library.attach(session, request)  # behind a stall that takes long
            consumer.transacted = transacted
            with self._state:
                wire.consumers[request.consumer] = consumer
        finally:
            with self._state:
                left = wire.coming.pop(request.consumer)
        if left:
            del wire.consumers[request.consumer]
            library.detach(consumer)
        return {}

    def _browse(self, session: Any, request: Subscribe) -> None:
        """The library's browser is a cursor: it is read to its end at once."""
        browser = session.createBrowser(self._library.destination(session, request.dest), request.selector or None)
        cursor = browser.getEnumeration()
        while cursor.hasMoreElements():
            t0_ns = time.monotonic_ns()
            message = read_body(self._library.content(cursor.nextElement()))
            self._answers.say(Browse(t0=t0_ns, t1=time.monotonic_ns(), consumer=request.consumer, message=message))
        browser.close()
        now_ns = time.monotonic_ns()
        self._answers.say(Browse(t0=now_ns, t1=now_ns, consumer=request.consumer, complete=True))
        self._connected().browsed[request.consumer] = session

    def _transact(self, request: Begin | Commit | Abort) -> dict[str, object]:
        wire = self._connected()
        if isinstance(request, Begin):
            wire.transactions[request.tx] = Transaction()
            return {}
        transaction = self._transaction(request.tx)
        del wire.transactions[request.tx]
        session, consumer = transaction.session, transaction.of
        if session is None:
            return {}  # nothing was done in it
        if isinstance(request, Commit):
            session.commit()
        else:
            session.rollback()
        if consumer is None or consumer.name not in wire.consumers:
            session.close()
        return {}

    def _transaction(self, name: str) -> Transaction:
        transaction: Transaction | None = self._connected().transactions.get(name)
        if transaction is None:
            raise RefusedError("unknown-transaction", f"there is no open transaction {name!r}")
        return transaction

    def _take(self, request: Take) -> dict[str, object]:
        consumer = self._consumer(request.consumer)
        found, answer = self._library.take(consumer, request.deadline_ms)
        if found is not None:
            consumer.taken[str(answer["message"])] = found
        return answer

    def _ack(self, request: Ack) -> dict[str, object]:
        consumer = self._consumer(request.consumer)
        known = [consumer.taken[message] for message in request.messages if message in consumer.taken]
        if not known or len(known) != len(request.messages):
            text = f"not all of {request.messages} were delivered to {request.consumer!r}"
            raise RefusedError("unknown-message", text)
        individual = request.mode == "individual"
        if request.tx:
            self._join(consumer, self._transaction(request.tx))
        elif consumer.transacted:
            consumer.session.commit()
        else:
            for message in known if individual else known[-1:]:
                self._library.acknowledge(consumer, message, individual=individual)
        for name in request.messages if individual else list(consumer.taken):
            del consumer.taken[name]
        return {}

    def _join(self, consumer: Consumer, transaction: Transaction) -> None:
        """A transaction holds what a consumer has been given, and what it and others send from now on."""
        if not consumer.transacted or transaction.session not in (None, consumer.session):
            text = f"the transaction is another session's than that of {consumer.name!r}"
            raise RefusedError(UNSUPPORTED, text)
        transaction.session, transaction.of = consumer.session, consumer

    def _leave(self, request: Leave | Quit) -> dict[str, object]:
        wire = self._wire
        if wire is None:
            return {}
        if isinstance(request, Leave) and request.consumer in wire.browsed:
            wire.browsed.pop(request.consumer).close()
            return {}
        if isinstance(request, Leave) and request.consumer is not None:
            with self._state:
                if request.consumer in wire.coming:
                    wire.coming[request.consumer] = True
                    raise TimeoutError("the broker has not answered that it is there; it leaves as soon as it is")
            consumer = self._consumer(request.consumer)
            self._last_look(wire)
            with self._state:
                del wire.consumers[request.consumer]
            if any(one.of is consumer for one in wire.transactions.values()):
                consumer.consumer.close()  # what it has acknowledged stays with the transaction
            else:
                self._library.detach(consumer)
            return {}
        self._last_look(wire)
        wire.leaving = True
        if isinstance(request, Leave) and request.how == "drop":
            self._library.drop(wire)
        self._forget()
        return {}

    def _last_look(self, wire: Wire) -> None:
        """Before consumers go: what they have thrown away is told now or never."""
        for _ in range(3 if self._library.watches(wire, dead=True) else 0):
            self._library.look(wire)
            time.sleep(LOOK_MS / 1000)

    def _forget(self) -> None:
        """Close what can be closed; whatever the library says about it."""
        with self._state:
            wire, self._wire = self._wire, None
        if wire is not None:
            wire.leaving = True
            begun(partial(close_quietly, wire))

    def on_lost(self, wire: Wire, error: str) -> None:
        """The library gave the connection up; it may be one of its threads that says so."""
        with self._state:
            if wire.leaving or self._wire is not wire:
                return
            self._wire = None
            wire.leaving = True
        now_ns = time.monotonic_ns()
        # The library gives up by itself when it hears nothing: then it is the client who closed.
        who: Any = "client" if "inactiv" in error.lower() else "broker"
        self._answers.say(Closed(t0=wire.heard_ns, t1=now_ns, who=who, reason=error, idle_ns=now_ns - wire.heard_ns))
        begun(partial(close_quietly, wire))


def main(argv: Sequence[str] | None = None) -> int:
    """Serve stdin and stdout."""
    parser = argparse.ArgumentParser(description="A host that speaks JMS with a Java library.")
    parser.add_argument("--class-path", required=True, help="the client's jars, separated as in a class path")
    parser.add_argument(
        "--provider", metavar="JSON", help="any provider, by what its profile says; else ActiveMQ's own"
    )
    given = parser.parse_args(argv)
    library: JavaLibrary = ActiveMQLibrary()
    if given.provider is not None:
        library = ProviderLibrary(msgspec.json.decode(given.provider, type=Provider))
    jvm = java_home(find_java()) / "lib" / "server" / "libjvm.so"
    # What the JVM prints must not come between our answers: standard output is the protocol.
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jpype.startJVM(*JVM_OPTIONS, jvmpath=str(jvm), classpath=given.class_path.split(os.pathsep), convertStrings=False)
    code = 1
    try:
        Agent(library, sys.stdin.fileno(), answers).run()
        code = 0
    except Exception:  # noqa: BLE001 - the last word of this process
        traceback.print_exc()
    # Threads of the library may never end by themselves.
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
