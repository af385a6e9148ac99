"""What somebody may do to which destination (ActiveMQ's authorizationPlugin).

* A permission names destinations (a name or a pattern, as everywhere) and the groups that may read (consume, browse),
  write (send) and administer (create, delete). ``*`` is everybody who was let in.
* All permissions that cover a destination count together, as in ActiveMQ's map; what none of them grants is refused.
* A composite destination is allowed if each part is. Of a wildcard every destination that it can mean must be covered
  by one grant: ``queue://A.*`` is readable by whom ``queue://A.>`` is granted. ActiveMQ also lets those subscribe who
  may read a part of it.
* Who sends to, or consumes from, a destination that does not exist creates it, so he needs admin as well.
* Temporary destinations are free: only the connection that has made one can consume from it or delete it, and whoever
  was told its name may answer to it. ``temporary`` restricts who may create, use and answer.
* Without permissions everybody who was let in may do everything.

Known exception: acknowledging and what the broker itself does (dead letters, virtual topics, composite destinations
that are configured) is not checked: whoever was let to consume or to send has caused it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from brokerproof.reference_broker.core.events import (
    AddDestination,
    AddProducer,
    Event,
    RemoveDestination,
    Send,
    Subscribe,
)
from brokerproof.reference_broker.core.matching import is_temporary, is_wild, members, split
from brokerproof.reference_broker.security.identity import Identity

NOT_AUTHORIZED: Final = "not-authorized"
READ: Final = "read"
WRITE: Final = "write"
ADMIN: Final = "admin"
EVERYBODY: Final = "*"
#: How many answers one connection remembers; a client that names ever new destinations must not fill the memory.
_REMEMBERED: Final = 1000
_TEXTS: Final = {
    READ: "is not authorized to read from",
    WRITE: "is not authorized to write to",
    ADMIN: "is not authorized to create or delete",
}


class Permission:
    """Who may do what to the destinations that ``match`` covers."""

    __slots__ = ("groups", "match")

    def __init__(
        self, match: str, *, read: Sequence[str] = (), write: Sequence[str] = (), admin: Sequence[str] = ()
    ) -> None:
        self.match = match
        self.groups = {READ: frozenset(read), WRITE: frozenset(write), ADMIN: frozenset(admin)}

    def grants(self, identity: Identity, right: str) -> bool:
        """Whether somebody has a right here."""
        groups = self.groups[right]
        return EVERYBODY in groups or not groups.isdisjoint(identity.groups)


class Authority:
    """The permissions of one broker. ``temporary`` None: temporary destinations are free."""

    __slots__ = ("permissions", "temporary")

    def __init__(self, permissions: Sequence[Permission], temporary: Permission | None = None) -> None:
        self.permissions = permissions
        self.temporary = temporary

    def allows(self, identity: Identity, right: str, destination: str) -> bool:
        """Whether somebody has a right on one destination or wildcard."""
        if is_temporary(destination):
            return self.temporary is None or self.temporary.grants(identity, right)
        return any(
            permission.grants(identity, right) and encloses(permission.match, destination)
            for permission in self.permissions
        )


class Rights:
    """What the peer of one connection may do. ``exists`` says whether there is such a destination."""

    __slots__ = ("_allowed", "_authority", "_exists", "identity")

    def __init__(self, identity: Identity, authority: Authority, exists: Callable[[str], bool]) -> None:
        self.identity = identity
        self._authority = authority
        self._exists = exists
        self._allowed: set[tuple[str, str]] = set()

    def objection(self, event: Event) -> str:
        """Why an event must not reach the core, in a sentence with the remedy; "" if it may."""
        judge = _JUDGES.get(type(event))
        return "" if judge is None else judge(self, event)

    def _send(self, event: Send) -> str:
        return self._uses(WRITE, event.message.destination)

    def _produce(self, event: AddProducer) -> str:
        return self._uses(WRITE, event.destination)

    def _subscribe(self, event: Subscribe) -> str:
        return self._uses(READ, event.destination)

    def _add(self, event: AddDestination) -> str:
        return self._creates(event.destination)

    def _remove(self, event: RemoveDestination) -> str:
        return self._needs(ADMIN, event.destination)

    def _uses(self, right: str, name: str) -> str:
        for destination in members(name):
            wrong = self._needs(right, destination)
            if not wrong and not is_wild(destination) and not is_temporary(destination):
                wrong = self._creates(destination)
            if wrong:
                return wrong
        return ""

    def _creates(self, destination: str) -> str:
        return "" if self._exists(destination) else self._needs(ADMIN, destination)

    def _needs(self, right: str, destination: str) -> str:
        asked = (right, destination)
        if asked in self._allowed:
            return ""
        if not self._authority.allows(self.identity, right, destination):
            text = f"User {self.identity.user} {_TEXTS[right]}: {destination}"
            return f"{text}; grant {right} on it to one of the user's groups"
        if len(self._allowed) >= _REMEMBERED:
            self._allowed.clear()
        self._allowed.add(asked)
        return ""


def encloses(grant: str, wanted: str) -> bool:
    """Whether everything that ``wanted`` (a name or a pattern) can mean is covered by ``grant``."""
    grant_prefix, grant_name = split(grant)
    prefix, name = split(wanted)
    if grant_prefix and grant_prefix != prefix:
        return False
    granted, asked = grant_name.split("."), name.split(".")
    open_end = asked[-1] == ">"
    if open_end:
        asked.pop()
    if granted[-1] == ">":
        granted.pop()
        if len(asked) < len(granted):
            return False
        asked = asked[: len(granted)]
    elif open_end:
        return False
    return len(asked) == len(granted) and all(g in ("*", a) for g, a in zip(granted, asked, strict=True))


# A judge takes the event that it stands beside, which the type of a table cannot say.
_JUDGES: Final[dict[type[Event], Callable[[Rights, Any], str]]] = {
    Send: Rights._send,
    Subscribe: Rights._subscribe,
    AddDestination: Rights._add,
    AddProducer: Rights._produce,
    RemoveDestination: Rights._remove,
}
