"""Who is connected, under which client id, and the advisories about comings and goings: of connections, consumers,
producers and destinations.

* A client id that must be the client's own (``Connect.exclusive``: JMS) is refused with ``client-id-in-use`` while
  another connection has it, exclusive or not.
* A connection that names itself (``identity``) and was here before displaces its predecessor (``Displaced``), whose
  consumers go first, as ActiveMQ does for a client that reconnects before its old socket is missed.
* Advisories are published only while somebody consumes them; a new consumer of ``Queue``, ``Topic``, ``TempQueue``,
  ``TempTopic``, ``Consumer.…`` or ``Producer.…`` first gets those about what exists already: ActiveMQ's clients need
  that to know the temporary destinations of others, and its ``DestinationSource`` to list what there is.
* A producer is told of if it named its destination when it came; of several, once at each.

Known exceptions: ActiveMQ publishes these advisories whether anybody listens or not, and who consumes from
``topic://>`` counts as a listener there; here only one who names advisory topics does. One who names them by a wildcard
is told what exists when the first advisory of that topic is made. A consumer of a wildcard is told of once per
destination that it really consumes from. With its connection a producer leaves after the connection's temporary
destinations, and at one that is gone nothing is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.advisory import (
    CONNECTION,
    CONSUMER,
    PRODUCER,
    is_advisory,
    subjects,
    topic_about,
    topic_of,
    topic_of_destination,
)
from brokerproof.reference_broker.core.effects import Displaced
from brokerproof.reference_broker.core.matching import is_temporary, members

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.events import Connect
    from brokerproof.reference_broker.core.message import Property
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Consumer, Subscription
    from brokerproof.reference_broker.core.topic import Topic

IN_USE: Final = "client-id-in-use"


class Connection:
    """What the broker knows about one connection."""

    __slots__ = ("client_id", "consumers", "identity", "principal", "producers")

    def __init__(self, client_id: str, identity: str = "", user: str = "") -> None:
        self.client_id = client_id
        self.identity = identity
        #: Whose rights it has: its user's, or by its own name.
        self.principal = user or client_id
        self.consumers: dict[str, Consumer] = {}
        #: Producers that named a destination: the core's name for each -> the destinations.
        self.producers: dict[str, list[str]] = {}


class PresenceAdvisory:
    """Base of what an advisory of this room is about. ``gone``: it is not there any more."""

    __slots__ = ("gone",)

    def __init__(self, gone: bool) -> None:
        self.gone = gone

    def properties(self) -> dict[str, Property]:
        """What it says beside its subject."""
        return {}


class ConnectionAdvisory(PresenceAdvisory):
    """A connection."""

    __slots__ = ("client_id", "identity")

    def __init__(self, connection: Connection, gone: bool) -> None:
        super().__init__(gone)
        self.client_id = connection.client_id
        self.identity = connection.identity


class ConsumerAdvisory(PresenceAdvisory):
    """A consumer at a destination, which has ``count`` of them now. ``name`` is the core's name for it."""

    __slots__ = ("count", "destination", "name", "prefetch", "selector")

    def __init__(
        self, name: str, destination: str, prefetch: int, count: int, gone: bool, *, selector: str = ""
    ) -> None:
        super().__init__(gone)
        self.name = name
        self.destination = destination
        self.prefetch = prefetch
        self.count = count
        self.selector = selector

    def properties(self) -> dict[str, Property]:
        """How many there are."""
        return {"consumerCount": self.count}


class ProducerAdvisory(PresenceAdvisory):
    """A producer for a destination, which has ``count`` of them now. ``name`` is the core's name for it."""

    __slots__ = ("count", "destination", "name")

    def __init__(self, name: str, destination: str, count: int, gone: bool) -> None:
        super().__init__(gone)
        self.name = name
        self.destination = destination
        self.count = count

    def properties(self) -> dict[str, Property]:
        """How many there are."""
        return {"producerCount": self.count}


class DestinationAdvisory(PresenceAdvisory):
    """A destination, temporary or not."""

    __slots__ = ("destination",)

    def __init__(self, destination: str, gone: bool) -> None:
        super().__init__(gone)
        self.destination = destination


class ConnectionRegistry:
    """See the module's header."""

    __slots__ = ("_region", "connections", "identities", "named", "producers")

    def __init__(self, region: Region) -> None:
        self._region = region
        self.connections: dict[int, Connection] = {}
        #: Client id -> the connections that have it, oldest first; no empty ones.
        self.named: dict[str, dict[int, Connection]] = {}
        #: Identity -> the connection that has it.
        self.identities: dict[str, int] = {}
        #: Destination -> the producers that named it, oldest first; no empty ones.
        self.producers: dict[str, dict[str, bool]] = {}

    def objection(self, event: Connect) -> tuple[str, str]:
        """Why a connection cannot come: (code, text); ("", "") if nothing is wrong with it."""
        if event.exclusive:
            predecessor = self.predecessor(event)
            for number in self.named.get(event.client_id, ()):
                if number != predecessor:
                    name = self._region.config.name
                    text = f"Broker: {name} - Client: {event.client_id} already connected from connection {number}"
                    return IN_USE, f"{text}; close that one or use another client id"
        return "", ""

    def predecessor(self, event: Connect) -> int:
        """The connection whose place it takes; 0: it is new here."""
        return self.identities.get(event.identity, 0) if event.identity else 0

    def client_id(self, connection: int) -> str:
        """What a connection calls itself; "" if it has no name, or is gone."""
        found = self.connections.get(connection)
        return "" if found is None else found.client_id

    def principal(self, connection: int) -> str:
        """Whose rights a connection has; "" if it has no name, or is gone."""
        found = self.connections.get(connection)
        return "" if found is None else found.principal

    def consumers(self) -> int:
        """How many consumers there are, wherever they have places."""
        return sum(len(connection.consumers) for connection in self.connections.values())

    def displaced(self, predecessor: int, successor: int) -> None:
        """A connection has taken another's place."""
        text = f"connection {successor} takes over from connection {predecessor}"
        self._region.effects.append(Displaced(predecessor, text))

    def connected(self, event: Connect) -> None:
        """A connection is there."""
        connection = self.connections[event.connection] = Connection(event.client_id, event.identity, event.user)
        self.named.setdefault(event.client_id, {})[event.connection] = connection
        if event.identity:
            self.identities[event.identity] = event.connection
        self._advise(topic_of(CONNECTION), ConnectionAdvisory(connection, False))

    def disconnected(self, number: int, connection: Connection) -> None:
        """A connection is gone, with everything that it had."""
        namesakes = self.named[connection.client_id]
        del namesakes[number]
        if not namesakes:
            del self.named[connection.client_id]
        if self.identities.get(connection.identity) == number:
            del self.identities[connection.identity]
        for producer in list(connection.producers):
            self.producer_left(connection, producer)
        self._advise(topic_of(CONNECTION), ConnectionAdvisory(connection, True))

    def producer_came(self, number: int, producer: str, asked: str) -> None:
        """Somebody is going to send to a destination, or to several."""
        names = list(dict.fromkeys(name for name in members(asked) if not is_advisory(name)))
        self.connections[number].producers[producer] = names
        for name in names:
            self.producers.setdefault(name, {})[producer] = True
            self._advise(topic_about(PRODUCER, name), self._producer_advisory(producer, name, gone=False))

    def producer_left(self, connection: Connection, producer: str) -> None:
        """It has gone, or its connection has; one that is not there has."""
        for name in connection.producers.pop(producer, ()):
            here = self.producers[name]
            del here[producer]
            if not here:
                del self.producers[name]
            if not is_temporary(name) or name in self._region.destinations:
                self._advise(topic_about(PRODUCER, name), self._producer_advisory(producer, name, gone=True))

    # -- what is told

    def consumer_changed(self, subscription: Subscription, *, gone: bool) -> None:
        """A consumer has come to a destination, or left it."""
        destination = subscription.destination
        if not is_advisory(destination.name):
            topic = topic_about(CONSUMER, destination.name)
            self._advise(topic, self._consumer_advisory(subscription, gone=gone))

    def destination(self, name: str, *, gone: bool) -> None:
        """A destination is there, or gone."""
        if not is_advisory(name):
            self._advise(topic_of_destination(name), DestinationAdvisory(name, gone))

    def advise_existing(self, subscription: Subscription, topic: Topic) -> None:
        """Somebody has begun to listen at an advisory topic: tell what is there already."""
        region = self._region
        if not region.policies.advisories.advises_existing():
            return
        for about in self._existing(topic.name):
            topic.tell(subscription, region.advisory(topic.name, about, about.properties()))

    def _existing(self, topic: str) -> list[PresenceAdvisory]:
        """What is there of what a topic tells; connections are not told of again."""
        region = self._region
        found: list[PresenceAdvisory] = [
            DestinationAdvisory(name, False)
            for name in region.destinations
            if topic == topic_of_destination(name) and not is_advisory(name)
        ]
        for name in subjects(CONSUMER, topic):
            destination: Destination | None = region.destinations.get(name)
            if destination is not None and not is_advisory(name):
                found += [self._consumer_advisory(one, gone=False) for one in destination.subscriptions.values()]
        for name in subjects(PRODUCER, topic):
            found += [self._producer_advisory(one, name, gone=False) for one in self.producers.get(name, ())]
        return found

    def _consumer_advisory(self, subscription: Subscription, *, gone: bool) -> ConsumerAdvisory:
        consumer, destination = subscription.consumer, subscription.destination
        count = len(destination.subscriptions)
        return ConsumerAdvisory(
            consumer.name, destination.name, consumer.prefetch, count, gone, selector=consumer.selector
        )

    def _producer_advisory(self, producer: str, destination: str, *, gone: bool) -> ProducerAdvisory:
        return ProducerAdvisory(producer, destination, len(self.producers.get(destination, ())), gone)

    def _advise(self, topic: str, about: PresenceAdvisory) -> None:
        region = self._region
        rules = region.policies.advisories
        if not rules.advises_presence(about.gone):
            return
        if topic not in region.destinations:
            if not region.attachments.awaits_advisory(topic):
                return
            region.destination(topic)
            if not about.gone and rules.advises_existing() and not isinstance(about, ConnectionAdvisory):
                return  # who waited for this topic has just been told what exists, and so of this
        region.advise(topic, about, about.properties())
