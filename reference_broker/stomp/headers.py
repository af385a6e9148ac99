"""Reading the headers that a client has sent: what is missing or unusable is said with its value and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reference_broker.session import parse_long
from reference_broker.stomp.frames import V10, StompProtocolError

if TYPE_CHECKING:
    from reference_broker.stomp.frames import Frame

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


def switch(headers: dict[str, str], name: str) -> bool:
    """``true`` or ``false``, which is also the default."""
    text = headers.get(name)
    if text is None or text in {"false", ""}:
        return False
    if text == "true":
        return True
    raise StompProtocolError(f"{name}:{text} is neither true nor false; send one of them")


def refuse_unsupported(frame: Frame, names: dict[str, str]) -> None:
    """Raise for the first header that asks for something that does not exist. ``names``: header -> the remedy."""
    for name, value in frame.headers.items():
        if name in names and value not in HARMLESS:
            raise StompProtocolError(f"{frame.command} {name}:{value} is not supported; {names[name]}")


def representable(name: str, value: str, version: str) -> bool:
    """False for a header that this version cannot write: NUL never, line ends and colons not without escaping."""
    if "\0" in name or "\0" in value or not name:
        return False
    return version != V10 or not ("\n" in name or ":" in name or "\n" in value)
