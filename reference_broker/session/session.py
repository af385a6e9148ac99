"""The shape that every protocol gives to the two ends of a connection, and how they all read numbers.

* A session has no clock, socket or timer. It turns the peer's frames into core events and the core's effects into
  frames on ``outbox``.
* ``outbox`` holds frames and, not yet rendered, ``Dispatch`` effects: a message becomes a frame when it is written, not
  when it is assigned.
* A session never raises on what a peer sends: it puts the protocol's error on ``outbox`` and sets ``closing``. Who owns
  the session (``node.py``) then tells the core and ends the connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.effects import Credited, Displaced, NoMessage
from brokerproof.reference_broker.inactivity import FAIL, KEEP_ALIVE
from brokerproof.reference_broker.session.notice import Closed, LogLine, Notice

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.effects import Dispatch, Granted, Refused
    from brokerproof.reference_broker.core.events import Event
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.inactivity import Monitor, Periods
    from brokerproof.reference_broker.security.identity import Credentials

MONITOR_LOGGER = "org.apache.activemq.transport.AbstractInactivityMonitor"


@mypyc_attr(allow_interpreted_subclasses=True)
class Session:
    """The broker's end of one connection, whatever it speaks."""

    __slots__ = ("beat", "closing", "connected", "connection", "keep_alive", "outbox", "periods")

    def __init__(self, connection: int, keep_alive: object, beat: object = None) -> None:
        self.connection = connection
        #: What counts as bytes but not as a command (a bare newline of STOMP); None: there is no such thing.
        self.beat = beat
        #: The frame to write when the monitor asks for a keep-alive; always this same object, so that the node can tell
        #: it from an answer.
        self.keep_alive = keep_alive
        #: Frames and Dispatch effects, in the order in which they are written.
        self.outbox: deque[object] = deque()
        #: The core was told ``Connect``, so it must be told ``Disconnect``.
        self.connected = False
        #: Set once, when the handshake is complete: what the monitor is to be started with.
        self.periods: Periods | None = None
        #: Why this connection must end; empty while it goes on.
        self.closing = ""

    def is_idle(self, frame: object) -> bool:
        """Whether a frame only proves that its sender lives: nothing is to be done and nothing answered."""
        return frame is self.beat

    def open(self) -> None:
        """The socket is there; a protocol whose broker speaks first does it here."""

    def receive(self, frame: object, now: Now) -> list[Event]:
        """One decoded frame from the peer; returns what the core must hear, in order."""
        raise NotImplementedError

    def credentials(self, frame: object) -> Credentials | None:
        """What the peer says about itself, if this is the frame that does so; None: it is another one."""
        raise NotImplementedError

    def reject(self, frame: object, text: str, code: str) -> None:
        """The peer may not come in: answer the frame that brought its credentials and end the connection."""
        raise NotImplementedError

    def render(self, dispatch: Dispatch) -> object | None:
        """The frame for a message that is being written now; None when its consumer has left in the meantime."""
        raise NotImplementedError

    def tell(self, effect: NoMessage | Credited | Granted | Displaced) -> None:
        """What is no answer to a request."""
        if isinstance(effect, NoMessage):
            self.no_message(effect.consumer)
        elif isinstance(effect, Credited):
            self.credited(effect.producer, effect.size_bytes)
        elif isinstance(effect, Displaced):
            self.connected = False
            self.closing = effect.text
        else:
            self.granted(effect)

    def no_message(self, consumer: str) -> None:
        """There is nothing (more) for a consumer of this connection, by the core's name for it."""
        raise NotImplementedError

    def accepted(self, request: int) -> None:
        """The core answered a request with yes."""
        raise NotImplementedError

    def refused(self, effect: Refused) -> None:
        """The core answered a request with no."""
        raise NotImplementedError

    def credited(self, producer: str, size_bytes: int) -> None:
        """A producer's window is free again by so much; protocols without windows have nothing to say."""

    def granted(self, effect: Granted) -> None:
        """A consumer has another prefetch than it asked for; protocols that do not tell it have nothing to say."""

    def fail(self, text: str, receipt: str = "") -> None:
        """The peer sent something unusable: say so to it and end the connection.

        ``receipt`` is the one it asked for.
        """
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Client(ABC):
    """What a client's end of a connection is in every protocol: an outbox and a monitor.

    It never closes a socket itself.

    The owner calls ``bytes_received`` for whatever arrives and then the session's ``receive``; it writes what
    ``next_output`` gives and calls ``tick`` when ``next_due_ns`` has come. A ``Closed`` notice tells it to give the
    socket up.
    """

    __slots__ = ("closed", "keep_alive", "monitor", "outbox")

    def __init__(self, keep_alive: object, monitor: Monitor) -> None:
        self.keep_alive = keep_alive
        self.monitor = monitor
        self.outbox: deque[object] = deque()
        self.closed = False

    def bytes_received(self, now_ns: int) -> None:
        """Any byte arrived."""
        self.monitor.bytes_received(now_ns)

    def heard(self, frame: object, now_ns: int) -> bool:  # noqa: ARG002 - a heart-beat of STOMP is bytes, no command
        """Take a frame that only proves that the broker lives, and asks for nothing. False: it is for ``receive``."""
        return frame is self.keep_alive

    def next_output(self, now_ns: int) -> object | None:
        """Pop the next frame to write."""
        if not self.outbox:
            return None
        frame = self.outbox.popleft()
        if frame is not self.keep_alive:
            self.monitor.frame_sent(now_ns)
        return frame

    def next_due_ns(self) -> int | None:
        """When ``tick`` is wanted; None: not at all."""
        return self.monitor.next_due_ns()

    def tick(self, now_ns: int) -> list[Notice]:
        """Run the monitor's due checks. A keep-alive appears on the outbox."""
        notices: list[Notice] = []
        due_ns = self.monitor.next_due_ns()
        while due_ns is not None and due_ns <= now_ns:
            action = self.monitor.tick(now_ns)
            notices.extend(LogLine("DEBUG", MONITOR_LOGGER, text) for text in action.debug)
            if action.kind == FAIL:
                self.stop()
                notices.append(Closed(action.reason, action.idle_ns))
            elif action.kind == KEEP_ALIVE and not self.outbox:
                self.outbox.append(self.keep_alive)
            due_ns = self.monitor.next_due_ns()
        return notices

    def stop(self) -> None:
        """The connection is over; nothing more is written or watched."""
        self.closed = True
        self.outbox.clear()
        self.monitor.stop()

    @abstractmethod
    def begin(self, transaction: str, *, receipt: bool = False) -> str:
        """Begin a transaction; returns the name under which the broker's receipt will come, as do all requests."""

    @abstractmethod
    def commit(self, transaction: str, *, receipt: bool = True) -> str:
        """What was sent and acknowledged in the transaction takes effect."""

    @abstractmethod
    def rollback(self, transaction: str, *, receipt: bool = True) -> str:
        """What was sent and acknowledged in the transaction does not take effect."""

    @abstractmethod
    def unsubscribe_durable(self, name: str, *, receipt: bool = True) -> str:
        """End a durable subscription of this client id that no consumer uses."""


def parse_long(name: str, text: str) -> int:
    """A signed 64-bit decimal number, as strictly as Java reads it.

    Raises ValueError that shows name, value and remedy.
    """
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if len(digits) <= 19 and digits.isascii() and digits.isdigit():
        number = int(text)
        if -(2**63) <= number < 2**63:
            return number
    raise ValueError(f"{name}:{text[:40]} is not a number; send a decimal integer of 64 bits")
