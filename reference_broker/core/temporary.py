"""Temporary destinations: they live as long as the connection that made them.

* A connection makes one by name (DestinationInfo), again without error; another's is ``foreign-destination``.
* Only its connection may consume from it (``foreign-destination``); everybody may send to it.
* It ends with its connection, or when that removes it (not while somebody consumes: ``destination-in-use``); its
  messages go with it, without dead letters.
* Sending to, consuming from or removing one that does not exist is refused with ``unknown-destination``.
* Other destinations can be made and removed in the same way, by anybody; a topic with durable subscriptions is in use.
* A producer of one name makes what it stands for, except temporary destinations; what nobody can send to is refused.
* A temporary destination has no durable subscription, is covered by no wildcard, and is swept like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.events import AddProducer, RemoveDestination, RemoveProducer
from brokerproof.reference_broker.core.matching import fault, is_temporary, members
from brokerproof.reference_broker.core.topic import Topic

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.events import AddDestination
    from brokerproof.reference_broker.core.region import Region

FOREIGN = "foreign-destination"
IN_USE = "destination-in-use"
UNKNOWN_DESTINATION = "unknown-destination"


@mypyc_attr(allow_interpreted_subclasses=True)
class Ownership:
    """Policy ``temporary``."""

    def may_consume(self, owner: int, connection: int) -> bool:
        """Whether a connection may consume from another's temporary destination: no."""
        return owner == connection

    def ends(self, owner: int, connection: int) -> bool:
        """Whether a temporary destination ends when ``connection`` goes."""
        return owner == connection


class Temporaries:
    """Who owns which temporary destination."""

    __slots__ = ("_region", "owners")

    def __init__(self, region: Region) -> None:
        self._region = region
        self.owners: dict[str, int] = {}

    def missing(self, name: str) -> str:
        """The text of a refusal if a temporary destination does not exist; "" for all that can be used."""
        if is_temporary(name) and name not in self.owners:
            return f"temporary destination {name!r} does not exist, or no longer; ask its owner for another"
        return ""

    def objection(self, connection: int, asked: str) -> tuple[str, str]:
        """Why a connection may not consume from that name: (code, text)."""
        for name in members(asked):
            text = self.missing(name)
            if text:
                return UNKNOWN_DESTINATION, text
            owner = self.owners.get(name)
            if owner is not None and not self._region.policies.temporary.may_consume(owner, connection):
                return FOREIGN, f"{name} belongs to connection {owner}; only that may consume from it"
        return "", ""

    def change(self, event: AddDestination) -> tuple[str, str]:
        """Do what a client asks for; (code, text) if that cannot be."""
        if isinstance(event, RemoveDestination):
            return self.remove(event.connection, event.destination)
        if isinstance(event, AddProducer):
            return self._send_to(event)
        if isinstance(event, RemoveProducer):
            registry = self._region.connection_registry
            registry.producer_left(registry.connections[event.connection], event.producer)
            return "", ""
        return self.add(event.connection, event.destination)

    def _send_to(self, event: AddProducer) -> tuple[str, str]:
        """Make sure that there is what a producer names; (code, text) if that cannot be."""
        names = members(event.destination)
        for name in names:
            wrong = fault(name)
            if wrong:
                return "bad-destination", wrong
            missing = self.missing(name)
            if missing:
                return UNKNOWN_DESTINATION, missing
        for name in names:
            self._region.destination(name)
        self._region.connection_registry.producer_came(event.connection, event.producer, event.destination)
        return "", ""

    def add(self, connection: int, name: str) -> tuple[str, str]:
        """Make a destination; (code, text) if that cannot be."""
        wrong = fault(name)
        if wrong:
            return "bad-destination", wrong
        if is_temporary(name):
            owner = self.owners.setdefault(name, connection)
            if owner != connection:
                return FOREIGN, f"{name} belongs to connection {owner}; choose another name"
        self._region.destination(name)
        return "", ""

    def remove(self, connection: int, name: str) -> tuple[str, str]:
        """Remove a destination; (code, text) if that cannot be."""
        destination = self._region.destinations.get(name)
        if destination is None:
            return UNKNOWN_DESTINATION, f"destination {name!r} does not exist; nothing to remove"
        owner = self.owners.get(name, connection)
        if owner != connection:
            return FOREIGN, f"{name} belongs to connection {owner}; only that may remove it"
        watched = destination.subscriptions or destination.onlookers()
        if watched or (isinstance(destination, Topic) and destination.durables):
            return IN_USE, f"{name} has consumers or durable subscriptions; close them first"
        self._remove(name)
        return "", ""

    def left(self, connection: int) -> None:
        """A connection is gone, and its consumers are."""
        rules = self._region.policies.temporary
        for name, owner in list(self.owners.items()):
            if rules.ends(owner, connection):
                self._remove(name)

    def _remove(self, name: str) -> None:
        self._region.remove(self._region.destinations[name])
