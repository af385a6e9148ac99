"""What an agent with a socket keeps of its one connection, and of requests that wait for their receipts.

Rules: plain records; ``loop.py`` fills them, a protocol's agent adds its session.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from brokerproof.conformance.agents.protocol import BrokerRequest, Stamps
from brokerproof.conformance.agents.stamps import NS_PER_MS

if TYPE_CHECKING:
    from brokerproof.reference_broker.session.framing import Framing
    from brokerproof.reference_broker.session.session import Client


class Waiting:
    """A request that waits for its receipt: since when, until when, what a message of it was stamped with, and what
    else the answer says.
    """

    __slots__ = ("also", "deadline_ns", "id", "stamps", "t0_ns")

    def __init__(
        self,
        request: BrokerRequest,
        t0_ns: int,
        stamps: Stamps | None = None,
        also: dict[str, object] | None = None,
    ) -> None:
        self.id = request.id
        self.t0_ns = t0_ns
        self.deadline_ns = t0_ns + request.deadline_ms * NS_PER_MS
        self.stamps = stamps
        self.also = also if also is not None else {}


class Wire:
    """One connection: its socket and the requests that wait for it. ``session`` is the protocol's."""

    __slots__ = ("browsers", "empty_ns", "framing", "heard_ns", "hello", "refusal", "socket", "unsent", "waiting")

    session: Client

    def __init__(self, sock: socket.socket, framing: Framing) -> None:
        self.socket = sock
        self.framing = framing
        #: Under which name the request to connect waits.
        self.hello = "connect"
        #: Consumers that only look.
        self.browsers: dict[str, bool] = {}
        #: Receipt (or ``hello``) -> request.
        self.waiting: dict[str, Waiting] = {}
        self.unsent = bytearray()
        #: When the socket was last seen empty, and when it last brought something.
        self.empty_ns = self.heard_ns = time.monotonic_ns()
        #: The text of the broker's last error.
        self.refusal = ""
