"""A host that speaks OpenWire with our own client: ``python -m brokerproof.conformance.agents.openwire_agent``.

It gives ``loop.py`` the protocol of ``reference_broker.openwire.client``, which behaves as ActiveMQ's Java client does
and is the same code that the simulation uses for JMS hosts. It needs no JVM.

Rules
* ``take`` is the application's ``receive``: the library decides what it gets. It is answered when a message is there or
  the deadline has passed; a consumer without a prefetch asks the broker for one.
* What the library throws away is told as ``discard``, without doubt: it says so itself.
* ``ack`` in mode ``cumulative`` settles everything that the consumer has taken, and the answer says so. ``nack`` is a
  POISON acknowledgement. Acknowledgements may be part of the host's transaction.

Known exceptions: ``auto`` acknowledgement happens inside ``take``. ``stamp`` none does not exist in JMS.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from zlib import crc32

from brokerproof.conformance.agents.answers import RefusedError
from brokerproof.conformance.agents.loop import Agent
from brokerproof.conformance.agents.protocol import (
    FEATURES,
    LAST_MS,
    OWN_TEMPORARY,
    Ack,
    Acknowledge,
    AnyRequest,
    Connect,
    Discard,
    Nack,
    Send,
    Stamps,
    Subscribe,
    Take,
    jms_options,
    jms_url,
    make_body,
    properties_of,
)
from brokerproof.conformance.agents.stamps import NS_PER_MS, wall_reading
from brokerproof.conformance.agents.wire import Waiting, Wire
from brokerproof.conformance.experiment.steps.protocol import ACK_TYPES, ends_of, settled_by
from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.openwire.broker_url import client_address
from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.openwire.framing import ClientFraming
from brokerproof.reference_broker.session import notice


class Taking:
    """A ``take`` that has not been answered."""

    __slots__ = ("consumer", "deadline_ns", "id", "t0_ns")

    def __init__(self, request: Take, t0_ns: int) -> None:
        self.id = request.id
        self.consumer = request.consumer
        self.t0_ns = t0_ns
        self.deadline_ns = t0_ns + request.deadline_ms * NS_PER_MS


class OpenWireWire(Wire):
    """A connection that speaks OpenWire."""

    __slots__ = ("pulling", "session", "taken", "taking", "tokens")

    def __init__(self, sock: socket.socket, session: ClientSession, framing: ClientFraming) -> None:
        super().__init__(sock, framing)
        self.session: ClientSession = session
        #: Broker's message id -> the suite's token.
        self.tokens: dict[str, str] = {}
        #: Consumer -> token -> ack id of what its application has taken.
        self.taken: dict[str, dict[str, str]] = {}
        #: Consumers without a prefetch -> whether the broker owes them an answer.
        self.pulling: dict[str, bool] = {}
        self.taking: list[Taking] = []


class OpenWireAgent(Agent[OpenWireWire]):
    """The process."""

    name = "openwire/1"
    capabilities = (
        "ttl",
        "delay",
        "prefetch",
        "nack",
        "take",
        "expiry-check",
        "sync-dispatch",
        "transacted-acks",
        "acknowledgements",
        "endless",
        "bridges",
        "temporaries",
        *FEATURES,
    )
    default_port = 61616
    _connections = 0

    def open(self, request: Connect, sock: socket.socket, address: str) -> OpenWireWire:
        del address  # the URL says it, with options
        self._connections += 1
        now_ns = time.monotonic_ns()
        connection_id = f"ID:brokerproof-{os.getpid()}-{now_ns}-{self._connections}:1"
        try:
            target = client_address(jms_url(request, jms_options(request)))
        except ConfigError as error:
            raise RefusedError("bad-address", str(error)) from None
        session = target.session(request.client_id or connection_id, connection_id, now_ns)
        wire = OpenWireWire(sock, session, target.framing(connection_id))
        wire.hello = session.connect()
        return wire

    def send(self, wire: OpenWireWire, request: Send) -> tuple[str, Stamps]:
        body = make_body(request.message, request.size)
        now = _now()
        message = wire.session.send(
            self._named(wire, request.dest),
            body,
            now,
            ttl_ms=LAST_MS - now.wall_ms if request.endless else request.ttl_ms,
            persistent=request.persistent,
            priority=request.priority,
            delay_ms=request.delay_ms,
            disable_timestamp=request.stamp == "zero",
            transaction=request.tx,
            group=request.group,
            properties=properties_of(request.kind, request.life_ms),
            network=request.network,
            reply_to=wire.session.own_queue() if request.reply else "",
            receipt=True,
        )
        stamps: Stamps = {
            "expiration_ms": message.expiration_ms,
            "timestamp_ms": message.timestamp_ms,
            "body": crc32(body),
        }
        return wire.session.last_command, stamps

    def subscribe(self, wire: OpenWireWire, request: Subscribe) -> str:
        if request.prefetch == 0 and not request.browser:
            wire.pulling[request.consumer] = False
        wire.taken[request.consumer] = {}
        return wire.session.subscribe(
            request.consumer,
            self._named(wire, request.dest),
            request.prefetch,
            dispatch_async=request.dispatch == "async",
            ack=request.ack,
            selector=request.selector,
            durable=request.durable,
            no_local=request.no_local,
            exclusive=request.exclusive,
            priority=request.priority,
            browser=request.browser,
            receipt=True,
        )

    def _named(self, wire: OpenWireWire, destination: str) -> str:
        return wire.session.own_queue() if destination == OWN_TEMPORARY else destination

    def settle(self, wire: OpenWireWire, request: Ack | Nack) -> tuple[str, dict[str, object]]:
        consumer = request.consumer
        self._taken(wire, request)
        taken = wire.taken[consumer]
        session = wire.session
        settled = list(request.messages)
        if isinstance(request, Nack):
            for message in settled:
                session.poison(consumer, taken.pop(message), receipt=message is settled[-1])
        elif request.mode == "individual":
            for message in settled:
                ack_id = taken.pop(message)
                session.acknowledge_one(consumer, ack_id, transaction=request.tx, receipt=message is settled[-1])
        else:
            settled = list(taken)
            taken.clear()
            session.acknowledge(consumer, transaction=request.tx, receipt=True)
        return session.last_command, {"messages": settled}

    def detach(self, wire: OpenWireWire, consumer: str) -> None:
        wire.taken.pop(consumer, None)
        wire.pulling.pop(consumer, None)
        wire.session.close_consumer(consumer)

    def farewell(self, wire: OpenWireWire) -> None:
        wire.session.disconnect()

    def receive(self, wire: OpenWireWire, frame: object, now_ns: int) -> list[notice.Notice]:
        return wire.session.receive(frame, Now(now_ns, wall_reading()[0]))

    def perform(self, wire: OpenWireWire, request: AnyRequest, t0_ns: int) -> dict[str, object] | None:
        if isinstance(request, Acknowledge):
            self._acknowledge(wire, request, t0_ns)
            return None
        if not isinstance(request, Take):
            return super().perform(wire, request, t0_ns)
        if request.consumer not in wire.taken:
            raise RefusedError("no-consumer", f"there is no consumer {request.consumer!r}")
        wire.taking.append(Taking(request, t0_ns))
        if wire.pulling.get(request.consumer) is False and not wire.session.waiting(request.consumer):
            wire.pulling[request.consumer] = True
            wire.session.pull(request.consumer, request.deadline_ms or -1, _now())
        return None

    def _acknowledge(self, wire: OpenWireWire, request: Acknowledge, t0_ns: int) -> None:
        ids = self._taken(wire, request)
        settled = settled_by(request.type, request.messages, wrong_end=request.wrong_end)
        first, last = ends_of(ids, open_start=request.open_start, wrong_end=request.wrong_end)
        kind, done = ACK_TYPES.index(request.type), ids[: len(settled)]
        wire.session.acknowledge_as(request.consumer, kind, first, last, done, count=len(ids), receipt=True)
        for message in settled:
            del wire.taken[request.consumer][message]
        wire.waiting[wire.session.last_command] = Waiting(request, t0_ns)

    def _taken(self, wire: OpenWireWire, request: Ack | Nack | Acknowledge) -> list[str]:
        """The ack ids of what a request names. Raises ``RefusedError`` unless its application has taken all of it."""
        taken = wire.taken.get(request.consumer, {})
        if not request.messages or any(message not in taken for message in request.messages):
            raise RefusedError("unknown-message", f"not all of {request.messages} were taken by {request.consumer!r}")
        return [taken[message] for message in request.messages]

    def arrived(self, wire: OpenWireWire, item: notice.Delivered, message: str) -> None:
        wire.tokens[item.message_id] = message
        if item.consumer in wire.pulling:
            wire.pulling[item.consumer] = False
        if item.consumer in wire.browsers:
            wire.session.take(item.consumer, _now())

    def noticed(self, wire: OpenWireWire, item: notice.Notice, t0_ns: int, t1_ns: int) -> None:
        if isinstance(item, notice.Empty):
            wire.pulling[item.consumer] = False
        elif isinstance(item, notice.Discarded) and item.consumer not in wire.browsers:
            if item.consumer in wire.pulling:
                wire.pulling[item.consumer] = True  # the library asks again by itself
            message = wire.tokens.get(item.message_id, "")
            self.answers.say(Discard(t0=t0_ns, t1=t1_ns, consumer=item.consumer, message=message, reason=item.reason))

    def served(self, wire: OpenWireWire, now_ns: int) -> None:
        """Answer the takes that can be answered."""
        left = []
        for taking in wire.taking:
            token = self._next(wire, taking.consumer)
            owed = wire.pulling.get(taking.consumer, False)
            if token is not None or (taking.deadline_ns <= now_ns and not owed) or taking.consumer not in wire.taken:
                self.answers.reply(taking.id, taking.t0_ns, ok={"message": token, "answered": not owed})
            else:
                left.append(taking)
        wire.taking = left

    def due_ns(self, wire: OpenWireWire) -> int | None:
        return min((taking.deadline_ns for taking in wire.taking), default=None)

    def forgotten(self, wire: OpenWireWire) -> None:
        for taking in wire.taking:
            self.answers.reply(taking.id, taking.t0_ns, ok={"message": None})
        wire.taking.clear()

    def _next(self, wire: OpenWireWire, consumer: str) -> str | None:
        """What the application gets now."""
        if consumer not in wire.taken:
            return None
        item, notices = wire.session.take(consumer, _now())
        now_ns = time.monotonic_ns()
        for other in notices:
            self.noticed(wire, other, wire.heard_ns, now_ns)
        if item is None:
            return None
        token = wire.tokens.get(item.message_id, "")
        wire.taken[consumer][token] = item.ack_id
        return token


def _now() -> Now:
    return Now(time.monotonic_ns(), wall_reading()[0])


def main() -> int:
    """Serve stdin and stdout."""
    OpenWireAgent(sys.stdin.fileno(), sys.stdout.fileno()).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
