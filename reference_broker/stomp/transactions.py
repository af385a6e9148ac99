"""BEGIN, COMMIT and ABORT: the transactions of one connection, and the deliveries acknowledged in them.

Rules: a transaction has the client's name and belongs to its connection. After ABORT its acknowledgements have not
happened: the ack ids are good again. Nothing is redelivered: the client has the messages. What the core refuses
(``unknown-transaction``, ``duplicate-transaction``) ends the connection, so no refused COMMIT is remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.events import Begin, Commit, Event, Rollback
from brokerproof.reference_broker.stomp.frames import Frame, StompProtocolError
from brokerproof.reference_broker.stomp.headers import required

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.stomp.broker import BrokerSession
    from brokerproof.reference_broker.stomp.subscriptions import Unsettled


class Transactions:
    """Name -> what was acknowledged in it."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[str, list[Unsettled]] = {}

    def begin(self, name: str) -> None:
        """A transaction is open."""
        self._open.setdefault(name, [])

    def end(self, name: str) -> list[Unsettled]:
        """It is no longer; what was acknowledged in it."""
        return self._open.pop(name, [])

    def hold(self, frame: Frame, deliveries: list[Unsettled]) -> None:
        """An ACK in a transaction. Raises StompProtocolError if it is not open."""
        name = frame.headers["transaction"]
        held = self._open.get(name)
        if held is None:
            raise StompProtocolError(f"{frame.command} transaction:{name} is not open; send BEGIN first")
        held += deliveries


def begin(session: BrokerSession, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """BEGIN."""
    name = required(frame, "transaction")
    session.transactions.begin(name)
    return [Begin(session.connection, name, request=session.request(frame))]


def commit(session: BrokerSession, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """COMMIT."""
    name = required(frame, "transaction")
    session.transactions.end(name)
    return [Commit(session.connection, name, request=session.request(frame))]


def abort(session: BrokerSession, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """ABORT."""
    name = required(frame, "transaction")
    session.subscriptions.restore(session.transactions.end(name))
    return [Rollback(session.connection, name, request=session.request(frame))]


HANDLERS: Final = {"BEGIN": begin, "COMMIT": commit, "ABORT": abort}
