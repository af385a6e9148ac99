"""A host that speaks STOMP: ``python -m brokerproof.conformance.agents.stomp_agent``.

It gives ``loop.py`` the library of ``stomp_library.py``.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence

from brokerproof.conformance.agents import own_time
from brokerproof.conformance.agents.dialect import Dialect, DialectFraming
from brokerproof.conformance.agents.loop import Agent
from brokerproof.conformance.agents.protocol import FEATURES
from brokerproof.conformance.agents.stomp_library import StompLibrary
from brokerproof.conformance.agents.wire import Wire
from brokerproof.conformance.experiment.operations import Connect
from brokerproof.reference_broker.inactivity import DocumentedMonitor
from brokerproof.reference_broker.stomp.client import ClientSession
from brokerproof.reference_broker.stomp.frames import HEARTBEAT, VERSIONS
from brokerproof.reference_broker.stomp.framing import StompFraming


class PunctualMonitor(DocumentedMonitor):
    """Keeps the promise of the hello from then on: a broker may count silence from there."""

    def start(self, now_ns: int, read_ms: int, write_ms: int, initial_delay_ms: int) -> None:
        super().start(now_ns, read_ms, write_ms, initial_delay_ms)
        self.beat_from(now_ns)


class StompAgent(Agent):
    """The process."""

    name = "stomp/1"
    capabilities = ("ttl", "delay", "prefetch", "nack", "endless", "forgeries", "headers", "temporaries", *FEATURES)
    default_port = 61613

    def open(self, request: Connect, sock: socket.socket, address: str) -> Wire:
        session = ClientSession(PunctualMonitor(address, own_time.now_ns()))
        session.connect(
            heart_beat_ms=request.heartbeat_ms,
            client_id=request.client_id,
            host=request.virtual_host or "localhost",
            login=request.login,
            passcode=request.passcode,
            versions=request.versions or VERSIONS,
        )
        if request.names is None:
            return Wire(sock, StompFraming(), StompLibrary(session))
        dialect = Dialect(request.names, request.client_id)
        return Wire(sock, DialectFraming(dialect), StompLibrary(session, lacks=dialect.lacks))

    def last_of(self, frames: Sequence[object]) -> int:
        # A broker ends a frame with an end of line, which reads as a beat but came with the frame.
        return max((index for index, frame in enumerate(frames) if frame is not HEARTBEAT), default=-1)


def main() -> int:
    """Serve stdin and stdout."""
    StompAgent(sys.stdin.fileno(), sys.stdout.fileno()).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
