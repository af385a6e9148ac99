"""Destinations: what a program declares its own to be, and the names of those that a broker makes.

Nothing is read from a name that a program chose. Names that brokers choose say what they are (``ActiveMQ.…``): advisory
topics, the dead-letter queue for all, and dead-letter queues that belong to one source.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

#: The shared dead-letter queue, in the suite's words; worlds translate it for their broker.
DEAD_LETTERS: Final = "ActiveMQ.DLQ"
ADVISORIES: Final = "ActiveMQ.Advisory."
#: What a wildcard consumer consumes from: all queues, or all topics, of the program. Dead letters are not part of them.
ALL_QUEUES: Final = "q*"
ALL_TOPICS: Final = "t*"

Kind = Literal["queue", "topic", "temporary", "composite", "virtual"]


class Destination(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One that a program uses.

    What is sent to a ``composite`` goes to each of its parts (``of``). A ``virtual`` topic is a topic whose parts are
    queues that consume from it. A ``temporary`` queue belongs to a ``host``, which makes one on each of its connections
    and tells others of it by ``reply-to``.
    """

    name: str
    kind: Kind
    of: list[Destination] = []
    host: str = ""


def queues(*names: str) -> list[Destination]:
    """Queues of these names."""
    return [Destination(name, "queue") for name in names]


def topics(*names: str) -> list[Destination]:
    """Topics of these names."""
    return [Destination(name, "topic") for name in names]


class Destinations:
    """What the destinations of one run are, by name. A name that nobody has declared is a queue's, unless a broker
    gave it.
    """

    def __init__(self, declared: Iterable[Destination]) -> None:
        self.declared: list[Destination] = []
        self._known: dict[str, Destination] = {}
        #: Queue -> the virtual topic that it consumes from.
        self._fed: dict[str, str] = {}
        for one in declared:
            self.declare(one)

    def declare(self, one: Destination) -> None:
        """One more."""
        self.declared.append(one)
        self._learn(one)
        self._known[one.name] = one

    def _learn(self, one: Destination) -> None:
        self._known.setdefault(one.name, one)
        for part in one.of:
            self._learn(part)
            if one.kind == "virtual":
                self._fed[part.name] = one.name

    def kind(self, name: str) -> Kind:
        """What it is; a pattern is what it covers."""
        known = self._known.get(name)
        if known is not None:
            return known.kind
        return "topic" if name == ALL_TOPICS or name.startswith(ADVISORIES) else "queue"

    def is_topic(self, name: str) -> bool:
        """Whether it is a topic."""
        return self.kind(name) in {"topic", "virtual"}

    def parts(self, name: str) -> list[str]:
        """Where what is sent there goes: its parts, if it is composite."""
        known = self._known.get(name)
        return [name] if known is None or known.kind != "composite" else [part.name for part in known.of]

    def virtual_topic(self, name: str) -> str:
        """The virtual topic that it is, or consumes from; "" for all others."""
        return name if self.kind(name) == "virtual" else self._fed.get(name, "")

    def pattern(self, name: str) -> str:
        """The pattern that covers it and all others of its sort."""
        return ALL_TOPICS if self.is_topic(name) else ALL_QUEUES

    def temporary_of(self, host: str) -> str:
        """The temporary queue of a host; declared, if it was not."""
        for one in self._known.values():
            if one.kind == "temporary" and one.host == host:
                return one.name
        self.declare(Destination(f"~{host}", "temporary", host=host))
        return f"~{host}"

    def owner(self, name: str) -> str:
        """The host of a temporary queue; "" for all others."""
        known = self._known.get(name)
        return "" if known is None else known.host


def is_pattern(name: str) -> bool:
    """Whether it stands for all queues or all topics of the program."""
    return name in {ALL_QUEUES, ALL_TOPICS}


def is_aside(name: str) -> bool:
    """Whether only the broker puts messages there, and not on the shared dead-letter queue."""
    return name.startswith("ActiveMQ.") and name != DEAD_LETTERS


def own_dead_letters_of(source: str, *, topic: bool = False) -> str:
    """The dead-letter queue of one source."""
    return f"{DEAD_LETTERS}.{'Topic' if topic else 'Queue'}.{source}"


def expiries_of(dest: str, *, topic: bool = False) -> str:
    """The advisory topic that tells of what expires on a destination."""
    return f"{ADVISORIES}Expired.{'Topic' if topic else 'Queue'}.{dest}"


def presence_of(dest: str, *, topic: bool = False) -> str:
    """The advisory topic that tells which consumers of a destination come and go."""
    return f"{ADVISORIES}Consumer.{'Topic' if topic else 'Queue'}.{dest}"
