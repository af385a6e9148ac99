"""STOMP's frame as an object, its versions, and ActiveMQ's way of writing destinations.

No bytes here: those are ``codec.py``'s.

The simulation passes these objects over its virtual links, the server encodes them; both ends of both worlds see the
same headers.
"""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.core.message import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC
from brokerproof.reference_broker.session.framing import FramingError

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


class StompProtocolError(FramingError):
    """The *peer* broke the protocol. The text shows the value and the remedy."""


def negotiate_version(accepted: str | None) -> str | None:
    """The best version in an ``accept-version`` header; a missing header means 1.0; None: there is none in common."""
    if accepted is None:
        return V10
    offered = [version.strip() for version in accepted.split(",")]
    for version in VERSIONS:
        if version in offered:
            return version
    return None


#: STOMP's prefix -> the core's. ``/remote-temp-queue/`` is another connection's temporary queue, as ActiveMQ calls it.
_PREFIXES: Final = {
    "queue": QUEUE,
    "topic": TOPIC,
    "temp-queue": TEMP_QUEUE,
    "temp-topic": TEMP_TOPIC,
    "remote-temp-queue": TEMP_QUEUE,
    "remote-temp-topic": TEMP_TOPIC,
}
_STOMP_PREFIXES: Final = {
    QUEUE: "/queue/",
    TOPIC: "/topic/",
    TEMP_QUEUE: "/remote-temp-queue/",
    TEMP_TOPIC: "/remote-temp-topic/",
}


def core_destination(text: str) -> str:
    """``/queue/N`` to ``queue://N``. Raises StompProtocolError for anything that is not a queue or topic.

    Of a composite ``/queue/A,/topic/B`` each part has its own prefix; one without has that of the part before it.
    Patterns pass: what they mean is the core's business. ``/temp-queue/N`` gives ``temp-queue://N``: the session knows
    that the name is the connection's own.
    """
    if "," not in text:
        return _core_part(text, text)
    parts: list[str] = []
    prefix = ""
    for part in text.split(","):
        part = part.strip()  # noqa: PLW2901 - blanks around commas are nobody's name
        if not part.startswith("/") and prefix:
            part = prefix + part  # noqa: PLW2901 - as above
        parts.append(_core_part(part, text))
        prefix = part[: part.index("/", 1) + 1]
    return ",".join(parts)


def _core_part(text: str, whole: str) -> str:
    kind, _, name = text[1:].partition("/")
    prefix = _PREFIXES.get(kind)
    if prefix is None or not name or text[0] != "/":
        raise StompProtocolError(f"destination {whole!r} is unknown; use /queue/NAME or /topic/NAME")
    if "?" in name:
        raise StompProtocolError(f"destination {whole!r} has options; only a SUBSCRIBE or a SEND may have some")
    return prefix + name


def is_own_temporary(text: str) -> bool:
    """Whether a STOMP destination names a temporary one of the connection that says so."""
    return text.startswith("/temp-")


def stomp_destination(name: str) -> str:
    """``queue://N`` to ``/queue/N``, part by part of a composite. A temporary one is somebody else's, unless it is
    written in STOMP's way already.
    """
    if name.startswith(QUEUE) and "," not in name:
        return "/queue/" + name[len(QUEUE) :]
    if name.startswith("/"):
        return name
    return ",".join(_stomp_part(part) for part in name.split(","))


def _stomp_part(name: str) -> str:
    prefix, separator, rest = name.partition("://")
    return _STOMP_PREFIXES.get(prefix + separator, "/topic/") + (rest or name)


def plain_destination(text: str) -> str:
    """Like ``core_destination`` for text that a broker sent, each of several; what cannot be understood is returned as
    it is.

    So is a temporary destination of our own (``/temp-queue/N``): only the broker knows its real name.
    """
    if "," in text:
        return ",".join([plain_destination(one) for one in text.split(",")])
    if text.startswith("/queue/"):
        return QUEUE + text[len("/queue/") :]
    if text.startswith("/topic/"):
        return TOPIC + text[len("/topic/") :]
    if text.startswith("/remote-temp-queue/"):
        return TEMP_QUEUE + text[len("/remote-temp-queue/") :]
    if text.startswith("/remote-temp-topic/"):
        return TEMP_TOPIC + text[len("/remote-temp-topic/") :]
    return text
