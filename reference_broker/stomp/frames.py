"""STOMP's frame as an object, its versions, and ActiveMQ's way of writing destinations.

No bytes here: those are ``codec.py``'s.

The simulation passes these objects over its virtual links, the server encodes them; both ends of both worlds see the
same headers.
"""

from __future__ import annotations

from typing import Final

from reference_broker.core.message import QUEUE, TOPIC

V10: Final = "1.0"
V11: Final = "1.1"
V12: Final = "1.2"
#: Best first.
VERSIONS: Final = (V12, V11, V10)

CLIENT_COMMANDS: Final = frozenset(
    {
        "CONNECT",
        "STOMP",
        "SEND",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "ACK",
        "NACK",
        "BEGIN",
        "COMMIT",
        "ABORT",
        "DISCONNECT",
    }
)
SERVER_COMMANDS: Final = frozenset({"CONNECTED", "MESSAGE", "RECEIPT", "ERROR"})
#: STOMP 1.2, "Body": only these may have one.
BODY_COMMANDS: Final = frozenset({"SEND", "MESSAGE", "ERROR"})
#: STOMP 1.2, "Value Encoding": these are never escaped, for the sake of STOMP 1.0 servers.
UNESCAPED_COMMANDS: Final = frozenset({"CONNECT", "STOMP", "CONNECTED"})


class Frame:
    """One STOMP frame with unescaped headers.

    Of a repeated header the first counts (STOMP 1.2, "Repeated Header Entries").
    """

    __slots__ = ("body", "command", "headers")

    def __init__(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        self.command = command
        self.headers = headers
        self.body = body

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Frame)
            and self.command == other.command
            and self.headers == other.headers
            and self.body == other.body
        )

    __hash__ = None  # type: ignore[assignment]  # a frame holds a dict: comparable, never a key

    def __repr__(self) -> str:
        return f"Frame({self.command!r}, {self.headers!r}, {self.body!r})"


class Heartbeat:
    """A bare end of line between frames."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "HEARTBEAT"


HEARTBEAT: Final = Heartbeat()


class StompProtocolError(Exception):
    """The *peer* broke the protocol. The text shows the value and the remedy.

    ``frames`` are those that were complete before the broken one in the same bytes; ``receipt`` is the broken frame's,
    if it asked for one.
    """

    def __init__(self, text: str, *, receipt: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.receipt = receipt
        self.frames: list[Frame | Heartbeat] = []


def negotiate_version(accepted: str | None) -> str | None:
    """The best version in an ``accept-version`` header; a missing header means 1.0; None: there is none in common."""
    if accepted is None:
        return V10
    offered = [version.strip() for version in accepted.split(",")]
    for version in VERSIONS:
        if version in offered:
            return version
    return None


def core_destination(text: str) -> str:
    """``/queue/N`` to ``queue://N``. Raises StompProtocolError for anything that is not a queue or topic.

    Patterns and lists pass: the core refuses them, whatever the protocol.
    """
    kind, _, name = text[1:].partition("/")
    if not text.startswith("/") or kind not in {"queue", "topic"} or not name:
        raise StompProtocolError(f"destination {text!r} is unknown; use /queue/NAME or /topic/NAME")
    if "?" in name:
        raise StompProtocolError(f"destination {text!r} has options, which are not supported yet; use a plain name")
    return (QUEUE if kind == "queue" else TOPIC) + name


def stomp_destination(name: str) -> str:
    """``queue://N`` to ``/queue/N``."""
    return "/queue/" + name[len(QUEUE) :] if name.startswith(QUEUE) else "/topic/" + name[len(TOPIC) :]


def plain_destination(text: str) -> str:
    """Like ``core_destination`` for text that a broker sent; what is not a queue or topic is returned as it is."""
    if text.startswith("/queue/"):
        return QUEUE + text[len("/queue/") :]
    if text.startswith("/topic/"):
        return TOPIC + text[len("/topic/") :]
    return text
