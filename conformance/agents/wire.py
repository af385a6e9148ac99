"""What an agent with a socket keeps of its one connection, and of requests that wait for their receipts.

Rules: plain records; ``loop.py`` fills them.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from brokerproof.conformance.agents.protocol import Request
from brokerproof.conformance.agents.stamps import NS_PER_MS, Arrivals

if TYPE_CHECKING:
    from brokerproof.conformance.agents.library import Library, Stamps
    from brokerproof.reference_broker.session.framing import Framing
    from brokerproof.reference_broker.session.notice import Failed


class Waiting:
    """A request that waits: since when, until when, what a message of it was stamped with, what else the answer says,
    and an error of the broker's that names no request, if this was the only one.
    """

    __slots__ = ("also", "deadline_ns", "error", "id", "stamps", "t0_ns")

    def __init__(
        self,
        request: Request,
        t0_ns: int,
        *,
        stamps: Stamps | None = None,
        also: Mapping[str, object] | None = None,
        deadline_ms: int | None = None,
    ) -> None:
        self.id = request.id
        self.t0_ns = t0_ns
        self.deadline_ns = t0_ns + (request.deadline_ms if deadline_ms is None else deadline_ms) * NS_PER_MS
        self.stamps = stamps
        self.also = also or {}
        self.error: Failed | None = None


class Wire:
    """One connection: its library, its socket and the requests that wait for it."""

    def __init__(self, sock: socket.socket, framing: Framing, library: Library) -> None:
        self.socket = sock
        self.framing = framing
        self.library = library
        #: Receipt (or the library's ``hello``) -> request.
        self.waiting: dict[str, Waiting] = {}
        #: Applications that wait for a message: (consumer, request).
        self.taking: list[tuple[str, Waiting]] = []
        self.unsent = bytearray()
        self.arrivals = Arrivals()
        #: When it last brought something.
        self.heard_ns = self.arrivals.earliest_ns
        #: When bytes that made no frame whole were told of.
        self.partial_ns = 0
        #: The text of the broker's last error.
        self.refusal = ""
