"""Dialogues: what a raw peer says to a broker word by word, and what it must hear. One TOML file per protocol.

* A dialogue's turns are said one after another; a turn ends when as much was heard as it wants. ``hello`` is said
  before the others, unless the first one ``greets`` itself.
* ``says``: STOMP's bytes but for the NUL at the end; of OpenWire a line per command, its kind and its fields as JSON
  (``agents/dialogue.py``). ``{n}`` is the dialogue's number in its probe, ``{me}`` the peer's own, ``{version}`` that
  of STOMP, ``{topic}`` and ``{queue}`` the dialogue's own, ``{c}`` and ``{c-1}`` the numbers of the turn's last
  commands; other names in braces are headers of the last MESSAGE, or fields of the last dispatch, ``former-`` in front
  of them of the one before. Written and not written down are ``{host}``, ``{login}`` (both headers), the ``{user}``,
  the ``{passcode}``, and of that all but the last letter (``{cut}``).
* ``hears``: what must come, in any order, and nothing else. Each is a name, or several with ``|``; then lines that it
  must have (of one with ``*`` what is around it), or with ``!`` none that begins so; after an empty line the body.
* Who refuses a turn that is an ``offer`` does not offer what the rest is about. ``needs``: "room" for a message,
  "stamps" that nobody changes, a "delay" that is offered as JMS has it, "logins" that the broker asks for.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Final, Literal

import msgspec

VERSIONS: Final = ("1.2", "1.1", "1.0")
HELLO: Final = "hello"
#: The topic of a dialogue where none is given: one that nobody else sees, and that leaves nothing behind.
TOPIC: Final = "/temp-topic/d{n}"
QUEUE: Final = "/temp-queue/d{n}"
#: So long an answer is waited for.
PATIENCE_NS: Final = 2_000_000_000
#: What ends a connection.
FATAL: Final = ("ERROR", "ConnectionError")


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that is said. ``ends``: it is the last; the broker hangs up, or may if it refuses. ``owed``: nobody may
    refuse it. ``never``: what must not be heard any more. ``tidies``: it only takes off what was sent.
    """

    says: str = ""
    hears: tuple[str, ...] = ()
    offer: bool = False
    ends: bool = False
    owed: bool = False
    never: tuple[str, ...] = ()
    tidies: bool = False


class Dialogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See the module's header. ``alone``: what others do is heard as well, so nobody draws it. ``classic``: ActiveMQ's
    words, not the protocol's. ``specified``: the versions of STOMP
    whose specification says itself, with a MUST, what is heard.
    """

    name: str
    turns: tuple[Turn, ...]
    versions: tuple[str, ...] = VERSIONS
    needs: tuple[Literal["room", "stamps", "delay", "logins"], ...] = ()
    greets: bool = False
    classic: bool = False
    alone: bool = False
    specified: tuple[str, ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    dialogue: list[Dialogue]


@cache
def dialogues(via: str) -> dict[str, Dialogue]:
    """Those of a protocol, by name."""
    text = resources.files(__name__).joinpath(f"{via}.toml").read_text("utf-8")
    return {one.name: one for one in msgspec.convert(tomllib.loads(text), _File).dialogue}


@cache
def choices(via: str, version: str, *, greets: bool, logins: bool = False) -> tuple[str, ...]:
    """The names of those that may be said in a version, first or later; ``logins``: those that need them, or others."""
    found = [one for one in dialogues(via).values() if not one.alone and ("logins" in one.needs) == logins]
    return tuple(one.name for one in found if version in one.versions and one.greets == greets and one.name != HELLO)


class Wanted:
    """One thing that must be heard."""

    __slots__ = ("body", "lines", "what", "without")

    def __init__(self, text: str, words: dict[str, str]) -> None:
        head, end, body = filled(text, words).partition("\n\n")
        self.what, *lines = head.split("\n")
        self.lines = [line for line in lines if not line.startswith("!")]
        self.without = tuple(line[1:] for line in lines if line.startswith("!"))
        self.body = body if end else None


def filled(text: str, words: dict[str, str]) -> str:
    """A text with its names in braces replaced; what is no known name stays."""
    for name, value in ({"topic": TOPIC, "queue": QUEUE} | words).items():
        text = text.replace(f"{{{name}}}", value)
    return text
