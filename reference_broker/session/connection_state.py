"""One connection, as the node sees it: its session, its monitor, and what holds it up. ``node.py`` acts on it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.effects import Credited, Dispatch, Displaced, Granted, NoMessage
from brokerproof.reference_broker.core.events import Event, Subscribe
from brokerproof.reference_broker.session.actions import OutputReady

if TYPE_CHECKING:
    from brokerproof.reference_broker.inactivity import Monitor
    from brokerproof.reference_broker.security.authority import Rights
    from brokerproof.reference_broker.security.identity import Identity
    from brokerproof.reference_broker.session.session import Session


class CommitWaiter:
    """The part of a connection that waits."""

    __slots__ = ("pending_answers", "refusing", "ticket")

    def __init__(self) -> None:
        #: The last batch that it depends on.
        self.ticket = 0
        #: How many answers wait.
        self.pending_answers = 0
        #: One of them is a refusal.
        self.refusing = False


class ConnectionState(CommitWaiter):
    """One connection."""

    __slots__ = ("address", "admitted", "announced", "blocked", "closed", "due_ns", "held", "held_messages", "identity",
                 "monitor", "number", "pending_subscribes", "ready", "rights", "session", "started")  # fmt: skip

    def __init__(self, number: int, address: str, session: Session, monitor: Monitor) -> None:
        super().__init__()
        self.number = number
        self.address = address
        self.session = session
        self.monitor = monitor
        #: The same object every time: an action is a fact about the connection, not about a frame.
        self.ready = OutputReady(number)
        self.announced = False
        #: Requests to subscribe whose answers wait; and messages that wait because no message may come before that.
        self.pending_subscribes: dict[int, bool] = {}
        self.held_messages: deque[Dispatch | NoMessage] = deque()
        self.closed = False
        self.started = False
        #: Its frames are worked on. Who it is then, and what it may do.
        self.admitted = True
        self.identity: Identity | None = None
        self.rights: Rights | None = None
        #: Flow control has stopped it; what came from it since then, or while a refusal waits.
        self.blocked = False
        self.held: deque[object] = deque()
        #: The one entry of this connection in the node's heap that counts; -1: none does.
        self.due_ns = -1

    def waiting(self) -> int:
        """How much is to be written, now or when the journal is safe."""
        return len(self.session.outbox) + self.pending_answers

    def answers(self) -> int:
        """How much of that is no message. It takes a while if much waits."""
        return self.pending_answers + sum(1 for item in self.session.outbox if not isinstance(item, Dispatch))

    def await_subscribe(self, event: Event, request: int) -> None:
        """The answer to a request must wait; if it was to subscribe, messages wait behind it."""
        if isinstance(event, Subscribe) and event.request == request:
            self.pending_subscribes[request] = True

    def tell(self, effect: NoMessage | Credited | Granted | Displaced) -> None:
        """The session is told something; that a pull, or a look, has ended not before the messages that wait."""
        if self.pending_subscribes and isinstance(effect, NoMessage):
            self.held_messages.append(effect)
        else:
            self.session.tell(effect)

    def take_undelivered(self) -> list[object]:
        """What will not be written, in order; it is no longer there. The end of a pull is no loss."""
        waiting = [*self.session.outbox, *(one for one in self.held_messages if isinstance(one, Dispatch))]
        self.session.outbox.clear()
        self.held_messages.clear()
        return waiting

    def answered(self, request: int) -> None:
        """The answer is out, and with the last one that messages wait for, they are."""
        if self.pending_subscribes.pop(request, False) and not self.pending_subscribes:
            while self.held_messages:
                effect = self.held_messages.popleft()
                if isinstance(effect, NoMessage):
                    self.session.tell(effect)
                else:
                    self.session.outbox.append(effect)
