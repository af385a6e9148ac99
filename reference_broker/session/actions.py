"""What a node wants its edge to do: the server with sockets, the simulation with virtual links."""

from __future__ import annotations

from brokerproof.reference_broker.security.identity import Credentials


class Action:
    """What the edge must do."""

    __slots__ = ()


class OutputReady(Action):
    """There is something to write on this connection."""

    __slots__ = ("connection",)

    def __init__(self, connection: int) -> None:
        self.connection = connection


class Close(Action):
    """Write what is left, then close the socket.

    ``idle_ns`` is the time since the peer's last byte; ``inactive`` tells a monitor's close from the others.
    """

    __slots__ = ("connection", "idle_ns", "inactive", "reason")

    def __init__(self, connection: int, reason: str, idle_ns: int, inactive: bool) -> None:
        self.connection = connection
        self.reason = reason
        self.idle_ns = idle_ns
        self.inactive = inactive


class Throttle(Action):
    """Stop (``blocked``) or start again to read from a connection."""

    __slots__ = ("blocked", "connection")

    def __init__(self, connection: int, blocked: bool) -> None:
        self.connection = connection
        self.blocked = blocked


class Authenticate(Action):
    """Find out who a peer is, beside the loop, and tell ``Node.admit``."""

    __slots__ = ("connection", "credentials")

    def __init__(self, connection: int, credentials: Credentials) -> None:
        self.connection = connection
        self.credentials = credentials


class Answered(Action):
    """What became of an operator's request: ``count`` messages and what is ``shown``, or a refusal (``code`` and
    ``text`` not empty).
    """

    __slots__ = ("code", "count", "request", "shown", "text")

    def __init__(
        self, request: int, count: int, code: str = "", text: str = "", shown: list[str] | None = None
    ) -> None:
        self.request = request
        self.count = count
        self.shown = shown or []
        self.code = code
        self.text = text


class Sync(Action):
    """Make the journal safe."""

    __slots__ = ()


class Log(Action):
    """A line for the broker's log."""

    __slots__ = ("level", "logger", "text")

    def __init__(self, level: str, logger: str, text: str) -> None:
        self.level = level
        self.logger = logger
        self.text = text
