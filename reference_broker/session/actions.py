"""What a node wants its edge to do: the server with sockets, the simulation with virtual links."""

from __future__ import annotations

from msgspec import Struct

from brokerproof.reference_broker.security.identity import Credentials


class Action(Struct, eq=False):
    """What the edge must do."""


class OutputReady(Action):
    """There is something to write on this connection."""

    connection: int


class Close(Action):
    """Write what is left, then close the socket.

    ``idle_ns`` is the time since the peer's last byte; ``inactive`` tells a monitor's close from the others.
    """

    connection: int
    reason: str
    idle_ns: int
    inactive: bool


class Throttle(Action):
    """Stop (``blocked``) or start again to read from a connection."""

    connection: int
    blocked: bool


class Authenticate(Action):
    """Find out who a peer is, beside the loop, and tell ``Node.admit``."""

    connection: int
    credentials: Credentials


class Answered(Action):
    """What became of an operator's request: ``count`` messages and what is ``shown``, or a refusal (``code`` and
    ``text`` not empty).
    """

    request: int
    count: int
    code: str = ""
    text: str = ""
    shown: list[str] = []


class Sync(Action):
    """Make the journal safe."""


class Log(Action):
    """A line for the broker's log."""

    level: str
    logger: str
    text: str
