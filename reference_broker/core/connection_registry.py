"""Who is connected, under which client id, and the advisories about connections, consumers and temporary destinations.

* A client id that must be the client's own (``Connect.exclusive``: JMS) is refused with ``client-id-in-use`` while
  another connection has it, exclusive or not.
* A connection that names itself (``identity``) and was here before displaces its predecessor (``Displaced``), whose
  consumers go first, as ActiveMQ does for a client that reconnects before its old socket is missed.
* Advisories are published only while somebody consumes them; a new consumer of ``TempQueue``, ``TempTopic`` or
  ``Consumer.…`` first gets those about what exists already: ActiveMQ's clients need that to know the temporary
  destinations of others.

Known exceptions: ActiveMQ publishes these advisories whether anybody listens or not, and who consumes from
``topic://>`` counts as a listener there; here only one who names advisory topics does. ActiveMQ's producer and
destination advisories are not made. A consumer of a wildcard is told of once per destination that it really consumes
from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.advisory import (
    CONNECTION,
    CONSUMER,
    TEMP_QUEUE_EVENT,
    TEMP_TOPIC_EVENT,
    is_advisory,
    subjects,
    topic_about,
    topic_of,
)
from brokerproof.reference_broker.core.effects import Displaced
from brokerproof.reference_broker.core.message import TEMP_QUEUE

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.events import Connect
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Consumer, Subscription
    from brokerproof.reference_broker.core.topic import Topic

IN_USE: Final = "client-id-in-use"
_TEMPORARY_TOPICS: Final = (topic_of(TEMP_QUEUE_EVENT), topic_of(TEMP_TOPIC_EVENT))


class Connection:
    """What the broker knows about one connection."""

    __slots__ = ("client_id", "consumers", "identity")

    def __init__(self, client_id: str, identity: str = "") -> None:
        self.client_id = client_id
        self.identity = identity
        self.consumers: dict[str, Consumer] = {}


class PresenceAdvisory:
    """Base of what an advisory of this room is about. ``gone``: it is not there any more."""

    __slots__ = ("gone",)

    def __init__(self, gone: bool) -> None:
        self.gone = gone


class ConnectionAdvisory(PresenceAdvisory):
    """A connection."""

    __slots__ = ("client_id", "identity")

    def __init__(self, connection: Connection, gone: bool) -> None:
        super().__init__(gone)
        self.client_id = connection.client_id
        self.identity = connection.identity


class ConsumerAdvisory(PresenceAdvisory):
    """A consumer at a destination, which has ``count`` of them now. ``name`` is the core's name for it."""

    __slots__ = ("count", "destination", "name", "prefetch")

    def __init__(self, name: str, destination: str, prefetch: int, count: int, gone: bool) -> None:
        super().__init__(gone)
        self.name = name
        self.destination = destination
        self.prefetch = prefetch
        self.count = count


class DestinationAdvisory(PresenceAdvisory):
    """A temporary destination."""

    __slots__ = ("destination",)

    def __init__(self, destination: str, gone: bool) -> None:
        super().__init__(gone)
        self.destination = destination


class ConnectionRegistry:
    """See the module's header."""

    __slots__ = ("_region", "connections", "identities", "named")

    def __init__(self, region: Region) -> None:
        self._region = region
        self.connections: dict[int, Connection] = {}
        #: Client id -> the connections that have it, oldest first; no empty ones.
        self.named: dict[str, dict[int, Connection]] = {}
        #: Identity -> the connection that has it.
        self.identities: dict[str, int] = {}

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

    def consumers(self) -> int:
        """How many consumers there are, wherever they have places."""
        return sum(len(connection.consumers) for connection in self.connections.values())

    def displaced(self, predecessor: int, successor: int) -> None:
        """A connection has taken another's place."""
        text = f"connection {successor} takes over from connection {predecessor}"
        self._region.effects.append(Displaced(predecessor, text))

    def connected(self, event: Connect) -> None:
        """A connection is there."""
        connection = self.connections[event.connection] = Connection(event.client_id, event.identity)
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
        self._advise(topic_of(CONNECTION), ConnectionAdvisory(connection, True))

    # -- what is told

    def consumer_changed(self, subscription: Subscription, *, gone: bool) -> None:
        """A consumer has come to a destination, or left it."""
        destination = subscription.destination
        if not is_advisory(destination.name):
            topic = topic_about(CONSUMER, destination.name)
            self._advise(topic, self._consumer_advisory(subscription, gone=gone))

    def destination(self, name: str, *, gone: bool) -> None:
        """A temporary destination is there, or gone."""
        self._advise(self._topic_of(name), DestinationAdvisory(name, gone))

    def advise_existing(self, subscription: Subscription, topic: Topic) -> None:
        """Somebody has begun to listen at an advisory topic: tell what is there already."""
        region = self._region
        if not region.policies.advisories.advises_existing():
            return
        if topic.name in _TEMPORARY_TOPICS:
            for name in region.temporaries.owners:
                if topic.name == self._topic_of(name):
                    topic.tell(subscription, region.advisory(topic.name, DestinationAdvisory(name, False)))
        for name in subjects(CONSUMER, topic.name):
            destination = region.destinations.get(name)
            if destination is not None and not is_advisory(name):
                for other in list(destination.subscriptions.values()):
                    about = self._consumer_advisory(other, gone=False)
                    topic.tell(subscription, region.advisory(topic.name, about, {"consumerCount": about.count}))

    def _topic_of(self, temporary: str) -> str:
        return topic_of(TEMP_QUEUE_EVENT if temporary.startswith(TEMP_QUEUE) else TEMP_TOPIC_EVENT)

    def _consumer_advisory(self, subscription: Subscription, *, gone: bool) -> ConsumerAdvisory:
        consumer, destination = subscription.consumer, subscription.destination
        count = len(destination.subscriptions)
        return ConsumerAdvisory(consumer.name, destination.name, consumer.prefetch, count, gone)

    def _advise(self, topic: str, about: PresenceAdvisory) -> None:
        region = self._region
        if not region.policies.advisories.advises_presence(about.gone):
            return
        if topic in region.destinations or region.attachments.awaits_advisory(topic):
            if isinstance(about, ConsumerAdvisory):
                region.advise(topic, about, {"consumerCount": about.count})
            else:
                region.advise(topic, about)
