"""What the STOMP agent keeps of its one connection, and of requests that wait for their receipts.

Rules: plain records; ``stomp_agent.py`` fills them.
"""

from __future__ import annotations

import socket
import time

from conformance.agents.protocol import BrokerRequest
from conformance.agents.stamps import NS_PER_MS
from reference_broker.stomp.client import ClientSession
from reference_broker.stomp.codec import FrameDecoder

Stamps = dict[str, int | None]


class RefusedError(Exception):
    """The request cannot be done and nothing happened."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Waiting:
    """A request that waits for its receipt: since when, until when, and what a message of it was stamped with."""

    __slots__ = ("deadline_ns", "id", "stamps", "t0_ns")

    def __init__(self, request: BrokerRequest, t0_ns: int, stamps: Stamps | None = None) -> None:
        self.id = request.id
        self.t0_ns = t0_ns
        self.deadline_ns = t0_ns + request.deadline_ms * NS_PER_MS
        self.stamps = stamps


class Wire:
    """One connection: socket, codec, session, and the requests that wait for it."""

    __slots__ = (
        "browsers",
        "decoder",
        "empty_ns",
        "heard_ns",
        "pending",
        "refusal",
        "session",
        "socket",
        "unsent",
        "waiting",
    )

    def __init__(self, sock: socket.socket, session: ClientSession) -> None:
        self.socket = sock
        self.session = session
        self.decoder = FrameDecoder()
        #: Consumers that only look.
        self.browsers: dict[str, bool] = {}
        #: Receipt (or "connect") -> request.
        self.waiting: dict[str, Waiting] = {}
        self.unsent = bytearray()
        #: When the socket was last seen empty, and when it last brought something.
        self.empty_ns = self.heard_ns = time.monotonic_ns()
        #: The text of the broker's last ERROR.
        self.refusal = ""
