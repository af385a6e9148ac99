"""One connection, as the node sees it: its session, its monitor, and what holds it up. ``node.py`` acts on it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from reference_broker.actions import OutputReady
from reference_broker.safekeeping import Waiter

if TYPE_CHECKING:
    from reference_broker.inactivity import Monitor
    from reference_broker.session import Session


class Link(Waiter):
    """One connection."""

    __slots__ = (
        "address",
        "announced",
        "blocked",
        "closed",
        "due_ns",
        "held",
        "monitor",
        "number",
        "ready",
        "session",
        "started",
    )

    def __init__(self, number: int, address: str, session: Session, monitor: Monitor) -> None:
        super().__init__()
        self.number = number
        self.address = address
        self.session = session
        self.monitor = monitor
        #: The same object every time: an action is a fact about the connection, not about a frame.
        self.ready = OutputReady(number)
        self.announced = False
        self.closed = False
        self.started = False
        #: Flow control has stopped it; what came from it since then, or while a refusal waits.
        self.blocked = False
        self.held: deque[object] = deque()
        #: The one entry of this connection in the node's heap that counts; -1: none does.
        self.due_ns = -1
