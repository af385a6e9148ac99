"""Which beans a broker has at this moment: their names, and how one is found.

* Beans are made when somebody asks; nothing is kept, so nothing is ever out of date.
* One bean with a plain name is found without looking at the others; patterns walk over all of them.
* A destination's bean is there as long as the destination; that of a durable subscription as long as it, with or
  without a consumer; a connection's from its handshake to its end.

Known exception: names whose encoded form differs from what they are (temporary destinations) are found by a walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.management.bean import Bean
from brokerproof.reference_broker.management.broker_view import TYPES, BrokerView
from brokerproof.reference_broker.management.brokers import BROKER, HEALTH, RUNTIME
from brokerproof.reference_broker.management.clients import (
    CONNECTION,
    CONNECTOR,
    DURABLE,
    QUEUE_CONSUMER,
    TOPIC_CONSUMER,
)
from brokerproof.reference_broker.management.destinations import QUEUE_KIND, TOPIC_KIND
from brokerproof.reference_broker.management.object_names import ObjectName, ObjectNamePattern
from brokerproof.reference_broker.management.subscriptions import subscriptions_of

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.destination import Destination
    from brokerproof.reference_broker.core.subscription import Subscription

_PREFIXES: Final = {kind: prefix for prefix, kind in TYPES.items()}


class BeanRegistry:
    """See the module's header."""

    def __init__(self, view: BrokerView) -> None:
        self.view = view

    def find(self, asked: ObjectNamePattern) -> Bean | None:
        """The bean of a plain name."""
        quick = self._quick(asked.properties)
        if quick is not None and asked.matches(quick.name):
            return quick
        return next((bean for bean in self.all() if asked.matches(bean.name)), None)

    def _quick(self, properties: dict[str, str]) -> Bean | None:
        """The bean that the properties probably mean."""
        prefix = _PREFIXES.get(properties.get("destinationType", ""))
        if prefix is None:
            return next(self._singles()) if len(properties) == len(self.view.properties) else None
        destination = self.view.region.destinations.get(prefix + properties.get("destinationName", ""))
        return None if destination is None or "endpoint" in properties else self._destination(destination)

    def all(self) -> Iterator[Bean]:
        """Every bean there is, in a stable order. What happens to the broker meanwhile must not disturb it."""
        yield from self._singles()
        for destination in list(self.view.region.destinations.values()):
            yield self._destination(destination)
            yield from map(self._consumer, subscriptions_of(destination))
        for name, uri in list(self.view.connectors.items()):
            yield Bean(self.view.connector_name(name), CONNECTOR, (name, uri))
        for state in self.view.connections():
            yield Bean(self.view.connection_name(state), CONNECTION, state)
            yield Bean(self.view.connection_name(state, "remoteAddress"), CONNECTION, state)

    def _singles(self) -> Iterator[Bean]:
        yield Bean(self.view.broker_name(), BROKER, None)
        yield Bean(ObjectName({**self.view.properties, "service": "Health"}), HEALTH, None)
        yield Bean(ObjectName({"type": "Runtime"}, "java.lang"), RUNTIME, None)

    def _destination(self, destination: Destination) -> Bean:
        kind = QUEUE_KIND if destination.is_queue else TOPIC_KIND
        return Bean(self.view.destination_name(destination), kind, destination)

    def _consumer(self, subscription: Subscription) -> Bean:
        if subscription.durable is not None:
            kind = DURABLE
        else:
            kind = QUEUE_CONSUMER if subscription.destination.is_queue else TOPIC_CONSUMER
        return Bean(self.view.consumer_name(subscription), kind, subscription)
