"""What a translation must remember of one connection: who speaks, the agreed version, and structures that recur.

At the broker's end a name *is* the identifier that the client chose, as a text. At a client's end names are its own
choice; ``ClientContext`` gives them numbers.
"""

from __future__ import annotations

from brokerproof.reference_broker.openwire.translation.messages import Renderer
from brokerproof.reference_broker.openwire.translation.names import (
    connection_data,
    consumer_data,
    consumer_text,
    transaction_data,
)
from brokerproof.reference_broker.openwire.wire import ids
from brokerproof.reference_broker.openwire.wire.kinds import Data


class Context:
    """The broker's end."""

    __slots__ = ("_consumers", "connection_id", "renderer", "version")

    def __init__(self, connection_id: str = "") -> None:
        self.connection_id = connection_id
        self.version = 1
        self.renderer = Renderer()
        self._consumers: dict[str, Data] = {}

    def destination(self, name: str) -> Data | None:
        """The structure of ``queue://N``; None of ""."""
        return self.renderer.destinations.data(name)

    def consumer(self, name: str) -> Data:
        """The identifier of a consumer. Raises ``WireError``."""
        found = self._consumers.get(name)
        if found is None:
            found = self._consumers[name] = self._identify(name)
        return found

    def consumer_name(self, data: object) -> str:
        """The name behind an identifier."""
        return consumer_text(data)

    def transaction(self, name: str) -> Data | None:
        """The identifier of a transaction; None of ""."""
        return transaction_data(name)

    def forget(self, consumer: str) -> None:
        """A consumer has gone."""
        self._consumers.pop(consumer, None)

    def _identify(self, name: str) -> Data:
        return consumer_data(name)


class ClientContext(Context):
    """A client's end: consumers and transactions are numbered in the order in which they are first named."""

    __slots__ = ("_names", "_transactions")

    def __init__(self, connection_id: str) -> None:
        super().__init__(connection_id)
        self._names: dict[int, str] = {}
        self._transactions: dict[str, int] = {}

    def consumer_name(self, data: object) -> str:
        number = data.values[2] if isinstance(data, Data) and data.kind is ids.CONSUMER_ID else None
        return self._names[number] if isinstance(number, int) and number in self._names else consumer_text(data)

    def transaction(self, name: str) -> Data | None:
        if not name:
            return None
        number = self._transactions.setdefault(name, len(self._transactions) + 1)
        return Data(ids.LOCAL_TRANSACTION_ID, [number, connection_data(self.connection_id)])

    def _identify(self, name: str) -> Data:
        number = len(self._names) + 1
        self._names[number] = name
        return Data(ids.CONSUMER_ID, [self.connection_id, 1, number])
