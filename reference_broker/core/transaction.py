"""Local transactions: what a connection sends and acknowledges together.

Rules:

* A transaction belongs to one connection and is known by the client's name for it. One that nobody began, or that has
  ended, is refused with ``unknown-transaction``; one that has begun already with ``duplicate-transaction``.
* What is sent is accepted (numbered, stamped) at once and becomes visible at the commit, in the order of the sends.
* A connection that goes takes its open transactions with it: they are rolled back.

Change together: ``arrival.py``, ``settlement.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reference_broker.core.acknowledgement import Rule
    from reference_broker.core.arrival import Arrivals
    from reference_broker.core.message import Message
    from reference_broker.core.region import Region
    from reference_broker.core.settlement import Settlements
    from reference_broker.core.subscription import Consumer, Delivery


class Acknowledged:
    """What one acknowledgement in a transaction meant."""

    __slots__ = ("consumer", "deliveries", "rule")

    def __init__(self, consumer: Consumer, rule: Rule, deliveries: list[Delivery]) -> None:
        self.consumer = consumer
        self.rule = rule
        self.deliveries = deliveries


class Transaction:
    """One open transaction."""

    __slots__ = ("acknowledged", "messages")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.acknowledged: list[Acknowledged] = []


class Transactions:
    """All open transactions of the broker."""

    __slots__ = ("_arrivals", "_open", "_region", "_settlements")

    def __init__(self, region: Region, arrivals: Arrivals, settlements: Settlements) -> None:
        self._region = region
        self._arrivals = arrivals
        self._settlements = settlements
        #: connection -> name -> transaction
        self._open: dict[int, dict[str, Transaction]] = {}

    def objection(self, connection: int, name: str) -> tuple[str, str]:
        """Why nothing can be done in that transaction: (code, text); ("", "") if it is open."""
        if name in self._open.get(connection, {}):
            return "", ""
        return "unknown-transaction", f"connection {connection} has no open transaction {name!r}; begin it first"

    def begin(self, connection: int, name: str) -> tuple[str, str]:
        """Open a transaction; (code, text) if it cannot be."""
        mine = self._open.setdefault(connection, {})
        if name in mine:
            return "duplicate-transaction", f"transaction {name!r} is open already; end it or choose another name"
        mine[name] = Transaction()
        return "", ""

    def send(self, connection: int, name: str, message: Message) -> None:
        """Hold an accepted message until the commit."""
        self._open[connection][name].messages.append(message)

    def acknowledge(
        self, connection: int, name: str, consumer: Consumer, rule: Rule, deliveries: list[Delivery]
    ) -> None:
        """Hold an acknowledgement until the commit."""
        self._open[connection][name].acknowledged.append(Acknowledged(consumer, rule, deliveries))

    def commit(self, connection: int, name: str) -> None:
        """Carry everything out: acknowledgements first, then sends, as they came."""
        transaction = self._open[connection].pop(name)
        for one in transaction.acknowledged:
            self._settlements.apply(one.consumer, one.rule, one.deliveries)
        for message in transaction.messages:
            self._arrivals.admit(message)

    def rollback(self, connection: int, name: str) -> None:
        """Forget everything."""
        del self._open[connection][name]

    def forget(self, connection: int) -> None:
        """The connection is gone."""
        self._open.pop(connection, None)
