"""A host that speaks STOMP: ``python -m brokerproof.conformance.agents.stomp_agent``.

It gives ``loop.py`` the protocol of ``reference_broker.stomp.client``.

Known exceptions: a STOMP client never looks at the expiration of what it receives. ``auto`` acknowledgement is the
broker's doing, so it is not seen here.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Sequence
from zlib import crc32

from brokerproof.conformance.agents.answers import RefusedError
from brokerproof.conformance.agents.loop import Agent
from brokerproof.conformance.agents.protocol import (
    FEATURES,
    OWN_TEMPORARY,
    Ack,
    Connect,
    Nack,
    Send,
    Stamps,
    Subscribe,
    make_body,
    properties_of,
    stomp_stamps,
)
from brokerproof.conformance.agents.stamps import wall_reading
from brokerproof.conformance.agents.wire import Wire
from brokerproof.reference_broker.inactivity import DocumentedMonitor
from brokerproof.reference_broker.session import notice
from brokerproof.reference_broker.stomp.client import ClientSession
from brokerproof.reference_broker.stomp.frames import HEARTBEAT
from brokerproof.reference_broker.stomp.framing import StompFraming

_ACKS = {"auto": "auto", "client": "client", "individual": "client-individual"}


class StompWire(Wire):
    """A connection that speaks STOMP."""

    __slots__ = ("deliveries", "session")

    def __init__(self, sock: socket.socket, session: ClientSession) -> None:
        super().__init__(sock, StompFraming())
        self.session: ClientSession = session
        #: (consumer, message) -> its latest delivery, which an acknowledgement must name.
        self.deliveries: dict[tuple[str, str], notice.Delivered] = {}


class StompAgent(Agent[StompWire]):
    """The process."""

    name = "stomp/1"
    capabilities = ("ttl", "delay", "prefetch", "nack", "endless", "forgeries", "temporaries", *FEATURES)
    default_port = 61613

    def open(self, request: Connect, sock: socket.socket, address: str) -> StompWire:
        session = ClientSession(DocumentedMonitor(address, time.monotonic_ns()))
        session.connect(heart_beat_ms=request.heartbeat_ms, client_id=request.client_id)
        return StompWire(sock, session)

    def send(self, wire: StompWire, request: Send) -> tuple[str, Stamps]:
        expiration_ms, timestamp_ms = stomp_stamps(
            wall_reading()[0], request.ttl_ms, request.stamp, endless=request.endless
        )
        body = make_body(request.message, request.size)
        receipt = wire.session.send(
            request.dest,
            body,
            expiration_ms=expiration_ms,
            timestamp_ms=timestamp_ms,
            persistent=request.persistent,
            priority=request.priority,
            delay_ms=request.delay_ms,
            transaction=request.tx,
            group=request.group,
            reply_to=OWN_TEMPORARY if request.reply else "",
            properties=properties_of(request.kind, request.life_ms, request.forged),
            receipt=True,
        )
        return receipt, {"expiration_ms": expiration_ms, "timestamp_ms": timestamp_ms, "body": crc32(body)}

    def subscribe(self, wire: StompWire, request: Subscribe) -> str:
        return wire.session.subscribe(
            request.consumer,
            request.dest,
            ack=_ACKS[request.ack],
            prefetch=request.prefetch,
            dispatch_async=request.dispatch == "async",
            selector=request.selector,
            durable=request.durable,
            no_local=request.no_local,
            exclusive=request.exclusive,
            priority=request.priority,
            browser=request.browser,
            receipt=True,
        )

    def settle(self, wire: StompWire, request: Ack | Nack) -> tuple[str, dict[str, object]]:
        found = [wire.deliveries.get((request.consumer, message)) for message in request.messages]
        known = [delivery for delivery in found if delivery is not None]
        if len(known) != len(found) or not known:
            raise RefusedError(
                "unknown-message", f"not all of {request.messages} were delivered to {request.consumer!r}"
            )
        tx = request.tx if isinstance(request, Ack) else ""
        settle = wire.session.ack if isinstance(request, Ack) else wire.session.nack
        if not (isinstance(request, Ack) and request.mode == "cumulative"):
            for delivery in known[:-1]:
                settle(delivery, transaction=tx)
        return settle(known[-1], transaction=tx, receipt=True), {}

    def detach(self, wire: StompWire, consumer: str) -> None:
        wire.session.unsubscribe(consumer)

    def farewell(self, wire: StompWire) -> None:
        wire.session.disconnect()

    def receive(self, wire: StompWire, frame: object, now_ns: int) -> list[notice.Notice]:
        return wire.session.receive(frame, now_ns)

    def last_of(self, frames: Sequence[object]) -> int:
        # A broker ends a frame with an end of line, which reads as a beat but came with the frame.
        return max((index for index, frame in enumerate(frames) if frame is not HEARTBEAT), default=-1)

    def arrived(self, wire: StompWire, item: notice.Delivered, message: str) -> None:
        if item.consumer not in wire.browsers:
            wire.deliveries[item.consumer, message] = item


def main() -> int:
    """Serve stdin and stdout."""
    StompAgent(sys.stdin.fileno(), sys.stdout.fileno()).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
