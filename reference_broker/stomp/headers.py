"""Headers as both ends see them: which of them a message's properties are not, and how a broker reads what a client has
sent. What is missing or unusable is said with its value and the remedy.

Rules: a header that asks for something that does not exist is refused. ActiveMQ passes over the ``activemq.`` options
of a SUBSCRIBE that it does not know, which the client cannot have meant; the words of other brokers get ActiveMQ's.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.session.session import parse_long
from brokerproof.reference_broker.stomp.frames import V10, StompProtocolError

if TYPE_CHECKING:
    from brokerproof.reference_broker.stomp.frames import Frame

#: Headers of SEND and MESSAGE that are not properties: the frame's own, and those with a field of their own in the
#: message.
MESSAGE_HEADERS: Final = frozenset(
    {
        "AMQ_SCHEDULED_DELAY",
        "JMSXGroupID",
        "JMSXGroupSeq",
        "ack",
        "browser",
        "content-length",
        "correlation-id",
        "destination",
        "expires",
        "message-id",
        "original-destination",
        "persistent",
        "priority",
        "receipt",
        "redelivered",
        "reply-to",
        "subscription",
        "timestamp",
        "transaction",
        "type",
    }
)
#: Values of a header that ask for nothing.
HARMLESS: Final = frozenset({"", "false", "0"})


def required(frame: Frame, name: str) -> str:
    """A header that must be there."""
    value = frame.headers.get(name, "")
    if not value:
        raise StompProtocolError(f"{frame.command} lacks the header {name!r}; add it")
    return value


def number(headers: dict[str, str], name: str, default: int) -> int:
    """A 64-bit number."""
    text = headers.get(name)
    return default if text is None else parse_long(name, text)


def switch(headers: dict[str, str], name: str, default: bool = False) -> bool:
    """``true`` or ``false``; nothing is the default."""
    text = headers.get(name)
    if not text:
        return default
    if text in {"true", "false"}:
        return text == "true"
    raise StompProtocolError(f"{name}:{text} is neither true nor false; send one of them")


def refuse_unsupported(frame: Frame, names: dict[str, str]) -> None:
    """Raise for the first header that asks for something that does not exist. ``names``: header -> the remedy."""
    for name, value in frame.headers.items():
        if name in names and value not in HARMLESS:
            raise StompProtocolError(f"{frame.command} {name}:{value} is not supported; {names[name]}")


def refuse_unknown(frame: Frame, prefix: str, known: frozenset[str]) -> None:
    """Raise for the first header with a prefix that is ours which is not one of ``known``."""
    for name, value in frame.headers.items():
        if name.startswith(prefix) and name not in known:
            endings = {one.removeprefix(prefix): one for one in sorted(known)}
            near = difflib.get_close_matches(name.removeprefix(prefix), endings, 1)
            remedy = f"did you mean {endings[near[0]]}?" if near else f"one of {', '.join(sorted(known))}"
            raise StompProtocolError(f"{frame.command} {name}:{value} is unknown; {remedy}")


def writable(text: str) -> str:
    """A text of another protocol as a header can write it: NUL has no spelling in any version."""
    return text.replace("\0", "?")


def representable(name: str, value: str, version: str) -> bool:
    """False for a header that this version cannot write: NUL never, line ends and colons not without escaping."""
    if "\0" in name or "\0" in value or not name:
        return False
    return version != V10 or not ("\n" in name or ":" in name or "\n" in value)
