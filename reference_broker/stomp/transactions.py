"""BEGIN, COMMIT and ABORT: the transactions of one connection, and the deliveries acknowledged in them.

Rules: a transaction has the client's name and belongs to its connection. After ABORT its acknowledgements have not
happened: the ack ids are good again. Nothing is redelivered: the client has the messages. What the core refuses
(``unknown-transaction``, ``duplicate-transaction``) ends the connection, so no refused COMMIT is remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.events import Begin, Commit, Event, Rollback
from brokerproof.reference_broker.stomp.headers import required

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.instant import Now
    from brokerproof.reference_broker.stomp.frames import Frame
    from brokerproof.reference_broker.stomp.session_state import SessionState


def begin(state: SessionState, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """BEGIN."""
    name = required(frame, "transaction")
    state.transactions.begin(name)
    return [Begin(state.connection, name, request=state.request(frame))]


def commit(state: SessionState, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """COMMIT."""
    name = required(frame, "transaction")
    state.transactions.end(name)
    return [Commit(state.connection, name, request=state.request(frame))]


def abort(state: SessionState, frame: Frame, now: Now) -> list[Event]:  # noqa: ARG001 - every handler takes the time
    """ABORT."""
    name = required(frame, "transaction")
    state.subscriptions.restore(state.transactions.end(name))
    return [Rollback(state.connection, name, request=state.request(frame))]


HANDLERS: Final = {"BEGIN": begin, "COMMIT": commit, "ABORT": abort}
